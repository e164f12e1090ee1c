//! Claims of the paper, measured in the simulator.

use dumbwaiter_measure::RunResult;

use super::paper::burst_change;
use super::row;
use crate::replicates::{Runs, case, replicated};
use crate::{Case, Effort, Error, FigureResult};

/// The class of disk that the paper used, 5400 rpm, 2.5 inch, 1 TB, without command queueing.
const WITHOUT_NCQ: &str = "hdd:hts541010a9e662?ncq_depth=1";

fn mean_ms(runs: &Runs) -> f64 {
    runs.mean(|run: &RunResult| run.latency_us.mean / 1e3).unwrap_or(f64::NAN)
}

/// Bursts of 100 requests at once, every three seconds. NULL requests are writes that the disk's cache takes.
pub(super) fn bursts(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let nulls = [25u32, 44, 50, 75];
    // `none` serves a burst in the order of arrival; `noop` sorts each plug by sector.
    let arms = ["none", "sjf", "sjf:predictor=shuffled,fallback=0"];
    let mut cases: Vec<Case> = Vec::new();
    for null in nulls {
        let text = format!(
            "nr_requests = 256\nqueue_depth = 1\nwarmup = \"30s\"\nduration = \"{}s\"\n[[task]]\nname = \"burst\"\n\
             rw = \"randrw\"\nrwmixread = {}\nbs = \"4k\"\niodepth = 100\niodepth_batch = 100\niodepth_low = 1\n\
             iodepth_batch_complete_min = 100\nthinktime = 3000000\nthinktime_blocks = 100\nthinktime_blocks_type = \"issue\"\n",
            effort.pick(600, 120),
            100 - null
        );
        for arm in arms {
            cases.push(case(&text, WITHOUT_NCQ, arm)?);
        }
    }
    let runs = replicated(&cases, effort.pick(5, 2), effort)?;
    let mut out = FigureResult::default();
    for (null, runs) in nulls.iter().zip(runs.chunks(arms.len())) {
        let change = |arm: usize| 100.0 * (mean_ms(&runs[arm]) / mean_ms(&runs[0]) - 1.0);
        let expected = burst_change(100.0, f64::from(*null));
        let metric = "change of the mean latency against arrival order";
        let case = format!("100 requests, {null} % NULL");
        let near = (change(1) - expected).abs() <= 2.0;
        let ours = row("bursts", metric, format!("{case}, sjf; the paper's value is the closed form"), change(1), "%");
        out.rows.push(ours.judged(expected, near));
        let control = row("bursts", metric, format!("{case}, shuffled predictions"), change(2), "%");
        out.rows.push(control.ordering(change(2) > -5.0));
    }
    out.notes
        .push("simulated; the paper prints -43.9 % for KML-IOSched, close to the limit of 44 NULL requests".to_owned());
    Ok(out)
}

/// Poisson arrivals of mixed sizes at shares of the disk's capacity in arrival order.
pub(super) fn open_loop(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    // No larger than one request: in pieces, a scheduler that reorders them pays for seeks between pieces too.
    let sizes = "rw = \"randread\"\nbs = \"4k/70:128k/20:1m/10\"\n";
    let head =
        format!("nr_requests = 256\nqueue_depth = 1\nwarmup = \"20s\"\nduration = \"{}s\"\n", effort.pick(200, 60));
    let closed = format!("{head}[[task]]\nname = \"closed\"\n{sizes}iodepth = 32\n");
    let capacity = replicated(&[case(&closed, WITHOUT_NCQ, "none")?], 2, effort)?[0].median(|run| run.iops);
    let arms = [
        "none",
        "mq-deadline",
        "sjf",
        "sjf:model=shipped:latency-flash",
        "sjf:predictor=oracle",
        "sptf",
        "sptf:model=shipped:latency-disk",
        "sptf:predictor=oracle",
        "sjf:predictor=shuffled,fallback=0",
    ];
    let shares = [0.5, 0.8, 0.95, 1.2];
    let mut cases: Vec<Case> = Vec::new();
    for share in shares {
        let rate = (capacity * share).max(1.0).round();
        let text = format!(
            "{head}[[task]]\nname = \"open\"\n{sizes}iodepth = 4096\nrate_iops = {rate}\nrate_process = \"poisson\"\n\
             io_submit_mode = \"offload\"\n"
        );
        for arm in arms {
            cases.push(case(&text, WITHOUT_NCQ, arm)?);
        }
    }
    let runs = replicated(&cases, effort.pick(5, 2), effort)?;
    let mut out = FigureResult::default();
    for (share, runs) in shares.iter().zip(runs.chunks(arms.len())) {
        let in_turn = mean_ms(&runs[0]);
        for (arm, runs) in arms.iter().zip(runs) {
            let case = format!("{share} of capacity, {arm}");
            let mean = row("open-loop", "mean latency", &case, mean_ms(runs), "ms");
            out.rows.push(match *arm {
                "sjf" | "sjf:predictor=oracle" => mean.ordering(mean_ms(runs) <= 1.02 * in_turn),
                _ => mean,
            });
            out.rows.push(row("open-loop", "throughput", &case, runs.median(|run| run.iops), "IOPS").detail());
            for (metric, of) in QUANTILES {
                out.rows.push(row("open-loop", metric, &case, runs.median(|run| of(run) / 1e3), "ms").detail());
            }
        }
    }
    out.notes.push(format!("simulated; capacity in arrival order {capacity:.1} requests per second"));
    Ok(out)
}

/// A figure of a run.
type Of = fn(&RunResult) -> f64;

const QUANTILES: [(&str, Of); 5] = [
    ("p50 latency", |run| run.latency_us.p50),
    ("p95 latency", |run| run.latency_us.p95),
    ("p99 latency", |run| run.latency_us.p99),
    ("p99.9 latency", |run| run.latency_us.p99_9),
    ("longest latency", |run| run.latency_us.max),
];

/// Random reads, 32 outstanding, on the disk without command queueing.
pub(super) fn positioning(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let text = format!(
        "nr_requests = 64\nwarmup = \"{}s\"\nduration = \"60s\"\n[[task]]\nname = \"reads\"\nrw = \"randread\"\nbs = \"4k\"\n\
         iodepth = 32\n",
        effort.pick(120, 40)
    );
    let arms = ["noop", "mq-deadline", "sstf", "sptf", "sptf:predictor=oracle"];
    let cases: Vec<Case> = arms.iter().map(|arm| case(&text, WITHOUT_NCQ, arm)).collect::<Result<_, _>>()?;
    let runs = replicated(&cases, effort.pick(5, 2), effort)?;
    let iops: Vec<f64> = runs.iter().map(|runs| runs.median(|run| run.iops)).collect();
    let mut out = FigureResult::default();
    for ((arm, iops), runs) in arms.iter().zip(&iops).zip(&runs) {
        out.rows.push(row("positioning", "random reads per second", *arm, *iops, "IOPS"));
        out.rows.push(row("positioning", "p99.9 latency", *arm, runs.median(|run| run.latency_us.p99_9 / 1e3), "ms"));
    }
    let share = |case: &str, value: f64, least: f64| {
        row("positioning", "sptf by", format!("{case}: at least {least}"), value, "").ordering(value >= least)
    };
    out.rows.push(share("its oracle", iops[3] / iops[4], 0.85));
    out.rows.push(share("mq-deadline", iops[3] / iops[1], 1.5));
    out.rows.push(row("positioning", "the oracle by", "mq-deadline: the limit of this disk", iops[4] / iops[1], ""));
    out.notes.push("simulated; the oracle knows seek, rotation and skew of the simulated disk".to_owned());
    Ok(out)
}
