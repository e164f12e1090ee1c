//! An I/O allocates nothing in steady state, whatever its data.
#![allow(unsafe_code)] // Iovecs borrow memory without a lifetime.

use std::os::fd::AsFd;
use std::sync::Arc;

use dumbwaiter_block::{Config, Io, Ioprio, Op, Setup, Tenant, Tenants};
use dumbwaiter_path::{Buffer, Data, Disk, DiskOptions, Event, Interest, Iovecs, OpenOptions, Target};
use dumbwaiter_schedulers::{Choice, REGISTRY};
use dumbwaiter_testkit::allocations::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const DEPTH: u64 = 16;
const BLOCKS: u64 = 64;
const IOS: u64 = 4_000;

/// The data of the I/Os.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Scratch,
    Buffer,
    Iovec,
}

struct Load {
    disk: Disk,
    io: Io,
    kind: Kind,
    /// Two pieces for each I/O that may be under way.
    pieces: Vec<[libc::iovec; 2]>,
    events: Vec<Event>,
}

impl Load {
    fn submit(&mut self, number: u64, data: Option<Data>) {
        let data = data.unwrap_or_else(|| match self.kind {
            Kind::Scratch => Data::Scratch,
            Kind::Buffer => Data::Buffer(Buffer::new(4096)),
            // SAFETY: the memory is leaked, so it stays; no two I/Os of a place are under way together.
            Kind::Iovec => Data::Iovec(unsafe { Iovecs::new(&self.pieces[(number % DEPTH) as usize]) }),
        });
        let op = if number.is_multiple_of(3) { Op::Write } else { Op::Read };
        let io = Io { op, sector: number * 7 % BLOCKS * 8, token: number, ..self.io };
        self.disk.submit(io, data).unwrap();
    }

    /// Allocations for the last half of [`IOS`] I/Os.
    fn allocations(&mut self) -> u64 {
        for number in 0..DEPTH {
            self.submit(number, None);
        }
        let (mut done, mut before) = (0, 0);
        while done < IOS {
            let mut events = std::mem::take(&mut self.events);
            self.disk.turn(None, &mut events).unwrap();
            for event in events.drain(..) {
                let Event::Completed { finished, data } = event else { panic!("{event:?}") };
                finished.result.unwrap();
                done += 1;
                // The same place and the same memory.
                self.submit(finished.io.token + DEPTH, Some(data));
                if done == IOS / 2 {
                    before = allocations();
                }
            }
            self.events = events;
        }
        allocations() - before
    }
}

fn load(target: &Arc<Target>, scheduler: &str, kind: Kind) -> Load {
    let setup = Setup { device_depth: DEPTH as u32 / 2, nr_requests: DEPTH as u32, ..Setup::default() };
    let mut tenants = Tenants::default();
    let tenant = tenants.add_tenant(Tenant { weight: 100, parent: None });
    let task = tenants.add_task(tenant, Ioprio::DEFAULT);
    let config = Config { setup, ..Config::default() };
    let scheduler = Choice::parse(scheduler).unwrap().build(setup);
    let options = DiskOptions { scratch: kind == Kind::Scratch, ..DiskOptions::default() };
    let disk = Disk::new(Arc::clone(target), config, scheduler, tenants, options).unwrap();
    let memory = Box::leak(vec![0u8; DEPTH as usize * 4096].into_boxed_slice());
    let piece = |from: usize| libc::iovec { iov_base: memory[from..].as_ptr().cast_mut().cast(), iov_len: 2048 };
    let pieces = (0..DEPTH as usize).map(|i| [piece(i * 4096 + 2048), piece(i * 4096)]).collect();
    let io = Io { sectors: 8, task, tenant, ..Io::default() };
    Load { disk, io, kind, pieces, events: Vec::new() }
}

#[test]
fn none_per_io() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    std::fs::write(&path, vec![1; (BLOCKS * 4096) as usize]).unwrap();
    let options = OpenOptions { direct: false, allow_writes: true, ..OpenOptions::default() };
    let target = Arc::new(Target::open(&path, &options).unwrap());
    for kind in [Kind::Scratch, Kind::Buffer, Kind::Iovec] {
        for entry in REGISTRY {
            let allocations = load(&target, entry.name, kind).allocations();
            assert!(allocations < 40, "{}, {kind:?}: {allocations} allocations for {} I/Os", entry.name, IOS / 2);
        }
    }
    // With a watched descriptor.
    let mut with_watch = load(&target, "none", Kind::Scratch);
    let (reader, _writer) = std::io::pipe().unwrap();
    with_watch.disk.watch(reader.as_fd(), Interest::Read).unwrap();
    assert!(with_watch.allocations() < 40);
}
