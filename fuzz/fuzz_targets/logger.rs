//! A power logger's file of any bytes: samples from which energy can be asked, or an error; never a panic.
#![no_main]

use dumbwaiter_linux::meters::{Logger, LoggerClock};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    for zone in [None, Some(-300)] {
        let Ok(logger) = Logger::parse("fuzz.csv", &text, zone) else { continue };
        let last = logger.last();
        assert!(last.is_finite());
        if let Ok(energy) = logger.energy(last - 10.0, last - 1.0, &LoggerClock::SAME) {
            assert!(!energy.joules.is_nan());
        }
        // The search for the clock takes far longer than the rest.
        if bytes.len().is_multiple_of(16) {
            let _ = logger.align(&[last - 300.0, last - 100.0]);
        }
    }
});
