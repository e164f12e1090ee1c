//! A result of any bytes: a document that can be ranked and written again, or an error; never a panic.
#![no_main]

use dumbwaiter_advise::Document;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(document) = Document::from_json(text) {
        let _ = document.rankings();
        let again = document.to_json();
        assert!(Document::from_json(&again).is_ok());
    }
});
