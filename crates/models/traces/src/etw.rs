//! Text of Windows' event tracing (xperf), as Microsoft's server traces and those of TPC-C and TPC-E have it:
//! `DiskRead, time, process (pid), thread, irp, offset, size, elapsed, disk, flags, service time, …`.
//!
//! A line of `DiskRead`, `DiskWrite` or `DiskFlush` is a completion, and its request arrived before it by the elapsed time; those
//! with `Init` are the same requests again. Times are in µs, offsets and sizes hexadecimal bytes.

use dumbwaiter_block::{Nanos, Op};

use super::input::Input;
use super::number;
use super::record::{Counts, Known, Record};
use super::table::{ROUNDED, arrival};
use super::text::{Fault, Line, LineParser, Opened, Opening, TextSource};

const US: u64 = 1000;

/// The line parser.
#[derive(Default)]
pub(crate) struct Etw {
    rounded: u64,
}

pub(crate) fn open(input: Input, opening: &Opening) -> Opened {
    Ok((Known::ALL, Box::new(TextSource::new(input, Box::new(Etw::default()), opening.format))))
}

/// Whether a file begins as xperf writes it.
pub(crate) fn begins(start: &[u8]) -> bool {
    let text = start.trim_ascii_start();
    let line = &text[..text.iter().position(|b| *b == b'\n').unwrap_or(text.len())];
    text.starts_with(b"BeginHeader") || line.windows(11).any(|w| w == b"DiskSvcTime")
}

fn amount(text: &[u8]) -> Option<u64> {
    if text.starts_with(b"0x") { number::hex(text) } else { number::unsigned(text) }
}

impl LineParser for Etw {
    fn parse(&mut self, line: &[u8]) -> Line {
        let field = |n: usize| line.split(|b| *b == b',').nth(n).unwrap_or(b"").trim_ascii();
        let flush = field(0) == b"DiskFlush";
        let op = match field(0) {
            b"DiskRead" => Op::Read,
            b"DiskWrite" => Op::Write,
            b"DiskFlush" => Op::Flush,
            // Other events, and the lines of the header.
            _ => return Line::Ignored,
        };
        if field(1) == b"TimeStamp" {
            return Line::Ignored;
        }
        let (at_elapsed, at_disk, at_service) = if flush { (5, 6, 8) } else { (7, 8, 10) };
        let mut record = Record::new(op, 0, 0);
        let (Some(time), Some(elapsed)) = (number::time(field(1), US), number::time(field(at_elapsed), US)) else {
            return Fault::line(line, "a time stamp and an elapsed time in us");
        };
        record.time = Nanos(time.wrapping_sub(elapsed));
        record.latency = Some(Nanos(elapsed));
        record.wait = number::time(field(at_service), US).and_then(|service| elapsed.checked_sub(service)).map(Nanos);
        record.device = number::unsigned32(field(at_disk)).unwrap_or(0);
        let process = field(2);
        let pid = process.rsplit(|b| *b == b'(').next().unwrap_or(b"").trim_ascii();
        record.task = number::unsigned32(pid.strip_suffix(b")").unwrap_or(pid).trim_ascii()).unwrap_or(0);
        if flush {
            return arrival(record, 0, 0, &mut self.rounded);
        }
        match (amount(field(5)), amount(field(6))) {
            (Some(offset), Some(bytes)) => arrival(record, offset, bytes, &mut self.rounded),
            _ => Fault::line(line, "an offset and a size in bytes"),
        }
    }

    fn changed(&self) -> Counts {
        Counts::of(ROUNDED, self.rounded)
    }
}
