//! The pilot: its state, and replays of traces.

use dumbwaiter_pilot::ReplaySummary;
use dumbwaiter_report::{Align, Style, table};
use serde_json::Value;

/// A running pilot's answer to `status`: a row for each disk.
pub fn pilot_status_text(answer: &Value, style: Style) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let header = [
        ("device", Align::Left),
        ("state", Align::Left),
        ("scheduler", Align::Left),
        ("advice", Align::Left),
        ("load", Align::Left),
        ("IOPS", Align::Right),
        ("exchanges", Align::Right),
    ];
    let devices = answer["devices"].as_array().into_iter().flatten();
    let rows: Vec<Vec<String>> = devices
        .map(|device| {
            let last = &device["last_decision"];
            vec![
                text(&device["device"]),
                text(&device["state"]),
                text(&device["scheduler"]),
                text(&device["advice"]),
                text(&last["class"]["name"]),
                format!("{:.0}", last["measured"]["iops"].as_f64().unwrap_or(0.0)),
                device["counts"]["exchanges"].to_string(),
            ]
        })
        .collect();
    let mode = if answer["mode"] == "act" { "changes settings" } else { "only advises" };
    format!("process {} {mode}\n{}", answer["pid"], table(&header, &rows, style))
}

/// The pilot's advice during a trace.
pub fn replay_text(summary: &ReplaySummary) -> String {
    let mut out = format!(
        "{} requests in {:.1} s: {} decisions, {} switches advised, {} workloads\n",
        summary.requests, summary.seconds, summary.decisions, summary.switches, summary.workloads
    );
    for (candidate, seconds) in &summary.seconds_by_candidate {
        out += &format!("{candidate:>24} {seconds:10.1} s\n");
    }
    out
}
