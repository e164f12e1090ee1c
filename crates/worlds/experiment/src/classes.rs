//! Classes of drives: what holds for one model need not hold for others of its kind, so several of them run.

use std::collections::BTreeMap;

use dumbwaiter_advise::{DriveKind, Provenance, TargetDrive};

/// Classes by the names that `--device` takes, and the models that stand for each.
pub const CLASSES: [(&str, DriveKind, &[&str]); 3] = [
    ("hdd", DriveKind::HardDisk, &["hdd:st1000dm003", "hdd:exos-x16"]),
    ("sata-ssd", DriveKind::SataSsd, &["ssd:850pro-256", "ssd:pm893-960"]),
    ("nvme", DriveKind::Nvme, &["ssd:nvme-tlc", "ssd:990evo-plus-2tb"]),
];

/// The models of a class; `None` where the name is no class.
pub fn models_of(class: &str) -> Option<&'static [&'static str]> {
    CLASSES.iter().find(|(name, ..)| *name == class).map(|(_, _, models)| *models)
}

/// Another model of the class that a model of a class is of; `None` of others, which may be a kind of their own.
pub(crate) fn another_of_class(device: &str) -> Option<&'static str> {
    let (.., models) = CLASSES.iter().find(|(.., models)| models.contains(&device))?;
    models.iter().copied().find(|other| *other != device)
}

/// Replaces the names of classes by their models, and returns which they were.
pub(crate) fn expand(devices: &mut Vec<String>) -> BTreeMap<String, Vec<String>> {
    let mut classes = BTreeMap::new();
    let mut all: Vec<String> = Vec::new();
    for device in devices.iter() {
        let models: Vec<String> = match models_of(device) {
            Some(models) => models.iter().map(|model| (*model).to_owned()).collect(),
            None => vec![device.clone()],
        };
        if models_of(device).is_some() {
            classes.insert(device.clone(), models.clone());
        }
        for model in models {
            if !all.contains(&model) {
                all.push(model);
            }
        }
    }
    *devices = all;
    classes
}

/// What the kernel sets by itself on a simulated device.
pub(crate) fn default_scheduler(device: &str) -> String {
    let models = crate::models::models(&[device.to_owned()]);
    let kind = models.values().next().copied();
    let name = models.keys().next().cloned().unwrap_or_default();
    let provenance =
        Provenance { models: kind.map(|kind| (name.clone(), kind)).into_iter().collect(), ..Provenance::default() };
    TargetDrive::of(&provenance, &name).previous
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_of_a_class_is_of_its_kind() {
        for (class, kind, models) in CLASSES {
            assert!(models.len() > 1, "{class} has one model, which is one drive");
            for model in models {
                let found = crate::models::models(&[(*model).to_owned()]);
                assert_eq!(found.values().next(), Some(&kind), "{model}");
            }
        }
    }

    #[test]
    fn a_class_becomes_its_models_once() {
        let mut devices = vec!["hdd".to_owned(), "hdd:exos-x16".to_owned(), "ull:optane-900p".to_owned()];
        let classes = expand(&mut devices);
        assert_eq!(devices, ["hdd:st1000dm003", "hdd:exos-x16", "ull:optane-900p"]);
        assert_eq!(classes["hdd"], ["hdd:st1000dm003", "hdd:exos-x16"]);
    }

    #[test]
    fn the_kernels_default_follows_the_number_of_queues() {
        assert_eq!(default_scheduler("hdd:exos-x16"), "mq-deadline");
        assert_eq!(default_scheduler("ssd:850pro-256"), "mq-deadline");
        assert_eq!(default_scheduler("ull:optane-900p"), "none");
    }
}
