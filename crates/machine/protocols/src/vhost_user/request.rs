//! Requests of virtio-blk: a chain's header, data and status byte.

use crate::vhost_user::chain::{Chain, bytes_of};
use crate::vhost_user::memory::{GuestPlace, Memory, Piece};
use crate::vhost_user::wire::{SECTOR_BYTES, request_type};

/// Bytes of the header: type u32, reserved u32, sector u64.
const HEADER_BYTES: usize = 16;
/// Bytes of a range to be discarded or zeroed: sector u64, sectors u32, flags u32.
const RANGE_BYTES: usize = 16;
/// The flag of a range that may be deallocated.
const UNMAP: u32 = 1;
/// Largest transfer, bytes.
pub const MAX_TRANSFER_BYTES: u64 = 32 << 20;

/// The result that a driver reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// It failed.
    IoError = 1,
    /// The device cannot do this.
    Unsupported = 2,
}

/// A driver's operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Data of the disk into memory.
    Read,
    /// Data of memory onto the disk.
    Write,
    /// Everything written before is permanent.
    Flush,
    /// The device's name, into memory.
    GetId,
    /// The range is not needed any more.
    Discard,
    /// The range reads as zeroes; `unmap` if its space may be given back.
    WriteZeroes {
        /// Its space may be given back.
        unmap: bool,
    },
}

/// A request that may be carried out. The pieces of its data are [`Chain::data`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// The operation.
    pub operation: Operation,
    /// First byte on the disk.
    pub offset: u64,
    /// Bytes on the disk; may be 0.
    pub length: u32,
    /// Where the result goes.
    pub status: GuestPlace,
}

/// A request that is given back without I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no place for a result.
    NoStatus,
    /// With this result.
    With(GuestPlace, Status),
}

/// Rules that requests are checked against.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Bytes of the disk.
    pub bytes: u64,
    /// Bytes of a block; offsets and lengths are multiples of it.
    pub block_bytes: u32,
    /// Writes are refused.
    pub readonly: bool,
    /// Most sectors of a range to be discarded or zeroed.
    pub max_range_sectors: u32,
}

impl Rules {
    /// The byte range of some sectors, if it consists of blocks within the disk.
    fn range(&self, sector: u64, bytes: u64) -> Option<(u64, u32)> {
        let offset = sector.checked_mul(SECTOR_BYTES)?;
        let whole = (offset | bytes).is_multiple_of(u64::from(self.block_bytes.max(1)));
        let inside = offset <= self.bytes && bytes <= self.bytes - offset;
        (whole && inside).then_some((offset, u32::try_from(bytes).ok()?))
    }
}

impl Chain {
    /// Interprets a chain: takes header and status off it and leaves the data.
    pub fn request(&mut self, memory: &Memory, rules: &Rules) -> Result<BlockRequest, Refusal> {
        let status = self.take_last().ok_or(Refusal::NoStatus)?;
        let refuse = |why| Refusal::With(status, why);
        let mut header = [0; HEADER_BYTES];
        if !self.take_front(memory, &mut header) {
            return Err(refuse(Status::IoError));
        }
        let (kind, _, sector) = fields(&header);
        let request = |operation, (offset, length)| BlockRequest { operation, offset, length, status };
        match kind {
            request_type::READ | request_type::WRITE => {
                let read = kind == request_type::READ;
                let (data, other) =
                    if read { (&self.writable, &self.readable) } else { (&self.readable, &self.writable) };
                let bytes = bytes_of(data);
                if !other.is_empty() || bytes > MAX_TRANSFER_BYTES || (!read && rules.readonly) {
                    return Err(refuse(Status::IoError));
                }
                let range = rules.range(sector, bytes).ok_or(refuse(Status::IoError))?;
                Ok(request(if read { Operation::Read } else { Operation::Write }, range))
            }
            request_type::FLUSH => Ok(request(Operation::Flush, (0, 0))),
            request_type::GET_ID => Ok(request(Operation::GetId, (0, 0))),
            request_type::DISCARD | request_type::WRITE_ZEROES => {
                let discard = kind == request_type::DISCARD;
                self.range(memory, rules, discard).map(|(op, range)| request(op, range)).map_err(refuse)
            }
            _ => Err(refuse(Status::Unsupported)),
        }
    }

    /// The one range of a discard or of zeroes.
    fn range(&mut self, memory: &Memory, rules: &Rules, discard: bool) -> Result<(Operation, (u64, u32)), Status> {
        let bytes = bytes_of(&self.readable);
        if rules.readonly || bytes < RANGE_BYTES as u64 || !bytes.is_multiple_of(RANGE_BYTES as u64) {
            return Err(Status::IoError);
        }
        let mut range = [0; RANGE_BYTES];
        if bytes > RANGE_BYTES as u64 || !self.take_front(memory, &mut range) {
            return Err(Status::Unsupported);
        }
        let sector =
            u64::from_le_bytes([range[0], range[1], range[2], range[3], range[4], range[5], range[6], range[7]]);
        let sectors = u32::from_le_bytes([range[8], range[9], range[10], range[11]]);
        let flags = u32::from_le_bytes([range[12], range[13], range[14], range[15]]);
        let unmap = flags & UNMAP != 0;
        if flags & !UNMAP != 0 || (discard && unmap) {
            return Err(Status::Unsupported);
        }
        if sectors > rules.max_range_sectors {
            return Err(Status::IoError);
        }
        let block = u64::from(rules.block_bytes.max(1)) / SECTOR_BYTES;
        let (sector, sectors) = match discard && block > 1 {
            // A hint: the whole blocks within the range.
            true => {
                let first = sector.checked_next_multiple_of(block).ok_or(Status::IoError)?;
                let end = sector.checked_add(u64::from(sectors)).ok_or(Status::IoError)? / block * block;
                if end.checked_mul(SECTOR_BYTES).is_none_or(|end| end > rules.bytes) {
                    return Err(Status::IoError);
                }
                if end <= first { (0, 0) } else { (first, end - first) }
            }
            false => (sector, u64::from(sectors)),
        };
        let range = rules.range(sector, sectors * SECTOR_BYTES).ok_or(Status::IoError)?;
        Ok((if discard { Operation::Discard } else { Operation::WriteZeroes { unmap } }, range))
    }

    /// The data of the request that was taken off: where it goes for reads and GET_ID, where it comes from for writes.
    pub fn data(&self, operation: Operation) -> &[Piece] {
        match operation {
            Operation::Read | Operation::GetId => &self.writable,
            Operation::Write => &self.readable,
            Operation::Flush | Operation::Discard | Operation::WriteZeroes { .. } => &[],
        }
    }
}

fn fields(header: &[u8; HEADER_BYTES]) -> (u32, u32, u64) {
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    (word(0), word(4), u64::from(word(8)) | u64::from(word(12)) << 32)
}
