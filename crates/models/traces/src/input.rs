//! A file as a stream of bytes: plain, gzip or zstd (detected by magic; several members or frames may follow each
//! other), with look-ahead and with lines as slices of its window.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::error::{Error, show};

/// Longest line of a text trace, bytes; files with longer ones are refused.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Bytes of look-ahead.
pub(crate) const LOOK_AHEAD_BYTES: usize = 256 << 10;
/// Bytes of the window at first: most short files fit.
const WINDOW_BYTES: usize = 8 << 10;

/// A trace file being read.
pub(crate) struct Input {
    path: PathBuf,
    /// Whether `path` is a regular file that can be read a second time; otherwise it is only a name for messages.
    rereadable: bool,
    reader: Box<dyn Read + Send>,
    buf: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset of `start` in the decompressed file.
    offset: u64,
    eof: bool,
}

impl Input {
    /// Opens a file.
    pub(crate) fn open(path: &Path) -> Result<Input, Error> {
        let file = File::open(path).map_err(|e| Error::io(path, "open", e))?;
        let facts = file.metadata().map_err(|e| Error::io(path, "open", e))?;
        if facts.is_dir() {
            return Err(Error::bad(path, "header".into(), "a directory", "a trace file"));
        }
        let input = Input::over(path, Box::new(file)).map_err(|e| match e {
            Error::Empty { .. } if !facts.is_file() => {
                let why = "nothing is in it; a pipe cannot be read twice, so give a file";
                Error::io(path, "read", std::io::Error::other(why))
            }
            other => other,
        })?;
        Ok(Input { rereadable: facts.is_file(), ..input })
    }

    /// Reads from `reader`; messages call it `path`.
    pub(crate) fn over(path: &Path, mut reader: Box<dyn Read + Send>) -> Result<Input, Error> {
        let mut magic = [0u8; 4];
        let mut have = 0;
        while have < magic.len() {
            match reader.read(&mut magic[have..]) {
                Ok(0) => break,
                Ok(n) => have += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io(path, "read", e)),
            }
        }
        if have == 0 {
            return Err(Error::Empty { path: path.to_path_buf() });
        }
        let whole = std::io::Cursor::new(magic[..have].to_vec()).chain(reader);
        let skippable = have == 4 && magic[0] & 0xf0 == 0x50 && magic[1..] == [0x2a, 0x4d, 0x18];
        let reader: Box<dyn Read + Send> = if magic[..have] == [0x28, 0xb5, 0x2f, 0xfd] || skippable {
            let buffered = BufReader::with_capacity(LOOK_AHEAD_BYTES, whole);
            Box::new(zstd::stream::read::Decoder::with_buffer(buffered).map_err(|e| Error::io(path, "read", e))?)
        } else if magic.starts_with(&[0x1f, 0x8b]) {
            Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::with_capacity(LOOK_AHEAD_BYTES, whole)))
        } else {
            Box::new(whole)
        };
        Ok(Input {
            path: path.to_path_buf(),
            rereadable: false,
            reader,
            buf: vec![0; WINDOW_BYTES],
            start: 0,
            end: 0,
            offset: 0,
            eof: false,
        })
    }

    /// Name of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its file can be opened and read again, unlike a pipe or a reader.
    pub(crate) fn rereadable(&self) -> bool {
        self.rereadable
    }

    /// Offset of the next byte in the decompressed file.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether the end is reached.
    pub(crate) fn at_end(&mut self) -> Result<bool, Error> {
        Ok(self.peek(1)?.is_empty())
    }

    /// The next `n` bytes (at most [`LOOK_AHEAD_BYTES`]) without consuming them; fewer at the end of the file.
    pub(crate) fn peek(&mut self, n: usize) -> Result<&[u8], Error> {
        while self.end - self.start < n.min(LOOK_AHEAD_BYTES) && !self.eof {
            self.fill()?;
        }
        Ok(&self.buf[self.start..self.end.min(self.start + n)])
    }

    /// Consumes `n` bytes that were peeked at.
    pub(crate) fn skip(&mut self, n: usize) {
        let n = n.min(self.end - self.start);
        self.start += n;
        self.offset += n as u64;
    }

    /// Reads into `out`; returns the number of bytes read.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> Result<usize, Error> {
        let mut done = 0;
        while done < out.len() {
            let some = self.peek(1)?.len();
            if some == 0 {
                break;
            }
            let n = (self.end - self.start).min(out.len() - done);
            out[done..done + n].copy_from_slice(&self.buf[self.start..self.start + n]);
            self.skip(n);
            done += n;
        }
        Ok(done)
    }

    /// Reads a whole binary record, and passes over padding with zeros; `false` at the end. `records` were read before.
    pub(crate) fn record(&mut self, r: &mut [u8], what: &'static str, records: u64) -> Result<bool, Error> {
        loop {
            let n = self.read(r)?;
            if r[..n].iter().any(|b| *b != 0) {
                let whole = n == r.len();
                return if whole {
                    Ok(true)
                } else {
                    Err(Error::Truncated { path: self.path().into(), what, records })
                };
            }
            if n < r.len() {
                return Ok(false);
            }
        }
    }

    /// The next line without its end (LF or CRLF); `None` at the end of the file. Trailing NUL bytes are not a line.
    pub(crate) fn line(&mut self, number: u64) -> Result<Option<&[u8]>, Error> {
        let mut searched = 0;
        let (len, taken) = loop {
            let have = &self.buf[self.start..self.end];
            if let Some(at) = newline(&have[searched..]) {
                break (searched + at, searched + at + 1);
            }
            searched = have.len();
            if self.eof {
                if searched == 0 {
                    return Ok(None);
                }
                break (searched, searched);
            }
            if searched > LINE_BYTES_MAX {
                if have.iter().any(|b| *b != 0) {
                    let value = show(have);
                    return Err(Error::bad(&self.path, format!("line {number}"), value, "a line of at most 64 KiB"));
                }
                self.skip(searched);
                searched = 0;
            }
            self.fill()?;
        };
        let from = self.start;
        self.start += taken;
        self.offset += taken as u64;
        let mut line = &self.buf[from..from + len];
        if let [head @ .., b'\r'] = line {
            line = head;
        }
        while let [head @ .., 0] = line {
            line = head;
        }
        Ok(Some(line))
    }

    /// Reads more bytes into the window, which grows once it was full.
    fn fill(&mut self) -> Result<(), Error> {
        if self.end == self.buf.len() {
            self.buf.resize(LOOK_AHEAD_BYTES, 0);
        }
        if self.start > 0 {
            self.buf.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        loop {
            match self.reader.read(&mut self.buf[self.end..]) {
                Ok(0) => {
                    self.eof = true;
                    return Ok(());
                }
                Ok(n) => {
                    self.end += n;
                    return Ok(());
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io(&self.path, "read", e)),
            }
        }
    }
}

/// Position of the first line feed; compares 32 bytes at once.
fn newline(bytes: &[u8]) -> Option<usize> {
    let without = bytes.chunks_exact(32).take_while(|piece| !piece.iter().fold(false, |is, b| is | (*b == b'\n')));
    let from = without.count() * 32;
    bytes[from..].iter().position(|b| *b == b'\n').map(|at| from + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn lines(bytes: Vec<u8>) -> Vec<Vec<u8>> {
        let mut input = Input::over(Path::new("t"), Box::new(std::io::Cursor::new(bytes))).unwrap();
        let mut out = Vec::new();
        while let Some(l) = input.line(out.len() as u64 + 1).unwrap() {
            out.push(l.to_vec());
        }
        out
    }

    #[test]
    fn lines_end_with_lf_crlf_nothing_or_nuls() {
        let want: Vec<Vec<u8>> = vec![b"a".to_vec(), b"b".to_vec(), b"c".to_vec()];
        assert_eq!(lines(b"a\nb\r\nc".to_vec()), want);
        assert_eq!(lines(b"a\nb\nc\0\0\0\0".to_vec()), want);
        let mut padded = b"a\nb\nc\n".to_vec();
        padded.resize(3_000_000, 0);
        let mut got = lines(padded);
        got.retain(|l| !l.is_empty());
        assert_eq!(got, want);
    }

    #[test]
    fn several_members_and_frames_are_read() {
        let mut gz = Vec::new();
        let mut zst = Vec::new();
        for part in [b"one\n".as_slice(), b"two\n"] {
            let mut e = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            e.write_all(part).unwrap();
            gz.extend(e.finish().unwrap());
            zst.extend(zstd::encode_all(part, 1).unwrap());
        }
        assert_eq!(lines(gz), [b"one", b"two"]);
        assert_eq!(lines(zst), [b"one", b"two"]);
    }

    #[test]
    fn a_truncated_frame_is_an_error() {
        let text: Vec<u8> =
            (0..20_000u32).flat_map(|i| format!("{}\n", i.wrapping_mul(2_654_435_761)).into_bytes()).collect();
        let mut zst = zstd::encode_all(text.as_slice(), 1).unwrap();
        zst.truncate(zst.len() / 2);
        let mut input = Input::over(Path::new("t"), Box::new(std::io::Cursor::new(zst))).unwrap();
        let error = loop {
            match input.line(1) {
                Ok(Some(_)) => {}
                Ok(None) => panic!("no error"),
                Err(e) => break e,
            }
        };
        assert!(error.to_string().contains("t: cannot read"), "{error}");
    }

    #[test]
    fn an_overlong_line_is_an_error() {
        let mut input = Input::over(Path::new("t"), Box::new(std::io::repeat(b'x'))).unwrap();
        assert!(input.line(1).unwrap_err().to_string().contains("line 1"));
    }
}
