//! A trial on live traffic: short slots of a challenger between slots of the best scheduler so far.
//!
//! ```text
//! baseline │ A │ baseline │ B │ baseline │ A │ baseline …
//! ```
//!
//! A challenger is compared with the baseline's slots just before and after its own, so that a load that drifts does not
//! favour either. Measurement of a slot begins when the requests sent by the previous scheduler are complete and two parts have
//! passed.
//!
//! A scheduler may need seconds to adapt to the load. So a challenger's slot has no fixed length: it ends when it has lost [`LOST`]
//! of a short slot against the baseline, when it is clearly better, or at the longest length. Its last parts are measured.

use dumbwaiter_block::Nanos;

use crate::switching::in_force::Measure;
use crate::switching::scores::{Scores, Verdict};
use crate::switching::settings::Settings;
use crate::switching::work::Work;

/// Measured parts of a slot; their spread gives its standard error.
const PARTS: usize = 4;
/// Parts before them that are not measured.
const SETTLING: u64 = 2;
/// A challenger's slot ends when it has lost this share of the shortest slot's time.
const LOST: f64 = 1.0;
/// Parts before that.
const PARTS_MIN: usize = 2;
/// A clear difference exceeds this many standard errors, and this share for the drift of a load from slot to slot.
const SURE: f64 = 2.5;
const DRIFT: f64 = 0.05;
/// Completions that a part takes, unless it lasts for its share of the longest slot.
const PART_IOS: u64 = 8;
/// Completions in a slot, within the time limits of the settings.
const SLOT_IOS: f64 = 64.0;

/// A measured slot.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    score: f64,
    /// Of the mean over its parts, relative.
    variance: f64,
    /// Mean latency, seconds.
    latency_s: f64,
    measured: Nanos,
}

impl Slot {
    /// Bounds of this slot's score relative to another's.
    fn lower(&self, other: &Slot) -> f64 {
        (1.0 - self.spread(other)) * self.score / other.score.max(f64::MIN_POSITIVE)
    }

    fn upper(&self, other: &Slot) -> f64 {
        (1.0 + self.spread(other)) * self.score / other.score.max(f64::MIN_POSITIVE)
    }

    fn spread(&self, other: &Slot) -> f64 {
        SURE * (self.variance + other.variance).sqrt() + DRIFT
    }
}

/// A slot under way.
#[derive(Clone, Copy, Debug)]
struct Running {
    began: Nanos,
    /// It is being measured.
    counts: bool,
    /// The last parts, a ring.
    parts: [f64; PARTS],
    filled: usize,
    /// Time lost against the baseline since measurement began, seconds.
    lost_s: f64,
    ios: u64,
    latency: Nanos,
    measured: Nanos,
    /// The current part.
    open: (Work, Nanos),
}

impl Running {
    fn new(began: Nanos) -> Running {
        Running {
            began,
            counts: false,
            parts: [0.0; PARTS],
            filled: 0,
            lost_s: 0.0,
            ios: 0,
            latency: Nanos::ZERO,
            measured: Nanos::ZERO,
            open: Default::default(),
        }
    }

    fn slot(&self) -> Slot {
        let parts = &self.parts[..self.filled.min(PARTS)];
        let n = parts.len().max(1) as f64;
        let mean = parts.iter().sum::<f64>() / n;
        let squares: f64 = parts.iter().map(|part| (part - mean) * (part - mean)).sum();
        let variance = squares / (n - 1.0).max(1.0) / n / (mean * mean).max(f64::MIN_POSITIVE);
        let latency_s = self.latency.as_secs_f64() / self.ios.max(1) as f64;
        Slot { score: mean, variance, latency_s, measured: self.measured }
    }
}

/// The next step of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Continue.
    Continue,
    /// Exchange the scheduler for this candidate.
    Use(usize),
    /// The trial is over, or out of budget for now: use this candidate, which may be in force.
    End(usize),
}

/// A trial under way.
#[derive(Clone, Debug)]
pub struct Trial {
    part: Nanos,
    running: Running,
    /// The candidate whose slot runs, if it is not the baseline's.
    challenger: Option<usize>,
    /// The baseline's last slot.
    before: Option<Slot>,
    /// A challenger's slot that waits for the following slot of the baseline.
    pending: Option<(usize, Slot)>,
}

impl Trial {
    /// Begins with a slot of the baseline, which is in force. `ios_per_s` sets the length of a slot.
    pub(crate) fn new(now: Nanos, ios_per_s: f64, settings: &Settings) -> Trial {
        let wanted = Nanos::from_secs_f64(SLOT_IOS / ios_per_s.max(1e-3));
        let slot = Nanos(wanted.0.clamp(settings.slot_min.0, settings.slot.0.max(settings.slot_min.0)));
        Trial {
            part: Nanos((slot.0 / PARTS as u64).max(1)),
            running: Running::new(now),
            challenger: None,
            before: None,
            pending: None,
        }
    }

    /// Whether a slot of the baseline is being measured.
    pub(crate) fn baseline_counts(&self) -> bool {
        self.challenger.is_none() && self.running.counts
    }

    /// Time until the next tick.
    pub(crate) fn interval(&self) -> Nanos {
        self.part
    }

    /// Ends a part of a slot; `clean`: all requests of the previous scheduler are complete. `budget` is the time that trials
    /// of this workload may still lose.
    pub(crate) fn tick(&mut self, now: Nanos, part: (Work, Nanos), clean: bool, context: Context<'_>) -> Step {
        let lost_s = self.lost_s(part, &context);
        context.scores.cost_ns = (context.scores.cost_ns + 1e9 * lost_s).max(0.0);
        if !self.running.counts {
            let passed = now.since(self.running.began);
            let settled = passed >= Nanos(self.part.0 * SETTLING);
            self.running.counts = settled && (clean || passed >= Nanos(self.part.0 * 4 * SETTLING));
            return Step::Continue;
        }
        self.running.lost_s += lost_s;
        let (work, elapsed) = (self.running.open.0.plus(part.0), self.running.open.1 + part.1);
        if work.ios < PART_IOS && elapsed < Nanos(context.settings.slot.0 / PARTS as u64) {
            self.running.open = (work, elapsed);
            return Step::Continue;
        }
        self.running.open = Default::default();
        self.running.parts[self.running.filled % PARTS] = work.score(context.settings.goal, elapsed);
        self.running.filled += 1;
        self.running.ios += work.ios;
        self.running.latency += work.latency;
        self.running.measured += elapsed;
        let slot = self.running.slot();
        match self.challenger {
            None if self.running.filled < PARTS => Step::Continue,
            None => self.baseline_done(now, slot, context),
            Some(_) if !self.has_shown_enough(now, &slot, &context) => Step::Continue,
            Some(challenger) => {
                self.challenger = None;
                self.challenger_done(now, challenger, slot, context)
            }
        }
    }

    /// Time lost in a tick against the last slot of the baseline, seconds; below 0 where it was better.
    fn lost_s(&self, (work, elapsed): (Work, Nanos), context: &Context<'_>) -> f64 {
        let Some(before) = self.before.filter(|before| before.score > 0.0) else { return 0.0 };
        elapsed.as_secs_f64() * (1.0 - work.score(context.settings.goal, elapsed) / before.score)
    }

    /// Whether the challenger's slot is over: it has lost too much, is clearly better, or has reached its longest length.
    fn has_shown_enough(&self, now: Nanos, slot: &Slot, context: &Context<'_>) -> bool {
        let Some(before) = &self.before else { return true };
        let lost_max = LOST * context.settings.slot_min.as_secs_f64();
        let has_lost = self.running.filled >= PARTS_MIN && self.running.lost_s > lost_max;
        let wins = self.running.filled >= PARTS && slot.lower(before) > 1.0 + context.hysteresis();
        has_lost || wins || now.since(self.running.began) >= context.settings.slot
    }

    fn challenger_done(&mut self, now: Nanos, challenger: usize, slot: Slot, mut context: Context<'_>) -> Step {
        let baseline = context.scores.baseline();
        let Some(before) = self.before else { return Step::End(baseline) };
        let ratio = slot.score / before.score.max(f64::MIN_POSITIVE);
        let clear = slot.lower(&before) > 1.0 + context.hysteresis() || slot.upper(&before) < 1.0;
        if !clear {
            self.pending = Some((challenger, slot));
            self.running = Running::new(now);
            return Step::Use(baseline);
        }
        let verdict = context.scores.record(challenger, ratio, slot.variance + before.variance, context.hysteresis());
        self.running = Running::new(now);
        if verdict == Verdict::Better {
            self.before = Some(slot);
            context.remember(challenger, &slot);
            return self.go_on(now, context);
        }
        if context.scores.next_challenger(context.hysteresis(), context.expected).is_none() {
            return Step::End(baseline);
        }
        Step::Use(baseline)
    }

    fn baseline_done(&mut self, now: Nanos, slot: Slot, context: Context<'_>) -> Step {
        let before = self.before.replace(slot);
        if let (Some((challenger, of_challenger)), Some(before)) = (self.pending.take(), before) {
            let mean = (before.score + slot.score) / 2.0;
            let ratio = of_challenger.score / mean.max(f64::MIN_POSITIVE);
            let variance = of_challenger.variance + (before.variance + slot.variance) / 4.0;
            if context.scores.record(challenger, ratio, variance, context.hysteresis()) == Verdict::Better {
                self.before = Some(of_challenger);
                self.running = Running::new(now);
                // Its own slot comes next: it is not in force.
                return Step::Use(challenger);
            }
        }
        self.go_on(now, context)
    }

    /// After a slot of the baseline: the next challenger, if one may be tried.
    fn go_on(&mut self, now: Nanos, context: Context<'_>) -> Step {
        let next = context.scores.next_challenger(context.hysteresis(), context.expected);
        let baseline = context.scores.baseline();
        if self.before.is_some_and(|before| context.was_better(baseline, &before)) {
            // It performs far worse than another one did in force: use that one.
            return Step::End(baseline);
        }
        match next {
            Some(challenger) if context.budget_ns > context.scores.cost_ns => {
                self.challenger = Some(challenger);
                self.running = Running::new(now);
                Step::Use(challenger)
            }
            _ => Step::End(baseline),
        }
    }
}

/// The state that a trial uses.
pub(crate) struct Context<'a> {
    pub(crate) scores: &'a mut Scores,
    pub(crate) settings: &'a Settings,
    /// Expected scores; none if empty.
    pub(crate) expected: &'a [f64],
    /// Time that trials of this workload may lose in total, nanoseconds.
    pub(crate) budget_ns: f64,
}

impl Context<'_> {
    /// The slot of a candidate that is the best one.
    fn remember(&mut self, candidate: usize, slot: &Slot) {
        let measure = self.measure();
        self.scores.in_force.add(candidate, (slot.score, slot.latency_s), slot.measured, measure);
    }

    fn was_better(&self, candidate: usize, slot: &Slot) -> bool {
        self.scores.in_force.was_better(candidate, (slot.score, slot.latency_s), self.measure())
    }

    fn measure(&self) -> Measure {
        Measure { goal: self.settings.goal, period: self.settings.period }
    }

    fn hysteresis(&self) -> f64 {
        f64::from(self.settings.hysteresis) / 1000.0
    }
}
