//! Words a decision. Every clause states something that the decision compared; a property test checks each against the runs.

use std::collections::BTreeSet;

use dumbwaiter_measure::RunResult;

use crate::Goal;
use crate::confidence::Confidence;
use crate::decision::{Decision, Doubt, Field, STARVES_AT};
use crate::figures::repeats_a_recording;
use crate::metric::Metric;
use crate::row::{Axes, RankingRow};

/// Requests below which a p99 is worth a caveat: fewer than ten requests lie above it.
const P99_REQUESTS_MIN: u64 = 1000;
/// A difference that people would notice if it were there.
const LARGE: f64 = 0.10;
/// Most entries of a list in a sentence.
const LISTED_MAX: usize = 3;

/// `12 %`, `1.2 %`.
pub(crate) fn percent(fraction: f64) -> String {
    let percent = fraction * 100.0;
    if percent.abs() < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// `-12 %`, `+3.1 %`.
pub(crate) fn signed(fraction: f64) -> String {
    let sign = if fraction < 0.0 { "-" } else { "+" };
    format!("{sign}{}", percent(fraction.abs()))
}

/// `p = 0.012`, `p < 0.001`.
pub(crate) fn p_text(p: f64) -> String {
    match p {
        p if p.is_nan() => "too few runs to rule out chance".to_owned(),
        p if p < 0.001 => "p < 0.001".to_owned(),
        p => format!("p = {p:.3}"),
    }
}

/// An upper bound: never rounded down.
fn percent_up(fraction: f64) -> String {
    let tenths = (fraction * 1000.0 - 1e-9).ceil().max(0.0);
    if tenths < 100.0 { format!("{:.1} %", tenths / 10.0) } else { format!("{:.0} %", (tenths / 10.0).ceil()) }
}

/// A lower bound: never rounded up.
fn percent_down(fraction: f64) -> String {
    let tenths = (fraction * 1000.0 + 1e-9).floor().max(0.0);
    if tenths < 100.0 { format!("{:.1} %", tenths / 10.0) } else { format!("{:.0} %", (tenths / 10.0).floor()) }
}

/// `a, b and c`.
pub(crate) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [init @ .., last] => format!("{} and {last}", init.join(", ")),
    }
}

/// The words of one decision.
pub(crate) struct Words<'a> {
    pub(crate) field: &'a Field<'a>,
    pub(crate) decision: &'a Decision,
    pub(crate) axes: Axes,
}

impl Words<'_> {
    fn row(&self, i: usize) -> &RankingRow {
        &self.field.rows[i]
    }

    /// The name of a scheduler in a sentence, where `none` must not read as a word.
    fn name(&self, i: usize) -> String {
        let name = self.row(i).name(self.axes);
        if name == "none" { "`none`".to_owned() } else { name }
    }

    /// Of which the figures are the lowest or highest: ` of those with …`; nothing where all compete.
    fn of_pool(&self) -> String {
        let floor = self.field.goal.throughput_floor();
        let all = self.decision.entrants.len() == self.field.rows.len();
        let kept = if self.decision.metric == Metric::MbPerS || floor == 0.0 {
            None
        } else if all {
            Some(format!("with {}", self.pool_rule()))
        } else {
            Some(format!("with at least {:.0} % of their best throughput", floor * 100.0))
        };
        match (all, kept) {
            (true, None) => String::new(),
            (true, Some(kept)) => format!(" of those {kept}"),
            (false, None) => " of those that can be set".to_owned(),
            (false, Some(kept)) => format!(" of those that can be set, {kept}"),
        }
    }

    fn value(&self, i: usize) -> String {
        self.decision.metric.shown(self.row(i).mean(self.decision.metric))
    }

    fn named_values(&self, of: &[usize]) -> Vec<String> {
        of.iter().map(|i| format!("{} {}", self.name(*i), self.value(*i))).collect()
    }

    fn figure(&self) -> String {
        self.decision.metric.explained(self.field.focus)
    }

    fn superlative(&self) -> &'static str {
        if self.decision.metric.higher_is_better() { "the highest" } else { "the lowest" }
    }

    fn runs(&self, i: usize) -> usize {
        self.field.groups[i].len()
    }

    fn recorded(&self) -> bool {
        self.field.groups.iter().flatten().all(|run| repeats_a_recording(run))
    }

    /// The one of the pool with the best mean by what decided.
    fn best(&self) -> usize {
        let metric = self.decision.metric;
        let mean = |i: usize| self.row(i).mean(metric);
        let best =
            self.decision.pool.iter().copied().reduce(|a, b| if metric.better(mean(b), mean(a)) { b } else { a });
        best.unwrap_or(self.decision.leader)
    }

    /// The floor of the pool.
    pub(crate) fn pool_rule(&self) -> String {
        match self.field.goal.throughput_floor() {
            floor if floor > 0.0 => format!("at least {:.0} % of the best throughput", floor * 100.0),
            _ => "any throughput".to_owned(),
        }
    }

    /// The number behind the confidence.
    pub(crate) fn certainty(&self) -> String {
        let d = self.decision;
        match d.confidence {
            Confidence::Clear | Confidence::Likely => match d.may_be_better_by {
                None => "one run each; they differ by more than 25 %".to_owned(),
                Some(_) if d.ties.is_empty() => {
                    let least = d.beaten.iter().filter_map(|i| d.worse[*i].bounds.map(|[least, _]| least));
                    match least.reduce(f64::min).filter(|least| *least > 0.0) {
                        Some(least) => format!("the others are worse by at least {}", percent_down(least)),
                        None => "no other qualifies".to_owned(),
                    }
                }
                Some(0.0) => "no other is better".to_owned(),
                Some(by) => format!("no other is better by more than {}", percent_up(by)),
            },
            Confidence::NoDifference => match self.largest_difference() {
                Some(by) if by > LARGE => {
                    format!("these runs cannot exclude one of up to {}; --until 5% narrows it", percent_up(by))
                }
                Some(by) => format!("differences are at most {}", percent_up(by)),
                None if d.usage.is_idle() => "the drive was idle".to_owned(),
                None => "one run each".to_owned(),
            },
            Confidence::Inconclusive => match (d.doubt, d.may_be_better_by) {
                (Some(Doubt::TooUncertain), Some(by)) => format!("another may be better by {}", percent_up(by)),
                (Some(Doubt::TooUncertain), None) => "one run each".to_owned(),
                (Some(Doubt::BusyMachine), _) => "the machine was busy".to_owned(),
                (Some(Doubt::MayKeepThroughput(i) | Doubt::MayAllKeepThroughput(i)), _) => {
                    let most = d.pool.iter().map(|i| self.row(*i).mean(Metric::MbPerS)).fold(0.0, f64::max);
                    let part = self.row(i).mean(Metric::MbPerS) / most;
                    format!("{} has about {:.0} % of the best throughput", self.name(i), (part * 100.0).floor())
                }
                (Some(Doubt::FloorMayStarve { fastest, .. }), _) => {
                    format!("{} left I/Os of {} waiting", self.name(fastest), self.field.focus.name())
                }
                (Some(Doubt::OnlyLowerBounds(_)), _) => "only lower bounds are known".to_owned(),
                _ => "not compared".to_owned(),
            },
        }
    }

    /// The largest difference from the leader that the bounds allow.
    pub(crate) fn largest_difference(&self) -> Option<f64> {
        let d = self.decision;
        let of = |i: &usize| d.worse[*i].bounds.map(|[least, most]| least.abs().max(most));
        let all: Option<Vec<f64>> = d.ties.iter().chain(&d.beaten).map(of).collect();
        all.map(|all| all.into_iter().fold(0.0, f64::max))
    }

    /// The reason.
    pub(crate) fn because(&self) -> String {
        match (self.decision.confidence, self.decision.doubt) {
            (_, Some(doubt)) => self.doubt(doubt),
            (Confidence::NoDifference, None) => self.no_difference(),
            _ => self.reason(),
        }
    }

    fn reason(&self) -> String {
        let d = self.decision;
        let (metric, leader) = (d.metric, d.leader);
        let kept = self.of_pool();
        let mean = |i: usize| self.row(i).mean(metric);
        let mut text = match Some(self.best()).filter(|best| metric.better(mean(*best), mean(leader))) {
            Some(best) => format!(
                "its {}, {}, is within {} of {}{kept}: {}",
                self.figure(),
                self.value(leader),
                percent_up(metric.worse_by(mean(leader), mean(best))),
                self.superlative(),
                self.named_values(&[best]).concat()
            ),
            None => format!("it has {} {}{kept}: {}", self.superlative(), self.figure(), self.value(leader)),
        };
        let mut worse: Vec<usize> =
            d.beaten.iter().copied().filter(|i| metric.better(mean(leader), mean(*i))).collect();
        worse.sort_by(|a, b| mean(*a).total_cmp(&mean(*b)));
        if metric.higher_is_better() {
            worse.reverse();
        }
        if !worse.is_empty() {
            let most = worse.len().min(LISTED_MAX);
            text += &format!("; {}", list(&self.named_values(&worse[worse.len() - most..])));
        }
        text += &self.ties_clause();
        text += &self.out_clause();
        text += &self.elsewhere_clause();
        text
    }

    fn ties_clause(&self) -> String {
        let ties = &self.decision.ties;
        if ties.is_empty() {
            return String::new();
        }
        let verb = if ties.len() == 1 { "does" } else { "do" };
        let why = if self.decision.may_be_better_by.is_some() { "significantly" } else { "enough in one run" };
        format!("; {} {verb} not differ {why}", list(&self.named_values(ties)))
    }

    /// Which are out, and why.
    fn out_clause(&self) -> String {
        let d = self.decision;
        let mut text = String::new();
        let mut failures: Vec<(String, Vec<String>)> = Vec::new();
        for i in &d.starved {
            let why = self.starvation(*i);
            match failures.iter_mut().find(|(other, _)| *other == why) {
                Some((_, names)) => names.push(self.name(*i)),
                None => failures.push((why, vec![self.name(*i)])),
            }
        }
        for (why, names) in failures {
            text += &format!("; {} {why}", list(&names));
        }
        let most = d.pool.iter().map(|i| self.row(*i).mean(Metric::MbPerS)).fold(0.0, f64::max);
        for i in &d.slow {
            let part = self.row(*i).mean(Metric::MbPerS) / most;
            text +=
                &format!("; {} is ruled out at {:.0} % of the best throughput", self.name(*i), (part * 100.0).floor());
        }
        text
    }

    fn starvation(&self, i: usize) -> String {
        let runs = &self.field.groups[i];
        let launches = runs.iter().flat_map(|r| &r.applications).filter_map(|a| a.start_up.as_ref());
        let (count, started) = launches.fold((0, 0), |(n, ok), s| (n + s.count, ok + s.started));
        if count > started {
            return format!("started {started} of {count} launches");
        }
        let of = |metric: Metric| self.row(i).metrics.get(metric.key()).map_or(0, |e| e.starved);
        let starved = of(Metric::FocusP99).max(of(self.decision.metric));
        let focus = self.field.focus.name();
        if starved > 0 {
            format!("starved {focus} in {starved} of {} runs", runs.len())
        } else {
            format!("left I/Os of {focus} waiting longer than any that it finished")
        }
    }

    /// How near to starving the focus runs of a scheduler came.
    fn left_waiting(&self, i: usize) -> String {
        format!(
            "in one of its runs {} of the I/Os of {} were left waiting longer than any that finished, and {:.0} % would rule it out",
            percent(self.field.unknown_share(i)),
            self.field.focus.name(),
            STARVES_AT * 100.0
        )
    }

    /// Better schedulers that cannot be set.
    fn elsewhere_clause(&self) -> String {
        let d = self.decision;
        let metric = d.metric;
        let own = self.row(d.leader).mean(metric);
        let better = (0..self.field.rows.len()).filter(|i| {
            let mean = self.row(*i).mean(metric);
            let offered = d.settable.iter().any(|other| self.row(*other).scheduler == self.row(*i).scheduler);
            !d.entrants.contains(i) && !offered && mean.is_finite() && metric.worse_by(own, mean) > metric.useful()
        });
        let better: Vec<usize> = better.collect();
        if better.is_empty() {
            return String::new();
        }
        let values = self.named_values(&better[..better.len().min(LISTED_MAX)]);
        format!("; not in this kernel: {}", list(&values))
    }

    fn no_difference(&self) -> String {
        let d = self.decision;
        let metric = d.metric;
        let all = || d.pool.iter().map(|i| self.row(*i).mean(metric)).filter(|v| v.is_finite());
        let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        let range = match (metric.shown(low), metric.shown(high)) {
            (a, b) if a == b => a,
            (a, b) => format!("{a} to {b}"),
        };
        let names: Vec<String> = d.pool.iter().map(|i| self.name(*i)).collect();
        // The sentence claims nothing that a wide bound leaves open.
        let found = match self.largest_difference() {
            Some(by) if by > LARGE => "these runs show no difference",
            _ => "no practical difference",
        };
        let same = format!("{found} between {} in {} ({range})", list(&names), self.figure());
        if d.usage.is_idle() {
            let next =
                if self.recorded() { "; try --depth N or --closed-per-task" } else { "; a heavier load may tell more" };
            let busy = d.usage.busy_text();
            return format!("the drive was {busy} busy: the scheduler makes no difference{next}; {same}");
        }
        same
    }

    /// Why the runs do not decide. Long because it has one arm for each reason.
    fn doubt(&self, doubt: Doubt) -> String {
        let d = self.decision;
        let (leader, figure) = (d.leader, self.figure());
        let (best, best_value) = (self.name(self.best()), self.value(self.best()));
        match doubt {
            Doubt::NoIo => {
                "no I/O finished in the measured time; a longer `duration` or a shorter `warmup` may help".to_owned()
            }
            Doubt::NothingToCompare => {
                format!("only {} was run, so there is nothing to compare", self.name(leader))
            }
            Doubt::NoLaunch => {
                let names: BTreeSet<&str> = self
                    .field
                    .groups
                    .iter()
                    .flatten()
                    .flat_map(|run| &run.applications)
                    .map(|a| a.name.as_str())
                    .collect();
                let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
                format!(
                    "{} did not begin in the measured time, so what decides was not measured; a longer --duration may help",
                    list(&names)
                )
            }
            Doubt::AllStarve => {
                format!("under each scheduler {} got nothing in at least one run", self.field.focus.name())
            }
            Doubt::NothingToSet => format!(
                "a current kernel has none of these schedulers; {best} has {} {figure}{} ({best_value}); add none, mq-deadline, \
                 kyber or bfq",
                self.superlative(),
                self.of_pool()
            ),
            Doubt::BestCannotBeSet => format!(
                "{best} has {} {figure}{} ({best_value}), but a current kernel does not have it, and only one scheduler that it \
                 has was run; add none, mq-deadline, kyber or bfq",
                self.superlative(),
                self.of_pool()
            ),
            Doubt::BusyMachine => {
                let (load, cpus) = self.field.conditions.busy.unwrap_or_default();
                format!(
                    "the machine was busy with other work (load {load:.1} on {cpus:.0} CPUs), which can hide or feign a \
                     difference; measure again when it is quiet"
                )
            }
            Doubt::MayKeepThroughput(i) => {
                // It is better by the first criterion, although the throughput may have decided among the others.
                let value = |i: usize| d.primary.shown(self.row(i).mean(d.primary));
                format!(
                    "{} has a better {} ({}) than {} ({}), but these runs cannot show whether it keeps {}; add --until 5%",
                    self.name(i),
                    d.primary.explained(self.field.focus),
                    value(i),
                    self.name(leader),
                    value(leader),
                    self.pool_rule()
                )
            }
            Doubt::MayAllKeepThroughput(i) => format!(
                "only {} keeps {} ({}), but these runs cannot show that the others do not: {} has {}; add --until 5%",
                self.name(leader),
                self.pool_rule(),
                self.value(leader),
                self.name(i),
                self.value(i),
            ),
            Doubt::FloorMayStarve { better, fastest } => {
                let value = |i: usize| d.primary.shown(self.row(i).mean(d.primary));
                let figure = d.primary.explained(self.field.focus);
                format!(
                    "{} has a better {figure} ({}) than {} ({}), and only the throughput of {} rules it out, which may not count: {}; \
                     add --until 5%",
                    self.name(better),
                    value(better),
                    self.name(leader),
                    value(leader),
                    self.name(fastest),
                    self.left_waiting(fastest)
                )
            }
            Doubt::OnlyLowerBounds(metric) => format!(
                "under each scheduler only a lower bound of the {} is known ({} and more), since I/Os were unfinished at the \
                 end, and nothing else differs; a longer --duration shows more",
                metric.explained(self.field.focus),
                metric.shown(self.row(leader).mean(metric))
            ),
            Doubt::TooUncertain => self.uncertain(),
        }
    }

    fn uncertain(&self) -> String {
        let d = self.decision;
        let best = self.best();
        let (name, value) = (self.name(best), self.value(best));
        let head = format!("{name} has {} {}{}: {value}", self.superlative(), self.figure(), self.of_pool());
        let near = d.pool.iter().copied().filter(|i| *i != best && !d.beaten.contains(i));
        let near: Vec<usize> = near.take(LISTED_MAX).collect();
        let others = list(&self.named_values(&near));
        match d.may_be_better_by {
            Some(by) => {
                let n = self.runs(d.leader);
                format!(
                    "{head}, but after {n} runs another ({others}) may still be better by {}; add --until 5%",
                    percent_up(by)
                )
            }
            None if self.recorded() => {
                format!(
                    "{head}; one replay cannot show whether the difference from {others} is chance; add other traces of this load"
                )
            }
            None => format!(
                "{head}; one run cannot show whether the difference from {others} is chance; add --replicates 5"
            ),
        }
    }

    /// Caveats about the recommended scheduler.
    pub(crate) fn caveats(&self) -> Vec<String> {
        let d = self.decision;
        let own: &[&RunResult] = &self.field.groups[d.leader];
        let mut caveats = Vec::new();
        let failed: u64 = own.iter().map(|r| r.errors).sum();
        if failed > 0 {
            caveats.push(format!("{failed} of the requests of {} failed", self.name(d.leader)));
        }
        let goal = self.field.goal;
        if goal != Goal::Balanced && !self.field.criteria().contains(&goal.metric()) {
            caveats.push(format!("{} cannot be judged here, so `balanced` decided", goal.name()));
        }
        if let Some(metric) = d.unknown {
            let figure = metric.explained(self.field.focus);
            caveats.push(format!(
                "of its {figure} only a lower bound is known, since I/Os were unfinished at the end; a longer --duration shows more"
            ));
        }
        let recommended = matches!(d.confidence, Confidence::Clear | Confidence::Likely);
        if recommended && self.field.nearly_starves(d.primary, d.leader) {
            caveats.push(self.left_waiting(d.leader));
        }
        if self.row(d.leader).is_lower_bound(d.metric) {
            caveats.push(format!("its {} is a lower bound: I/Os were unfinished", self.figure()));
        }
        if self.field.rows.len() > 1 && self.recorded() {
            caveats.push("the load is recorded and the same in every run: other days may differ".to_owned());
        }
        if d.confidence != Confidence::Inconclusive {
            caveats.extend(self.faster_elsewhere());
        }
        let fewest = own.iter().map(|r| self.field.focus.samples(r)).min().unwrap_or(0);
        if d.metric == Metric::FocusP99 && fewest < P99_REQUESTS_MIN {
            caveats.push(format!("the p99 rests on only {fewest} requests of {} in a run", self.field.focus.name()));
        }
        if caveats.is_empty() {
            caveats.push("this result covers only this workload and device".to_owned());
        }
        caveats
    }

    /// Figures in which another scheduler is better.
    fn faster_elsewhere(&self) -> Vec<String> {
        let d = self.decision;
        let own = |metric: Metric| self.row(d.leader).mean(metric);
        let mut found = Vec::new();
        let rate = |i: &usize| self.row(*i).mean(Metric::MbPerS);
        let served = d.entrants.iter().copied().filter(|i| !d.starved.contains(i));
        let fastest = served.reduce(|a, b| if rate(&b) > rate(&a) { b } else { a });
        if let Some(i) = fastest.filter(|i| d.metric != Metric::MbPerS && rate(i) > 1.02 * own(Metric::MbPerS)) {
            let more = percent(rate(&i) / own(Metric::MbPerS) - 1.0);
            found.push(format!("{} moves {more} more, with a {} of {}", self.name(i), self.figure(), self.value(i)));
        }
        // Cost of the floor: by the metric that would decide without it.
        let metric =
            if d.metric == Metric::MbPerS && self.field.goal != Goal::Throughput { Metric::FocusP99 } else { d.metric };
        let better = |i: &usize| metric.worse_by(own(metric), self.row(*i).mean(metric)) > 0.25;
        let value = |i: &usize| self.row(*i).mean(metric);
        let slower = d.slow.iter().copied().filter(better).reduce(|a, b| if value(&b) < value(&a) { b } else { a });
        if let Some(i) = slower {
            let most = d.pool.iter().map(rate).fold(0.0, f64::max);
            found.push(format!(
                "{} has a {} of {} instead of {}, at {:.0} % of the best throughput",
                self.name(i),
                metric.explained(self.field.focus),
                metric.shown(value(&i)),
                metric.shown(own(metric)),
                100.0 * rate(&i) / most
            ));
        }
        if d.metric == Metric::MbPerS {
            let p99 = Metric::FocusP99;
            let quick = d.pool.iter().copied().find(|i| self.row(*i).mean(p99) < 0.7 * own(p99));
            if let Some(i) = quick {
                let (a, b) = (p99.shown(self.row(i).mean(p99)), p99.shown(own(p99)));
                found.push(format!("its {} is {b} where {} has {a}", p99.explained(self.field.focus), self.name(i)));
            }
        }
        if d.metric != Metric::ShareError {
            let error = |i: &usize| self.row(*i).mean(Metric::ShareError);
            let fairest = d.entrants.iter().copied().filter(|i| error(i).is_finite());
            let fairest = fairest.reduce(|a, b| if error(&b) < error(&a) { b } else { a });
            if let Some(i) = fairest.filter(|i| own(Metric::ShareError) > error(i) + 0.1) {
                let (a, b) = (own(Metric::ShareError), error(&i));
                found.push(format!("{} keeps nearer to the weights (share error {b:.3} against {a:.3})", self.name(i)));
            }
        }
        found
    }
}
