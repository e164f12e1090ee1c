//! Writes traces in every format except blktrace's and HP's binaries, compressed by the file's extension (`.zst`,
//! `.gz`); a file appears under its name only when complete.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use dumbwaiter_block::{Flags, Nanos};
use dumbwaiter_text::OutputFile;

use super::blkparse;
use super::columnar::ColumnarWriter;
use super::columns::{Column, Columns};
use super::error::Error;
use super::format::Format;
use super::iolog::{HEAD2, HEAD3, IologWriter};
use super::reader::{Known, TraceReader};
use super::record::{Counts, NAMED, Record, Skipped};
use super::replay::STOP_CHECK_RECORDS;
use super::table;
use super::vscsi;

/// Result of writing a trace: records written, skipped and degraded.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Records in the file.
    pub records: u64,
    /// Records skipped, by reason.
    pub left_out: Vec<Skipped>,
    /// Records that lost information, by the information lost.
    pub lost: Vec<Skipped>,
}

/// Compresses the output.
enum Pack {
    Plain(BufWriter<OutputFile>),
    Gzip(flate2::write::GzEncoder<BufWriter<OutputFile>>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<OutputFile>>),
}

impl Pack {
    fn finish(self) -> std::io::Result<OutputFile> {
        let out = match self {
            Pack::Plain(out) => out,
            Pack::Gzip(out) => out.finish()?,
            Pack::Zstd(out) => out.finish()?,
        };
        out.into_inner().map_err(std::io::IntoInnerError::into_error)
    }
}

impl Write for Pack {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Pack::Plain(out) => out.write(bytes),
            Pack::Gzip(out) => out.write(bytes),
            Pack::Zstd(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Pack::Plain(out) => out.flush(),
            Pack::Gzip(out) => out.flush(),
            Pack::Zstd(out) => out.flush(),
        }
    }
}

/// Pending D and C events by time and order, with their requests.
type Later = BTreeMap<(u64, u64), (char, Record)>;

/// State of the writer of one format.
enum Body {
    Table { columns: Columns, delimiter: u8, decimals: Option<usize> },
    Iolog { timed: bool, writer: IologWriter },
    Blkparse { sequence: u64, later: Later },
    Vscsi { version: Option<vscsi::Version>, serial: u32 },
    Columnar(Box<ColumnarWriter<Pack>>),
}

/// Writes a trace file.
pub struct TraceWriter {
    path: PathBuf,
    /// `None` for the columnar format, which owns the output, and after the end.
    out: Option<Pack>,
    body: Body,
    holds: Known,
    /// Whether the format can express measured times.
    measured: bool,
    /// Whether the format can express request flags.
    marks: bool,
    /// Whether it can express I/O tags.
    tags: bool,
    line: Vec<u8>,
    held: Option<Record>,
    records: u64,
    left_out: Counts,
    lost: Counts,
    one_device: Option<u32>,
}

/// The columns to write in `format`: the given ones or the format's own.
fn columns_of(format: Format, columns: Option<&Columns>) -> Result<Option<Columns>, Error> {
    match (format, columns) {
        (Format::Columns, None) => {
            Err(Error::option("format", "columns", "--columns with the columns to write as well"))
        }
        (Format::Columns, Some(c)) => Ok(Some(c.clone())),
        (f, None) => Ok(f.columns()),
        (f, Some(c)) => Err(Error::option("columns", c.as_str(), format!("no columns together with format {f}"))),
    }
}

/// The fields that `format` can express.
fn expressible(format: Format, columns: Option<&Columns>) -> Known {
    match (format, columns) {
        (_, Some(c)) => {
            Known { times: c.has_time(), sizes: c.has_size(), devices: c.has_device(), tasks: c.has_task() }
        }
        (Format::Vscsi, _) => Known { times: true, sizes: true, devices: false, tasks: false },
        (Format::Iolog2 | Format::Iolog3, _) => Known { times: true, sizes: true, devices: true, tasks: false },
        _ => Known { times: true, sizes: true, devices: true, tasks: true },
    }
}

impl TraceWriter {
    /// Starts a file of `format`; `columns` for [`Format::Columns`]. `known` is what the records contain.
    ///
    /// # Errors
    /// A format that cannot be written, contradictory options, or a file that cannot be created.
    pub fn create(path: &Path, format: Format, columns: Option<&Columns>, known: Known) -> Result<TraceWriter, Error> {
        if !format.writable() {
            let writable: Vec<&str> = Format::ALL.iter().filter(|f| f.writable()).map(|f| f.name()).collect();
            return Err(Error::option(
                "format",
                format.name(),
                format!("one that can be written: {}", writable.join(", ")),
            ));
        }
        let columns = columns_of(format, columns)?;
        let file = OutputFile::create(path).map_err(|e| Error::io(path, "write", e))?;
        let buffered = BufWriter::with_capacity(256 << 10, file);
        let out = match path.extension().and_then(|e| e.to_str()) {
            Some("gz") => Pack::Gzip(flate2::write::GzEncoder::new(buffered, flate2::Compression::default())),
            Some("zst") => {
                let encoder = zstd::stream::write::Encoder::new(buffered, 3);
                Pack::Zstd(encoder.map_err(|e| Error::io(path, "write", e))?)
            }
            _ => Pack::Plain(buffered),
        };
        let holds = expressible(format, columns.as_ref());
        let whole = matches!(format, Format::Blkparse | Format::Columnar);
        let latency = |c: &Columns| c.has(|c| matches!(c, Column::Latency(_)));
        let measured = whole || format == Format::Vscsi || columns.as_ref().is_some_and(latency);
        let mut writer = TraceWriter {
            path: path.to_path_buf(),
            out: None,
            body: Body::Vscsi { version: None, serial: 0 },
            holds,
            measured,
            marks: whole,
            tags: format == Format::Columnar || columns.as_ref().is_some_and(|c| c.has(|c| *c == Column::Tag)),
            line: Vec::new(),
            held: None,
            records: 0,
            left_out: Counts::default(),
            lost: Counts::default(),
            one_device: None,
        };
        writer.body = match (format, columns) {
            (Format::Columnar, _) => {
                let body = ColumnarWriter::new(out, known.bits()).map_err(|e| Error::io(path, "write", e))?;
                writer.body = Body::Columnar(Box::new(body));
                return Ok(writer);
            }
            (Format::Iolog2 | Format::Iolog3, _) => {
                let timed = format == Format::Iolog3;
                writer.line.extend(if timed { HEAD3 } else { HEAD2 });
                writer.line.push(b'\n');
                Body::Iolog { timed, writer: IologWriter::default() }
            }
            (Format::Blkparse, _) => Body::Blkparse { sequence: 0, later: Later::new() },
            (_, Some(columns)) => {
                let layout = format.layout();
                let delimiter = layout.as_ref().map_or(b',', |l| l.delimiter);
                let decimals = layout.as_ref().map_or(Some(0), |l| l.decimals);
                let header = layout.map_or(Some(columns.as_str()), |l| l.header);
                if let Some(header) = header {
                    writer.line.extend(header.as_bytes());
                    writer.line.push(b'\n');
                }
                Body::Table { columns, delimiter, decimals }
            }
            _ => Body::Vscsi { version: None, serial: 0 },
        };
        writer.out = Some(out);
        Ok(writer)
    }

    fn failed(&self) -> impl Fn(std::io::Error) -> Error + use<> {
        let path = self.path.clone();
        move |e| Error::io(&path, "write", e)
    }

    /// Adds a record; times must not decrease.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, record: &Record) -> Result<(), Error> {
        match self.held.replace(*record) {
            Some(before) => self.emit(&before, Some(record.time)),
            None => Ok(()),
        }
    }

    fn emit(&mut self, r: &Record, next: Option<Nanos>) -> Result<(), Error> {
        let line = &mut self.line;
        let mut fits = true;
        match &mut self.body {
            Body::Table { columns, delimiter, decimals } => {
                let lost = table::write_line(line, r, next, columns, *delimiter, *decimals);
                if lost.op {
                    self.left_out.add("the format has no word for the operation", 1);
                    fits = false;
                } else {
                    line.push(b'\n');
                    self.lost.add("time cut to the format's unit", u64::from(lost.time));
                    self.lost.add("range widened to the format's unit", u64::from(lost.range));
                }
            }
            Body::Iolog { timed, writer } => {
                fits = writer.write(line, r, *timed);
                if fits {
                    self.lost.add("time cut to the format's unit", u64::from(!r.time.0.is_multiple_of(1000)));
                } else {
                    self.left_out.add("the format has no word for the operation", 1);
                }
            }
            Body::Blkparse { sequence, later } => {
                later_lines(line, later, r.time.0, sequence);
                *sequence += 1;
                blkparse::write_line(line, r, *sequence, 'Q', r.time);
                let times = [('D', r.wait), ('C', r.latency)];
                for (event, after) in times.into_iter().filter_map(|(e, t)| Some((e, t?))).filter(|_| r.sectors > 0) {
                    // At equal times D comes before C.
                    let order = *sequence << 1 | u64::from(event == 'C');
                    later.insert((r.time.0.saturating_add(after.0), order), (event, *r));
                }
            }
            Body::Vscsi { version, serial } => {
                let with = if r.latency.is_some() { vscsi::Version::Two } else { vscsi::Version::One };
                let version = *version.get_or_insert(with);
                match vscsi::write(line, r, *serial, version) {
                    Some(cut) => self.lost.add("time cut to the format's unit", u64::from(cut)),
                    None => {
                        self.left_out.add("longer than 4 GiB", 1);
                        fits = false;
                    }
                }
                *serial = serial.wrapping_add(1);
            }
            Body::Columnar(body) => {
                let path = &self.path;
                body.write(r).map_err(|e| Error::io(path, "write", e))?;
            }
        }
        if fits {
            self.records += 1;
            self.tell_lost(r);
        }
        if self.line.len() > 64 << 10 {
            self.flush_line()?;
        }
        Ok(())
    }

    /// Counts information that the format cannot express.
    fn tell_lost(&mut self, r: &Record) {
        let measured = r.latency.is_some() || r.wait.is_some();
        let other_device = !self.holds.devices && *self.one_device.get_or_insert(r.device) != r.device;
        let lost = [
            ("no place for the time", !self.holds.times && r.time.0 > 0),
            ("no place for the size", !self.holds.sizes),
            ("no place for the device", other_device),
            ("no place for the task", !self.holds.tasks && r.task != 0),
            ("no place for measured times", !self.measured && measured),
            ("no place for marks (sync, metadata, read-ahead, FUA)", !self.marks && r.flags != Flags::NONE),
            ("no place for the I/O tag", !self.tags && r.tag.is_some()),
            ("name of the device written as a number", self.holds.devices && !self.marks && r.device & NAMED != 0),
        ];
        lost.iter().filter(|(_, is)| *is).for_each(|(what, _)| self.lost.add(what, 1));
    }

    fn flush_line(&mut self) -> Result<(), Error> {
        let failed = self.failed();
        if let Some(out) = &mut self.out {
            out.write_all(&self.line).map_err(failed)?;
        }
        self.line.clear();
        Ok(())
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self) -> Result<Written, Error> {
        let last = self.held.map_or(Nanos(0), |r| r.time);
        if let Some(r) = self.held.take() {
            self.emit(&r, None)?;
        }
        match &mut self.body {
            Body::Iolog { timed, writer } => writer.finish(&mut self.line, *timed, last),
            Body::Blkparse { sequence, later } => {
                later_lines(&mut self.line, later, u64::MAX, sequence);
            }
            _ => {}
        }
        self.flush_line()?;
        let failed = self.failed();
        let out = match self.body {
            Body::Columnar(body) => Some(body.finish().map_err(&failed)?),
            _ => self.out.take(),
        };
        let out = out.expect("only the columnar body takes the output");
        out.finish().and_then(OutputFile::commit).map_err(&failed)?;
        Ok(Written { records: self.records, left_out: self.left_out.report(), lost: self.lost.report() })
    }
}

/// Writes the D and C events before `now`.
fn later_lines(line: &mut Vec<u8>, later: &mut Later, now: u64, sequence: &mut u64) {
    while let Some(first) = later.first_entry()
        && first.key().0 < now
    {
        let ((time, _), (event, record)) = first.remove_entry();
        *sequence += 1;
        blkparse::write_line(line, &record, *sequence, event, Nanos(time));
    }
}

/// Writes the rest of a trace to another file, unless `stopped` answers yes: then there is no file.
///
/// # Errors
/// As [`TraceReader::next_record`] and [`TraceWriter::create`], and [`Error::Interrupted`].
pub fn convert(
    reader: &mut TraceReader,
    path: &Path,
    format: Format,
    columns: Option<&Columns>,
    stopped: &dyn Fn() -> bool,
) -> Result<Written, Error> {
    let mut writer = TraceWriter::create(path, format, columns, reader.known())?;
    let mut written = 0u64;
    while let Some(record) = reader.next_record()? {
        if written.is_multiple_of(STOP_CHECK_RECORDS) && stopped() {
            return Err(Error::Interrupted);
        }
        writer.write(&record)?;
        written += 1;
    }
    writer.finish()
}
