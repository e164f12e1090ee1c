//! Where the time goes: one bar a scheduler, of the parts that add up to the mean latency of those whose latency counts.

use dumbwaiter_advise::Focus;
use serde_json::{Value, json};

use super::figure::{Figure, Group, figure, names};
use super::palette::COLOURS;

/// Parts that are smaller than this part of the longest bar are drawn without their name.
const NAMED_FROM: f64 = 0.08;
const PATTERNS: [&str; 2] = ["", "/"];

/// `None` where the runs do not say it.
pub(super) fn time_parts(groups: &[Group], focus: &Focus) -> Option<Figure> {
    let all: Vec<_> = groups.iter().map(|group| focus.time_parts(&group.runs)).collect::<Option<_>>()?;
    let sum = |parts: &[(&str, f64)]| parts.iter().map(|(_, us)| us).filter(|us| us.is_finite()).sum::<f64>();
    let longest = all.iter().map(|parts| sum(parts)).fold(0.0, f64::max);
    let shortest = all.iter().map(|parts| sum(parts)).fold(f64::INFINITY, f64::min);
    let (unit, us_of_unit) = if shortest >= 500.0 { ("ms", 1e3) } else { ("µs", 1.0) };
    let mut data: Vec<Value> = Vec::new();
    for (group, parts) in groups.iter().zip(&all) {
        for (i, (name, us)) in parts.iter().enumerate().filter(|(_, (_, us))| *us > 0.0) {
            let text = if *us >= NAMED_FROM * longest { *name } else { "" };
            data.push(json!({
                "type": "bar", "orientation": "h", "name": group.look.scheduler, "x": [us / us_of_unit],
                "y": [group.look.scheduler], "text": [text], "textposition": "inside", "insidetextanchor": "middle",
                "marker": {
                    "color": COLOURS[i % COLOURS.len()],
                    "pattern": {"shape": PATTERNS[i / COLOURS.len() % PATTERNS.len()], "solidity": 0.25},
                },
                "hovertemplate": format!("{name}: %{{x:.4g}} {unit}"),
            }));
        }
    }
    let layout = json!({
        "xaxis": {"title": {"text": format!("mean latency of {}, {unit}", focus.name())}, "rangemode": "tozero"},
        "yaxis": names(groups), "barmode": "stack",
    });
    let caption = "The parts add up to the mean latency; point at one for its name.".to_owned();
    Some(figure("Where the time goes", caption, true, data, layout))
}

#[cfg(test)]
mod tests {
    use super::super::palette::look;
    use super::*;
    use crate::sample;

    #[test]
    fn the_parts_of_each_bar_add_up_to_the_mean_latency() {
        let mut runs = sample::runs(2, 1);
        let device = runs[0].device.clone();
        runs.retain(|run| run.device == device);
        let looks: Vec<_> = runs.iter().enumerate().map(|(i, run)| look(i, &run.scheduler)).collect();
        let groups: Vec<Group> = runs.iter().zip(&looks).map(|(run, look)| Group { look, runs: vec![run] }).collect();
        let drawn = time_parts(&groups, &Focus::All).expect("the runs say where their time goes");
        for group in &groups {
            let own = drawn.spec["data"].as_array().unwrap().iter();
            let own = own.filter(|bar| bar["y"][0] == group.look.scheduler.as_str());
            let sum: f64 = own.map(|bar| bar["x"][0].as_f64().unwrap()).sum();
            let mean = group.runs[0].time_parts_us.unwrap().named().iter().map(|(_, us)| us).sum::<f64>();
            let in_ms = (sum * 1e3 / mean - 1.0).abs() < 1e-6;
            assert!(in_ms || (sum / mean - 1.0).abs() < 1e-6, "{sum} of {mean} us");
        }
    }
}
