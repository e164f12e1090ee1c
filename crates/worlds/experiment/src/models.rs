//! The simulated devices of an experiment.

use std::collections::BTreeMap;

use dumbwaiter_advise::DriveKind;

/// Kinds of the simulated drives, by the names that their runs have.
pub(crate) fn models(devices: &[String]) -> BTreeMap<String, DriveKind> {
    let kind = |device: &String| {
        let model = dumbwaiter_devices::load(device).ok()?;
        let facts = model.facts();
        let kind = match (model.interface(), facts.rotational, facts.queues) {
            ("usb", ..) => DriveKind::UsbStick,
            ("mmc", ..) => DriveKind::MemoryCard,
            (_, true, _) => DriveKind::HardDisk,
            (_, false, 0..=1) => DriveKind::SataSsd,
            (_, false, _) => DriveKind::Nvme,
        };
        Some((model.name().to_owned(), kind))
    };
    devices.iter().filter_map(kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_of_the_kind_that_linux_takes_it_for() {
        let expected = [
            ("hdd:st1000dm003", DriveKind::HardDisk),
            ("ssd:850pro-256", DriveKind::SataSsd),
            ("ssd:nvme-tlc", DriveKind::Nvme),
            ("ull:optane-900p", DriveKind::Nvme),
            ("ssd:usb-stick", DriveKind::UsbStick),
            ("ssd:microsd-a1", DriveKind::MemoryCard),
        ];
        let names: Vec<String> = expected.iter().map(|(name, _)| (*name).to_owned()).collect();
        let found = models(&names);
        for (name, kind) in expected {
            assert_eq!(found[name], kind, "{name}");
        }
    }
}
