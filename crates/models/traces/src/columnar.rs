//! Dumbwaiter's own format: blocks of up to 65,536 records, with each column of a block compressed by zstd. All numbers
//! are
//! little-endian; varints are LEB128.
//!
//! ```text
//! file    = "DWTRACE1"  u32 known  u32 zero   block*  footer
//! block   = u32 records (1..=65536)  u32 payload bytes  u32 CRC-32 of the payload   payload
//! payload = 9 × column;  column = u32 raw bytes  u32 packed bytes  zstd frame
//! footer  = u32 zero  u64 records  u64 end of the highest record, sectors  u32 CRC-32 of both   "DWTRCEND"
//! ```
//!
//! `known` is what the trace contains: bit 0 times, 1 sizes, 2 devices, 3 tasks. Columns, which start afresh in
//! every block:
//!
//! | column | content of a record |
//! |---|---|
//! | kind | one byte: bits 0–2 operation (as [`Op`] counts), 3 has a wait, 4 has a latency, 5 other device than before, 6 other task |
//! | flags | varint of the request flags, plus 65536 × (1 + I/O tag) if the record has one |
//! | time | varint: ns since the record before (the first: since 0) |
//! | sector | varint of the zigzag difference to the end of the record before (the first: to 0) |
//! | sectors | varint |
//! | device, task | varint, only if bit 5 or 6 is set (before the first record: 0) |
//! | wait, latency | varint in ns, only if bit 3 or 4 is set |

use std::io;

use dumbwaiter_block::{Flags, IoTag, Nanos, Op};

use super::error::Error;
use super::input::Input;
use super::record::{Counts, Event, Known, Record};
use super::record_writer::{Expressible, Lost, RecordWriter, Writing};
use super::text::{Opened, Opening, Source};

/// First bytes of a file.
pub(crate) const MAGIC: &[u8; 8] = b"DWTRACE1";
const END: &[u8; 8] = b"DWTRCEND";
const BLOCK_RECORDS: usize = 1 << 16;
const COLUMNS: usize = 9;
/// Most bytes of a varint.
const VARINT_BYTES_MAX: usize = 10;
const ZSTD_LEVEL: i32 = 3;

const KIND: usize = 0;
const FLAGS: usize = 1;
const TIME: usize = 2;
const SECTOR: usize = 3;
const SECTORS: usize = 4;
const DEVICE: usize = 5;
const TASK: usize = 6;
const WAIT: usize = 7;
const LATENCY: usize = 8;

const OPS: [Op; 6] = [Op::Read, Op::Write, Op::Flush, Op::Discard, Op::SecureErase, Op::WriteZeroes];

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

fn put(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Writes records to a columnar file.
struct ColumnarWriter {
    columns: [Vec<u8>; COLUMNS],
    packed: Vec<u8>,
    packer: zstd::bulk::Compressor<'static>,
    in_block: usize,
    last: Record,
    records: u64,
    highest: u64,
}

/// Starts a file.
pub(crate) fn writer(out: &mut Vec<u8>, writing: Writing) -> io::Result<Box<dyn RecordWriter>> {
    out.extend(MAGIC);
    out.extend(writing.known.bits().to_le_bytes());
    out.extend(0u32.to_le_bytes());
    Ok(Box::new(ColumnarWriter {
        columns: Default::default(),
        packed: Vec::new(),
        packer: zstd::bulk::Compressor::new(ZSTD_LEVEL)?,
        in_block: 0,
        last: Record::new(Op::Read, 0, 0),
        records: 0,
        highest: 0,
    }))
}

impl RecordWriter for ColumnarWriter {
    fn expressible(&self) -> Expressible {
        Expressible { fields: Known::ALL, measured: true, marks: true, tags: true }
    }

    fn write(&mut self, out: &mut Vec<u8>, r: &Record, _: Option<Nanos>) -> io::Result<Result<Lost, &'static str>> {
        let last = self.last;
        let op = OPS.iter().position(|o| *o == r.op).expect("every operation is listed") as u8;
        let (device, task) = (r.device != last.device, r.task != last.task);
        let bits = [(3, r.wait.is_some()), (4, r.latency.is_some()), (5, device), (6, task)];
        self.columns[KIND].push(bits.iter().fold(op, |kind, (bit, set)| kind | u8::from(*set) << bit));
        let tag = r.tag.map_or(0, |tag| u64::from(tag.code()) + 1);
        put(&mut self.columns[FLAGS], tag << 16 | u64::from(r.flags.0));
        put(&mut self.columns[TIME], r.time.0.saturating_sub(last.time.0));
        let jump = r.sector.wrapping_sub(last.end()) as i64;
        put(&mut self.columns[SECTOR], (jump << 1 ^ jump >> 63) as u64);
        put(&mut self.columns[SECTORS], u64::from(r.sectors));
        if device {
            put(&mut self.columns[DEVICE], u64::from(r.device));
        }
        if task {
            put(&mut self.columns[TASK], u64::from(r.task));
        }
        if let Some(ns) = r.wait {
            put(&mut self.columns[WAIT], ns.0);
        }
        if let Some(ns) = r.latency {
            put(&mut self.columns[LATENCY], ns.0);
        }
        self.last = *r;
        self.records += 1;
        self.highest = self.highest.max(r.end());
        self.in_block += 1;
        if self.in_block == BLOCK_RECORDS {
            self.block(out)?;
        }
        Ok(Ok(Lost::default()))
    }

    /// Writes the last block and the footer.
    fn finish(&mut self, out: &mut Vec<u8>, _: Nanos) -> io::Result<()> {
        self.block(out)?;
        let counts = [self.records.to_le_bytes(), self.highest.to_le_bytes()].concat();
        out.extend(0u32.to_le_bytes());
        out.extend(&counts);
        out.extend(crc(&counts).to_le_bytes());
        out.extend(END);
        Ok(())
    }
}

impl ColumnarWriter {
    fn block(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        if self.in_block == 0 {
            return Ok(());
        }
        self.packed.clear();
        for column in &mut self.columns {
            let frame = self.packer.compress(column)?;
            self.packed.extend((column.len() as u32).to_le_bytes());
            self.packed.extend((frame.len() as u32).to_le_bytes());
            self.packed.extend(frame);
            column.clear();
        }
        for n in [self.in_block as u32, self.packed.len() as u32, crc(&self.packed)] {
            out.extend(n.to_le_bytes());
        }
        out.extend(&self.packed);
        self.in_block = 0;
        self.last = Record::new(Op::Read, 0, 0);
        Ok(())
    }
}

pub(crate) fn open(input: Input, _: &Opening) -> Opened {
    let source = Columnar::new(input)?;
    Ok((Known::of_bits(source.known), Box::new(source)))
}

/// Reads a columnar file.
struct Columnar {
    input: Input,
    /// As in the header.
    known: u32,
    payload: Vec<u8>,
    unpacker: zstd::bulk::Decompressor<'static>,
    columns: [Vec<u8>; COLUMNS],
    at: [usize; COLUMNS],
    left: usize,
    last: Record,
    records: u64,
    ended: bool,
}

impl Columnar {
    /// Reads the header.
    fn new(mut input: Input) -> Result<Columnar, Error> {
        let mut head = [0; 16];
        let n = input.read(&mut head)?;
        if n < head.len() || head[..8] != *MAGIC {
            let shown = super::error::show(&head[..n.min(8)]);
            return Err(Error::bad(input.path(), "header".into(), shown, "DWTRACE1 and 8 more bytes"));
        }
        let known = u32::from_le_bytes(head[8..12].try_into().expect("four bytes"));
        let unpacker = zstd::bulk::Decompressor::new().map_err(|e| Error::io(input.path(), "read", e))?;
        Ok(Columnar {
            input,
            known,
            payload: Vec::new(),
            unpacker,
            columns: Default::default(),
            at: [0; COLUMNS],
            left: 0,
            last: Record::new(Op::Read, 0, 0),
            records: 0,
            ended: false,
        })
    }

    fn exactly(&mut self, n: usize, what: &'static str) -> Result<(), Error> {
        self.payload.resize(n, 0);
        if self.input.read(&mut self.payload)? < n {
            return Err(Error::Truncated { path: self.input.path().into(), what, records: self.records });
        }
        Ok(())
    }

    fn bad(&self, value: impl Into<String>, expected: &str) -> Error {
        Error::bad(self.input.path(), format!("byte {}", self.input.offset()), value, expected)
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.payload[at..at + 4].try_into().expect("four bytes"))
    }

    fn footer(&mut self) -> Result<(), Error> {
        self.exactly(28, "the footer")?;
        let records = u64::from_le_bytes(self.payload[..8].try_into().expect("eight bytes"));
        if self.word(16) != crc(&self.payload[..16]) || self.payload[20..] != *END {
            return Err(self.bad("a footer", "a footer with the right checksum and DWTRCEND"));
        }
        if records != self.records {
            return Err(self.bad(format!("{} records", self.records), &format!("{records} records as the footer says")));
        }
        if !self.input.at_end()? {
            return Err(self.bad("more bytes", "the end of the file behind the footer"));
        }
        self.ended = true;
        Ok(())
    }

    /// Decompresses the next block; `false` at the end.
    fn block(&mut self) -> Result<bool, Error> {
        self.exactly(4, "the file: the footer is missing")?;
        let records = self.word(0) as usize;
        if records == 0 {
            self.footer()?;
            return Ok(false);
        }
        self.exactly(8, "a block")?;
        let (bytes, sum) = (self.word(0) as usize, self.word(4));
        if records > BLOCK_RECORDS || bytes > COLUMNS * (BLOCK_RECORDS * VARINT_BYTES_MAX + 4096) {
            return Err(self.bad(format!("a block of {records} records in {bytes} bytes"), "at most 65536 records"));
        }
        self.exactly(bytes, "a block")?;
        if crc(&self.payload) != sum {
            return Err(self.bad(format!("a block with checksum {:08x}", crc(&self.payload)), &format!("{sum:08x}")));
        }
        let mut at = 0;
        for i in 0..COLUMNS {
            if at + 8 > bytes {
                return Err(self.bad("a block that is too short", "nine columns"));
            }
            let (raw, packed) = (self.word(at) as usize, self.word(at + 4) as usize);
            at += 8;
            if raw > records * VARINT_BYTES_MAX || packed > bytes - at {
                return Err(
                    self.bad(format!("a column of {raw} bytes packed in {packed}"), "a column that fits its block")
                );
            }
            self.columns[i].clear();
            self.columns[i].reserve(raw);
            let done = self.unpacker.decompress_to_buffer(&self.payload[at..at + packed], &mut self.columns[i]);
            if done.ok() != Some(raw) {
                return Err(self.bad("a column that does not unpack", "a zstd frame of the stated size"));
            }
            at += packed;
        }
        if self.columns[KIND].len() != records {
            return Err(self.bad(format!("{} kinds", self.columns[KIND].len()), "one for each record"));
        }
        self.at = [0; COLUMNS];
        self.left = records;
        self.last = Record::new(Op::Read, 0, 0);
        Ok(true)
    }

    fn varint(&mut self, column: usize) -> Option<u64> {
        let bytes = self.columns[column].get(self.at[column]..)?;
        let mut n = 0u64;
        for (i, b) in bytes.iter().take(VARINT_BYTES_MAX).enumerate() {
            n |= u64::from(b & 0x7f) << (7 * i as u32);
            if b & 0x80 == 0 {
                self.at[column] += i + 1;
                return Some(n);
            }
        }
        None
    }

    fn record(&mut self) -> Option<Record> {
        let kind = *self.columns[KIND].get(self.at[KIND])?;
        self.at[KIND] += 1;
        let marks = self.varint(FLAGS)?;
        let flags = Flags(marks as u16);
        let tag = match marks >> 16 {
            0 => None,
            tag => Some(IoTag::from_code(u8::try_from(tag - 1).ok()?)?),
        };
        let time = Nanos(self.last.time.0.wrapping_add(self.varint(TIME)?));
        let jump = self.varint(SECTOR)?;
        let sector = self.last.end().wrapping_add((jump >> 1) ^ (jump & 1).wrapping_neg());
        let sectors = u32::try_from(self.varint(SECTORS)?).ok()?;
        let device = if kind & 1 << 5 != 0 { u32::try_from(self.varint(DEVICE)?).ok()? } else { self.last.device };
        let task = if kind & 1 << 6 != 0 { u32::try_from(self.varint(TASK)?).ok()? } else { self.last.task };
        let wait = if kind & 1 << 3 != 0 { Some(Nanos(self.varint(WAIT)?)) } else { None };
        let latency = if kind & 1 << 4 != 0 { Some(Nanos(self.varint(LATENCY)?)) } else { None };
        let op = *OPS.get(usize::from(kind & 7))?;
        Some(Record { time, sector, latency, wait, sectors, device, task, flags, op, tag })
    }
}

impl Source for Columnar {
    fn next(&mut self) -> Result<Option<Event>, Error> {
        if self.left == 0 && (self.ended || !self.block()?) {
            return Ok(None);
        }
        self.left -= 1;
        let Some(record) = self.record() else {
            return Err(self.bad("a record that does not decode", "nine complete columns"));
        };
        self.records += 1;
        self.last = record;
        Ok(Some(Event::Arrive(record)))
    }

    fn skipped(&self) -> Counts {
        Counts::default()
    }
}
