//! Any bytes as a trace whose format is found by content: records or an error, never a panic.
#![no_main]

use std::io::Cursor;

use dumbwaiter_traces::{Options, open_reader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let source = Box::new(Cursor::new(bytes.to_vec()));
    if let Ok(mut reader) = open_reader("input", source, &Options::default()) {
        while let Ok(Some(_)) = reader.next_record() {}
        let _ = (reader.skipped(), reader.changed());
    }
});
