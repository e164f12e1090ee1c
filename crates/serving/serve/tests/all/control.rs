//! Orders, metrics and the health check of a running server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use dumbwaiter_protocols::nbd::Command;
use dumbwaiter_serve::{DeviceDepth, ExportSettings, Order, send_order};

use crate::running::Running;

fn controlled(exports: &[&str]) -> (Running, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.keep().join("control");
    let path = socket.clone();
    let running = Running::with("null", exports, |settings| {
        settings.control = Some(path);
        settings.http = Some("127.0.0.1:0".parse().unwrap());
    });
    (running, socket)
}

#[test]
fn orders_change_a_running_server() {
    let (running, socket) = controlled(&["a:size=1G", "b:offset=1G,size=1G"]);
    let order = |order: Order| send_order(&socket, &order).map_err(|e| e.to_string());
    order(Order::SetWeight { export: "a".into(), weight: 700 }).unwrap();
    order(Order::SetLimit { export: "b".into(), iops: Some(10), bytes: None }).unwrap();
    order(Order::SetScheduler { scheduler: "mq-deadline".into(), disk: 0 }).unwrap();
    order(Order::SetSetting { name: "fifo_batch".into(), value: 4, disk: 0 }).unwrap();
    order(Order::SetDepth { depth: DeviceDepth::Fixed(8), disk: 0 }).unwrap();
    let stats = running.server().inspector().stats().unwrap();
    assert_eq!((stats[0].exports[0].weight, stats[0].exports[1].limit_iops), (700, Some(10)));
    assert_eq!(
        (stats[0].scheduler.as_str(), stats[0].switches, stats[0].device_depth),
        ("mq-deadline:fifo_batch=4", 1, 8)
    );
    let add = ExportSettings::parse("c:offset=2G,size=1G").unwrap();
    order(Order::Add { export: add.clone(), disk: 0 }).unwrap();
    assert_eq!(running.connect("c").call(Command::Read, 0, 512).0, 0);
    order(Order::Resize { export: "c".into(), size: 1 << 20 }).unwrap();
    assert_eq!(running.connect("c").offer.size, 1 << 20);
    let mut held = running.connect("c");
    assert_eq!(held.call(Command::Read, 0, 512).0, 0);
    assert_eq!(order(Order::Drain { export: "c".into(), timeout_s: 0 }).unwrap()["drained"], false);
    assert_eq!(held.call(Command::Read, 0, 512).0, 0, "who is there stays");
    drop(held);
    let list = order(Order::List {}).unwrap();
    assert!(list.as_array().unwrap().len() <= 3);
    for (wrong, reason) in [
        (Order::SetWeight { export: "a".into(), weight: 0 }, "expected 1 to 10000"),
        (Order::SetWeight { export: "nobody".into(), weight: 5 }, "no export"),
        (Order::SetScheduler { scheduler: "elevator".into(), disk: 0 }, "elevator"),
        (Order::Resize { export: "a".into(), size: 2 << 40 }, "beyond the end of the target"),
        (Order::SetDepth { depth: DeviceDepth::Fixed(0), disk: 0 }, "expected 1"),
    ] {
        let refusal = order(wrong.clone()).unwrap_err();
        assert!(refusal.contains(reason), "{wrong:?}: {refusal}");
    }
    order(Order::Remove { export: "a".into(), hard: true }).unwrap();
    assert!(running.end());
}

#[test]
fn nonsense_on_the_control_socket_is_answered() {
    let (_running, socket) = controlled(&["a"]);
    let mut stream = UnixStream::connect(&socket).unwrap();
    for line in ["{}", "nonsense", "{\"command\":\"quit-now\"}", "{\"command\":\"list\",\"x\":1}", "\u{1}\u{2}"] {
        writeln!(stream, "{line}").unwrap();
        let mut answer = [0; 4096];
        let count = stream.read(&mut answer).unwrap();
        assert!(answer[..count].starts_with(b"{\"error\""), "{line}");
    }
    writeln!(stream, "{{\"command\":\"query-exports\"}}").unwrap();
    let mut answer = [0; 4096];
    let count = stream.read(&mut answer).unwrap();
    assert!(answer[..count].starts_with(b"{\"return\":[{"), "the vocabulary of others is understood");
}

#[test]
fn metrics_and_health_are_served() {
    let (running, _) = controlled(&["a", "odd \"name\\:readonly"]);
    assert_eq!(running.connect("a").call(Command::Read, 0, 4096).0, 0);
    let address = running.server().http_address().unwrap();
    let get = |path: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        let accept = if path == "/metrics" { "application/openmetrics-text; version=1.0.0" } else { "text/plain" };
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    assert!(get("/healthz").starts_with("HTTP/1.1 200"));
    assert!(get("/").contains("<!doctype html>"));
    assert!(get("/nothing").starts_with("HTTP/1.1 404"));
    let metrics = get("/metrics");
    assert!(metrics.contains("dumbwaiter_io_requests_total{target=\"null\",export=\"a\",op=\"read\"} 1\n"));
    assert!(metrics.contains("export=\"odd \\\"name\\\\\""));
    assert!(metrics.ends_with("# EOF\n"));
    let older = get("/metrics?older");
    assert!(older.contains("text/plain; version=0.0.4") && older.contains("# TYPE dumbwaiter_errors_total counter\n"));
    assert!(!older.contains("# EOF"));
    assert!(get("/stats.json").contains("\"share\""));
}

#[test]
fn a_configuration_is_read_again_whole_or_not_at_all() {
    let (running, _) = controlled(&["a:size=1G", "b:offset=1G,size=1G"]);
    let inspector = running.server().inspector();
    let with = |exports: &[&str]| {
        let mut settings = running.settings.clone();
        settings.targets[0].exports = exports.iter().map(|text| ExportSettings::parse(text).unwrap().into()).collect();
        inspector.reload(&settings)
    };
    let names = || {
        let stats = inspector.stats().unwrap();
        stats[0].exports.iter().map(|export| (export.name.clone(), export.weight)).collect::<Vec<_>>()
    };
    let before = names();
    for (wrong, reason) in [
        (&["a:size=1G,weight=7", "b:offset=2G,size=1G"][..], "restart"),
        (&["a:size=3T,weight=7", "b:offset=1G,size=1G"], "beyond the end of the target"),
        (&["a:weight=7,readonly", "b:offset=1G"], "restart"),
    ] {
        let error = with(wrong).unwrap_err().to_string();
        assert!(error.contains(reason), "{wrong:?}: {error}");
        assert_eq!(names(), before);
    }
    with(&["a:size=1G,weight=7", "c:offset=4G,size=1G"]).unwrap();
    assert_eq!(names(), [("a".to_owned(), 7), ("c".to_owned(), 100)]);
}
