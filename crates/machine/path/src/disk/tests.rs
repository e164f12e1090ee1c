//! A disk whose device is a pipe takes as long as a test wants; one over a file moves the bytes that it should.
#![allow(unsafe_code)]

use std::io::{PipeWriter, Write};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use dumbwaiter_block::{Errno, Ioprio, Limits, Op, Setup, TaskId, Tenant, TenantId};
use dumbwaiter_schedulers::Choice;

use super::*;
use crate::buffer::{Buffer, Iovecs};
use crate::options::OpenOptions;
use crate::{CompletionMode, Sleep};

const DEPTH: u32 = 8;

fn config() -> Config {
    let setup = Setup { device_depth: DEPTH, nr_requests: 2 * DEPTH, ..Setup::default() };
    let limits = Limits { max_sectors: 128, ..Limits::default() };
    Config { setup, limits, volatile_cache: true, fua: true, ..Config::default() }
}

fn disk_with(target: Target, scheduler: &str, config: Config, options: DiskOptions) -> Disk {
    let mut tenants = Tenants::default();
    let tenant = tenants.add_tenant(Tenant { weight: 100, parent: None });
    tenants.add_task(tenant, Ioprio::DEFAULT);
    let scheduler = Choice::parse(scheduler).unwrap().build(config.setup);
    Disk::new(Arc::new(target), config, scheduler, tenants, options).unwrap()
}

fn scratch() -> DiskOptions {
    DiskOptions { scratch: true, ..DiskOptions::default() }
}

fn io(op: Op, sector: u64, sectors: u32, token: u64) -> Io {
    Io { op, sector, sectors, task: TaskId(0), tenant: TenantId(0), token, ..Io::default() }
}

/// A disk whose reads complete when something is written to the pipe.
fn stream_disk() -> (Disk, PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    (disk_with(Target::of_stream(reader, 1 << 20), "none", config(), scratch()), writer)
}

/// A file whose sectors begin with their number.
fn numbered_file(sectors: u64) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    let mut bytes = vec![0; (sectors * 512) as usize];
    for (sector, block) in bytes.chunks_mut(512).enumerate() {
        block[..8].copy_from_slice(&(sector as u64).to_le_bytes());
    }
    std::fs::write(&path, bytes).unwrap();
    (dir, path)
}

fn open(path: &std::path::Path) -> Target {
    Target::open(path, &OpenOptions { direct: false, allow_writes: true, ..OpenOptions::default() }).unwrap()
}

/// Turns until `count` I/Os are completed: their tokens, results and data.
fn complete(disk: &mut Disk, count: usize) -> Vec<(u64, Result<(), Errno>, Data)> {
    let (mut events, mut done) = (Vec::new(), Vec::new());
    while done.len() < count {
        disk.turn(None, &mut events).unwrap();
        for event in events.drain(..) {
            if let Event::Completed { finished, data } = event {
                done.push((finished.io.token, finished.result, data));
            }
        }
    }
    done
}

fn number_of(block: &[u8]) -> u64 {
    u64::from_le_bytes(block[..8].try_into().unwrap())
}

#[test]
fn an_idle_disk_sleeps_until_its_deadline() {
    let (mut disk, _writer) = stream_disk();
    let mut events = Vec::new();
    for step in 1..4 {
        let deadline = Nanos::from_ms(2 * step);
        while disk.now() < deadline {
            disk.turn(Some(deadline), &mut events).unwrap();
        }
    }
    assert!(events.is_empty());
    // A deadline that has passed: it only looks.
    disk.turn(Some(Nanos::ZERO), &mut events).unwrap();
    assert!(events.is_empty());
}

#[test]
fn a_sleep_that_nothing_could_end_is_an_error() {
    let (mut disk, _writer) = stream_disk();
    let error = disk.turn(None, &mut Vec::new()).unwrap_err();
    assert!(matches!(error, Error::Stalled { queued: 0 }), "{error}");
}

#[test]
fn another_thread_wakes_an_idle_disk_and_one_with_io_under_way() {
    let (mut disk, mut writer) = stream_disk();
    let waker = disk.waker().unwrap();
    let mut events = Vec::new();
    for busy in [false, true] {
        if busy {
            disk.submit(io(Op::Read, 0, 8, 1), Data::Scratch).unwrap();
        }
        for _ in 0..3 {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    waker.wake();
                    waker.clone().wake();
                });
                while events.is_empty() {
                    disk.turn(None, &mut events).unwrap();
                }
            });
            assert!(events.drain(..).all(|event| matches!(event, Event::Woken)), "busy: {busy}");
            // The second call may have come after the answer to the first.
            disk.turn(Some(Nanos::ZERO), &mut events).unwrap();
            events.clear();
        }
    }
    writer.write_all(&[0; 4096]).unwrap();
    assert_eq!(complete(&mut disk, 1)[0].0, 1);
    drop(disk);
    waker.wake();
}

#[test]
fn a_watched_descriptor_is_reported_each_time_until_it_is_unwatched() {
    let (mut disk, _writer) = stream_disk();
    let (mut ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let watch = disk.watch(ours.as_fd(), Interest::Read).unwrap();
    let mut events = Vec::new();
    for _ in 0..5 {
        theirs.write_all(b"hello").unwrap();
        while events.is_empty() {
            disk.turn(None, &mut events).unwrap();
        }
        let expected = Readiness { readable: true, writable: false, ended: false };
        let ready =
            |e: &Event| matches!(e, Event::Ready { watch: w, readiness } if *w == watch && *readiness == expected);
        assert!(events.drain(..).all(|event| ready(&event)));
        let mut buffer = [0; 5];
        std::io::Read::read_exact(&mut ours, &mut buffer).unwrap();
    }
    disk.unwatch(watch).unwrap();
    theirs.write_all(b"unseen").unwrap();
    // Another descriptor in the same place does not get the late answers of the first.
    let (other, mut writer) = std::io::pipe().unwrap();
    let second = disk.watch(other.as_fd(), Interest::Read).unwrap();
    assert_ne!(watch, second);
    disk.turn(Some(disk.now() + Nanos::from_ms(2)), &mut events).unwrap();
    assert!(events.is_empty(), "{events:?}");
    writer.write_all(b"seen").unwrap();
    while events.is_empty() {
        disk.turn(None, &mut events).unwrap();
    }
    assert!(events.iter().all(|e| matches!(e, Event::Ready { watch, .. } if *watch == second)), "{events:?}");
    disk.unwatch(watch).unwrap();
    disk.unwatch(second).unwrap();
    assert!(matches!(disk.turn(None, &mut events), Err(Error::Stalled { .. })), "nothing is watched any more");
}

#[test]
fn a_signal_goes_with_the_next_call_and_is_none_to_a_ring_that_is_gone() {
    let (mut disk, _writer) = stream_disk();
    let _waker = disk.waker().unwrap();
    // SAFETY: plain calls; the descriptor is new and ours.
    let event = unsafe {
        let fd = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
        std::fs::File::from(<std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd))
    };
    let ring = io_uring::IoUring::new(4).unwrap();
    ring.submitter().register_eventfd(event.as_raw_fd()).unwrap();
    let count = || {
        let mut bytes = [0; 8];
        std::io::Read::read(&mut &event, &mut bytes).map_or(0, |_| u64::from_ne_bytes(bytes))
    };
    // SAFETY: the ring lives as long as the borrow.
    let other = unsafe { std::os::fd::BorrowedFd::borrow_raw(ring.as_raw_fd()) };
    if !disk.signal(other).unwrap() {
        return println!("skipped: this kernel has no messages between rings");
    }
    assert_eq!(count(), 0, "nothing is sent before the call");
    let mut events = Vec::new();
    disk.turn(Some(disk.now()), &mut events).unwrap();
    assert_eq!(count(), 1);
    // More than the other ring has room for are a signal still.
    (0..40).for_each(|_| assert!(disk.signal(other).unwrap()));
    disk.hand_over().unwrap();
    assert!(count() > 0);
    // A descriptor that is no ring any more.
    assert!(disk.signal(event.as_fd()).unwrap());
    disk.turn(Some(disk.now() + Nanos::from_ms(1)), &mut events).unwrap();
    assert!(events.is_empty() && count() == 0, "{events:?}");
}

#[test]
fn the_end_of_a_watched_stream_and_room_to_write_are_distinguished() {
    let (mut disk, _writer) = stream_disk();
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    disk.watch(ours.as_fd(), Interest::ReadWrite).unwrap();
    let mut events = Vec::new();
    let mut next = |disk: &mut Disk| loop {
        disk.turn(None, &mut events).unwrap();
        if let Some(Event::Ready { readiness, .. }) = events.pop() {
            events.clear();
            return readiness;
        }
    };
    assert_eq!(next(&mut disk), Readiness { readable: false, writable: true, ended: false });
    drop(theirs);
    let end = next(&mut disk);
    assert!(end.readable && end.ended);
}

#[test]
fn a_dropped_disk_waits_for_io_under_way() {
    for panics in [false, true] {
        let (mut disk, mut writer) = stream_disk();
        let written = AtomicBool::new(false);
        std::thread::scope(|scope| {
            disk.submit(io(Op::Read, 0, 8, 1), Data::Scratch).unwrap();
            disk.submit(io(Op::Read, 8, 8, 2), Data::Buffer(Buffer::new(4096))).unwrap();
            disk.send(&mut Vec::new()).unwrap();
            let written = &written;
            scope.spawn(move || {
                written.store(true, Ordering::SeqCst);
                writer.write_all(&[7; 8192]).unwrap();
            });
            let dropped = catch_unwind(AssertUnwindSafe(move || {
                let _disk = disk;
                assert!(!panics, "a panic with I/O under way");
            }));
            assert_eq!(dropped.is_err(), panics);
            assert!(written.load(Ordering::SeqCst), "its buffers were still the kernel's");
        });
    }
}

#[test]
fn a_single_request_is_submitted_by_the_call_that_waits_for_it() {
    for (count, left) in [(1, 1), (2, 0)] {
        let (mut disk, mut writer) = stream_disk();
        for number in 0..count {
            disk.submit(io(Op::Read, 8 * number, 8, number), Data::Scratch).unwrap();
        }
        disk.send(&mut Vec::new()).unwrap();
        assert_eq!(disk.rings.main.pending(), left);
        writer.write_all(&vec![0; 4096 * count as usize]).unwrap();
        assert!(complete(&mut disk, count as usize).iter().all(|(_, result, _)| result.is_ok()));
    }
}

#[test]
fn discards_of_several_ranges_are_refused() {
    let (_dir, path) = numbered_file(8);
    let mut config = config();
    config.limits.max_discard_segments = 2;
    let scheduler = Choice::parse("none").unwrap().build(config.setup);
    let made = Disk::new(Arc::new(open(&path)), config, scheduler, Tenants::default(), scratch());
    assert!(made.err().unwrap().to_string().contains("discards of 2 ranges"));
}

#[test]
fn a_request_that_the_ring_refuses_ends_the_disk_and_not_its_drop() {
    let (mut disk, mut writer) = stream_disk();
    disk.submit(io(Op::Read, 0, 8, 1), Data::Scratch).unwrap();
    disk.send(&mut Vec::new()).unwrap();
    disk.submit(io(Op::Read, 8, 8, 2), Data::Scratch).unwrap();
    disk.rings.main.refuse_next_push = true;
    let error = disk.turn(None, &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("takes no requests"), "{error}");
    writer.write_all(&[0; 4096]).unwrap();
    drop(disk);
}

#[test]
fn merged_writes_of_scattered_memory_land_in_the_right_bytes() {
    let (_dir, path) = numbered_file(256);
    let mut config = config();
    config.limits.segment_bytes = 512;
    let mut disk = disk_with(open(&path), "mq-deadline", config, scratch());
    // I/Os of two sectors, each of two pieces that lie apart and in the wrong order in memory.
    let memory: Vec<Vec<u8>> = (0..16u64).map(|i| [(1000 + i).to_le_bytes().as_slice(), &[9; 504]].concat()).collect();
    let piece = |i: usize| libc::iovec { iov_base: memory[i].as_ptr().cast_mut().cast(), iov_len: 512 };
    let pieces: Vec<[libc::iovec; 2]> = (0..8).map(|i| [piece(15 - 2 * i), piece(14 - 2 * i)]).collect();
    // The third I/O is a buffer, the last one the disk's own memory.
    let mut own = Buffer::new(1024);
    own[..8].copy_from_slice(&77u64.to_le_bytes());
    own[512..520].copy_from_slice(&78u64.to_le_bytes());
    let mut own = Some(own);
    for i in [4usize, 5, 3, 2, 6, 1, 0, 7] {
        let data = match i {
            2 => Data::Buffer(own.take().unwrap()),
            7 => Data::Scratch,
            // SAFETY: all of it lives until the I/Os are completed, below, and nothing writes to it.
            _ => Data::Iovec(unsafe { Iovecs::new(&pieces[i]) }),
        };
        disk.submit_plugged(io(Op::Write, 64 + 2 * i as u64, 2, i as u64), data).unwrap();
    }
    let done = complete(&mut disk, 8);
    assert!(done.iter().all(|(_, result, _)| result.is_ok()), "{done:?}");
    assert!(done.iter().any(|(token, _, data)| *token == 2 && matches!(data, Data::Buffer(b) if number_of(b) == 77)));
    let ledger = *disk.layer().ledger();
    assert!(ledger.merged_back + ledger.merged_front + ledger.joined > 0 && ledger.issued < 8, "{ledger:?}");
    let after = std::fs::read(&path).unwrap();
    for (sector, block) in after.chunks(512).enumerate() {
        let i = (sector as u64).wrapping_sub(64);
        match i {
            4 | 5 => assert_eq!(number_of(block), 73 + i, "sector {sector}"),
            14 | 15 => assert_ne!(number_of(block), sector as u64, "sector {sector} is scratch"),
            0..16 => assert_eq!(number_of(block), 1000 + 15 - i, "sector {sector}"),
            _ => assert_eq!(number_of(block), sector as u64, "sector {sector} is untouched"),
        }
    }
}

#[test]
fn a_split_read_fills_the_memory_of_the_whole_and_merged_reads_their_own() {
    let (_dir, path) = numbered_file(1024);
    let mut disk = disk_with(open(&path), "mq-deadline", config(), DiskOptions::default());
    // Longer than a request may be: it is split.
    disk.submit(io(Op::Read, 3, 500, 1), Data::Buffer(Buffer::new(500 * 512))).unwrap();
    for (i, sector) in [600u64, 616, 608].into_iter().enumerate() {
        disk.submit_plugged(io(Op::Read, sector, 8, 10 + i as u64), Data::Buffer(Buffer::new(4096))).unwrap();
    }
    let done = complete(&mut disk, 4);
    let ledger = disk.layer().ledger();
    assert!(ledger.pieces >= 4 && ledger.merged_front + ledger.merged_back + ledger.joined > 0, "{ledger:?}");
    for (token, result, data) in done {
        let (Ok(()), Data::Buffer(read)) = (result, data) else { panic!("I/O {token}") };
        let first = [(1, 3), (10, 600), (11, 616), (12, 608)].into_iter().find(|(t, _)| *t == token).unwrap().1;
        for (i, block) in read.chunks(512).enumerate() {
            assert_eq!(number_of(block), first + i as u64, "I/O {token}");
        }
    }
    assert_eq!(disk.layer().ledger().imbalance(), None);
}

#[test]
fn reads_that_leave_their_data_in_the_file_are_ordered_and_merged_like_others() {
    let (_dir, path) = numbered_file(1024);
    let mut disk = disk_with(open(&path), "mq-deadline", config(), scratch());
    // Split, alone, and merged with one that wants its data.
    disk.submit(io(Op::Read, 0, 500, 1), Data::InFile).unwrap();
    disk.submit(io(Op::Read, 900, 8, 2), Data::InFile).unwrap();
    disk.submit_plugged(io(Op::Read, 600, 8, 3), Data::InFile).unwrap();
    disk.submit_plugged(io(Op::Read, 608, 8, 4), Data::Buffer(Buffer::new(4096))).unwrap();
    let done = complete(&mut disk, 4);
    for (token, result, data) in done {
        assert_eq!(result, Ok(()), "{token}");
        match data {
            Data::Buffer(read) => assert_eq!((token, number_of(&read), number_of(&read[3584..])), (4, 608, 615)),
            data => assert!(token < 4 && matches!(data, Data::InFile), "{token}"),
        }
    }
    let ledger = *disk.layer().ledger();
    assert!(ledger.imbalance().is_none() && ledger.merged_front + ledger.merged_back + ledger.joined > 0, "{ledger:?}");
    let refused = disk.submit(io(Op::Write, 0, 8, 5), Data::InFile).unwrap_err().to_string();
    assert!(refused.contains("only reads"), "{refused}");
}

#[test]
fn a_file_is_in_memory_once_it_was_read_and_is_not_with_direct_io() {
    let (_dir, path) = numbered_file(1024);
    let target = open(&path);
    assert!(!target.is_in_memory(0, 0) && !target.is_in_memory(500 << 10, 64 << 10), "past its end");
    if !target.is_in_memory(1000, 300_000) {
        eprintln!("skipped: this kernel cannot tell what is in memory");
        return;
    }
    std::fs::File::options().write(true).open(&path).unwrap().set_len(8 << 20).unwrap();
    assert!(target.is_in_memory(0, 512 << 10) && !target.is_in_memory(0, 1 << 20), "a hole that nobody has read");
    let direct = Target::open(&path, &OpenOptions { direct: true, ..OpenOptions::default() });
    assert!(direct.is_err() || !direct.unwrap().is_in_memory(0, 4096));
}

#[test]
fn a_file_that_nobody_may_write_is_not_called_a_matter_of_rights() {
    let (_dir, path) = numbered_file(8);
    let attribute = |change: &str| std::process::Command::new("chattr").arg(change).arg(&path).output();
    if !attribute("+i").is_ok_and(|done| done.status.success()) {
        eprintln!("skipped: no chattr, no right to use it, or a file system without attributes");
        return;
    }
    let opened = Target::open(&path, &OpenOptions { allow_writes: true, ..OpenOptions::default() });
    attribute("-i").unwrap();
    let said = opened.err().unwrap().to_string();
    assert!(said.contains("forbidden, even for root") && said.contains("lsattr"), "{said}");
}

#[test]
fn errors_carry_their_number_and_a_short_read_is_an_error() {
    let (_dir, path) = numbered_file(64);
    let mut disk = disk_with(open(&path), "none", config(), scratch());
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(512).unwrap();
    disk.submit(io(Op::Read, 0, 8, 1), Data::Scratch).unwrap();
    let mut events = Vec::new();
    while events.is_empty() {
        disk.turn(None, &mut events).unwrap();
    }
    let Event::RequestFailed(failure) = &events[0] else { panic!("{events:?}") };
    assert_eq!((failure.outcome, failure.errno(), failure.bytes), (Outcome::Short(512), Errno::EIO, 4096));
    assert!(matches!(&events[1], Event::Completed { finished, .. } if finished.result == Err(Errno::EIO)));
    // A pipe cannot be written at its reading end, nor be synchronised.
    let (mut disk, _writer) = stream_disk();
    disk.submit(io(Op::Write, 0, 8, 2), Data::Scratch).unwrap();
    disk.submit(io(Op::Flush, 0, 0, 3), Data::Scratch).unwrap();
    let mut done = complete(&mut disk, 2);
    done.sort_by_key(|(token, _, _)| *token);
    assert_eq!(done[0].1, Err(Errno(libc::EBADF)));
    assert_eq!(done[1].1, Err(Errno(libc::EINVAL)));
}

#[test]
fn a_split_read_of_which_one_piece_fails_ends_once_and_in_an_error() {
    let (_dir, path) = numbered_file(1024);
    let mut disk = disk_with(open(&path), "mq-deadline", config(), DiskOptions::default());
    // The file ends within the third of four pieces; the drive's size was read before.
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(300 * 512).unwrap();
    disk.submit(io(Op::Read, 0, 500, 1), Data::Buffer(Buffer::new(500 * 512))).unwrap();
    disk.submit(io(Op::Read, 0, 200, 2), Data::Buffer(Buffer::new(200 * 512))).unwrap();
    let mut done = complete(&mut disk, 2);
    done.sort_by_key(|(token, _, _)| *token);
    assert_eq!((done[0].0, done[0].1), (1, Err(Errno::EIO)));
    assert!(matches!(&done[0].2, Data::Buffer(memory) if memory.len() == 500 * 512), "the memory comes back");
    assert_eq!((done[1].0, done[1].1), (2, Ok(())));
    let ledger = disk.layer().ledger();
    assert_eq!((ledger.completed, ledger.failed, ledger.imbalance()), (2, 1, None), "{ledger:?}");
}

#[test]
fn what_does_not_fit_the_target_is_refused_before_it_is_submitted() {
    let (_dir, path) = numbered_file(64);
    let mut disk = disk_with(open(&path), "none", config(), DiskOptions::default());
    let mut refused = |io: Io, data: Data, why: &str| {
        let error = disk.submit(io, data).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    };
    let buffer = |bytes| Data::Buffer(Buffer::new(bytes));
    refused(io(Op::Write, 60, 8, 0), buffer(4096), "the target ends at sector 64");
    refused(io(Op::Read, u64::MAX, 8, 0), buffer(4096), "the target ends at sector 64");
    refused(io(Op::Read, 0, 0, 0), buffer(0), "above 0");
    refused(io(Op::Read, 0, 8, 0), buffer(512), "512 bytes of memory for 4096 bytes of data");
    refused(io(Op::Read, 0, 8, 0), Data::Scratch, "no buffers of its own");
    let piece = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let mut pieces = vec![piece; 1025];
    pieces[0].iov_len = 512;
    // SAFETY: it is refused, so no I/O is made of it.
    refused(io(Op::Read, 0, 1, 0), Data::Iovec(unsafe { Iovecs::new(&pieces) }), "1025 pieces");
    assert_eq!(disk.layer().ledger().submitted, 0);
    let read_only = Target::open(&path, &OpenOptions::default()).unwrap();
    let mut disk = disk_with(read_only, "none", config(), scratch());
    let error = disk.submit(io(Op::Discard, 0, 8, 0), Data::Scratch).unwrap_err().to_string();
    assert!(error.contains("opened for reading only"), "{error}");
    let mut several = config();
    several.limits.max_discard_segments = 4;
    let tenants = Tenants::default();
    let scheduler = Choice::parse("none").unwrap().build(several.setup);
    let error = Disk::new(Arc::new(open(&path)), several, scheduler, tenants, scratch()).err().unwrap().to_string();
    assert!(error.contains("discards of 4 ranges"), "{error}");
}

#[test]
fn a_hybrid_disk_serves_and_sleeps_idle_like_any_other() {
    let (_dir, path) = numbered_file(64);
    let target = open(&path);
    let completion = target.check(CompletionMode::Hybrid(Sleep::Learned)).unwrap();
    let mut disk = disk_with(target, "bfq", config(), DiskOptions { completion, ..scratch() });
    let waker = disk.waker().unwrap();
    for round in 0..20u64 {
        disk.submit(io(Op::Read, 8 * (round % 8), 8, round), Data::Scratch).unwrap();
        assert_eq!(complete(&mut disk, 1)[0].0, round);
    }
    waker.wake();
    let mut events = Vec::new();
    while events.is_empty() {
        disk.turn(None, &mut events).unwrap();
    }
    assert!(matches!(events[0], Event::Woken));
}

#[test]
fn tenants_come_and_go_while_others_have_io_under_way() {
    let (_dir, path) = numbered_file(256);
    let mut disk = disk_with(open(&path), "bfq", config(), scratch());
    disk.submit(io(Op::Read, 0, 8, 1), Data::Scratch).unwrap();
    for round in 0..50u64 {
        let now = disk.now();
        let layer = disk.layer_mut();
        let tenant = layer.add_tenant(now, Tenant { weight: 200, parent: None }).unwrap();
        let task = layer.add_task(now, dumbwaiter_block::Task { tenant, ioprio: Ioprio::DEFAULT }).unwrap();
        assert!(tenant.0 < 4 && task.0 < 4, "ids are used again");
        disk.submit(Io { task, tenant, ..io(Op::Write, 8 * (round % 32), 8, 100 + round) }, Data::Scratch).unwrap();
        let now = disk.now();
        disk.layer_mut().retire_task(now, task).unwrap();
        disk.layer_mut().retire_tenant(now, tenant).unwrap();
        let expected = if round == 0 { 2 } else { 1 };
        assert_eq!(complete(&mut disk, expected).len(), expected);
    }
    assert_eq!(disk.layer().ledger().imbalance(), None);
}

#[test]
fn a_bounded_batch_leaves_the_rest_for_the_next_call() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let options = DiskOptions { submit_batch: 2, ..scratch() };
    let mut disk = disk_with(Target::of_stream(reader, 1 << 20), "none", config(), options);
    for token in 0..5 {
        disk.submit(io(Op::Read, 8 * token, 8, token), Data::Scratch).unwrap();
    }
    for in_device in [2, 4] {
        // It does not wait for the first while the rest is to be submitted: nothing completes here.
        disk.turn(Some(Nanos::from_secs(2)), &mut Vec::new()).unwrap();
        assert_eq!(disk.rings.requests(), in_device);
    }
    writer.write_all(&[0; 5 * 4096]).unwrap();
    assert_eq!(complete(&mut disk, 5).len(), 5);
}
