//! Events as lines of blkparse, for the trace reader, which matches issues and completions with arrivals.

use std::io::{Read, Write};

use dumbwaiter_traces::{self as traces, Format, Written};

use crate::recording::about::About;
use crate::recording::event::{Event, Kind, text};
use crate::recording::options::Options;

/// A reader of the lines, made as they are read.
struct Lines {
    events: std::vec::IntoIter<Event>,
    first: u64,
    device: (u32, u32),
    sequence: u64,
    line: Vec<u8>,
    given: usize,
}

impl Read for Lines {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.given == self.line.len() {
            let Some(e) = self.events.next() else { return Ok(0) };
            let letter = match e.kind {
                Kind::Bio => 'Q',
                Kind::Issue => 'D',
                Kind::Complete => 'C',
                _ => continue,
            };
            self.line.clear();
            self.given = 0;
            self.sequence += 1;
            let at = e.at - self.first;
            let (major, minor) = self.device;
            let (s, ns) = (at / 1_000_000_000, at % 1_000_000_000);
            let (cpu, pid, sequence) = (e.cpu, e.pid, self.sequence);
            write!(self.line, "{major},{minor} {cpu} {sequence} {s}.{ns:09} {pid} {letter} {} ", text(&e.rwbs))?;
            if e.bytes > 0 {
                write!(self.line, "{} + {} ", e.sector, e.bytes / dumbwaiter_block::SECTOR_BYTES)?;
            }
            self.line.extend_from_slice(b"[0]\n");
        }
        let n = buffer.len().min(self.line.len() - self.given);
        buffer[..n].copy_from_slice(&self.line[self.given..self.given + n]);
        self.given += n;
        Ok(n)
    }
}

/// Writes the trace; nothing where there was no I/O, because every trace reader refuses an empty trace.
pub(crate) fn write(events: &[Event], about: &About, options: &Options) -> Result<Option<Written>, traces::Error> {
    let kept: Vec<Event> =
        events.iter().filter(|e| matches!(e.kind, Kind::Bio | Kind::Issue | Kind::Complete)).copied().collect();
    if kept.is_empty() {
        return Ok(None);
    }
    let lines = Lines {
        first: kept.first().map_or(0, |e| e.at),
        events: kept.into_iter(),
        device: about.dev,
        sequence: 0,
        line: Vec::new(),
        given: 0,
    };
    let reading = traces::Options { format: Some(Format::Blkparse), ..traces::Options::default() };
    let mut reader = traces::open_reader(&about.name, Box::new(lines), &reading)?;
    traces::convert(&mut reader, &options.output, options.format, None, &traces::Filter::default(), &|| false).map(Some)
}
