//! Figures 14, 18 and 19: the schedulers on the stand-ins of three traces.

use dumbwaiter_report::Grid;

use super::{SCHEDULERS, SSD, TRACES, four, percent, replicates, row};
use crate::replicates::{Runs, replicated};
use crate::{Effort, Error, FigureResult};

/// Positions in [`SCHEDULERS`].
pub(super) const CFQ: usize = 0;
pub(super) const BFQ: usize = 1;
pub(super) const A_CFQ: usize = 2;
pub(super) const H_BFQ: usize = 3;

/// Runs of every scheduler for each of [`TRACES`].
fn all(effort: &Effort<'_>) -> Result<Vec<Vec<Runs>>, Error> {
    let mut cases = Vec::new();
    for load in TRACES {
        for (_, scheduler) in SCHEDULERS {
            cases.push(four(load, SSD, scheduler, effort)?);
        }
    }
    let mut runs = replicated(&cases, replicates(effort), effort)?.into_iter();
    Ok(TRACES.iter().map(|_| runs.by_ref().take(SCHEDULERS.len()).collect()).collect())
}

/// One line per load and scheduler.
fn table(all: &[Vec<Runs>]) -> Grid {
    let mut grid = Grid {
        title: format!("Medians over the seeds, weights 1:2:4:5, {SSD}"),
        header: [
            "load, scheduler",
            "MB/s",
            "PV",
            "shares %",
            "mean ms",
            "deviation ms",
            "max ms",
            "reversals s/min",
            "depth",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: Vec::new(),
    };
    for (load, runs) in TRACES.iter().zip(all) {
        for ((name, _), runs) in SCHEDULERS.iter().zip(runs) {
            let tenants = runs.0.first().map_or(0, |r| r.tenants.len());
            let share = |i: usize| format!("{:.1}", 100.0 * runs.median(|r| r.tenants[i].share));
            let shares: Vec<String> = (0..tenants).map(share).collect();
            grid.rows.push(vec![
                format!("{load}, {name}"),
                format!("{:.0}", runs.mb_per_s()),
                format!("{:.3}", runs.pv()),
                shares.join(" "),
                format!("{:.1}", runs.median(|r| r.latency_us.mean) / 1000.0),
                format!("{:.1}", runs.median(|r| r.latency_us.stddev) / 1000.0),
                format!("{:.0}", runs.median(|r| r.latency_us.max) / 1000.0),
                format!("{:.1}", runs.median(|r| 60.0 * r.fairness.reversals_s / r.duration_s)),
                format!("{:.1}", runs.median(|r| r.depth.device.mean)),
            ]);
        }
    }
    grid
}

pub(super) fn figure_14(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let all = all(effort)?;
    let mut out = FigureResult::default();
    for (load, runs) in TRACES.iter().zip(&all) {
        let [cfq, bfq, a_cfq] = [CFQ, BFQ, A_CFQ].map(|s| runs[s].pv());
        let case = |name: &str| format!("{load}, {name}");
        out.rows.push(row("figure-14", "PV", case("cfq"), cfq, ""));
        let metric = "PV is at most half of CFQ's";
        out.rows.push(row("figure-14", metric, case("a-cfq"), a_cfq, "").ordering(a_cfq <= 0.5 * cfq));
        let pv = row("figure-14", "PV is above A+CFQ's", case("bfq"), bfq, "");
        out.rows.push(match *load {
            "msn" => crate::Row { metric: "PV".to_owned(), ..pv },
            _ => pv.ordering(bfq > a_cfq),
        });
        let gain = percent(runs[BFQ].mb_per_s() / runs[A_CFQ].mb_per_s());
        let metric = "bandwidth of BFQ above A+CFQ's";
        out.rows.push(row("figure-14", metric, *load, gain, "%").ordering(gain > 0.0));
    }
    let reversals = |s: usize| all[2][s].median(|r| 60.0 * r.fairness.reversals_s / r.duration_s);
    let (bfq, a_cfq) = (reversals(BFQ), reversals(A_CFQ));
    let metric = "reversals: none, ordered by weight throughout";
    out.rows.push(row("figure-14", metric, "prn, a-cfq", a_cfq, "s/min").ordering(a_cfq <= 0.0));
    let metric = "reversals are more than A+CFQ's";
    out.rows.push(row("figure-14", metric, "prn, bfq", bfq, "s/min").ordering(bfq > a_cfq));
    out.tables.push(table(&all));
    Ok(out)
}

pub(super) fn figure_18(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let all = all(effort)?;
    let mut out = FigureResult::default();
    for (load, runs) in TRACES.iter().zip(&all) {
        let [cfq, bfq, a_cfq, h_bfq] = [CFQ, BFQ, A_CFQ, H_BFQ].map(|s| runs[s].pv());
        let case = |name: &str| format!("{load}, {name}");
        for (s, (name, _)) in SCHEDULERS.iter().enumerate() {
            out.rows.push(row("figure-18", "PV", case(name), runs[s].pv(), ""));
        }
        let mut ratio = |metric: &str, case: &str, value: f64, holds: bool| {
            out.rows.push(row("figure-18", metric, format!("{load}, {case}"), value, "").ordering(holds));
        };
        ratio("PV by CFQ's: at most 0.5", "a-cfq", a_cfq / cfq, a_cfq <= 0.5 * cfq);
        ratio("PV by BFQ's: at most 0.5", "a-cfq", a_cfq / bfq, a_cfq <= 0.5 * bfq);
        ratio("PV by CFQ's: at most 0.5", "h-bfq", h_bfq / cfq, h_bfq <= 0.5 * cfq);
        ratio("PV by BFQ's: at most 0.5", "h-bfq", h_bfq / bfq, h_bfq <= 0.5 * bfq);
        let change = percent(runs[H_BFQ].mb_per_s() / runs[BFQ].mb_per_s());
        let metric = "bandwidth of H+BFQ against BFQ's: within 3 %";
        out.rows.push(row("figure-18", metric, *load, change, "%").ordering(change.abs() <= 3.0));
        let spread =
            |s: usize| runs[s].median(|r| r.tenants.last().map_or(f64::NAN, |t| t.bandwidth.max - t.bandwidth.min));
        let least = SCHEDULERS[..H_BFQ].iter().enumerate().all(|(s, _)| spread(H_BFQ) <= spread(s));
        let metric = "range of the heaviest tenant's bandwidth is the smallest";
        out.rows.push(row("figure-18", metric, case("h-bfq"), spread(H_BFQ), "MB/s").ordering(least));
        let heavy = |s: usize| runs[s].median(|r| r.tenants.last().map_or(f64::NAN, |t| t.mb_per_s));
        let metric = "bandwidth of the heaviest tenant is at most BFQ's, by that";
        let lower = heavy(H_BFQ) / heavy(BFQ);
        out.rows.push(row("figure-18", metric, case("h-bfq"), lower, "").ordering(lower <= 1.0));
    }
    out.tables.push(table(&all));
    out.notes.push("B-WF2Q+ gives the same long-run shares for any budgets; through what H+BFQ differs is measured by fair-ssd-2020:explanation".to_owned());
    Ok(out)
}

pub(super) fn figure_19(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let all = all(effort)?;
    let mut out = FigureResult::default();
    // The paper's reductions of the longest latency are the best of its sweep of budgets.
    let paper_max = [3.1, 2.1, 5.5];
    for ((load, runs), paper_max) in TRACES.iter().zip(&all).zip(paper_max) {
        let [mean, deviation, max] = [
            runs[H_BFQ].median(|r| r.latency_us.mean) / runs[BFQ].median(|r| r.latency_us.mean),
            runs[H_BFQ].median(|r| r.latency_us.stddev) / runs[BFQ].median(|r| r.latency_us.stddev),
            runs[BFQ].median(|r| r.latency_us.max) / runs[H_BFQ].median(|r| r.latency_us.max),
        ];
        let of = |metric: &str, ours: f64, holds: bool| row("figure-19", metric, *load, ours, "").ordering(holds);
        out.rows.push(of("mean latency of H+BFQ by BFQ's: within 10 %", mean, (mean - 1.0).abs() <= 0.1));
        out.rows.push(of("deviation of H+BFQ by BFQ's: at most 0.7", deviation, deviation <= 0.7));
        for (name, other) in [("CFQ", CFQ), ("A+CFQ", A_CFQ)] {
            let deviation = |s: usize| runs[s].median(|r| r.latency_us.stddev);
            let ratio = deviation(H_BFQ) / deviation(other);
            out.rows.push(of(&format!("deviation of H+BFQ by {name}'s: at most 0.7"), ratio, ratio <= 0.7));
        }
        out.rows.push(of("longest latency of H+BFQ is at most BFQ's", 1.0 / max, max >= 1.0));
        let metric = "longest latency of BFQ by H+BFQ's own";
        out.rows.push(row("figure-19", metric, *load, max, "×").judged(paper_max, max >= 1.5));
    }
    out.tables.push(table(&all));
    Ok(out)
}
