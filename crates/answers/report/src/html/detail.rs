//! How much a page shows, so that it stays small: a browser opens it at once, and it can be attached to an issue.

use dumbwaiter_advise::Document;
use serde_json::{Value, json};

/// Most bytes of a page.
pub(super) const PAGE_BYTES_MAX: usize = 3_000_000;
/// Most bytes of the plots of a page. The plotting library has 1.4 MB.
const PLOTS_BYTES_MAX: usize = 900_000;
/// Digits of a plotted value: a screen shows no more.
const DIGITS: usize = 4;

/// Data of a device's plots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Detail {
    /// Points of a line over time.
    pub(super) points: usize,
    /// Schedulers with heat maps.
    pub(super) maps: usize,
    /// Distributions and series, and not just one value for each scheduler.
    pub(super) lines: bool,
    /// Any plot.
    pub(super) plots: bool,
}

const LEVELS: [Detail; 5] = [
    Detail { points: 240, maps: 6, lines: true, plots: true },
    Detail { points: 120, maps: 2, lines: true, plots: true },
    Detail { points: 60, maps: 0, lines: true, plots: true },
    Detail { points: 0, maps: 0, lines: false, plots: true },
    Detail { points: 0, maps: 0, lines: false, plots: false },
];

/// The first of the levels whose plots are small enough, with what `make` makes of it. `make` returns its size in bytes.
pub(super) fn fitting<T>(make: impl Fn(&Detail) -> (T, usize)) -> T {
    let [first, rest @ ..] = LEVELS;
    let (mut made, mut bytes) = make(&first);
    for level in rest {
        if bytes <= PLOTS_BYTES_MAX {
            break;
        }
        (made, bytes) = make(&level);
    }
    made
}

/// The results as a page holds them in at most `bytes`, and what was left out of them.
pub(super) fn results(document: &Document, bytes: usize) -> (String, Option<&'static str>) {
    let text = |document: &Document| serde_json::to_string(document).ok().filter(|text| text.len() <= bytes);
    if let Some(whole) = text(document) {
        return (whole, None);
    }
    let mut thin = document.clone();
    thin.runs.iter_mut().for_each(|run| run.maps = None);
    if let Some(thin) = text(&thin) {
        return (thin, Some("without heat maps, which --json FILE writes"));
    }
    for run in &mut thin.runs {
        run.latency_cdf = Default::default();
        for values in [
            &mut run.series.times,
            &mut run.series.mb_per_s,
            &mut run.series.iops,
            &mut run.series.p99_us,
            &mut run.series.pv,
            &mut run.series.depth_scheduler,
            &mut run.series.depth_device,
        ] {
            values.clear();
        }
        run.series.tenants.clear();
        run.tasks_omitted += run.tasks.len() as u64;
        run.tasks.clear();
    }
    if let Some(thin) = text(&thin) {
        return (thin, Some("without series, distributions and tasks, which --json FILE writes"));
    }
    let short = json!({
        "schema": thin.schema, "provenance": thin.provenance, "verdict": thin.verdict, "notes": thin.notes,
        "suite": thin.suite,
    });
    (short.to_string(), Some("the verdicts only; --json FILE writes all"))
}

/// Rounds the numbers of plotted arrays.
pub(super) fn round(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(round),
        Value::Number(number) if number.is_f64() => {
            let short = number.as_f64().and_then(|v| format!("{v:.*e}", DIGITS - 1).parse::<f64>().ok());
            // Whole numbers without a decimal point are shorter still.
            *value = match short {
                Some(v) if v.fract() == 0.0 && v.abs() < 1e15 => json!(v as i64),
                Some(v) => json!(v),
                None => Value::Null,
            };
        }
        Value::Object(map) => {
            for (key, value) in map {
                if matches!(key.as_str(), "x" | "y" | "z" | "array" | "arrayminus" | "error_x" | "error_y") {
                    round(value);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plotted_values_are_rounded_and_positions_of_axes_are_not() {
        let mut spec = json!({"type": "scatter", "x0": 1.23456789, "y": [1.23456789, 123456.7, null, 20.0], "error_y": {"array": [0.000123456]}});
        round(&mut spec);
        let expected = json!({"type": "scatter", "x0": 1.23456789, "y": [1.235, 123500, null, 20], "error_y": {"array": [0.0001235]}});
        assert_eq!(spec, expected);
    }

    #[test]
    fn the_first_level_that_fits_is_used() {
        let sizes = |limit: usize| fitting(|d| (*d, if d.points > limit { PLOTS_BYTES_MAX + 1 } else { 10 }));
        assert_eq!(sizes(1000), LEVELS[0]);
        assert_eq!(sizes(60), LEVELS[2]);
        assert_eq!(fitting(|d| (*d, usize::MAX)), LEVELS[4]);
    }
}
