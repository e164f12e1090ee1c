//! One fit for each kind of device.

pub(crate) mod disk;
pub(crate) mod fixed;
pub(crate) mod flash;
pub(crate) mod low_latency;
