//! The simulator's own error: how far off it was on real drives under loads of this kind. It is the same for all seeds, so that more
//! runs do not make it smaller.

use std::collections::BTreeSet;

use dumbwaiter_measure::RunResult;

use super::rates::Rates;
use crate::measured_error::{DriveClass, LoadKind, RelativeError, measured_error};

/// Writes beside reads decide from this part of all requests.
const MIXED_FROM: f64 = 0.05;
/// Reads beside writes decide from this many in a run, however many writes there are: somebody waits for them.
const READS_FROM: u64 = 30;
/// Part of the latency that waits for the scheduler's lock, from which that decides.
const LOCK_FROM: f64 = 0.1;

/// The measured error for a pair of schedulers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ModelError {
    pub(crate) class: DriveClass,
    pub(crate) load: LoadKind,
    /// Of differences between schedulers; `None` where no such load was measured on such a drive.
    pub(crate) of_differences: Option<Factors>,
}

/// Nineteen of twenty differences are within these factors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Factors {
    pub(crate) latency: f64,
    pub(crate) throughput: f64,
    /// A natural logarithm of what schedulers are worth to each other.
    pub(crate) worth: f64,
}

impl ModelError {
    pub(crate) fn of(class: DriveClass, incumbent: &[&RunResult], other: &[&RunResult], rates: &Rates) -> ModelError {
        let load = load_kind(incumbent, other);
        let of_differences = measured_error(class, load).and_then(|error| factors(&error, rates));
        ModelError { class, load, of_differences }
    }
}

/// The errors of both figures are taken as independent.
fn factors(error: &RelativeError, rates: &Rates) -> Option<Factors> {
    let (latency, throughput) = (1.0 + error.latency_difference, 1.0 + error.iops_difference);
    let worth = libm::hypot(rates.latency * libm::log(latency), rates.throughput * libm::log(throughput));
    worth.is_finite().then_some(Factors { latency, throughput, worth })
}

/// Different readers of a run: jobs, of which there may be several instances (`name.1`), and tenants where it does not say which tasks read.
fn readers(run: &RunResult) -> usize {
    fn job(name: &str) -> &str {
        match name.rsplit_once('.') {
            Some((job, number)) if number.bytes().all(|c| c.is_ascii_digit()) => job,
            _ => name,
        }
    }
    let reading = run.tasks.iter().filter(|task| task.reads > 0);
    let jobs = reading.map(|task| (task.tenant.as_str(), job(&task.name))).collect::<BTreeSet<_>>().len();
    if jobs > 0 { jobs } else { run.tenants.iter().filter(|tenant| tenant.count > 0).count() }
}

/// What the incumbent's runs do; only whether a lock binds is a matter of both.
fn load_kind(incumbent: &[&RunResult], other: &[&RunResult]) -> LoadKind {
    let sum = |of: fn(&RunResult) -> u64| incumbent.iter().map(|run| of(run)).sum::<u64>() as f64;
    let (reads, writes) = (sum(|run| run.read.count), sum(|run| run.write.count + run.other.count));
    match writes / (reads + writes).max(1.0) {
        part if part > 1.0 - MIXED_FROM && incumbent.iter().all(|run| run.read.count < READS_FROM) => {
            return LoadKind::Writes;
        }
        part if part > MIXED_FROM => return LoadKind::ReadsBesideWrites,
        _ => {}
    }
    if incumbent.iter().any(|run| readers(run) > 1) {
        return LoadKind::ReadsBesideReads;
    }
    let waits_for_lock = |run: &&RunResult| {
        let latency = run.latency_us.mean;
        run.time_parts_us.is_some_and(|parts| parts.lock > LOCK_FROM * latency)
    };
    if incumbent.iter().chain(other).any(waits_for_lock) { LoadKind::LockBound } else { LoadKind::ReadsOfOneDrive }
}
