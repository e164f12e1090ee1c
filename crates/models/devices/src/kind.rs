//! The parameters of each kind of device, and the device built from them.

use std::sync::Arc;

use dumbwaiter_block::ServiceOracle;
use serde::de::DeserializeOwned;

use crate::{Device, Error, Facts};

/// The parameters of a kind of device.
pub(crate) trait DeviceParams: DeserializeOwned {
    /// Parameters that a file may leave out, with their values.
    const OPTIONAL: &[(&str, f64)] = &[];

    /// Switches that a file may leave out, and that are off then.
    const OFF: &[&str] = &[];

    /// Checks the relations between parameters.
    fn checked(self, _origin: &str) -> Result<Self, Error> {
        Ok(self)
    }

    fn facts(&self) -> Facts;

    fn capacity_sectors(&mut self) -> &mut u64;

    /// Makes room for `sectors`: only addresses, so that the timing stays what it was.
    fn grow(&mut self, sectors: u64) {
        let capacity = self.capacity_sectors();
        *capacity = sectors.max(*capacity);
    }

    /// Becomes the slowest of several drives of its model.
    fn slow_down(&mut self) {}

    /// A device in its initial state.
    fn build(&self, seed: u64) -> Box<dyn Device>;

    /// Whether it is an NVMe drive, which may serve commands by class.
    fn nvme(&self) -> bool {
        false
    }

    /// Exact service times of the device that is built with this seed, where they can be known beforehand.
    fn oracle(&self, _seed: u64) -> Option<Arc<dyn ServiceOracle>> {
        None
    }
}
