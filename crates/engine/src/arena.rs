//! The buffers of a run: one mapping, as many slots as the device may hold requests.
#![allow(unsafe_code)]

use std::io;

/// Data is aligned to this, more than any device asks for.
pub(crate) const ALIGN: usize = 4096;

/// Slots of equal size, aligned for direct I/O. One page more than their size lies between two, so that the first pages of
/// all do not fall into the same sets of a cache.
pub(crate) struct Arena {
    start: *mut u8,
    len: usize,
    stride: usize,
    slot_bytes: usize,
    free: Vec<u32>,
}

// SAFETY: the mapping belongs to the arena alone.
unsafe impl Send for Arena {}

impl Arena {
    /// `slots` buffers of `slot_bytes`.
    pub(crate) fn new(slots: u32, slot_bytes: usize) -> io::Result<Arena> {
        let slot_bytes = slot_bytes.next_multiple_of(ALIGN);
        let stride = slot_bytes + ALIGN;
        let len = stride * slots.max(1) as usize;
        // SAFETY: a new private mapping.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: within our mapping; a hint.
        unsafe { libc::madvise(start, len, libc::MADV_HUGEPAGE) };
        Ok(Arena { start: start.cast(), len, stride, slot_bytes, free: (0..slots.max(1)).rev().collect() })
    }

    /// Fills everything with bytes that no device can shorten.
    pub(crate) fn fill(&mut self, seed: u64) {
        let mut state = seed | 1;
        // SAFETY: the whole mapping is ours, page aligned and a multiple of 8 long, and nothing is under way.
        let words = unsafe { std::slice::from_raw_parts_mut(self.start.cast::<u64>(), self.len / 8) };
        for word in words {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *word = state;
        }
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    pub(crate) fn put(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// Where a slot begins.
    pub(crate) fn address(&self, slot: u32) -> *mut u8 {
        // SAFETY: slots are below the number that the mapping was made for.
        unsafe { self.start.add(slot as usize * self.stride) }
    }

    /// The first bytes of a slot that is not with the kernel.
    pub(crate) fn bytes(&mut self, slot: u32, len: usize) -> &mut [u8] {
        assert!(len <= self.slot_bytes, "a request larger than its buffer");
        // SAFETY: within the slot, and the caller knows that the kernel is not using it.
        unsafe { std::slice::from_raw_parts_mut(self.address(slot), len) }
    }
}

impl Arena {
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
        // SAFETY: the mapping is ours and nobody holds a reference into it.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}
