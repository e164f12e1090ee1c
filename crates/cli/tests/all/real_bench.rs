//! `bench engine` and `bench shares`, as users meet them.

use std::io::BufRead;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use dumbwaiter_testkit::program;

use crate::common::*;

#[test]
fn the_engines_bench_writes_to_nothing_that_is_in_use() {
    let dir = folder();
    let Some((held, _)) = device(dir.path()) else { return };
    let link = dir.path().join("link");
    std::fs::hard_link(held.file(), &link).unwrap();
    for path in [held.file(), &link] {
        let on = path.to_str().unwrap();
        let bench = ["bench", "engine", "--on", on, "--destroy", on, "--op", "randwrite", "--schedulers", "none"];
        let done = dumbwaiter(&[&bench[..], &["--depth", "1", "--rounds", "1", "--time", "100ms"]].concat());
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(said.contains("in use (backs loop"), "{said}");
    }
    for (op, told) in [("randwrite", "--destroy"), ("nosuch", "expected one of randread")] {
        let done = dumbwaiter(&["bench", "engine", "--on", held.path().to_str().unwrap(), "--op", op]);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(2) && said.contains(told) && said.lines().count() == 1, "{said}");
    }
    assert!(std::fs::read(held.file()).unwrap().iter().all(|byte| *byte == 0), "not a byte has changed");
}

#[test]
fn a_device_of_its_own_is_gone_after_a_killed_bench() {
    let dir = folder();
    if device(dir.path()).is_none() {
        return;
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_dumbwaiter"))
        .args(["bench", "engine", "--schedulers", "none", "--depth", "1", "--rounds", "100"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let own = format!("dumbwaiter-{}-", child.id());
    let file = || {
        let is_own = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&own));
        std::fs::read_dir("/dev/shm").unwrap().flatten().map(|entry| entry.path()).find(is_own)
    };
    let is_attached = |file: &PathBuf| {
        let disks = std::fs::read_dir("/sys/block").unwrap().flatten();
        let backed = disks.filter_map(|disk| std::fs::read_to_string(disk.path().join("loop/backing_file")).ok());
        // A file that was removed has a word behind its name.
        backed.into_iter().any(|name| name.trim_end().trim_end_matches(" (deleted)") == file.to_str().unwrap())
    };
    program::wait_until(&mut child, "it has a loop device", || file().is_some_and(|file| is_attached(&file)));
    let file = file().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let next = dumbwaiter(&["schedulers"]);
    let said = String::from_utf8_lossy(&next.stderr).into_owned();
    // Where another program was started before, that one put it back.
    let gone = || {
        std::thread::sleep(Duration::from_millis(20));
        !file.exists() && !is_attached(&file)
    };
    assert!((0..3000).any(|_| gone()), "{said}");
}

#[test]
fn bench_engine_keeps_what_was_finished_when_the_target_fails() {
    let dir = folder();
    let say = |args: &[&str]| {
        let out = dumbwaiter(&[&["bench", "engine"], args].concat());
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let small = file(dir.path(), "small", &[1; 2048]);
    let (code, said) = say(&["--on", &small]);
    assert!(code == Some(2) && said.contains("small") && said.contains("4096"), "{said}");
    let disk = file(dir.path(), "disk", &vec![1; 8 << 20]);
    for time in ["0", "0s", "10us"] {
        let (code, said) = say(&["--on", &disk, "--time", time]);
        assert!(code == Some(2) && said.contains("--time") && said.contains("above 0"), "{said}");
    }
    // Cut off while it runs.
    let rows = dir.path().join("rows.json");
    let mut child = Command::new(env!("CARGO_BIN_EXE_dumbwaiter"))
        .args(["bench", "engine", "--on", &disk, "--time", "200ms", "--depth", "1", "--rounds", "50", "--schedulers"])
        .args(["none", "--json"])
        .arg(&rows)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    for line in std::io::BufReader::new(child.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        if line.contains("round 2 of") {
            std::fs::OpenOptions::new().write(true).open(&disk).unwrap().set_len(0).unwrap();
        }
        said += &(line + "\n");
    }
    let out = child.wait_with_output().unwrap();
    assert!(out.status.code() == Some(3) && rows.exists(), "{:?} {said}", out.status);
}

#[test]
fn a_target_too_small_for_four_tenants_or_missing_is_refused() {
    let dir = folder();
    let small = file(dir.path(), "small", &[1; 2048]);
    for (on, told) in [(small.as_str(), "expected at least 1024 MiB"), ("/nonexistent", "no such file or device")] {
        let done = dumbwaiter(&["bench", "shares", "--on", on]);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(2) && said.contains(told) && said.contains(on), "{said}");
    }
    let done = dumbwaiter(&["bench", "engine", "--on", "/nonexistent"]);
    assert_eq!(done.status.code(), Some(2), "{}", String::from_utf8_lossy(&done.stderr));
}
