//! `energy`: the log of a power meter joined with runs, by the time of day.

use anyhow::{Result, anyhow};
use dumbwaiter_meters as meters;
use dumbwaiter_realworld::PowerLog;
use dumbwaiter_report::{Format, read_json};

use crate::args::{self, EnergyArgs};
use crate::{Ended, input, results};

/// Adds energy to results that were written before.
pub(crate) fn run(args: &EnergyArgs) -> Result<Ended> {
    let log = power_log(&args.power)?.ok_or_else(|| anyhow!("--power-log is missing: expected a logger's CSV file"))?;
    results::check_outputs(&args.outputs, &[log.path()])?;
    let document = log.add_to(read_json(&args.results)?, &args.results)?;
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
