//! The configuration of a server: a file, or an export as it is typed.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        dumbwaiter_serve::fuzzing::configuration(text);
    }
});
