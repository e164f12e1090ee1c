//! `ctl` and `top` ask a server that runs.

use std::io::{BufRead, Read, Write};

use serde_json::Value;

use super::{Config, Server, agreed, eventually, read_request};
use crate::common::{command, ok, refused};

fn first_disk(config: &Config) -> Value {
    config.json(&["stats"])["disks"][0].clone()
}

#[test]
fn each_order_changes_a_running_server() {
    let config = Config::new();
    let server = config.start();
    let stats = || first_disk(&config);
    for (order, part, value) in [
        (&["set", "weight", "a", "700"][..], "/exports/0/weight", Value::from(700)),
        (&["set-weight", "a", "600"], "/exports/0/weight", 600.into()),
        (&["set", "a", "weight=500", "limit_bytes=2MiB"], "/exports/0/weight", 500.into()),
        (&["set", "a", "limit_iops=70"], "/exports/0/limit_bytes", (2 << 20).into()),
        (&["set", "a", "limit_iops=none", "limit_bytes=none"], "/exports/0/limit_iops", Value::Null),
        (&["set", "scheduler=bfq"], "/scheduler", "bfq".into()),
        (&["set", "scheduler=headway"], "/scheduler", "headway".into()),
        (&["set", "run_kib=64"], "/switches", 2.into()),
        (&["set", "device_depth=16", "--disk", "0"], "/device_depth", 16.into()),
        (&["set", "limit", "b", "--iops", "50", "--bytes", "1MiB"], "/exports/1/limit_bytes", (1 << 20).into()),
        (&["set", "limit", "b", "--iops", "60"], "/exports/1/limit/bytes", (1 << 20).into()),
        (&["set", "limit", "b"], "/exports/1/limit_iops", Value::Null),
        (&["set", "b", "limit_iops=50", "burst_iops=500"], "/exports/1/limit/burst_iops", 500.into()),
        (&["set", "b", "limit_iops=none", "burst_iops=none"], "/exports/1/limit/iops", Value::Null),
        (
            &["set", "b", "reservation=99999999999", "over_commit=yes"],
            "/exports/1/reservation",
            99_999_999_999u64.into(),
        ),
        (&["set", "b", "reservation=none", "over_commit=no"], "/exports/1/reservation", Value::Null),
        (&["set", "reservation", "b", "--iops", "20"], "/exports/1/reservation_iops", 20.into()),
        (&["set", "scheduler", "mq-deadline:fifo_batch=1"], "/scheduler", "mq-deadline:fifo_batch=1".into()),
        (&["set", "setting", "fifo_batch", "4"], "/switches", 3.into()),
        (&["set", "depth", "8"], "/device_depth", 8.into()),
        (&["set", "depth", "auto"], "/device_depth", 32.into()),
        (&["add", "c:offset=4GiB,size=1GiB,weight=5"], "/exports/2/name", "c".into()),
        (&["resize", "c", "2GiB"], "/exports/2/size", (2u64 << 30).into()),
        (&["drain", "c", "--timeout", "5"], "/exports/2", Value::Null),
    ] {
        config.ctl(order);
        assert_eq!(stats().pointer(part).unwrap_or(&Value::Null), &value, "{order:?}");
    }
    assert!(config.ctl(&["list"]).contains("null"));
    for row in [&config.json(&["list"])[0], &stats()["exports"][0]] {
        for key in ["limit", "reservation", "draining", "promised_share", "received_share", "shortfall"] {
            assert!(row.get(key).is_some(), "{key} of {row}");
        }
        assert_eq!(row["shortfall"], "idle");
    }
    assert!(config.ctl(&["stats"]).contains("share %"));
    assert!(config.ctl(&["explain"]).contains("device depth 32: auto"));
    let client = agreed(&config.socket());
    (&client).write_all(&read_request(1, 4096)).unwrap();
    (&client).read_exact(&mut [0; 16 + 4096]).unwrap();
    let snapshot = config.json(&["snapshot", "a"]);
    assert_eq!((&snapshot["count"], &snapshot["export"]), (&1.into(), &"a".into()));
    assert!(config.ctl(&["snapshot", "a"]).starts_with("a: 1 requests\n"));
    server.signal("TERM");
    drop(client);
    assert_eq!(server.ended().0, Some(0));
    refused(&["ctl", "--control", &config.control, "list"], &["no server answers on this socket"]);
}

#[test]
fn an_order_that_is_refused_says_why_and_changes_nothing() {
    let config = Config::new();
    let server = config.start();
    config.ctl(&["set", "scheduler", "mq-deadline"]);
    let weights = || [0, 1].map(|at| first_disk(&config)["exports"][at]["weight"].clone());
    let before = weights();
    for (order, reason) in [
        (&["set", "weight", "a", "0"][..], "expected 1 to 10000"),
        (&["set", "a", "weight=0"], "expected 1 to 10000"),
        (&["set", "nobody", "weight=5"], "there is no export `nobody`"),
        (&["set", "a", "wieght=5"], "unknown key `wieght`"),
        (&["set", "a", "weight=7", "offset=4GiB"], "restart"),
        (&["set", "a", "weight=7", "size=9TiB"], "beyond the end of the target"),
        (&["set", "a", "name=b"], "cannot change"),
        (&["set", "a", "burst_iops=5"], "give limit_iops too"),
        (&["set", "a", "certificates=vm1.example"], "tls_verify_peer"),
        (&["set", "a", "reservation=99999999999"], "reserves 99999999999 IOPS"),
        (&["set", "reservation", "a", "--iops", "99999999999"], "over_commit=yes"),
        (&["add", "d:offset=8GiB,size=1GiB,reservation=99999999999"], "the drive has shown"),
        (&["set", "a"], "expected KEY=VALUE"),
        (&["set", "scheduler=elevator"], "elevator"),
        (&["set", "device_depth=0"], "expected 1 to 4096, or auto"),
        (&["set", "scheduler=bfq", "device_depth=4"], "one KEY=VALUE of a disk"),
        (&["set", "weight", "nobody", "5"], "there is no export `nobody`"),
        (&["set", "limit", "a", "--iops", "0"], "expected at least 1"),
        (&["set", "limit", "a", "--bytes", "many"], "--bytes"),
        (&["set", "scheduler", "elevator"], "elevator"),
        (&["set", "setting", "no_such", "1"], "no_such"),
        (&["set", "setting", "fifo_batch", "-5"], "fifo_batch"),
        (&["set", "depth", "0"], "expected 1 to 4096, or auto"),
        (&["set", "depth", "8", "--disk", "7"], "there is no disk 7"),
        (&["add", "a"], "exists already"),
        (&["add", "d:offset=0,size=1GiB,ublk=1"], "makes block devices (ublk) only when it starts"),
        (&["resize", "a", "0"], "at least one block"),
        (&["resize", "a", "9TiB"], "beyond the end of the target"),
        (&["remove", "nobody"], "there is no export `nobody`"),
        (&["drain", "nobody"], "there is no export `nobody`"),
        (&["snapshot", "nobody"], "there is no export `nobody`"),
        (&["explain", "--disk", "3"], "there is no disk 3"),
    ] {
        refused(&[&["ctl", "--control", &config.control], order].concat(), &[reason]);
    }
    assert_eq!(weights(), before);
    refused(&["ctl", "list"], &["--control SOCKET"]);
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
}

#[test]
fn an_export_with_a_client_is_drained_taken_back_and_removed() {
    let config = Config::new();
    let server = config.start();
    let _client = agreed(&config.socket());
    let drain = command().args(["ctl", "--control", &config.control, "drain", "a", "--timeout", "0"]).output().unwrap();
    assert_eq!(drain.status.code(), Some(1), "a client is still there");
    assert_eq!(
        String::from_utf8_lossy(&drain.stdout),
        "a still has clients; it takes no new ones. `ctl remove a --hard` ends them, `ctl undrain a` lets new ones in\n"
    );
    let draining = |config: &Config| config.json(&["list"])[0]["draining"].clone();
    assert_eq!(draining(&config), true, "it is seen as long as it has clients");
    config.ctl(&["undrain", "a"]);
    assert_eq!(draining(&config), false);
    drop(agreed(&config.socket()));
    refused(&["ctl", "--control", &config.control, "undrain", "a"], &["it is not being drained"]);
    refused(&["ctl", "--control", &config.control, "undrain", "nobody"], &["there is no export"]);
    let drain = command().args(["ctl", "--control", &config.control, "drain", "a", "--timeout", "0"]).output().unwrap();
    assert_eq!(drain.status.code(), Some(1));
    refused(&["ctl", "--control", &config.control, "remove", "a"], &["there is no export `a`"]);
    config.ctl(&["remove", "a", "--hard"]);
    eventually("its client is gone", || first_disk(&config)["exports"].as_array().unwrap().len() == 1);
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
}

#[test]
fn top_shows_a_running_server_once_as_text_and_as_json() {
    let config = Config::new();
    let _server = config.start();
    let client = agreed(&config.socket());
    (&client).write_all(&read_request(1, 4096)).unwrap();
    (&client).read_exact(&mut [0; 16 + 4096]).unwrap();
    let shown = ok(&["ctl", "top", "--control", &config.control, "--once"]);
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(shown.contains("1 clients") && shown.contains("headway, 0 of 32 in the device"), "{shown}");
    let view: Value =
        serde_json::from_str(&ok(&["ctl", "top", "--control", &config.control, "--once", "--json"])).unwrap();
    let tenant = &view["disks"][0]["tenants"][0];
    assert_eq!((&view["schema"], &tenant["activity"]), (&1.into(), &"idle".into()));
    for key in ["name", "weight", "share", "due", "iops", "mb_per_s", "p50_ms", "p99_ms", "oldest_ms", "clients"] {
        assert!(tenant.get(key).is_some(), "{key}");
    }
    // Without a terminal it prints one view after another until it is ended.
    let mut shows = Server::spawn(command().args(["ctl", "top", "--control", &config.control, "--json"]));
    for _ in 0..2 {
        let mut line = String::new();
        shows.output.read_line(&mut line).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["schema"], 1);
    }
    shows.signal("TERM");
    assert_eq!(shows.ended().0, Some(0));
    refused(&["ctl", "top", "--once", "--control", "/no/such/socket"], &["no server answers on this socket"]);
}
