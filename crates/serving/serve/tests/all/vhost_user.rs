//! A virtual machine's driver in this process against a server in this process.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dumbwaiter_protocols::vhost_user::front_end::{FrontEnd, Options, USER_BASE};
use dumbwaiter_protocols::vhost_user::wire::{code, request_type};
use dumbwaiter_serve::bench::{ClosedLoop, Endpoint};
use dumbwaiter_serve::{ExportSettings, Order, ServeSettings, Server, TargetSettings, send_order};

use crate::patience::Patience;
use crate::running::Running;
use crate::swarm::is_alone;

const OK: u8 = 0;
const IO_ERROR: u8 = 1;
const UNSUPPORTED: u8 = 2;

fn serve(target: &str, exports: &[&str]) -> Running {
    Running::with(target, exports, |settings| settings.vhost_user.clone_from(&settings.unix))
}

fn socket(running: &Running, export: &str) -> PathBuf {
    running.folder.path().join(format!("{export}.vhost"))
}

fn connect(running: &Running, export: &str) -> FrontEnd {
    // Other tests start programs, which hold a machine's socket for a moment after it is closed here: its disk is in use as long.
    let mut patience = Patience::new(Duration::from_secs(20));
    loop {
        match FrontEnd::connect(&socket(running, export), &Options::default()) {
            Ok(machine) => return machine,
            Err(error) => assert!(!patience.is_over(), "{error} {}", patience.report()),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_is_written_is_read_and_seen_by_nbd_clients() {
    for options in [
        Options::default(),
        Options { event_index: false, ..Options::default() },
        Options { write_back: false, inflight: false, ..Options::default() },
        Options { queues: 4, queue_size: 16, slot_bytes: 1 << 16, ..Options::default() },
    ] {
        let running = serve("file", &["a"]);
        let mut machine = FrontEnd::connect(&socket(&running, "a"), &options).unwrap();
        assert_eq!(machine.disk_bytes().unwrap(), 4 << 20);
        let mut data: Vec<u8> = (0..options.slot_bytes).map(|at| at as u8).collect();
        assert_eq!(machine.call(request_type::WRITE, 8, &mut data.clone()).unwrap(), OK);
        assert_eq!(machine.call(request_type::FLUSH, 0, &mut []).unwrap(), OK);
        let written = std::mem::replace(&mut data, vec![0; options.slot_bytes as usize]);
        assert_eq!(machine.call(request_type::READ, 8, &mut data).unwrap(), OK);
        assert_eq!(data, written);
        assert_eq!(running.connect("a").call(dumbwaiter_protocols::nbd::Command::Read, 4096, 4096).1, written[..4096]);
        let mut id = [0xff; 20];
        assert_eq!(machine.call(request_type::GET_ID, 0, &mut id).unwrap(), OK);
        assert_eq!(id, *b"a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        drop(machine);
        assert!(running.end());
    }
}

/// Waits until something holds.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn violations(running: &Running) -> u64 {
    running.server().inspector().stats().unwrap()[0].exports[0].violations
}

fn range(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
    [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
}

#[test]
fn discards_and_zeroes_read_as_zeroes() {
    let running = serve("file", &["a"]);
    let mut machine = connect(&running, "a");
    for (kind, flags) in [(request_type::DISCARD, 0), (request_type::WRITE_ZEROES, 0), (request_type::WRITE_ZEROES, 1)]
    {
        assert_eq!(machine.call(request_type::WRITE, 16, &mut [0x77; 4096]).unwrap(), OK);
        assert_eq!(machine.call(kind, 0, &mut range(16, 8, flags)).unwrap(), OK);
        let mut data = [1; 4096];
        assert_eq!(machine.call(request_type::READ, 16, &mut data).unwrap(), OK);
        assert!(data == [0; 4096], "{kind} {flags}");
    }
    assert_eq!(machine.call(request_type::DISCARD, 0, &mut range(16, 8, 1)).unwrap(), UNSUPPORTED);
    assert!(running.end());
}

#[test]
fn a_read_only_export_refuses_writes_and_offers_none() {
    let running = serve("file", &["a:readonly"]);
    let mut machine = connect(&running, "a");
    assert_eq!(machine.call(request_type::WRITE, 0, &mut [1; 512]).unwrap(), IO_ERROR);
    assert_eq!(machine.call(request_type::WRITE_ZEROES, 0, &mut range(0, 8, 0)).unwrap(), IO_ERROR);
    assert_eq!(machine.call(request_type::READ, 0, &mut [0; 512]).unwrap(), OK);
    assert_eq!(machine.config(36, 24).unwrap()[..21], [0; 21]);
    assert!(running.end());
}

#[test]
fn unaligned_memory_goes_through_a_buffer() {
    // Past the page cache, where the file system allows that.
    let running = serve("file", &["a"]);
    let mut machine = connect(&running, "a");
    let (memory, queues) = machine.split();
    let queue = &mut queues[0];
    for kind in [request_type::WRITE, request_type::READ] {
        let slot = queue.take_slot().unwrap();
        queue.write_data(memory, slot, &[if kind == request_type::WRITE { 0x3c } else { 0 }; 4096]);
        queue.submit(memory, slot, kind, 0, 512);
        // The data in three pieces at odd addresses, in descriptors that no request uses.
        let flags = if kind == request_type::READ { 2 | 1 } else { 1 };
        let (from, first) = (queue.data_address(slot) + 1, slot * 3);
        for (at, offset, len, next) in [(first + 1, 0, 100, 126), (126, 100, 1, 127), (127, 101, 411, first + 2)] {
            queue.set_descriptor(memory, at, from + offset, len, flags, next);
        }
        queue.kick(memory);
        let mut done = Vec::new();
        while done.is_empty() {
            queue.wait(memory, Duration::from_secs(20)).unwrap();
            queue.reap(memory, &mut done);
        }
        assert_eq!(done, [(slot, OK)]);
        let mut data = [0; 514];
        queue.read_data(memory, slot, &mut data);
        assert!(data[1..513] == [0x3c; 512]);
        assert_eq!((data[0] == 0, data[513] == 0), (kind == request_type::READ, kind == request_type::READ));
    }
    assert!(running.end());
}

#[test]
fn broken_chains_are_given_back_and_the_ring_goes_on() {
    let running = serve("file", &["a"]);
    let mut machine = connect(&running, "a");
    let (memory, queues) = machine.split();
    let queue = &mut queues[0];
    let data = queue.data_address(40);
    for (address, len, flags, next) in
        [(data, 16, 1, 126), (data, 16, 1, 500), (0, 16, 0, 0), (u64::MAX, 16, 0, 0), (data, 8, 4, 0), (data, 16, 0, 0)]
    {
        queue.set_descriptor(memory, 126, address, len, flags, next);
        queue.offer(memory, 126);
        queue.kick(memory);
        let mut heads = Vec::new();
        while heads.is_empty() {
            queue.wait(memory, Duration::from_secs(20)).unwrap();
            queue.reap_heads(memory, |_, head, written| heads.push((head, written)));
        }
        assert_eq!(heads, [(126, 0)]);
    }
    assert_eq!(machine.call(request_type::READ, 0, &mut [0; 512]).unwrap(), OK);
    let refused = running.server().inspector().stats().unwrap()[0].exports[0].refused;
    assert_eq!(refused, 6);
    assert!(running.end());
}

#[test]
fn a_broken_ring_is_off_and_the_others_serve() {
    let running = serve("file", &["a", "b:shared,readonly"]);
    let mut broken = FrontEnd::connect(&socket(&running, "a"), &Options { queues: 2, ..Options::default() }).unwrap();
    let (memory, queues) = broken.split();
    queues[1].set_available_index(memory, 5000);
    queues[1].kick(memory);
    // The kick index has not moved, so the ring is looked at with the other's kick.
    assert_eq!(broken.call(request_type::READ, 0, &mut [0; 512]).unwrap(), OK);
    eventually("it is noted", || {
        running.log.lock().unwrap().iter().any(|line| line.contains("more entries than the ring has"))
    });
    assert_eq!(broken.call(request_type::READ, 0, &mut [0; 512]).unwrap(), OK);
    assert_eq!(connect(&running, "b").call(request_type::READ, 0, &mut [0; 512]).unwrap(), OK);
    assert!(running.end());
}

#[test]
fn front_ends_that_break_the_protocol_are_disconnected_alone() {
    let running = serve("file", &["a", "b:shared,readonly"]);
    let mut other = connect(&running, "b");
    let broken = [
        (6, vec![], 0),
        (code::SET_FEATURES, vec![0; 3], 0),
        (code::SET_FEATURES, vec![0xff; 8], 0),
        (code::SET_VRING_NUM, [[0; 4], 3u32.to_le_bytes()].concat(), 0),
        (code::SET_VRING_NUM, [64u32.to_le_bytes(), 8u32.to_le_bytes()].concat(), 0),
        (code::SET_VRING_ENABLE, vec![0; 8], 0),
        (code::SET_MEM_TABLE, vec![1, 0, 0, 0, 0, 0, 0, 0], 0),
        (code::SET_OWNER, vec![], 3),
    ];
    for (before, (code, body, descriptors)) in broken.into_iter().enumerate() {
        let mut machine = FrontEnd::prepare(&socket(&running, "a"), &Options::default()).unwrap();
        let file = machine.file.try_clone().unwrap();
        machine.send(code, &body, &vec![file.as_fd(); descriptors]).unwrap();
        assert_eq!(machine.socket.read(&mut [0; 64]).unwrap_or(0), 0, "message {code}");
        eventually("it is counted", || violations(&running) == before as u64 + 1);
        assert_eq!(other.call(request_type::READ, 0, &mut [0; 512]).unwrap(), OK);
    }
    assert!(running.end());
}

#[test]
fn half_a_message_holds_nobody_up() {
    let running = serve("file", &["a", "b:shared,readonly"]);
    let mut half = UnixStream::connect(socket(&running, "a")).unwrap();
    std::io::Write::write_all(&mut half, &[1, 0, 0]).unwrap();
    assert_eq!(connect(&running, "b").call(request_type::READ, 0, &mut [0; 512]).unwrap(), OK);
    drop(half);
    // The disk is free again for one that behaves.
    assert_eq!(connect(&running, "a").call(request_type::READ, 0, &mut [0; 512]).unwrap(), OK);
    assert!(running.end());
}

#[test]
fn a_ring_outside_of_memory_stays_off_and_the_connection_lives() {
    let running = serve("file", &["a"]);
    let mut machine = FrontEnd::prepare(&socket(&running, "a"), &Options::default()).unwrap();
    machine.negotiate().unwrap();
    let body = machine.memory_table();
    let file = machine.file.try_clone().unwrap();
    assert!(machine.send_acknowledged(code::SET_MEM_TABLE, &body, &[file.as_fd()]).unwrap());
    assert!(machine.send_acknowledged(code::SET_VRING_NUM, &[0, 0, 0, 0, 128, 0, 0, 0], &[]).unwrap());
    let mut addresses = vec![0; 8];
    [USER_BASE + 8, USER_BASE + 0x8000, USER_BASE + 0x4000, 0]
        .iter()
        .for_each(|part: &u64| addresses.extend_from_slice(&part.to_le_bytes()));
    assert!(machine.send_acknowledged(code::SET_VRING_ADDR, &addresses, &[]).unwrap());
    let kick = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap();
    assert!(machine.send_acknowledged(code::SET_VRING_KICK, &0u64.to_le_bytes(), &[kick.as_fd()]).unwrap());
    assert_eq!(machine.disk_bytes().unwrap(), 4 << 20);
    machine.start_rings().unwrap();
    assert_eq!(machine.call(request_type::READ, 0, &mut [0; 512]).unwrap(), OK);
    assert!(running.end());
}

#[test]
fn memory_that_is_cut_off_ends_one_machine_only() {
    let running = serve("file", &["a", "b:shared,readonly"]);
    let mut other = connect(&running, "b");
    let (path, done) = (socket(&running, "a"), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                assert_eq!(other.call(request_type::READ, 0, &mut [0; 512]).unwrap(), OK);
            }
        });
        let mut machine = FrontEnd::connect(&path, &Options::default()).unwrap();
        rustix::fs::ftruncate(&machine.file, 0).unwrap();
        let (memory, queues) = machine.split();
        let slot = queues[0].take_slot().unwrap();
        queues[0].submit(memory, slot, request_type::READ, 0, 512);
        assert!(queues[0].kick(memory));
        eventually("it is disconnected", || violations(&running) == 1);
        done.store(true, Ordering::Relaxed);
    });
    assert!(running.log.lock().unwrap().iter().any(|line| line.contains("truncated")));
    assert!(running.end());
}

#[test]
fn a_second_machine_is_turned_away() {
    if !is_alone("vhost_user::a_second_machine_is_turned_away") {
        return;
    }
    let running = serve("file", &["a"]);
    let mut first = connect(&running, "a");
    // Its successor comes at any moment while the second one is refused.
    for round in 0..100 {
        assert!(FrontEnd::connect(&socket(&running, "a"), &Options::default()).is_err());
        if round % 2 == 0 {
            assert_eq!(first.call(request_type::READ, 0, &mut [0; 512]).unwrap(), OK);
        }
        drop(first);
        first = FrontEnd::connect(&socket(&running, "a"), &Options::default()).unwrap();
    }
    assert_eq!(first.call(request_type::READ, 0, &mut [0; 512]).unwrap(), OK);
    drop(first);
    assert!(running.end());
}

#[test]
fn rings_stop_where_they_are_and_start_again_there() {
    let running = serve("file", &["a"]);
    let mut machine =
        FrontEnd::connect(&socket(&running, "a"), &Options { inflight: false, ..Options::default() }).unwrap();
    for round in 1..4 {
        for _ in 0..5 {
            assert_eq!(machine.call(request_type::READ, 0, &mut [0; 512]).unwrap(), OK);
        }
        assert_eq!(machine.stop_ring(0).unwrap(), 5 * round);
        machine.start_ring(0).unwrap();
    }
    assert!(running.end());
}

/// A server over the file `disk.img` of a folder.
fn server_in(folder: &std::path::Path, export: &str) -> Server {
    let mut target = TargetSettings::new(&folder.join("disk.img").display().to_string());
    target.exports.push(ExportSettings::parse(export).unwrap().into());
    let vhost_user = Some(folder.to_owned());
    let settings = ServeSettings { targets: vec![target], vhost_user, grace_s: 2, ..ServeSettings::default() };
    Server::start(settings, |_| {}).unwrap()
}

#[test]
fn a_server_that_dies_leaves_requests_that_the_next_one_does() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("disk.img"), vec![0; 4 << 20]).unwrap();
    let path = folder.path().join("a.vhost");
    // The limit keeps requests under way.
    let server = server_in(folder.path(), "a:limit_iops=50");
    let mut machine = FrontEnd::connect(&path, &Options::default()).unwrap();
    let (memory, queues) = machine.split();
    let queue = &mut queues[0];
    let slots: Vec<u16> = (0..20).map(|_| queue.take_slot().unwrap()).collect();
    for (number, slot) in slots.iter().enumerate() {
        queue.write_data(memory, *slot, &[number as u8 + 1; 4096]);
        queue.submit(memory, *slot, request_type::WRITE, number as u64 * 8, 4096);
    }
    queue.kick(memory);
    let mut done = Vec::new();
    while done.len() < 3 {
        queue.wait(memory, Duration::from_secs(20)).unwrap();
        queue.reap(memory, &mut done);
    }
    // Its clients are dropped, and nothing is answered any more.
    drop(server);
    queue.reap(memory, &mut done);
    assert!(done.len() < 20, "nothing was under way");
    let server = server_in(folder.path(), "a");
    machine.reconnect().unwrap();
    let (memory, queues) = machine.split();
    while done.len() < 20 {
        queues[0].wait(memory, Duration::from_secs(20)).unwrap();
        queues[0].reap(memory, &mut done);
    }
    let mut answered: Vec<u16> = done.iter().map(|(slot, _)| *slot).collect();
    answered.sort_unstable();
    let mut asked = slots.clone();
    asked.sort_unstable();
    assert_eq!(answered, asked, "each once");
    assert!(done.iter().all(|(_, status)| *status == OK));
    assert_eq!(machine.call(request_type::FLUSH, 0, &mut []).unwrap(), OK);
    let data = std::fs::read(folder.path().join("disk.img")).unwrap();
    for number in 0..20 {
        assert!(data[number * 4096..][..4096].iter().all(|byte| *byte == number as u8 + 1), "write {number}");
    }
    assert!(server.shut_down(|| false).unwrap());
}

#[test]
fn a_machine_learns_that_its_disk_grew_and_it_never_shrinks() {
    let running = Running::with("file", &["a:size=2M"], |settings| {
        settings.vhost_user.clone_from(&settings.unix);
        settings.control = settings.unix.as_ref().map(|folder| folder.join("control"));
    });
    let control = running.folder.path().join("control");
    let mut machine = connect(&running, "a");
    let beyond = (2 << 20) / 512;
    assert_eq!(machine.call(request_type::READ, beyond, &mut [0; 512]).unwrap(), IO_ERROR);
    let resize = |size: u64| send_order(&control, &Order::Resize { export: "a".into(), size });
    resize(4 << 20).unwrap();
    let mut message = [0; 12];
    machine.backend_channel.as_mut().unwrap().read_exact(&mut message).unwrap();
    assert_eq!(message, [2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(machine.disk_bytes().unwrap(), 4 << 20);
    assert_eq!(machine.call(request_type::READ, beyond, &mut [0; 512]).unwrap(), OK);
    assert!(resize(1 << 20).is_err());
    assert!(running.end());
}

#[test]
fn exports_that_are_added_and_removed_bring_and_take_their_sockets() {
    let running = Running::with("file", &["a:size=1M"], |settings| {
        settings.vhost_user.clone_from(&settings.unix);
        settings.control = settings.unix.as_ref().map(|folder| folder.join("control"));
    });
    let control = running.folder.path().join("control");
    let export = ExportSettings::parse("b:offset=1M,size=1M").unwrap();
    send_order(&control, &Order::Add { export, disk: 0 }).unwrap();
    let mut machine = connect(&running, "b");
    assert_eq!(machine.call(request_type::READ, 0, &mut [0; 512]).unwrap(), OK);
    send_order(&control, &Order::Remove { export: "b".into(), hard: true }).unwrap();
    assert!(!socket(&running, "b").exists() && socket(&running, "a").exists());
    let folder = running.folder.path().to_owned();
    assert!(running.end());
    assert!(!folder.join("a.vhost").exists());
}

#[test]
fn a_machine_whose_disk_is_taken_away_learns_it_at_once() {
    let running = Running::with("emulate:null:0us?latency_ns=200000&depth=4", &["a:size=1M"], |settings| {
        settings.vhost_user.clone_from(&settings.unix);
        settings.control = settings.unix.as_ref().map(|folder| folder.join("control"));
    });
    let control = running.folder.path().join("control");
    for poll in [false, true] {
        let export = ExportSettings::parse("b:offset=1M,size=1M").unwrap();
        send_order(&control, &Order::Add { export, disk: 0 }).unwrap();
        let endpoint = Endpoint::Vhost { socket: socket(&running, "b"), poll };
        let load = ClosedLoop { endpoint, writes: false, sequential: false, block_bytes: 4096, depth: 8, seed: 1 };
        let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let (load, done) = (&load, &done);
            let machine = scope.spawn(|| load.run(&stop, done));
            eventually("it is served", || done.load(Ordering::Relaxed) > 100);
            send_order(&control, &Order::Remove { export: "b".into(), hard: true }).unwrap();
            let error = machine.join().unwrap().unwrap_err().to_string();
            // Not that a silent device was waited for long enough.
            assert!(error.contains("b.vhost") && error.contains("unexpected end of file"), "{error}");
        });
    }
    assert!(running.end());
}

#[test]
fn machines_and_nbd_clients_share_by_weight() {
    // As in `shares`: 2,000 IOPS, far below what any machine serves.
    let exports = ["one:weight=100,size=1G", "three:weight=300,offset=1G,size=1G"];
    let running = Running::with("emulate:null:0us?latency_ns=4000000&depth=8", &exports, |settings| {
        settings.vhost_user.clone_from(&settings.unix);
    });
    let (stop, counts) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 2]);
    let client = ClosedLoop::reads(running.socket(), "one", 32, 2);
    let endpoint = Endpoint::Vhost { socket: socket(&running, "three"), poll: false };
    let machine = ClosedLoop { endpoint, depth: 40, seed: 1, ..client.clone() };
    let count = || -> [u64; 2] { std::array::from_fn(|place| counts[place].load(Ordering::Relaxed)) };
    let (mut busy, mut got) = (0.0, None);
    std::thread::scope(|scope| {
        scope.spawn(|| client.run(&stop, &counts[0]).unwrap());
        scope.spawn(|| machine.run(&stop, &counts[1]).unwrap());
        std::thread::sleep(Duration::from_millis(500));
        // Shares are the drive's only while that is busy. On a machine without CPU time for the clients it is not.
        for _ in 0..8 {
            let (before, begun) = (count(), Instant::now());
            std::thread::sleep(Duration::from_secs(1));
            let (after, seconds) = (count(), begun.elapsed().as_secs_f64());
            let window = [0, 1].map(|place| (after[place] - before[place]) as f64);
            busy = (window[0] + window[1]) / (2000.0 * seconds);
            if busy > 0.9 {
                got = Some(window);
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    match got {
        Some(got) => assert!((got[1] / (got[0] + got[1]) - 0.75).abs() < 0.04, "{got:?}"),
        None => println!("skipped: the drive was busy for {busy:.2} of the last second only"),
    }
    assert!(running.end());
}

#[test]
fn signals_and_memory_must_be_what_cannot_block_the_disk() {
    let running = serve("null", &["a", "b"]);
    let mut other = running.connect("b");
    let (reader, writer) = std::io::pipe().unwrap();
    let ring = 0u64.to_le_bytes();
    for (code, descriptor) in [(code::SET_VRING_CALL, writer.as_fd()), (code::SET_VRING_KICK, reader.as_fd())] {
        let mut machine = FrontEnd::prepare(&socket(&running, "a"), &Options::default()).unwrap();
        machine.negotiate().unwrap();
        assert!(!machine.send_acknowledged(code, &ring, &[descriptor]).unwrap(), "a pipe is no eventfd");
        assert_eq!(other.call(dumbwaiter_protocols::nbd::Command::Read, 0, 512).0, 0);
        drop(machine);
    }
    // A file of a file system that may be slow, or of the front end's own making.
    let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    file.set_len(1 << 20).unwrap();
    let mut machine = FrontEnd::prepare(&socket(&running, "a"), &Options::default()).unwrap();
    machine.negotiate().unwrap();
    let mut body = Vec::new();
    [1u64, 0, 1 << 20, USER_BASE, 0].iter().for_each(|word| body.extend_from_slice(&word.to_le_bytes()));
    assert!(!machine.send_acknowledged(code::SET_MEM_TABLE, &body, &[file.as_fd()]).unwrap(), "memory on a disk");
    assert_eq!(other.call(dumbwaiter_protocols::nbd::Command::Read, 0, 512).0, 0);
}
