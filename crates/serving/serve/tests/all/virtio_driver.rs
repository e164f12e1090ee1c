//! A foreign driver of disks in this process, the crate `virtio-driver`, which libblkio uses: what it reads is what it wrote.
#![allow(unsafe_code)]

use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use virtio_driver::{VhostUser, VirtioBlkQueue, VirtioBlkTransport, VirtioFeatureFlags as Ring};

use crate::patience::Patience;
use crate::running::Running;

/// A request that is under way.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Read,
    Write,
    Zeroes,
    Discard,
    Flush,
}

/// Bytes of each request's memory, and of the disk.
const SLOT: usize = 64 << 10;
const DISK: usize = 4 << 20;
const SLOTS: usize = 24;

/// Memory of a driver, by its address: the server writes to it while requests are under way.
struct Memory {
    map: memmap2::MmapRaw,
    file: File,
}

impl Memory {
    fn new(bytes: usize) -> Memory {
        let file = File::from(memfd_create("driver", MemfdFlags::CLOEXEC).unwrap());
        file.set_len(bytes as u64).unwrap();
        Memory { map: memmap2::MmapRaw::map_raw(&file).unwrap(), file }
    }

    fn slot(&self, slot: usize) -> *mut u8 {
        assert!((slot + 1) * SLOT <= self.map.len());
        // SAFETY: it is within the mapping.
        unsafe { self.map.as_mut_ptr().add(slot * SLOT) }
    }

    fn fill(&self, slot: usize, data: &[u8]) {
        assert!(data.len() <= SLOT);
        // SAFETY: the slot's request is not under way, so that nothing else uses its memory.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.slot(slot), data.len()) }
    }

    fn taken(&self, slot: usize, bytes: usize) -> Vec<u8> {
        let mut data = vec![0; bytes.min(SLOT)];
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(self.slot(slot), data.as_mut_ptr(), data.len()) }
        data
    }
}

/// A driver of an export, and its memory.
struct Driver {
    // The queues lie in memory of the transport, and end first.
    queues: Vec<VirtioBlkQueue<'static, usize>>,
    transport: Box<VirtioBlkTransport>,
    memory: Memory,
}

impl Driver {
    fn connect(running: &Running, export: &str, features: Ring, queues: usize) -> Driver {
        let socket = running.folder.path().join(format!("{export}.vhost"));
        // All features of disks, and those of rings that are asked for.
        let wanted = 0xff_ffff | (Ring::VERSION_1 | features).bits();
        let mut transport: Box<VirtioBlkTransport> =
            Box::new(VhostUser::new(socket.to_str().unwrap(), wanted).unwrap());
        let memory = Memory::new(SLOTS * SLOT);
        let address = memory.map.as_mut_ptr() as usize;
        transport.map_mem_region(address, SLOTS * SLOT, memory.file.as_raw_fd(), 0).unwrap();
        let queues = VirtioBlkQueue::setup_queues(transport.as_mut(), queues, 128).unwrap();
        Driver { queues, transport, memory }
    }

    fn submit(&mut self, queue: usize, slot: usize, kind: Kind, range: &Range<usize>) {
        let (offset, len, memory) = (range.start as u64, range.len(), self.memory.slot(slot));
        let ring = &mut self.queues[queue];
        // SAFETY: the slot's memory is used by this request only until its completion.
        let done = unsafe {
            match kind {
                Kind::Read => ring.read_raw(offset, memory, len, slot),
                Kind::Write => ring.write_raw(offset, memory, len, slot),
                Kind::Zeroes => ring.write_zeroes(offset, len as u64, offset % 1024 == 0, slot),
                Kind::Discard => ring.discard(offset, len as u64, slot),
                Kind::Flush => ring.flush(slot),
            }
        };
        done.unwrap();
        if ring.avail_notif_needed() {
            self.transport.get_submission_notifier(queue).notify().unwrap();
        }
    }

    /// The next completed requests of a queue: their slots and results. Waits for the device's signal.
    fn completed(&mut self, queue: usize) -> Vec<(usize, i32)> {
        let signal = self.transport.get_completion_fd(queue);
        let mut patience = Patience::new(Duration::from_secs(20));
        loop {
            let ring = &mut self.queues[queue];
            ring.set_used_notif_enabled(true);
            let done: Vec<_> = ring.completions().map(|done| (done.context, done.ret)).collect();
            if !done.is_empty() {
                return done;
            }
            // SAFETY: `signal` keeps it open.
            let fd = unsafe { BorrowedFd::borrow_raw(signal.as_raw_fd()) };
            let waited =
                poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&Duration::from_secs(1).try_into().unwrap()));
            match waited.unwrap() {
                0 => assert!(!patience.is_over(), "no completion {}", patience.report()),
                _ => _ = signal.read().unwrap(),
            }
        }
    }

    /// One request, alone.
    fn call(&mut self, kind: Kind, range: Range<usize>) -> i32 {
        self.submit(0, 0, kind, &range);
        let done = self.completed(0);
        assert_eq!((done.len(), done[0].0), (1, 0));
        done[0].1
    }
}

/// Numbers without a pattern (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// Sends requests that do not overlap, as many as fit, and compares what they read with a copy of the disk.
fn storm(driver: &mut Driver, seed: u64, requests: usize) {
    let (mut random, mut disk) = (Random(seed), vec![0x11; DISK]);
    let mut under_way: Vec<Option<(usize, Kind, Range<usize>)>> = vec![None; SLOTS];
    let (mut sent, mut compared) = (0, 0);
    while sent < requests || under_way.iter().any(Option::is_some) {
        for slot in 0..SLOTS {
            let bytes = 512 * (1 + random.below(SLOT / 512));
            let start = 512 * random.below((DISK - bytes) / 512 + 1);
            let range = start..start + bytes;
            let mut others = under_way.iter().flatten();
            let overlaps = others.any(|(_, _, other)| other.start < range.end && range.start < other.end);
            if sent >= requests || under_way[slot].is_some() || overlaps {
                continue;
            }
            let kinds = [Kind::Read, Kind::Read, Kind::Read, Kind::Write, Kind::Write, Kind::Zeroes, Kind::Flush];
            let kind = kinds[random.below(kinds.len())];
            match kind {
                Kind::Write => {
                    disk[range.clone()].iter_mut().for_each(|byte| *byte = random.below(256) as u8);
                    driver.memory.fill(slot, &disk[range.clone()]);
                }
                Kind::Zeroes => disk[range.clone()].fill(0),
                _ => driver.memory.fill(slot, &vec![0xee; bytes]),
            }
            let queue = random.below(driver.queues.len());
            driver.submit(queue, slot, kind, &range);
            (under_way[slot], sent) = (Some((queue, kind, range)), sent + 1);
        }
        let Some((queue, ..)) = under_way.iter().flatten().next() else { continue };
        for (slot, result) in driver.completed(*queue) {
            let (_, kind, range) = under_way[slot].take().expect("completed once");
            assert_eq!(result, 0, "{kind:?} {range:?}");
            if kind == Kind::Read {
                compared += 1;
                assert!(driver.memory.taken(slot, range.len()) == disk[range.clone()], "{range:?}, seed {seed}");
            }
        }
    }
    assert!(compared > requests / 4);
}

#[test]
fn what_a_foreign_driver_reads_is_what_it_wrote() {
    let kinds_of_ring = [Ring::empty(), Ring::RING_EVENT_IDX, Ring::RING_EVENT_IDX | Ring::RING_INDIRECT_DESC];
    for (at, (features, queues)) in kinds_of_ring.into_iter().zip([1, 2, 4]).enumerate() {
        let running = Running::with("file", &["a"], |settings| settings.vhost_user.clone_from(&settings.unix));
        let mut driver = Driver::connect(&running, "a", features, queues);
        assert_eq!(driver.transport.get_features() & features.bits(), features.bits() & !Ring::RING_PACKED.bits());
        let config = driver.transport.get_config().unwrap();
        let capacity = config.capacity;
        assert_eq!(capacity.to_native() as usize, DISK / 512);
        storm(&mut driver, 0x9e37_79b9 + at as u64, 1000);
        drop(driver);
        assert!(running.end());
    }
}

#[test]
fn a_foreign_driver_gets_errors_and_goes_on() {
    let running = Running::with("file", &["a:size=2M", "b:offset=2M,readonly"], |settings| {
        settings.vhost_user.clone_from(&settings.unix);
    });
    let mut driver = Driver::connect(&running, "a", Ring::RING_EVENT_IDX, 1);
    let (half, whole) = (DISK / 2, SLOT);
    assert_eq!(driver.call(Kind::Read, half..half + 512), -libc::EIO, "past the end");
    assert_eq!(driver.call(Kind::Write, half - 512..half + 512), -libc::EIO, "across the end");
    assert_eq!(driver.call(Kind::Read, half - whole..half), 0);
    assert_eq!(driver.memory.taken(0, whole), vec![0x11; whole]);
    assert_eq!(driver.call(Kind::Discard, 4096..12288), 0);
    assert_eq!(driver.call(Kind::Read, 4096..12288), 0);
    assert_eq!(driver.memory.taken(0, 8192), vec![0; 8192]);
    assert_eq!(driver.call(Kind::Flush, 0..0), 0);
    let mut other = Driver::connect(&running, "b", Ring::empty(), 1);
    assert_eq!(other.call(Kind::Write, 0..512), -libc::EIO, "read-only");
    assert_eq!(other.call(Kind::Read, 0..512), 0);
    drop((driver, other));
    assert!(running.end());
}

#[test]
fn a_foreign_drivers_memory_comes_and_goes_while_it_works() {
    let running = Running::with("file", &["a"], |settings| settings.vhost_user.clone_from(&settings.unix));
    let mut driver = Driver::connect(&running, "a", Ring::RING_EVENT_IDX, 1);
    for _ in 0..20 {
        let more = Memory::new(SLOTS * SLOT);
        let (address, bytes) = (more.map.as_mut_ptr() as usize, more.map.len());
        driver.transport.map_mem_region(address, bytes, more.file.as_raw_fd(), 0).unwrap();
        let old = std::mem::replace(&mut driver.memory, more);
        driver.transport.unmap_mem_region(old.map.as_mut_ptr() as usize, old.map.len()).unwrap();
        drop(old);
        assert_eq!(driver.call(Kind::Read, 0..SLOT), 0);
        assert_eq!(driver.memory.taken(0, SLOT), vec![0x11; SLOT]);
    }
    drop(driver);
    assert!(running.end());
}
