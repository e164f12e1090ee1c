//! Heat maps of the first run of each scheduler: latencies over time, and positions on the device over time.

use super::detail::Detail;
use super::figure::{Figure, Group, figure, log_axis};
use dumbwaiter_measure::TimeMap;
use serde_json::{Value, json};

/// The maps of the schedulers that rank highest, at most as many as `detail` has. `groups` are in the order of the ranking.
pub(super) fn heat_maps(groups: &[&Group], detail: &Detail) -> Vec<Figure> {
    let mut all = Vec::new();
    for group in groups.iter().take(detail.maps) {
        let Some(maps) = group.runs.iter().find_map(|run| run.maps.as_ref()) else { continue };
        let name = &group.look.scheduler;
        let (unit, us) = match maps.latency_us.bounds.first() {
            Some(least) if *least >= 500.0 => ("ms", 1e3),
            _ => ("µs", 1.0),
        };
        let latency = heat_map(group, &maps.latency_us, us, unit);
        let axis = log_axis(format!("latency, {unit} (log)"), std::slice::from_ref(&latency), "y");
        all.push(map_figure(
            format!("Latency heat map: {name}"),
            "I/Os by their latency and the time of their completion; darker is more. First run.",
            latency,
            axis,
        ));
        let (unit, mb) = match maps.position_mb.bounds.last() {
            Some(most) if *most >= 2000.0 => ("GB", 1e3),
            _ => ("MB", 1.0),
        };
        let seeks = heat_map(group, &maps.position_mb, mb, unit);
        let axis = json!({"title": {"text": format!("position on the device, {unit}")}});
        all.push(map_figure(
            format!("Seek map: {name}"),
            "Where on the device I/Os completed, over time; darker is more. First run.",
            seeks,
            axis,
        ));
    }
    all
}

fn map_figure(title: String, caption: &str, data: Value, yaxis: Value) -> Figure {
    let layout = json!({"xaxis": {"title": {"text": "time, s"}}, "yaxis": yaxis});
    figure(&title, caption.to_owned(), false, vec![data], layout)
}

/// Rows of `map` with bounds in units of `per`.
fn heat_map(group: &Group, map: &TimeMap, per: f64, unit: &str) -> Value {
    let rows = map.bounds.len().saturating_sub(1);
    let most = map.counts.iter().flatten().copied().max().unwrap_or(0);
    // An empty cell is transparent.
    let cell = |n: u32| if n == 0 { Value::Null } else { json!(n) };
    let row = |row: usize| map.counts.iter().map(|column| cell(column[row])).collect::<Vec<Value>>();
    json!({
        "type": "heatmap", "name": group.look.scheduler, "x0": map.start_s + map.interval_s / 2.0, "dx": map.interval_s,
        "y": map.bounds.iter().map(|bound| bound / per).collect::<Vec<f64>>(),
        "z": (0..rows).map(row).collect::<Vec<_>>(), "zmin": 0, "zmax": most.max(1), "showscale": false,
        "colorscale": colours(group.look.colour, most),
        "hoverongaps": false, "hovertemplate": format!("%{{x:.2f}} s, %{{y:.4g}} {unit}: %{{z}} I/Os<extra></extra>"),
    })
}

/// From a pale to the full colour, by the logarithm of the count: most cells hold few I/Os.
fn colours(colour: &str, most: u32) -> Vec<(f64, String)> {
    const STEPS: u32 = 6;
    let most = f64::from(most.max(2));
    let mut all = vec![(0.0, format!("{colour}30"))];
    for step in 0..=STEPS {
        let part = f64::from(step) / f64::from(STEPS);
        let at = if step == STEPS { 1.0 } else { most.powf(part) / most };
        all.push((at, format!("{colour}{:02x}", 0x30 + (f64::from(0xff - 0x30) * part) as u32)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_rise_from_0_to_1() {
        for most in [0, 1, 2, 1000] {
            let colours = colours("#0072b2", most);
            assert!(colours.windows(2).all(|w| w[0].0 <= w[1].0), "{colours:?}");
            assert_eq!((colours[0].0, colours.last().unwrap().0), (0.0, 1.0));
            assert_eq!(colours.last().unwrap().1, "#0072b2ff");
        }
    }
}
