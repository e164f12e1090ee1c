//! A part of a trace, by time, device, process and number.

use dumbwaiter_block::Nanos;

use super::error::Error;
use super::reader::TraceReader;
use super::record::{Record, Skipped};

/// Which records of a trace to take. The default takes all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// From this time after the first record.
    pub start: Nanos,
    /// Before this time after the first record.
    pub end: Option<Nanos>,
    /// Of these devices: their numbers, `major,minor` or names in the trace; empty for all.
    pub devices: Vec<String>,
    /// Of these processes: their numbers or names in the trace; empty for all.
    pub tasks: Vec<String>,
    /// Without this many of the first that the others keep.
    pub skip: u64,
    /// At most this many.
    pub records: Option<u64>,
}

/// A filter at work.
pub(crate) struct Filtering<'a> {
    filter: &'a Filter,
    devices: Vec<Wanted<'a>>,
    tasks: Vec<Wanted<'a>>,
    /// Records that the others keep, so far.
    kept: u64,
    /// Time of the first record taken.
    first: Option<Nanos>,
    left_out: u64,
}

/// A device or process: its number, or a name of the trace with the number that it has once it appeared.
struct Wanted<'a> {
    name: &'a str,
    number: Option<u32>,
}

impl Wanted<'_> {
    fn is(&mut self, number: u32, of_name: impl Fn(&[u8]) -> Option<u32>) -> bool {
        self.number = self.number.or_else(|| of_name(self.name.as_bytes()));
        self.number == Some(number)
    }
}

/// A number, or `major,minor` as blkparse and the kernel write it.
fn number(text: &str) -> Option<u32> {
    match text.split_once([',', ':']) {
        Some((major, minor)) => Some(major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?),
        None => text.parse().ok(),
    }
}

fn wanted(names: &[String]) -> Vec<Wanted<'_>> {
    names.iter().map(|name| Wanted { name, number: number(name) }).collect()
}

impl Filter {
    pub(crate) fn begin(&self) -> Result<Filtering<'_>, Error> {
        if let Some(end) = self.end.filter(|end| *end <= self.start) {
            return Err(Error::option("end", end.to_string(), "a time after the start"));
        }
        Ok(Filtering {
            filter: self,
            devices: wanted(&self.devices),
            tasks: wanted(&self.tasks),
            kept: 0,
            first: None,
            left_out: 0,
        })
    }
}

impl Filtering<'_> {
    /// Whether no record behind this one is taken.
    pub(crate) fn ended(&self, record: &Record) -> bool {
        let Filter { end, skip, records, .. } = self.filter;
        end.is_some_and(|end| record.time >= end)
            || records.is_some_and(|records| self.kept >= skip.saturating_add(records))
    }

    /// The record as the part has it: times begin with its first.
    pub(crate) fn take(&mut self, reader: &TraceReader, mut record: Record) -> Option<Record> {
        let of_device = |wanted: &mut Wanted| wanted.is(record.device, |name| reader.device_named(name));
        let device = self.devices.is_empty() || self.devices.iter_mut().any(of_device);
        let of_task = |wanted: &mut Wanted| wanted.is(record.task, |name| reader.task_named(name));
        let task = self.tasks.is_empty() || self.tasks.iter_mut().any(of_task);
        let wanted = device && task && record.time >= self.filter.start;
        self.kept += u64::from(wanted);
        if !wanted || self.kept <= self.filter.skip {
            self.left_out += 1;
            return None;
        }
        let first = *self.first.get_or_insert(record.time);
        record.time = record.time.since(first);
        Some(record)
    }

    /// What it left out, and an error where it took nothing.
    pub(crate) fn finish(self) -> Result<Option<Skipped>, Error> {
        if self.first.is_none() {
            let missing = |of: &[Wanted]| of.iter().find(|wanted| wanted.number.is_none()).map(|w| w.name.to_string());
            let unknown = missing(&self.devices).or_else(|| missing(&self.tasks));
            let value = unknown.unwrap_or_default();
            return Err(Error::option("filter", value, "one that leaves at least one record of the trace"));
        }
        let reason = "not of the part that was asked for".to_string();
        Ok((self.left_out > 0).then_some(Skipped { reason, count: self.left_out }))
    }
}
