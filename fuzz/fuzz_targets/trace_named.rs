//! The first byte names the format, the second the options, the rest is the file.
#![no_main]

use std::io::Cursor;

use dumbwaiter_traces::{Arrival, Format, Options, open_reader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [format, options, rest @ ..] = bytes else { return };
    let arrivals = [None, Some(Arrival::Insert), Some(Arrival::Issue), Some(Arrival::Complete)];
    let options = Options {
        format: Some(Format::ALL[usize::from(*format) % Format::ALL.len()]),
        arrival: arrivals[usize::from(options & 3)],
        sort_window: [None, Some(0), Some(1), Some(64)][usize::from(options >> 2 & 3)],
        ..Options::default()
    };
    if let Ok(mut reader) = open_reader("input", Box::new(Cursor::new(rest.to_vec())), &options) {
        let mut last = 0;
        while let Ok(Some(record)) = reader.next_record() {
            assert!(record.time.0 >= last);
            last = record.time.0;
        }
    }
});
