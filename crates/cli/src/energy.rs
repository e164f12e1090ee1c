//! `report energy`: the log of a power meter joined with runs, by the time of day.

use anyhow::{Result, anyhow};
use dumbwaiter_realworld::PowerLog;
use dumbwaiter_report::{Format, read_json};

use crate::args::{self, EnergyArgs};
use crate::{Ended, results};

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
    let read = |path| PowerLog::parse(path, args.power_offset.as_deref(), args.power_zone.as_deref());
    Ok(args.power_log.as_deref().map(read).transpose()?)
}
