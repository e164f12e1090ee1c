//! A scenario file of any bytes: a scenario that is written and read back unchanged, or an error; never a panic.
#![no_main]

use dumbwaiter_scenario::Scenario;
use dumbwaiter_schedulers::Choice;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let Ok(scenario) = Scenario::from_toml(&text, "fuzz.toml") else { return };
    let scheduler = |name: &str| match name.contains('/') {
        true => Err("no files".to_string()),
        false => Choice::parse(name).map(drop).map_err(|e| e.to_string()),
    };
    // Only names: models are parsed by another target, and a path would be read.
    let device = |name: &str| match dumbwaiter_devices::models().iter().any(|model| model.name == name) {
        true => Ok(()),
        false => Err("no such device".to_string()),
    };
    if scenario.validate(&scheduler, &device).is_ok() {
        let again = Scenario::from_toml(&scenario.to_toml(), "again").expect("what was written is read");
        assert_eq!(again.to_toml(), scenario.to_toml());
    }
});
