use crate::Ended; use anyhow::Result;
pub(crate) fn run(_a: &crate::args::Devices) -> Result<Ended> { Ok(Ended::Done) }
