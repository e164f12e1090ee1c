//! Figure 20, and what budgets change.

use dumbwaiter_measure::RunResult;
use dumbwaiter_report::Grid;

use super::{BFQ, H_BFQ, SSD, TRACES, four, percent, replicates, row};
use crate::replicates::{Runs, replicated};
use crate::{Case, Effort, Error, FigureResult, Row};

/// Sectors.
const BUDGETS: [u32; 5] = [128, 256, 512, 1024, 2048];

fn max_ms(runs: &Runs) -> f64 {
    runs.median(|r| r.latency_us.max) / 1000.0
}

fn mean_ms(runs: &Runs) -> f64 {
    runs.median(|r| r.latency_us.mean) / 1000.0
}

const FIGURE_20_COLUMNS: [&str; 9] =
    ["load, budget", "MB/s", "change %", "mean ms", "change %", "deviation ms", "max ms", "BFQ's max by it", "PV"];

/// A row of figure 20: what a scheduler reaches, and its changes against BFQ.
fn beside_bfq(name: String, runs: &Runs, bfq: &Runs) -> Vec<String> {
    vec![
        name,
        format!("{:.0}", runs.mb_per_s()),
        format!("{:+.1}", percent(runs.mb_per_s() / bfq.mb_per_s())),
        format!("{:.1}", mean_ms(runs)),
        format!("{:+.1}", percent(mean_ms(runs) / mean_ms(bfq))),
        format!("{:.1}", runs.median(|r| r.latency_us.stddev) / 1000.0),
        format!("{:.0}", max_ms(runs)),
        format!("{:.2}", max_ms(bfq) / max_ms(runs)),
        format!("{:.3}", runs.pv()),
    ]
}

pub(super) fn figure_20(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let mut schedulers = vec![BFQ.to_owned(), H_BFQ.to_owned()];
    schedulers.extend(BUDGETS.map(|sectors| format!("{H_BFQ},exhausted_budget={sectors}")));
    let mut cases = Vec::new();
    for load in TRACES {
        for scheduler in &schedulers {
            cases.push(four(load, SSD, scheduler, effort)?);
        }
    }
    let runs = replicated(&cases, replicates(effort), effort)?;
    let mut out = FigureResult::default();
    let mut grid = Grid {
        title: "H+BFQ by the budget after exhaustion; changes are against BFQ".to_owned(),
        header: FIGURE_20_COLUMNS.map(str::to_owned).to_vec(),
        rows: Vec::new(),
    };
    // Longest latencies by BFQ's, added up over the loads.
    let mut relative = [0.0; BUDGETS.len()];
    // Largest loss, %; largest reduction of the longest latency.
    let paper = [(7.0, 3.1), (7.0, 2.1), (4.0, 5.5)];
    for ((load, runs), (loss, reduction)) in TRACES.iter().zip(runs.chunks(schedulers.len())).zip(paper) {
        let bfq = &runs[0];
        let names = ["bfq".to_owned(), "default ÷ tenants".to_owned()].into_iter();
        grid.rows.extend(
            names
                .chain(BUDGETS.map(|b| b.to_string()))
                .zip(runs)
                .map(|(name, runs)| beside_bfq(format!("{load}, {name}"), runs, bfq)),
        );
        let sweep = &runs[2..];
        let lost = sweep.iter().map(|r| -percent(r.mb_per_s() / bfq.mb_per_s())).fold(0.0, f64::max);
        let metric = "largest loss of bandwidth against BFQ: at most 10 %";
        out.rows.push(row("figure-20", metric, *load, lost, "%").judged(loss, lost <= 10.0));
        let best = sweep.iter().map(|r| max_ms(bfq) / max_ms(r)).fold(0.0, f64::max);
        let metric = "BFQ's longest latency by H+BFQ's, largest of the sweep: at least 1.5";
        out.rows.push(row("figure-20", metric, *load, best, "×").judged(reduction, best >= 1.5));
        let small_is_best = max_ms(&sweep[0]) <= sweep.iter().map(max_ms).fold(f64::INFINITY, f64::min) * 1.1;
        let metric = "longest latency at 128 sectors: the lowest of the sweep, or within 10 %";
        out.rows.push(row("figure-20", metric, *load, max_ms(&sweep[0]), "ms").ordering(small_is_best));
        for (sum, runs) in relative.iter_mut().zip(sweep) {
            *sum += max_ms(runs) / max_ms(bfq);
        }
        let falls = sweep.windows(2).all(|pair| max_ms(&pair[0]) <= 1.1 * max_ms(&pair[1]));
        let metric = "longest latency does not rise (10 %) from 2048 to 128 sectors, last by first";
        out.rows.push(row("figure-20", metric, *load, max_ms(&sweep[0]) / max_ms(&sweep[4]), "").ordering(falls));
        out.rows.extend(by_budget(load, bfq, sweep));
        let mean = percent(mean_ms(&sweep[0]) / mean_ms(bfq));
        let change = row("figure-20", "mean latency at 128 sectors against BFQ", *load, mean, "%");
        out.rows.push(if *load == "prn" { change.judged(7.0, (0.0..=10.0).contains(&mean)) } else { change });
    }
    let best = relative.iter().copied().fold(f64::INFINITY, f64::min);
    let metric = "mean of the longest latencies by BFQ's at 128 sectors: the lowest of the sweep";
    let mean = relative[0] / TRACES.len() as f64;
    out.rows.push(row("figure-20", metric, "all", mean, "").ordering(relative[0] <= best));
    out.tables.push(grid);
    out.notes.push("the paper's mean latency of prn rises by 3 to 7 %: within is 0 to 10 %".to_owned());
    Ok(out)
}

/// The paper's algorithm, and settings of ours that it does not have: a budget of fixed size, and no charge of slow slots.
const VARIANTS: [(&str, &str); 6] = [
    ("bfq", BFQ),
    ("bfq, fixed budget", "bfq:v7r8,low_latency=0,max_budget=16384"),
    ("h-bfq", H_BFQ),
    ("h-bfq, fixed budget", "h-bfq:v7r8,low_latency=0,max_budget=16384"),
    ("h-bfq, no slow charge", "h-bfq:v7r8,low_latency=0,slow_charge=0"),
    ("h-bfq, both", "h-bfq:v7r8,low_latency=0,max_budget=16384,slow_charge=0"),
];

pub(super) fn variants(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let mut cases = Vec::new();
    for load in TRACES {
        for (_, scheduler) in VARIANTS {
            cases.push(four(load, SSD, scheduler, effort)?);
        }
    }
    let runs = replicated(&cases, replicates(effort), effort)?;
    let mut out = FigureResult::default();
    let mut grid = Grid {
        title: "H+BFQ as in the paper and with settings of ours; changes are against BFQ".to_owned(),
        header: FIGURE_20_COLUMNS.map(str::to_owned).to_vec(),
        rows: Vec::new(),
    };
    for (load, runs) in TRACES.iter().zip(runs.chunks(VARIANTS.len())) {
        for ((name, _), each) in VARIANTS.iter().zip(runs) {
            grid.rows.push(beside_bfq(format!("{load}, {name}"), each, &runs[0]));
            out.rows.push(row("h-bfq", "PV", format!("{load}, {name}"), each.pv(), "").detail());
        }
    }
    out.tables.push(grid);
    Ok(out)
}

/// What the text says of one load over the budgets, beside its longest latency.
fn by_budget(load: &str, bfq: &Runs, sweep: &[Runs]) -> Vec<Row> {
    let mut rows = Vec::new();
    let deviation = |runs: &Runs| runs.median(|r| r.latency_us.stddev) / 1000.0;
    let falls = sweep.windows(2).all(|pair| deviation(&pair[0]) <= 1.1 * deviation(&pair[1]));
    let metric = "deviation of the latency does not rise (10 %) from 2048 to 128 sectors, last by first";
    rows.push(row("figure-20", metric, load, deviation(&sweep[0]) / deviation(&sweep[4]), "").ordering(falls));
    let changes: Vec<f64> = sweep.iter().map(|r| percent(r.mb_per_s() / bfq.mb_per_s())).collect();
    let worst = (1..BUDGETS.len()).fold(0, |worst, i| if changes[i] < changes[worst] { i } else { worst });
    let stated = if load == "prj" { 512 } else { 2048 };
    let metric = "the budget that loses most bandwidth";
    let at = f64::from(BUDGETS[worst]);
    rows.push(row("figure-20", metric, load, at, "sectors").judged(f64::from(stated), BUDGETS[worst] == stated));
    let gain = changes.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (metric, holds) = match load {
        "msn" => ("largest change of bandwidth against BFQ: a gain", gain > 0.0),
        _ => ("largest change of bandwidth against BFQ: no gain", gain <= 0.0),
    };
    rows.push(row("figure-20", metric, load, gain, "%").ordering(holds));
    if load != "prn" {
        let least = sweep.iter().map(mean_ms).fold(f64::INFINITY, f64::min);
        let metric = "mean latency at 128 sectors: the lowest of the sweep, or within 1 %";
        let first = mean_ms(&sweep[0]);
        rows.push(row("figure-20", metric, load, first, "ms").ordering(first <= 1.01 * least));
    }
    rows
}

/// A mechanism taken away from both, and how.
struct Without {
    name: &'static str,
    /// Settings of the scheduler.
    settings: &'static str,
    device: &'static str,
}

const WITHOUT: [Without; 5] = [
    Without { name: "nothing", settings: "", device: SSD },
    Without { name: "the measured largest budget (both 16384)", settings: ",max_budget=16384", device: SSD },
    Without { name: "slots that end by time", settings: ",timeout_sync=100000", device: SSD },
    Without { name: "idling", settings: ",slice_idle=0", device: SSD },
    Without { name: "a queue in the device", settings: "", device: "ssd:sata-mlc?ncq_depth=1" },
];

pub(super) fn explanation(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let mut cases: Vec<Case> = Vec::new();
    for load in TRACES {
        for without in &WITHOUT {
            for scheduler in [BFQ, H_BFQ] {
                cases.push(four(load, without.device, &format!("{scheduler}{}", without.settings), effort)?);
            }
        }
    }
    let runs = replicated(&cases, replicates(effort), effort)?;
    let mut out = FigureResult::default();
    let header = [
        "load, without, scheduler",
        "PV",
        "max ms",
        "slots/s",
        "KiB a slot",
        "by time %",
        "exhausted %",
        "idle %",
        "empty %",
        "carried a slot",
        "waits/s",
    ];
    let seconds =
        runs.first().map_or(f64::NAN, |runs| runs.median(|r: &RunResult| r.duration_s)) + f64::from(effort.pick(2, 1));
    let mut grid = Grid {
        title: "How slots ended; carried: requests in the device when their queue's slot ended".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: Vec::new(),
    };
    for (load, runs) in TRACES.iter().zip(runs.chunks(2 * WITHOUT.len())) {
        let gap = |pair: &[Runs]| pair[0].pv() - pair[1].pv();
        let wait = |pair: &[Runs]| max_ms(&pair[0]) / max_ms(&pair[1]);
        for (without, pair) in WITHOUT.iter().zip(runs.chunks(2)) {
            for (name, runs) in ["bfq", "h-bfq"].iter().zip(pair) {
                grid.rows.push(slots(&format!("{load}, {}, {name}", without.name), runs, seconds));
            }
            let case = format!("{load}, without {}", without.name);
            out.rows.push(row("explanation", "PV of BFQ less that of H+BFQ", &case, gap(pair), ""));
            out.rows.push(row("explanation", "longest latency of BFQ by that of H+BFQ", &case, wait(pair), "×"));
        }
        let whole = &runs[..2];
        let gain = gap(whole);
        // A difference comes through what takes it away by its absence.
        let channel =
            WITHOUT.iter().zip(runs.chunks(2)).skip(1).min_by(|a, b| gap(a.1).abs().total_cmp(&gap(b.1).abs()));
        if let Some((without, pair)) = channel {
            let is = if gain > 0.0 { "better than" } else { "no better than" };
            out.notes.push(format!(
                "{load}: H+BFQ's PV ({:.3}) is {is} BFQ's ({:.3}); of the difference, {gain:+.3}, least is left ({:+.3}) without {}; BFQ's longest latency is {:.2} times H+BFQ's, {:.2} times without it",
                whole[1].pv(),
                whole[0].pv(),
                gap(pair),
                without.name,
                wait(whole),
                wait(pair),
            ));
        }
    }
    out.tables.push(grid);
    Ok(out)
}

/// Counters are of `seconds`, those of the warm-up included.
fn slots(name: &str, runs: &Runs, seconds: f64) -> Vec<String> {
    let kinds = ["time", "exhausted", "idle", "empty", "preempted"];
    let sum = |what: &str| kinds.iter().map(|k| runs.counter(&format!("{what}_{k}"))).sum::<f64>();
    let (slots, sectors) = (sum("slots"), sum("sectors"));
    let part = |kind: &str| format!("{:.0}", 100.0 * runs.counter(&format!("slots_{kind}")) / slots);
    vec![
        name.to_owned(),
        format!("{:.3}", runs.pv()),
        format!("{:.0}", max_ms(runs)),
        format!("{:.1}", slots / seconds),
        format!("{:.0}", sectors / 2.0 / slots),
        part("time"),
        part("exhausted"),
        part("idle"),
        part("empty"),
        format!("{:.1}", runs.counter("carried_requests") / slots),
        format!("{:.1}", runs.counter("idle_waits") / seconds),
    ]
}
