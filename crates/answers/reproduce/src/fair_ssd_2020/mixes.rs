//! Figures 21 to 25: one load per tenant.

use dumbwaiter_measure::RunResult;

use super::generations::{A_CFQ, BFQ, CFQ, H_BFQ};
use super::{SCHEDULERS, SSD, TRACES, head, replicates, row, tenants};
use crate::replicates::{case, replicated};
use crate::{Effort, Error, FigureResult};

/// MB/s of each load alone, in the order of [`TRACES`].
const ALONE: [f64; 3] = [370.0, 460.0, 270.0];

pub(super) fn figure_21(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let head = head(effort, SSD);
    let mut cases = Vec::new();
    for (_, scheduler) in SCHEDULERS {
        for load in TRACES {
            cases.push(case(&tenants(&head, &[(1, load)]), SSD, scheduler)?);
        }
        cases.push(case(&tenants(&head, &TRACES.map(|load| (1, load))), SSD, scheduler)?);
    }
    let runs = replicated(&cases, replicates(effort), effort)?;
    let mut out = FigureResult::default();
    for ((name, _), runs) in SCHEDULERS.iter().zip(runs.chunks(4)) {
        for ((load, paper), runs) in TRACES.iter().zip(ALONE).zip(runs) {
            let row = row("figure-21", "bandwidth alone", format!("{load}, {name}"), runs.mb_per_s(), "MB/s");
            // Of headway the paper knows nothing.
            let row = if *name == "headway" { row } else { row.value(paper, 0.1) };
            out.rows.push(if *load == "prj" { row } else { row.calibrated() });
        }
    }
    let share = |s: usize, tenant: usize| 100.0 * runs[4 * s + 3].median(|r| r.tenants[tenant].share);
    for (s, (name, _)) in SCHEDULERS.iter().enumerate() {
        for (t, load) in TRACES.iter().enumerate() {
            let row = row("figure-21", "share together, equal weights", format!("{load}, {name}"), share(s, t), "%");
            out.rows.push(row);
        }
    }
    for (t, load) in TRACES.iter().enumerate() {
        let of = [BFQ, A_CFQ, H_BFQ].map(|s| share(s, t));
        let (least, most) = of.iter().fold((f64::INFINITY, 0.0_f64), |(l, m), v| (l.min(*v), m.max(*v)));
        let metric = "share together, largest of BFQ, A+CFQ and H+BFQ by the smallest: alike, at most 1.25";
        out.rows.push(row("figure-21", metric, *load, most / least, "").ordering(most <= 1.25 * least));
    }
    let kept = |s: usize, t: usize| {
        let together = runs[4 * s + 3].median(|r| r.tenants[t].mb_per_s);
        together / runs[4 * s + t].mb_per_s()
    };
    let [msn, prj, prn] = [0, 1, 2].map(|t| kept(CFQ, t));
    let metric = "bandwidth together by that alone, under CFQ: the lowest of the three";
    out.rows.push(row("figure-21", metric, "prj", prj, "").ordering(prj < msn && prj < prn));
    let metric = "bandwidth together by that alone, under CFQ by under A+CFQ: below 1";
    let ratio = prj / kept(A_CFQ, 1);
    out.rows.push(row("figure-21", metric, "prj", ratio, "").ordering(ratio < 1.0));
    Ok(out)
}

/// Weights of msn, prj and prn. The text names 1:2:5; the others are ours.
const SETS: [[u32; 3]; 4] = [[1, 2, 5], [1, 2, 3], [3, 2, 1], [2, 5, 1]];

/// Of all four of the paper's schedulers H+BFQ is to have the least.
type OfLatency = (&'static str, fn(&RunResult) -> f64);
const LATENCIES: [OfLatency; 2] = [
    ("deviation of the latency is the least of the four", |r| r.latency_us.stddev),
    ("longest latency is the least of the four", |r| r.latency_us.max),
];

pub(super) fn figures_23_25(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let head = head(effort, SSD);
    let mut cases = Vec::new();
    for weights in SETS {
        let mix: Vec<(u32, &str)> = weights.into_iter().zip(TRACES).collect();
        for (_, scheduler) in SCHEDULERS {
            cases.push(case(&tenants(&head, &mix), SSD, scheduler)?);
        }
    }
    let runs = replicated(&cases, replicates(effort), effort)?;
    let mut out = FigureResult::default();
    for (weights, runs) in SETS.iter().zip(runs.chunks(SCHEDULERS.len())) {
        let [x, y, z] = weights;
        for ((name, _), runs) in SCHEDULERS.iter().zip(runs) {
            let case = format!("{x}:{y}:{z}, {name}");
            let moved: Vec<f64> = (0..3).map(|t| runs.median(|r| r.tenants[t].mb_per_s)).collect();
            let ordered = in_order(weights, &moved);
            let pv = row("figures-23-25", "PV; averages are in the order of the weights", &case, runs.pv(), "");
            out.rows.push(match *name {
                "a-cfq" | "h-bfq" | "bfq" => pv.ordering(ordered),
                "cfq" => crate::Row { metric: "PV; averages are not in the order of the weights".to_owned(), ..pv }
                    .ordering(!ordered),
                _ => crate::Row { metric: "PV".to_owned(), ..pv },
            });
            let reversals = runs.median(|r| 60.0 * r.fairness.reversals_s / r.duration_s);
            let row_of = |metric: &str| row("figures-23-25", metric, &case, reversals, "s/min");
            out.rows.push(match *name {
                "a-cfq" | "h-bfq" => row_of("reversals: none").ordering(reversals <= 0.0),
                "bfq" => row_of("reversals: some").ordering(reversals > 0.0),
                _ => row_of("reversals"),
            });
            if *name == "cfq" && x < y && y < z {
                let metric = "prj is below msn, for all its weight";
                out.rows
                    .push(row("figures-23-25", metric, &case, moved[1] / moved[0], "").ordering(moved[1] < moved[0]));
                let lowest = moved[2] < moved[0].min(moved[1]);
                let metric = "prn is the lowest, for all its weight; by msn";
                out.rows.push(row("figures-23-25", metric, &case, moved[2] / moved[0], "").ordering(lowest));
            }
        }
    }
    for (weights, runs) in SETS.iter().zip(runs.chunks(SCHEDULERS.len())) {
        let case = format!("{}, h-bfq", weights.map(|w| w.to_string()).join(":"));
        for (metric, of) in LATENCIES {
            let each: Vec<f64> = runs[..=H_BFQ].iter().map(|runs| runs.median(|r| of(r) / 1000.0)).collect();
            let least = each.iter().all(|other| each[H_BFQ] <= *other);
            out.rows.push(row("figures-23-25", metric, &case, each[H_BFQ], "ms").ordering(least));
        }
    }
    out.notes.push("weights are of msn, prj and prn; prn alternates between few large requests and many small ones, which CFQ counts alike".to_owned());
    Ok(out)
}

/// Did everyone with more weight move more?
fn in_order(weights: &[u32], moved: &[f64]) -> bool {
    let pairs = || weights.iter().zip(moved);
    pairs().all(|(w, m)| pairs().all(|(heavier, more)| heavier <= w || more > m))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heavier_ones_have_to_move_more() {
        assert!(in_order(&[1, 2, 5], &[10.0, 20.0, 21.0]));
        assert!(!in_order(&[1, 2, 5], &[10.0, 20.0, 19.0]));
        assert!(!in_order(&[5, 1, 2], &[10.0, 10.0, 5.0]));
        assert!(in_order(&[1, 1], &[9.0, 10.0]));
    }
}
