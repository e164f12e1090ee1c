//! `adaptive`: a controller that chooses the scheduler. It notes arrivals and completions, and asks [`Policy`] at regular times
//! which candidate should be in force. The block layer then exchanges the scheduler; the controller stays.
//!
//! Source: FSL-25-07, *Towards Machine Learning-Based I/O Scheduling* (2025), for switching by workload; the trials are ours.

use std::sync::Arc;

use dumbwaiter_block::{
    Adjustment, Context, ControlSetting, Controller, Effects, Event, Handover, Io, IoTag, Nanos, Op, RequestId,
    Scheduler, Scope, Setup, Stack, State, Traits,
};
use dumbwaiter_learn::{Classifier, IssueOrder};

use crate::adaptive_settings as settings;
pub use crate::adaptive_settings::TUNABLES;
use crate::switching::{
    Arrival, By, Completion, Decision, Goal, Kind, Policy, Prior, Reason, ScoreTable, Settings, Tick, Work,
};

/// Shortest slot of a trial on flash, which completes in it what a disk completes in seconds.
const FLASH_SLOT_MIN: Nanos = Nanos::from_ms(50);

/// Builds a candidate.
type Build = Arc<dyn Fn(Setup) -> Box<dyn Scheduler> + Send + Sync>;

/// A scheduler to choose from.
#[derive(Clone)]
pub struct Candidate {
    /// Its name with settings.
    pub name: String,
    /// Builds it for a device.
    pub build: Build,
}

/// The candidates to choose from, the method of choice and the goal.
#[derive(Clone)]
pub struct Plan {
    /// The method of choice.
    pub by: By,
    /// The metric to improve.
    pub goal: Goal,
    /// Drain the device at an exchange.
    pub freeze: bool,
    /// The candidates; at least one.
    pub candidates: Arc<[Candidate]>,
    /// Names the load from what completes; used with `table`.
    pub classifier: Option<Arc<Classifier>>,
    /// How good the candidates were for known loads.
    pub table: Option<Arc<ScoreTable>>,
}

impl Plan {
    fn prior(&self, setup: &Setup) -> Prior {
        let Some(table) = &self.table else { return Prior::default() };
        let names: Vec<&str> = self.candidates.iter().map(|candidate| candidate.name.as_str()).collect();
        let kind = Kind { rotational: setup.rotational, depth: setup.commands() };
        table.prior(kind, &names, self.goal, self.classifier.as_ref().map(|classifier| classifier.classes()))
    }
}

/// Counters of the parts of the mean signature, in millionths: the columns of a throughput table's rows.
pub const OBSERVED_LOAD: [&str; 4] =
    ["load_sequential_ppm", "load_writers_ppm", "load_log_size_ppm", "load_log_tasks_ppm"];

/// Counter of the mean of the outstanding I/Os of random tasks, in millionths.
pub const OBSERVED_OUTSTANDING: &str = "load_log_outstanding_ppm";

/// Counters of the classifier's mean posterior, in millionths, by number of the class.
pub const OBSERVED_CLASSES: [&str; dumbwaiter_learn::MAX_CLASSES] = [
    "class_0_ppm",
    "class_1_ppm",
    "class_2_ppm",
    "class_3_ppm",
    "class_4_ppm",
    "class_5_ppm",
    "class_6_ppm",
    "class_7_ppm",
    "class_8_ppm",
    "class_9_ppm",
    "class_10_ppm",
    "class_11_ppm",
    "class_12_ppm",
    "class_13_ppm",
    "class_14_ppm",
    "class_15_ppm",
];

#[derive(Clone, Copy, Default)]
struct Counters {
    trial_switches: u64,
    better: u64,
    reverts: u64,
    ticks: u64,
}

/// See the module documentation.
pub struct Adaptive {
    plan: Plan,
    setup: Setup,
    policy: Policy,
    /// The candidate in force.
    in_force: usize,
    /// An exchange that it asked for is under way.
    exchanging: bool,
    /// Exchanges of the scheduler so far, whoever asked for them.
    exchanges: u32,
    work: Work,
    /// By request: exchanges before it was issued, and its distance from the one issued before.
    issued: Vec<(u32, i64)>,
    /// Of requests issued, for a classifier.
    order: IssueOrder,
    next_tick: Option<Nanos>,
    counters: Counters,
}

impl Adaptive {
    /// The controller with the scheduler to begin with: the one that Linux would choose, `none` for several hardware queues, else
    /// `mq-deadline`; the first candidate where that is none of them.
    pub fn stack(setup: Setup, plan: &Plan) -> Stack {
        let usual = if setup.hw_queues > 1 { "none" } else { "mq-deadline" };
        let first = plan.candidates.iter().position(|c| c.name == usual).unwrap_or(0);
        let defaults = Settings::default();
        let slot_min = if setup.rotational { defaults.slot_min } else { FLASH_SLOT_MIN };
        let settings = Settings { by: plan.by, goal: plan.goal, slot_min, ..defaults };
        let mut policy = Policy::new(plan.candidates.len(), first, settings, plan.prior(&setup));
        if let Some(classifier) = &plan.classifier {
            policy = policy.with_classifier(Arc::clone(classifier));
        }
        let controller = Adaptive {
            policy,
            plan: plan.clone(),
            setup,
            in_force: first,
            exchanging: false,
            exchanges: 0,
            work: Work::default(),
            issued: Vec::new(),
            order: IssueOrder::default(),
            next_tick: None,
            counters: Counters::default(),
        };
        Stack { scheduler: controller.build(first), controllers: vec![Box::new(controller)] }
    }

    fn build(&self, candidate: usize) -> Box<dyn Scheduler> {
        (self.plan.candidates[candidate].build)(self.setup)
    }

    /// Is a request in the device that an earlier scheduler sent?
    fn inherits(&self, ctx: &Context<'_>) -> bool {
        let earlier =
            |id: RequestId| self.issued.get(id.index()).is_none_or(|(exchanges, _)| *exchanges != self.exchanges);
        ctx.requests.iter().any(|(id, r)| r.state == State::Issued && r.io.op != Op::Flush && earlier(id))
    }

    fn name_of(&self, candidate: usize) -> &str {
        &self.plan.candidates[candidate].name
    }
}

impl Controller for Adaptive {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn chooses_scheduler(&self) -> bool {
        true
    }

    fn arrives(&mut self, io: &Io, ctx: &Context<'_>) {
        if self.next_tick.is_none() {
            self.policy.resume(ctx.now);
            self.next_tick = Some(ctx.now + self.policy.settings().period);
        }
        let arrival = Arrival { task: io.task.0, write: io.op != Op::Read, sector: io.sector, sectors: io.sectors };
        self.policy.arrive(ctx.now, arrival);
    }

    fn issued(&mut self, id: RequestId, ctx: &Context<'_>, _out: &mut Effects) {
        if id.index() >= self.issued.len() {
            self.issued.resize(id.index() + 1, (0, 0));
        }
        let request = &ctx.requests[id];
        let mut delta = 0;
        if self.policy.classifies() && matches!(request.io.op, Op::Read | Op::Write) {
            delta = self.order.delta(request.sector);
            self.order.issued(request.sector, request.end());
        }
        self.issued[id.index()] = (self.exchanges, delta);
    }

    fn completed(&mut self, id: RequestId, ctx: &Context<'_>, _out: &mut Effects) {
        let request = &ctx.requests[id];
        let (exchanges, delta) = self.issued.get(id.index()).copied().unwrap_or_default();
        self.policy.finish(request.io.task.0);
        if exchanges == self.exchanges && self.policy.classifies() {
            self.policy.complete(Completion {
                op: request.io.op,
                bytes: request.bytes().min(u64::from(u32::MAX)) as u32,
                delta,
                latency: ctx.now.since(request.issue),
                tag: IoTag::of_io(&request.io),
            });
        }
        let work = Work { ios: 1, bytes: request.bytes(), latency: ctx.now.since(request.submit) };
        self.work = self.work.plus(work);
    }

    fn event(&mut self, event: Event, _ctx: &Context<'_>, _out: &mut Effects) {
        match event {
            Event::DepthChanged { nr_requests, device_depth } => {
                (self.setup.nr_requests, self.setup.device_depth) = (nr_requests, device_depth);
            }
            Event::RotationalChanged(rotational) => self.setup.rotational = rotational,
            Event::TaskExited(task) => self.policy.exit(task.0),
            _ => {}
        }
    }

    fn exchanged(&mut self, _traits: &Traits, _ctx: &Context<'_>, _out: &mut Effects) {
        self.exchanging = false;
        self.exchanges += 1;
    }

    fn timer(&self) -> Option<Nanos> {
        self.next_tick.filter(|_| !self.exchanging)
    }

    fn tick(&mut self, ctx: &Context<'_>, out: &mut Effects) {
        let work = std::mem::take(&mut self.work);
        self.counters.ticks += 1;
        let tick = Tick { now: ctx.now, work, clean: !self.inherits(ctx), in_force: self.in_force };
        let Decision { switch_to, reason, next, .. } = self.policy.tick(&tick);
        // A device at rest needs no ticks; the next arrival starts them again.
        self.next_tick = (!ctx.requests.is_empty() || work.ios > 0).then_some(next.max(ctx.now + Nanos(1)));
        let Some(candidate) = switch_to else { return };
        match reason {
            Reason::Revert => self.counters.reverts += 1,
            Reason::Better => self.counters.better += 1,
            _ => self.counters.trial_switches += 1,
        }
        self.in_force = candidate;
        self.exchanging = true;
        let handover = if self.plan.freeze { Handover::Freeze } else { Handover::Live };
        out.adjust(Adjustment::Scheduler(self.build(candidate), handover));
    }

    fn settings(&self) -> &'static [ControlSetting] {
        settings::SETTINGS
    }

    fn get(&self, scope: Scope, name: &str) -> Option<i128> {
        settings::get(self.policy.settings(), name).filter(|_| scope == Scope::Device)
    }

    fn set(&mut self, _scope: Scope, name: &str, value: i128, _now: Nanos) {
        settings::set(self.policy.settings_mut(), name, value);
    }

    fn counters(&self, scope: Scope, count: &mut dyn FnMut(&'static str, u64)) {
        if scope != Scope::Device {
            return;
        }
        count("policy_ticks", self.counters.ticks);
        count("policy_trial_switches", self.counters.trial_switches);
        count("policy_better_switches", self.counters.better);
        count("policy_reverts", self.counters.reverts);
        count("policy_workloads", self.policy.scores().len() as u64);
        let millionth = |part: f64| (part * 1e6).round() as u64;
        if let Some(load) = self.policy.observed().load() {
            for (name, part) in OBSERVED_LOAD.iter().zip(load.parts) {
                count(name, millionth(part));
            }
            if let Some(outstanding) = load.outstanding {
                count(OBSERVED_OUTSTANDING, millionth(outstanding));
            }
        }
        if let (Some(classes), Some(classifier)) = (self.policy.observed().classes(), &self.plan.classifier) {
            for (name, p) in OBSERVED_CLASSES.iter().zip(classes).take(classifier.classes().len()) {
                count(name, millionth(p));
            }
        }
    }

    fn describe(&self, _ctx: &Context<'_>) -> String {
        let mut text = format!("{} in force\n", self.name_of(self.in_force));
        if let Some(expected) = self.policy.expectation() {
            text += &format!("table: confidence {:.2}", expected.confidence);
            for (candidate, score) in expected.scores.iter().enumerate() {
                text += &format!(", {} {score:.3}", self.name_of(candidate));
            }
            text.push('\n');
        }
        for (number, scores) in self.policy.scores().iter().enumerate() {
            text += &format!("workload {number}: best {}", self.name_of(scores.baseline()));
            for (candidate, estimate) in scores.estimates().iter().enumerate() {
                let (mean, deviation) = (estimate.mean, estimate.variance.sqrt());
                text += &format!(", {} {mean:.3} ± {deviation:.3} ({})", self.name_of(candidate), estimate.samples);
            }
            text.push('\n');
        }
        text
    }
}
