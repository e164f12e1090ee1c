//! A load over a number of tenants, threads or requests under all schedulers: is none best or tied at each point?

use dumbwaiter_measure::{RunResult, welch};
use dumbwaiter_report::{Grid, Plot, PlotLine};

use crate::replicates::Runs;
use crate::{FigureResult, Row};

/// The paper's name.
pub(super) const NAME: &str = "ull-2023";
/// The schedulers that it compares.
pub(super) const SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];
/// Figures nearer than this are a tie.
const TIE: f64 = 0.02;
/// With a larger p value, runs of a real device are a tie too.
const CHANCE: f64 = 0.05;

/// A figure that is better the higher, or the lower, it is.
pub(super) struct Measure {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) more: bool,
    /// Does the paper speak of it?
    stated: bool,
    pub(super) of: fn(&RunResult) -> f64,
}

pub(super) const IOPS: Measure = Measure { name: "throughput", unit: "IOPS", more: true, stated: true, of: |r| r.iops };
pub(super) const ENERGY: Measure = Measure {
    name: "energy",
    unit: "J per million I/Os",
    more: false,
    stated: true,
    of: |r| r.energy.as_ref().map_or(f64::NAN, |e| e.j_per_mio),
};
pub(super) const MEDIAN: Measure =
    Measure { name: "median latency", unit: "µs", more: false, stated: true, of: |r| r.latency_us.p50 };
pub(super) const TAIL: Measure =
    Measure { name: "p99 latency", unit: "µs", more: false, stated: true, of: |r| r.latency_us.p99 };
/// The flows of a mix.
pub(super) const READS: Measure =
    Measure { name: "throughput of the reads", unit: "IOPS", more: true, stated: true, of: |r| r.read.iops };
pub(super) const WRITES: Measure =
    Measure { name: "throughput of the writes", unit: "IOPS", more: true, stated: true, of: |r| r.write.iops };
/// Of the processes that do the I/O: what interrupts and the kernel's helpers take is not in it.
pub(super) const CPU: Measure =
    Measure { name: "CPU time", unit: "µs per I/O", more: false, stated: false, of: |r| r.cpu.us_per_io };
/// As db_bench counts.
pub(super) const GETS: Measure = Measure {
    name: "gets",
    unit: "per second",
    more: true,
    stated: false,
    of: |r| r.host_counters.get("gets_per_s").copied().unwrap_or(f64::NAN),
};

impl Measure {
    /// Is none the best, or as good as the other but for what chance explains? `None`: one was not measured.
    fn none_is_best_or_tied(&self, none: &Runs, other: &Runs) -> Option<bool> {
        let (a, b) = (none.mean(self.of)?, other.mean(self.of)?);
        let holds = if self.more { a >= b * (1.0 - TIE) } else { a <= b * (1.0 + TIE) };
        // Of single runs p is not defined, and the means decide.
        Some(holds || welch(&none.each(self.of), &other.each(self.of)) > CHANCE)
    }
}

/// Axes of a sweep.
pub(super) struct Swept<'a> {
    pub(super) figure: &'a str,
    /// Name of the axis.
    pub(super) x: &'a str,
    pub(super) kinds: &'a [&'a str],
    pub(super) steps: &'a [u32],
    /// On a real device.
    pub(super) real: bool,
}

impl Swept<'_> {
    /// One row per point: none's figure, and whether it is best or tied. `runs` are in the order of kind, step and scheduler.
    /// Of a real device, whose figures are nowhere else, a table of all schedulers too.
    pub(super) fn judged(&self, measures: &[&Measure], runs: &[Runs]) -> FigureResult {
        let mut out = FigureResult::default();
        for (kind, runs) in self.kinds.iter().zip(runs.chunks(self.steps.len() * SCHEDULERS.len())) {
            if runs.iter().all(|r| r.0.is_empty()) {
                continue;
            }
            // Flows are of mixes alone.
            let of_mix = |m: &&&Measure| kind.contains("half reads") || !m.name.contains(" of the ");
            for measure in measures.iter().filter(of_mix) {
                let points: Vec<&[Runs]> = runs.chunks(SCHEDULERS.len()).collect();
                for (n, point) in self.steps.iter().zip(&points) {
                    self.rows(&mut out, measure, kind, *n, point);
                }
                let mean = |runs: &Runs| runs.mean(measure.of);
                let lines = SCHEDULERS.iter().enumerate().map(|(s, name)| PlotLine {
                    name: (*name).to_owned(),
                    x: self.steps.iter().map(u32::to_string).collect(),
                    y: points.iter().map(|p| mean(&p[s]).unwrap_or(f64::NAN)).collect(),
                    ..PlotLine::default()
                });
                out.plots.push(Plot {
                    title: format!("{}, {kind}", measure.name),
                    x: self.x.to_owned(),
                    y: measure.unit.to_owned(),
                    lines: lines.filter(|l| l.y.iter().any(|y| y.is_finite())).collect(),
                });
                if self.real {
                    out.tables.push(self.grid(measure, kind, &points));
                }
            }
        }
        let mut note = "the text prints no values of this figure; a tie is within 2 %".to_owned();
        if self.real {
            note += ", or a difference that chance explains (p > 0.05)";
        }
        out.notes.push(note);
        out
    }

    fn rows(&self, out: &mut FigureResult, measure: &Measure, kind: &str, n: u32, point: &[Runs]) {
        let row = |metric: &str, case: String, ours| Row::new(NAME, self.figure, metric, case, ours, measure.unit);
        if measure.stated
            && let Some(none) = point[0].mean(measure.of)
        {
            let others: Vec<bool> =
                point[1..].iter().filter_map(|other| measure.none_is_best_or_tied(&point[0], other)).collect();
            let holds = (!others.is_empty()).then(|| others.iter().all(|holds| *holds));
            let metric = format!("{}: none is best or tied", measure.name);
            out.rows.push(row(&metric, format!("{kind}, {n}"), none).order(holds));
        }
        if self.real {
            for (scheduler, runs) in SCHEDULERS.iter().zip(point) {
                if let Some(ours) = runs.mean(measure.of) {
                    out.rows.push(row(measure.name, format!("{kind}, {n}, {scheduler}"), ours).detail());
                }
            }
        }
    }

    fn grid(&self, measure: &Measure, kind: &str, points: &[&[Runs]]) -> Grid {
        let number = |value: Option<f64>| match value {
            Some(v) if v >= 100.0 => format!("{v:.0}"),
            Some(v) => format!("{v:.2}"),
            None => "–".to_owned(),
        };
        let line = |(n, point): (&u32, &&[Runs])| {
            std::iter::once(n.to_string()).chain(point.iter().map(|r| number(r.mean(measure.of)))).collect()
        };
        Grid {
            title: format!("{} ({}), {kind}", measure.name, measure.unit),
            header: std::iter::once(self.x.to_owned()).chain(SCHEDULERS.map(str::to_owned)).collect(),
            rows: self.steps.iter().zip(points).map(line).collect(),
        }
    }
}
