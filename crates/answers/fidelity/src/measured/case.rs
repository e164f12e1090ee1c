//! What was measured: jobs that ran together, and the figures of each.

use std::path::PathBuf;

use serde::Serialize;

/// CPUs that a list may name.
const CPU_MAX: u16 = 4096;

/// Options of fio, in order; a job as fio's job file writes it.
pub(super) type FioOptions = Vec<(String, String)>;

/// Jobs that ran at the same time on the same drives, under one scheduler.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// The figure of a study, or the name of the drive.
    pub(super) figure: String,
    /// What varies in it.
    pub(super) condition: String,
    /// Its name in the table.
    pub(super) scheduler: String,
    /// As ours, with settings; the reason where we have none.
    pub(super) stack: Result<String, String>,
    /// Drives that the jobs go over in turn.
    pub(super) drives: u8,
    /// The jobs.
    pub(super) jobs: Vec<Job>,
    /// The rows of the table that this case answers.
    pub(super) rows: Vec<MeasuredRow>,
    /// How long its runs are, where its rates do not say it.
    pub(super) length: Option<Length>,
    /// Control groups with a weight for io.cost, each with the jobs in groups of their own below it.
    pub(super) groups: Vec<WeightedGroup>,
    /// How long a run may be at most, s.
    pub(super) seconds_max: f64,
    /// A remark for every row.
    pub(super) note: Option<String>,
}

/// Warm-up and measured time of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Length {
    pub(super) warmup_s: f64,
    pub(super) seconds: f64,
}

/// A control group of jobs, whose groups are named as they are.
#[derive(Clone, Debug)]
pub(super) struct WeightedGroup {
    pub(super) name: &'static str,
    pub(super) weight: u32,
    pub(super) jobs: Vec<String>,
}

/// One job of fio, or several equal ones.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// Unique in the case.
    pub(super) name: String,
    /// Equal processes.
    pub(super) numjobs: u32,
    /// Options beside name and number.
    pub(super) options: FioOptions,
    /// Does it write?
    pub(super) writes: bool,
    /// Does it read?
    pub(super) reads: bool,
    /// I/Os of each process at once; rates leave it at their own.
    pub(super) iodepth: u32,
    /// CPUs that it may use; empty for all.
    pub(super) cpus: Vec<u16>,
    /// The first so many of the drives, where it does not go over all.
    pub(super) drives: Option<u8>,
}

/// A row of a table: where it is and what was measured.
#[derive(Clone, Debug)]
pub(super) struct MeasuredRow {
    pub(super) path: PathBuf,
    pub(super) line: u64,
    pub(super) role: String,
    pub(super) part: Part,
    pub(super) figures: Figures,
    /// Percentiles that were beyond the scale: at least this.
    pub(super) clipped: Clipped,
}

/// Which I/Os of a case a row counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All of a job.
    Job(usize),
    /// A job's reads.
    Reads(usize),
    /// A job's writes.
    Writes(usize),
    /// A job whose percentiles are the mean, and whose p99 the largest, of its processes'.
    EachOf(usize),
    /// All jobs: a sum, and no job.
    Total,
    /// All jobs, of which the table has no rows of their own.
    All,
}

/// Figures of a row; latencies and processor time in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// I/Os per second.
    pub iops: Option<f64>,
    /// MB/s (10^6 bytes).
    pub mb_s: Option<f64>,
    /// Mean latency, from before the submission.
    pub mean_us: Option<f64>,
    /// Median.
    pub p50_us: Option<f64>,
    /// 95th percentile.
    pub p95_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// Processor time of an I/O.
    pub cpu_us: Option<f64>,
}

/// Which percentiles are lower bounds, as the measurement's scale ended there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Clipped {
    /// The median.
    pub p50: bool,
    /// The 95th percentile.
    pub p95: bool,
}

impl Case {
    /// I/Os per second of all its jobs, as far as measured.
    pub(super) fn iops(&self) -> f64 {
        self.parts().filter_map(|row| row.figures.iops).sum()
    }

    /// Its rows without sums.
    pub(super) fn parts(&self) -> impl Iterator<Item = &MeasuredRow> {
        self.rows.iter().filter(|row| row.part != Part::Total)
    }

    /// Does any job write?
    pub(super) fn writes(&self) -> bool {
        self.jobs.iter().any(|job| job.writes)
    }
}

/// Numbers of CPUs such as `0,2-5`; `None` where the text is none of that.
pub(super) fn cpu_list(text: &str) -> Option<Vec<u16>> {
    let mut out = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (from.trim().parse::<u16>().ok()?, to.trim().parse::<u16>().ok()?);
        (from <= to && to < CPU_MAX).then_some(())?;
        out.extend(from..=to);
    }
    Some(out)
}
