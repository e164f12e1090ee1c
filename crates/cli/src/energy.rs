//! `energy`: the log of a power meter joined with runs, by the time of day.

use anyhow::{Result, anyhow, bail};
use dumbwaiter_advise::Document;
use dumbwaiter_meters as meters;
use dumbwaiter_realworld::PowerLog;
use dumbwaiter_report::{Format, read_json};

use crate::args::{self, EnergyArgs};
use crate::{Ended, input, results};

/// Adds energy to results that were written before.
pub(crate) fn run(args: &EnergyArgs) -> Result<Ended> {
    let log = power_log(&args.power)?.ok_or_else(|| anyhow!("--power-log is missing: expected a logger's CSV file"))?;
    results::check_outputs(&args.outputs, &[log.path()])?;
    let old = read_json(&args.results)?;
    let mut runs = old.runs;
    if runs.iter().all(|run| run.started_unix_ns.is_none()) {
        bail!(
            "{}: none of its {} runs has a start time; expected results of `compare --on … --json` (a simulation has no time of day)",
            args.results.display(),
            runs.len()
        );
    }
    let told = log.fill(&mut runs, &old.load_patterns_unix_s)?;
    let mut document =
        Document::new(&old.title, old.scenario, old.versions, runs, old.goal).with_provenance(old.provenance);
    document.until = old.until;
    document.decide();
    // What was said of meters no longer holds.
    let of_meters = |note: &String| note.starts_with("no energy meter: ") || note.starts_with("energy meter: ");
    document.warnings = old.warnings;
    document.notes = old.notes.into_iter().filter(|note| !of_meters(note)).chain(told).collect();
    document.load_patterns_unix_s = old.load_patterns_unix_s;
    results::write_all(&args.outputs, &document, Format::default())?;
    Ok(Ended::Done)
}

/// The log that the flags name; `None` where they name none. The file itself need not exist yet.
pub(crate) fn power_log(args: &args::PowerLog) -> Result<Option<PowerLog>> {
    let Some(path) = &args.power_log else { return Ok(None) };
    let clock_ahead_s = args.power_offset.as_deref().map(signed_seconds).transpose()?;
    let zone_minutes = args.power_zone.as_deref().map(|text| {
        let known = meters::zone(text).or_else(|| meters::zone(&format!("GMT{text}")));
        known.ok_or_else(|| anyhow!("--power-zone: \"{text}\" is not a time zone; expected one such as GMT-05:00"))
    });
    Ok(Some(PowerLog::new(path, clock_ahead_s, zone_minutes.transpose()?)?))
}

/// `3s`, `-1.5s`, `+200ms`.
fn signed_seconds(text: &str) -> Result<f64> {
    let (sign, plain) = match text.strip_prefix('-') {
        Some(plain) => (-1.0, plain),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    Ok(sign * input::time("--power-offset", plain)?.as_secs_f64())
}
