//! Requests, as the driver describes them.

use crate::ublk::abi::{DESCRIPTION_BYTES, SECTOR_BYTES};

/// The bit of a request whose data must be permanent when it is answered.
const FUA: u32 = 1 << 13;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Data of the disk into the tag's memory.
    Read,
    /// Data of the tag's memory onto the disk.
    Write,
    /// Makes all earlier writes permanent.
    Flush,
    /// Discards the range.
    Discard,
    /// Zeroes the range.
    WriteZeroes,
}

/// A valid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The operation.
    pub operation: Operation,
    /// First byte on the disk.
    pub offset: u64,
    /// Bytes on the disk; 0 for a flush.
    pub length: u32,
    /// Permanent before it is answered.
    pub fua: bool,
}

/// Why a request is answered with an error at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An unknown operation.
    Unknown(u8),
    /// It is longer than its memory, or its end overflows.
    Range,
}

impl Request {
    /// Reads a description, for a device whose requests have at most `max_bytes` of data.
    pub fn decode(description: &[u8; DESCRIPTION_BYTES], max_bytes: u32) -> Result<Request, Refusal> {
        let four = |at: usize| {
            u32::from_le_bytes([description[at], description[at + 1], description[at + 2], description[at + 3]])
        };
        let word = four(0);
        let sectors = u64::from(four(4));
        let sector = u64::from(four(8)) | u64::from(four(12)) << 32;
        let (operation, carries_data) = match word as u8 {
            0 => (Operation::Read, true),
            1 => (Operation::Write, true),
            2 => return Ok(Request { operation: Operation::Flush, offset: 0, length: 0, fua: false }),
            3 => (Operation::Discard, false),
            5 => (Operation::WriteZeroes, false),
            other => return Err(Refusal::Unknown(other)),
        };
        let offset = sector.checked_mul(SECTOR_BYTES).ok_or(Refusal::Range)?;
        let length = u32::try_from(sectors * SECTOR_BYTES).map_err(|_| Refusal::Range)?;
        if (carries_data && length > max_bytes) || offset.checked_add(u64::from(length)).is_none() {
            return Err(Refusal::Range);
        }
        Ok(Request { operation, offset, length, fua: word & FUA != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description(word: u32, sectors: u32, sector: u64) -> [u8; DESCRIPTION_BYTES] {
        let mut bytes = [0; DESCRIPTION_BYTES];
        bytes[0..4].copy_from_slice(&word.to_le_bytes());
        bytes[4..8].copy_from_slice(&sectors.to_le_bytes());
        bytes[8..16].copy_from_slice(&sector.to_le_bytes());
        bytes
    }

    #[test]
    fn every_operation_is_read() {
        for (number, operation) in
            [(0, Operation::Read), (1, Operation::Write), (3, Operation::Discard), (5, Operation::WriteZeroes)]
        {
            let request = Request::decode(&description(number, 8, 100), 4096).unwrap();
            assert_eq!(request, Request { operation, offset: 51_200, length: 4096, fua: false });
        }
        assert_eq!(Request::decode(&description(2, 0, u64::MAX), 4096).unwrap().operation, Operation::Flush);
    }

    /// FUA is bit 13 of the whole word, not of the flags behind the operation.
    #[test]
    fn fua_is_bit_13_of_the_word() {
        assert!(Request::decode(&description(1 | 1 << 13, 1, 0), 4096).unwrap().fua);
        assert!(!Request::decode(&description(1 | 1 << 21, 1, 0), 4096).unwrap().fua);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert_eq!(Request::decode(&description(17, 1, 0), 4096), Err(Refusal::Unknown(17)));
        assert_eq!(Request::decode(&description(0, 9, 0), 4096), Err(Refusal::Range));
        assert_eq!(Request::decode(&description(1, 8, u64::MAX / 512 + 1), 4096), Err(Refusal::Range));
        assert_eq!(Request::decode(&description(3, u32::MAX, 0), 4096), Err(Refusal::Range));
        // A range without data may be longer than the memory.
        assert!(Request::decode(&description(3, 1 << 20, 0), 4096).is_ok());
    }
}
