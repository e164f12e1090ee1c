//! The figures of a run, for each row of its case.

use dumbwaiter_measure::{Latency, RunResult, TaskStats};

use super::case::{Case, Figures, Part};
use super::scenario::task_name;

/// What a run says of a part of a case; `None` for what it does not know.
pub(super) fn figures(case: &Case, run: &RunResult, part: Part) -> Figures {
    let alone = case.jobs.len() == 1;
    let whole = || of(run.iops, run.mb_per_s, &run.latency_us);
    let found = match part {
        Part::Total | Part::All => total(case, run),
        Part::Job(_) if alone => whole(),
        Part::Job(job) | Part::EachOf(job) => {
            let own = tasks(case, run, job);
            // Operations have more exact percentiles, and of one job alone those of all its processes.
            let only = |reads: bool| case.jobs.iter().filter(|j| if reads { j.reads } else { j.writes }).count() == 1;
            let kind = match (case.jobs[job].reads, case.jobs[job].writes) {
                (true, false) if only(true) => Some(&run.read),
                (false, true) if only(false) => Some(&run.write),
                _ => None,
            };
            match kind {
                Some(kind) if part == Part::Job(job) => of(kind.iops, kind.mb_per_s, &kind.latency_us),
                _ => each(&own),
            }
        }
        Part::Reads(_) => of(run.read.iops, run.read.mb_per_s, &run.read.latency_us),
        Part::Writes(_) => of(run.write.iops, run.write.mb_per_s, &run.write.latency_us),
    };
    // Processor time is known of all I/Os together.
    let cpu_us =
        (alone || matches!(part, Part::Total | Part::All)).then_some(run.cpu.us_per_io).filter(|us| us.is_finite());
    Figures { cpu_us, ..found }
}

fn known(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

fn of(iops: f64, mb_s: f64, latency: &Latency) -> Figures {
    Figures {
        iops: known(iops),
        mb_s: known(mb_s),
        mean_us: known(latency.mean),
        p50_us: known(latency.p50),
        p95_us: known(latency.p95),
        p99_us: known(latency.p99),
        cpu_us: None,
    }
}

/// All jobs: rates are sums of theirs.
fn total(case: &Case, run: &RunResult) -> Figures {
    let rates = (0..case.jobs.len()).map(|job| {
        let own = tasks(case, run, job);
        let sum = |value: fn(&TaskStats) -> f64| own.iter().map(|task| value(task)).sum::<f64>();
        (sum(|task| task.iops), sum(|task| task.mb_per_s))
    });
    let (iops, mb_s) = rates.fold((0.0, 0.0), |(a, b), (iops, mb_s)| (a + iops, b + mb_s));
    of(iops, mb_s, &run.latency_us)
}

/// The processes of a job.
pub(super) fn tasks<'a>(case: &Case, run: &'a RunResult, job: usize) -> Vec<&'a TaskStats> {
    let job = &case.jobs[job];
    let name = task_name(job);
    let is_own = |task: &&TaskStats| {
        let number = task.name.strip_prefix(&name).and_then(|rest| rest.strip_prefix('.'));
        task.name == name || job.numjobs > 1 && number.is_some_and(|n| n.parse::<u32>().is_ok())
    };
    run.tasks.iter().filter(is_own).collect()
}

/// Processes together: sums of rates, means and the lower percentiles by their I/Os, the largest p99.
fn each(tasks: &[&TaskStats]) -> Figures {
    let sum = |value: fn(&TaskStats) -> f64| tasks.iter().map(|task| value(task)).sum::<f64>();
    let mean = |value: fn(&Latency) -> f64| {
        let known = tasks.iter().filter(|task| value(&task.latency_us).is_finite() && task.count > 0);
        let (sum, weight) = known.fold((0.0, 0.0), |(sum, weight), task| {
            (sum + value(&task.latency_us) * task.count as f64, weight + task.count as f64)
        });
        (weight > 0.0).then(|| sum / weight)
    };
    let largest = tasks.iter().map(|task| task.latency_us.p99).filter(|p99| p99.is_finite()).fold(f64::NAN, f64::max);
    Figures {
        iops: (!tasks.is_empty()).then(|| sum(|task| task.iops)),
        mb_s: (!tasks.is_empty()).then(|| sum(|task| task.mb_per_s)),
        mean_us: mean(|latency| latency.mean),
        p50_us: mean(|latency| latency.p50),
        p95_us: mean(|latency| latency.p95),
        p99_us: known(largest),
        cpu_us: None,
    }
}
