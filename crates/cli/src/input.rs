//! Values of flags.

use anyhow::{Result, anyhow, bail};
use dumbwaiter_block::Nanos;
use dumbwaiter_sim::Simulator;
use dumbwaiter_text::units;

/// A number of bytes that a flag gives.
pub(crate) fn bytes(flag: &str, text: &str) -> Result<u64> {
    units::size(text, units::Prefixes::Plain).map_err(|e| anyhow!("{flag}: {e}"))
}

/// A length of time that a flag gives; seconds where it has no unit.
pub(crate) fn time(flag: &str, text: &str) -> Result<Nanos> {
    units::time(text, units::BareTime::Seconds).map_err(|e| anyhow!("{flag}: {e}"))
}

/// A length of time that an optional flag gives.
pub(crate) fn time_if(flag: &str, text: Option<&String>) -> Result<Option<Nanos>> {
    text.map(|text| time(flag, text)).transpose()
}

/// The part of the throughput that half the latency is worth, as `--rate` gives it: `25%` or `0.25`.
pub(crate) fn rate(text: Option<&str>) -> Result<Option<f64>> {
    let Some(text) = text else { return Ok(None) };
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let part = match text.strip_suffix('%') {
        Some(percent) => number(percent).map(|percent| percent / 100.0),
        None => number(text),
    };
    match part.filter(|part| *part > 0.0 && *part < 1.0) {
        Some(part) => Ok(Some(part)),
        None => bail!("--rate {text}: expected a part of the throughput above 0% and below 100%, such as 25%"),
    }
}

/// How many runs at a time `--jobs` allows; without it, one for each CPU.
pub(crate) fn jobs(jobs: Option<usize>) -> Result<usize> {
    match jobs {
        Some(0) => bail!("--jobs 0: expected at least 1"),
        Some(jobs) => Ok(jobs),
        None => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
    }
}

/// The simulator with `jobs` runs at a time.
pub(crate) fn simulator(jobs: Option<usize>) -> Result<Simulator> {
    Ok(Simulator::new(self::jobs(jobs)?))
}
