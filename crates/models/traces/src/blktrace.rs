//! Binary files of `blktrace`, one per CPU: records of 48 bytes and a payload, in the byte order of the recording
//! machine, which the magic shows (`0x65617400` plus the version in the low byte, 7).

use dumbwaiter_block::{Flags, Op, SECTOR_BYTES};

use super::blkparse::{NO_DATA, NO_SECTOR, arrive};
use super::error::Error;
use super::input::Input;
use super::record::{Arrival, Counts, Event, Known, Span};
use super::table::ROUNDED;
use super::text::{Opened, Opening, Source};

const RECORD_BYTES: usize = 48;
const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;

/// Byte order and version from the first four bytes, if they are blktrace's magic.
pub(crate) fn magic(bytes: &[u8]) -> Option<(bool, u32)> {
    let four: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
    let (little, big) = (u32::from_le_bytes(four), u32::from_be_bytes(four));
    if little & !0xff == MAGIC {
        Some((false, little & 0xff))
    } else if big & !0xff == MAGIC {
        Some((true, big & 0xff))
    } else {
        None
    }
}

/// The fixed part of a record.
struct Head {
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
    device: u32,
    payload: u16,
}

fn head(r: &[u8; RECORD_BYTES], big: bool) -> Head {
    let take4 = |at: usize| {
        let b: [u8; 4] = r[at..at + 4].try_into().expect("four bytes");
        if big { u32::from_be_bytes(b) } else { u32::from_le_bytes(b) }
    };
    let take8 = |at: usize| {
        let b: [u8; 8] = r[at..at + 8].try_into().expect("eight bytes");
        if big { u64::from_be_bytes(b) } else { u64::from_le_bytes(b) }
    };
    let b: [u8; 2] = r[46..48].try_into().expect("two bytes");
    Head {
        time: take8(8),
        sector: take8(16),
        bytes: take4(24),
        action: take4(28),
        pid: take4(32),
        device: take4(36),
        payload: if big { u16::from_be_bytes(b) } else { u16::from_le_bytes(b) },
    }
}

/// Arrival event of an action, to find out which events a file has.
fn arrival(action: u32) -> Option<Arrival> {
    match action & 0xffff {
        1 => Some(Arrival::Queue),
        7 => Some(Arrival::Issue),
        8 => Some(Arrival::Complete),
        12 => Some(Arrival::Insert),
        _ => None,
    }
}

/// The arrival events of the records in `bytes`, the start of a file.
pub(crate) fn arrivals(mut bytes: &[u8], _: bool) -> Vec<Arrival> {
    let mut found = Vec::new();
    while let (Some((big, _)), Some(record)) = (magic(bytes), bytes.first_chunk::<RECORD_BYTES>()) {
        let h = head(record, big);
        if let Some(a) = arrival(h.action).filter(|_| h.action & NOTIFY == 0)
            && !found.contains(&a)
        {
            found.push(a);
        }
        bytes = bytes.get(RECORD_BYTES + usize::from(h.payload)..).unwrap_or(&[]);
    }
    found
}

const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const SYNC: u32 = 1 << 19;
const PACKET: u32 = 1 << 25;
const NOTIFY: u32 = 1 << 26;
const AHEAD: u32 = 1 << 27;
const META: u32 = 1 << 28;
const DISCARD: u32 = 1 << 29;
const FUA: u32 = 1 << 31;

/// Operation and flags of an event; `None` if it moves no data and is no flush.
fn operation(h: &Head) -> Option<(Op, Flags)> {
    let bits =
        [(SYNC, Flags::SYNC), (META, Flags::META), (AHEAD, Flags::RAHEAD), (FUA, Flags::FUA), (FLUSH, Flags::PREFLUSH)];
    let flags = bits.iter().filter(|(bit, _)| h.action & bit != 0).fold(Flags::NONE, |f, (_, m)| f.with(*m));
    if h.action & DISCARD != 0 {
        Some((Op::Discard, flags))
    } else if h.bytes == 0 {
        (h.action & FLUSH != 0).then(|| (Op::Flush, flags.without(Flags::PREFLUSH)))
    } else if h.action & WRITE != 0 {
        Some((Op::Write, flags))
    } else {
        Some((Op::Read, flags))
    }
}

/// One per-CPU file.
struct Blktrace {
    input: Input,
    arrival: Arrival,
    records: u64,
    skipped: Counts,
    rounded: u64,
}

pub(crate) fn open(input: Input, opening: &Opening) -> Opened {
    let source = Blktrace { input, arrival: opening.arrival, records: 0, skipped: Counts::default(), rounded: 0 };
    Ok((Known::ALL, Box::new(source)))
}

impl Source for Blktrace {
    fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            let mut record = [0; RECORD_BYTES];
            if !self.input.record(&mut record, "a blktrace record", self.records)? {
                return Ok(None);
            }
            let (path, at) = (self.input.path(), self.input.offset() - RECORD_BYTES as u64);
            let Some((big, version)) = magic(&record) else {
                let value = format!("{:02x?}", &record[..4]);
                return Err(Error::bad(path, format!("byte {at}"), value, "the magic 0x65617407 of a blktrace record"));
            };
            if version != VERSION {
                return Err(Error::bad(path, format!("byte {at}"), format!("version {version}"), "blktrace version 7"));
            }
            let h = head(&record, big);
            let mut left = usize::from(h.payload);
            while left > 0 {
                let have = self.input.peek(left)?.len();
                if have == 0 {
                    let path = self.input.path().into();
                    return Err(Error::Truncated { path, what: "a blktrace payload", records: self.records });
                }
                self.input.skip(have);
                left -= have;
            }
            self.records += 1;
            if h.action & NOTIFY != 0 {
                continue;
            }
            let Some(kind) = arrival(h.action) else { continue };
            let span = Span {
                time: h.time,
                sector: h.sector,
                sectors: (u64::from(h.bytes)).div_ceil(SECTOR_BYTES) as u32,
                device: h.device,
            };
            if kind != self.arrival {
                match kind {
                    Arrival::Issue => return Ok(Some(Event::Issue(span))),
                    Arrival::Complete => return Ok(Some(Event::Complete(span))),
                    _ => continue,
                }
            }
            if h.action & PACKET != 0 {
                self.skipped.add(NO_SECTOR, 1);
                continue;
            }
            let Some((op, flags)) = operation(&h) else {
                self.skipped.add(NO_DATA, 1);
                continue;
            };
            self.rounded += u64::from(u64::from(h.bytes) % SECTOR_BYTES != 0);
            return Ok(Some(arrive(op, flags, h.pid, span)));
        }
    }

    fn skipped(&self) -> Counts {
        self.skipped.clone()
    }

    fn changed(&self) -> Counts {
        Counts::of(ROUNDED, self.rounded)
    }
}
