//! Scratch buffers: one mapping, with a small and a large slot for each request that the device may hold.
#![allow(unsafe_code)]

use std::io;

use crate::buffer::ALIGN;

/// Requests of up to this size get a small slot.
const SMALL: usize = 64 << 10;

/// Slots aligned for direct I/O. One page more than their size lies between two, so that the first pages of all do not fall
/// into the same sets of a cache.
///
/// Small slots come first and are registered with the kernel. Registering pins memory: a hundred slots of the largest request
/// would be a hundred megabytes to clear for 4 KiB reads. Large slots take memory when they are first used; for their sizes
/// the cost of mapping pages on each I/O is small beside the transfer.
pub(crate) struct Arena {
    start: *mut u8,
    len: usize,
    slots: u32,
    small: Class,
    large: Class,
    /// Where random bytes come from, if slots are to be filled with them.
    seed: Option<u64>,
}

/// The slots of one size.
struct Class {
    slot_bytes: usize,
    free: Vec<u32>,
    /// Slots below this have been used.
    used: u32,
}

impl Class {
    fn stride(&self) -> usize {
        self.slot_bytes + ALIGN
    }
}

// SAFETY: the mapping belongs to the arena alone.
unsafe impl Send for Arena {}

impl Arena {
    /// Room for `slots` requests of up to `slot_bytes`.
    pub(crate) fn new(slots: u32, slot_bytes: usize) -> io::Result<Arena> {
        let slots = slots.max(1);
        let class = |slot_bytes: usize, first: u32| Class {
            slot_bytes,
            free: (first..first + slots).rev().collect(),
            used: first,
        };
        let slot_bytes = slot_bytes.next_multiple_of(ALIGN);
        let small = class(slot_bytes.min(SMALL), 0);
        let mut large = class(slot_bytes, slots);
        if slot_bytes <= SMALL {
            large.free.clear();
        }
        let len = small.stride() * slots as usize + large.stride() * large.free.len();
        // SAFETY: a new private mapping.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: within our mapping; a hint.
        unsafe { libc::madvise(start, len, libc::MADV_HUGEPAGE) };
        Ok(Arena { start: start.cast(), len, slots, small, large, seed: None })
    }

    /// From now on a slot is filled with incompressible bytes when it is first used.
    pub(crate) fn fill(&mut self, seed: u64) {
        self.seed = Some(seed);
    }

    /// The part to register with the kernel.
    pub(crate) fn registered(&self) -> (*mut u8, usize) {
        (self.start, self.small.stride() * self.slots as usize)
    }

    /// Is the slot within [`Arena::registered`]?
    pub(crate) fn is_registered(&self, slot: u32) -> bool {
        slot < self.slots
    }

    /// A slot for `bytes`.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<u32> {
        let class = if bytes <= self.small.slot_bytes { &mut self.small } else { &mut self.large };
        let slot = class.free.pop()?;
        if slot >= class.used {
            class.used = slot + 1;
            if let Some(seed) = self.seed {
                self.scramble(slot, seed);
            }
        }
        Some(slot)
    }

    #[cold]
    fn scramble(&mut self, slot: u32, seed: u64) {
        let bytes = self.slot_bytes(slot);
        let mut state = (seed ^ u64::from(slot)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        for word in self.bytes(slot, bytes).chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
    }

    pub(crate) fn put(&mut self, slot: u32) {
        if self.is_registered(slot) { self.small.free.push(slot) } else { self.large.free.push(slot) }
    }

    fn slot_bytes(&self, slot: u32) -> usize {
        if self.is_registered(slot) { self.small.slot_bytes } else { self.large.slot_bytes }
    }

    /// Where a slot begins.
    pub(crate) fn address(&self, slot: u32) -> *mut u8 {
        let at = if self.is_registered(slot) {
            slot as usize * self.small.stride()
        } else {
            self.registered().1 + (slot - self.slots) as usize * self.large.stride()
        };
        // SAFETY: slots are below the number that the mapping was made for.
        unsafe { self.start.add(at) }
    }

    /// The first bytes of a slot that is not with the kernel.
    pub(crate) fn bytes(&mut self, slot: u32, len: usize) -> &mut [u8] {
        assert!(len <= self.slot_bytes(slot), "a request larger than its buffer");
        // SAFETY: within the slot, and the caller knows that the kernel is not using it.
        unsafe { std::slice::from_raw_parts_mut(self.address(slot), len) }
    }

    /// Never gives the memory back.
    pub(crate) fn leak(&mut self) {
        self.len = 0;
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if self.len == 0 {
            return;
        }
        // SAFETY: the mapping is ours and no reference into it exists.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_both_sizes_lie_apart_and_within_the_mapping() {
        let mut arena = Arena::new(3, 200_000).unwrap();
        let mut places: Vec<(usize, usize)> = Vec::new();
        for bytes in [4096, SMALL, 4096, SMALL + 1, 200_000, 200_704] {
            let slot = arena.take(bytes).unwrap();
            arena.bytes(slot, bytes).fill(0xa5);
            assert_eq!(arena.is_registered(slot), bytes <= SMALL, "{bytes}");
            places.push((arena.address(slot) as usize, bytes));
        }
        assert_eq!((arena.take(1), arena.take(SMALL + 1)), (None, None));
        let (start, end) = (arena.start as usize, arena.start as usize + arena.len);
        places.sort_unstable();
        assert!(places[0].0 >= start && places.iter().all(|(at, bytes)| at % ALIGN == 0 && at + bytes <= end));
        assert!(places.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{places:?}");
    }

    #[test]
    fn where_no_request_is_large_there_are_small_slots_only() {
        let mut arena = Arena::new(2, 512).unwrap();
        assert_eq!(arena.registered().1, arena.len);
        let slots = [arena.take(512).unwrap(), arena.take(1).unwrap()];
        assert_eq!(arena.take(1), None);
        arena.put(slots[0]);
        assert_eq!(arena.take(512), Some(slots[0]));
    }

    #[test]
    fn filled_slots_differ_and_no_slot_is_empty() {
        let mut arena = Arena::new(2, 128 << 10).unwrap();
        arena.fill(7);
        let contents: Vec<Vec<u8>> = [4096, 4096, 128 << 10, 128 << 10]
            .into_iter()
            .map(|bytes| {
                let slot = arena.take(bytes).unwrap();
                arena.bytes(slot, bytes).to_vec()
            })
            .collect();
        for (i, one) in contents.iter().enumerate() {
            assert!(one.chunks_exact(8).all(|word| word != [0; 8]), "slot {i}");
            assert!(contents[..i].iter().all(|other| other[..4096] != one[..4096]), "slot {i}");
        }
    }
}
