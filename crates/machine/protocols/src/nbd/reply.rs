//! Replies to requests: headers for the server to send before the data.

use crate::nbd::error::NbdError;
use crate::nbd::request::Request;
use crate::nbd::wire::{CHUNK_BYTES, SIMPLE_REPLY_BYTES, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk};

/// Bytes of the header of a structured reply of one data chunk.
pub const DATA_CHUNK_BYTES: usize = CHUNK_BYTES + 8;
/// Room for the longest header of [`Header`].
const HEADER_ROOM: usize = 128;

/// The bytes of a reply before its data.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    bytes: [u8; HEADER_ROOM],
    len: u8,
}

impl Header {
    /// The bytes on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    fn of(parts: &[&[u8]]) -> Header {
        let mut header = Header { bytes: [0; HEADER_ROOM], len: 0 };
        for part in parts {
            let at = usize::from(header.len);
            let part = &part[..part.len().min(HEADER_ROOM - at)];
            header.bytes[at..at + part.len()].copy_from_slice(part);
            header.len += part.len() as u8;
        }
        header
    }
}

/// A simple reply; after a READ without error its data follows.
pub fn simple(cookie: u64, error: u32) -> Header {
    Header::of(&[&SIMPLE_REPLY_MAGIC.to_be_bytes(), &error.to_be_bytes(), &cookie.to_be_bytes()])
}

fn chunk_header(cookie: u64, kind: u16, length: u32) -> [u8; CHUNK_BYTES] {
    let mut header = [0; CHUNK_BYTES];
    header[..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
    header[4..6].copy_from_slice(&chunk::FLAG_DONE.to_be_bytes());
    header[6..8].copy_from_slice(&kind.to_be_bytes());
    header[8..16].copy_from_slice(&cookie.to_be_bytes());
    header[16..].copy_from_slice(&length.to_be_bytes());
    header
}

/// The header before the data of a successful READ.
pub fn data(request: &Request, structured: bool) -> Header {
    match (structured, request.length) {
        (false, _) => simple(request.cookie, 0),
        // A data chunk has at least one byte.
        (true, 0) => Header::of(&[&chunk_header(request.cookie, chunk::NONE, 0)]),
        (true, length) => {
            let head = chunk_header(request.cookie, chunk::OFFSET_DATA, length.saturating_add(8));
            Header::of(&[&head, &request.offset.to_be_bytes()])
        }
    }
}

/// The answer to a failed request: structured where the protocol asks for that.
pub fn error(request: &Request, error: NbdError, structured: bool) -> Header {
    if !structured || !request.has_structured_reply() {
        return simple(request.cookie, error.code());
    }
    let text = error.text().as_bytes();
    let head = chunk_header(request.cookie, chunk::ERROR, 6 + text.len() as u32);
    Header::of(&[&head, &error.code().to_be_bytes(), &(text.len() as u16).to_be_bytes(), text])
}

/// An extent of a block status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes.
    pub length: u32,
    /// Bits of `base:allocation`: [`crate::nbd::wire::STATE_HOLE`], [`crate::nbd::wire::STATE_ZERO`].
    pub status: u32,
}

/// A whole reply to BLOCK_STATUS, appended to `out`.
pub fn block_status(request: &Request, context: u32, extents: &[Extent], out: &mut Vec<u8>) {
    let length = 4 + 8 * extents.len() as u32;
    out.extend_from_slice(&chunk_header(request.cookie, chunk::BLOCK_STATUS, length));
    out.extend_from_slice(&context.to_be_bytes());
    for extent in extents {
        out.extend_from_slice(&extent.length.to_be_bytes());
        out.extend_from_slice(&extent.status.to_be_bytes());
    }
}

const _: () = assert!(SIMPLE_REPLY_BYTES <= HEADER_ROOM);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::request::Command;

    fn read(length: u32) -> Request {
        Request { flags: 0, command: Command::Read, cookie: 7, offset: 512, length }
    }

    #[test]
    fn a_structured_read_is_one_data_chunk_that_ends_it() {
        let header = data(&read(4096), true);
        let bytes = header.as_bytes();
        assert_eq!(bytes.len(), DATA_CHUNK_BYTES);
        assert_eq!(bytes[..8], [0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 1]);
        assert_eq!(bytes[16..20], 4104u32.to_be_bytes());
        assert_eq!(bytes[20..], 512u64.to_be_bytes());
    }

    #[test]
    fn a_structured_read_of_nothing_has_no_data_chunk() {
        assert_eq!(data(&read(0), true).as_bytes()[4..8], [0, 1, 0, 0]);
    }

    #[test]
    fn only_reads_and_block_status_fail_with_a_chunk() {
        assert_eq!(error(&read(1), NbdError::Io, true).as_bytes()[6..8], [0x80, 1]);
        let write = Request { command: Command::Write, ..read(1) };
        assert_eq!(error(&write, NbdError::Io, true).as_bytes(), simple(7, 5).as_bytes());
        assert_eq!(error(&read(1), NbdError::Io, false).as_bytes(), simple(7, 5).as_bytes());
    }

    #[test]
    fn every_error_text_fits_into_a_header() {
        use NbdError::*;
        for e in [Perm, Io, Invalid, NoSpace, Overflow, NotSupported, Shutdown] {
            assert_eq!(error(&read(1), e, true).as_bytes().len(), CHUNK_BYTES + 6 + e.text().len());
        }
    }
}
