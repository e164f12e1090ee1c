//! The simulated devices of an experiment.

use std::collections::BTreeMap;

use dumbwaiter_advise::DriveKind;

/// Kinds of the simulated drives, by the names that their runs have.
pub(crate) fn models(devices: &[String]) -> BTreeMap<String, DriveKind> {
    let kind = |device: &String| {
        let model = dumbwaiter_devices::load(device).ok()?;
        let facts = model.facts();
        let kind = match (facts.rotational, facts.queues) {
            (true, _) => DriveKind::HardDisk,
            (false, 0..=1) => DriveKind::SataSsd,
            (false, _) => DriveKind::Nvme,
        };
        Some((model.name().to_owned(), kind))
    };
    devices.iter().filter_map(kind).collect()
}
