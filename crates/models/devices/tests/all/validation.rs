//! Every figure of every built-in device alone is within its tolerance.

use dumbwaiter_devices::{Kind, load, models, validate};

fn validate_kind(kind: &str) {
    let mut failed = Vec::new();
    for info in models().iter().filter(|info| info.kind.name() == kind) {
        let model = load(info.name).unwrap();
        let checks = validate::run(&model);
        assert!(!checks.is_empty());
        for c in checks {
            println!(
                "{:5} {:25} {:70} {:>12} {:8} {:>10.3} {:8} {}",
                c.ok, info.name, c.measurement, c.target, c.unit, c.model, c.tolerance, c.grade
            );
            if !c.ok {
                failed
                    .push(format!("{}: {}: {} not {} ({})", info.name, c.measurement, c.model, c.target, c.tolerance));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn hard_disks() {
    validate_kind("hdd");
}

#[test]
fn flash() {
    validate_kind("ssd");
}

#[test]
fn ultra_low_latency() {
    validate_kind("ull");
}

#[test]
fn volumes() {
    validate_kind("volume");
}

/// A kind has a built-in device, and the manual names all devices and parameters.
#[test]
fn the_manual_has_every_device_and_parameter() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/devices.md");
    let manual = std::fs::read_to_string(page).unwrap();
    for info in models() {
        assert!(manual.contains(info.name), "docs/devices.md does not have {}", info.name);
    }
    for kind in Kind::ALL {
        assert!(models().iter().any(|info| info.kind == kind), "no built-in device of kind {}", kind.name());
        for key in kind.keys() {
            assert!(manual.contains(&format!("`{}`", key.name)), "docs/devices.md does not explain `{}`", key.name);
        }
    }
}

#[test]
fn null() {
    validate_kind("null");
}

#[test]
fn overrides_keep_the_targets_of_their_device() {
    let expectations = |name| validate::expectations(name).len();
    assert_eq!(expectations("hdd:st1000dm003?lookahead=false"), expectations("hdd:st1000dm003"));
    assert!(expectations("no-such-device") == 0);
}

/// The limits of some drives of the catalogue come out; those whose random and sequential rates contradict each other are left out.
#[test]
fn drives_of_the_catalogue_have_their_limits() {
    for name in ["iocost:samsung-ssd-970-pro-512gb", "iocost:samsung-ssd-870-1000gb", "iocost:wd-black-sn850x-1000gb"] {
        for check in validate::run(&load(name).unwrap()) {
            assert!(check.ok, "{name}: {}: {} not {}", check.measurement, check.model, check.target);
        }
    }
}
