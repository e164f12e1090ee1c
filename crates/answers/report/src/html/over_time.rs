//! Plots over time: for each scheduler the mean of its replicates, with their range as a band.

use super::detail::Detail;
use super::figure::{Figure, Group, figure, log_axis};
use dumbwaiter_measure::{RunResult, Series};
use serde_json::{Value, json};

/// A series that is plotted: title, label of the axis, unit, and values.
struct Plotted(&'static str, &'static str, &'static str, fn(&Series) -> &[f64]);

const PLOTTED: [Plotted; 5] = [
    Plotted("p99 latency over time", "p99 latency, ms (log)", "ms", |s| &s.p99_us),
    Plotted("IOPS over time", "I/Os per second", "IOPS", |s| &s.iops),
    Plotted("Bandwidth over time", "bandwidth, MB/s", "MB/s", |s| &s.mb_per_s),
    Plotted("Requests in the scheduler", "requests", "requests", |s| &s.depth_scheduler),
    Plotted("Requests in the device", "requests", "requests", |s| &s.depth_device),
];

impl Plotted {
    /// Latencies have a logarithmic axis, and of joined intervals the highest counts, otherwise their mean.
    fn is_latency(&self) -> bool {
        self.2 == "ms"
    }
}

/// The plots of all series.
pub(super) fn over_time(groups: &[Group], detail: &Detail) -> Vec<Figure> {
    PLOTTED.iter().map(|plotted| plot(plotted, groups, detail)).collect()
}

fn plot(plotted: &Plotted, groups: &[Group], detail: &Detail) -> Figure {
    let Plotted(title, axis, unit, _) = *plotted;
    let mut data = Vec::new();
    for group in groups {
        let Some(band) = Band::of(plotted, &group.runs, detail.points) else { continue };
        let trace = |y: &[f64]| {
            json!({
                "type": "scatter", "mode": "lines", "name": group.look.scheduler, "x0": band.start_s, "dx": band.step_s,
                "y": y, "line": {"width": 0}, "hoverinfo": "skip",
            })
        };
        if group.runs.len() > 1 {
            let mut highest = trace(&band.highest);
            highest["fill"] = json!("tonexty");
            highest["fillcolor"] = json!(format!("{}2e", group.look.colour));
            data.extend([trace(&band.lowest), highest]);
        }
        let mut mean = trace(&band.mean);
        mean["line"] = json!({"color": group.look.colour, "dash": group.look.dash, "width": 2});
        mean["hoverinfo"] = json!("all");
        mean["hovertemplate"] = json!(format!("%{{x:.2f}} s: %{{y:.4g}} {unit}"));
        data.push(mean);
    }
    let yaxis = match plotted.is_latency() {
        true => log_axis(axis.to_owned(), &data, "y"),
        false => json!({"title": {"text": axis}, "rangemode": "tozero"}),
    };
    let layout = json!({"xaxis": {"title": {"text": "time, s"}}, "yaxis": yaxis});
    let runs = groups.iter().map(|g| g.runs.len()).max().unwrap_or(0);
    let band = if runs > 1 { format!("Mean of {runs} runs; the band is their range.") } else { "One run.".to_owned() };
    figure(title, band, true, data, layout)
}

/// Replicates of a series, in intervals of the same times.
#[derive(Debug, PartialEq)]
struct Band {
    start_s: f64,
    step_s: f64,
    lowest: Vec<f64>,
    mean: Vec<f64>,
    highest: Vec<f64>,
}

impl Band {
    /// At most `points` of them; `None` without any figure.
    fn of(plotted: &Plotted, runs: &[&RunResult], points: usize) -> Option<Band> {
        // Replicates may end at different times.
        let length = runs.iter().map(|run| (plotted.3)(&run.series).len()).max()?;
        let first = &runs.first()?.series;
        let joined = length.div_ceil(points.max(1)).max(1);
        let scale = if plotted.is_latency() { 1e-3 } else { 1.0 };
        let of_run = |run: &RunResult, at: usize| {
            let values = (plotted.3)(&run.series);
            let part = &values[values.len().min(at)..values.len().min(at + joined)];
            let known = || part.iter().filter(|v| v.is_finite()).map(|v| v * scale);
            match (known().count(), plotted.is_latency()) {
                (0, _) => None,
                (_, true) => Some(known().fold(0.0, f64::max)),
                (n, false) => Some(known().sum::<f64>() / n as f64),
            }
        };
        let mut band = Band {
            start_s: *first.times.first()?,
            step_s: first.interval_s * joined as f64,
            lowest: Vec::new(),
            mean: Vec::new(),
            highest: Vec::new(),
        };
        for at in (0..length).step_by(joined) {
            let values: Vec<f64> = runs.iter().filter_map(|run| of_run(run, at)).collect();
            let known = !values.is_empty();
            let or_none = |value: f64| if known { value } else { f64::NAN };
            band.lowest.push(or_none(values.iter().copied().fold(f64::INFINITY, f64::min)));
            band.mean.push(or_none(values.iter().sum::<f64>() / values.len() as f64));
            band.highest.push(or_none(values.iter().copied().fold(0.0, f64::max)));
        }
        Some(band)
    }
}

/// Whether a plot shows nothing: no value, or only zeroes.
pub(super) fn is_empty(figure: &Figure) -> bool {
    let any = |value: &Value| -> bool {
        fn nonzero(value: &Value) -> bool {
            match value {
                Value::Array(values) => values.iter().any(nonzero),
                other => other.as_f64().is_some_and(|v| v != 0.0),
            }
        }
        nonzero(value)
    };
    let traces = figure.spec["data"].as_array().map_or(&[][..], Vec::as_slice);
    // A lying bar has its value in `x`; its `y` holds names.
    !traces.iter().any(|trace| any(&trace["z"]) || any(&trace["y"]) || trace["orientation"] == "h" && any(&trace["x"]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn the_band_is_the_range_of_the_replicates_and_joins_intervals() {
        let mut runs = sample::runs(1, 2);
        runs.truncate(2);
        for (run, p99) in runs.iter_mut().zip([[1000.0, 3000.0, f64::NAN], [2000.0, 1000.0, 5000.0]]) {
            run.series.p99_us = p99.to_vec();
        }
        let runs: Vec<&RunResult> = runs.iter().collect();
        let band = Band::of(&PLOTTED[0], &runs, 100).unwrap();
        assert_eq!((band.lowest, band.highest), (vec![1.0, 1.0, 5.0], vec![2.0, 3.0, 5.0]));
        assert_eq!(band.mean, [1.5, 2.0, 5.0]);
        let joined = Band::of(&PLOTTED[0], &runs, 2).unwrap();
        assert_eq!((joined.mean, joined.step_s), (vec![2.5, 5.0], 2.0 * runs[0].series.interval_s));
    }

    #[test]
    fn a_plot_of_zeroes_is_empty() {
        let of = |data: Value| Figure {
            title: String::new(),
            caption: String::new(),
            wide: false,
            spec: json!({"data": data}),
        };
        assert!(is_empty(&of(json!([]))));
        assert!(is_empty(&of(json!([{"y": [0, null, 0.0]}, {"z": [[null]]}]))));
        assert!(is_empty(&of(json!([{"x": [1], "y": [0]}]))));
        assert!(!is_empty(&of(json!([{"x": [1], "y": ["bfq"], "orientation": "h"}]))));
        assert!(!is_empty(&of(json!([{"z": [[null], [3]]}]))));
    }
}
