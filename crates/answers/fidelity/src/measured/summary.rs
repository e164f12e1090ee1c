//! Medians and worst of the errors, by scheduler and by kind of load, and the order of schedulers.

use std::collections::BTreeMap;

use serde::Serialize;

use super::answer::MeasuredAgainst;

/// Two schedulers whose measured figures differ by less than this are equal.
const DIFFER: f64 = 0.05;
/// Two whose predicted figures differ by less than this are a tie.
const TIE: f64 = 0.01;

/// The errors of one figure over several rows. An error is |predicted / measured − 1|.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Errors {
    /// Rows.
    pub rows: usize,
    /// Median error.
    pub median: f64,
    /// Share of rows within 15 %.
    pub within_15: f64,
    /// Within 25 %.
    pub within_25: f64,
    /// Within 30 %.
    pub within_30: f64,
    /// Within 50 %.
    pub within_50: f64,
    /// Within a factor of 2.
    pub within_2x: f64,
    /// The ratio furthest from 1; infinite (`null` in JSON) where a job got nothing in the run.
    pub worst_ratio: f64,
    /// Where that is.
    pub worst: String,
}

/// The errors of a group of rows, by figure.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// Scheduler, or kind of load.
    pub name: String,
    /// Rows of the group, run or not, without sums.
    pub rows: usize,
    /// Those that were not run.
    pub not_run: usize,
    /// Errors by figure: `iops`, `mean`, `p50`, `p95`, `p99`, `cpu`. A figure that no row has is left out.
    #[serde(serialize_with = "as_map")]
    pub errors: Vec<(&'static str, Errors)>,
}

fn as_map<S: serde::Serializer>(errors: &[(&'static str, Errors)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(errors.iter().map(|(name, errors)| (name, errors)))
}

/// How often the order of two schedulers is right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Order {
    /// Pairs that differ by 5 % or more where they were measured.
    pub pairs: usize,
    /// Of these, in the right order.
    pub right: usize,
    /// Predicted equal within 1 %, which counts as half.
    pub ties: usize,
}

impl Order {
    /// The part that is right.
    pub fn share(&self) -> f64 {
        (self.right as f64 + self.ties as f64 / 2.0) / self.pairs as f64
    }
}

/// What all rows say together.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredSummary {
    /// By scheduler.
    pub schedulers: Vec<Group>,
    /// By kind of load.
    pub loads: Vec<Group>,
    /// Order of schedulers by I/Os per second.
    pub order_iops: Order,
    /// And by p99.
    pub order_p99: Order,
}

/// A figure: its name, its ratio in a row, and whether the row's is only a bound.
type Ratio = (&'static str, fn(&MeasuredAgainst) -> Option<f64>);
const RATIOS: [Ratio; 6] = [
    ("iops", |row| or_missed(row, row.figures.iops_measured, row.figures.iops_ratio)),
    ("mean", |row| or_missed(row, row.figures.mean_us_measured, row.figures.mean_ratio)),
    ("p50", |row| or_missed(row, row.figures.p50_us_measured.filter(|_| !row.clipped.p50), row.figures.p50_ratio)),
    ("p95", |row| or_missed(row, row.figures.p95_us_measured.filter(|_| !row.clipped.p95), row.figures.p95_ratio)),
    ("p99", |row| or_missed(row, row.figures.p99_us_measured, row.figures.p99_ratio)),
    ("cpu", |row| row.figures.cpu_ratio),
];

/// The ratio of a figure that was measured. A run in which the job got nothing has none, and is as wrong as can be.
fn or_missed(row: &MeasuredAgainst, measured: Option<f64>, ratio: Option<f64>) -> Option<f64> {
    measured.filter(|measured| *measured > 0.0 && row.was_run())?;
    Some(ratio.unwrap_or(f64::INFINITY))
}

/// Sums up.
pub(super) fn summary(rows: &[MeasuredAgainst]) -> MeasuredSummary {
    let jobs: Vec<&MeasuredAgainst> = rows.iter().filter(|row| !row.total).collect();
    MeasuredSummary {
        schedulers: groups(&jobs, |row| row.scheduler.clone()),
        loads: groups(&jobs, |row| row.load.name().to_owned()),
        order_iops: order(&jobs, |row| (row.figures.iops_measured, row.figures.iops_predicted)),
        order_p99: order(&jobs, |row| (row.figures.p99_us_measured, row.figures.p99_us_predicted)),
    }
}

fn groups(rows: &[&MeasuredAgainst], name: impl Fn(&MeasuredAgainst) -> String) -> Vec<Group> {
    let mut found: Vec<(String, Vec<&MeasuredAgainst>)> = Vec::new();
    for row in rows {
        let own = name(row);
        match found.iter_mut().find(|(name, _)| *name == own) {
            Some((_, group)) => group.push(row),
            None => found.push((own, vec![row])),
        }
    }
    let one = |(name, group): (String, Vec<&MeasuredAgainst>)| Group {
        name,
        rows: group.len(),
        not_run: group.iter().filter(|row| !row.was_run()).count(),
        errors: RATIOS.iter().filter_map(|(name, ratio)| Some((*name, errors(&group, ratio)?))).collect(),
    };
    found.into_iter().map(one).collect()
}

fn errors(rows: &[&MeasuredAgainst], ratio: &dyn Fn(&MeasuredAgainst) -> Option<f64>) -> Option<Errors> {
    let known: Vec<(f64, &MeasuredAgainst)> = rows.iter().filter_map(|row| Some((ratio(row)?, *row))).collect();
    let mut sizes: Vec<f64> = known.iter().map(|(ratio, _)| (ratio - 1.0).abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let n = sizes.len();
    let share = |of: &dyn Fn(f64) -> bool| known.iter().filter(|(ratio, _)| of(*ratio)).count() as f64 / n as f64;
    let middle = *sizes.get(n / 2)?;
    let median = if n.is_multiple_of(2) { f64::midpoint(middle, sizes[n / 2 - 1]) } else { middle };
    let far = |ratio: f64| if ratio > 0.0 { ratio.ln().abs() } else { f64::INFINITY };
    let (worst_ratio, worst) = known.iter().max_by(|a, b| far(a.0).total_cmp(&far(b.0)))?;
    Some(Errors {
        rows: n,
        median,
        within_15: share(&|ratio| (ratio - 1.0).abs() <= 0.15),
        within_25: share(&|ratio| (ratio - 1.0).abs() <= 0.25),
        within_30: share(&|ratio| (ratio - 1.0).abs() <= 0.30),
        within_50: share(&|ratio| (ratio - 1.0).abs() <= 0.50),
        within_2x: share(&|ratio| (0.5..=2.0).contains(&ratio)),
        worst_ratio: *worst_ratio,
        worst: place(worst),
    })
}

fn place(row: &MeasuredAgainst) -> String {
    let parts = [&row.figure, &row.condition, &row.scheduler, &row.role];
    parts.into_iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(" ")
}

/// Pairs of schedulers with the same figure, condition and role.
fn order(rows: &[&MeasuredAgainst], values: impl Fn(&MeasuredAgainst) -> (Option<f64>, Option<f64>)) -> Order {
    let mut same: BTreeMap<[&str; 3], Vec<(f64, f64)>> = BTreeMap::new();
    for row in rows {
        if let (Some(measured), Some(predicted)) = values(row) {
            same.entry([&row.figure, &row.condition, &row.role]).or_default().push((measured, predicted));
        }
    }
    let mut found = Order::default();
    for group in same.values() {
        for (i, a) in group.iter().enumerate() {
            for b in &group[i + 1..] {
                let differ = |x: f64, y: f64| x.max(y) / x.min(y).max(f64::MIN_POSITIVE) - 1.0;
                if differ(a.0, b.0) < DIFFER {
                    continue;
                }
                found.pairs += 1;
                if differ(a.1, b.1) < TIE {
                    found.ties += 1;
                } else if (a.0 < b.0) == (a.1 < b.1) {
                    found.right += 1;
                }
            }
        }
    }
    found
}
