//! Keep what is set, or change it: the rule for one drive.

use dumbwaiter_measure::{RunResult, median};

use super::estimate::{Against, Grounds, against};
use super::objective::{Judged, Objective};
use super::rates::Rates;
use super::short::{Short, too_short};
use super::{Decision, HARMFUL, LIKELY_GAIN, NEAR, USEFUL_GAIN};
use crate::conditions::{Conditions, KERNEL_SCHEDULERS, name_of};
use crate::confidence::Confidence;
use crate::figures::repeats_a_recording;
use crate::metric::Metric;
use crate::row::RankingRow;
use crate::usage::Usage;

/// CPU time of the host that a simulation does not know, us a request.
const HOST_US: f64 = 3.0;
/// Relative difference in processor time below which two schedulers cost the same.
const CPU_EQUAL_WITHIN: f64 = 0.05;

/// Why the runs say nothing beyond that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// No I/O finished in the measured time.
    NoIo,
    /// Nothing else was run.
    Alone,
    /// None of those that were run can be set.
    NothingToSet,
    /// Of those that were run only the incumbent can be set.
    NothingElseToSet,
    /// The machine was busy with other work.
    Busy,
}

/// The runs of one device, by scheduler.
pub(crate) struct Field<'a> {
    pub(crate) rows: &'a [RankingRow],
    pub(crate) groups: &'a [Vec<&'a RunResult>],
    pub(crate) goal: crate::Goal,
    pub(crate) conditions: &'a Conditions,
    pub(crate) objective: &'a Objective,
    /// The row that everything is compared with.
    pub(crate) incumbent: usize,
    /// It is what is set, or what the kernel sets; else it stands in for that.
    pub(crate) is_set: bool,
}

/// The answer for one drive. Schedulers are numbers of rows.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The one to set: the incumbent unless it is to be changed.
    pub(crate) pick: usize,
    pub(crate) decision: Decision,
    pub(crate) confidence: Confidence,
    /// How each row compares with the incumbent; `None` for itself, and where it cannot be compared.
    pub(crate) against: Vec<Option<Against>>,
    /// Rows that can be set, without the incumbent.
    pub(crate) alternatives: Vec<usize>,
    /// Rows that can be set.
    pub(crate) settable: Vec<usize>,
    pub(crate) doubt: Option<Doubt>,
    pub(crate) short: Option<Short>,
    pub(crate) usage: Usage,
}

/// The place in the order of equals: the schedulers of kernels, then by name.
fn order(name: &str) -> (usize, &str) {
    let plain = name_of(name);
    let place = KERNEL_SCHEDULERS.iter().position(|known| *known == plain);
    (place.unwrap_or(KERNEL_SCHEDULERS.len()), name)
}

/// The row of what is set: by its name, through the kernel where that ran; `false` where it did not run, and the first in the fixed
/// order stands in for it.
pub(crate) fn incumbent(
    rows: &[(&str, &str)],
    name: Option<&str>,
    can_be_set: &dyn Fn(usize) -> bool,
) -> (usize, bool) {
    let kernel = rows.iter().any(|(_, via)| *via == "kernel");
    let fits = |i: &usize| !kernel || rows[*i].1 == "kernel";
    let named = name.and_then(|name| (0..rows.len()).filter(fits).find(|i| rows[*i].0 == name));
    if let Some(found) = named {
        return (found, true);
    }
    let first = |among: &dyn Fn(&usize) -> bool| {
        (0..rows.len()).filter(|i| among(i)).min_by(|a, b| order(rows[*a].0).cmp(&order(rows[*b].0)).then(a.cmp(b)))
    };
    let stands_in = first(&|i| fits(i) && can_be_set(*i)).or_else(|| first(&|_| true));
    (stands_in.unwrap_or(0), false)
}

impl Field<'_> {
    pub(crate) fn judged(&self, i: usize) -> Vec<Judged> {
        self.groups[i].iter().map(|run| self.objective.judged(run)).collect()
    }

    pub(crate) fn real(&self) -> bool {
        self.groups.iter().flatten().any(|run| run.world == "real")
    }

    /// What the bounds of a comparison with this row rest on.
    pub(crate) fn grounds(&self, reference: usize) -> Grounds {
        let latency_us = median(self.judged(reference).iter().map(|run| libm::exp(run.latency[0])).collect());
        let host = if self.real() || !self.objective.waits { 0.0 } else { HOST_US / latency_us.max(HOST_US) };
        Grounds {
            error: self.conditions.error,
            requests: self.objective.requests,
            real: self.real(),
            one_run: self.groups.iter().flatten().all(|run| repeats_a_recording(run)),
            host: self.objective.rates.latency * host,
        }
    }

    /// How each row compares with `reference`.
    pub(crate) fn all_against(&self, reference: usize) -> Vec<Option<Against>> {
        let (grounds, other) = (self.grounds(reference), self.judged(reference));
        let one = |i: usize| (i != reference).then(|| against(&self.judged(i), &other, &grounds))?;
        (0..self.rows.len()).map(one).collect()
    }

    fn settable(&self) -> Vec<usize> {
        // Beside the kernel's own, our engine's schedulers of the same names only show what is possible.
        let kernel = self.rows.iter().any(|row| row.via == "kernel");
        let fits = |i: &usize| self.conditions.can_be_set(&self.rows[*i]) && (!kernel || self.rows[*i].via == "kernel");
        (0..self.rows.len()).filter(fits).collect()
    }
}

/// Decides for one drive.
pub(crate) fn answer(field: &Field<'_>) -> Answer {
    let against = field.all_against(field.incumbent);
    let settable = field.settable();
    let alternatives: Vec<usize> =
        settable.iter().copied().filter(|i| *i != field.incumbent && against[*i].is_some()).collect();
    let usage = Usage::of(
        settable
            .iter()
            .chain([&field.incumbent])
            .flat_map(|i| field.groups[*i].iter().copied())
            .collect::<Vec<_>>()
            .into_iter(),
    );
    let mut found = Answer {
        pick: field.incumbent,
        decision: Decision::Keep,
        confidence: Confidence::Open,
        against,
        alternatives,
        settable,
        doubt: None,
        short: None,
        usage,
    };
    found.doubt = doubt(field, &found);
    match found.doubt {
        Some(Doubt::NoIo) => found.decision = Decision::TooShort,
        Some(_) => {}
        None => decide(field, &mut found),
    }
    found
}

fn doubt(field: &Field<'_>, found: &Answer) -> Option<Doubt> {
    let runs = || field.groups.iter().flatten();
    if runs().all(|run| run.read.count + run.write.count + run.other.count == 0) {
        return Some(Doubt::NoIo);
    }
    if field.rows.len() < 2 {
        return Some(Doubt::Alone);
    }
    if field.conditions.busy.is_some() {
        return Some(Doubt::Busy);
    }
    if found.settable.is_empty() {
        return Some(Doubt::NothingToSet);
    }
    found.alternatives.is_empty().then_some(Doubt::NothingElseToSet)
}

fn decide(field: &Field<'_>, found: &mut Answer) {
    let of = |i: usize| found.against[i].as_ref().expect("alternatives are compared");
    let worth: Vec<usize> = found
        .alternatives
        .iter()
        .copied()
        .filter(|i| of(*i).gain >= USEFUL_GAIN && of(*i).lo > -HARMFUL && !of(*i).same)
        .collect();
    let target = most_worth(field, &worth, &|i| of(i).gain);
    let short = too_short(field, found, target);
    if let Some(target) = target.filter(|_| short.is_none()) {
        found.decision = Decision::Change;
        found.pick = target;
        found.confidence = capped(field, of(target), of(target).lo >= HARMFUL && of(target).n > 1);
        return;
    }
    if short.is_some() {
        (found.decision, found.short) = (Decision::TooShort, short);
        return;
    }
    let most = found.alternatives.iter().map(|i| of(*i).hi).fold(f64::NEG_INFINITY, f64::max);
    found.confidence = match most {
        most if most <= USEFUL_GAIN => Confidence::Clear,
        most if most <= LIKELY_GAIN => Confidence::Likely,
        _ => Confidence::Open,
    };
}

/// *Clear* at most where the simulator's own measured error allows it: a difference that is smaller than that may not be there.
fn capped(field: &Field<'_>, of: &Against, clear: bool) -> Confidence {
    let within_error = field.conditions.model_error.is_some_and(|error| of.gain.abs() < error);
    if clear && !within_error { Confidence::Clear } else { Confidence::Likely }
}

/// The one that is worth most. Of those that are nearly worth as much the kernel's default for the drive, else the cheaper, else the
/// first in a fixed order: never by the order of the input.
fn most_worth(field: &Field<'_>, among: &[usize], gain: &dyn Fn(usize) -> f64) -> Option<usize> {
    let most = among.iter().map(|i| gain(*i)).reduce(f64::max)?;
    let near: Vec<usize> = among.iter().copied().filter(|i| gain(*i) >= most - NEAR).collect();
    let default = field.conditions.kernel_default(&field.rows[field.incumbent].device);
    if let Some(found) = near.iter().copied().find(|i| default == Some(field.rows[*i].scheduler.as_str())) {
        return Some(found);
    }
    let cpu = |i: usize| field.rows[i].mean(Metric::CpuUsPerIo);
    let cheapest = near.iter().map(|i| cpu(*i)).fold(f64::INFINITY, f64::min);
    let cheap = |i: &usize| !cheapest.is_finite() || cpu(*i).is_nan() || cpu(*i) <= cheapest * (1.0 + CPU_EQUAL_WITHIN);
    near.into_iter()
        .filter(cheap)
        .min_by(|a, b| order(&field.rows[*a].scheduler).cmp(&order(&field.rows[*b].scheduler)).then(a.cmp(b)))
}

impl Answer {
    /// How an alternative compares with the incumbent.
    pub(crate) fn of(&self, i: usize) -> Option<&Against> {
        self.against[i].as_ref()
    }

    /// The largest gain that the bounds leave to any alternative.
    pub(crate) fn may_gain(&self) -> Option<f64> {
        self.alternatives.iter().filter_map(|i| self.of(*i)).map(|of| of.hi).reduce(f64::max)
    }

    /// Whether more runs may change the answer.
    pub(crate) fn more_runs_help(&self) -> bool {
        let one = self.alternatives.iter().filter_map(|i| self.of(*i)).all(|of| of.n < 2);
        self.doubt.is_none() && self.decision != Decision::TooShort && !one
    }

    /// Rows that nobody else beats in both latency and throughput: the incumbent, and alternatives by what they are worth.
    pub(crate) fn frontier(&self, incumbent: usize) -> Vec<usize> {
        let place =
            |i: usize| if i == incumbent { Some((0.0, 0.0)) } else { self.of(i).map(|of| (of.latency, of.rate)) };
        let among: Vec<usize> = std::iter::once(incumbent).chain(self.alternatives.iter().copied()).collect();
        let beats = |a: (f64, f64), b: (f64, f64)| {
            a.0 <= b.0 && a.1 >= b.1 && (b.0 - a.0 > super::BEATEN_BY || a.1 - b.1 > super::BEATEN_BY)
        };
        let beaten = |i: usize| {
            let own = place(i).unwrap_or((f64::INFINITY, f64::NEG_INFINITY));
            among.iter().any(|other| *other != i && place(*other).is_some_and(|of| beats(of, own)))
        };
        let mut members: Vec<usize> = among.iter().copied().filter(|i| !beaten(*i)).collect();
        let gain = |i: &usize| self.of(*i).map_or(0.0, |of| of.gain);
        members.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
        members
    }
}

/// The rates of a goal, or those that were asked for.
pub(crate) fn rates(goal: crate::Goal, conditions: &Conditions) -> Rates {
    match conditions.rate {
        Some(part) => Rates { shares: Rates::of(goal).shares, ..Rates::worth(part) },
        None => Rates::of(goal),
    }
}
