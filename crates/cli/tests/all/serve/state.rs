//! What commands set stays: after a kill, and when the configuration is read again.

use serde_json::Value;

use super::{Config, EXPORTS, Server, eventually};
use crate::common::{command, refused};

impl Config {
    /// The settings that commands change, by disk and export.
    fn settings(&self) -> Value {
        let stats = self.json(&["stats"]);
        let disk = &stats["disks"][0];
        let own = |export: &Value| {
            let keys = ["name", "weight", "size", "limit", "reservation", "draining"];
            keys.iter().map(|key| export[*key].clone()).collect::<Vec<_>>()
        };
        let exports: Vec<Vec<Value>> = disk["exports"].as_array().unwrap().iter().map(own).collect();
        serde_json::json!([disk["scheduler"], disk["device_depth"], exports])
    }
}

#[test]
fn each_change_by_a_command_is_there_after_a_kill() {
    let config = Config::new();
    let mut server = config.start();
    for order in [
        &["set", "a", "weight=700"][..],
        &["set", "a", "limit_iops=500", "burst_iops=2000", "limit_bytes=1MiB"],
        &["set", "limit", "a", "--iops", "400"],
        &["set", "b", "reservation=20"],
        &["set", "scheduler=mq-deadline"],
        &["set", "fifo_batch=4"],
        &["set", "device_depth=8"],
        &["add", "c:offset=4GiB,size=1GiB,weight=5"],
        &["resize", "c", "2GiB"],
        &["drain", "b"],
        &["set", "c", "limit_bytes=5MiB"],
        &["save"],
    ] {
        config.ctl(order);
        let before = config.settings();
        server.signal("KILL");
        server.ended();
        server = config.start();
        assert_eq!(config.settings(), before, "{order:?}");
    }
    let mode =
        std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(config.path.with_extension("toml.state")).unwrap());
    assert_eq!(mode & 0o777, 0o600, "names may be secrets");
    let export = &config.json(&["list"])[0];
    assert_eq!(export["limit"]["iops"], 400);
    assert_eq!(export["limit"]["bytes"], 1 << 20, "a limit that is not named stays");
    assert_eq!(export["limit"]["burst_iops"], 2000);
    config.ctl(&["reset"]);
    assert_eq!(config.weights(), [("a".to_owned(), 100), ("b".to_owned(), 100)]);
    assert_eq!(config.settings()[0], "headway");
    server.signal("KILL");
    server.ended();
    let _server = config.start();
    assert_eq!(config.weights().len(), 2, "a reset stays too");
}

#[test]
fn a_server_without_exports_starts_again_and_reservations_that_were_admitted_stay() {
    let config = Config::new();
    let server = config.start();
    config.ctl(&["set", "a", "reservation=1000"]);
    config.ctl(&["remove", "b"]);
    let shown = config.json(&["stats"])["disks"][0]["shown_iops"].as_u64().unwrap();
    assert!(shown >= 1000, "{shown}");
    server.signal("KILL");
    server.ended();
    let server = config.start();
    assert_eq!(config.json(&["stats"])["disks"][0]["shown_iops"], shown, "it is not tried again");
    config.ctl(&["remove", "a"]);
    server.signal("KILL");
    server.ended();
    let _server = config.start();
    assert!(config.weights().is_empty());
    config.ctl(&["add", "c:size=1GiB"]);
    config.ctl(&["reset"]);
    assert_eq!(config.weights().len(), 2);
}

#[test]
fn a_configuration_that_is_read_again_says_what_stays_and_what_it_undoes() {
    let config = Config::new();
    let server = config.start();
    config.ctl(&["set", "a", "weight=700"]);
    config.ctl(&["set", "b", "weight=800"]);
    let changed = EXPORTS.replace("name = 'b'", "name = 'b'\nweight = 300");
    config.write("", &changed);
    server.signal("HUP");
    eventually("the change", || config.weights()[1].1 == 300);
    assert_eq!(config.weights()[0].1, 700, "the configuration has not changed there");
    server.signal("TERM");
    let (_, said) = server.ended();
    assert!(said.contains("export `a`: weight stays 700, as a command set it; the configuration says 100"), "{said}");
    assert!(
        said.contains("export `b`: weight is 300 now, as the configuration has changed; a command had set 800"),
        "{said}"
    );
    // A start says it too.
    let mut server = Server::spawn(command().args(["serve", "--config"]).arg(&config.path));
    server.ready();
    server.signal("TERM");
    let (_, said) = server.ended();
    assert!(said.contains("export `a`: weight stays 700") && !said.contains("export `b`"), "{said}");
}

/// As a stranger might: each is refused at once, in little memory.
#[test]
fn configurations_that_ask_for_too_much_are_refused() {
    let config = Config::new();
    let export = |number: u32| format!("[[target.export]]\nname = 'e{number}'\n");
    let long = format!("{EXPORTS}description = '{}'\n", "d".repeat(2000));
    let reserves = EXPORTS.replace("size = '1GiB'", "size = '1GiB'\nreservation_iops = 9000000000000000000");
    for (exports, reason) in [
        ((0..4097).map(export).collect::<String>(), "4097 exports; expected at most 4096"),
        ((0..100_000).map(export).collect(), "larger than 3 MiB"),
        (long, "a description of at most 1024 bytes"),
        (EXPORTS.replace("name = 'a'", "name = 'a'\ndescription = \"\\u001b[2J\""), "without control characters"),
        (EXPORTS.replace("name = 'a'", "name = 'a'\naccess = { users = [4294967296] }"), "4294967296"),
        (EXPORTS.replace("name = 'a'", "name = 'a'\naccess = { certificates = ['*'] }"), "expected a DNS name"),
        (EXPORTS.replace("name = 'a'", "name = 'a'\naccess = { certificates = ['vm1'] }"), "tls_verify_peer"),
        (EXPORTS.replace("name = 'a'", "name = 'a'\nlimit_iops = 1\nburst_iops = 0"), "burst_iops 0"),
        (format!("[[[[{EXPORTS}"), "disks.toml"),
        (reserves, "beside 9000000000000000000 of other exports"),
    ] {
        config.write("", &exports);
        let shell = format!(
            "ulimit -d 262144; exec {} serve --config {}",
            env!("CARGO_BIN_EXE_dumbwaiter"),
            config.path.display()
        );
        let begun = std::time::Instant::now();
        let out = std::process::Command::new("sh").args(["-c", &shell]).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{reason}: {said}");
        assert!(said.contains(reason) && said.len() < 3000, "{reason}: {said}");
        assert!(begun.elapsed().as_secs() < 5, "{reason}");
    }
}

#[test]
fn a_state_that_cannot_be_read_or_written_is_said() {
    let config = Config::new();
    let state = config.path.with_extension("toml.state");
    for (text, reason) in [
        ("", "no state of a server"),
        ("{}", "missing field"),
        (r#"{"schema":9,"configured":[],"served":[]}"#, "schema 9"),
    ] {
        std::fs::write(&state, text).unwrap();
        let path = config.path.to_str().unwrap();
        refused(&["serve", "--config", path], &[reason, "remove it to start as configured"]);
    }
    let path = config.path.to_str().unwrap();
    std::fs::File::options().write(true).open(&state).unwrap().set_len(17 << 20).unwrap();
    refused(&["serve", "--config", path], &["larger than 16 MiB"]);
    std::fs::remove_file(&state).unwrap();
    std::fs::create_dir(&state).unwrap();
    refused(&["serve", "--config", path], &["no regular file"]);
    std::fs::remove_dir(&state).unwrap();
    // A FIFO that nobody writes to; a link to a file of somebody else's choice.
    assert!(std::process::Command::new("mkfifo").arg(&state).status().unwrap().success());
    refused(&["serve", "--config", path], &["no regular file"]);
    std::fs::remove_file(&state).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &state).unwrap();
    refused(&["serve", "--config", path], &["no regular file"]);
    std::fs::remove_file(&state).unwrap();
    let server = config.start();
    std::fs::create_dir(&state).unwrap();
    config.ctl(&["set", "a", "weight=7"]);
    assert_eq!(config.weights()[0].1, 7, "the change holds");
    refused(&["ctl", "--control", &config.control, "save"], &["cannot write the state file", "folder"]);
    server.signal("TERM");
    server.ended();
    // Without a file nothing is kept, and `save` says so.
    std::fs::remove_dir(&state).unwrap();
    let mut server = Server::spawn(command().args(["serve", "--state", "none", "--config"]).arg(&config.path));
    server.ready();
    config.ctl(&["set", "a", "weight=8"]);
    refused(&["ctl", "--control", &config.control, "save"], &["there is no state file", "--state FILE"]);
    assert!(!state.exists());
}
