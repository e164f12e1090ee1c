//! `recommend` on loop devices, as users meet it.

use std::path::Path;
use std::process::{Command, Stdio};

use dumbwaiter_testkit::{LoopDevice, program};
use serde_json::Value;

use crate::common::*;

/// Advice of `recommend` for a device, in seconds of time; in more where a busy machine did not make `enough` of them.
fn advised(path: &Path, dir: &Path, seconds: u64, more: &[&str], enough: impl Fn(&[Value]) -> bool) -> (Value, String) {
    let before = scheduler_of(path);
    let out = dir.join("advice.json");
    for seconds in [seconds, 4 * seconds, 16 * seconds] {
        let (length, path_text) = (format!("{seconds}s"), path.to_str().unwrap());
        let args = [&["recommend", path_text, "--for", &length, "--json", out.to_str().unwrap()], more].concat();
        let done = dumbwaiter(&args);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(scheduler_of(path), before, "what was set is set again");
        if done.status.code() == Some(2) && said.contains("ended before the current scheduler") {
            continue;
        }
        assert!(done.status.success(), "{said}");
        let advice = json(&out);
        // A run that has begun is finished, and the last ones are joined; but nothing begins when the time is over.
        assert!(advice["seconds"].as_f64().unwrap() < seconds as f64 + 30.0, "{}", advice["seconds"]);
        if enough(advice["survey"]["runs"].as_array().unwrap()) {
            return (advice, String::from_utf8_lossy(&done.stdout).into_owned());
        }
    }
    panic!("not enough runs in {} s", 16 * seconds);
}

#[test]
fn recommend_says_what_to_set_and_leaves_the_device_as_it_was() {
    // In memory, and on a file of a disk.
    let folders = [folder(), tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()];
    std::thread::scope(|scope| {
        folders.iter().for_each(|dir| drop(scope.spawn(|| is_advised_and_left_as_it_was(dir.path()))));
    });
}

fn is_advised_and_left_as_it_was(dir: &Path) {
    let Some((_disk, path)) = device(dir) else { return };
    let before = scheduler_of(&path);
    let page = dir.join("survey.html");
    // Every scheduler runs three times where it is decided; twice is what it takes.
    let each_twice = |runs: &[Value]| {
        let mut schedulers = before.split_whitespace().map(|s| s.trim_matches(['[', ']']));
        schedulers.all(|s| runs.iter().filter(|r| r["scheduler"] == s && r["variant"] == "shared").count() >= 2)
    };
    let (advice, told) = advised(&path, dir, 10, &["--html", page.to_str().unwrap()], each_twice);
    let recommended = advice["recommended"].as_str().unwrap();
    assert!(before.contains(recommended));
    let keep = before.contains(&format!("[{recommended}]"));
    assert_eq!(advice["keep"].as_bool().unwrap(), keep);
    assert_eq!(advice["gain"].is_null(), keep, "the gain comes with its confidence: {}", advice["gain"]);
    let rule = format!("ATTR{{queue/scheduler}}=\"{recommended}\"");
    assert!(advice["udev_rule"].as_str().unwrap().contains(&rule));
    assert!(advice["commands"][0].as_str().unwrap().starts_with(&format!("echo {recommended} | sudo tee /sys/block/")));
    assert!(told.lines().take(60).all(|line| line.starts_with("  ") || line.chars().count() <= 80), "{told}");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = words(&told);
    assert!(told.contains(&words(advice["sentence"].as_str().unwrap())), "{told}");
    assert!(told.contains(&words(advice["criterion"].as_str().unwrap())), "{told}");
    assert!(
        ["clear", "likely", "open", "no-difference", "inconclusive"].contains(&advice["confidence"].as_str().unwrap())
    );
    assert!(!advice["completion"]["sentence"].as_str().unwrap().is_empty());
    let runs = advice["survey"]["runs"].as_array().unwrap();
    assert!(runs.iter().all(|r| r["write"]["count"] == 0 && r["world"] == "real" && r["via"] == "kernel"));
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("survey of") && page.contains("This workload only rules schedulers out."));
    let told = advice["survey"]["recommendation"].as_array().unwrap();
    let shared = told.iter().find(|r| r["variant"] == "shared").unwrap();
    assert_eq!((&shared["sentence"], &shared["scheduler"]), (&advice["sentence"], &advice["recommended"]));
}

#[test]
fn recommend_tries_what_it_is_told_beside_what_is_set() {
    let dir = folder();
    let Some((_disk, path)) = device(dir.path()) else { return };
    let set = scheduler_of(&path);
    let set = set.split_once('[').and_then(|(_, rest)| rest.split_once(']')).unwrap().0;
    let list = "mq-deadline:fifo_batch=1";
    if !scheduler_of(&path).contains("mq-deadline") {
        eprintln!("skipped: this kernel has no mq-deadline");
        return;
    }
    let both = |runs: &[Value]| [list, set].iter().all(|name| runs.iter().any(|r| r["scheduler"] == *name));
    let (advice, _) = advised(&path, dir.path(), 4, &["--schedulers", list, "--goal", "throughput"], both);
    assert_eq!(advice["goal"], "throughput");
    let mut runs = advice["survey"]["runs"].as_array().unwrap().iter();
    assert!(runs.all(|r| r["scheduler"] == list || r["scheduler"] == set));
    let path = path.to_str().unwrap();
    for (args, part) in [
        (["--schedulers", "nonsense"], "has no `nonsense`"),
        (["--schedulers", "none,none"], "named twice"),
        (["--for", "1s"], "too short"),
    ] {
        let done = dumbwaiter(&[&["recommend", path], args.as_slice()].concat());
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(part) && !said.contains("panicked"), "{args:?}: {said}");
    }
}

#[test]
fn recommend_ends_early_with_what_it_knows() {
    let dir = folder();
    let Some((_disk, path)) = device(dir.path()) else { return };
    let before = scheduler_of(&path);
    let (folders, out) = (tempfile::tempdir().unwrap(), dir.path().join("advice.json"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_dumbwaiter"))
        .args(["recommend", path.to_str().unwrap(), "--for", "200s", "--json", out.to_str().unwrap()])
        .env("TMPDIR", folders.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    program::wait_until(&mut child, "its first run", || runs_begun(folders.path()) > 0);
    program::interrupt(&mut child, "INT");
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(130), "{said}");
    assert_eq!(scheduler_of(&path), before);
    // The current scheduler has not run twice yet.
    assert!(!out.exists() && said.contains("interrupted too early"), "{said}");
}

#[test]
fn io_costs_model_of_a_device_is_measured_by_reading_alone() {
    let dir = folder();
    let Some(disk) = LoopDevice::new(dir.path(), 256 << 20) else {
        println!("skipped: no loop device (root is needed)");
        return;
    };
    let (path, before) = (disk.path().to_str().unwrap(), scheduler_of(disk.path()));
    let done = dumbwaiter(&["devices", "io-cost", "--on", path, "--json", "-"]);
    assert!(done.status.success() && text(&done.stderr).contains("only reads"), "{}", text(&done.stderr));
    let found: Value = serde_json::from_slice(&done.stdout).unwrap();
    let keys: Vec<(&str, bool)> = found[0]["model"].as_str().unwrap().split(' ').map(figure).collect();
    assert_eq!(keys, [("rbps", true), ("rseqiops", true), ("rrandiops", true)]);
    assert_eq!((found[0]["device"].as_str(), scheduler_of(disk.path())), (Some(path), before));
    for (args, said) in [
        (&["--on", path, "--destroy", "/dev/other"][..], "--destroy names /dev/other, but the target is"),
        (&["ssd:nvme-tlc", "--destroy", path], "--destroy: expected --on PATH"),
        (&["--on", "/dev/missing"], "cannot open /dev/missing"),
    ] {
        let done = dumbwaiter(&[&["devices", "io-cost"], args].concat());
        assert_eq!(done.status.code(), Some(2));
        assert!(text(&done.stderr).contains(said), "{}", text(&done.stderr));
    }
}

/// A key of the model, and whether its figure is a number above 1.
fn figure(pair: &str) -> (&str, bool) {
    let (key, value) = pair.split_once('=').unwrap();
    (key, value.parse::<u64>().is_ok_and(|value| value > 1))
}
