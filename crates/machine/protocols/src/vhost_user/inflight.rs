//! The in-flight records of rings (QEMU's "Inflight I/O tracking"): memory that the front end keeps while the back end is gone, so that
//! the next one does again what was taken and not given back.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use crate::vhost_user::mapping::Mapping;
use crate::vhost_user::wire::{MAX_QUEUE_SIZE, MAX_QUEUES};

/// Bytes before the records of a ring: features u64, version u16, records u16, last head u16, used index u16.
const HEADER_BYTES: u64 = 16;
/// Bytes of a record: in flight u8, next u16 at 6, counter u64 at 8.
const RECORD_BYTES: u64 = 16;
/// A ring's part is rounded to this.
const ALIGN: u64 = 64;
const VERSION: u16 = 1;

const VERSION_AT: u64 = 8;
const RECORDS_AT: u64 = 10;
const LAST_HEAD_AT: u64 = 12;
const USED_INDEX_AT: u64 = 14;
const NEXT_AT: u64 = 6;
const COUNTER_AT: u64 = 8;

/// Why a region is refused.
#[derive(Debug)]
pub enum InflightError {
    /// Numbers of rings or entries that were never agreed on, or a region too small for them.
    Size,
    /// A layout that is not known.
    Version(u16),
    /// It cannot be made or mapped.
    Map(io::Error),
}

impl std::fmt::Display for InflightError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            InflightError::Size => f.write_str("wrong number of rings or entries, or too little memory for them"),
            InflightError::Version(version) => write!(f, "version {version} is unknown; expected 0 or 1"),
            InflightError::Map(error) => write!(f, "{error}"),
        }
    }
}

/// The state that a restarted ring finds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Heads that were taken and not given back, oldest first.
    pub heads: Vec<u16>,
    /// The counter goes on from here.
    pub next_counter: u64,
    /// The records contradict themselves and count as empty.
    pub nonsense: bool,
    /// The records are unused.
    pub fresh: bool,
}

/// The records of all rings of a device.
#[derive(Debug)]
pub struct Inflight {
    file: OwnedFd,
    mapping: Mapping,
    /// Where it begins in its file.
    offset: u64,
    queues: u16,
    queue_size: u16,
}

fn part_bytes(queue_size: u16) -> u64 {
    (HEADER_BYTES + RECORD_BYTES * u64::from(queue_size)).next_multiple_of(ALIGN)
}

fn fits(queues: u16, queue_size: u16) -> bool {
    (1..=MAX_QUEUES).contains(&queues) && (1..=MAX_QUEUE_SIZE).contains(&queue_size)
}

impl Inflight {
    /// Empty records for some rings.
    pub fn create(queues: u16, queue_size: u16) -> Result<Inflight, InflightError> {
        if !fits(queues, queue_size) {
            return Err(InflightError::Size);
        }
        let bytes = part_bytes(queue_size) * u64::from(queues);
        let make = || -> io::Result<(OwnedFd, Mapping)> {
            let file = memfd_create("vhost-user-inflight", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
            ftruncate(&file, bytes)?;
            fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
            let mapping = Mapping::new(&file, bytes as usize)?;
            Ok((file, mapping))
        };
        let (file, mapping) = make().map_err(InflightError::Map)?;
        let region = Inflight { file, mapping, offset: 0, queues, queue_size };
        for queue in 0..queues {
            region.mapping.store16(region.base(queue) + RECORDS_AT, queue_size);
        }
        Ok(region)
    }

    /// Records that the front end hands back.
    pub fn open(
        file: OwnedFd,
        bytes: u64,
        offset: u64,
        queues: u16,
        queue_size: u16,
    ) -> Result<Inflight, InflightError> {
        if !fits(queues, queue_size) || bytes < part_bytes(queue_size) * u64::from(queues) || !offset.is_multiple_of(8)
        {
            return Err(InflightError::Size);
        }
        let whole = offset.checked_add(bytes).filter(|whole| *whole <= 1 << 32).ok_or(InflightError::Size)?;
        let mapping = Mapping::new(&file, whole as usize).map_err(InflightError::Map)?;
        let region = Inflight { file, mapping, offset, queues, queue_size };
        for queue in 0..queues {
            let version = region.mapping.load16(region.base(queue) + VERSION_AT);
            if version > VERSION {
                return Err(InflightError::Version(version));
            }
        }
        Ok(region)
    }

    /// Its file, for the front end.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Its size in the file, bytes.
    pub fn bytes(&self) -> u64 {
        self.mapping.len() as u64 - self.offset
    }

    /// Has it lost its file?
    pub fn is_truncated(&self) -> bool {
        self.mapping.is_truncated()
    }

    /// Does it have records for this ring?
    pub fn covers(&self, queue: u16, size: u16) -> bool {
        queue < self.queues && size <= self.queue_size
    }

    fn base(&self, queue: u16) -> u64 {
        self.offset + part_bytes(self.queue_size) * u64::from(queue)
    }

    fn record(&self, queue: u16, head: u16) -> u64 {
        self.base(queue) + HEADER_BYTES + RECORD_BYTES * u64::from(head)
    }

    /// A head is taken.
    #[inline]
    pub fn take(&self, queue: u16, head: u16, counter: u64) {
        let record = self.record(queue, head);
        self.mapping.store64(record + COUNTER_AT, counter);
        self.mapping.store16(record, 1);
    }

    /// A head will be given back with the next publication of the used index.
    #[inline]
    pub fn link(&self, queue: u16, head: u16) {
        let base = self.base(queue);
        let last = self.mapping.load16(base + LAST_HEAD_AT);
        self.mapping.store16(self.record(queue, head) + NEXT_AT, last);
        self.mapping.store16(base + LAST_HEAD_AT, head);
    }

    /// A head was given back: the used index is published.
    #[inline]
    pub fn clear(&self, queue: u16, head: u16) {
        self.mapping.store16(self.record(queue, head), 0);
    }

    /// All heads up to this used index are cleared.
    #[inline]
    pub fn finish(&self, queue: u16, used_index: u16) {
        self.mapping.store16(self.base(queue) + USED_INDEX_AT, used_index);
    }

    /// Requests to be done again by a ring of `size` entries whose used index the guest sees as `used_index`. Others can write this memory,
    /// so nothing in it is believed further than the ring's bounds.
    pub fn recover(&self, queue: u16, size: u16, used_index: u16) -> Recovery {
        let base = self.base(queue);
        if self.mapping.load16(base + VERSION_AT) != VERSION {
            self.mapping.store16(base + VERSION_AT, VERSION);
            self.mapping.store16(base + RECORDS_AT, self.queue_size);
            self.reset(queue, used_index);
            return Recovery { fresh: true, ..Recovery::default() };
        }
        let published = used_index.wrapping_sub(self.mapping.load16(base + USED_INDEX_AT));
        let mut head = self.mapping.load16(base + LAST_HEAD_AT);
        let mut nonsense = published > size || self.mapping.load16(base + RECORDS_AT) > MAX_QUEUE_SIZE;
        for _ in 0..published {
            if nonsense || head >= size {
                nonsense = true;
                break;
            }
            self.clear(queue, head);
            head = self.mapping.load16(self.record(queue, head) + NEXT_AT);
        }
        let mut found: Vec<(u64, u16)> = Vec::new();
        for head in 0..size {
            if self.mapping.load16(self.record(queue, head)) & 0xff != 0 {
                found.push((self.mapping.load64(self.record(queue, head) + COUNTER_AT), head));
            }
        }
        if nonsense {
            self.reset(queue, used_index);
            return Recovery { nonsense: !found.is_empty(), fresh: found.is_empty(), ..Recovery::default() };
        }
        self.finish(queue, used_index);
        found.sort_unstable();
        let next_counter = found.last().map_or(0, |(counter, _)| counter.wrapping_add(1));
        Recovery { heads: found.into_iter().map(|(_, head)| head).collect(), next_counter, ..Recovery::default() }
    }

    fn reset(&self, queue: u16, used_index: u16) {
        for head in 0..self.queue_size {
            self.clear(queue, head);
        }
        self.finish(queue, used_index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stores of a batch in their order; `published` is the guest's used index.
    fn batch(region: &Inflight, heads: &[u16], used: u16, stores: usize, published: &mut u16) {
        let mut step = 0;
        let mut next = || {
            step += 1;
            step <= stores
        };
        for head in heads {
            if next() {
                region.link(0, *head);
            }
        }
        if next() {
            *published = used;
        }
        for head in heads {
            if next() {
                region.clear(0, *head);
            }
        }
        if next() {
            region.finish(0, used);
        }
    }

    #[test]
    fn whatever_part_of_a_batch_was_stored_nothing_is_lost_or_done_twice() {
        for stores in 0..10 {
            let region = Inflight::create(2, 8).unwrap();
            assert!(region.recover(0, 8, 65534).fresh);
            for (counter, head) in [3, 1, 7, 0, 5].into_iter().enumerate() {
                region.take(0, head, counter as u64);
            }
            let mut published = 65534;
            batch(&region, &[1, 0], 0, 9, &mut published);
            batch(&region, &[7, 3, 5], 3, stores, &mut published);
            let again = region.recover(0, 8, published);
            let want: &[u16] = if published == 3 { &[] } else { &[3, 7, 5] };
            assert_eq!(again.heads, want, "after {stores} stores");
            assert!(!again.nonsense);
        }
    }

    #[test]
    fn nonsense_counts_as_empty_and_ends() {
        let region = Inflight::create(1, 8).unwrap();
        region.recover(0, 8, 0);
        region.take(0, 2, 1);
        // A head beyond the ring, and more published than the ring has.
        region.link(0, 2);
        region.mapping.store16(LAST_HEAD_AT, 500);
        let found = region.recover(0, 8, 3);
        assert!(found.nonsense && found.heads.is_empty());
        region.take(0, 2, 1);
        assert!(region.recover(0, 8, 900).nonsense);
    }

    #[test]
    fn regions_of_other_sizes_and_versions_are_refused() {
        let region = Inflight::create(1, 8).unwrap();
        let file = || region.file().try_clone_to_owned().unwrap();
        assert!(Inflight::open(file(), region.bytes(), 0, 1, 8).is_ok());
        assert!(matches!(Inflight::open(file(), 64, 0, 1, 8), Err(InflightError::Size)));
        assert!(matches!(Inflight::open(file(), region.bytes(), 0, 2, 8), Err(InflightError::Size)));
        assert!(matches!(Inflight::open(file(), 4096, 0, 2, 8), Err(InflightError::Map(_))));
        assert!(matches!(Inflight::open(file(), u64::MAX, 8, 1, 8), Err(InflightError::Size)));
        assert!(
            Inflight::create(0, 8).is_err() && Inflight::create(1, 0).is_err() && Inflight::create(1, 2048).is_err()
        );
        region.mapping.store16(VERSION_AT, 2);
        assert!(matches!(Inflight::open(file(), region.bytes(), 0, 1, 8), Err(InflightError::Version(2))));
    }
}
