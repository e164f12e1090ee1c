//! `tune --on` and `--deadline` on loop devices and files, as users meet them.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use dumbwaiter_testkit::{LoopDevice, program};
use serde_json::Value;

use crate::common::*;

const DEEP: &str = r#"
duration = "60ms"
warmup = "20ms"
schedulers = ["none", "mq-deadline"]
[[tenant]]
name = "reader"
[[tenant.task]]
name = "t"
rw = "randread"
iodepth = 16
"#;

/// The kernel's settings of a device: its scheduler, that one's settings, and the limit of requests.
fn settings_of(device: &Path) -> Vec<(String, String)> {
    let name = device.file_name().unwrap().to_str().unwrap();
    let queue = format!("/sys/block/{name}/queue");
    let read = |path: String| std::fs::read_to_string(&path).ok().map(|text| (path, text));
    let mut all: Vec<_> =
        ["scheduler", "nr_requests"].into_iter().filter_map(|key| read(format!("{queue}/{key}"))).collect();
    let files = std::fs::read_dir(format!("{queue}/iosched")).into_iter().flatten().flatten();
    all.extend(files.filter_map(|file| read(file.path().display().to_string())));
    all.sort();
    all
}

/// A device with the kernel's mq-deadline, and the file of a scenario for it.
fn device_and_scenario(dir: &Path) -> Option<(LoopDevice, PathBuf, String)> {
    let (disk, path) = device(dir)?;
    if !scheduler_of(&path).contains("mq-deadline") {
        println!("skipped: this kernel has no mq-deadline");
        return None;
    }
    Some((disk, path, file(dir, "s.toml", DEEP.as_bytes())))
}

/// The rules of a claim, of one searched device.
fn check_claim(found: &Value) {
    let outcome = found["outcome"].as_str().unwrap();
    assert!(["better", "defaults-as-good"].contains(&outcome), "{found}");
    assert_eq!(found["keep"], outcome == "defaults-as-good");
    assert_eq!(found["apply"].as_array().unwrap().is_empty(), found["keep"].as_bool().unwrap(), "{found}");
    let Some(claim) = found["claim"].as_object() else { return };
    let pairs = claim["held_out"].as_array().unwrap();
    assert_eq!(pairs.len(), 10, "{claim:?}");
    assert!(pairs.iter().all(|pair| pair["defaults"].as_f64().unwrap() > 0.0 && pair["tuned"].as_f64().unwrap() > 0.0));
}

#[test]
fn tune_searches_the_kernels_scheduler_on_a_device_and_leaves_it_as_it_was() {
    let dir = folder();
    let Some((_disk, path, scenario)) = device_and_scenario(dir.path()) else { return };
    let (before, out) = (settings_of(&path), dir.path().join("tuned.json"));
    let path_text = path.to_str().unwrap();
    // The smallest search.
    let search = ["tune", &scenario, "--on", path_text, "--scheduler", "mq-deadline", "--budget", "14.2s", "--json"];
    ok(&[search.as_slice(), &[out.to_str().unwrap()]].concat());
    assert_eq!(settings_of(&path), before, "what was set is set again");
    let found = &json(&out)["devices"][0];
    assert!(found["device"].as_str().unwrap().contains(path_text), "{}", found["device"]);
    assert!(found["candidates"].as_u64().unwrap() >= 4 && found["runs"].as_u64().unwrap() >= 20, "{found}");
    let tried = found["tried"].as_array().unwrap();
    // What is set on the device is what the search must beat, so it runs too.
    let asked = |t: &serde_json::Value| t["candidate"].as_str().unwrap().starts_with("mq-deadline");
    assert!(tried.iter().all(|t| asked(t) || t["candidate"] == found["defaults"]), "{tried:?}");
    assert!(tried.iter().any(asked), "{tried:?}");
    assert_eq!(found["defaults"], in_force(&path));
    check_claim(found);
    // Commands are for this device.
    let name = path.file_name().unwrap().to_str().unwrap();
    for command in found["apply"].as_array().unwrap() {
        let command = command.as_str().unwrap();
        assert!(!command.contains("/sys/block/") || command.contains(name), "{command}");
    }
}

/// The scheduler that is set on a device.
fn in_force(path: &std::path::Path) -> String {
    let name = path.file_name().unwrap().to_str().unwrap();
    let list = std::fs::read_to_string(format!("/sys/block/{name}/queue/scheduler")).unwrap();
    list.split(['[', ']']).nth(1).unwrap().to_owned()
}

#[test]
fn tune_searches_our_schedulers_on_a_file() {
    let dir = folder();
    let data = dir.path().join("data");
    std::fs::write(&data, vec![7; 8 << 20]).unwrap();
    let scenario = file(dir.path(), "s.toml", DEEP.as_bytes());
    let out = dir.path().join("tuned.json");
    let search =
        ["tune", &scenario, "--on", data.to_str().unwrap(), "--scheduler", "kyber", "--budget", "14.2s", "--json"];
    ok(&[search.as_slice(), &[out.to_str().unwrap()]].concat());
    let found = &json(&out)["devices"][0];
    // What Linux sets by itself on a drive of one hardware queue is what the search must beat.
    assert_eq!(found["defaults"], "mq-deadline");
    check_claim(found);
}

#[test]
fn tune_that_is_interrupted_puts_back_what_was_set() {
    let dir = folder();
    let Some((_disk, path, scenario)) = device_and_scenario(dir.path()) else { return };
    let (before, folders) = (settings_of(&path), tempfile::tempdir().unwrap());
    let mut child = command()
        .args(["tune", &scenario, "--on", path.to_str().unwrap(), "--scheduler", "mq-deadline", "--for", "10m"])
        .env("TMPDIR", folders.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    program::wait_until(&mut child, "its first runs", || runs_begun(folders.path()) > 1);
    program::interrupt(&mut child, "INT");
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(130), "{}", text(&done.stderr));
    assert_eq!(settings_of(&path), before);
    assert!(!text(&done.stdout).contains("Apply now"), "nothing is recommended: {}", text(&done.stdout));
}

#[test]
fn tune_names_a_budget_that_is_too_small_and_a_scheduler_that_the_kernel_lacks() {
    let dir = folder();
    let Some((_disk, path)) = device(dir.path()) else { return };
    let scenario = file(dir.path(), "s.toml", DEEP.as_bytes());
    let path = path.to_str().unwrap();
    refused(&["tune", &scenario, "--on", path, "--scheduler", "mq-deadline", "--for", "1s"], &["smallest search"]);
    refused(
        &["tune", &scenario, "--on", path, "--scheduler", "headway", "--budget", "1m"],
        &["none of the schedulers asked for"],
    );
}

#[test]
fn a_deadline_refuses_ios_on_a_device_through_our_engine_and_the_kernel_cannot() {
    let dir = folder();
    let Some((_disk, path)) = device(dir.path()) else { return };
    // Many at once wait for one another; a short deadline is missed by most of them.
    let scenario = DEEP.replace("60ms", "300ms").replace("iodepth = 16", "iodepth = 256\nnumjobs = 4");
    let scenario = file(dir.path(), "s.toml", scenario.as_bytes());
    let (path, out) = (path.to_str().unwrap(), dir.path().join("out.json"));
    let compare = ["compare", &scenario, "--on", path, "--schedulers", "none,mq-deadline", "--replicates", "1"];
    let engine = [compare.as_slice(), &["--via", "engine", "--deadline", "50us", "--json", out.to_str().unwrap()]];
    ok(&engine.concat());
    let runs = json(&out)["runs"].as_array().unwrap().clone();
    assert_eq!(runs.len(), 2);
    for run in &runs {
        let count = |key: &str| run["ledger"][key].as_u64().unwrap();
        assert!(count("rejected") > 0, "{}", run["ledger"]);
        assert!(count("completed") > count("rejected"), "some are admitted: {}", run["ledger"]);
        assert_eq!(run["errors"], 0, "a refusal is no error of the device");
    }
    refused(&[compare.as_slice(), &["--via", "kernel", "--deadline", "50us"]].concat(), &["deadline"]);
}
