//! A device's parameter file of any bytes, with overrides behind its first NUL: a model, or an error; never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let (file, overrides) = text.split_once('\0').unwrap_or((&text, ""));
    if let Ok(model) = dumbwaiter_devices::parse(file, "fuzz.toml", overrides) {
        let facts = model.facts();
        assert!(facts.capacity_sectors > 0 && facts.depth > 0);
        if let Ok(grown) = model.grown(facts.capacity_sectors.saturating_mul(3)) {
            assert!(grown.facts().capacity_sectors >= facts.capacity_sectors);
        }
    }
    // One of them by the length of the input: each parses a parameter file.
    let kinds = ["hdd:st1000dm003", "ssd:850pro-256", "ull:optane-900p", "null:0us"];
    if !overrides.is_empty() {
        let _ = dumbwaiter_devices::load(&format!("{}?{overrides}", kinds[bytes.len() % kinds.len()]));
    }
});
