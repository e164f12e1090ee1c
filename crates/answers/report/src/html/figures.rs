//! The plots of one device as Plotly JSON. The page sets the colours of axes and text for its light or dark theme.

use super::detail::{Detail, round};
use super::figure::{Figure, Group, Mean, figure, log_axis, names};
use super::heat_maps::heat_maps;
use super::over_time::{is_empty, over_time};
use super::palette::Look;
use super::time_parts::time_parts;
use dumbwaiter_advise::{Ranking, RankingRow};
use dumbwaiter_measure::{Cdf, Latency, RunResult};
use serde_json::{Value, json};

/// Error bars of a trace.
fn error_bars(means: &[Mean], width: u32) -> Value {
    let (above, below): (Vec<f64>, Vec<f64>) = means.iter().map(|m| (m.above, m.below)).unzip();
    json!({
        "type": "data", "symmetric": false, "array": above, "arrayminus": below, "thickness": 1, "width": width,
    })
}

/// The values of a trace.
fn values(means: &[Mean]) -> Vec<f64> {
    means.iter().map(|m| m.value).collect()
}

/// The requests of a latency plot.
struct OpKind {
    name: &'static str,
    title: &'static str,
    latency: fn(&RunResult) -> &Latency,
    cdf: fn(&RunResult) -> &Cdf,
}

const READS: OpKind =
    OpKind { name: "reads", title: "Latency of reads", latency: |r| &r.read.latency_us, cdf: |r| &r.latency_cdf.read };
const WRITES: OpKind = OpKind {
    name: "writes",
    title: "Latency of writes",
    latency: |r| &r.write.latency_us,
    cdf: |r| &r.latency_cdf.write,
};
const ALL: OpKind =
    OpKind { name: "all requests", title: "Latency", latency: |r| &r.latency_us, cdf: |r| &r.latency_cdf.all };

/// The unit of time of an axis, from its shortest typical latency: name and length in us.
fn unit(groups: &[Group], figure: impl Fn(&RunResult) -> f64) -> (&'static str, f64) {
    let least = groups.iter().map(|g| g.mean(&figure).value).filter(|v| !v.is_nan()).fold(f64::INFINITY, f64::min);
    if least >= 500.0 { ("ms", 1e3) } else { ("µs", 1.0) }
}

/// The plots of a device, in the order of the page. Empty ones are left out.
pub(super) fn figures(groups: &[Group], ranking: &Ranking, detail: &Detail) -> Vec<Figure> {
    if !detail.plots || groups.is_empty() {
        return Vec::new();
    }
    let runs = || groups.iter().flat_map(|g| &g.runs);
    let of = match groups.iter().map(|g| g.runs.len()).max().unwrap_or(0) {
        1 => "One run of each scheduler.".to_string(),
        n => format!("Mean of {n} runs of each scheduler; error bars are 95 % confidence intervals of the mean."),
    };
    let (reads, writes) = (runs().any(|r| r.read.count > 0), runs().any(|r| r.write.count > 0));
    let mut kinds: Vec<&OpKind> =
        [(reads, &READS), (writes, &WRITES)].into_iter().filter(|k| k.0).map(|k| k.1).collect();
    if kinds.is_empty() {
        kinds.push(&ALL);
    }
    let mut all: Vec<Figure> = kinds.iter().map(|kind| percentiles(groups, kind, kinds.len() == 1, &of)).collect();
    if detail.lines {
        all.push(distribution(groups, kinds[0], &of));
        all.push(tail(groups, kinds[0], &of));
        all.extend(over_time(groups, detail));
        all.extend(heat_maps(&by_rank(groups, ranking), detail));
    }
    let tenants = runs().next().map_or(0, |r| r.tenants.iter().filter(|t| t.ideal_share > 0.0).count());
    if tenants > 1 {
        all.push(shares(groups, &of));
        all.push(tenant_tails(groups, ranking, &of));
    }
    // What the text says of it stands first.
    match time_parts(groups, &ranking.focus) {
        Some(figure) => all.insert(0, figure),
        None => all.push(time_in_queue(groups, &of)),
    }
    if runs().any(|r| r.cpu.busy_s > 0.0) {
        all.push(cpu(groups, &of));
    }
    all.retain(|figure| !is_empty(figure));
    all.iter_mut().for_each(|figure| round(&mut figure.spec["data"]));
    all
}

/// Groups in the order of the ranking.
fn by_rank<'a, 'b>(groups: &'b [Group<'a>], ranking: &Ranking) -> Vec<&'b Group<'a>> {
    let configuration = |row: &RankingRow| (row.scheduler.clone(), row.via.clone(), row.completion.clone());
    let rank = |group: &Group| {
        let (scheduler, via, completion) = group.runs[0].configuration();
        let own = (scheduler.to_owned(), via.to_owned(), completion.to_owned());
        ranking.rows.iter().position(|row| configuration(row) == own).unwrap_or(usize::MAX)
    };
    let mut sorted: Vec<&Group> = groups.iter().collect();
    sorted.sort_by_key(|group| rank(group));
    sorted
}

/// A line of one scheduler.
fn line(look: &Look, x: Value, y: Value, hover: String) -> Value {
    json!({
        "type": "scatter", "mode": "lines", "name": look.scheduler, "x": x, "y": y,
        "line": {"color": look.colour, "dash": look.dash, "width": 2}, "hovertemplate": hover,
    })
}

fn percentiles(groups: &[Group], kind: &OpKind, wide: bool, of: &str) -> Figure {
    let (unit, us) = unit(groups, |r| (kind.latency)(r).p50);
    let names = Latency::PERCENTILES.map(|(name, ..)| name);
    let trace = |g: &Group| {
        let means: Vec<Mean> =
            Latency::PERCENTILES.iter().map(|(.., get)| g.mean(|r| get((kind.latency)(r)) / us)).collect();
        let hover = format!("%{{x}}: %{{y:.4g}} {unit}");
        let mut trace = line(g.look, json!(names), json!(values(&means)), hover);
        trace["mode"] = json!("lines+markers");
        trace["marker"] = json!({"symbol": g.look.marker, "size": 7});
        trace["error_y"] = error_bars(&means, 3);
        trace
    };
    let data: Vec<Value> = groups.iter().map(trace).collect();
    let layout = json!({
        "xaxis": {"title": {"text": format!("percentile of {}", kind.name)}, "type": "category"},
        "yaxis": log_axis(format!("latency, {unit} (log)"), &data, "y"),
    });
    figure(kind.title, format!("From submission to completion. {of}"), wide, data, layout)
}

/// The mean of the distributions of several runs, thinned like each of them.
fn pooled(cdfs: &[&Cdf]) -> (Vec<f64>, Vec<f64>) {
    let mut at: Vec<f64> = cdfs.iter().flat_map(|c| c.us.iter().copied()).collect();
    at.sort_by(f64::total_cmp);
    at.dedup();
    let mut next = vec![0usize; cdfs.len()];
    let (mut us, mut fraction) = (Vec::new(), Vec::new());
    let mut kept = 0.0;
    for x in &at {
        let mut sum = 0.0;
        for (cdf, next) in cdfs.iter().zip(&mut next) {
            while *next < cdf.us.len() && cdf.us[*next] <= *x {
                *next += 1;
            }
            sum += if *next > 0 { cdf.fraction[*next - 1] } else { 0.0 };
        }
        let f = sum / cdfs.len() as f64;
        if f - kept >= 0.01 || 1.0 - f <= (1.0 - kept) * 0.8 || us.is_empty() {
            us.push(*x);
            fraction.push(f);
            kept = f;
        }
    }
    (us, fraction)
}

/// A line per scheduler of its pooled distribution, each fraction as `y` makes it.
fn distributions(groups: &[Group], kind: &OpKind, us: f64, hover: &str, y: impl Fn(f64) -> Option<f64>) -> Vec<Value> {
    let trace = |g: &Group| {
        let cdfs: Vec<&Cdf> = g.runs.iter().map(|r| (kind.cdf)(r)).filter(|c| !c.us.is_empty()).collect();
        let (x, fraction) = pooled(&cdfs);
        let points: Vec<(f64, f64)> = x.iter().zip(fraction).filter_map(|(x, f)| Some((x / us, y(f)?))).collect();
        let x: Vec<f64> = points.iter().map(|p| p.0).collect();
        let y: Vec<f64> = points.iter().map(|p| p.1).collect();
        line(g.look, json!(x), json!(y), hover.to_string())
    };
    groups.iter().map(trace).collect()
}

/// A caption for a plot without error bars.
fn without_bars(of: &str) -> String {
    of.split_once(';').map_or(of.to_string(), |(runs, _)| format!("{runs}."))
}

fn distribution(groups: &[Group], kind: &OpKind, of: &str) -> Figure {
    let (unit, us) = unit(groups, |r| (kind.latency)(r).p50);
    let hover = format!("%{{y:.1f}} % within %{{x:.4g}} {unit}");
    let data = distributions(groups, kind, us, &hover, |f| Some(f * 100.0));
    let layout = json!({
        "xaxis": log_axis(format!("latency of {}, {unit} (log)", kind.name), &data, "x"),
        "yaxis": {"title": {"text": "finished within, %"}, "range": [0, 101]},
    });
    let caption = format!("Cumulative distribution: further left is faster. {}", without_bars(of));
    figure("Latency distribution", caption, false, data, layout)
}

fn tail(groups: &[Group], kind: &OpKind, of: &str) -> Figure {
    let (unit, us) = unit(groups, |r| (kind.latency)(r).p50);
    let hover = format!("%{{y:.3g}} % take longer than %{{x:.4g}} {unit}");
    let data = distributions(groups, kind, us, &hover, |f| (f < 1.0).then_some((1.0 - f) * 100.0));
    let layout = json!({
        "xaxis": log_axis(format!("latency of {}, {unit} (log)", kind.name), &data, "x"),
        "yaxis": log_axis("take longer, % (log)".to_string(), &data, "y"),
    });
    let caption = format!("Complementary distribution: lower is better. {}", without_bars(of));
    figure("Latency tail", caption, false, data, layout)
}

fn shares(groups: &[Group], of: &str) -> Figure {
    let first = &groups[0].runs[0].tenants;
    let names: Vec<String> = first.iter().map(|t| format!("{}<br>weight {}", t.name, t.weight)).collect();
    let mut data: Vec<Value> = groups
        .iter()
        .map(|g| {
            let share = |i: usize| g.mean(|r| r.tenants.get(i).map_or(f64::NAN, |t| t.share * 100.0));
            let means: Vec<Mean> = (0..first.len()).map(share).collect();
            json!({
                "type": "bar", "name": g.look.scheduler, "x": names, "y": values(&means),
                "marker": {"color": g.look.colour}, "error_y": error_bars(&means, 2),
                "hovertemplate": "%{x}: %{y:.1f} %",
            })
        })
        .collect();
    let ideal: Vec<f64> = first.iter().map(|t| t.ideal_share * 100.0).collect();
    data.push(json!({
        "type": "scatter", "mode": "markers", "name": "by weight", "x": names, "y": ideal, "meta": "text-colour",
        "marker": {"symbol": "line-ew-open", "size": 44, "line": {"width": 2}},
        "hovertemplate": "%{x}: %{y:.1f} % by weight",
    }));
    let layout = json!({
        "xaxis": {"type": "category"},
        "yaxis": {"title": {"text": "share of the data moved, %"}, "rangemode": "tozero"},
        "barmode": "group",
    });
    figure(
        "Share of each tenant",
        format!("The line across each bar is the share due by weight. {of}"),
        false,
        data,
        layout,
    )
}

fn tenant_tails(groups: &[Group], ranking: &Ranking, of: &str) -> Figure {
    let first = &groups[0].runs[0].tenants;
    let (unit, us) = unit(groups, |r| r.latency_us.p50);
    let names: Vec<&str> = first.iter().map(|t| t.name.as_str()).collect();
    let trace = |g: &Group| {
        let p99 = |i: usize| g.mean(|r| r.tenants.get(i).map_or(f64::NAN, |t| t.latency_us.p99 / us));
        let means: Vec<Mean> = (0..first.len()).map(p99).collect();
        json!({
            "type": "scatter", "mode": "markers", "name": g.look.scheduler, "x": names, "y": values(&means),
            "marker": {"color": g.look.colour, "symbol": g.look.marker, "size": 9},
            "error_y": error_bars(&means, 2),
            "hovertemplate": format!("%{{x}}: %{{y:.4g}} {unit}"),
        })
    };
    let data: Vec<Value> = groups.iter().map(trace).collect();
    let layout = json!({
        "xaxis": {"type": "category"},
        "yaxis": log_axis(format!("p99 latency, {unit} (log)"), &data, "y"),
        "scattermode": "group",
    });
    let caption = format!("The recommendation looks at {}. {of}", ranking.focus.name());
    figure("p99 latency of each tenant", caption, false, data, layout)
}

fn bar(g: &Group, x: f64, error: Mean, hover: String) -> Value {
    json!({
        "type": "bar", "orientation": "h", "name": g.look.scheduler, "x": [x], "y": [g.look.scheduler],
        "marker": {"color": g.look.colour}, "hovertemplate": hover, "error_x": error_bars(&[error], 3),
    })
}

fn time_in_queue(groups: &[Group], of: &str) -> Figure {
    let (unit, us) = unit(groups, |r| r.phases_us.device.mean);
    let mut data = Vec::new();
    for g in groups {
        let queue = g.mean(|r| r.phases_us.queue.mean / us).value;
        let device = g.mean(|r| r.phases_us.device.mean / us).value;
        let total = g.mean(|r| r.latency_us.mean / us);
        let rest = (total.value - queue - device).max(0.0);
        let parts =
            [("in the scheduler", queue, 1.0, ""), ("in the device", device, 0.55, "/"), ("elsewhere", rest, 0.3, ".")];
        for (name, x, opacity, pattern) in parts {
            let mut trace = bar(g, x, total, format!("{name}: %{{x:.4g}} {unit}"));
            trace["marker"]["opacity"] = json!(opacity);
            trace["marker"]["pattern"] = json!({"shape": pattern, "solidity": 0.25});
            if name != "elsewhere" {
                trace["error_x"]["visible"] = json!(false);
            }
            data.push(trace);
        }
    }
    let layout = json!({
        "xaxis": {"title": {"text": format!("mean time of a request, {unit}")}, "rangemode": "tozero"},
        "yaxis": names(groups), "barmode": "stack",
    });
    let caption =
        format!("Plain: waiting in the scheduler; striped: in the device; dotted: plugged, or finishing. {of}");
    figure("Where the time goes", caption, false, data, layout)
}

fn cpu(groups: &[Group], of: &str) -> Figure {
    let data = groups.iter().map(|g| {
        let mean = g.mean(|r| r.cpu.us_per_io);
        bar(g, mean.value, mean, "%{x:.3g} µs".to_string())
    });
    let layout = json!({
        "xaxis": {"title": {"text": "CPU time per I/O, µs"}, "rangemode": "tozero"},
        "yaxis": names(groups),
    });
    figure("CPU time", format!("Submission, scheduler and completion. {of}"), false, data.collect(), layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_axes_have_enough_labels() {
        let trace = |y: &[f64]| vec![json!({"y": y})];
        let narrow = log_axis(String::new(), &trace(&[30.0, 400.0]), "y");
        assert!(narrow["ticktext"].as_array().unwrap().contains(&json!("200")), "{narrow}");
        let broad = log_axis(String::new(), &trace(&[0.01, 100.0]), "y");
        let text = broad["ticktext"].as_array().unwrap();
        assert!(
            text.contains(&json!("0.01")) && text.contains(&json!("100")) && !text.contains(&json!("50")),
            "{text:?}"
        );
        assert!(log_axis(String::new(), &[], "y")["tickvals"].as_array().unwrap().is_empty());
    }

    #[test]
    fn pooling_runs_averages_their_distributions() {
        // At 10 us one run has completed half, the other none; at 20 us all and half; at 40 us all.
        let a = Cdf { us: vec![10.0, 20.0], fraction: vec![0.5, 1.0] };
        let b = Cdf { us: vec![20.0, 40.0], fraction: vec![0.5, 1.0] };
        assert_eq!(pooled(&[&a, &b]), (vec![10.0, 20.0, 40.0], vec![0.25, 0.75, 1.0]));
        assert_eq!(pooled(&[]), (vec![], vec![]));
    }
}
