//! A fitted model as a parameter file.

use std::fmt::Write;

use crate::fit::{Compared, Fitted, Origin};

/// Width of a parameter with its value, before the comment.
const COLUMN: usize = 34;

/// The text of a parameter file, with the origin of each value, the residual of each figure and what could not be determined.
/// `dumbwaiter_devices::parse` accepts it.
pub fn device_file(fitted: &Fitted) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_file(&mut text, fitted);
    text
}

fn write_file(text: &mut String, fitted: &Fitted) -> std::fmt::Result {
    let facts = &fitted.facts;
    let gb = facts.capacity_sectors as f64 * 512.0 / 1e9;
    let what = one_line(if facts.model.is_empty() { &facts.name } else { &facts.model });
    writeln!(text, "kind = \"{}\"", fitted.kind.name())?;
    let description = format!("{what}, {gb:.1} GB, fitted to a survey");
    writeln!(text, "description = {}", toml::Value::String(description))?;
    writeln!(text, "#")?;
    writeln!(
        text,
        "# A survey of {} that {}.",
        one_line(&facts.name),
        if wrote(fitted) { "read and wrote" } else { "only read" }
    )?;
    let held = &fitted.held_back;
    writeln!(
        text,
        "# Predicted throughput of {} points that the fit did not see: median error {:.1} %, worst {:.1} % ({}).",
        held.points,
        held.median_error * 100.0,
        held.worst_error * 100.0,
        held.worst
    )?;
    let service = &fitted.service_us;
    writeln!(
        text,
        "# Single 4 KiB read: {}; the host's {:.1} us per I/O are not part of it.",
        us(service.read_4k),
        fitted.host_us
    )?;
    match fitted.depth {
        Some(depth) => writeln!(text, "# Depth: {depth} ({}).", fitted.depth_from)?,
        None => writeln!(text, "# Depth: {}.", fitted.depth_from)?,
    }
    if fitted.spread > 0.0 {
        writeln!(
            text,
            "# Rounds of one point differ by {:.1} % (median): no fit is better than that.",
            fitted.spread * 100.0
        )?;
    }
    for note in facts.notes.iter().chain(&fitted.warning()) {
        writeln!(text, "# Note: {}", one_line(note))?;
    }
    let undetermined: Vec<&str> = fitted.undetermined().map(|p| p.name).collect();
    writeln!(text, "# Not determined by the survey, and assumed or doubtful below: {}.", undetermined.join(", "))?;
    table(text, "Points that were fitted", &fitted.fitted_points)?;
    table(text, "Points that were held back and predicted", &fitted.held_back_points)?;
    writeln!(text)?;
    for parameter in &fitted.parameters {
        let set = format!("{} = {}", parameter.name, parameter.value);
        let origin = match &parameter.origin {
            Origin::Measured(how) => format!("measured: {how}"),
            Origin::Doubtful(how) => format!("doubtful, see the note above: {how}"),
            Origin::Driver(how) => format!("driver: {how}"),
            Origin::Assumed(why) => format!("assumed: {why}"),
        };
        writeln!(text, "{set:COLUMN$} # {origin}")?;
    }
    Ok(())
}

fn wrote(fitted: &Fitted) -> bool {
    fitted.fitted_points.iter().any(|p| p.load.writes())
}

fn table(text: &mut String, title: &str, points: &[Compared]) -> std::fmt::Result {
    writeln!(text, "#")?;
    let width = points.iter().map(|p| p.load.name.chars().count()).max().unwrap_or(0);
    writeln!(text, "# {title:width$}   drive I/O/s   model I/O/s   residual")?;
    for p in points {
        let (drive, model, error) = (p.measured.iops, p.model.iops, p.error * 100.0);
        writeln!(text, "#   {:width$} {drive:13.1} {model:13.1} {error:+9.1} %", p.load.name)?;
    }
    Ok(())
}

fn us(time: f64) -> String {
    if time < 1_000.0 { format!("{time:.2} us") } else { format!("{:.3} ms", time / 1e3) }
}

/// A line for a comment.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
