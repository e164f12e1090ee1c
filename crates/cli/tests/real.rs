//! `compare --on`, `recommend` and `verify` on files and on loop devices, as users meet them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use dumbwaiter_testkit::LoopDevice;
use serde_json::Value;

const READS: &str = r#"
duration = "200ms"
warmup = "50ms"
replicates = 1
schedulers = ["none", "mq-deadline", "headway"]
[[tenant]]
name = "light"
weight = 100
[[tenant.task]]
name = "t"
rw = "randread"
iodepth = 8
[[tenant]]
name = "heavy"
weight = 300
[[tenant.task]]
name = "t"
rw = "randread"
iodepth = 8
ioprio = "be/2"
"#;

fn dumbwaiter(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dumbwaiter"));
    command.args(args).env_remove("CLICOLOR_FORCE").env("NO_COLOR", "1");
    command.output().expect("the program starts")
}

fn file(dir: &Path, name: &str, content: &[u8]) -> String {
    let path = dir.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A folder in memory where there is one: loop devices over it are quick.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn device(dir: &Path) -> Option<(LoopDevice, PathBuf)> {
    let Some(disk) = LoopDevice::new(dir, 32 << 20) else {
        println!("skipped: no loop device (root is needed)");
        return None;
    };
    let path = disk.path().to_path_buf();
    Some((disk, path))
}

fn scheduler_of(device: &Path) -> String {
    let name = device.file_name().unwrap().to_str().unwrap();
    std::fs::read_to_string(format!("/sys/block/{name}/queue/scheduler")).unwrap()
}

#[test]
fn a_file_is_measured_through_the_engine_and_the_json_says_so() {
    let dir = folder();
    let disk = file(dir.path(), "disk", &vec![7; 8 << 20]);
    let scenario = file(dir.path(), "s.toml", READS.as_bytes());
    let out = dir.path().join("out.json");
    let done = dumbwaiter(&["compare", &scenario, "--on", &disk, "--json", out.to_str().unwrap()]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let runs = json(&out)["runs"].as_array().unwrap().clone();
    assert_eq!(runs.len(), 3);
    for run in &runs {
        assert_eq!(
            (&run["world"], &run["via"], &run["completion"]),
            (&"real".into(), &"engine".into(), &"interrupt".into())
        );
        assert!(run["completed"].as_u64().unwrap() > 0);
        assert_eq!(run["ledger"]["submitted"], run["ledger"]["completed"]);
        for key in ["usr_s", "sys_s", "us_per_io", "ctx_per_io"] {
            assert!(run["cpu"][key].is_number(), "{key}: {}", run["cpu"]);
        }
        assert!(run["energy"].is_null() || run["energy"]["joules"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn rings_that_only_one_scheduler_can_use_are_remarked_on() {
    let dir = folder();
    let disk = file(dir.path(), "disk", &vec![7; 8 << 20]);
    let scenario = file(dir.path(), "s.toml", READS.as_bytes());
    let out = dir.path().join("out.json");
    let done =
        dumbwaiter(&["compare", &scenario, "--on", &disk, "--rings", "per-core", "--json", out.to_str().unwrap()]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let out = json(&out);
    let notes: Vec<&str> = out["notes"].as_array().unwrap().iter().filter_map(|n| n.as_str()).collect();
    for scheduler in ["mq-deadline", "headway"] {
        let told = notes.iter().filter(|n| n.starts_with(&format!("{scheduler}: one ring for all"))).count();
        assert_eq!(told, 1, "{scheduler}: {notes:?}");
    }
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get().min(2));
    for run in out["runs"].as_array().unwrap() {
        let rings = if run["scheduler"] == "none" { cpus as f64 } else { 1.0 };
        assert_eq!(run["device_counters"]["rings"].as_f64(), Some(rings), "{}", run["scheduler"]);
        assert!(run["tenants"].as_array().unwrap().iter().all(|t| t["count"].as_u64().unwrap() > 0));
    }
}

#[test]
fn both_ways_run_on_a_device_and_its_scheduler_is_as_before() {
    let dir = folder();
    let Some((_disk, path)) = device(dir.path()) else { return };
    let before = scheduler_of(&path);
    let scenario = file(dir.path(), "s.toml", READS.as_bytes());
    let out = dir.path().join("out.json");
    let done = dumbwaiter(&["compare", &scenario, "--on", path.to_str().unwrap(), "--json", out.to_str().unwrap()]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(scheduler_of(&path), before);
    let report = json(&out);
    let mut ways: Vec<(String, String)> = Vec::new();
    for run in report["runs"].as_array().unwrap() {
        ways.push((run["via"].as_str().unwrap().into(), run["scheduler"].as_str().unwrap().into()));
        let moved = run["tenants"].as_array().unwrap().iter().all(|t| t["count"].as_u64().unwrap() > 0);
        assert!(moved, "every tenant's process did something: {}", run["tenants"]);
        assert_eq!(run["ledger"]["submitted"], run["ledger"]["completed"]);
    }
    ways.sort();
    let engine = ["headway", "mq-deadline", "none"].map(|s| ("engine".to_owned(), s.to_owned()));
    assert_eq!(ways[..3], engine);
    assert!(ways[3..].contains(&("kernel".to_owned(), "none".to_owned())), "{ways:?}");
    assert!(!ways.contains(&("kernel".to_owned(), "headway".to_owned())));
}

#[test]
fn an_interrupt_puts_the_scheduler_back_and_keeps_what_is_finished() {
    let dir = folder();
    let Some((_disk, path)) = device(dir.path()) else { return };
    let before = scheduler_of(&path);
    let long = READS.replace("replicates = 1", "replicates = 50");
    let scenario = file(dir.path(), "s.toml", long.as_bytes());
    let out = dir.path().join("out.json");
    let child = Command::new(env!("CARGO_BIN_EXE_dumbwaiter"))
        .args(["compare", &scenario, "--on", path.to_str().unwrap(), "--json", out.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(4));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let status = child.wait_with_output().unwrap().status;
    assert_eq!(status.code(), Some(130));
    assert_eq!(scheduler_of(&path), before);
    let report = json(&out);
    assert!(!report["runs"].as_array().unwrap().is_empty());
    assert!(report["notes"].to_string().contains("interrupted"));
}

#[test]
fn writing_needs_permission_and_a_device_in_use_is_refused() {
    let dir = folder();
    let disk = file(dir.path(), "disk", &vec![7; 4 << 20]);
    let writes = READS.replace("randread", "randwrite");
    let scenario = file(dir.path(), "s.toml", writes.as_bytes());
    let done = dumbwaiter(&["compare", &scenario, "--on", &disk]);
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("--allow-writes"));
    assert_eq!(std::fs::read(&disk).unwrap(), vec![7; 4 << 20], "not a byte has changed");
    // A file that a loop device is made of is in use.
    if let Some((_held, _)) = device(dir.path()) {
        let mut backing = std::fs::read_dir(dir.path()).unwrap().flatten().map(|f| f.path());
        let backing = backing.find(|p| std::fs::metadata(p).unwrap().len() == 32 << 20).unwrap();
        let done = dumbwaiter(&["compare", &scenario, "--on", backing.to_str().unwrap(), "--allow-writes"]);
        assert_eq!(done.status.code(), Some(2), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

#[test]
fn what_was_acknowledged_is_there_after_the_program_is_killed() {
    let dir = folder();
    let disk = file(dir.path(), "disk", &vec![0; 8 << 20]);
    let writes =
        READS.replace("randread", "randwrite").replace("200ms", "30s").replace("\"none\", \"mq-deadline\", ", "");
    let scenario = file(dir.path(), "s.toml", writes.as_bytes());
    let journal = dir.path().join("journal");
    let mut child = Command::new(env!("CARGO_BIN_EXE_dumbwaiter"))
        .args(["compare", &scenario, "--on", &disk, "--allow-writes", "--verify", "--verify-journal"])
        .arg(&journal)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(2));
    child.kill().unwrap();
    child.wait().unwrap();
    let found = dumbwaiter(&["verify", &disk, journal.to_str().unwrap()]);
    let told = String::from_utf8_lossy(&found.stdout).into_owned();
    assert_eq!(found.status.code(), Some(0), "{told}{}", String::from_utf8_lossy(&found.stderr));
    assert!(told.contains(" 0 lost, 0 torn"), "{told}");
    assert!(!told.starts_with("0 blocks"), "{told}");
}

#[test]
fn recommend_says_what_to_set_and_leaves_the_device_as_it_was() {
    let dir = folder();
    let Some((_disk, path)) = device(dir.path()) else { return };
    let before = scheduler_of(&path);
    let out = dir.path().join("advice.json");
    let done = dumbwaiter(&["recommend", path.to_str().unwrap(), "--for", "10s", "--json", out.to_str().unwrap()]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(scheduler_of(&path), before);
    let advice = json(&out);
    let recommended = advice["recommended"].as_str().unwrap();
    assert!(before.contains(recommended));
    assert_eq!(advice["keep"].as_bool().unwrap(), before.contains(&format!("[{recommended}]")));
    assert!(advice["udev_rule"].as_str().unwrap().contains(&format!("ATTR{{queue/scheduler}}=\"{recommended}\"")));
    assert!(
        String::from_utf8_lossy(&done.stdout).contains(advice["sentence"].as_str().unwrap().split(',').next().unwrap())
    );
}

#[test]
fn what_cannot_be_is_one_clear_line() {
    let dir = folder();
    let disk = file(dir.path(), "disk", &vec![7; 1 << 20]);
    let empty = file(dir.path(), "empty", b"");
    let folder = dir.path().to_str().unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["compare", "--on", "/nowhere/disk"], "/nowhere/disk"),
        (&["compare", "--on", folder], "neither a regular file"),
        (&["compare", "--on", &empty], "0 bytes"),
        (&["compare", "--on", &disk, "--via", "kernel"], "belong to block devices"),
        (&["compare", "--via", "kernel"], "--on"),
        (&["compare", "--rings", "2"], "--on"),
        (&["compare", "--on", &disk, "--rings", "0"], "a number from 1 to 1024"),
        (&["compare", "--on", &disk, "--completion", "poll"], "poll"),
        (&["recommend", &disk], "is a file"),
        (&["recommend", &disk, "--for", "soon"], "--for"),
    ];
    for (args, part) in cases {
        let done = dumbwaiter(args);
        let message = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(part) && !message.contains("panicked"), "{args:?}: {message}");
    }
}
