//! `adaptive`: a policy over policies. It passes every call on to the scheduler in force, notes arrivals and completions, and
//! asks [`dumbwaiter_policy::Policy`] at regular times which candidate should be in force. The block layer then exchanges
//! the scheduler ([`BlockLayer::replace`](dumbwaiter_block::BlockLayer::replace)) for a successor that carries the policy's
//! state on.
//!
//! Source: FSL-25-07, *Towards Machine Learning-Based I/O Scheduling* (2025), for switching by workload; the trials are ours.

mod settings;

use std::sync::Arc;

use dumbwaiter_block::{
    Context, Event, Handover, Io, Join, MergeIndex, Nanos, Next, Op, Place, Replayable, RequestId, Scheduler,
    ServiceOracle, Setup, State, Tunable, forward_scheduler,
};
use dumbwaiter_learn::{Classifier, IssueOrder, Tag};
use dumbwaiter_policy::{
    Arrival, By, Completion, Decision, Goal, Kind, Policy, Prior, Reason, ScoreTable, Settings, Tick, Work,
};

pub use settings::TUNABLES;

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

impl From<(String, Build)> for Candidate {
    fn from((name, build): (String, Build)) -> Candidate {
        Candidate { name, build }
    }
}

/// What to choose from, and by which goal.
#[derive(Clone)]
pub struct Plan {
    /// What decides.
    pub by: By,
    /// What to improve.
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
        let kind = Kind { rotational: setup.rotational, depth: setup.device_depth };
        table.prior(kind, &names, self.goal, self.classifier.as_ref().map(|classifier| classifier.classes()))
    }
}

/// What passes from one scheduler in force to the next.
#[derive(Clone)]
struct Own {
    plan: Plan,
    setup: Setup,
    policy: Policy,
    /// The candidate in force.
    in_force: usize,
    /// The one that shall be.
    wanted: Option<usize>,
    work: Work,
    /// Requests of earlier schedulers in the device.
    inherited: u64,
    /// Of requests sent for a classifier, in order.
    order: IssueOrder,
    /// By request in the device: its distance from the one sent before.
    deltas: Vec<i64>,
    next_tick: Option<Nanos>,
    /// The block layer asks for merges, and so shows every arrival.
    merges_asked: bool,
    oracle: Option<Arc<dyn ServiceOracle>>,
    counters: Counters,
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
#[derive(Clone)]
pub struct Adaptive {
    inner: Box<dyn Scheduler>,
    /// `None` once a successor has it.
    own: Option<Box<Own>>,
}

impl Adaptive {
    /// Begins with the candidate that Linux would choose: `none` for several hardware queues, else `mq-deadline`; with the
    /// first one where that is no candidate.
    pub fn new(setup: Setup, plan: &Plan) -> Adaptive {
        let usual = if setup.hw_queues > 1 { "none" } else { "mq-deadline" };
        let first = plan.candidates.iter().position(|c| c.name == usual).unwrap_or(0);
        let defaults = Settings::default();
        let slot_min = if setup.rotational { defaults.slot_min } else { FLASH_SLOT_MIN };
        let settings = Settings { by: plan.by, goal: plan.goal, slot_min, ..defaults };
        let mut policy = Policy::new(plan.candidates.len(), first, settings, plan.prior(&setup));
        if let Some(classifier) = &plan.classifier {
            policy = policy.with_classifier(Arc::clone(classifier));
        }
        let own = Own {
            policy,
            plan: plan.clone(),
            setup,
            in_force: first,
            wanted: None,
            work: Work::default(),
            inherited: 0,
            order: IssueOrder::default(),
            deltas: Vec::new(),
            next_tick: None,
            merges_asked: false,
            oracle: None,
            counters: Counters::default(),
        };
        Adaptive { inner: own.build(first), own: Some(Box::new(own)) }
    }
}

impl Own {
    fn build(&self, candidate: usize) -> Box<dyn Scheduler> {
        let mut scheduler = (self.plan.candidates[candidate].build)(self.setup);
        if let Some(oracle) = &self.oracle {
            scheduler.attach_oracle(oracle);
        }
        scheduler
    }

    fn arrive(&mut self, now: Nanos, io: &Io) {
        if self.next_tick.is_none() {
            self.policy.resume(now);
            self.next_tick = Some(now + self.policy.settings().period);
        }
        let arrival = Arrival { task: io.task.0, write: io.op != Op::Read, sector: io.sector, sectors: io.sectors };
        self.policy.arrive(now, arrival);
    }

    fn send(&mut self, id: RequestId, ctx: &Context<'_>) {
        let request = &ctx.requests[id];
        if !self.policy.classifies() || !matches!(request.io.op, Op::Read | Op::Write) {
            return;
        }
        if id.index() >= self.deltas.len() {
            self.deltas.resize(id.index() + 1, 0);
        }
        self.deltas[id.index()] = self.order.delta(request.sector);
        self.order.issued(request.sector, request.end());
    }

    fn finish(&mut self, id: RequestId, ctx: &Context<'_>, by_own: bool) {
        let request = &ctx.requests[id];
        self.policy.finish(request.io.task.0);
        if by_own && self.policy.classifies() {
            self.policy.complete(Completion {
                op: request.io.op,
                bytes: request.bytes().min(u64::from(u32::MAX)) as u32,
                delta: self.deltas.get(id.index()).copied().unwrap_or(0),
                latency: ctx.now.since(request.issue),
                tag: Tag::of_io(&request.io),
            });
        }
        let work = Work { ios: 1, bytes: request.bytes(), latency: ctx.now.since(request.submit) };
        self.work = self.work.plus(work);
    }

    fn tick(&mut self, ctx: &Context<'_>) {
        let work = std::mem::take(&mut self.work);
        self.counters.ticks += 1;
        let tick = Tick { now: ctx.now, work, clean: self.inherited == 0, in_force: self.in_force };
        let Decision { switch_to, reason, next, .. } = self.policy.tick(&tick);
        // A device at rest needs no ticks; the next arrival starts them again.
        self.next_tick = (!ctx.requests.is_empty() || work.ios > 0).then_some(next.max(ctx.now + Nanos(1)));
        self.wanted = switch_to;
        if switch_to.is_some() {
            match reason {
                Reason::Revert => self.counters.reverts += 1,
                Reason::Better => self.counters.better += 1,
                _ => self.counters.trial_switches += 1,
            }
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Scheduler for Adaptive {
    forward_scheduler!(
        inner; except insert, next, complete, completed_by_predecessor, merge, event, timer, successor, attach_oracle, tunables, get,
        set, replayable, counters, describe
    );

    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) {
        if let Some(own) = &mut self.own {
            let request = &ctx.requests[id];
            // What is handed over, or comes back from the device, has arrived before.
            if !own.merges_asked && place == Place::Tail && request.insert == ctx.now {
                own.arrive(ctx.now, &request.io);
            }
        }
        self.inner.insert(id, place, ctx);
    }

    fn next(&mut self, hw_queue: usize, ctx: &Context<'_>) -> Next {
        let next = self.inner.next(hw_queue, ctx);
        if let (Next::Dispatch(id), Some(own)) = (next, &mut self.own) {
            own.send(id, ctx);
        }
        next
    }

    fn complete(&mut self, id: RequestId, ctx: &Context<'_>) -> bool {
        if let Some(own) = &mut self.own {
            own.finish(id, ctx, true);
        }
        self.inner.complete(id, ctx)
    }

    fn completed_by_predecessor(&mut self, id: RequestId, ctx: &Context<'_>) {
        if let Some(own) = &mut self.own {
            own.finish(id, ctx, false);
            own.inherited = own.inherited.saturating_sub(1);
        }
        self.inner.completed_by_predecessor(id, ctx);
    }

    fn merge(&mut self, io: &Io, index: &MergeIndex, ctx: &Context<'_>) -> Option<Join> {
        if let Some(own) = &mut self.own {
            own.merges_asked = true;
            own.arrive(ctx.now, io);
        }
        self.inner.merge(io, index, ctx)
    }

    fn event(&mut self, event: Event, ctx: &Context<'_>) {
        if let Some(own) = &mut self.own {
            match event {
                Event::DepthChanged { nr_requests, device_depth } => {
                    (own.setup.nr_requests, own.setup.device_depth) = (nr_requests, device_depth);
                }
                Event::RotationalChanged(rotational) => own.setup.rotational = rotational,
                Event::TaskExited(task) => own.policy.exit(task.0),
                Event::Timer => {
                    if own.next_tick.is_some_and(|at| at <= ctx.now) {
                        own.tick(ctx);
                    }
                    if self.inner.timer().is_none_or(|at| at > ctx.now) {
                        return;
                    }
                }
                _ => {}
            }
        }
        self.inner.event(event, ctx);
    }

    fn timer(&self) -> Option<Nanos> {
        let tick = self.own.as_ref().and_then(|own| own.next_tick);
        match (tick, self.inner.timer()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn successor(&mut self, ctx: &Context<'_>) -> Option<(Box<dyn Scheduler>, Handover)> {
        let candidate = self.own.as_mut()?.wanted.take()?;
        let mut own = self.own.take()?;
        let in_device = |r: &dumbwaiter_block::Request| r.state == State::Issued && r.io.op != Op::Flush;
        let live = !own.plan.freeze;
        own.inherited = if live { ctx.requests.iter().filter(|(_, r)| in_device(r)).count() as u64 } else { 0 };
        own.in_force = candidate;
        let handover = if live { Handover::Live } else { Handover::Freeze };
        Some((Box::new(Adaptive { inner: own.build(candidate), own: Some(own) }), handover))
    }

    fn attach_oracle(&mut self, oracle: &Arc<dyn ServiceOracle>) {
        if let Some(own) = &mut self.own {
            own.oracle = Some(Arc::clone(oracle));
        }
        self.inner.attach_oracle(oracle);
    }

    fn tunables(&self) -> &'static [Tunable] {
        TUNABLES
    }

    fn get(&self, name: &str) -> Option<i128> {
        settings::get(self.own.as_ref()?.policy.settings(), name)
    }

    fn set(&mut self, name: &str, value: i128) {
        if let Some(own) = &mut self.own {
            settings::set(own.policy.settings_mut(), name, value);
        }
    }

    /// A recording is replayed through one policy.
    fn replayable(&mut self) -> Option<&mut dyn Replayable> {
        None
    }

    fn counters(&self, count: &mut dyn FnMut(&'static str, u64)) {
        if let Some(own) = &self.own {
            count("policy_ticks", own.counters.ticks);
            count("policy_trial_switches", own.counters.trial_switches);
            count("policy_better_switches", own.counters.better);
            count("policy_reverts", own.counters.reverts);
            count("policy_workloads", own.policy.scores().len() as u64);
            let millionth = |part: f64| (part * 1e6).round() as u64;
            if let Some(load) = own.policy.observed().load() {
                for (name, part) in OBSERVED_LOAD.iter().zip(load.parts) {
                    count(name, millionth(part));
                }
                if let Some(outstanding) = load.outstanding {
                    count(OBSERVED_OUTSTANDING, millionth(outstanding));
                }
            }
            if let (Some(classes), Some(classifier)) = (own.policy.observed().classes(), &own.plan.classifier) {
                for (name, p) in OBSERVED_CLASSES.iter().zip(classes).take(classifier.classes().len()) {
                    count(name, millionth(p));
                }
            }
        }
    }

    fn describe(&self, ctx: &Context<'_>) -> String {
        let Some(own) = &self.own else { return self.inner.describe(ctx) };
        let name = |candidate: usize| own.plan.candidates[candidate].name.as_str();
        let mut text = format!("{} in force\n", name(own.in_force));
        if let Some(expected) = own.policy.expectation() {
            text += &format!("table: confidence {:.2}", expected.confidence);
            for (candidate, score) in expected.scores.iter().enumerate() {
                text += &format!(", {} {score:.3}", name(candidate));
            }
            text.push('\n');
        }
        for (number, scores) in own.policy.scores().iter().enumerate() {
            text += &format!("workload {number}: best {}", name(scores.baseline()));
            for (candidate, estimate) in scores.estimates().iter().enumerate() {
                text += &format!(
                    ", {} {:.3} ± {:.3} ({})",
                    name(candidate),
                    estimate.mean,
                    estimate.variance.sqrt(),
                    estimate.samples
                );
            }
            text.push('\n');
        }
        text + &self.inner.describe(ctx)
    }
}
