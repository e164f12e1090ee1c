//! `reproduce --on`: figures of papers on loop devices, as users meet them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use dumbwaiter_testkit::{LoopDevice, program};
use serde_json::Value;

use crate::common::{command, folder};

fn reproduce(args: &[&str]) -> Output {
    command().arg("reproduce").args(args).output().expect("the program starts")
}

fn told(done: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&done.stdout), text(&done.stderr))
}

fn scheduler_of(disk: &LoopDevice) -> String {
    std::fs::read_to_string(disk.sysfs().join("queue/scheduler")).unwrap()
}

fn rows(path: &Path) -> Vec<Value> {
    serde_json::from_slice::<Value>(&std::fs::read(path).unwrap()).unwrap().as_array().unwrap().clone()
}

fn installed(name: &str) -> bool {
    let there = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|d| d.join(name).is_file());
    if !there {
        eprintln!("skipped: {name} is not installed");
    }
    there
}

/// Where our mounts and folders would be.
fn left_behind(dir: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(dir).unwrap().flatten().map(|f| f.path());
    all.filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("dumbwaiter-"))).collect()
}

#[test]
fn both_papers_are_run_on_a_device_that_stays_as_it_was() {
    let dir = folder();
    let Some(disk) = LoopDevice::new(dir.path(), 32 << 20) else { return };
    std::fs::write(disk.file(), vec![7; 32 << 20]).unwrap();
    let before = scheduler_of(&disk);
    let device = disk.path().to_str().unwrap();
    let (out, page) = (dir.path().join("out.json"), dir.path().join("page.html"));
    let done = reproduce(&[
        "ull-2023:table-1",
        "poll-2022:table-1",
        "poll-2022:figure-2",
        "--on",
        device,
        "--quick",
        "--json",
        out.to_str().unwrap(),
        "--html",
        page.to_str().unwrap(),
    ]);
    let (text, errors) = told(&done);
    assert!(done.status.success(), "{errors}");
    assert_eq!(scheduler_of(&disk), before);
    let rows = rows(&out);
    for row in &rows {
        assert_eq!((&row["world"], &row["device"]), (&"real".into(), &device.into()), "{row}");
        // Where the device stood still for a whole run there is no figure.
        assert!(row["within_tolerance"].is_null() && row["ours"].as_f64().is_none_or(|ours| ours >= 0.0), "{row}");
    }
    assert!(rows.iter().any(|row| row["ours"].as_f64().is_some_and(|ours| ours > 0.0)), "{text}");
    let of = |paper: &str, case: &str| rows.iter().any(|r| r["paper"] == paper && r["case"] == case);
    assert!(of("ull-2023", "default, read, none") && of("poll-2022", "8 threads, interrupt"), "{text}");
    assert!(!rows.iter().any(|r| r["case"].as_str().unwrap().contains("write")), "read-only unless asked for");
    // Loop devices have no queues to poll.
    assert!(!of("poll-2022", "8 threads, classic polling") && text.contains("poll_queues"), "{text}");
    assert!(text.contains(&format!("on {device}")) && text.contains("--destroy"), "{text}");
    assert!(std::fs::read_to_string(&page).unwrap().contains(device));
    assert!(std::fs::read(disk.file()).unwrap().iter().all(|byte| *byte == 7), "not a byte has changed");
}

#[test]
fn phases_run_in_our_engine_on_a_file_and_write_only_if_that_is_allowed() {
    let dir = folder();
    let file = dir.path().join("disk");
    // Each block is another one: what is written may have been read elsewhere.
    let before: Vec<u8> = (0..16u32 << 20).map(|at| (at / 4096 % 251) as u8).collect();
    std::fs::write(&file, &before).unwrap();
    let out = dir.path().join("out.json");
    let (target, json) = (file.to_str().unwrap(), out.to_str().unwrap());
    let short = ["--quick", "--replicates", "2", "--phase", "10ms", "--json", json];
    let done = reproduce(&[&["kml-2025", "--on", target], &short[..]].concat());
    let (text, errors) = told(&done);
    assert!(done.status.success(), "{errors}");
    assert!(
        errors.contains("only reads") && errors.contains("left out, on models only: kml-2025:figure-2"),
        "{errors}"
    );
    assert!(text.contains("Each repeat, MB/s") && text.contains("left out: loads that write"), "{text}");
    assert!(std::fs::read(&file).unwrap() == before, "not a byte has changed");
    let rows = rows(&out);
    let measured: Vec<&Value> = rows.iter().filter(|row| row["metric"] == "throughput of all phases").collect();
    assert_eq!(measured.len(), 5 + 3 + 2, "every fixed scheduler, adaptive, their mean and the oracle: {text}");
    assert!(measured.iter().all(|row| row["ours"].as_f64().is_some_and(|ours| ours > 0.0) && row["world"] == "real"));
    assert_eq!(rows.iter().filter(|row| row["ordering_holds"].is_boolean()).count() % 3, 0, "{text}");
    let done = reproduce(&[&["kml-2025:phases", "--on", target, "--destroy", target], &short[..]].concat());
    let (text, errors) = told(&done);
    assert!(done.status.success() && errors.contains("WRITES TO IT"), "{errors}");
    assert!(text.contains("6 phases in random order") && text.contains("W: random reads and writes"), "{text}");
    assert!(std::fs::read(&file).unwrap() != before, "nothing was written");
}

#[test]
fn rocksdb_runs_on_a_file_system_that_is_gone_afterwards() {
    if !installed("db_bench") || !installed("mkfs.ext4") {
        return;
    }
    let dir = folder();
    let Some(disk) = LoopDevice::new(dir.path(), 160 << 20) else { return };
    let before = scheduler_of(&disk);
    let device = disk.path().to_str().unwrap();
    let out = dir.path().join("out.json");
    let mounts = tempfile::tempdir().unwrap();
    let refused = reproduce(&["ull-2023:figure-5", "--on", device, "--quick"]);
    let (text, errors) = told(&refused);
    assert!(refused.status.success() && text.contains("skipped: RocksDB needs a file system"), "{text}{errors}");
    let done = Command::new(env!("CARGO_BIN_EXE_dumbwaiter"))
        .args(["reproduce", "ull-2023:figure-5", "--on", device, "--destroy", device, "--quick", "--json"])
        .arg(&out)
        .env("TMPDIR", mounts.path())
        .output()
        .unwrap();
    let (text, errors) = told(&done);
    assert!(done.status.success(), "{text}{errors}");
    let rows = rows(&out);
    let none = rows.iter().find(|r| r["case"] == "every get reads, 8, none" && r["metric"] == "throughput");
    assert!(none.unwrap()["ours"].as_f64().unwrap() > 0.0, "{text}");
    let judged = rows.iter().filter(|r| r["ordering_holds"].is_boolean()).count();
    let kernel_has_others = before.split_whitespace().count() > 1;
    assert_eq!(judged, if kernel_has_others { 3 } else { 0 }, "{text}");
    assert_eq!(scheduler_of(&disk), before);
    assert!(left_behind(mounts.path()).is_empty());
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!table.lines().any(|l| l.starts_with(&format!("{device} "))), "{table}");
}

#[test]
fn rocksdb_in_a_folder_on_a_mounted_drive_can_be_ended_at_any_time() {
    if !installed("db_bench") || !installed("mkfs.ext4") {
        return;
    }
    let dir = folder();
    let Some(disk) = LoopDevice::new(dir.path(), 160 << 20) else { return };
    if let Err(e) = dumbwaiter_linux::filesystem::make_ext4(disk.path()) {
        eprintln!("skipped: {e}");
        return;
    }
    let folder = dumbwaiter_linux::filesystem::TemporaryFolder::mount(disk.path(), "ext4").unwrap();
    let before = scheduler_of(&disk);
    let out = dir.path().join("out.json");
    let mut child = Command::new(env!("CARGO_BIN_EXE_dumbwaiter"))
        .args(["reproduce", "ull-2023:figure-5", "--dir"])
        .arg(folder.dir())
        .arg("--json")
        .arg(&out)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The database is there first, and a scheduler is set for the first run only after it.
    program::wait_until(&mut child, "a folder is made", || !left_behind(folder.dir()).is_empty());
    std::thread::sleep(Duration::from_millis(1500));
    program::interrupt(&mut child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(out.exists(), "what was finished is written");
    assert!(left_behind(folder.dir()).is_empty());
    assert_eq!(scheduler_of(&disk), before);
    // A file system cannot be made on what is mounted, whatever is allowed.
    let device = disk.path().to_str().unwrap();
    let on = ["ull-2023:figure-5", "--on", device, "--allow-writes", "--quick"];
    let done = reproduce(&on);
    assert_eq!(done.status.code(), Some(2));
    assert!(told(&done).1.contains("is in use"), "{}", told(&done).1);
    let done = reproduce(&["ull-2023:figure-5", "--on", device, "--destroy", device, "--quick"]);
    let (text, errors) = told(&done);
    assert!(done.status.success() && text.contains("--dir"), "{text}{errors}");
}

#[test]
fn a_device_that_fails_ends_it_with_what_was_finished() {
    let dir = folder();
    let Some(disk) = LoopDevice::new(dir.path(), 32 << 20) else { return };
    // All but its first blocks are gone.
    std::fs::File::options().write(true).open(disk.file()).unwrap().set_len(1 << 20).unwrap();
    let before = scheduler_of(&disk);
    let out = dir.path().join("out.json");
    let device = disk.path().to_str().unwrap();
    let done = reproduce(&["ull-2023:table-1", "--on", device, "--quick", "--json", out.to_str().unwrap()]);
    let (text, errors) = told(&done);
    assert_eq!(done.status.code(), Some(3), "{text}{errors}");
    assert!(
        text.contains("ended early: 0 of 4 runs finished") && errors.contains("Input/output error"),
        "{text}{errors}"
    );
    assert_eq!(rows(&out), Vec::<Value>::new());
    assert_eq!(scheduler_of(&disk), before);
}

#[test]
fn what_cannot_be_is_one_clear_line() {
    let dir = folder();
    let file = dir.path().join("disk");
    std::fs::write(&file, vec![0; 1 << 20]).unwrap();
    let file = file.to_str().unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["poll-2022", "--on", file], "belong to block devices"),
        (&["poll-2022", "--on", "/nowhere/disk"], "/nowhere/disk"),
        (&["bfq-2015", "--on", file], "expected one of ull-2023, poll-2022"),
        (&["poll-2022", "--dir", "/proc"], "/proc is not on a file system of one block device"),
        (&["poll-2022", "--dir", file], "is not a folder"),
        (&["poll-2022", "--destroy", file], "--on"),
        (&["poll-2022", "--on", file, "--jobs", "2"], "--jobs"),
        (&["kml-2025:bursts", "--on", file], "expected one of ull-2023, poll-2022, kml-2025:phases"),
        (&["kml-2025:phases", "poll-2022", "--on", file], "one of them at a time"),
        (&["kml-2025:phases", "--on", file, "--phase", "1ms"], "--phase 1.00 ms: expected 10ms to 1h"),
        (&["kml-2025:phases", "--on", file, "--replicates", "0"], "--replicates"),
        (&["kml-2025:phases", "--replicates", "2"], "--on"),
    ];
    for (args, part) in cases {
        let done = reproduce(args);
        let (_, message) = told(&done);
        assert_eq!(done.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(part) && !message.contains("panicked"), "{args:?}: {message}");
    }
}
