//! The writer of a format, whatever the file and its compression.

use std::io;

use dumbwaiter_block::Nanos;

use super::columns::{Columns, Layout};
use super::record::{Known, Record};

/// Description of a file for the writer of a format.
pub(crate) struct Writing {
    /// The columns to write, of delimited text.
    pub(crate) columns: Option<Columns>,
    /// Layout of the format; `None` for columns given by the user.
    pub(crate) layout: Option<&'static Layout>,
    /// The fields that the records have.
    pub(crate) known: Known,
}

/// Fields and times that a format can express.
pub(crate) struct Expressible {
    pub(crate) fields: Known,
    /// Measured times.
    pub(crate) measured: bool,
    /// Request flags.
    pub(crate) marks: bool,
    /// I/O tags.
    pub(crate) tags: bool,
}

/// Information that a record lost to the units of the format.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lost {
    /// The time was truncated.
    pub(crate) time: bool,
    /// The range was widened.
    pub(crate) range: bool,
}

/// Writes records in one format. The constructor writes what comes before the first.
pub(crate) trait RecordWriter {
    fn expressible(&self) -> Expressible;

    /// Adds a record to `out`, or says why the format cannot express it. `next` is the arrival of the next record.
    fn write(
        &mut self,
        out: &mut Vec<u8>,
        record: &Record,
        next: Option<Nanos>,
    ) -> io::Result<Result<Lost, &'static str>>;

    /// Adds what comes after the last record, which arrived at `last`.
    fn finish(&mut self, _out: &mut Vec<u8>, _last: Nanos) -> io::Result<()> {
        Ok(())
    }
}

/// Starts to write a file.
pub(crate) type Start = fn(&mut Vec<u8>, Writing) -> io::Result<Box<dyn RecordWriter>>;

/// Why a record is left out.
pub(crate) const NO_WORD: &str = "the format has no word for the operation";
