//! Memory for requests under way: buffers by size class, used again and again, within one bound.

use dumbwaiter_path::Buffer;

/// Smallest and largest buffer, bytes, as powers of two.
const SMALLEST_SHIFT: u32 = 12;
const LARGEST_SHIFT: u32 = 25;
const CLASSES: usize = (LARGEST_SHIFT - SMALLEST_SHIFT + 1) as usize;
/// Largest buffer, bytes.
pub(crate) const LARGEST: u32 = 1 << LARGEST_SHIFT;
/// Free buffers are kept up to this many bytes; more are given back to the system.
const KEPT_BYTES: u64 = 64 << 20;

/// Buffers of a disk.
pub(crate) struct Buffers {
    free: [Vec<Buffer>; CLASSES],
    free_bytes: u64,
    used_bytes: u64,
    most_bytes: u64,
}

fn class_of(bytes: usize) -> usize {
    let shift = bytes.max(1).next_power_of_two().trailing_zeros();
    (shift.clamp(SMALLEST_SHIFT, LARGEST_SHIFT) - SMALLEST_SHIFT) as usize
}

impl Buffers {
    /// Buffers of at most `most_bytes` in all.
    pub(crate) fn new(most_bytes: u64) -> Buffers {
        Buffers { free: Default::default(), free_bytes: 0, used_bytes: 0, most_bytes }
    }

    /// Bytes that are in use.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// A buffer of `bytes`, at most [`LARGEST`], for an owner that uses `own` bytes already. An owner may use half of all memory, and
    /// one that uses none always gets a buffer: no connection can take all.
    pub(crate) fn take(&mut self, bytes: usize, own: u64) -> Option<Buffer> {
        let class = class_of(bytes);
        let size = 1u64 << (class as u32 + SMALLEST_SHIFT);
        let within = self.used_bytes + size <= self.most_bytes && own + size <= self.most_bytes / 2;
        if !within && own > 0 {
            return None;
        }
        self.used_bytes += size;
        let mut buffer = match self.free[class].pop() {
            Some(buffer) => {
                self.free_bytes -= size;
                buffer
            }
            None => Buffer::new(size as usize),
        };
        buffer.set_len(bytes);
        Some(buffer)
    }

    /// Takes a buffer back.
    pub(crate) fn put(&mut self, buffer: Buffer) {
        let size = buffer.capacity() as u64;
        self.used_bytes -= size;
        if self.free_bytes + size <= KEPT_BYTES {
            self.free_bytes += size;
            self.free[class_of(buffer.capacity())].push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_gets_half_of_the_memory_and_one_without_any_always_a_buffer() {
        let mut buffers = Buffers::new(64 << 10);
        let a = buffers.take(32 << 10, 0).unwrap();
        assert!(buffers.take(4096, 32 << 10).is_none(), "half is used");
        let b = buffers.take(32 << 10, 0).unwrap();
        let c = buffers.take(4096, 0).unwrap();
        assert_eq!(buffers.used_bytes(), 68 << 10);
        for buffer in [a, b, c] {
            buffers.put(buffer);
        }
        assert_eq!(buffers.used_bytes(), 0);
        assert_eq!(buffers.take(5000, 0).unwrap().len(), 5000);
    }
}
