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
/// The most that [`Buffers::trim`] gives back at once: that takes time, for which requests wait.
const TRIMMED_BYTES: u64 = 8 << 20;

/// Free buffers of one size.
#[derive(Default)]
struct Class {
    free: Vec<Buffer>,
    /// The fewest that were free since the last [`Buffers::trim`]: this many were of no use.
    fewest: usize,
}

/// Buffers of a disk.
pub(crate) struct Buffers {
    classes: [Class; CLASSES],
    free_bytes: u64,
    used_bytes: u64,
    most_bytes: u64,
}

fn class_of(bytes: usize) -> usize {
    let shift = bytes.max(1).next_power_of_two().trailing_zeros();
    (shift.clamp(SMALLEST_SHIFT, LARGEST_SHIFT) - SMALLEST_SHIFT) as usize
}

fn size_of_class(class: usize) -> u64 {
    1 << (class as u32 + SMALLEST_SHIFT)
}

impl Buffers {
    /// Buffers of at most `most_bytes` in all.
    pub(crate) fn new(most_bytes: u64) -> Buffers {
        Buffers { classes: Default::default(), free_bytes: 0, used_bytes: 0, most_bytes }
    }

    /// Bytes that are in use.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Bytes that are kept for further requests.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    /// A buffer of `bytes`, at most [`LARGEST`], for an owner that uses `own` bytes already. An owner may use half of all memory, and
    /// one that uses none always gets a buffer: no connection can take all.
    pub(crate) fn take(&mut self, bytes: usize, own: u64) -> Option<Buffer> {
        let class = class_of(bytes);
        let size = size_of_class(class);
        let within = self.used_bytes + size <= self.most_bytes && own + size <= self.most_bytes / 2;
        if !within && own > 0 {
            return None;
        }
        self.used_bytes += size;
        let Class { free, fewest } = &mut self.classes[class];
        let mut buffer = match free.pop() {
            Some(buffer) => {
                self.free_bytes -= size;
                *fewest = (*fewest).min(free.len());
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
            self.classes[class_of(buffer.capacity())].free.push(buffer);
        }
    }

    /// Gives back half of the buffers that were free all the time since the last call, the largest first. Called once a second, memory
    /// follows what requests need: after a burst it is gone within seconds, and a steady load keeps its buffers.
    pub(crate) fn trim(&mut self) {
        let mut left = TRIMMED_BYTES;
        for (number, class) in self.classes.iter_mut().enumerate().rev() {
            let size = size_of_class(number);
            // One at least, however large.
            let most = if left == TRIMMED_BYTES { (left / size).max(1) } else { left / size };
            let count = class.fewest.div_ceil(2).min(most as usize);
            class.free.truncate(class.free.len() - count);
            class.fewest = class.free.len();
            self.free_bytes -= count as u64 * size;
            left = left.saturating_sub(count as u64 * size);
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

    /// Takes `count` buffers of `bytes` at once, and puts them back.
    fn use_at_once(buffers: &mut Buffers, count: usize, bytes: usize) {
        let taken: Vec<Buffer> = (0..count).map(|_| buffers.take(bytes, 0).unwrap()).collect();
        taken.into_iter().for_each(|buffer| buffers.put(buffer));
    }

    #[test]
    fn a_steady_load_keeps_its_buffers_and_those_of_a_burst_are_given_back() {
        let mut buffers = Buffers::new(256 << 20);
        use_at_once(&mut buffers, 1, 32 << 20);
        use_at_once(&mut buffers, 20, 1 << 20);
        for second in 0..20 {
            use_at_once(&mut buffers, 64, 4096);
            let before = buffers.free_bytes();
            buffers.trim();
            assert!(before - buffers.free_bytes() <= TRIMMED_BYTES || second <= 1, "second {second}");
        }
        assert_eq!(buffers.free_bytes(), 64 * 4096);
        buffers.trim();
        assert_eq!(buffers.free_bytes(), 32 * 4096, "half of what had no use");
        (0..20).for_each(|_| buffers.trim());
        assert_eq!((buffers.free_bytes(), buffers.used_bytes()), (0, 0));
    }
}
