//! The rows of a recording as text: lines, columns, and what their words mean.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use dumbwaiter_block::Op;

use crate::error::Error;

/// Longest line.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Most rows: they are kept in memory.
const ROWS_MAX: u64 = 1 << 26;
/// Latest time of a row: 30 years after the first.
pub(crate) const TIME_NS_MAX: u64 = 1 << 60;
/// Highest sector: the end of 16 EiB.
pub(crate) const SECTOR_MAX: u64 = 1 << 55;

/// The first line.
pub(crate) const HEADER: &str = "ts_ns,event,req,sector,bytes,op,flags,pid,ioprio,cpu";

/// Reads the rows of a recording, plain or zstd, and calls `each` with the number and the text of every line: the first one is
/// the header. Messages call the file `path`.
///
/// # Errors
///
/// The file cannot be read, is too long, has no rows, or `each` says what is wrong with one.
pub(crate) fn each_line(
    path: &Path,
    mut rows: impl Read,
    each: &mut dyn FnMut(u64, &str) -> Result<(), String>,
) -> Result<(), Error> {
    let io = |cause| Error::Io { path: path.to_owned(), cause };
    let mut magic = Vec::new();
    rows.by_ref().take(4).read_to_end(&mut magic).map_err(io)?;
    let packed = magic == [0x28, 0xb5, 0x2f, 0xfd];
    let whole = std::io::Cursor::new(magic).chain(rows);
    let mut input: Box<dyn BufRead + '_> = match packed {
        true => Box::new(BufReader::new(zstd::Decoder::new(whole).map_err(io)?)),
        false => Box::new(BufReader::new(whole)),
    };
    let mut text = String::new();
    let mut line = 0;
    loop {
        text.clear();
        let fail = |what: String| Error::Row { path: path.into(), line: line + 1, what };
        let got = input.by_ref().take(LINE_BYTES_MAX).read_line(&mut text);
        let got = got.map_err(|e| fail(format!("cannot be read: {e}")))?;
        if got == 0 && line < 2 {
            return Err(Error::Row {
                path: path.into(),
                line: 1,
                what: "no rows: expected a dispatch recording".into(),
            });
        }
        if got == 0 {
            return Ok(());
        }
        if got as u64 == LINE_BYTES_MAX && !text.ends_with('\n') {
            return Err(fail("a line of more than 1 MiB; expected a row of 10 fields".into()));
        }
        if line > ROWS_MAX {
            return Err(fail(format!("more than {ROWS_MAX} rows; record for a shorter time")));
        }
        each(line + 1, text.trim_end()).map_err(fail)?;
        line += 1;
    }
}

/// The start of a text for a message, control characters escaped.
pub(crate) fn shown(text: &str) -> String {
    let start: String = text.chars().take(80).flat_map(char::escape_debug).collect();
    if text.chars().nth(80).is_some() { start + "…" } else { start }
}

/// The value of a key among the details of a row, which spaces or semicolons part.
pub(crate) fn value_of<'a>(details: &'a str, key: &str) -> Option<&'a str> {
    details.split([' ', ';']).find_map(|part| part.strip_prefix(key)?.strip_prefix('='))
}

/// The operation of a letter; a read where there is none.
pub(crate) fn op_of(letter: &str) -> Op {
    match letter {
        "W" => Op::Write,
        "D" => Op::Discard,
        "F" => Op::Flush,
        _ => Op::Read,
    }
}
