//! A chain of descriptors, read once and checked: what the guest changes afterwards has no effect.

use crate::vhost_user::memory::{GuestPlace, Memory, Piece};
use crate::vhost_user::wire::{SEG_MAX, descriptor_flag};

/// Bytes of a descriptor: address u64, length u32, flags u16, next u16.
const DESCRIPTOR_BYTES: u64 = 16;
/// Most descriptors of a chain, header and status included.
const MAX_DESCRIPTORS: u32 = SEG_MAX + 2;
/// Most pieces of a chain: a descriptor over adjoining regions is several.
const MAX_PIECES: usize = 2 * MAX_DESCRIPTORS as usize;

/// Why a chain cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainError {
    /// The head, or the number of the next descriptor, is not in the table.
    Index,
    /// It is longer than any request that was offered, or runs in a circle.
    TooLong,
    /// An address with its length lies outside of memory.
    Address,
    /// A descriptor that the device reads after one that it writes.
    Order,
    /// A table of descriptors within a chain or another table, or one of no whole descriptors.
    Indirect,
}

/// The pieces of a chain.
#[derive(Debug, Default)]
pub struct Chain {
    pub(crate) readable: Vec<Piece>,
    pub(crate) writable: Vec<Piece>,
}

/// A descriptor, copied.
struct Descriptor {
    address: u64,
    len: u32,
    flags: u16,
    next: u16,
}

impl Descriptor {
    fn load(memory: &Memory, table: GuestPlace, index: u64) -> Descriptor {
        let (address, rest) = memory.load_pair(table.plus(index * DESCRIPTOR_BYTES));
        Descriptor {
            address: u64::from_le(address),
            len: rest as u32,
            flags: (rest >> 32) as u16,
            next: (rest >> 48) as u16,
        }
    }

    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

impl Chain {
    /// Reads the chain that begins at `head` of a table of `size` descriptors. After an error the pieces are meaningless.
    pub fn load(&mut self, memory: &Memory, table: GuestPlace, size: u16, head: u16) -> Result<(), ChainError> {
        self.readable.clear();
        self.writable.clear();
        let mut left = MAX_DESCRIPTORS;
        let Some(rest) = self.walk(memory, table, u32::from(size), head, &mut left)? else { return Ok(()) };
        // The last one may name a table with the rest of the chain. The device reads that, whatever the other flags say.
        let whole = rest.len > 0 && u64::from(rest.len).is_multiple_of(DESCRIPTOR_BYTES);
        let count = rest.len / DESCRIPTOR_BYTES as u32;
        if rest.has(descriptor_flag::NEXT) || !whole {
            return Err(ChainError::Indirect);
        }
        if count > MAX_DESCRIPTORS {
            return Err(ChainError::TooLong);
        }
        let (table, here) = memory.locate(rest.address, u64::from(rest.len)).ok_or(ChainError::Address)?;
        if here < u64::from(rest.len) || !rest.address.is_multiple_of(8) {
            return Err(ChainError::Address);
        }
        match self.walk(memory, table, count, 0, &mut left)? {
            Some(_) => Err(ChainError::Indirect),
            None => Ok(()),
        }
    }

    /// Follows the descriptors of a table of `size` from `index` on, at most `left` of them. Answers with one that names another table,
    /// which ends the walk.
    fn walk(
        &mut self,
        memory: &Memory,
        table: GuestPlace,
        size: u32,
        mut index: u16,
        left: &mut u32,
    ) -> Result<Option<Descriptor>, ChainError> {
        for _ in 0..size.min(*left) {
            if u32::from(index) >= size {
                return Err(ChainError::Index);
            }
            let at = Descriptor::load(memory, table, u64::from(index));
            if at.has(descriptor_flag::INDIRECT) {
                return Ok(Some(at));
            }
            *left -= 1;
            self.append(memory, &at)?;
            if !at.has(descriptor_flag::NEXT) {
                return Ok(None);
            }
            index = at.next;
        }
        // A circle, or an index behind the table at its end.
        if u32::from(index) >= size { Err(ChainError::Index) } else { Err(ChainError::TooLong) }
    }

    fn append(&mut self, memory: &Memory, descriptor: &Descriptor) -> Result<(), ChainError> {
        let write = descriptor.has(descriptor_flag::WRITE);
        if !write && !self.writable.is_empty() {
            return Err(ChainError::Order);
        }
        let pieces = if write { &mut self.writable } else { &mut self.readable };
        let (mut address, mut left) = (descriptor.address, descriptor.len);
        while left > 0 {
            let (place, here) = memory.locate(address, u64::from(left)).ok_or(ChainError::Address)?;
            if pieces.len() == MAX_PIECES {
                return Err(ChainError::TooLong);
            }
            // At most `left`, which has 32 bits.
            let len = here as u32;
            pieces.push(Piece { place, len });
            left -= len;
            // Regions do not wrap, so this does not either unless the descriptor ends here.
            address = address.wrapping_add(here);
        }
        Ok(())
    }

    /// Removes the first `bytes.len()` readable bytes and copies them; `false` if there are fewer.
    pub(crate) fn take_front(&mut self, memory: &Memory, bytes: &mut [u8]) -> bool {
        let (mut done, mut whole) = (0, 0);
        for piece in &mut self.readable {
            if done == bytes.len() {
                break;
            }
            let count = (bytes.len() - done).min(piece.len as usize);
            if !memory.read(piece.place, &mut bytes[done..done + count]) {
                return false;
            }
            done += count;
            (piece.place, piece.len) = (piece.place.plus(count as u64), piece.len - count as u32);
            whole += usize::from(piece.len == 0);
        }
        self.readable.drain(..whole);
        done == bytes.len()
    }

    /// Removes the last writable byte.
    pub(crate) fn take_last(&mut self) -> Option<GuestPlace> {
        let last = self.writable.last_mut()?;
        last.len -= 1;
        let place = last.place.plus(u64::from(last.len));
        if last.len == 0 {
            self.writable.pop();
        }
        Some(place)
    }
}

/// Bytes of pieces.
pub(crate) fn bytes_of(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|piece| u64::from(piece.len)).sum()
}
