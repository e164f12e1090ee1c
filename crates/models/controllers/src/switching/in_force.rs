//! Compares the candidate in force with how others did in force, by Page's test on the time lost.
//!
//! A trial slot also depends on the state in which the previous candidate left the device: its cache, and which streams are in
//! step. So trial results are provisional. The scores of candidates while in force are kept, and the one in force is replaced once
//! it has lost more time than a bound against the best of the others, which bounds the cost of a wrong winner.

use dumbwaiter_block::Nanos;

use crate::switching::settings::Goal;
use crate::switching::work::Work;

// Times are in periods of the policy.

/// A window for comparison has at least this length and this number of completions, or the maximum length.
const WINDOW: u64 = 2;
const WINDOW_IOS: u64 = 8;
const WINDOW_MAX: u64 = 10;
/// Memory of a score: it is the mean over about this time in force.
const MEMORY: u64 = 100;
/// Time in force after which a score is a reference for others, and for its own candidate.
const KNOWN: u64 = 3;
const KNOWN_OWN: u64 = 20;
/// A loss below this share of the other's score does not count: scores drift with the place on the disk.
const TOLERANCE: f64 = 0.05;
/// A fall below this share of its own score is a collapse, if latency also grows by this factor.
const COLLAPSED: f64 = 0.5;
const SLOWER: f64 = 1.5;
/// Only a candidate that had this share of its own score can collapse: many need seconds to get there.
const REACHED: f64 = 0.8;
/// Lost time after which the candidate is replaced. It doubles each time, so that two similar ones do not alternate.
const BOUND: u64 = 4;
const DOUBLINGS_MAX: u32 = 5;

/// The figures behind a score.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measure {
    pub(crate) goal: Goal,
    pub(crate) period: Nanos,
}

impl Measure {
    fn periods(&self, count: u64) -> Nanos {
        Nanos(count * self.period.0)
    }
}

/// Performance of a candidate while in force.
#[derive(Clone, Copy, Debug, Default)]
struct LongRun {
    score: f64,
    /// Mean latency, seconds.
    latency_s: f64,
    measured: Nanos,
}

impl LongRun {
    /// `memory`: the averaging time of a score.
    fn add(&mut self, score: f64, latency_s: f64, measured: Nanos, memory: Nanos) {
        self.measured = (self.measured + measured).min(memory);
        let weight = (measured.0 as f64 / self.measured.0.max(1) as f64).min(1.0);
        self.score += weight * (score - self.score);
        self.latency_s += weight * (latency_s - self.latency_s);
    }
}

/// Why the candidate in force should be replaced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Loss {
    /// Another one had a higher score: this candidate had `ratio` times it.
    Against { other: usize, ratio: f64 },
    /// It has fallen far below its own score, and no candidate that was in force is known to be better.
    Collapse,
}

/// Performance in force of the candidates of one workload.
#[derive(Clone, Debug, Default)]
pub(crate) struct InForce {
    /// By candidate.
    long_runs: Vec<LongRun>,
    /// The current window.
    open: (Work, Nanos),
    /// Time lost against the best other one, and against its own score; and the work since either was 0.
    lost_s: [f64; 2],
    /// Windows since then.
    windows: u64,
    /// It has reached its own score since it took over, or since the load began.
    has_shown_own: bool,
    losing: [(Work, Nanos); 2],
    /// How often a candidate was replaced.
    left: u32,
}

impl InForce {
    pub(crate) fn new(candidates: usize) -> InForce {
        InForce { long_runs: vec![LongRun::default(); candidates], ..InForce::default() }
    }

    /// Records score and mean latency of a candidate over a time in force.
    pub(crate) fn add(&mut self, candidate: usize, (score, latency_s): (f64, f64), measured: Nanos, measure: Measure) {
        if let Some(long_run) = self.long_runs.get_mut(candidate) {
            long_run.add(score, latency_s, measured, measure.periods(MEMORY));
        }
    }

    /// Another candidate is in force, or the load began anew.
    pub(crate) fn begin(&mut self) {
        self.open = Default::default();
        self.lost_s = [0.0; 2];
        (self.has_shown_own, self.windows) = (false, 0);
        self.losing = Default::default();
    }

    /// Whether the candidate in force performs as well as before, if it was in force for long, and as the others did. Until then it
    /// is no reference for others.
    pub(crate) fn is_a_measure(&self, candidate: usize, measure: Measure) -> bool {
        let known = self.long_runs.get(candidate).is_some_and(|run| run.measured >= measure.periods(KNOWN_OWN));
        self.windows > 0 && self.lost_s[0] == 0.0 && (self.has_shown_own || !known)
    }

    /// Whether another candidate, while in force, was better than this slot of `candidate` at no higher latency.
    pub(crate) fn was_better(&self, candidate: usize, (score, latency_s): (f64, f64), measure: Measure) -> bool {
        let other = self.best_other(candidate, measure.periods(KNOWN));
        other.is_some_and(|(_, run)| score < (1.0 - TOLERANCE) * run.score && latency_s > run.latency_s)
    }

    /// The other candidate with the highest score.
    fn best_other(&self, candidate: usize, known_after: Nanos) -> Option<(usize, LongRun)> {
        let known =
            |(other, run): &(usize, &LongRun)| *other != candidate && run.measured >= known_after && run.score > 0.0;
        let others = self.long_runs.iter().enumerate().filter(known);
        others.map(|(other, run)| (other, *run)).max_by(|a, b| a.1.score.total_cmp(&b.1.score))
    }

    /// A tick with `candidate` in force. Returns its loss once that exceeds the bound.
    pub(crate) fn tick(&mut self, candidate: usize, (work, elapsed): (Work, Nanos), measure: Measure) -> Option<Loss> {
        self.open = (self.open.0.plus(work), self.open.1 + elapsed);
        let (work, elapsed) = self.open;
        let is_full =
            elapsed >= measure.periods(WINDOW_MAX) || (elapsed >= measure.periods(WINDOW) && work.ios >= WINDOW_IOS);
        if !is_full || work.ios == 0 {
            return None;
        }
        self.open = Default::default();
        let (score, latency_s) = (work.score(measure.goal, elapsed), work.mean_latency_s());
        let (other, own) = (self.best_other(candidate, measure.periods(KNOWN)), *self.long_runs.get(candidate)?);
        // Lower throughput at the same latency means a lighter load, not a loss.
        let against =
            other.map_or(
                0.0,
                |(_, run)| {
                    if latency_s > run.latency_s { 1.0 - TOLERANCE - score / run.score } else { -TOLERANCE }
                },
            );
        self.windows += 1;
        self.has_shown_own |= score >= REACHED * own.score;
        let against_own = match self.has_shown_own
            && own.measured >= measure.periods(KNOWN_OWN)
            && latency_s > SLOWER * own.latency_s
        {
            true => COLLAPSED - score / own.score.max(f64::MIN_POSITIVE),
            false => -COLLAPSED,
        };
        for (i, loss) in [against, against_own].into_iter().enumerate() {
            self.lost_s[i] = (self.lost_s[i] + loss * elapsed.as_secs_f64()).max(0.0);
            let (lost, time) = self.losing[i];
            self.losing[i] = if self.lost_s[i] > 0.0 { (lost.plus(work), time + elapsed) } else { Default::default() };
        }
        self.add(candidate, (score, latency_s), elapsed, measure);
        let bound = measure.periods(BOUND << self.left.min(DOUBLINGS_MAX));
        let which = self.lost_s.iter().position(|lost| *lost > bound.as_secs_f64())?;
        let (work, elapsed) = self.losing[which];
        let now =
            LongRun { score: work.score(measure.goal, elapsed), latency_s: work.mean_latency_s(), measured: elapsed };
        self.long_runs[candidate] = now;
        self.left += 1;
        self.begin();
        match other.filter(|_| which == 0) {
            Some((other, run)) => Some(Loss::Against { other, ratio: now.score / run.score }),
            None => Some(Loss::Collapse),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURE: Measure = Measure { goal: Goal::Throughput, period: Nanos::from_ms(100) };

    /// A window with four requests outstanding, at a rate and of a length.
    fn serve(in_force: &mut InForce, candidate: usize, per_s: u64, seconds: u64) -> Option<(Nanos, Loss)> {
        let tick = Nanos::from_ms(100);
        (1..=10 * seconds).find_map(|i| {
            let ios = per_s / 10;
            let work = Work { ios, bytes: 4096 * ios, latency: Nanos(4 * tick.0) };
            in_force.tick(candidate, (work, tick), MEASURE).map(|loss| (Nanos(i * tick.0), loss))
        })
    }

    #[test]
    fn a_winner_that_falls_behind_another_one_is_left_after_a_bounded_loss() {
        let mut in_force = InForce::new(3);
        assert_eq!(serve(&mut in_force, 0, 1000, 20), None);
        in_force.begin();
        assert_eq!(serve(&mut in_force, 1, 1200, 20), None);
        let (after, loss) = serve(&mut in_force, 1, 200, 20).unwrap();
        assert!(after <= Nanos::from_ms(800), "{after}");
        assert!(matches!(loss, Loss::Against { other: 0, ratio } if (ratio - 0.2).abs() < 0.01), "{loss:?}");
        // A small loss takes longer to be sure of, and within the tolerance it does not count.
        in_force.begin();
        let (after, _) = serve(&mut in_force, 2, 800, 20).unwrap();
        assert!((4..8).contains(&(after.0 / 1_000_000_000)), "twice the bound: {after}");
        assert_eq!(serve(&mut InForce { left: 0, ..in_force }, 2, 960, 600), None);
    }

    #[test]
    fn a_load_that_asks_for_less_is_no_loss() {
        let mut in_force = InForce::new(2);
        assert_eq!(serve(&mut in_force, 0, 1000, 20), None);
        in_force.begin();
        let tick = Nanos::from_ms(100);
        let work = Work { ios: 10, bytes: 40_960, latency: Nanos(10 * 4_000_000) };
        assert!((0..600).all(|_| in_force.tick(1, (work, tick), MEASURE).is_none()));
    }

    #[test]
    fn a_collapse_is_seen_where_no_other_candidate_was_in_force() {
        let mut in_force = InForce::new(2);
        assert_eq!(serve(&mut in_force, 0, 1000, 20), None);
        let (after, loss) = serve(&mut in_force, 0, 100, 20).unwrap();
        assert!(after <= Nanos::from_ms(1600) && loss == Loss::Collapse, "{after} {loss:?}");
    }

    #[test]
    fn two_that_are_alike_do_not_alternate() {
        let mut in_force = InForce::new(2);
        // Both fall by a third a while after they took over: whichever is in force, the other was better.
        let mut switches = 0;
        let mut candidate = 0;
        for _ in 0..200 {
            in_force.begin();
            if serve(&mut in_force, candidate, 1000, 2).or_else(|| serve(&mut in_force, candidate, 660, 3)).is_some() {
                (candidate, switches) = (1 - candidate, switches + 1);
            }
        }
        assert!(switches <= 12, "{switches}");
    }
}
