//! One data file.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::RequestRecord;
use dumbwaiter_block::{IoTag, Nanos, Op};

use super::{Run, Segment};
use crate::training::Error;

/// Longest data file that is read, in bytes after unpacking: some ten million requests.
const LONGEST_FILE: u64 = 1 << 30;

/// Columns that are used; others are ignored.
struct Columns {
    segment: Option<usize>,
    time: usize,
    op: usize,
    sector: usize,
    bytes: usize,
    wait: Option<usize>,
    latency: usize,
    depth: Option<usize>,
    tag: Option<usize>,
    rwbs: Option<usize>,
}

impl Columns {
    fn of(header: &str) -> Result<Columns, String> {
        let names: Vec<&str> = header.trim().split(',').collect();
        let find = |wanted: &str| names.iter().position(|&name| name == wanted);
        let need = |wanted: &str| {
            find(wanted)
                .ok_or_else(|| format!("there is no column `{wanted}`; needed are t_us, op, sector, bytes and lat_us"))
        };
        Ok(Columns {
            segment: find("seg"),
            time: need("t_us")?,
            op: need("op")?,
            sector: need("sector")?,
            bytes: need("bytes")?,
            wait: find("wait_us"),
            latency: need("lat_us")?,
            depth: find("qd"),
            tag: find("tag"),
            rwbs: find("rwbs"),
        })
    }

    /// The segment's number and the request of a line.
    fn request(&self, line: &str) -> Result<(u32, RequestRecord), String> {
        let fields: Vec<&str> = line.split(',').collect();
        let text = |column: usize| fields.get(column).copied().ok_or(format!("only {} fields", fields.len()));
        let number = |column: usize, name: &str| -> Result<i64, String> {
            let text = text(column)?;
            text.parse().map_err(|_| format!("{name}: `{text}` is not a whole number"))
        };
        let positive = |column: usize, name: &str| -> Result<u64, String> {
            let value = number(column, name)?;
            u64::try_from(value).map_err(|_| format!("{name}: {value} is below 0"))
        };
        let op = match text(self.op)? {
            "R" => Op::Read,
            "W" => Op::Write,
            "F" => Op::Flush,
            "D" => Op::Discard,
            other => return Err(format!("op: `{other}` is not R, W, F or D")),
        };
        let optional = |column: Option<usize>, name| column.map_or(Ok(0), |column| number(column, name));
        let issue = Nanos::from_us(positive(self.time, "t_us")?);
        let wait = Nanos::from_us(optional(self.wait, "wait_us")?.max(0) as u64);
        let latency = Nanos::from_us(positive(self.latency, "lat_us")?);
        let tag = match (self.tag, self.rwbs) {
            (Some(column), _) => {
                let code = positive(column, "tag")?;
                u8::try_from(code).ok().and_then(IoTag::from_code).ok_or(format!("tag: {code} is not 0 to 23"))?
            }
            (None, Some(column)) => IoTag::from_rwbs(text(column)?),
            (None, None) => IoTag::UNKNOWN,
        };
        let bytes = positive(self.bytes, "bytes")?;
        let record = RequestRecord {
            arrive: Nanos(issue.0.saturating_sub(wait.0)),
            issue,
            complete: issue + latency,
            op,
            sector: positive(self.sector, "sector")?,
            bytes: u32::try_from(bytes).map_err(|_| format!("bytes: {bytes} is too large"))?,
            tag,
            depth: u32::try_from(optional(self.depth, "qd")?.max(0)).unwrap_or(u32::MAX),
        };
        let segment = optional(self.segment, "seg")?;
        Ok((u32::try_from(segment).map_err(|_| format!("seg: {segment} is not a segment's number"))?, record))
    }
}

/// Reads one run.
pub(super) fn read(path: &Path, repeat: &str, workload: &str) -> Result<Run, Error> {
    let mut packed = Vec::new();
    let file = File::open(path).map_err(Error::file(path))?;
    file.take(LONGEST_FILE).read_to_end(&mut packed).map_err(Error::file(path))?;
    let checksum = crc32c::crc32c(&packed);
    let plain: Box<dyn Read + '_> = if packed.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        Box::new(zstd::Decoder::new(packed.as_slice()).map_err(Error::file(path))?)
    } else {
        Box::new(packed.as_slice())
    };
    let mut lines = BufReader::new(plain.take(LONGEST_FILE)).lines().enumerate();
    let at = |line: usize, problem: String| Error::Line { path: path.to_owned(), line: line + 1, problem };
    let Some((_, header)) = lines.next() else {
        return Err(at(0, "the file is empty".to_owned()));
    };
    let columns = Columns::of(&header.map_err(Error::file(path))?).map_err(|problem| at(0, problem))?;
    let mut segments: Vec<Segment> = Vec::new();
    let mut current = None;
    for (number, line) in lines {
        let line = line.map_err(Error::file(path))?;
        if line.trim().is_empty() {
            continue;
        }
        let (segment, record) = columns.request(line.trim()).map_err(|problem| at(number, problem))?;
        if current != Some(segment) {
            segments.push(Segment::new());
            current = Some(segment);
        }
        if let Some(last) = segments.last_mut() {
            last.push(record);
        }
    }
    Ok(Run { repeat: repeat.to_owned(), workload: workload.to_owned(), segments, checksum })
}
