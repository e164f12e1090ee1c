//! *Towards Machine Learning-Based I/O Scheduling* (FSL-25-07, 2025): its arithmetic, and what it claims measured.

mod device;
mod flash;
mod measured;
mod paper;
mod phases;
mod recorded;

use dumbwaiter_report::Grid;

use self::paper::{Merged, SCHEDULERS, THROUGHPUT, WORKLOADS};
use crate::{Chosen, Effort, Error, Figure, FigureResult, Paper, Real, Row};

pub(super) const NAME: &str = "kml-2025";

/// The paper.
pub(crate) const PAPER: Paper = Paper {
    name: NAME,
    title: "Towards Machine Learning-Based I/O Scheduling (FSL-25-07, 2025)",
    calibration: "nothing: figure-2 and figure-4 are arithmetic on the paper's own tables, classification and prediction are of recorded runs; the others are simulated, phases also on a device",
    chosen: &[
        Chosen {
            name: "null-requests",
            what: "NULL requests of bursts are writes that the disk's cache takes, since scenarios have no read that fails at once",
            without: "not measured; such a write takes 0.2 ms",
        },
        Chosen {
            name: "recordings",
            what: "the shipped models are trained on recorded RocksDB runs on a loop device, not on the paper's disk",
            without: "not measured",
        },
        Chosen {
            name: "phases",
            what: "the settings of adaptive were chosen on the schedule of figure phases; those of phases-held-out and steady were not",
            without: "phases-held-out shows it",
        },
    ],
    real: Real::Engine(&["phases"]),
    figures: &[
        Figure { name: "figure-2", title: "confusion of workloads, raw and merged (arithmetic)", run: figure_2 },
        Figure { name: "figure-4", title: "adaptive throughput by the paper's formula (arithmetic)", run: figure_4 },
        Figure {
            name: "bursts",
            title: "bursts of 100 with NULL requests: sjf against arrival order",
            run: measured::bursts,
        },
        Figure {
            name: "open-loop",
            title: "sjf under Poisson arrivals, with a shuffled control",
            run: measured::open_loop,
        },
        Figure {
            name: "phases",
            title: "adaptive against every fixed scheduler, their mean and an oracle, in phases",
            run: phases,
        },
        Figure {
            name: "six-schedulers",
            title: "the paper's six schedulers, and adaptive with these as candidates, in phases",
            run: phases::six,
        },
        Figure {
            name: "phases-held-out",
            title: "the same with other loads, orders and devices than those that settings were chosen on",
            run: phases::held_out,
        },
        Figure {
            name: "steady",
            title: "adaptive on loads that do not change: no more than 1 % below the best fixed scheduler",
            run: phases::steady_loads,
        },
        Figure {
            name: "flash-goals",
            title: "what an oracle would gain over the best fixed scheduler on flash, by three goals",
            run: flash::goals,
        },
        Figure {
            name: "classification",
            title: "accuracy of the shipped classifier, with baselines (recorded runs)",
            run: recorded::classification,
        },
        Figure {
            name: "prediction",
            title: "the shipped latency models, with baselines (recorded runs)",
            run: recorded::prediction,
        },
        Figure {
            name: "positioning",
            title: "sptf against its true-positioning oracle and mq-deadline",
            run: measured::positioning,
        },
        Figure {
            name: "not-modelled",
            title: "statements that cannot be modelled, and why",
            run: |_| Ok(FigureResult::default()),
        },
    ],
};

pub(super) fn row(figure: &str, metric: &str, case: impl Into<String>, ours: f64, unit: &str) -> Row {
    Row::new(NAME, figure, metric, case, ours, unit)
}

/// On the models, or on a device.
fn phases(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    if effort.real() { device::phases(effort) } else { phases::phases(effort) }
}

fn figure_2(_effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let mut out = FigureResult::default();
    for (merged, case, printed) in [
        (Merged::None, "raw", None),
        (Merged::A, "the four random loads are one", Some(86.0)),
        (Merged::B, "and the two fills are one", None),
    ] {
        let row = row("figure-2", "accuracy from the printed matrix", case, paper::accuracy(merged), "%");
        out.rows.push(match printed {
            Some(printed) => row.value(printed, 0.02),
            None => row,
        });
    }
    out.tables.push(Grid {
        title: "Figure 2 as printed: rows predicted, columns true, per cent".to_owned(),
        header: std::iter::once("predicted").chain(WORKLOADS).map(str::to_owned).collect(),
        rows: WORKLOADS
            .iter()
            .zip(&paper::CONFUSION)
            .map(|(name, row)| std::iter::once((*name).to_owned()).chain(row.iter().map(f64::to_string)).collect())
            .collect(),
    });
    out.notes.push("arithmetic on the paper's table, no measurement".to_owned());
    Ok(out)
}

fn figure_4(_effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let mut out = FigureResult::default();
    for (workload, (_, printed)) in THROUGHPUT.iter().enumerate() {
        let ours = paper::adaptive(workload);
        let name = WORKLOADS[workload];
        out.rows.push(row("figure-4", "adaptive by the formula", name, ours, "op/s").value(*printed, 0.005));
    }
    // As the table prints them; four of them are rounded otherwise there.
    for (workload, printed) in [14.4, 12.7, 1.9, 3.1, 8.2, 4.6].into_iter().enumerate() {
        let (all, _) = THROUGHPUT[workload];
        let ours = 100.0 * (6.0 * paper::adaptive(workload) / all.iter().sum::<f64>() - 1.0);
        let metric = "advantage over the mean of all schedulers: within 0.25 points";
        let near = (ours - printed).abs() <= 0.25;
        out.rows.push(row("figure-4", metric, WORKLOADS[workload], ours, "%").judged(printed, near));
    }
    let metric = "advantage over the mean of all schedulers";
    out.rows.push(row("figure-4", metric, "adaptive", paper::over_mean(paper::adaptive), "%").value(7.5, 0.02));
    for (scheduler, name) in SCHEDULERS.iter().enumerate() {
        let gain = paper::over_mean(|workload| THROUGHPUT[workload].0[scheduler]);
        out.rows.push(row("figure-4", metric, format!("always {name}"), gain, "%"));
    }
    out.rows.push(row("figure-4", metric, "oracle", paper::over_mean(paper::oracle), "%"));
    let sum = |of: &dyn Fn(usize) -> f64| (0..6).map(of).sum::<f64>();
    let adaptive = sum(&paper::adaptive);
    let best = (0..6).map(|s| sum(&|w| THROUGHPUT[w].0[s])).fold(0.0, f64::max);
    let over_best = 100.0 * (adaptive / best - 1.0);
    out.rows.push(row("figure-4", "summed throughput over the best single scheduler", "adaptive", over_best, "%"));
    out.notes.push(
        "arithmetic on the paper's tables, no measurement: always Noop scores as much as adaptive, which leaves out the cost of \
         switching and the time until a phase is recognised"
            .to_owned(),
    );
    Ok(out)
}
