//! `energy` and `compare --power-log`: the log of a power meter joined with runs.

use std::fmt::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::common::{dumbwaiter, refused};

/// Two schedulers, once each, on a simulated device.
const SMALL: &str = r#"
duration = "20ms"
devices = ["null:0us"]
schedulers = ["none", "mq-deadline"]
replicates = 1
[[tenant]]
name = "one"
[[tenant.task]]
name = "t"
rw = "randread"
iodepth = 4
"#;
/// 28 March 2023, 14:00:00 UTC.
const ZERO: u64 = 1_680_012_000;

fn file(dir: &Path, name: &str, content: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

fn json(path: &str) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Results of simulated runs with times of day, as if they were real: run i from ZERO + 100 * (i + 1) on, 80 s long.
fn made_real(mut document: Value) -> Value {
    for (i, run) in document["runs"].as_array_mut().unwrap().iter_mut().enumerate() {
        assert!(run["started_unix_ns"].is_null(), "a simulation has no time of day");
        let start = ZERO + 100 * (i as u64 + 1);
        run["started_unix_ns"] = (start * 1_000_000_000).into();
        run["ended_unix_ns"] = ((start + 80) * 1_000_000_000).into();
    }
    document
}

/// The file of such results of two runs, with the start times of load patterns.
fn results(dir: &Path, patterns: &[f64]) -> String {
    let scenario = file(dir, "small.toml", SMALL);
    let done = dumbwaiter(&["compare", &scenario, "--json", "-"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let mut document = made_real(serde_json::from_slice(&done.stdout).unwrap());
    if !patterns.is_empty() {
        document["load_patterns_unix_s"] = patterns.into();
    }
    file(dir, "results.json", &document.to_string())
}

/// A log with a sample every second from `from` to `to` (seconds since 1970), as the vendor's program writes it.
fn log(from: u64, to: u64, watts: impl Fn(u64) -> Option<f64>) -> String {
    let mut text = String::from(
        "\"Plot Title: test\"\n\"#\",\"Date Time, GMT+00:00\",\"Active Power, W (LGR S/N: 123, SEN S/N: 123)\"\n",
    );
    for at in from..=to {
        if let Some(watts) = watts(at) {
            let (day, second) = (at / 86_400, at % 86_400);
            let (y, m, d) = civil(day as i64);
            let clock = format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
            writeln!(text, "{},{m:02}/{d:02}/{y} {clock},{watts:.1}", at - from + 1).unwrap();
        }
    }
    text
}

/// Year, month and day of a day since 1970.
fn civil(mut day: i64) -> (i64, usize, i64) {
    let leap = |y: i64| y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    let mut year = 1970;
    while day >= 365 + i64::from(leap(year)) {
        day -= 365 + i64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + i64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    (year, month + 1, day + 1)
}

/// Joins, and answers the new results.
fn joined(dir: &Path, results: &str, log: &str, more: &[&str]) -> (Value, String) {
    let out = dir.join("out.json").to_str().unwrap().to_owned();
    let done = dumbwaiter(&[&["report", "energy", results, "--power-log", log, "--json", &out], more].concat());
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{said}");
    (json(&out), String::from_utf8_lossy(&done.stdout).into_owned())
}

#[test]
fn joules_come_from_the_log_by_the_time_of_day() {
    let dir = tempfile::tempdir().unwrap();
    let results = results(dir.path(), &[]);
    // 50 W during the first run, 70 W during the second.
    let watts = |at: u64| Some(if at < ZERO + 190 { 50.0 } else { 70.0 });
    let power = file(dir.path(), "power.csv", &log(ZERO, ZERO + 400, watts));
    let (document, told) = joined(dir.path(), &results, &power, &[]);
    for (i, joules) in [4000.0, 5600.0].into_iter().enumerate() {
        let run = &document["runs"][i];
        let energy = &run["energy"];
        let close = |key: &str, expected: f64| {
            let found = energy[key].as_f64().unwrap();
            assert!((found / expected - 1.0).abs() < 1e-6, "run {i}, {key}: {found} for {expected}");
        };
        close("joules", joules);
        close("j_per_mio", joules / run["completed"].as_f64().unwrap() * 1e6);
        close("bytes_per_j", run["mb_per_s"].as_f64().unwrap() * 1e6 * run["duration_s"].as_f64().unwrap() / joules);
        assert_eq!(energy["source"].as_str().unwrap(), format!("logger {power}"));
    }
    let notes = document["notes"].to_string();
    assert!(notes.contains("serial number 123") && notes.contains("this machine's"), "{notes}");
    assert!(document["ranking"][0]["metrics"]["j_per_mio"]["mean"].is_number(), "it is ranked anew");
    assert!(told.contains("none"), "{told}");
}

#[test]
fn the_table_of_several_scenarios_is_kept_and_each_has_its_energy() {
    let dir = tempfile::tempdir().unwrap();
    let quick = ["--duration", "20ms", "--warmup", "0ms", "-d", "ull:optane-900p", "-s", "none,kyber", "-r", "1"];
    let done = dumbwaiter(&[&["compare", "database", "noisy-neighbour", "--json", "-"], &quick[..]].concat());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let before = made_real(serde_json::from_slice(&done.stdout).unwrap());
    let results = file(dir.path(), "results.json", &before.to_string());
    let power = file(dir.path(), "power.csv", &log(ZERO, ZERO + 600, |_| Some(50.0)));
    let (document, told) = joined(dir.path(), &results, &power, &[]);
    let names = |document: &Value| {
        let lines = document["suite"]["lines"].as_array().unwrap().iter();
        lines.map(|line| (line["scenario"].clone(), line["recommended"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(names(&before).len(), 2);
    assert_eq!(names(&document), names(&before));
    let joules = |run: &Value| run["energy"]["joules"].as_f64().unwrap();
    assert!(document["runs"].as_array().unwrap().iter().all(|run| (joules(run) - 4000.0).abs() < 1e-3));
    for part in ["database", "noisy-neighbour", "wins/ties/losses"] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn a_clock_that_is_off_is_given_or_found() {
    let dir = tempfile::tempdir().unwrap();
    // The logger is 7 s ahead: what it calls ZERO + 7 is ZERO. Its load: 60 W from 20 to 40 s of each pattern, and in run 0.
    let patterns = [ZERO as f64, (ZERO + 300) as f64];
    let watts = |at: u64| {
        let host = at - ZERO - 7;
        let load = |start: u64| (start + 20..start + 40).contains(&host);
        Some(if load(0) || load(300) || (100..180).contains(&host) { 60.0 } else { 20.0 })
    };
    let power = file(dir.path(), "power.csv", &log(ZERO + 7, ZERO + 380, watts));
    let plain = results(dir.path(), &[]);
    let energy = |document: &Value| document["runs"][0]["energy"]["joules"].as_f64().unwrap();
    let (document, _) = joined(dir.path(), &plain, &power, &["--power-offset", "7s"]);
    assert!((energy(&document) - 4800.0).abs() < 50.0, "{}", energy(&document));
    let (document, _) = joined(dir.path(), &plain, &power, &[]);
    assert!((energy(&document) - 4800.0).abs() > 200.0, "with the wrong clock it is {}", energy(&document));
    let aligned = results(dir.path(), &patterns);
    let (document, _) = joined(dir.path(), &aligned, &power, &[]);
    assert!((energy(&document) - 4800.0).abs() < 50.0, "{}", energy(&document));
    let notes = document["notes"].to_string();
    assert!(notes.contains("by the load"), "{notes}");
    assert_eq!(document["load_patterns_unix_s"].as_array().unwrap().len(), 2, "they can be used again");
}

#[test]
fn a_run_that_the_log_does_not_cover_has_no_energy_and_the_reason_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let results = results(dir.path(), &[]);
    let gap = |at: u64| (!(ZERO + 220..ZERO + 240).contains(&at)).then_some(50.0);
    for (name, text, reason) in [
        ("gap.csv", log(ZERO, ZERO + 400, gap), "without a sample"),
        ("short.csv", log(ZERO, ZERO + 250, |_| Some(50.0)), "after the last sample"),
    ] {
        let power = file(dir.path(), name, &text);
        let (document, told) = joined(dir.path(), &results, &power, &[]);
        assert!((document["runs"][0]["energy"]["joules"].as_f64().unwrap() - 4000.0).abs() < 1e-6);
        assert!(document["runs"][1]["energy"].is_null());
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains("no energy for 1 of 2 runs") && told.contains(reason), "{told}");
    }
    let elsewhere = file(dir.path(), "other.csv", &log(ZERO + 5000, ZERO + 5100, |_| Some(50.0)));
    refused(&["report", "energy", &results, "--power-log", &elsewhere], &["no energy for 2 of 2 runs", "other.csv"]);
}

#[test]
fn what_cannot_be_joined_is_one_clear_line() {
    let dir = tempfile::tempdir().unwrap();
    let results = results(dir.path(), &[]);
    let power = file(dir.path(), "power.csv", &log(ZERO, ZERO + 400, |_| Some(50.0)));
    let scenario = dir.path().join("small.toml").to_str().unwrap().to_owned();
    let simulated = dir.path().join("simulated.json").to_str().unwrap().to_owned();
    assert!(dumbwaiter(&["compare", &scenario, "--json", &simulated]).status.success());
    refused(&["report", "energy", &simulated, "--power-log", &power], &["simulated.json", "has a start time"]);
    refused(&["report", "energy", &results], &["--power-log"]);
    refused(&["compare", &scenario, "--power-log", &power], &["--power-log", "--on"]);
    refused(&["report", "energy", &results, "--power-log", "/nowhere/log.csv"], &["/nowhere/log.csv"]);
    refused(
        &["report", "energy", &results, "--power-log", &power, "--power-offset", "soon"],
        &["--power-offset", "soon"],
    );
    refused(&["report", "energy", &results, "--power-log", &power, "--power-zone", "here"], &["--power-zone", "here"]);
    let zoneless = log(ZERO, ZERO + 400, |_| Some(50.0)).replace(", GMT+00:00", "");
    let zoneless = file(dir.path(), "zoneless.csv", &zoneless);
    refused(&["report", "energy", &results, "--power-log", &zoneless], &["time zone", "--power-zone"]);
    let (document, _) = joined(dir.path(), &results, &zoneless, &["--power-zone", "GMT+00:00"]);
    assert!(document["runs"][0]["energy"]["joules"].is_number());
}

#[test]
fn a_log_that_grows_during_the_runs_is_read_after_them() {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk");
    std::fs::write(&disk, vec![7; 4 << 20]).unwrap();
    let scenario = file(dir.path(), "small.toml", SMALL);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let out = dir.path().join("out.json").to_str().unwrap().to_owned();
    let compare = |power: &str| {
        dumbwaiter(&["compare", &scenario, "--on", disk.to_str().unwrap(), "--power-log", power, "--json", &out])
    };
    let power = file(dir.path(), "power.csv", &log(now - 5, now + 600, |_| Some(40.0)));
    let done = compare(&power);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    for run in json(&out)["runs"].as_array().unwrap() {
        let expected = 40.0 * run["duration_s"].as_f64().unwrap();
        let joules = run["energy"]["joules"].as_f64().unwrap();
        assert!((joules / expected - 1.0).abs() < 1e-3, "{joules} for {expected}");
        let (from, to) = (run["started_unix_ns"].as_u64().unwrap(), run["ended_unix_ns"].as_u64().unwrap());
        assert!(from / 1_000_000_000 >= now && from < to);
    }
    // One that ended long before: the results are kept, without energy.
    let power = file(dir.path(), "old.csv", &log(now - 500, now - 400, |_| Some(40.0)));
    let done = compare(&power);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("dumbwaiter report energy") && said.contains("old.csv"), "{said}");
    assert!(json(&out)["runs"].as_array().unwrap().iter().all(|run| run["energy"].is_null()));
}
