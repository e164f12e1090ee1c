//! The kind of a load: what a prediction of it depends on.

use super::case::Case;
pub use dumbwaiter_advise::LoadKind;

/// Schedulers without one lock that every CPU takes.
const WITHOUT_LOCK: [&str; 2] = ["none", "kyber"];
/// From this many busy CPUs on, the lock of the others decides.
const LOCK_BOUND_CPUS: usize = 3;
/// I/Os of a process at once that keep its CPU busy.
const BUSY_DEPTH: u32 = 32;

/// The kind of a case's load on a host of `cpus`.
pub(super) fn of(case: &Case, cpus: u16) -> LoadKind {
    let (reads, writes) = (case.jobs.iter().any(|job| job.reads), case.writes());
    match (reads, writes) {
        (true, true) => return LoadKind::ReadsBesideWrites,
        (false, true) => return LoadKind::Writes,
        _ => {}
    }
    if case.jobs.len() > 1 {
        return LoadKind::ReadsBesideReads;
    }
    if case.drives > 1 {
        return LoadKind::ReadsOfSeveralDrives;
    }
    let busy = case.jobs.iter().filter(|job| job.iodepth >= BUSY_DEPTH).map(|job| {
        let own = if job.cpus.is_empty() { usize::from(cpus) } else { job.cpus.len() };
        own.min(job.numjobs as usize)
    });
    let locked = !WITHOUT_LOCK.contains(&case.scheduler.as_str());
    if locked && busy.sum::<usize>() >= LOCK_BOUND_CPUS { LoadKind::LockBound } else { LoadKind::ReadsOfOneDrive }
}
