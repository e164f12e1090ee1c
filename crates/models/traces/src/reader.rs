//! Opens traces and reads their records.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};

use dumbwaiter_block::{Nanos, Op, SECTOR_BYTES};

use super::columns::{Column, Columns};
use super::detect::{self, Found};
use super::error::{Error, show};
use super::format::Format;
use super::guess;
use super::input::{Input, LOOK_AHEAD_BYTES};
use super::record::{Arrival, Counts, Event, Known, Record, Skipped};
use super::summaries;
use super::table::{self, ASSUMED_BYTES, SECTORS_MAX, TOO_LONG};
use super::text::{Named, Opening, Source, first_lines};
use super::window::{Pairer, Sorter};

/// Sort window of nearly sorted formats (blkparse, blktrace), in events.
pub const SORT_WINDOW: usize = 1 << 16;
/// Arrivals that such a reader delays to find their measured times.
const PAIR_WINDOW: usize = 1 << 15;

/// How to read a trace.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The format; `None` detects it.
    pub format: Option<Format>,
    /// Columns of delimited text; implies [`Format::Columns`].
    pub columns: Option<Columns>,
    /// The event of blkparse and blktrace that counts as arrival; `None` takes Q if there are any, else I, D, C.
    pub arrival: Option<Arrival>,
    /// Sort window in events; 0 keeps the order of the file. `None`: [`SORT_WINDOW`] for blkparse and blktrace, else 0.
    /// A record earlier than one already returned gets that record's time and is counted.
    pub sort_window: Option<usize>,
    /// Size of each request of traces without sizes, bytes; `None` for 4096.
    pub assume_bytes: Option<u32>,
}

/// A stream of the records of one or several trace files, merged by time.
pub struct TraceReader {
    paths: Vec<PathBuf>,
    format: Format,
    known: Known,
    notes: Vec<String>,
    sources: Vec<Box<dyn Source>>,
    /// The next event of each of several files.
    heads: BinaryHeap<Reverse<(i64, usize)>>,
    pending: Vec<Option<Event>>,
    origin: u64,
    sorter: Option<Sorter>,
    pairer: Option<Pairer>,
    /// The end of the trace is reached.
    drained: bool,
    /// Iteration has ended with an error.
    failed: bool,
    /// Raw time of the first record.
    first: Option<u64>,
    last: u64,
    delivered: u64,
    backwards: u64,
    skipped: Counts,
}

/// Opens a trace of one or several files of one format (per-CPU files of blktrace, or parts).
///
/// # Errors
/// A file that cannot be read, an unknown format, or contradictory options.
pub fn open<P: AsRef<Path>>(paths: &[P], options: &Options) -> Result<TraceReader, Error> {
    if paths.is_empty() {
        return Err(Error::option("trace", "", "at least one file"));
    }
    let mut inputs = Vec::new();
    for path in paths {
        let mut input = Input::open(path.as_ref())?;
        if input.at_end()? {
            return Err(Error::Empty { path: path.as_ref().into() });
        }
        inputs.push(input);
    }
    TraceReader::over(inputs, options)
}

/// Opens a trace that is read from `reader`; messages call it `name`.
///
/// # Errors
/// As [`open`].
pub fn open_reader(name: &str, reader: Box<dyn std::io::Read + Send>, options: &Options) -> Result<TraceReader, Error> {
    let mut input = Input::over(Path::new(name), reader)?;
    if input.at_end()? {
        return Err(Error::Empty { path: name.into() });
    }
    TraceReader::over(vec![input], options)
}

impl TraceReader {
    fn over(mut inputs: Vec<Input>, options: &Options) -> Result<TraceReader, Error> {
        let paths: Vec<PathBuf> = inputs.iter().map(|i| i.path().to_path_buf()).collect();
        let mut notes = Vec::new();
        let (format, columns) = agreed(&mut inputs, options, &mut notes)?;
        let row = format.row();
        let events = columns.as_ref().filter(|columns| columns.has(|c| *c == Column::Event));
        let arrival = match (row.arrivals, events, options.arrival) {
            (Some(arrivals), _, None) => Some(pick_arrival(&mut inputs, &arrivals, &mut notes)?),
            (None, Some(columns), None) => {
                let arrivals = |start: &[u8], all: bool| table::arrivals(start, all, columns);
                Some(pick_arrival(&mut inputs, &arrivals, &mut notes)?)
            }
            (there, events, given) => given.filter(|_| there.is_some() || events.is_some()),
        };
        let opening = Opening {
            format: row.name,
            layout: row.layout.as_ref(),
            columns: columns.as_ref(),
            arrival: arrival.unwrap_or(Arrival::Queue),
            assumed: options.assume_bytes.unwrap_or(ASSUMED_BYTES),
        };
        let mut known = Known::ALL;
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        for input in inputs {
            let (of_file, source) = (row.open)(input, &opening)?;
            known = of_file;
            sources.push(source);
        }
        if !known.times {
            notes.push("no times: the order is known, the arrivals are not (open-loop replay is not possible)".into());
        }
        if !known.sizes {
            notes.push(format!("no sizes: each request is taken as {} bytes (--assume-bytes)", opening.assumed));
        }
        notes.extend(row.note.map(str::to_string));
        let completions = columns.as_ref().is_some_and(Columns::completions_only) || row.completions;
        if completions {
            notes.push("lines are completions: each arrival is the completion less the measured latency".into());
        }
        let sorted = if arrival.is_some() || completions { SORT_WINDOW } else { 0 };
        let window = options.sort_window.unwrap_or(sorted);
        let pairing = arrival.is_some_and(|a| a != Arrival::Complete);
        let mut reader = TraceReader {
            paths,
            format,
            known,
            notes,
            pending: sources.iter().map(|_| None).collect(),
            sources,
            heads: BinaryHeap::new(),
            origin: 0,
            sorter: (window > 0).then(|| Sorter::new(window)),
            pairer: pairing.then(|| Pairer::new(PAIR_WINDOW)),
            drained: false,
            failed: false,
            first: None,
            last: 0,
            delivered: 0,
            backwards: 0,
            skipped: Counts::default(),
        };
        if reader.sources.len() > 1 {
            reader.prime()?;
        }
        Ok(reader)
    }

    /// Reads the first event of each file.
    fn prime(&mut self) -> Result<(), Error> {
        for i in 0..self.sources.len() {
            self.pending[i] = self.sources[i].next()?;
        }
        let firsts = self.pending.iter().flatten().map(Event::time);
        self.origin = firsts.min().unwrap_or(0);
        for (i, event) in self.pending.iter().enumerate() {
            if let Some(e) = event {
                self.heads.push(Reverse((e.time().wrapping_sub(self.origin) as i64, i)));
            }
        }
        Ok(())
    }

    /// The next event of all files.
    fn merged(&mut self) -> Result<Option<Event>, Error> {
        if let [only] = self.sources.as_mut_slice() {
            return only.next();
        }
        let Some(Reverse((_, i))) = self.heads.pop() else { return Ok(None) };
        let event = self.pending[i].take();
        self.pending[i] = self.sources[i].next()?;
        if let Some(e) = &self.pending[i] {
            self.heads.push(Reverse((e.time().wrapping_sub(self.origin) as i64, i)));
        }
        Ok(event)
    }

    /// The next event, sorted within the window.
    fn sorted(&mut self) -> Result<Option<Event>, Error> {
        if self.sorter.is_none() {
            return self.merged();
        }
        loop {
            if let Some(sorter) = &mut self.sorter
                && (self.drained || sorter.full())
            {
                return Ok(sorter.pop());
            }
            match (self.merged()?, &mut self.sorter) {
                (Some(event), Some(sorter)) => sorter.push(event),
                _ => self.drained = true,
            }
        }
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// A read error, or text that is mostly not of the format.
    pub fn next_record(&mut self) -> Result<Option<Record>, Error> {
        loop {
            if let Some(pairer) = &mut self.pairer
                && pairer.full()
                && let Some(record) = pairer.pop()
            {
                return Ok(Some(self.deliver(record)));
            }
            match (self.sorted()?, &mut self.pairer) {
                (None, pairer) => {
                    return match pairer.as_mut().and_then(Pairer::pop) {
                        Some(record) => Ok(Some(self.deliver(record))),
                        None => self.end(),
                    };
                }
                (Some(Event::Arrive(mut record)), pairer) => {
                    if record.op == Op::Flush {
                        (record.sector, record.sectors) = (0, 0);
                    } else if record.sectors == 0 {
                        self.skipped.add("zero length", 1);
                        continue;
                    }
                    if record.sectors > SECTORS_MAX {
                        self.skipped.add(TOO_LONG, 1);
                        continue;
                    }
                    if record.sector > u64::MAX / SECTOR_BYTES - u64::from(record.sectors) {
                        self.skipped.add("address over 64 bits", 1);
                        continue;
                    }
                    match pairer {
                        Some(pairer) => pairer.arrive(record),
                        None => return Ok(Some(self.deliver(record))),
                    }
                }
                (Some(Event::Issue(span)), Some(pairer)) => pairer.issue(span),
                (Some(Event::Complete(span)), Some(pairer)) => pairer.complete(span),
                (Some(_), None) => {}
            }
        }
    }

    /// Makes a raw time relative to the first record and non-decreasing.
    fn deliver(&mut self, mut record: Record) -> Record {
        let first = *self.first.get_or_insert(record.time.0);
        let time = record.time.0.wrapping_sub(first) as i64;
        if time < 0 || (time as u64) < self.last {
            self.backwards += 1;
        } else {
            self.last = time as u64;
        }
        record.time = Nanos(self.last);
        self.delivered += 1;
        record
    }

    fn end(&mut self) -> Result<Option<Record>, Error> {
        if self.delivered > 0 {
            return Ok(None);
        }
        let skipped = self.skipped();
        let reasons: Vec<&str> = skipped.iter().map(|s| s.reason.as_str()).collect();
        let why = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join(", ")) };
        Err(Error::NoRecords {
            path: self.paths[0].clone(),
            format: self.format.name().into(),
            skipped: skipped.iter().map(|s| s.count).sum(),
            why,
        })
    }

    /// The files.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The format, detected or given.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Fields that the records have.
    pub fn known(&self) -> Known {
        self.known
    }

    /// Names of missing fields: `time`, `size`.
    pub fn missing(&self) -> Vec<&'static str> {
        [("time", self.known.times), ("size", self.known.sizes)].iter().filter(|(_, k)| !k).map(|(n, _)| *n).collect()
    }

    /// Notes for the user: the choice among similar formats, the arrival event, assumptions.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Records skipped so far, by reason.
    pub fn skipped(&self) -> Vec<Skipped> {
        let mut all = Counts::default();
        self.sources.iter().for_each(|s| all.merge(&s.skipped()));
        all.merge(&self.skipped);
        all.report()
    }

    /// The number of the device that the trace so far calls by this name.
    pub fn device_named(&self, name: &[u8]) -> Option<u32> {
        self.sources.iter().find_map(|source| source.named(Named::Device, name))
    }

    /// The number of the process that the trace so far calls by this name.
    pub fn task_named(&self, name: &[u8]) -> Option<u32> {
        self.sources.iter().find_map(|source| source.named(Named::Task, name))
    }

    /// The first line so far that was left out although it may be a request, and why.
    pub fn example(&self) -> Option<String> {
        self.sources.iter().find_map(|source| source.example())
    }

    /// Records changed so far, by reason: times that went backwards, ranges widened to whole sectors.
    pub fn changed(&self) -> Vec<Skipped> {
        let mut all = Counts::default();
        self.sources.iter().for_each(|s| all.merge(&s.changed()));
        all.add("time before the record in front; moved up to it", self.backwards);
        all.report()
    }
}

impl Iterator for TraceReader {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Result<Record, Error>> {
        if self.failed {
            return None;
        }
        let next = self.next_record().transpose();
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}

/// The format of all files, and the columns of delimited ones.
fn agreed(
    inputs: &mut [Input],
    options: &Options,
    notes: &mut Vec<String>,
) -> Result<(Format, Option<Columns>), Error> {
    let mut format = None;
    let mut columns = options.columns.clone();
    for input in inputs {
        let found = identify(input, options)?;
        if *format.get_or_insert(found.format) != found.format {
            let other = format.map_or("", Format::name);
            let expected = format!("all files of one format; the first is {other}");
            return Err(Error::bad(input.path(), "header".into(), found.format.name(), expected));
        }
        if !found.others.is_empty() && notes.is_empty() {
            let names: Vec<&str> = found.others.iter().map(|f| f.name()).collect();
            let (took, or) = (found.format, names.join(" or "));
            notes.push(format!("taken as {took}; it could also be {or} (--format {})", names[0]));
        }
        if let Some(source) = found.source {
            let as_format = if found.format == Format::Columns { "" } else { ", with the format and units of it" };
            notes.push(format!("the header is that of {source}{as_format}"));
        }
        if !found.unused.is_empty() {
            notes.push(format!("columns that are not used: {}", found.unused.join(", ")));
        }
        columns = columns.or(found.columns);
    }
    Ok((format.expect("there is a file"), columns))
}

/// Format of a file, from the options or its content.
fn identify(input: &mut Input, options: &Options) -> Result<Found, Error> {
    let named = match (options.format, &options.columns) {
        (Some(f), Some(c)) if f != Format::Columns => {
            return Err(Error::option("columns", c.as_str(), format!("no columns together with format {f}")));
        }
        (Some(Format::Columns), None) => None,
        (_, Some(_)) => Some(Format::Columns),
        (f, None) => f,
    };
    if let Some(format) = named {
        return Ok(Found::only(format));
    }
    let input_path = input.path().to_path_buf();
    let start = input.peek(LOOK_AHEAD_BYTES)?;
    let all = start.len() < LOOK_AHEAD_BYTES;
    let found = match (detect::detect(start, all), summaries::find(start)) {
        (Err(_), Some(summaries::Found { tool, tells, figures })) => {
            return Err(Error::Summary { path: input_path, tool, tells, figures });
        }
        (found, _) => found.map_err(|unclear| Error::header(input_path.as_path(), &unclear))?,
    };
    let line = &start[..start.iter().position(|b| *b == b'\n').unwrap_or(start.len())];
    let shown = show(line);
    if options.format == Some(Format::Columns) && found.as_ref().is_none_or(|f| f.columns.is_none()) {
        return Err(Error::option("format", "columns", "--columns as well, or a header line that names the columns"));
    }
    let result = start.trim_ascii_start().starts_with(b"{") && start.windows(8).any(|w| w == b"\"schema\"");
    match found {
        Some(found) => Ok(found),
        None if result => {
            Err(Error::bad(&input_path, "1".into(), "a result", "a trace; `dumbwaiter report` prints results"))
        }
        None => match summaries::find(start) {
            Some(summaries::Found { tool, tells, figures }) => {
                Err(Error::Summary { path: input_path, tool, tells, figures })
            }
            None => {
                let proposal = guess::columns_of(&first_lines(start, all));
                Err(Error::Unknown { path: input_path, start: shown, proposal })
            }
        },
    }
}

/// The earliest kind of event at the starts of the files.
fn pick_arrival(
    inputs: &mut [Input],
    arrivals: &dyn Fn(&[u8], bool) -> Vec<Arrival>,
    notes: &mut Vec<String>,
) -> Result<Arrival, Error> {
    let mut there = Vec::new();
    for input in inputs {
        let start = input.peek(LOOK_AHEAD_BYTES)?;
        there.extend(arrivals(start, start.len() < LOOK_AHEAD_BYTES));
    }
    let arrival = there.into_iter().min().unwrap_or(Arrival::Queue);
    notes.push(format!("arrivals are the {} events", arrival.letter()));
    Ok(arrival)
}
