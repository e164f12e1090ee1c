//! A day in an hour: clients of all kinds, orders of all kinds, and nothing is lost, leaked or blocked. `DUMBWAITER_SOAK_SECONDS` says for
//! how long; 2 without it. `.ci/soak` runs it for longer, under sanitizers where the compiler has them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dumbwaiter_protocols::nbd::{Command, Request};
use dumbwaiter_protocols::vhost_user::front_end::{FrontEnd, Options};
use dumbwaiter_protocols::vhost_user::wire::request_type;
use dumbwaiter_serve::bench::{Address, ClosedLoop, Endpoint};
use dumbwaiter_serve::{DeviceDepth, ExportSettings, Inspector, Order, TargetSettings};

use crate::patience::Patience;
use crate::running::{Client, Running};
use crate::swarm::{descriptors, is_alone, memory, number};

const EXPORTS: u64 = 8;

/// Random numbers of one actor.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// State shared by all actors.
struct Stage<'a> {
    running: &'a Running,
    stop: &'a AtomicBool,
    done: &'a AtomicU64,
}

impl Stage<'_> {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// An actor's part went well.
    fn count(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn stream(&self) -> Option<UnixStream> {
        let stream = UnixStream::connect(self.running.socket()).ok()?;
        stream.set_read_timeout(Some(Duration::from_millis(200))).ok()?;
        stream.set_write_timeout(Some(Duration::from_millis(200))).ok()?;
        Some(stream)
    }

    fn device(&self, export: &str) -> PathBuf {
        self.running.folder.path().join(format!("{export}.vhost"))
    }
}

fn export(chance: &mut Chance) -> String {
    format!("e{}", chance.below(EXPORTS))
}

/// Fast, for a moment.
fn fast(stage: &Stage<'_>, chance: &mut Chance) {
    let load = ClosedLoop {
        endpoint: Endpoint::Nbd(Address::Unix(stage.running.socket()), export(chance)),
        writes: chance.below(2) == 0,
        sequential: chance.below(2) == 0,
        block_bytes: 4096 << chance.below(5),
        depth: 1 + chance.below(32) as u32,
        seed: chance.below(1 << 40),
    };
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        // An export may be withdrawn under it.
        scope.spawn(|| drop(load.run(&stop, &done)));
        std::thread::sleep(Duration::from_millis(50 + chance.below(300)));
        stop.store(true, Ordering::Relaxed);
    });
    if done.load(Ordering::Relaxed) > 0 {
        stage.count();
    }
}

/// Asks for much and reads slowly, or not at all, and is gone.
fn slow(stage: &Stage<'_>, chance: &mut Chance) {
    let Some(mut client) = Client::try_connect(&stage.running.socket(), &export(chance)) else { return };
    // It may be withdrawn under it.
    let _ = client.stream.set_write_timeout(Some(Duration::from_millis(100)));
    let _ = client.stream.set_read_timeout(Some(Duration::from_millis(100)));
    for cookie in 0..chance.below(200) {
        let request = Request { flags: 0, command: Command::Read, cookie, offset: 0, length: 64 << 10 };
        if client.stream.write_all(&request.encode()).is_err() {
            break;
        }
    }
    let mut some = [0; 100];
    for _ in 0..chance.below(20) {
        let _ = client.stream.read(&mut some);
        std::thread::sleep(Duration::from_millis(10));
    }
    stage.count();
}

/// Any bytes, before or after a negotiation.
fn hostile(stage: &Stage<'_>, chance: &mut Chance) {
    let Some(mut stream) = stage.stream() else { return };
    if chance.below(2) == 0 {
        let Some(client) = Client::try_connect(&stage.running.socket(), &export(chance)) else { return };
        stream = client.stream;
        let _ = stream.set_read_timeout(Some(Duration::from_millis(50)));
        let _ = stream.set_write_timeout(Some(Duration::from_millis(50)));
    }
    for _ in 0..1 + chance.below(30) {
        let mut bytes: Vec<u8> = (0..1 + chance.below(200)).map(|_| chance.below(256) as u8).collect();
        if chance.below(2) == 0 {
            let command = Command::of(chance.below(10) as u16);
            let (offset, length) = (chance.below(1 << 22), chance.below(1 << 17) as u32);
            let request = Request { flags: chance.below(32) as u16, command, cookie: 7, offset, length };
            bytes.splice(0..0, request.encode());
        }
        if stream.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = stream.read(&mut [0; 4096]);
    stage.count();
}

/// Writes and reads back what it wrote, on an export of its own that is never withdrawn.
fn honest(stage: &Stage<'_>, chance: &mut Chance) {
    let mut client = stage.running.connect("own");
    for _ in 0..1 + chance.below(50) {
        let at = chance.below(200) * 4096;
        let data: Vec<u8> = (0..4096u64).map(|i| (i ^ at ^ chance.0) as u8).collect();
        assert_eq!(client.write(at, &data), 0);
        if chance.below(4) == 0 {
            assert_eq!(client.call(Command::Flush, 0, 0).0, 0);
        }
        let (error, read) = client.call(Command::Read, at, 4096);
        assert_eq!((error, read == data), (0, true), "at {at}");
        stage.count();
    }
}

/// A machine that works, and is cut off as often as it says good-bye.
fn machine(stage: &Stage<'_>, chance: &mut Chance) {
    let name = export(chance);
    if chance.below(2) == 0 {
        let socket = stage.device(&name);
        let load = ClosedLoop {
            endpoint: Endpoint::Vhost { socket, poll: false },
            writes: chance.below(2) == 0,
            sequential: false,
            block_bytes: 4096,
            depth: 1 + chance.below(32) as u32,
            seed: chance.below(1 << 40),
        };
        let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| drop(load.run(&stop, &done)));
            std::thread::sleep(Duration::from_millis(20 + chance.below(200)));
            stop.store(true, Ordering::Relaxed);
        });
        if done.load(Ordering::Relaxed) > 0 {
            stage.count();
        }
        return;
    }
    let options = Options { queues: 1 + chance.below(4) as u16, queue_size: 64, ..Options::default() };
    let Ok(mut machine) = FrontEnd::connect(&stage.device(&name), &options) else { return };
    let mut data = vec![1; 4096];
    for _ in 0..chance.below(20) {
        let kind = if chance.below(2) == 0 { request_type::WRITE } else { request_type::READ };
        if machine.call(kind, chance.below(64) * 8, &mut data).is_err() {
            return;
        }
        stage.count();
    }
    // Its requests stay under way.
    let (memory, queues) = machine.split();
    while let Some(slot) = queues[0].take_slot() {
        queues[0].submit(memory, slot, request_type::READ, 8, 4096);
    }
    queues[0].kick(memory);
}

/// Orders of the control socket.
fn orders(stage: &Stage<'_>, chance: &mut Chance, inspector: &Inspector) {
    let disk = chance.below(2) as usize;
    let name = export(chance);
    let order = match chance.below(10) {
        0 | 1 => Order::SetWeight { export: name, weight: 1 + chance.below(10_000) as u32 },
        2 => {
            let limited = chance.below(2) == 0;
            let iops = limited.then(|| 50 + chance.below(20_000));
            Order::SetLimit { export: name, iops, bytes: None }
        }
        3 => Order::SetReservation { export: name, iops: (chance.below(2) == 0).then(|| 10 + chance.below(500)) },
        4 => {
            let names = ["headway", "none", "mq-deadline", "bfq", "kyber", "cfq", "h-bfq"];
            Order::SetScheduler { scheduler: names[chance.below(7) as usize].into(), disk }
        }
        5 => Order::SetDepth { depth: DeviceDepth::Fixed(1 + chance.below(64) as u32), disk },
        // The export comes again below.
        6 => Order::Remove { export: name, hard: chance.below(2) == 0 },
        7 => Order::Drain { export: name, timeout_s: 1 },
        8 => Order::Histogram { export: name },
        _ => Order::Stats {},
    };
    // A refusal is an answer, too.
    let _ = inspector.order(order);
    for at in 0..EXPORTS {
        // Refused where it is still there, or where its last client is.
        let _ = inspector.order(Order::Add { export: one(at), disk: (at % 2) as usize });
    }
    stage.count();
    std::thread::sleep(Duration::from_millis(chance.below(40)));
}

/// An export; half of them are on each disk.
fn one(at: u64) -> ExportSettings {
    let text = format!("e{at}:weight={},offset={}M,size=1M", 100 * (1 + at), 1 + at / 2);
    ExportSettings::parse(&text).unwrap()
}

fn start() -> Running {
    Running::with("file", &["own:size=1M"], |settings| {
        let folder = settings.unix.clone().unwrap();
        let file = folder.join("disk.img");
        std::fs::File::options().write(true).open(file).unwrap().set_len(16 << 20).unwrap();
        settings.vhost_user = Some(folder.clone());
        settings.control = Some(folder.join("control"));
        settings.http = Some("127.0.0.1:0".parse().unwrap());
        let mut emulated = TargetSettings::new("emulate:null:0us?latency_ns=200000&depth=16");
        emulated.exports = (0..EXPORTS).filter(|at| at % 2 == 1).map(one).map(Arc::new).collect();
        settings.targets[0].exports.extend((0..EXPORTS).filter(|at| at % 2 == 0).map(one).map(Arc::new));
        settings.targets.push(emulated);
        settings.grace_s = 1;
    })
}

fn settle(running: &Running) {
    let mut patience = Patience::new(Duration::from_secs(20));
    while !patience.is_over() {
        let stats = running.server().inspector().stats().unwrap();
        let quiet = |disk: &dumbwaiter_serve::DiskStats| {
            disk.exports.iter().all(|export| export.connections == 0 && export.outstanding == 0)
        };
        if stats.iter().all(quiet) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let stats = running.server().inspector().stats();
    panic!("clients are gone, and something of them is left {}: {stats:?}", patience.report());
}

#[test]
fn a_day_of_clients_and_orders_leaves_nothing_behind() {
    if !is_alone("soak::a_day_of_clients_and_orders_leaves_nothing_behind") {
        return;
    }
    let seconds = number("DUMBWAITER_SOAK_SECONDS", 2);
    let seed = number("DUMBWAITER_SOAK_SEED", std::process::id().into());
    println!("DUMBWAITER_SOAK_SECONDS={seconds} DUMBWAITER_SOAK_SEED={seed}");
    let running = start();
    let (stop, counts) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 6]);
    let (descriptors_before, mut samples) = (descriptors(), Vec::new());
    let inspector = running.server().inspector();
    type Actor = fn(&Stage<'_>, &mut Chance);
    let actors: [(&str, Actor, usize); 5] =
        [("fast", fast, 2), ("slow", slow, 3), ("hostile", hostile, 3), ("honest", honest, 1), ("machine", machine, 2)];
    std::thread::scope(|scope| {
        for (kind, (_, actor, times)) in actors.iter().enumerate() {
            for instance in 0..*times {
                let stage = Stage { running: &running, stop: &stop, done: &counts[kind] };
                let mut chance = Chance(1 | ((seed + 1) * 0x9e37_79b9) ^ ((kind as u64 * 100 + instance as u64) << 32));
                scope.spawn(move || {
                    while stage.goes_on() {
                        actor(&stage, &mut chance);
                    }
                });
            }
        }
        let stage = Stage { running: &running, stop: &stop, done: &counts[5] };
        let (mut chance, inspector) = (Chance(seed | 1), inspector.clone());
        scope.spawn(move || {
            while stage.goes_on() {
                orders(&stage, &mut chance, &inspector);
            }
        });
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end && !running.server().has_failed() {
            std::thread::sleep(Duration::from_millis(200));
            samples.push(memory());
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(!running.server().has_failed(), "a disk gave up: {:?}", running.log.lock().unwrap().last());
    let order = |export: String| inspector.order(Order::SetLimit { export, iops: None, bytes: None });
    (0..EXPORTS).for_each(|at| drop(order(format!("e{at}"))));
    settle(&running);
    for disk in inspector.stats().unwrap() {
        println!("{}: {} I/Os submitted, {} completed", disk.target, disk.submitted, disk.completed);
        assert_eq!((disk.submitted, disk.buffer_bytes), (disk.completed, 0), "{}", disk.target);
        assert!(!disk.flush_failed);
    }
    let names = actors.iter().map(|(name, ..)| *name).chain(["orders"]);
    let did: Vec<String> =
        names.zip(&counts).map(|(name, n)| format!("{name} {}", n.load(Ordering::Relaxed))).collect();
    // Requests under way take memory, within a bound, as chance has it; what leaks raises the least of it, too. The first quarter warms up.
    let quarter = samples.len().div_ceil(4).max(1);
    let least: Vec<u64> = samples.chunks(quarter).map(|part| *part.iter().min().unwrap()).collect();
    let (early, late) = (least[1.min(least.len() - 1)], least[least.len() - 1]);
    let mib: Vec<u64> = least.iter().map(|bytes| bytes >> 20).collect();
    println!(
        "{}; memory at least {mib:?} MiB in each quarter, at most {} MiB; {} log lines",
        did.join(", "),
        samples.iter().max().unwrap() >> 20,
        running.log.lock().unwrap().len()
    );
    assert!(counts.iter().all(|n| n.load(Ordering::Relaxed) > 0), "{did:?}");
    assert!(descriptors() <= descriptors_before + 8, "{} descriptors, {descriptors_before} before", descriptors());
    if number("DUMBWAITER_SOAK_CHECKS_MEMORY", 1) == 1 && seconds >= 60 {
        assert!(late < early + (32 << 20), "memory grows from {early} to {late}");
    }
    assert!(running.end());
}
