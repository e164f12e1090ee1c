//! Many exports, many connections, many that come and go. `DUMBWAITER_CONNECTS=10000 DUMBWAITER_CONNECTIONS=64` is the size of the project's
//! goal; CI has a tenth of it.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dumbwaiter_protocols::nbd::Command;
use dumbwaiter_serve::DeviceDepth;
use dumbwaiter_testkit::StopOnDrop;

use crate::running::Running;
use crate::swarm::{descriptors, is_alone, memory, number, read_over};

const EXPORTS: usize = 1000;
const ACTIVE: [(&str, u64); 4] = [("e0", 1), ("e1", 2), ("e2", 4), ("e3", 5)];

fn exports() -> Vec<String> {
    let weight = |number: usize| ACTIVE.get(number).map_or(100, |(_, share)| share * 100);
    (0..EXPORTS).map(|at| format!("e{at}:weight={},offset={}M,size=1M", weight(at), at)).collect()
}

/// Connects and goes, in one of the ways in which clients do.
fn come_and_go(running: &Running, round: u64) {
    let export = format!("e{}", 4 + round % (EXPORTS as u64 - 4));
    match round % 6 {
        // Gone in the negotiation.
        0 => drop(UnixStream::connect(running.socket()).unwrap()),
        1 => {
            let mut stream = UnixStream::connect(running.socket()).unwrap();
            // The server may have hung up already.
            let _ = stream.write_all(&[0xff; 64]);
        }
        // Gone in the middle of a write.
        2 => {
            let mut client = running.connect(&export);
            client.send(0, Command::Write, 0, 64 << 10, &vec![1; 1000]);
        }
        // Broken.
        3 => {
            let mut client = running.connect(&export);
            let _ = client.stream.write_all(&[0x55; 28]);
        }
        // Gone with requests under way.
        4 => {
            let mut client = running.connect(&export);
            (0..20).for_each(|at| client.send(0, Command::Read, at * 4096, 4096, &[]));
        }
        _ => {
            let mut client = running.connect(&export);
            assert_eq!(client.call(Command::Read, 0, 4096).0, 0);
            client.send(0, Command::Disconnect, 0, 0, &[]);
        }
    }
}

/// Exports of a server at most, less some.
const MANY: usize = 4000;

#[test]
fn an_export_that_nobody_uses_takes_less_than_a_kilobyte() {
    if !is_alone("scale::an_export_that_nobody_uses_takes_less_than_a_kilobyte") {
        return;
    }
    let mut kept = Vec::new();
    let mut taken = |count: usize| {
        let texts: Vec<String> = (0..count).map(|at| format!("e{at}:offset={}M,size=1M", at)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let before = memory();
        let running = Running::start("null:8G", &texts);
        // The scheduler knows all of them from the first request on.
        assert_eq!(running.connect("e0").call(Command::Read, 0, 4096).0, 0);
        // A few looks at what each received.
        std::thread::sleep(Duration::from_millis(3500));
        kept.push(running);
        memory().saturating_sub(before)
    };
    // The first has what every server has, and what a process takes once.
    taken(8);
    let (few, many) = (taken(8), taken(MANY));
    let each = many.saturating_sub(few) as usize / (MANY - 8);
    println!("{each} bytes of memory for each of {MANY} exports that nobody uses ({few} for 8, {many} in all)");
    assert!(each < 1024, "{each} bytes");
}

#[test]
fn a_thousand_exports_share_by_weight_while_clients_come_and_go() {
    if !is_alone("scale::a_thousand_exports_share_by_weight_while_clients_come_and_go") {
        return;
    }
    let connects = number("DUMBWAITER_CONNECTS", 1000);
    let connections = number("DUMBWAITER_CONNECTIONS", 16) as usize;
    let exports = exports();
    let exports: Vec<&str> = exports.iter().map(String::as_str).collect();
    // 8 requests of 4 ms at a time: the drive is the bottleneck, and not a machine that runs other tests too.
    let running = Running::with("emulate:null:0us?latency_ns=4000000&depth=8", &exports, |settings| {
        settings.targets[0].device_depth = DeviceDepth::Fixed(8);
        settings.forget_writes = true;
    });
    for round in 0..connects / 10 {
        come_and_go(&running, round);
    }
    let (stop, counts) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 4]);
    let (mut got, mut grown) = ([0u64; 4], 0);
    std::thread::scope(|scope| {
        let _readers = StopOnDrop(&stop);
        for ((name, _), count) in ACTIVE.iter().zip(&counts) {
            let (socket, stop) = (running.socket(), &stop);
            let depth = 64 / connections.min(64) as u64;
            scope.spawn(move || read_over(&socket, name, connections, depth, stop, count));
        }
        // All of their connections are there once each has an answer.
        let begun = Instant::now();
        while counts.iter().any(|count| count.load(Ordering::Relaxed) == 0) {
            assert!(begun.elapsed() < Duration::from_secs(60), "no answer on a connection");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(500));
        let before = [0, 1, 2, 3].map(|at: usize| counts[at].load(Ordering::Relaxed));
        let (memory_before, descriptors_before) = (memory(), descriptors());
        for round in 0..connects {
            come_and_go(&running, round);
        }
        // A connection is closed once the drive has served the requests that its client left behind.
        let closed = || descriptors() <= descriptors_before + 8;
        let begun = Instant::now();
        while !closed() && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(closed(), "{} descriptors, before {descriptors_before}", descriptors());
        got = [0, 1, 2, 3].map(|at| counts[at].load(Ordering::Relaxed) - before[at]);
        grown = memory().saturating_sub(memory_before);
    });
    let all: u64 = got.iter().sum();
    let shares = got.map(|ios| ios as f64 / all as f64);
    println!(
        "{connects} connects, {connections} connections a tenant: shares {shares:?}, {} KiB more memory",
        grown >> 10
    );
    for (share, (_, due)) in shares.iter().zip(ACTIVE) {
        assert!((share - due as f64 / 12.0).abs() < 0.03, "{shares:?}");
    }
    assert!(grown < 24 << 20, "{grown} bytes more");
    let mut stats = running.server().inspector().stats().unwrap().remove(0);
    for _ in 0..200 {
        if stats.exports.iter().all(|export| export.connections == 0) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
        stats = running.server().inspector().stats().unwrap().remove(0);
    }
    assert!(stats.exports.iter().all(|export| export.connections == 0 && export.outstanding == 0));
    assert_eq!((stats.submitted, stats.buffer_bytes), (stats.completed, 0));
    assert!(running.end());
}

#[test]
fn clients_that_say_nothing_keep_no_others_out() {
    let running = Running::start("null", &["a"]);
    // More than may negotiate at a time.
    let silent: Vec<UnixStream> = (0..400).map(|_| UnixStream::connect(running.socket()).unwrap()).collect();
    let begun = Instant::now();
    assert_eq!(running.connect("a").call(Command::Read, 0, 512).0, 0);
    assert!(begun.elapsed() < Duration::from_secs(8), "a negotiation of nothing takes 10 s");
    drop(silent);
}

#[test]
fn one_export_takes_no_more_than_half_of_all_connections() {
    let running = Running::with("null", &["a:readonly", "b:readonly"], |settings| settings.max_connections = 8);
    let greedy: Vec<_> = (0..4).map(|_| running.connect("a")).collect();
    let mut fifth = running.connect("a");
    assert!(fifth.rest().is_empty(), "refused");
    assert_eq!(running.connect("b").call(Command::Read, 0, 512).0, 0);
    drop(greedy);
    assert!(running.log.lock().unwrap().iter().any(|line| line.contains("the export has 4 connections already")));
}

#[test]
fn a_server_ends_in_time_although_a_limit_holds_requests_back() {
    let running = Running::with("null", &["a:limit_iops=1"], |settings| settings.grace_s = 0);
    let mut client = running.connect("a");
    (0..60).for_each(|at| client.send(0, Command::Read, at * 4096, 4096, &[]));
    std::thread::sleep(Duration::from_millis(100));
    let begun = Instant::now();
    assert!(running.end());
    assert!(begun.elapsed() < Duration::from_secs(10), "a minute's worth of requests was held back");
}
