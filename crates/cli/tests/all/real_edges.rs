//! `compare --on`, `verify` and `energy`: files that are there already, names of completion methods, who may not set schedulers,
//! small I/Os, and what comes of a run to its end.

use std::io::{BufRead, Read};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::*;

const WRITES: &str = r#"
duration = "200ms"
replicates = 1
schedulers = ["none"]
[[tenant]]
name = "all"
[[tenant.task]]
name = "t"
rw = "randwrite"
iodepth = 8
"#;

fn told(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

/// The program, by a process that has gone: what this one has open for writing, a child of another test may hold for a moment,
/// and then it cannot be started.
fn copied(dir: &Path) -> PathBuf {
    let program = dir.join("dumbwaiter");
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_dumbwaiter")).arg(&program).status().unwrap().success());
    program
}

#[test]
fn a_journal_goes_over_nothing_but_a_journal_whose_writes_are_there() {
    let dir = folder();
    let disk = file(dir.path(), "disk", &vec![0; 4 << 20]);
    let scenario = file(dir.path(), "s.toml", WRITES.as_bytes());
    let text = file(dir.path(), "text", b"three years of work");
    let journal = dir.path().join("journal").to_str().unwrap().to_owned();
    let run = |journal: &str, more: &[&str]| {
        let args = ["compare", &scenario, "--on", &disk, "--destroy", &disk, "--verify", "--verify-journal", journal];
        let out = command().args(args).args(more).output().unwrap();
        (out.status.code(), told(&out))
    };
    for precious in [&text, &scenario] {
        let (code, said) = run(precious, &[]);
        assert!(code == Some(2) && said.contains("is not a journal"), "{said}");
    }
    assert_eq!(std::fs::read(&text).unwrap(), b"three years of work");
    assert_eq!(std::fs::read(&scenario).unwrap(), WRITES.as_bytes());
    let (code, said) = run(&journal, &["--json", &journal]);
    assert!(code == Some(2) && said.contains("cannot write"), "{said}");

    let (code, said) = run(&journal, &[]);
    assert!(code == Some(0) && !said.contains("earlier run"), "{said}");
    let (code, said) = run(&journal, &[]);
    assert!(code == Some(0) && said.contains("of an earlier run") && said.contains(" 0 lost"), "{said}");

    // One of its blocks is lost: the evidence must not be overwritten.
    let table = std::fs::read(&journal).unwrap();
    let written = table[4096..].chunks(8).position(|floor| floor.iter().any(|byte| *byte != 0)).unwrap();
    let target = std::fs::OpenOptions::new().write(true).open(&disk).unwrap();
    target.write_all_at(&[0; 512], 512 * written as u64).unwrap();
    let place = format!("block at byte {}", 512 * written);
    let found = command().args(["verify", &disk, &journal]).output().unwrap();
    assert_eq!(found.status.code(), Some(3), "{}", told(&found));
    assert!(told(&found).contains(" 1 lost") && told(&found).contains(&place), "{}", told(&found));
    let (code, said) = run(&journal, &[]);
    assert!(code == Some(3) && said.contains(&place) && said.contains("remove the journal"), "{said}");
    assert_eq!(std::fs::read(&journal).unwrap(), table);
}

#[test]
fn methods_are_named_as_they_were_asked_for_and_sqpoll_needs_no_polled_queues() {
    let dir = folder();
    let disk = file(dir.path(), "disk", &vec![7; 4 << 20]);
    let scenario = file(dir.path(), "s.toml", WRITES.replace("randwrite", "randread").as_bytes());
    let out = dir.path().join("out.json");
    let asked = "interrupt,hybrid-fixed:20us,hybrid-fixed:1500ns,sqpoll";
    let done = command()
        .args(["compare", &scenario, "--on", &disk, "--completion", asked, "--json", out.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", told(&done));
    let report = json(&out);
    let names: Vec<&str> =
        report["runs"].as_array().unwrap().iter().map(|r| r["completion"].as_str().unwrap()).collect();
    assert_eq!(names.join(","), asked);
    let notes = report["notes"].to_string();
    assert!(notes.contains("completion sqpoll: a thread of the kernel submits"), "{notes}");
}

#[test]
fn who_may_not_set_schedulers_has_the_engine() {
    let dir = folder();
    let Some((_disk, path)) = device(dir.path()) else { return };
    let device = path.to_str().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    let program = copied(dir.path());
    let scenario = file(dir.path(), "s.toml", WRITES.replace("randwrite", "randread").as_bytes());
    let out = dir.path().join("out.json");
    let run = |more: &[&str]| {
        let mut command = Command::new(&program);
        command.args(["compare", &scenario, "--on", device, "--json", out.to_str().unwrap()]).args(more);
        let done = command.uid(65534).gid(65534).output().unwrap();
        (done.status.code(), told(&done))
    };
    let (code, said) = run(&[]);
    assert!(code == Some(0) && said.contains("through our engine only") && said.contains("run as root"), "{said}");
    let report = json(&out);
    assert!(report["runs"].as_array().unwrap().iter().all(|run| run["via"] == "engine"));
    // Asked for, it is refused; and where nothing is in the engine's way there is nothing to tell.
    let (code, said) = run(&["--via", "kernel"]);
    assert!(code == Some(2) && said.contains("run as root"), "{said}");
    let (code, said) = run(&["--via", "engine"]);
    assert!(code == Some(0), "{said}");
    let now = std::fs::read_to_string(format!("/sys/block/{}/queue/scheduler", path.file_name().unwrap().display()));
    assert_eq!(said.contains("below ours"), !now.unwrap().contains("[none]"), "{said}");
}

#[test]
fn results_go_over_no_log_of_a_meter() {
    let dir = folder();
    let disk = file(dir.path(), "disk", &vec![7; 1 << 20]);
    let log = file(dir.path(), "log.csv", b"a month of watts");
    let runs = file(dir.path(), "runs.json", b"{}");
    let cases: [&[&str]; 2] = [&["compare", "--on", &disk, "--duration", "10ms"], &["report", "energy", &runs]];
    for args in cases {
        let done = command().args(args).args(["--power-log", &log, "--json", &log]).output().unwrap();
        assert!(done.status.code() == Some(2) && told(&done).contains("it is the input"), "{}", told(&done));
    }
    assert_eq!(std::fs::read(&log).unwrap(), b"a month of watts");
}

#[test]
fn energy_is_added_to_results_of_both_ways() {
    let dir = folder();
    let Some((_disk, path)) = device(dir.path()) else { return };
    let scenario = file(dir.path(), "s.toml", WRITES.replace("randwrite", "randread").as_bytes());
    let (runs, out) = (dir.path().join("runs.json"), dir.path().join("out.json"));
    let args = ["compare", &scenario, "--on", path.to_str().unwrap(), "--json", runs.to_str().unwrap()];
    let done = command().args(args).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", told(&done));
    // 50 W all the time, and a clock that is years behind.
    let began = json(&runs)["runs"][0]["started_unix_ns"].as_u64().unwrap() / 1_000_000_000;
    let second = |i: u64| format!("{i},01/01/20 {:02}:{:02}:{:02},50.0\n", i / 3600, i / 60 % 60, i % 60);
    let rows: String = (0..1200).map(second).collect();
    let log = file(dir.path(), "log.csv", format!("\"#\",\"Date Time, GMT+00:00\",\"Power, W\"\n{rows}").as_bytes());
    let behind = format!("-{}s", began - 1_577_836_800 - 300);
    let done = command()
        .args(["report", "energy", runs.to_str().unwrap(), "--power-log", &log, "--power-offset", &behind, "--json"])
        .arg(&out)
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", told(&done));
    let report = json(&out);
    let with = report["runs"].as_array().unwrap();
    assert_eq!(with.len(), 2);
    for run in with {
        let (joules, seconds) = (run["energy"]["joules"].as_f64().unwrap(), run["duration_s"].as_f64().unwrap());
        assert!((joules - 50.0 * seconds).abs() < 0.01 * joules, "{joules} J in {seconds} s, {}", run["via"]);
    }
}

#[test]
fn a_program_that_is_replaced_goes_on() {
    let dir = folder();
    let Some((_disk, path)) = device(dir.path()) else { return };
    let program = copied(dir.path());
    let scenario = file(dir.path(), "s.toml", WRITES.replace("randwrite", "randread").as_bytes());
    let mut command = Command::new(&program);
    command.args(["compare", &scenario, "--on", path.to_str().unwrap()]).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut text = String::new();
    while !text.contains("runs of") && said.read_line(&mut text).unwrap() > 0 {}
    // Before the runs through the kernel's scheduler, whose processes are this program too.
    std::fs::remove_file(&program).unwrap();
    said.read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{text}");
}

#[test]
fn ios_smaller_than_blocks_are_refused_or_rounded_out() {
    let dir = folder();
    let Some((_disk, path)) = device(dir.path()) else { return };
    let larger = Command::new("losetup").args(["--sector-size", "4096"]).arg(&path).status();
    assert!(larger.unwrap().success());
    let scenario = WRITES.replace("randwrite", "randread").replace("iodepth", "bs = \"512\"\niodepth");
    let scenario = file(dir.path(), "s.toml", scenario.as_bytes());
    let out = dir.path().join("out.json");
    let args = ["compare", &scenario, "--on", path.to_str().unwrap(), "--json", out.to_str().unwrap()];
    let done = command().args(args).output().unwrap();
    assert!(done.status.code() == Some(2) && told(&done).contains("--round-out"), "{}", told(&done));
    let done = command().args(args).arg("--round-out").output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", told(&done));
    let report = json(&out);
    let ways: Vec<_> = report["runs"].as_array().unwrap().iter().map(|run| run["via"].as_str().unwrap()).collect();
    assert_eq!(ways, ["kernel", "engine"]);
    assert!(report["notes"].to_string().contains("rounded out to blocks of 4096"), "{}", report["notes"]);
}

#[test]
fn an_io_that_starves_is_told_of() {
    let dir = folder();
    let disk = file(dir.path(), "disk", &vec![7; 32 << 20]);
    // The nearest first, one in the device: no request goes to the far end while others are near.
    let scenario = r#"
duration = "1s"
replicates = 2
queue_depth = 1
schedulers = ["sstf"]
[[task]]
name = "near"
rw = "randread"
size = "1m"
iodepth = 8
[[task]]
name = "far"
rw = "randread"
offset = "24m"
size = "1m"
start = "50ms"
"#;
    let scenario = file(dir.path(), "s.toml", scenario.as_bytes());
    let out = dir.path().join("out.json");
    let args = ["compare", &scenario, "--on", &disk, "--json", out.to_str().unwrap()];
    let done = command().args(args).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", told(&done));
    let notes = json(&out)["notes"].to_string();
    // Of both runs, once.
    assert!(
        notes.matches("sstf, engine: ").count() == 1 && notes.contains("latencies count them as longer"),
        "{notes}"
    );
}
