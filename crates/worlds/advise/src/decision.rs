//! Which scheduler to recommend, step by step: what can be set, what starves nothing, what keeps the throughput, and then the
//! criteria of the goal.

use crate::bounds::{Error, Runs, Worse, worse_than};
use crate::conditions::Conditions;
use crate::confidence::Confidence;
use crate::figures::{Figure, by_seed, of_every_run, valid};
use crate::metric::{Metric, USEFUL};
use crate::row::RankingRow;
use crate::usage::Usage;
use crate::{Focus, Goal};
use dumbwaiter_measure::RunResult;

/// A recommendation of which no other is better by more than this is clear.
pub(crate) const CLEAR_WITHIN: f64 = 0.05;
/// Up to this it is likely.
const LIKELY_WITHIN: f64 = 0.15;
/// Where chance may hide differences larger than this, runs that show none say nothing: of three runs or more, whose bounds rest
/// on some knowledge of the noise and are reported, and of two.
const TIE_WITHIN: f64 = 9.0;
const TIE_OF_TWO_WITHIN: f64 = 0.25;
/// Runs of which one mean is over twice another do not show that there is no difference, even if chance explains it.
const TIE_SEEN_WITHIN: f64 = 1.0;
/// Smallest difference between single runs that counts: p99 latencies of equal runs seldom differ by a quarter.
const SINGLE_RUN_WITHIN: f64 = 0.25;
/// Differences on a drive without a queue up to which they are the scheduler's own CPU time.
const IDLE_WITHIN: f64 = 0.10;
const IDLE_WITHIN_US: f64 = 5.0;

/// A p99 is unknown, and the scheduler starves the focus, where this part of its I/Os waits longer than any that finished.
pub(crate) const STARVES_AT: f64 = 0.01;
/// A scheduler that reaches this part in a run may well starve the focus in another run.
const NEARLY_STARVES_AT: f64 = STARVES_AT / 2.0;

/// How often each scheduler was to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replication {
    /// All equally often: fewer runs are a lack.
    Equal,
    /// Some more often than others, on purpose.
    Adaptive,
}

/// Why the runs allow no recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// No I/O finished in the measured time.
    NoIo,
    /// Only one scheduler was run.
    NothingToCompare,
    /// The applications should decide, and none of them was launched or played in the measured time.
    NoLaunch,
    /// Every scheduler starves the focus in some run.
    AllStarve,
    /// None of those that were run can be set.
    NothingToSet,
    /// The best cannot be set, and of those that can only one was run.
    BestCannotBeSet,
    /// The machine was busy with other work.
    BusyMachine,
    /// Another may be better by more than is acceptable.
    TooUncertain,
    /// Of the first criterion only lower bounds are known, and by the others none differs.
    OnlyLowerBounds(Metric),
    /// One that misses the throughput floor by chance, perhaps, would win.
    MayKeepThroughput(usize),
    /// All but the leader miss the throughput floor, and all of them by chance, perhaps.
    MayAllKeepThroughput(usize),
    /// `better` would win but for the throughput of `fastest`, which may starve the focus in other runs and then sets no floor.
    FloorMayStarve { better: usize, fastest: usize },
}

/// The steps of a decision. Schedulers are numbers of rows.
pub(crate) struct Decision {
    /// The one that looks best.
    pub(crate) leader: usize,
    /// The metric that decided; where nothing did, the first criterion.
    pub(crate) metric: Metric,
    /// The first criterion that can decide.
    pub(crate) primary: Metric,
    /// The first criterion, where only lower bounds of it are known, so that it cannot decide.
    pub(crate) unknown: Option<Metric>,
    /// Which can be set.
    pub(crate) settable: Vec<usize>,
    /// Which compete: those that can be set, or all where that is fewer than two.
    pub(crate) entrants: Vec<usize>,
    /// Entrants with fewer valid runs than another: they starved the focus, or only a lower bound is known.
    pub(crate) starved: Vec<usize>,
    /// Entrants below the throughput floor.
    pub(crate) slow: Vec<usize>,
    /// The other entrants.
    pub(crate) pool: Vec<usize>,
    /// By [`Decision::metric`]: how much worse than the leader each row is (zero for itself).
    pub(crate) worse: Vec<Worse>,
    /// Of the pool: surely worse than the leader by a useful amount.
    pub(crate) beaten: Vec<usize>,
    /// The rest of the pool without the leader.
    pub(crate) ties: Vec<usize>,
    /// Another of the pool may be better than the leader by at most this fraction; `None` where that is unknown.
    pub(crate) may_be_better_by: Option<f64>,
    /// How busy the drive was.
    pub(crate) usage: Usage,
    pub(crate) confidence: Confidence,
    pub(crate) doubt: Option<Doubt>,
}

/// The runs of one device, by scheduler.
pub(crate) struct Field<'a> {
    pub(crate) rows: &'a [RankingRow],
    pub(crate) groups: &'a [Vec<&'a RunResult>],
    pub(crate) focus: &'a Focus,
    pub(crate) goal: Goal,
    pub(crate) conditions: &'a Conditions,
}

impl Field<'_> {
    /// The deciding metrics, in order: the goal's criteria that are defined for these runs.
    pub(crate) fn criteria(&self) -> Vec<Metric> {
        let runs: Vec<&RunResult> = self.groups.iter().flatten().copied().collect();
        let defined = |metrics: Vec<Metric>| -> Vec<Metric> {
            metrics.into_iter().filter(|m| self.rows.iter().any(|row| !row.mean(*m).is_nan())).collect()
        };
        let own = defined(self.goal.criteria(&runs));
        // A goal that these runs say nothing of gives way to the default one.
        let judged = own.contains(&self.goal.metric());
        if judged || own.is_empty() { own } else { defined(Goal::Balanced.criteria(&runs)) }
    }

    /// Seeds and values of a metric; a recorded load that is simulated again is the same run.
    fn values(&self, metric: Metric) -> Vec<Vec<(u64, f64)>> {
        by_seed(metric, self.groups, self.focus)
    }

    fn error(&self) -> Error {
        let of_bounds = self.conditions.error;
        Error { of_bounds, of_tests: of_bounds / self.criteria().len().max(1) as f64 }
    }

    /// How much worse than `leader` each of `among` is; for other rows a comparison outside the joint error.
    fn worse(&self, metric: Metric, among: &[usize], leader: usize) -> Vec<Worse> {
        let values = self.values(metric);
        let compare = |among: &[usize]| -> Vec<Worse> {
            let of: Vec<&Runs> = among.iter().map(|i| values[*i].as_slice()).collect();
            let at = among.iter().position(|i| *i == leader).unwrap_or(0);
            worse_than(metric, &of, at, self.error())
        };
        let all: Vec<usize> = (0..self.rows.len()).collect();
        let mut worse = compare(&all);
        for (i, found) in among.iter().zip(compare(among)) {
            worse[*i] = found;
        }
        worse
    }

    /// The largest part of the focus's latencies that is unknown in any run of a scheduler.
    pub(crate) fn unknown_share(&self, i: usize) -> f64 {
        self.groups[i].iter().map(|run| self.focus.unknown_share(run)).fold(0.0, f64::max)
    }

    /// Whether a scheduler came near to starving the focus, where its p99 comes first.
    pub(crate) fn nearly_starves(&self, primary: Metric, i: usize) -> bool {
        primary == Metric::FocusP99 && self.unknown_share(i) >= NEARLY_STARVES_AT
    }

    fn best(&self, metric: Metric, among: &[usize]) -> Option<usize> {
        let finite = among.iter().copied().filter(|i| self.rows[*i].mean(metric).is_finite());
        finite.reduce(|a, b| if metric.better(self.rows[b].mean(metric), self.rows[a].mean(metric)) { b } else { a })
    }
}

/// Whether single or equal runs must do.
fn distinguished(metric: Metric, worse: &Worse) -> bool {
    let useful = worse.by > metric.useful();
    match worse.bounds {
        Some(_) => useful && worse.surely,
        None => worse.by > SINGLE_RUN_WITHIN * metric.useful() / USEFUL,
    }
}

/// Decides among the schedulers of a field.
pub(crate) fn decide(field: &Field<'_>, replication: Replication) -> Decision {
    let all: Vec<usize> = (0..field.rows.len()).collect();
    // Beside the kernel's own, our engine's schedulers of the same names only show what is possible.
    let kernel = field.rows.iter().any(|row| row.via == "kernel");
    let settable: Vec<usize> = all
        .iter()
        .copied()
        .filter(|i| field.conditions.can_be_set(&field.rows[*i]) && (!kernel || field.rows[*i].via == "kernel"))
        .collect();
    let entrants = if settable.len() >= 2 { settable.clone() } else { all };
    let all_criteria = field.criteria();
    // I/Os unfinished at the end make a figure a lower bound; where no entrant has more, the figure says nothing.
    let known = |metric: &Metric| {
        let mut bounded =
            entrants.iter().map(|i| &field.rows[*i]).filter(|row| row.mean(*metric).is_finite()).peekable();
        bounded.peek().is_none() || bounded.any(|row| !row.is_lower_bound(*metric))
    };
    let criteria: Vec<Metric> = all_criteria.iter().copied().filter(known).collect();
    let unknown = all_criteria.first().copied().filter(|first| !known(first) && !criteria.is_empty());
    let criteria = if criteria.is_empty() { all_criteria } else { criteria };
    let primary = criteria.first().copied().unwrap_or(field.goal.metric());
    let (valid, starved) = split_starved(field, primary, &entrants, replication);
    let rates = field.best(Metric::MbPerS, &valid);
    let floor = field.goal.throughput_floor() * rates.map_or(0.0, |i| field.rows[i].mean(Metric::MbPerS));
    let keeps = |i: &usize| field.rows[*i].mean(Metric::MbPerS) >= floor;
    let (pool, slow): (Vec<usize>, Vec<usize>) = valid.into_iter().partition(keeps);

    // Criterion after criterion among those that the one before finds equal.
    let mut left = pool.clone();
    let mut decided = None;
    for metric in &criteria {
        let Some(leader) = field.best(*metric, &left).filter(|_| left.len() > 1) else { break };
        let worse = field.worse(*metric, &left, leader);
        if decided.is_none() && left.iter().any(|i| distinguished(*metric, &worse[*i])) {
            decided = Some(*metric);
        }
        left.retain(|i| worse[*i].by <= metric.useful());
    }
    // Of equals the one that costs least.
    let leader = left.first().map(|first| {
        let cheapest = field.best(Metric::CpuUsPerIo, &left).unwrap_or(*first);
        let enough = |i: &usize| {
            Metric::CpuUsPerIo
                .worse_by(field.rows[*i].mean(Metric::CpuUsPerIo), field.rows[cheapest].mean(Metric::CpuUsPerIo))
                <= CPU_EQUAL_WITHIN
        };
        let best = field.best(primary, &left).unwrap_or(*first);
        if enough(&best) { best } else { cheapest }
    });
    let leader = leader.or(entrants.first().copied()).unwrap_or(0);
    let metric = match decided {
        Some(metric) => metric,
        // The floor alone left one.
        None if pool.len() == 1 && !slow.is_empty() && starved.is_empty() => Metric::MbPerS,
        None => primary,
    };
    conclude(
        field,
        Stage { leader, metric, primary, unknown, entrants, settable, starved, slow, pool, decided: decided.is_some() },
    )
}

/// Relative difference in processor time below which two schedulers cost the same.
const CPU_EQUAL_WITHIN: f64 = 0.05;

/// The entrants with as many valid runs as any, and the others.
fn split_starved(
    field: &Field<'_>,
    primary: Metric,
    entrants: &[usize],
    replication: Replication,
) -> (Vec<usize>, Vec<usize>) {
    let of_metric = of_every_run(primary, field.groups, field.focus);
    let of_focus = of_every_run(Metric::FocusP99, field.groups, field.focus);
    let part = |i: usize| {
        let (figures, focus): (&[Figure], &[Figure]) = (&of_metric[i], &of_focus[i]);
        match replication {
            Replication::Equal => valid(figures, focus) as f64,
            Replication::Adaptive => valid(figures, focus) as f64 / figures.len() as f64,
        }
    };
    let most = entrants.iter().map(|i| part(*i)).fold(0.0, f64::max);
    entrants.iter().partition(|i| part(**i) >= most)
}

/// The result of the steps.
struct Stage {
    leader: usize,
    metric: Metric,
    primary: Metric,
    unknown: Option<Metric>,
    entrants: Vec<usize>,
    settable: Vec<usize>,
    starved: Vec<usize>,
    slow: Vec<usize>,
    pool: Vec<usize>,
    /// A criterion distinguished some of the pool.
    decided: bool,
}

fn conclude(field: &Field<'_>, stage: Stage) -> Decision {
    let Stage { leader, metric, primary, unknown, entrants, settable, starved, slow, pool, decided } = stage;
    let worse = field.worse(metric, &pool, leader);
    let by_primary = field.worse(primary, &pool, leader);
    let others = || pool.iter().copied().filter(|i| *i != leader);
    let beaten: Vec<usize> =
        others().filter(|i| distinguished(metric, &worse[*i]) || distinguished(primary, &by_primary[*i])).collect();
    let ties: Vec<usize> = others().filter(|i| !beaten.contains(i)).collect();
    let regret = |of: &[Worse], metric: Metric| -> Option<f64> {
        let scale = metric.useful() / USEFUL;
        let each = ties.iter().map(|i| of[*i].may_be_better_by().map(|by| by / scale));
        each.collect::<Option<Vec<f64>>>().map(|all| all.into_iter().fold(0.0, f64::max))
    };
    let tested = field.values(primary)[leader].len() > 1 && others().all(|i| by_primary[i].bounds.is_some());
    let may_be_better_by = match (regret(&by_primary, primary), regret(&worse, metric)) {
        (Some(a), Some(b)) if tested => Some(a.max(b)),
        _ => None,
    };
    let usage = Usage::of(entrants.iter().flat_map(|i| field.groups[*i].iter().copied()));
    let mut decision = Decision {
        leader,
        metric,
        primary,
        unknown,
        settable,
        entrants,
        starved,
        slow,
        pool,
        worse,
        beaten,
        ties,
        may_be_better_by,
        usage,
        confidence: Confidence::Inconclusive,
        doubt: None,
    };
    let sure = decided || !decision.starved.is_empty() || surely_slow(field, &decision);
    let has_reason = decided || !decision.slow.is_empty() || !decision.starved.is_empty();
    match doubt(field, &decision, &by_primary, primary) {
        Some(doubt) => decision.doubt = Some(doubt),
        None if is_idle(field, &decision, primary, &by_primary) => decision.confidence = Confidence::NoDifference,
        None if has_reason => {
            decision.judge();
            // All hangs on a throughput that may be enough after all, or on runs that nearly starved the focus.
            if (!sure || field.nearly_starves(primary, leader)) && decision.confidence == Confidence::Clear {
                decision.confidence = Confidence::Likely;
            }
        }
        None => {
            let runs = decision.pool.iter().map(|i| field.groups[*i].len()).min().unwrap_or(0);
            decision.judge_ties(primary, &by_primary, if runs > 2 { TIE_WITHIN } else { TIE_OF_TWO_WITHIN });
        }
    }
    if let Some(metric) = unknown {
        match decision.confidence {
            Confidence::Clear => decision.confidence = Confidence::Likely,
            Confidence::NoDifference => {
                (decision.confidence, decision.doubt) =
                    (Confidence::Inconclusive, Some(Doubt::OnlyLowerBounds(metric)));
            }
            _ => {}
        }
    }
    decision
}

impl Decision {
    /// Whether more replicates may change the decision.
    pub(crate) fn more_runs_help(&self) -> bool {
        let known = self.pool.iter().all(|i| self.worse[*i].bounds.is_some() || *i == self.leader);
        match self.doubt {
            Some(Doubt::TooUncertain) => known,
            Some(Doubt::MayKeepThroughput(_) | Doubt::MayAllKeepThroughput(_) | Doubt::FloorMayStarve { .. }) => true,
            Some(_) => false,
            None => known && !(self.usage.is_idle() && self.confidence == Confidence::NoDifference),
        }
    }

    /// The confidence in the leader where some are worse.
    fn judge(&mut self) {
        match self.may_be_better_by {
            Some(by) if by <= CLEAR_WITHIN => self.confidence = Confidence::Clear,
            Some(by) if by <= LIKELY_WITHIN => self.confidence = Confidence::Likely,
            None => self.confidence = Confidence::Likely,
            Some(_) => self.doubt = Some(Doubt::TooUncertain),
        }
    }

    /// Whether the runs show that there is no difference, where none was found.
    fn judge_ties(&mut self, primary: Metric, by_primary: &[Worse], within: f64) {
        let scale = primary.useful() / USEFUL;
        let same = |i: &usize| match by_primary[*i].bounds {
            Some([least, most]) => {
                by_primary[*i].by.abs() <= TIE_SEEN_WITHIN * scale && least.abs().max(most) <= within * scale
            }
            None => by_primary[*i].by <= primary.useful(),
        };
        if self.ties.iter().all(same) {
            self.confidence = Confidence::NoDifference;
        } else {
            self.doubt = Some(Doubt::TooUncertain);
        }
    }
}

/// Whether any scheduler misses the throughput floor, and not by chance.
fn surely_slow(field: &Field<'_>, decision: &Decision) -> bool {
    let Some(fastest) = field.best(Metric::MbPerS, &decision.pool) else { return false };
    let rates = field.worse(Metric::MbPerS, &decision.entrants, fastest);
    let lost = 1.0 - field.goal.throughput_floor();
    decision.slow.iter().any(|i| rates[*i].bounds.is_some_and(|[least, _]| least >= lost))
}

/// Whether no request had to wait for another, so that what remains of a difference is the scheduler's own CPU time.
fn is_idle(field: &Field<'_>, decision: &Decision, primary: Metric, by_primary: &[Worse]) -> bool {
    let small = |i: &usize| {
        let (own, best) = (field.rows[*i].mean(primary), field.rows[decision.leader].mean(primary));
        by_primary[*i].by <= IDLE_WITHIN || (primary == Metric::FocusP99 && own - best <= IDLE_WITHIN_US)
    };
    decision.usage.is_idle()
        && decision.starved.is_empty()
        && decision.slow.is_empty()
        && decision.pool.iter().all(small)
}

fn doubt(field: &Field<'_>, decision: &Decision, by_primary: &[Worse], primary: Metric) -> Option<Doubt> {
    let runs = || field.groups.iter().flatten();
    let leader = decision.leader;
    if runs().all(|run| run.read.count + run.write.count + run.other.count == 0) {
        return Some(Doubt::NoIo);
    }
    if field.rows.len() < 2 {
        return Some(Doubt::NothingToCompare);
    }
    let applications_decide = field.goal.criteria(&[]).contains(&Metric::StartUp);
    let mut applications = runs().flat_map(|run| &run.applications).peekable();
    if applications_decide && applications.peek().is_some() && !applications.any(|a| a.was_active()) {
        return Some(Doubt::NoLaunch);
    }
    let defined = field.rows.iter().any(|row| !row.mean(primary).is_nan());
    if defined && !field.rows[leader].mean(primary).is_finite() {
        return Some(Doubt::AllStarve);
    }
    if field.conditions.busy.is_some() {
        return Some(Doubt::BusyMachine);
    }
    if decision.settable.is_empty() {
        return Some(Doubt::NothingToSet);
    }
    if decision.settable.len() == 1 && decision.settable[0] != leader {
        return Some(Doubt::BestCannotBeSet);
    }
    // One that may keep the throughput after all, and is better by what decides.
    let fastest = field.best(Metric::MbPerS, &decision.pool)?;
    let rates = field.worse(Metric::MbPerS, &decision.entrants, fastest);
    let lost = 1.0 - field.goal.throughput_floor();
    let by_chance = |i: &&usize| rates[**i].bounds.is_some_and(|[least, _]| least < lost);
    let in_doubt = decision.slow.iter().find(|i| by_chance(i) && by_primary[**i].by < -CLEAR_WITHIN);
    let nearest = || decision.slow.iter().reduce(|a, b| if rates[*b].by < rates[*a].by { b } else { a });
    let all_in_doubt = || {
        (decision.pool.len() == 1 && decision.starved.is_empty() && decision.slow.iter().all(|i| by_chance(&i)))
            .then(nearest)
            .flatten()
    };
    in_doubt
        .map(|i| Doubt::MayKeepThroughput(*i))
        .or_else(|| all_in_doubt().map(|i| Doubt::MayAllKeepThroughput(*i)))
        .or_else(|| floor_may_starve(field, decision, by_primary, fastest))
}

/// One that only the throughput of `fastest` rules out, where `fastest` leaves I/Os of the focus waiting without a known end: how
/// many, and so whether it starves the focus, differs from run to run.
fn floor_may_starve(field: &Field<'_>, decision: &Decision, by_primary: &[Worse], fastest: usize) -> Option<Doubt> {
    let leaves_waiting = |i: usize| decision.primary == Metric::FocusP99 && field.unknown_share(i) > 0.0;
    if !leaves_waiting(fastest) {
        return None;
    }
    let rate = |i: usize| field.rows[i].mean(Metric::MbPerS);
    let steady = || decision.pool.iter().chain(&decision.slow).copied().filter(|i| !leaves_waiting(*i));
    let floor = field.goal.throughput_floor() * steady().map(rate).fold(0.0, f64::max);
    let slow = steady().filter(|i| decision.slow.contains(i) && rate(*i) >= floor);
    let better = slow.filter(|i| by_primary[*i].by < -CLEAR_WITHIN);
    let better = better.reduce(|a, b| if by_primary[b].by < by_primary[a].by { b } else { a })?;
    Some(Doubt::FloorMayStarve { better, fastest })
}
