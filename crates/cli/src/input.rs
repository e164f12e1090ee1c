//! Values of flags.

use anyhow::{Result, anyhow};
use dumbwaiter_block::Nanos;
use dumbwaiter_workloads::units;

/// A number of bytes that a flag gives.
pub(crate) fn bytes(flag: &str, text: &str) -> Result<u64> {
    units::size(text, units::Prefixes::Plain).map_err(|e| anyhow!("{flag}: {e}"))
}

/// A length of time that a flag gives; seconds where it has no unit.
pub(crate) fn time(flag: &str, text: &str) -> Result<Nanos> {
    units::time(text, units::BareTime::Seconds).map_err(|e| anyhow!("{flag}: {e}"))
}
