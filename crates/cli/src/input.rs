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
