//! `devices`: the models, their parameter files, and how they hold against data sheets.

use anyhow::{Result, bail};
use dumbwaiter_devices::validate::{self, Check};
use dumbwaiter_devices::{load, models};
use dumbwaiter_report::{Align, table};

use dumbwaiter_sim::validate::host_expectations;

use crate::args::Devices;
use crate::{Ended, output};

/// Prints the list, a parameter file, a validation or a fit.
pub(crate) fn run(args: &Devices) -> Result<Ended> {
    if let Some(subject) = &args.fit {
        return crate::fit::run(args, subject);
    }
    if let Some(name) = &args.show {
        let model = load(name)?;
        let Some(built_in) = models().iter().find(|m| m.name == model.name()) else {
            bail!("--show {name}: expected the name of a built-in device: {}", names().join(", "));
        };
        output::print(built_in.toml)?;
        return Ok(Ended::Done);
    }
    if let Some(name) = &args.validate {
        return validate_models(args, name);
    }
    if let Some(path) = &args.json {
        let list: Vec<_> = models().iter().map(|m| load(m.name)).collect::<Result<_, _>>()?;
        output::write_json(path, &list)?;
        return Ok(Ended::Done);
    }
    let mut rows = Vec::new();
    for info in models() {
        let facts = load(info.name)?.facts();
        rows.push(vec![
            info.name.to_owned(),
            info.about.to_owned(),
            format!("{:.0} GB", facts.capacity_sectors as f64 * 512.0 / 1e9),
            facts.depth.to_string(),
            facts.queues.to_string(),
        ]);
    }
    let header = [
        ("device", Align::Left),
        ("what it models", Align::Left),
        ("size", Align::Right),
        ("depth", Align::Right),
        ("queues", Align::Right),
    ];
    let text = table(&header, &rows, output::style())
        + "\nOverride parameters after a `?`: hdd:st1000dm003?ncq_depth=4. `--show NAME` prints a parameter file to copy.\n";
    output::print(&text)?;
    Ok(Ended::Done)
}

fn names() -> Vec<&'static str> {
    models().iter().map(|m| m.name).collect()
}

fn validate_models(args: &Devices, name: &str) -> Result<Ended> {
    let names: Vec<String> =
        if name == "all" { models().iter().map(|m| m.name.to_owned()).collect() } else { vec![name.to_owned()] };
    let mut all = Vec::new();
    let mut text = String::new();
    for name in names {
        let model = load(&name)?;
        let mut checks = validate::run(&model);
        for target in host_expectations(&model) {
            let value = target.measure(&model)?;
            checks.push(Check {
                measurement: target.measurement.clone(),
                target: number(target.target),
                unit: target.unit,
                model: value,
                tolerance: match (target.target, target.tolerance) {
                    (0.0, tolerance) => format!("±{tolerance}"),
                    (_, 0.0) => "order".to_owned(),
                    (_, tolerance) => format!("±{:.1} %", tolerance * 100.0),
                },
                ok: target.met(value),
                source: target.source,
                grade: if target.fitted { "F" } else { "P" },
            });
        }
        text += &format!("{}: {}\n", model.name(), model.description());
        text += &check_table(&checks);
        text.push('\n');
        all.push(serde_json::json!({ "device": model.name(), "checks": checks }));
    }
    let missed =
        all.iter().flat_map(|d| d["checks"].as_array().into_iter().flatten()).filter(|c| c["ok"] == false).count();
    match &args.json {
        Some(path) => output::write_json(path, &all)?,
        None => output::print(&text)?,
    }
    if missed > 0 {
        crate::tell!("{missed} targets missed");
        return Ok(Ended::Failed);
    }
    Ok(Ended::Done)
}

/// Four significant digits.
fn number(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { (3 - value.abs().log10().floor() as i32).clamp(0, 6) as usize };
    format!("{value:.digits$}")
}

fn check_table(checks: &[Check]) -> String {
    let rows: Vec<Vec<String>> = checks
        .iter()
        .map(|c| {
            vec![
                if c.ok { "ok" } else { "MISSED" }.to_owned(),
                c.measurement.clone(),
                format!("{} {}", c.target, c.unit),
                number(c.model),
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
    table(&header, &rows, output::style())
}
