//! The policy: decides at every tick which candidate should be in force.

use std::collections::VecDeque;
use std::sync::Arc;

use dumbwaiter_block::Nanos;
use dumbwaiter_learn::{Classifier, Posterior};

use crate::switching::decision::{Decision, Reason, Tick};
use crate::switching::in_force::Measure;
use crate::switching::known::KnownWorkloads;
use crate::switching::observed::Observed;
use crate::switching::prior::{Expectation, Prior};
use crate::switching::scores::Scores;
use crate::switching::settings::{By, Settings};
use crate::switching::signature::{Arrival, Signature, TaskTable};
use crate::switching::trial::{Context, Step, Trial};
use crate::switching::windows::{Completion, Windows};
use crate::switching::work::Work;

/// Arrivals per observation of the load.
const ARRIVALS_MIN: u32 = 4;
/// Additional observations that confirm a new workload, beyond those for a known one.
const CONFIRM_NEW: u32 = 2;
/// A candidate whose expected score is below this share of the best one's is not tried.
const WORTH_TRYING: f64 = 0.85;
/// The same for a table of a similar device.
const WORTH_CHECKING: f64 = 0.95;
/// Total time with a load before trials check the proposal of such a table.
const CHECK_TABLE_AFTER: Nanos = Nanos::from_secs(300);
/// Time and completions over which a switch by a table is checked.
const CHECK: Nanos = Nanos::from_ms(1500);
const CHECK_IOS: u64 = 48;
/// A loss of this share after a switch reverts it, if it is significant:
const LOSS: f64 = 0.1;
/// by this many standard deviations, with this standard deviation of the score of one request.
const SURE: f64 = 2.5;
const SPREAD_OF_ONE: f64 = 0.4;
/// A score below this share of the previous one reverts at once.
const CLEARLY_LESS: f64 = 0.4;
/// Periods after an exchange that are not counted for the new candidate.
const SETTLING: u64 = 3;
const HOUR: Nanos = Nanos::from_secs(3600);
const DWELL_MAX: Nanos = Nanos::from_secs(600);

/// The last observations.
#[derive(Clone, Copy, Debug)]
struct Guess {
    workload: Option<usize>,
    load: Signature,
    looks: u32,
}

/// A switch by a table that is being checked.
#[derive(Clone, Copy, Debug)]
struct Check {
    from: usize,
    before: f64,
    /// Requests of `before`.
    ios: u64,
    since: Nanos,
    work: Work,
    measured: Nanos,
}

/// A policy over candidate schedulers, by number.
#[derive(Clone, Debug)]
pub struct Policy {
    settings: Settings,
    pub(crate) candidates: usize,
    prior: Prior,
    /// Does the table know each candidate?
    knows_all: bool,
    windows: Option<Windows>,
    /// The classifier's last output, under the candidate in force.
    classes: Option<Posterior>,
    observed: Observed,
    tasks: TaskTable,
    pub(crate) known: KnownWorkloads,
    /// By workload.
    pub(crate) scores: Vec<Scores>,
    /// Extra dwell by workload, after a loss.
    pub(crate) penalty: Vec<Nanos>,
    /// By workload: the table's proposal was reverted, so that only trials decide.
    pub(crate) refuted: Vec<bool>,
    /// By workload: time with load.
    pub(crate) lasted: Vec<Nanos>,
    workload: Option<usize>,
    load: Signature,
    guess: Option<Guess>,
    trial: Option<Trial>,
    check: Option<Check>,
    /// The requested candidate.
    wanted: usize,
    last_tick: Nanos,
    last_switch: Option<Nanos>,
    /// Times of exchanges within the last hour, trials apart.
    switches: VecDeque<Nanos>,
    /// Time with load.
    busy: Nanos,
    /// Of the workload, since it began or the scheduler was exchanged.
    recent: (Work, Nanos),
    /// Of the load under observation, since its first observation.
    since_guess: (Work, Nanos),
}

impl Policy {
    /// A policy over this many `candidates`, of which number `in_force` is in force.
    pub fn new(candidates: usize, in_force: usize, settings: Settings, prior: Prior) -> Policy {
        Policy {
            settings,
            candidates,
            knows_all: prior.knows_all(),
            prior,
            windows: None,
            classes: None,
            observed: Observed::default(),
            tasks: TaskTable::default(),
            known: KnownWorkloads::default(),
            scores: Vec::new(),
            penalty: Vec::new(),
            refuted: Vec::new(),
            lasted: Vec::new(),
            workload: None,
            load: Signature::default(),
            guess: None,
            trial: None,
            check: None,
            wanted: in_force,
            last_tick: Nanos::ZERO,
            last_switch: None,
            switches: VecDeque::new(),
            busy: Nanos::ZERO,
            recent: (Work::default(), Nanos::ZERO),
            since_guess: (Work::default(), Nanos::ZERO),
        }
    }

    /// Adds a classifier, whose posteriors weight the rows of the table.
    pub fn with_classifier(mut self, classifier: Arc<Classifier>) -> Policy {
        self.windows = Some(Windows::new(classifier));
        self
    }

    /// Notes the completion of a request that the candidate in force had sent. Only a classifier uses it.
    pub fn complete(&mut self, completion: Completion) {
        if let Some(windows) = &mut self.windows {
            windows.push(completion);
        }
    }

    /// Whether a classifier needs [`Policy::complete`].
    pub fn classifies(&self) -> bool {
        self.windows.is_some()
    }

    /// The mean load over all observations.
    pub fn observed(&self) -> &Observed {
        &self.observed
    }

    /// The table's expected scores for the present load; `None` where it does not cover the load.
    pub fn expectation(&self) -> Option<Expectation> {
        let classes = self.classes.as_ref().map(|posterior| (self.wanted, posterior.probabilities()));
        self.prior.expect(&self.load, classes).filter(|_| self.workload.is_some())
    }

    /// An I/O arrived.
    pub fn arrive(&mut self, now: Nanos, arrival: Arrival) {
        self.tasks.arrive(now, arrival);
    }

    /// An I/O of a task is complete, whichever candidate sent it.
    pub fn finish(&mut self, task: u32) {
        self.tasks.complete(task);
    }

    /// A task ended.
    pub fn exit(&mut self, task: u32) {
        self.tasks.exit(task);
    }

    /// The settings, which may change at any time.
    pub fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// The best candidate for the present workload by trials; `None` without a workload.
    pub fn best(&self) -> Option<usize> {
        self.workload.map(|workload| self.scores[workload].baseline())
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The workload, if one was recognised.
    pub fn workload(&self) -> Option<usize> {
        self.workload
    }

    /// Trial results of each workload.
    pub fn scores(&self) -> &[Scores] {
        &self.scores
    }

    /// The device was idle until `now`: the next tick measures from here.
    pub fn resume(&mut self, now: Nanos) {
        self.since_guess = Default::default();
        self.begin_anew();
        self.last_tick = now;
        self.trial = None;
        self.check = None;
        self.recent = Default::default();
    }

    /// A requested exchange failed: `in_force` remains in force. Ends a trial.
    pub fn not_done(&mut self, in_force: usize) {
        self.wanted = in_force;
        self.begin_anew();
        self.trial = None;
        self.check = None;
        self.recent = Default::default();
    }

    /// Decides. Call it at the times of [`Decision::next`], while there is load.
    pub fn tick(&mut self, tick: &Tick) -> Decision {
        let elapsed = tick.now.since(self.last_tick);
        self.last_tick = tick.now;
        if tick.in_force != self.wanted {
            return self.keep(tick.now, Reason::NotInForce);
        }
        if tick.work.ios > 0 {
            self.busy += elapsed;
            if let Some(lasted) = self.workload.and_then(|workload| self.lasted.get_mut(workload)) {
                *lasted += elapsed;
            }
        }
        if let Some(posterior) = self.windows.as_mut().and_then(Windows::read) {
            self.classes = Some(posterior);
            self.observed.add_classes(&posterior);
        }
        self.since_guess = (self.since_guess.0.plus(tick.work), self.since_guess.1 + elapsed);
        let changed = self.look(tick.now);
        if changed {
            self.trial = None;
            self.check = None;
            self.begin_anew();
            // The observations that confirmed it belong to this workload.
            self.recent = self.since_guess;
        } else {
            self.recent = (self.recent.0.plus(tick.work), self.recent.1 + elapsed);
        }
        let Some(workload) = self.workload else { return self.keep(tick.now, Reason::TooFewRequests) };
        if self.guess.is_some_and(|guess| guess.workload != Some(workload)) && self.trial.is_none() {
            return self.keep(tick.now, Reason::Unsure);
        }
        if let Some(trial) = self.trial.take() {
            return self.go_on_with_trial(tick, trial, workload, elapsed);
        }
        if let Some(undo) = self.check_switch(tick, workload, elapsed) {
            return undo;
        }
        if let Some(left) = self.leave_if_worse(tick, workload, elapsed) {
            return left;
        }
        self.act(tick, workload)
    }

    /// A table alone decides only among candidates that it knows: others are tried, as with both.
    fn by(&self) -> By {
        if self.settings.by == By::Model && !self.knows_all { By::Both } else { self.settings.by }
    }

    /// A table that does not know a candidate leaves it to trials, however like the device is.
    fn trusts_table(&self) -> bool {
        self.settings.trusts_table && self.knows_all
    }

    fn measure(&self) -> Measure {
        Measure { goal: self.settings.goal, period: self.settings.period }
    }

    /// Replaces the best candidate of a tried workload once it has lost too much against another one, or collapsed.
    fn leave_if_worse(&mut self, tick: &Tick, workload: usize, elapsed: Nanos) -> Option<Decision> {
        let measure = self.measure();
        let settling = self.last_switch.is_some_and(|at| tick.now.since(at).0 < SETTLING * measure.period.0);
        let by = self.by();
        let scores = &mut self.scores[workload];
        if by == By::Model || self.check.is_some() || scores.baseline() != self.wanted || !tick.clean || settling {
            return None;
        }
        let loss = scores.in_force.tick(self.wanted, (tick.work, elapsed), measure)?;
        scores.correct(self.wanted, loss);
        let best = scores.baseline();
        if best == self.wanted {
            return None;
        }
        self.last_switch = Some(tick.now);
        Some(self.switch(tick.now, best, Reason::Revert))
    }

    /// The candidate in force is compared with others from here on.
    fn begin_anew(&mut self) {
        if let Some(scores) = self.workload.and_then(|workload| self.scores.get_mut(workload)) {
            scores.in_force.begin();
        }
    }

    fn keep(&self, now: Nanos, reason: Reason) -> Decision {
        let interval = self.trial.as_ref().map_or(self.settings.period, Trial::interval);
        Decision { switch_to: None, reason, next: now + interval, workload: self.workload }
    }

    fn switch(&mut self, now: Nanos, to: usize, reason: Reason) -> Decision {
        let switch_to = (to != self.wanted).then_some(to);
        if switch_to.is_some() {
            // Another scheduler completes requests in another order.
            self.classes = None;
            self.windows.iter_mut().for_each(Windows::clear);
        }
        self.wanted = to;
        self.recent = Default::default();
        self.since_guess = Default::default();
        self.begin_anew();
        Decision { switch_to, ..self.keep(now, reason) }
    }

    /// Observes the load. Returns whether the workload has changed.
    fn look(&mut self, now: Nanos) -> bool {
        if self.tasks.arrivals() < ARRIVALS_MIN {
            return false;
        }
        let Some(load) = self.tasks.signature(now) else { return false };
        self.observed.add_load(&load);
        let last = self.guess.and_then(|guess| guess.workload);
        let seen = self.known.recognise_from(last, &load);
        let again = self.guess.filter(|guess| match (guess.workload, seen) {
            (Some(a), Some(b)) => a == b,
            (None, None) => KnownWorkloads::alike(&guess.load, &load),
            _ => false,
        });
        let looks = again.map_or(0, |guess| guess.looks) + 1;
        if again.is_none() {
            self.since_guess = Default::default();
        }
        self.guess = Some(Guess { workload: seen, load, looks });
        let is_known = seen.is_some() || (self.by() != By::Trial && self.prior.expect(&load, None).is_some());
        let needed = self.settings.confirm + if is_known { 0 } else { CONFIRM_NEW };
        if looks < needed {
            return false;
        }
        let workload = match seen {
            Some(workload) => {
                self.known.refine(workload, &load);
                workload
            }
            None => self.known.add(load),
        };
        self.guess = Some(Guess { workload: Some(workload), load, looks });
        self.load = load;
        while self.scores.len() <= workload {
            self.scores.push(Scores::new(self.candidates, self.wanted));
            self.penalty.push(Nanos::ZERO);
            self.refuted.push(false);
            self.lasted.push(Nanos::ZERO);
        }
        let changed = self.workload != Some(workload);
        self.workload = Some(workload);
        changed
    }

    /// Time that the trials of one workload may have cost by now, nanoseconds.
    fn budget_ns(&self) -> f64 {
        let share = f64::from(self.settings.regret) / 1000.0 * self.busy.0 as f64;
        let spent: f64 = self.scores.iter().map(|scores| scores.cost_ns).sum();
        let own = self.workload.map_or(0.0, |workload| self.scores[workload].cost_ns);
        let others = (spent - own - self.settings.allowance.0 as f64 * (self.scores.len() as f64 - 1.0)).max(0.0);
        if self.trusts_table() && self.workload.is_some_and(|workload| self.proposal(workload).is_some()) {
            // Where the table covers the load, trials have no initial budget: they only correct it in the long run.
            return (share / 2.0 - others).max(0.0);
        }
        self.settings.allowance.0 as f64 + (share - others).max(0.0)
    }

    /// The table's expectation, if it is confident and may be followed.
    fn proposal(&self, workload: usize) -> Option<Expectation> {
        let floor = f64::from(self.settings.confidence) / 1000.0;
        let asked = self.by() != By::Trial && !self.refuted[workload];
        self.expectation().filter(|expected| asked && expected.confidence >= floor)
    }

    /// By candidate: the table's expected score of those worth a trial, 0 for the others; empty without a proposal.
    fn worth_trying(&self, workload: usize) -> Vec<f64> {
        let Some(expected) = self.proposal(workload) else { return Vec::new() };
        let near = if self.trusts_table() { WORTH_CHECKING } else { WORTH_TRYING };
        let worth = |c: usize| if expected.is_near_best(c, near) { expected.scores[c].max(1e-3) } else { 0.0 };
        (0..expected.scores.len()).map(worth).collect()
    }

    fn go_on_with_trial(&mut self, tick: &Tick, mut trial: Trial, workload: usize, elapsed: Nanos) -> Decision {
        if trial.baseline_counts()
            && let Some(left) = self.leave_if_worse(tick, workload, elapsed)
        {
            return left;
        }
        let (budget_ns, expected) = (self.budget_ns(), self.worth_trying(workload));
        let context =
            Context { scores: &mut self.scores[workload], settings: &self.settings, expected: &expected, budget_ns };
        match trial.tick(tick.now, (tick.work, elapsed), tick.clean, context) {
            Step::Continue => {
                self.trial = Some(trial);
                self.keep(tick.now, Reason::Trial)
            }
            Step::Use(candidate) => {
                self.trial = Some(trial);
                self.switch(tick.now, candidate, Reason::Trial)
            }
            Step::End(candidate) => {
                self.last_switch = Some(tick.now);
                self.switch(tick.now, candidate, Reason::TrialOver)
            }
        }
    }

    /// Without a trial under way: uses the best known candidate, or begins a trial.
    fn act(&mut self, tick: &Tick, workload: usize) -> Decision {
        let proposal = self.proposal(workload);
        if self.by() == By::Model {
            let Some(expected) = proposal else { return self.keep(tick.now, Reason::Unknown) };
            return self.follow(tick, workload, &expected);
        }
        // An untried workload whose scheduler the table rules out (a table of a similar device: finds worse): use the table's
        // candidate at once; a loss reverts that.
        let untried = self.scores[workload].is_untried() && self.check.is_none();
        let trusts = self.trusts_table();
        let ruled_out = |e: &Expectation| trusts || !e.is_near_best(self.wanted, WORTH_TRYING);
        if let Some(expected) = proposal.filter(|e| untried && ruled_out(e)) {
            let decision = self.follow(tick, workload, &expected);
            if decision.switch_to.is_some() {
                self.scores[workload].rebase(self.wanted);
            }
            let lasted = self.lasted.get(workload).copied().unwrap_or_default();
            if decision.switch_to.is_some() || !trusts || lasted < CHECK_TABLE_AFTER {
                return decision;
            }
            self.scores[workload].rebase(self.wanted);
        }
        if self.check.is_some() {
            return self.keep(tick.now, Reason::Checking);
        }
        if let Some(best) = self.scores[workload].winner() {
            return self.switch_to_better(tick, workload, best);
        }
        if self.budget_ns() <= self.scores[workload].cost_ns {
            // No budget for trials now, but their results count.
            let best = self.scores[workload].baseline();
            let decision = self.switch_to_better(tick, workload, best);
            let reason = if decision.switch_to.is_some() { decision.reason } else { Reason::NoBudget };
            return Decision { reason, ..decision };
        }
        let best = self.scores[workload].baseline();
        let hysteresis = f64::from(self.settings.hysteresis) / 1000.0;
        let expected = self.worth_trying(workload);
        if self.scores[workload].next_challenger(hysteresis, &expected).is_none() {
            return self.switch_to_better(tick, workload, best);
        }
        if best != self.wanted {
            return self.switch_to_better(tick, workload, best);
        }
        let (work, measured) = self.recent;
        let is_a_measure = self.scores[workload].in_force.is_a_measure(best, self.measure());
        if work.ios == 0 || measured == Nanos::ZERO || !is_a_measure {
            return self.keep(tick.now, Reason::Trial);
        }
        let per_second = work.ios as f64 / measured.as_secs_f64();
        self.trial = Some(Trial::new(tick.now, per_second, &self.settings));
        self.keep(tick.now, Reason::Trial)
    }

    /// Uses the table's best candidate, if its expected score is enough above that of the one in force.
    fn follow(&mut self, tick: &Tick, workload: usize, expected: &Expectation) -> Decision {
        let best = expected.best();
        // The table's own interval counts where it is wider than the hysteresis.
        let hysteresis = (f64::from(self.settings.hysteresis) / 1000.0).max(expected.spreads[best]);
        if best == self.wanted || expected.scores[best] < (1.0 + hysteresis) * expected.scores[self.wanted] {
            return self.keep(tick.now, Reason::BestKnown);
        }
        if self.recent.0.ios < CHECK_IOS / 6 {
            // Without a previous score, a loss could not be measured.
            return self.keep(tick.now, Reason::TooFewRequests);
        }
        self.switch_to_better(tick, workload, best)
    }

    fn switch_to_better(&mut self, tick: &Tick, workload: usize, best: usize) -> Decision {
        if best == self.wanted {
            return self.keep(tick.now, Reason::BestKnown);
        }
        while self.switches.front().is_some_and(|at| tick.now.since(*at) > HOUR) {
            self.switches.pop_front();
        }
        let dwell = self.settings.dwell + self.penalty[workload];
        let too_soon = self.last_switch.is_some_and(|at| tick.now.since(at) < dwell);
        if too_soon || self.switches.len() >= self.settings.switches_per_hour as usize {
            return self.keep(tick.now, Reason::Dwelling);
        }
        let (work, measured) = self.recent;
        // The result of trials is checked as long as it is in force.
        if work.ios >= CHECK_IOS / 6 && (self.by() == By::Model || self.scores[workload].is_untried()) {
            let before = work.score(self.settings.goal, measured);
            let (since, work, measured) = (tick.now, Work::default(), Nanos::ZERO);
            let (from, ios) = (self.wanted, self.recent.0.ios);
            self.check = Some(Check { from, before, ios, since, work, measured });
        }
        self.last_switch = Some(tick.now);
        self.switches.push_back(tick.now);
        self.switch(tick.now, best, Reason::Better)
    }

    /// Reverts a switch after which the score fell.
    fn check_switch(&mut self, tick: &Tick, workload: usize, elapsed: Nanos) -> Option<Decision> {
        let check = self.check.as_mut()?;
        if !tick.clean || tick.now.since(check.since) < Nanos(CHECK.0 / 3) {
            return None;
        }
        check.work = check.work.plus(tick.work);
        check.measured += elapsed;
        let is_clear = check.work.score(self.settings.goal, check.measured) < CLEARLY_LESS * check.before
            && check.work.ios >= CHECK_IOS / 2
            && tick.now.since(check.since) >= Nanos(CHECK.0 * 2 / 3);
        if !is_clear && (tick.now.since(check.since) < CHECK || check.work.ios < CHECK_IOS) {
            return None;
        }
        let check = self.check.take()?;
        let ratio = check.work.score(self.settings.goal, check.measured) / check.before.max(f64::MIN_POSITIVE);
        let of = |ios: u64| 1.0 / ios.max(1) as f64;
        let chance = SURE * SPREAD_OF_ONE * (of(check.ios) + of(check.work.ios)).sqrt();
        if ratio >= (1.0 - LOSS) * (1.0 - chance).max(0.5) {
            return None;
        }
        let penalty = &mut self.penalty[workload];
        *penalty = Nanos((2 * penalty.0).clamp(self.settings.dwell.0, DWELL_MAX.0));
        if self.by() != By::Model {
            // The proposal of the table was worse: only trials decide.
            self.refuted[workload] = true;
            self.scores[workload].rebase(check.from);
        }
        self.last_switch = Some(tick.now);
        Some(self.switch(tick.now, check.from, Reason::Revert))
    }
}
