//! `pilot` as scripts meet it: what is refused and why, a replay, and a pilot that is asked while it runs.

use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::common::{command, device, dumbwaiter, file, folder};

fn said(args: &[&str]) -> (Option<i32>, String) {
    let out = dumbwaiter(args);
    (out.status.code(), String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr))
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let empty = file(dir.path(), "empty.toml", b"");
    let wrong = file(dir.path(), "wrong.toml", b"[[device]]\npath = 'sda'\nby = 'luck'\n");
    let socket = dir.path().join("no.sock");
    let socket = socket.to_str().unwrap();
    for (args, parts) in [
        (vec!["pilot"], "--config <FILE>"),
        (vec!["pilot", "--config", "/no/such.toml"], "/no/such.toml"),
        (vec!["pilot", "--config", &empty], "[[device]]"),
        (vec!["pilot", "--config", &wrong], "both, trial, model"),
        (vec!["pilot", "status", "--json", "--control", socket], "no pilot answers"),
        (vec!["pilot", "explain", "sda", "--control", socket], "dumbwaiter pilot --config"),
        (vec!["pilot", "replay", "/no/such.csv"], "/no/such.csv"),
    ] {
        let (code, text) = said(&args);
        assert!(code == Some(2) && text.contains(parts), "{args:?}: {code:?} {text}");
    }
}

#[test]
fn a_missing_disk_is_an_answer_and_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let config = file(dir.path(), "pilot.toml", b"[[device]]\npath = '/dev/no-such-disk'\n");
    let (code, text) = said(&["pilot", "--config", &config, "--once"]);
    assert!(code == Some(1) && text.contains("no such device"), "{code:?} {text}");
    let out = dumbwaiter(&["pilot", "--config", &config, "--once", "--json"]);
    let status: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(status["devices"][0]["state"], "missing");
}

#[test]
fn a_replay_has_the_same_answer_as_text_and_as_json() {
    let dir = tempfile::tempdir().unwrap();
    let lines: String = (0..4000).map(|i| format!("{:.3},R,{},128\n", f64::from(i) * 0.002, i * 128)).collect();
    let trace = file(dir.path(), "t.csv", lines.as_bytes());
    let columns = ["--columns", "time_s,op,offset_sectors,size_sectors"];
    let (code, text) = said(&["pilot", "replay", &trace, columns[0], columns[1]]);
    assert!(code == Some(0) && text.starts_with("4000 requests in 8.0 s: "), "{text}");
    let out = dumbwaiter(&["pilot", "replay", &trace, columns[0], columns[1], "--json"]);
    let summary: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((&summary["requests"], &summary["schema"]), (&4000.into(), &1.into()));
    assert!(!summary["changes"].as_array().unwrap().is_empty());
}

/// Ends with its parent's test, whatever happens.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_running_pilot_answers_and_sigterm_ends_it_well() {
    let dir = folder();
    let Some((_keep, disk)) = device(dir.path()) else { return };
    let disk = disk.to_str().unwrap();
    let socket = dir.path().join("pilot.sock");
    let socket = socket.to_str().unwrap();
    let text = format!("control = '{socket}'\n[[device]]\npath = '{disk}'\nperiod = '100ms'\n");
    let config = file(dir.path(), "pilot.toml", text.as_bytes());
    let mut pilot = Running(
        command().args(["pilot", "--config", &config, "--act"]).stderr(Stdio::piped()).spawn().expect("it starts"),
    );
    let ask = |words: &[&str]| {
        let args: Vec<&str> = ["pilot"].iter().chain(words).chain(&["--control", socket]).copied().collect();
        dumbwaiter(&args)
    };
    let there = |_| {
        std::thread::sleep(Duration::from_millis(100));
        ask(&["status"]).status.success()
    };
    assert!((0..300).any(there), "no answer");
    let status: Value = serde_json::from_slice(&ask(&["status", "--json"]).stdout).unwrap();
    assert_eq!((&status["mode"], &status["devices"][0]["device"]), (&"act".into(), &disk.into()));
    let explained = String::from_utf8(ask(&["explain", disk]).stdout).unwrap();
    assert!(explained.contains("acting") && explained.contains("candidates"), "{explained}");
    assert_eq!(ask(&["explain", "nonsense"]).status.code(), Some(2));
    let pid = pilot.0.id().to_string();
    assert!(std::process::Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    assert_eq!(pilot.0.wait().unwrap().code(), Some(0));
    assert!(!std::path::Path::new(socket).exists());
}
