//! Writes traces in every format that has a writer, compressed by the file's extension (`.zst`,
//! `.gz`); a file appears under its name only when complete.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use dumbwaiter_block::{Flags, Nanos};
use dumbwaiter_text::OutputFile;

use super::columns::{Columns, Layout};
use super::error::Error;
use super::filter::Filter;
use super::format::Format;
use super::reader::TraceReader;
use super::record::{Counts, Known, NAMED, Record, Skipped};
use super::record_writer::{Expressible, RecordWriter, Writing};
use super::replay::STOP_CHECK_RECORDS;

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

/// Writes a trace file.
pub struct TraceWriter {
    path: PathBuf,
    out: Pack,
    body: Box<dyn RecordWriter>,
    expressible: Expressible,
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
        (f, None) => Ok(f.row().layout.as_ref().map(Layout::list)),
        (f, Some(c)) => Err(Error::option("columns", c.as_str(), format!("no columns together with format {f}"))),
    }
}

impl TraceWriter {
    /// Starts a file of `format`; `columns` for [`Format::Columns`]. `known` is what the records contain.
    ///
    /// # Errors
    /// A format that cannot be written, contradictory options, or a file that cannot be created.
    pub fn create(path: &Path, format: Format, columns: Option<&Columns>, known: Known) -> Result<TraceWriter, Error> {
        let Some(start) = format.row().writer else {
            let writable: Vec<&str> = Format::ALL.iter().filter(|f| f.writable()).map(|f| f.name()).collect();
            return Err(Error::option(
                "format",
                format.name(),
                format!("one that can be written: {}", writable.join(", ")),
            ));
        };
        let columns = columns_of(format, columns)?;
        let failed = |e| Error::io(path, "write", e);
        let file = OutputFile::create(path).map_err(failed)?;
        let buffered = BufWriter::with_capacity(256 << 10, file);
        let out = match path.extension().and_then(|e| e.to_str()) {
            Some("gz") => Pack::Gzip(flate2::write::GzEncoder::new(buffered, flate2::Compression::default())),
            Some("zst") => Pack::Zstd(zstd::stream::write::Encoder::new(buffered, 3).map_err(failed)?),
            _ => Pack::Plain(buffered),
        };
        let mut line = Vec::new();
        let writing = Writing { columns, layout: format.row().layout.as_ref(), known };
        let body = start(&mut line, writing).map_err(failed)?;
        Ok(TraceWriter {
            path: path.to_path_buf(),
            out,
            expressible: body.expressible(),
            body,
            line,
            held: None,
            records: 0,
            left_out: Counts::default(),
            lost: Counts::default(),
            one_device: None,
        })
    }

    fn failed(&self, e: std::io::Error) -> Error {
        Error::io(&self.path, "write", e)
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
        match self.body.write(&mut self.line, r, next).map_err(|e| self.failed(e))? {
            Ok(lost) => {
                self.lost.add("time cut to the format's unit", u64::from(lost.time));
                self.lost.add("range widened to the format's unit", u64::from(lost.range));
                self.records += 1;
                self.count_lost(r);
            }
            Err(reason) => self.left_out.add(reason, 1),
        }
        if self.line.len() > 64 << 10 {
            self.flush_line()?;
        }
        Ok(())
    }

    /// Counts information that the format cannot express.
    fn count_lost(&mut self, r: &Record) {
        let measured = r.latency.is_some() || r.wait.is_some();
        let Expressible { fields, measured: times, marks, tags } = &self.expressible;
        let other_device = !fields.devices && *self.one_device.get_or_insert(r.device) != r.device;
        let lost = [
            ("no place for the time", !fields.times && r.time.0 > 0),
            ("no place for the size", !fields.sizes),
            ("no place for the device", other_device),
            ("no place for the task", !fields.tasks && r.task != 0),
            ("no place for measured times", !times && measured),
            ("no place for marks (sync, metadata, read-ahead, FUA)", !marks && r.flags != Flags::NONE),
            ("no place for the I/O tag", !tags && r.tag.is_some()),
            ("name of the device written as a number", fields.devices && !marks && r.device & NAMED != 0),
        ];
        lost.iter().filter(|(_, is)| *is).for_each(|(what, _)| self.lost.add(what, 1));
    }

    fn flush_line(&mut self) -> Result<(), Error> {
        self.out.write_all(&self.line).map_err(|e| self.failed(e))?;
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
        self.body.finish(&mut self.line, last).map_err(|e| self.failed(e))?;
        self.flush_line()?;
        let path = self.path;
        self.out.finish().and_then(OutputFile::commit).map_err(|e| Error::io(&path, "write", e))?;
        Ok(Written { records: self.records, left_out: self.left_out.report(), lost: self.lost.report() })
    }
}

/// Writes the rest of a trace, or the part of it that `filter` takes, to another file, unless `stopped` answers yes: then there is no file.
///
/// # Errors
/// As [`TraceReader::next_record`] and [`TraceWriter::create`], and [`Error::Interrupted`].
pub fn convert(
    reader: &mut TraceReader,
    path: &Path,
    format: Format,
    columns: Option<&Columns>,
    filter: &Filter,
    stopped: &dyn Fn() -> bool,
) -> Result<Written, Error> {
    let mut writer = TraceWriter::create(path, format, columns, reader.known())?;
    let mut filtering = filter.begin()?;
    let mut read = 0u64;
    while let Some(record) = reader.next_record()? {
        if read.is_multiple_of(STOP_CHECK_RECORDS) && stopped() {
            return Err(Error::Interrupted);
        }
        read += 1;
        if filtering.ended(&record) {
            break;
        }
        if let Some(record) = filtering.take(reader, record) {
            writer.write(&record)?;
        }
    }
    let left_out = filtering.finish()?;
    let mut written = writer.finish()?;
    written.left_out.extend(left_out);
    Ok(written)
}
