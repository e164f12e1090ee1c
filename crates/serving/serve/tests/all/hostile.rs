//! Treatment of hostile and broken clients, and that others do not notice.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use dumbwaiter_protocols::nbd::client::Wish;
use dumbwaiter_protocols::nbd::wire::command_flag;
use dumbwaiter_protocols::nbd::{Command, Request};

use crate::patience::Patience;
use crate::running::{Client, Running};
use crate::swarm::{descriptors, is_alone};

const END: u64 = 4 << 20;

#[test]
fn each_bad_request_gets_its_error_and_the_next_request_works() {
    let running = Running::start("file", &["a"]);
    let mut client = running.connect("a");
    assert_eq!(client.offer.size, END);
    for (flags, command, offset, length, error) in [
        (0, Command::Read, END, 512, 22),
        (0, Command::Read, u64::MAX - 511, 1024, 22),
        (0, Command::Read, 0, 33 << 20, 22),
        (0, Command::Read, 1, 512, 22),
        (0, Command::Read, 0, 0, 0),
        (command_flag::FUA, Command::Read, 0, 512, 0),
        (command_flag::NO_HOLE, Command::Read, 0, 512, 22),
        (0, Command::WriteZeroes, END, 512, 28),
        (0, Command::Flush, 512, 0, 22),
        (0, Command::Trim, END, 512, 22),
        (0, Command::Unknown(8), 0, 0, 22),
        (0, Command::Unknown(700), 0, 0, 22),
    ] {
        client.send(flags, command, offset, length, &[]);
        assert_eq!(client.reply().0, error, "{command:?} at {offset} of {length}");
        let (next, data) = client.call(Command::Read, 512, 512);
        assert_eq!((next, data), (0, vec![0x11; 512]), "after {command:?} at {offset}");
    }
    // The payload of a write that fails is dropped.
    assert_eq!(client.write(END, &[7; 1024]), 28);
    assert_eq!(client.write(0, &vec![7; (32 << 20) + 512]), 22);
    assert_eq!(client.write(0, &[]), 0);
    assert_eq!(client.call(Command::Read, 0, 512), (0, vec![0x11; 512]));
    drop(client);
    assert!(running.end());
}

#[test]
fn simple_replies_tell_the_same_errors() {
    let running = Running::start("file", &["a"]);
    let wish = Wish { export: "a".into(), ..Wish::default() };
    let mut client = Client::connect_as(&running.socket(), wish);
    for (flags, command, offset, length, error) in [
        (0, Command::Read, END, 512, 22),
        (0, Command::Read, 0, 33 << 20, 22),
        (0, Command::Read, 0, 0, 0),
        (command_flag::FUA, Command::Read, 0, 512, 0),
        (command_flag::DF, Command::Read, 0, 512, 22),
        (1 << 9, Command::Read, 0, 512, 22),
        (command_flag::FAST_ZERO, Command::Trim, 0, 512, 22),
        (0, Command::BlockStatus, 0, 512, 22),
        (0, Command::Cache, 0, 512, 22),
        (0, Command::Flush, 0, 512, 22),
        (0, Command::WriteZeroes, END - 512, 1024, 28),
        (0, Command::Unknown(8), 0, 0, 22),
    ] {
        client.send(flags, command, offset, length, &[]);
        assert_eq!(client.reply().0, error, "{command:?} at {offset} of {length}, flags {flags:x}");
        assert_eq!(client.call(Command::Read, 512, 512), (0, vec![0x11; 512]), "after {command:?}");
    }
    assert_eq!(client.write(END - 512, &[7; 1024]), 28, "its payload is dropped");
    assert_eq!(client.call(Command::Read, END - 512, 512), (0, vec![0x11; 512]));
    drop(client);
    assert!(running.end());
}

#[test]
fn a_payload_that_no_client_sends_in_earnest_ends_the_connection() {
    let running = Running::start("file", &["a"]);
    let mut other = running.connect("a");
    let mut client = running.connect("a");
    client.send(0, Command::Write, 0, (64 << 20) + 512, &[]);
    assert!(client.rest().is_empty(), "closed");
    assert_eq!(other.call(Command::Read, 0, 512).0, 0);
    let stats = running.server().inspector().stats().unwrap();
    assert_eq!(stats[0].exports[0].violations, 1);
}

#[test]
fn a_header_that_is_cut_off_is_forgotten() {
    let running = Running::start("file", &["a"]);
    let request = dumbwaiter_protocols::nbd::Request {
        flags: 0,
        command: Command::WriteZeroes,
        cookie: 1,
        offset: 0,
        length: 512,
    };
    for sent in [1, 10, 27] {
        let mut client = running.connect("a");
        client.stream.write_all(&request.encode()[..sent]).unwrap();
        drop(client);
    }
    assert_eq!(running.connect("a").call(Command::Read, 0, 512), (0, vec![0x11; 512]));
    assert!(running.end());
}

#[test]
fn a_negotiation_that_breaks_the_protocol_is_counted_and_logged() {
    let running = Running::start("null", &["a"]);
    for bytes in [&8u32.to_be_bytes()[..], &[0xff; 32]] {
        let mut client = UnixStream::connect(running.socket()).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client.write_all(bytes).unwrap();
        // The greeting, then the end, perhaps by a reset: bytes were left unread.
        let _ = client.read_to_end(&mut Vec::new());
    }
    assert_eq!(running.server().inspector().failed_negotiations(), 2);
    let log = running.log.lock().unwrap().join("\n");
    assert_eq!(log.matches("during the negotiation").count(), 2, "{log}");
}

#[test]
fn a_read_only_export_refuses_writes() {
    let running = Running::start("file", &["a:readonly"]);
    let mut client = running.connect("a");
    assert_eq!(client.write(0, &[1; 512]), 1);
    assert_eq!(client.call(Command::WriteZeroes, 0, 512).0, 1);
    assert_eq!(client.call(Command::Read, 0, 512), (0, vec![0x11; 512]));
}

#[test]
fn refused_requests_leave_none_behind_them_unanswered() {
    let running = Running::with("file", &["a"], |settings| settings.connection_requests = 1);
    let mut client = running.connect("a");
    let mut all = Vec::new();
    for (cookie, offset) in [(1, 1 << 40), (2, 1 << 40), (3, 1 << 40), (4, 0)] {
        let request = Request { flags: 0, command: Command::Read, cookie, offset, length: 512 };
        all.extend_from_slice(&request.encode());
    }
    // In one piece, and nothing after it.
    client.stream.write_all(&all).unwrap();
    let errors: Vec<u32> = (0..4).map(|_| client.reply().0).collect();
    assert_eq!(errors, [22, 22, 22, 0]);
    assert!(running.end());
}

#[test]
fn a_wrong_magic_ends_one_connection_only() {
    let running = Running::start("null", &["a"]);
    let mut other = running.connect("a");
    let mut client = running.connect("a");
    client.stream.write_all(&[0xff; 28]).unwrap();
    assert!(client.rest().is_empty(), "closed");
    assert_eq!(other.call(Command::Read, 0, 512).0, 0);
    let said = running.log.lock().unwrap().iter().filter(|line| line.contains("broke the protocol")).count();
    assert_eq!(said, 1);
}

#[test]
fn clients_that_break_the_rules_again_and_again_fill_no_log() {
    let running = Running::start("null", &["a"]);
    for _ in 0..40 {
        let mut client = running.connect("a");
        client.stream.write_all(&[0xff; 28]).unwrap();
        assert!(client.rest().is_empty(), "closed");
    }
    let inspector = running.server().inspector();
    let counted = || (inspector.stats().unwrap()[0].exports[0].violations, inspector.log_lines_left_out());
    for _ in 0..500 {
        if counted().0 == 40 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(counted(), (40, 30), "each is counted");
    let log = running.log.clone();
    assert!(running.end());
    let log = log.lock().unwrap();
    assert_eq!(log.iter().filter(|line| line.contains("broke the protocol")).count(), 10);
    assert!(log.iter().any(|line| line.starts_with("export `a`: 30 more lines")), "{log:?}");
}

#[test]
fn a_payload_that_is_cut_off_is_never_written() {
    let running = Running::start("file", &["a"]);
    for sent in [0usize, 100, 40 << 10] {
        let mut client = running.connect("a");
        client.send(0, Command::Write, 0, 64 << 10, &vec![0x77; sent]);
        drop(client);
    }
    let mut client = running.connect("a");
    assert_eq!(client.call(Command::Read, 0, 64 << 10), (0, vec![0x11; 64 << 10]));
    let stats = running.server().inspector().stats().unwrap();
    assert_eq!(stats[0].exports[0].writes, 0);
}

#[test]
fn a_client_that_never_reads_keeps_only_its_own_slots() {
    let running = Running::with("null", &["greedy", "other"], |settings| {
        settings.targets[0].exports.iter_mut().for_each(|export| Arc::make_mut(export).readonly = true);
    });
    let mut greedy = running.connect("greedy");
    greedy.stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let request =
        dumbwaiter_protocols::nbd::Request { flags: 0, command: Command::Read, cookie: 1, offset: 0, length: 1 << 20 };
    // Until the server takes no more.
    while greedy.stream.write_all(&request.encode()).is_ok() {}
    let mut other = running.connect("other");
    for _ in 0..100 {
        assert_eq!(other.call(Command::Read, 0, 4096).0, 0);
    }
    let stats = running.server().inspector().stats().unwrap();
    assert!(stats[0].buffer_bytes <= 129 << 20, "{}", stats[0].buffer_bytes);
    drop(greedy);
    assert_eq!(other.call(Command::Read, 0, 4096).0, 0);
}

#[test]
fn a_client_that_closes_one_side_and_does_not_read_costs_no_cpu() {
    let running = Running::start("null", &["a"]);
    let mut client = running.connect("a");
    for _ in 0..8 {
        client.send(0, Command::Read, 0, 4 << 20, &[]);
    }
    client.send(0, Command::Disconnect, 0, 0, &[]);
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let waits = || running.server().inspector().stats().unwrap()[0].waits;
    let before = waits();
    std::thread::sleep(Duration::from_millis(500));
    assert!(waits() < before + 50, "{} waits in half a second of nothing to do", waits() - before);
    // Its replies are still there.
    let rest = client.rest();
    assert!(rest.len() >= 8 * (4 << 20));
}

#[test]
fn a_slow_negotiation_hinders_nobody() {
    let running = Running::start("null", &["a"]);
    let mut slow: Vec<UnixStream> = (0..20).map(|_| UnixStream::connect(running.socket()).unwrap()).collect();
    for stream in &mut slow {
        stream.write_all(&[0]).unwrap();
    }
    assert_eq!(running.connect("a").call(Command::Read, 0, 512).0, 0);
}

#[test]
fn thousands_of_connections_leave_nothing_behind() {
    if !is_alone("hostile::thousands_of_connections_leave_nothing_behind") {
        return;
    }
    let running = Running::start("null", &["a", "b:readonly"]);
    drop(running.connect("a"));
    std::thread::sleep(Duration::from_millis(200));
    let before = descriptors();
    for round in 0..1000 {
        let mut client = running.connect(if round % 2 == 0 { "a" } else { "b" });
        if round % 3 == 0 {
            client.send(0, Command::Read, 0, 64 << 10, &[]);
        }
        if round % 5 == 0 {
            client.send(0, Command::Disconnect, 0, 0, &[]);
        }
    }
    let mut stats = running.server().inspector().stats().unwrap();
    for _ in 0..100 {
        if stats[0].exports.iter().all(|export| export.connections == 0) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
        stats = running.server().inspector().stats().unwrap();
    }
    assert!(stats[0].exports.iter().all(|export| export.connections == 0 && export.outstanding == 0));
    assert_eq!((stats[0].submitted, stats[0].buffer_bytes), (stats[0].completed, 0));
    assert!(descriptors() <= before + 8, "{} descriptors, before {before}", descriptors());
    assert!(running.end());
}

#[test]
fn a_server_that_ends_answers_what_is_under_way() {
    let running = Running::start("emulate:hdd:st1000dm003", &["a"]);
    let mut client = Client::connect(&running.socket(), "a");
    for place in 0..16 {
        client.send(0, Command::Read, place << 30, 4096, &[]);
    }
    let mut patience = Patience::new(Duration::from_secs(20));
    while running.server().inspector().stats().unwrap()[0].submitted < 16 {
        assert!(!patience.is_over(), "not read {}", patience.report());
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(running.end());
    let rest = client.rest();
    assert!(rest.len() >= 16 * 28, "{} bytes", rest.len());
}
