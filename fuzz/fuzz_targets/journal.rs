//! Journals of any bytes: the entries of changes to the system, and the header of a journal of writes.
#![no_main]

use dumbwaiter_realworld::drive::JournalHeader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = dumbwaiter_linux::undo::read_entry(bytes);
    if let Some((header, _)) = bytes.split_first_chunk::<32>()
        && let Ok(header) = JournalHeader::read(header, bytes.len() as u64)
    {
        assert!(header.blocks > 0 && header.blocks <= bytes.len() as u64);
    }
});
