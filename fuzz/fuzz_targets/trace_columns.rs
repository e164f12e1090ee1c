//! The first line is a column list, the rest is text by it.
#![no_main]

use std::io::Cursor;

use dumbwaiter_traces::{Columns, Options, open_reader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |b| *b == b'\n');
    let (Some(list), Some(rest)) = (parts.next(), parts.next()) else { return };
    let Ok(columns) = Columns::parse(&String::from_utf8_lossy(list)) else { return };
    let options = Options { columns: Some(columns), ..Options::default() };
    if let Ok(mut reader) = open_reader("input", Box::new(Cursor::new(rest.to_vec())), &options) {
        while let Ok(Some(_)) = reader.next_record() {}
    }
});
