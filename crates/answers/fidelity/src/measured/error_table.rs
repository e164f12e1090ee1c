//! The errors by class of drive and kind of load, as the table that `advise` reads.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use dumbwaiter_advise::{DriveClass, ERROR_COLUMNS, LoadKind};

use super::answer::MeasuredAgainst;

/// The part of the rows that is within an error.
const WITHIN: f64 = 0.95;

type Values = fn(&MeasuredAgainst) -> Option<(f64, f64)>;

/// The table, as text; `source` names the measurements. Sums, rows that were not run and figures of which only a bound was measured do not count.
pub fn error_table(rows: &[MeasuredAgainst], source: &str) -> String {
    let mut groups: BTreeMap<(DriveClass, LoadKind), Vec<&MeasuredAgainst>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.was_run() && !row.total) {
        if let Some(class) = row.class {
            groups.entry((class, row.load)).or_default().push(row);
        }
    }
    let mut text = ERROR_COLUMNS.join(",") + "\n";
    let source = source.replace([',', '\n'], " ");
    for ((class, load), rows) in groups {
        let errors = [
            (of_rows as fn(&[&MeasuredAgainst], Values) -> Vec<f64>, iops as Values),
            (of_rows, latency),
            (of_pairs, iops),
            (of_pairs, latency),
        ];
        let cells =
            errors.map(|(list, values)| within(list(&rows, values)).map_or_else(String::new, |e| format!("{e:.3}")));
        let _ = writeln!(text, "{source},{},{},{},{}", class.name(), load.name(), rows.len(), cells.join(","));
    }
    text
}

fn iops(row: &MeasuredAgainst) -> Option<(f64, f64)> {
    row.figures.iops_measured.zip(row.figures.iops_predicted)
}

/// The highest percentile that was measured.
fn latency(row: &MeasuredAgainst) -> Option<(f64, f64)> {
    let f = &row.figures;
    let p99 = f.p99_us_measured.zip(f.p99_us_predicted);
    let p95 = f.p95_us_measured.zip(f.p95_us_predicted).filter(|_| !row.clipped.p95);
    p99.or(p95).or(f.p50_us_measured.zip(f.p50_us_predicted).filter(|_| !row.clipped.p50))
}

/// Logarithms of predicted by measured.
fn logarithm((measured, predicted): (f64, f64)) -> Option<f64> {
    (measured > 0.0 && predicted > 0.0).then(|| (predicted / measured).ln())
}

fn of_rows(rows: &[&MeasuredAgainst], values: Values) -> Vec<f64> {
    rows.iter().filter_map(|row| logarithm(values(row)?)).map(f64::abs).collect()
}

/// Of each two schedulers under the same load.
fn of_pairs(rows: &[&MeasuredAgainst], values: Values) -> Vec<f64> {
    let mut same: BTreeMap<[&str; 3], Vec<f64>> = BTreeMap::new();
    for row in rows {
        if let Some(logarithm) = values(row).and_then(logarithm) {
            same.entry([&row.figure, &row.condition, &row.role]).or_default().push(logarithm);
        }
    }
    let pairs = same
        .values()
        .flat_map(|all| all.iter().enumerate().flat_map(|(i, a)| all[i + 1..].iter().map(move |b| (a - b).abs())));
    pairs.collect()
}

/// The error that nineteen of twenty stay within.
fn within(mut logarithms: Vec<f64>) -> Option<f64> {
    logarithms.sort_by(f64::total_cmp);
    let at = ((logarithms.len() as f64 * WITHIN).ceil() as usize).saturating_sub(1);
    logarithms.get(at).map(|logarithm| logarithm.exp() - 1.0)
}
