//! Joins the logs and reports of worker processes into the result of a run.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use crate::drive::CompletionMode;
use crate::drive::record::Record;
use dumbwaiter_block::{Nanos, TaskId, TenantId};
use dumbwaiter_experiment::{Cell, CellResult, Failure};
use dumbwaiter_measure::{
    ApplicationStats, Completed, CpuFacts, Ledger, Recorder, RecorderConfig, RunFacts, RunResult, TaskSpec, Unfinished,
    grouped,
};
use dumbwaiter_scenario::load::{Change, Load, Prepared};

use crate::error::{Doing, Error};
use crate::worker::WorkerReport;

const LOG_BUFFER_BYTES: usize = 1 << 16;

/// Tasks of a thread behind its first, by the thread and the number of the task in it.
type OtherTasks = BTreeMap<(usize, u16), TaskId>;

/// A run of workers.
pub(super) struct Joined<'a> {
    pub(super) prepared: &'a Prepared,
    pub(super) load: Load,
    pub(super) device: &'a Path,
    pub(super) cell: &'a Cell,
    pub(super) completion: CompletionMode,
    pub(super) seed: u64,
}

/// The sums of all reports.
#[derive(Default)]
struct Totals {
    ledger: Ledger,
    usr_ns: u64,
    sys_ns: u64,
    switches: u64,
    failure: Option<String>,
    applications: Vec<ApplicationStats>,
    failures: BTreeMap<String, u64>,
    notes: Vec<String>,
}

impl Totals {
    fn add(&mut self, report: WorkerReport) {
        self.ledger.submitted += report.submitted;
        self.ledger.completed += report.completed;
        self.ledger.failed += report.failed;
        self.usr_ns += report.usr_ns;
        self.sys_ns += report.sys_ns;
        self.switches += report.switches;
        self.failure = self.failure.take().or(report.failure);
        self.applications.extend(report.applications);
        for (error, n) in report.failures {
            *self.failures.entry(error).or_insert(0) += n;
        }
        self.notes.extend(report.notes);
        self.notes.extend(report.skipped.iter().map(|(reason, n)| format!("{} I/Os: {reason}", grouped(*n))));
    }
}

impl Joined<'_> {
    /// The result, from the log and the report of each thread.
    pub(super) fn result(
        self,
        logs: &[&Path],
        reports: Vec<WorkerReport>,
        mut notes: Vec<String>,
    ) -> Result<CellResult, Error> {
        let load = &self.load;
        let (tasks, others) = self.tasks(logs)?;
        let end = Nanos(reports.iter().map(|report| report.end_ns).max().unwrap_or(0));
        let mut recorder = self.recorder(tasks, end);
        let tenants: Vec<_> = (0..load.threads.len()).map(|thread| tenants_of(load, thread)).collect();
        let ends: Vec<Nanos> = reports.iter().map(|report| Nanos(report.end_ns)).collect();
        in_order(logs, |thread, record| {
            let tenant = tenant_at(&tenants[thread], record.submit);
            let task = others.get(&(thread, record.task)).copied().unwrap_or(load.threads[thread].task);
            let Record { op, submit, issue, complete, .. } = *record;
            if !record.is_finished() {
                recorder.unfinished(Unfinished { op, task, tenant, submit, end: ends[thread] });
                return;
            }
            recorder.record(&Completed {
                op,
                task,
                tenant,
                sector: record.sector,
                bytes: u64::from(record.bytes),
                submit,
                insert: submit,
                issue,
                device_done: complete,
                complete,
            });
        })?;
        let mut totals = Totals::default();
        reports.into_iter().for_each(|report| totals.add(report));
        notes.append(&mut totals.notes);
        notes.extend(totals.failures.iter().map(|(error, n)| format!("{} I/Os failed: {error}", grouped(*n))));
        let failure = totals.failure.take().map(Failure::device);
        let mut run = recorder.finish(end, self.facts(totals));
        run.same_load = self.prepared.is_recorded();
        hide_depths(&mut run);
        Ok(CellResult { notes, failure, ..CellResult::of(run) })
    }

    /// The tasks of the result, and which of them the tasks of a thread are. A thread with several tasks (a trace) has the
    /// first of them at its place in the list, and the others behind all.
    fn tasks(&self, logs: &[&Path]) -> Result<(Vec<TaskSpec>, OtherTasks), Error> {
        let load = &self.load;
        let mut tasks = load.task_specs.clone();
        let mut others = OtherTasks::new();
        in_order(logs, |thread, record| {
            if record.task > 0 {
                others.entry((thread, record.task)).or_insert_with(|| {
                    let first = &load.task_specs[load.threads[thread].task.0 as usize];
                    tasks.push(first.clone());
                    TaskId(tasks.len() as u32 - 1)
                });
            }
        })?;
        Ok((tasks, others))
    }

    fn recorder(&self, tasks: Vec<TaskSpec>, end: Nanos) -> Recorder {
        let scenario = self.prepared.scenario();
        let mut recorder = Recorder::new(RecorderConfig {
            warmup: scenario.warmup,
            interval: scenario.series,
            tenants: self.load.tenant_specs.clone(),
            tasks,
        });
        for (at, change) in self.load.changes.iter().filter(|(at, _)| *at <= end) {
            if let Change::Weight { tenant, weight } = *change {
                recorder.weight(*at, tenant, weight);
            }
        }
        recorder
    }

    fn facts(&self, totals: Totals) -> RunFacts {
        let (usr, sys) = (Nanos(totals.usr_ns), Nanos(totals.sys_ns));
        RunFacts {
            device: self.device.display().to_string(),
            scheduler: self.cell.scheduler.to_string(),
            completion: self.completion.to_string(),
            world: "real".into(),
            via: "kernel".into(),
            replicate: self.cell.replicate,
            seed: self.seed,
            ledger: totals.ledger,
            applications: totals.applications,
            cpu: CpuFacts { busy: vec![usr + sys], usr, sys, switches: Some(totals.switches), ..CpuFacts::default() },
            ..RunFacts::default()
        }
    }
}

/// How many requests were in the scheduler and how many in the device, only the kernel knows.
fn hide_depths(run: &mut RunResult) {
    for (depth, series) in [
        (&mut run.depth.scheduler, &mut run.series.depth_scheduler),
        (&mut run.depth.device, &mut run.series.depth_device),
    ] {
        (depth.mean, depth.max) = (f64::NAN, 0);
        depth.distribution.clear();
        series.fill(f64::NAN);
    }
}

/// Calls `each` with every record of the logs and the index of its log, in the order of completion.
fn in_order(logs: &[&Path], mut each: impl FnMut(usize, &Record)) -> Result<(), Error> {
    let mut readers = Vec::new();
    let mut next: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut heads: Vec<Option<Record>> = Vec::new();
    for (i, path) in logs.iter().enumerate() {
        let file = File::open(path).doing(path.display())?;
        let mut reader = BufReader::with_capacity(LOG_BUFFER_BYTES, file);
        let head = Record::read(&mut reader)?;
        next.extend(head.map(|r| Reverse((r.complete.0, i))));
        heads.push(head);
        readers.push(reader);
    }
    while let Some(Reverse((_, i))) = next.pop() {
        if let Some(record) = heads[i].take() {
            each(i, &record);
        }
        heads[i] = Record::read(&mut readers[i])?;
        next.extend(heads[i].map(|r| Reverse((r.complete.0, i))));
    }
    Ok(())
}

/// The tenants of a thread, each with the time from which on it is the thread's.
fn tenants_of(load: &Load, thread: usize) -> Vec<(Nanos, TenantId)> {
    let moves = load.changes.iter().filter_map(|(at, change)| match *change {
        Change::Move { thread: moved, tenant } if moved as usize == thread => Some((*at, tenant)),
        _ => None,
    });
    let mut tenants = vec![(Nanos::ZERO, load.threads[thread].tenant)];
    tenants.extend(moves);
    tenants.sort_by_key(|(at, _)| *at);
    tenants
}

/// The tenant at a time; the first is there from the beginning.
fn tenant_at(tenants: &[(Nanos, TenantId)], at: Nanos) -> TenantId {
    let past = tenants.partition_point(|(from, _)| *from <= at);
    tenants[past.max(1) - 1].1
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use dumbwaiter_block::Op;

    use super::*;

    #[test]
    fn logs_are_joined_in_the_order_of_completion() {
        let dir = tempfile::tempdir().unwrap();
        let times = [vec![3, 4, 9], vec![], vec![1, 4, 5]];
        let paths: Vec<_> = (0..times.len()).map(|i| dir.path().join(i.to_string())).collect();
        for (path, times) in paths.iter().zip(&times) {
            let mut file = File::create(path).unwrap();
            for at in times {
                let (submit, issue) = (Nanos::ZERO, Nanos::ZERO);
                let record =
                    Record { op: Op::Read, task: 0, sector: 0, bytes: 4096, submit, issue, complete: Nanos(*at) };
                record.write(&mut file).unwrap();
            }
            // One that is cut off, as by a worker that was killed.
            file.write_all(&[0; Record::BYTES / 2]).unwrap();
        }
        let paths: Vec<&Path> = paths.iter().map(|p| p.as_path()).collect();
        let mut seen = Vec::new();
        in_order(&paths, |log, record| seen.push((record.complete.0, log))).unwrap();
        assert_eq!(seen, [(1, 2), (3, 0), (4, 0), (4, 2), (5, 2), (9, 0)]);
    }

    #[test]
    fn figures_of_processes_are_those_of_their_logs() {
        let toml = "warmup = \"1s\"\nduration = \"2s\"\n[[tenant]]\nname = \"a\"\n[[tenant.task]]\nname = \"t\"\nrw = \"randread\"\n\
                    [[tenant]]\nname = \"b\"\n[[tenant.task]]\nname = \"t\"\nrw = \"randread\"\n";
        let prepared = Prepared::new(&dumbwaiter_scenario::Scenario::from_toml(toml, "test").unwrap()).unwrap();
        let load = prepared.load(1, 1 << 30, 1).unwrap();
        let shared = std::sync::Arc::new(Prepared::new(prepared.scenario()).unwrap());
        let none = dumbwaiter_scenario::SchedulerSpec::named("none");
        let cell = Cell::of(&shared, "d", dumbwaiter_experiment::Stack::Kernel, none);
        let joined = Joined {
            prepared: &prepared,
            load,
            device: Path::new("/dev/null"),
            cell: &cell,
            completion: CompletionMode::Interrupt,
            seed: 1,
        };
        // (submitted, completed) in ms, until 3 s; the second process leaves two I/Os unfinished.
        let times: [Vec<(u64, u64)>; 2] =
            [(0..100).map(|i| (i * 29, i * 29 + 5 + i % 7)).collect(), vec![(100, 400), (900, 1300), (1200, 1500)]];
        let waits = [vec![], vec![500, 1400]];
        let dir = tempfile::tempdir().unwrap();
        let paths: Vec<_> = (0..2).map(|i| dir.path().join(i.to_string())).collect();
        for ((path, times), waits) in paths.iter().zip(&times).zip(&waits) {
            let mut file = File::create(path).unwrap();
            for (submit, complete) in times {
                let (submit, complete) = (Nanos::from_ms(*submit), Nanos::from_ms(*complete));
                let record = Record { op: Op::Read, task: 0, sector: 0, bytes: 4096, submit, issue: submit, complete };
                record.write(&mut file).unwrap();
            }
            for submit in waits {
                Record::unfinished(Op::Read, 0, Nanos::from_ms(*submit)).write(&mut file).unwrap();
            }
        }
        let paths: Vec<&Path> = paths.iter().map(|p| p.as_path()).collect();
        let end_ns = Nanos::from_secs(3).0;
        let report = |submitted| WorkerReport { submitted, completed: submitted, end_ns, ..WorkerReport::default() };
        let run = joined.result(&paths, vec![report(100), report(5)], Vec::new()).unwrap().run;
        let in_window = |times: &[(u64, u64)]| times.iter().filter(|(_, complete)| *complete >= 1000).count() as u64;
        let counts = [in_window(&times[0]), in_window(&times[1])];
        assert_eq!([run.tenants[0].count, run.tenants[1].count], counts);
        assert_eq!((run.requests, run.unfinished, run.oldest_unfinished_s), (105, 2, 2.5));
        assert_eq!(run.requests, run.warmup_completed + run.completed + run.unfinished);
        assert_eq!(run.iops, (counts[0] + counts[1]) as f64 / 2.0);
        let mut latencies: Vec<u64> =
            times[0].iter().filter(|(submit, _)| *submit >= 1000).map(|(submit, complete)| complete - submit).collect();
        latencies.sort_unstable();
        let a = &run.tenants[0].latency_us;
        for (quantile, us) in [(50, a.p50), (95, a.p95), (99, a.p99)] {
            let exact = latencies[(quantile * latencies.len()).div_ceil(100) - 1] as f64 * 1e3;
            assert!(us >= exact && us <= exact * 1.008, "{us} for {exact}");
        }
        // Of b one took 300 ms, two have waited for 1.6 s and 2.5 s.
        let b = &run.tenants[1].latency_us;
        assert_eq!((b.samples, b.unfinished, b.p99), (1, 2, 2_500_000.0));
        assert!((b.known_to - 1.0 / 3.0).abs() < 1e-12, "{b:?}");
    }

    #[test]
    fn a_thread_belongs_to_the_tenant_that_it_moved_to_last() {
        let tenants = [(Nanos(0), TenantId(4)), (Nanos(10), TenantId(1)), (Nanos(20), TenantId(2))];
        for (at, tenant) in [(0, 4), (9, 4), (10, 1), (19, 1), (20, 2), (u64::MAX, 2)] {
            assert_eq!(tenant_at(&tenants, Nanos(at)), TenantId(tenant), "at {at}");
        }
    }
}
