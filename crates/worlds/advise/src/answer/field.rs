//! The runs of a drive, and what is found of them.

use dumbwaiter_measure::{RunResult, median};

use super::Decision;
use super::estimate::{Against, Grounds, against};
use super::model_error::ModelError;
use super::objective::{Judged, Objective};
use crate::conditions::Conditions;
use crate::confidence::Confidence;
use crate::figures::repeats_a_recording;
use crate::row::RankingRow;
use crate::usage::Usage;

/// CPU time of the host that a simulation does not know, us a request.
const HOST_US: f64 = 3.0;
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
    /// It would be clear if the simulator's measured error were smaller than what this row gains or loses.
    pub(crate) within_model_error: Option<usize>,
    pub(crate) usage: Usage,
}

/// Why the runs are too short.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Short {
    /// A clause.
    pub(crate) why: String,
    /// What would do, s; `None` where a longer time is of no help, as for a recorded load.
    pub(crate) seconds: Option<f64>,
}

impl Field<'_> {
    pub(crate) fn judged(&self, i: usize) -> Vec<Judged> {
        self.groups[i].iter().map(|run| self.objective.judged(run)).collect()
    }

    pub(crate) fn real(&self) -> bool {
        self.groups.iter().flatten().any(|run| run.world == "real")
    }

    /// The simulator's measured error where this row is compared with the incumbent; `None` of real runs, and of drives of no class.
    pub(crate) fn model_error(&self, i: usize) -> Option<ModelError> {
        let class = self.conditions.drive_classes.get(&self.rows[i].device).copied().filter(|_| !self.real())?;
        Some(ModelError::of(class, &self.groups[self.incumbent], &self.groups[i], &self.objective.rates))
    }

    /// Whether what a row gains or loses is less than the simulator's measured error.
    pub(crate) fn is_within_model_error(&self, found: &Answer, i: usize) -> bool {
        let error = self.model_error(i).and_then(|of| of.of_differences);
        error.zip(found.of(i)).is_some_and(|(error, of)| of.gain.abs() < error.worth)
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

    pub(super) fn settable(&self) -> Vec<usize> {
        // Beside the kernel's own, our engine's schedulers of the same names only show what is possible.
        let kernel = self.rows.iter().any(|row| row.via == "kernel");
        let fits = |i: &usize| self.conditions.can_be_set(&self.rows[*i]) && (!kernel || self.rows[*i].via == "kernel");
        (0..self.rows.len()).filter(fits).collect()
    }
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
        self.doubt.is_none() && self.decision != Decision::TooShort && !one && self.within_model_error.is_none()
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
