//! Device models: the list, and their validation.

use dumbwaiter_devices::validate::{Check, four_digits};
use dumbwaiter_devices::{Facts, ModelInfo};
use dumbwaiter_report::{Align, Style, table};

/// The built-in models, one row each.
pub fn devices_text(models: &[(&ModelInfo, Facts)], style: Style) -> String {
    let row = |(info, facts): &(&ModelInfo, Facts)| {
        vec![
            info.name.to_owned(),
            info.about.to_owned(),
            format!("{:.0} GB", facts.capacity_sectors as f64 * 512.0 / 1e9),
            facts.depth.to_string(),
            facts.queues.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = models.iter().map(row).collect();
    let header = [
        ("device", Align::Left),
        ("what it models", Align::Left),
        ("size", Align::Right),
        ("depth", Align::Right),
        ("queues", Align::Right),
    ];
    table(&header, &rows, style)
        + "\nOverride parameters after a `?`: hdd:st1000dm003?ncq_depth=4. `--show NAME` prints a parameter file to copy.\n"
}

/// The figures of a model beside their targets.
pub fn checks_text(checks: &[Check], style: Style) -> String {
    let rows: Vec<Vec<String>> = checks
        .iter()
        .map(|c| {
            vec![
                if c.ok { "ok" } else { "MISSED" }.to_owned(),
                c.measurement.clone(),
                format!("{} {}", c.target, c.unit),
                four_digits(c.model),
                c.tolerance.clone(),
                format!("{} [{}]", c.source, c.grade),
            ]
        })
        .collect();
    let header = [
        ("", Align::Left),
        ("measurement", Align::Left),
        ("target", Align::Right),
        ("model", Align::Right),
        ("tolerance", Align::Right),
        ("source", Align::Left),
    ];
    table(&header, &rows, style)
}
