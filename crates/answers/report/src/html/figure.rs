//! Parts of every plot: the runs of a scheduler, a caption, logarithmic axes.

use super::palette::Look;
use dumbwaiter_advise::independent;
use dumbwaiter_measure::{RunResult, Sample};
use serde::Serialize;
use serde_json::{Value, json};

/// A plot with its caption.
#[derive(Debug, Serialize)]
pub(super) struct Figure {
    pub(super) title: String,
    pub(super) caption: String,
    /// Whether it takes the whole width.
    pub(super) wide: bool,
    /// `{data, layout}` for Plotly.
    pub(super) spec: Value,
}

/// The runs of one scheduler on the device, and its line style.
pub(super) struct Group<'a> {
    pub(super) look: &'a Look,
    pub(super) runs: Vec<&'a RunResult>,
}

impl Group<'_> {
    /// Mean with the lengths of its error bar.
    pub(super) fn mean(&self, figure: impl Fn(&RunResult) -> f64) -> Mean {
        let values: Vec<f64> = independent(&self.runs).iter().map(|r| figure(r)).collect();
        let sample = Sample::of(&values);
        let [low, high] = sample.interval95().unwrap_or([f64::NAN; 2]);
        Mean { value: sample.mean, below: sample.mean - low, above: high - sample.mean }
    }
}

/// A mean with the lengths of its error bar, which is the 95 % confidence interval; NaN is null in JSON.
#[derive(Clone, Copy)]
pub(super) struct Mean {
    pub(super) value: f64,
    pub(super) below: f64,
    pub(super) above: f64,
}

pub(super) fn figure(title: &str, caption: String, wide: bool, data: Vec<Value>, layout: Value) -> Figure {
    Figure { title: title.to_owned(), caption, wide, spec: json!({"data": data, "layout": layout}) }
}

/// A logarithmic axis for the values that `data` has on `axis`: labels at powers of ten, and at 2 and 5
/// between them where there would be too few.
pub(super) fn log_axis(title: String, data: &[Value], axis: &str) -> Value {
    let values =
        || data.iter().filter_map(|t| t[axis].as_array()).flatten().filter_map(Value::as_f64).filter(|v| *v > 0.0);
    let (least, most) = values().fold((f64::INFINITY, 0.0f64), |(a, b), v| (a.min(v), b.max(v)));
    let steps: &[f64] = if most > least * 300.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let mut ticks = Vec::new();
    let mut decade = 1e-9;
    while decade <= most * 10.0 {
        ticks.extend(steps.iter().map(|s| s * decade).filter(|t| *t >= least / 10.0));
        decade *= 10.0;
    }
    let plain =
        |t: &f64| if *t >= 1.0 { format!("{t:.0}") } else { format!("{t:.9}").trim_end_matches('0').to_string() };
    let text: Vec<String> = ticks.iter().map(plain).collect();
    json!({
        "type": "log", "title": {"text": title}, "tickmode": "array", "tickvals": ticks, "ticktext": text,
        "minor": {"dtick": "D1"},
    })
}

/// Names for a vertical axis, first scheduler on top.
pub(super) fn names(groups: &[Group]) -> Value {
    json!({
        "type": "category", "autorange": "reversed", "automargin": true,
        "categoryarray": groups.iter().map(|g| g.look.scheduler.as_str()).collect::<Vec<_>>(),
    })
}
