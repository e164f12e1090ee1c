//! HP SRT 1.x: a text header that ends with byte 0x0C, then big-endian records of 32-bit words: record size,
//! id, seconds and µs of enqueue, start and stop in µs after it, bytes, sector of 256 bytes, device number,
//! driver type, cylinder, flags (1 read, 0x100 async), info, queue length.

use dumbwaiter_block::{Flags, Nanos, Op};

use super::error::{Error, show};
use super::input::{Input, LOOK_AHEAD_BYTES};
use super::record::{Counts, Event, Known, Record};
use super::table::{ROUNDED, cover};
use super::text::{Opened, Opening, Source};

/// First bytes of the header.
const MAGIC: &[u8] = b"$$TR_IOREC";
/// First bytes of a record, with which a piece from the middle of a trace starts.
const RECORD: &[u8] = &[0, 0, 0, 56, 0, 4, 0, 1];
/// Words of a record.
const RECORD_WORDS: usize = 14;
const ID: u32 = 0x0004_0001;
/// Sector size of the traces.
const TRACE_SECTOR_BYTES: u64 = 256;

/// An SRT file.
struct HpSrt {
    input: Input,
    records: u64,
    skipped: Counts,
    rounded: u64,
}

/// Whether a file starts like an SRT trace or one of its records.
pub(crate) fn detect(start: &[u8]) -> bool {
    start.starts_with(MAGIC) || start.starts_with(RECORD)
}

/// Opens a file and skips its header, if it has one.
pub(crate) fn open(mut input: Input, _: &Opening) -> Opened {
    let head = input.peek(LOOK_AHEAD_BYTES)?;
    if !head.starts_with(RECORD) {
        let (start, end) = (show(head), head.iter().position(|b| *b == 0x0c));
        let Some(end) = end.filter(|_| head.starts_with(MAGIC)) else {
            let expected = "a header that starts with $$TR_IOREC and ends with a form feed";
            return Err(Error::bad(input.path(), "header".into(), start, expected));
        };
        input.skip(end + 1);
    }
    let source = HpSrt { input, records: 0, skipped: Counts::default(), rounded: 0 };
    Ok((Known { tasks: false, ..Known::ALL }, Box::new(source)))
}

impl Source for HpSrt {
    fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            let mut r = [0u8; RECORD_WORDS * 4];
            if !self.input.record(&mut r, "an SRT record", self.records)? {
                return Ok(None);
            }
            let word = |i: usize| u32::from_be_bytes(r[i * 4..i * 4 + 4].try_into().expect("four bytes"));
            let (path, at) = (self.input.path(), self.input.offset() - r.len() as u64);
            let size = word(0) as usize;
            if size < r.len() || size > 4096 {
                let value = format!("record size {size}");
                return Err(Error::bad(path, format!("byte {at}"), value, "56 to 4096 bytes"));
            }
            self.input.peek(size - r.len())?;
            self.input.skip(size - r.len());
            self.records += 1;
            if word(1) != ID {
                self.skipped.add("SRT record of another kind", 1);
                continue;
            }
            let flags = word(11);
            let mut record = Record::new(if flags & 1 == 1 { Op::Read } else { Op::Write }, 0, 0);
            record.time = Nanos(u64::from(word(2)) * 1_000_000_000 + u64::from(word(3)) * 1000);
            record.wait = Some(Nanos(u64::from(word(4)) * 1000));
            record.latency = Some(Nanos(u64::from(word(5)) * 1000));
            record.device = disk(word(8));
            if flags & 0x100 == 0 {
                record.flags = Flags::SYNC;
            }
            let range = cover(u64::from(word(7)) * TRACE_SECTOR_BYTES, u64::from(word(6)));
            let (sector, sectors, widened) = range.expect("32-bit numbers of 256 bytes fit");
            (record.sector, record.sectors) = (sector, sectors);
            self.rounded += u64::from(widened);
            return Ok(Some(Event::Arrive(record)));
        }
    }

    fn skipped(&self) -> Counts {
        self.skipped.clone()
    }

    fn changed(&self) -> Counts {
        Counts::of(ROUNDED, self.rounded)
    }
}

/// The disk of an HP-UX device number: the unit in bits 8 to 11, without the partition below it.
fn disk(number: u32) -> u32 {
    number >> 8 & 0xf
}
