//! Runs through the kernel's schedulers, as users meet them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use dumbwaiter_testkit::program;

use crate::common::*;

#[test]
fn several_processes_write_through_the_kernels_schedulers() {
    let dir = folder();
    let Some((_disk, path)) = device(dir.path()) else { return };
    let scenario = file(dir.path(), "s.toml", ONCE.replace("randread", "randwrite").as_bytes());
    let out = dir.path().join("out.json");
    let (path, out) = (path.to_str().unwrap(), out.to_str().unwrap());
    let done = dumbwaiter(&["compare", &scenario, "--on", path, "--destroy", path, "--via", "kernel", "--json", out]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    for run in json(Path::new(out))["runs"].as_array().unwrap() {
        assert_eq!(run["ledger"]["completed"], 2048, "{run}");
    }
    let rows = dir.path().join("r.csv");
    let done = dumbwaiter(&[
        "record",
        path,
        "--dispatch",
        "-o",
        rows.to_str().unwrap(),
        "--json",
        rows.with_extension("json").to_str().unwrap(),
    ]);
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("the recording's description"));
}

const CHANGES: &str = r#"
duration = "3s"
replicates = 1
schedulers = ["none"]
[[tenant]]
name = "house"
weight = 400
[[tenant]]
name = "floor"
parent = "house"
weight = 4000
[[tenant.change]]
at = "600ms"
weight = 2000
[[tenant.task]]
name = "t"
rw = "randread"
[[tenant]]
name = "cellar"
weight = 100
[[tenant.task]]
name = "t"
rw = "randread"
[[tenant.task.change]]
at = "400ms"
ioprio = "be/1"
[[tenant.task.change]]
at = "1200ms"
tenant = "house"
"#;

#[test]
fn tenants_are_nested_and_changed_through_the_kernels_schedulers_too() {
    let dir = folder();
    let Some((_disk, path)) = device(dir.path()) else { return };
    let (found, about) = dumbwaiter_linux::cgroup::detect(&dumbwaiter_linux::Roots::default());
    let Some(found) = found else {
        println!("skipped: {about}");
        return;
    };
    let scenario = file(dir.path(), "s.toml", CHANGES.as_bytes());
    let out = dir.path().join("out.json");
    let (path, out_text) = (path.to_str().unwrap(), out.to_str().unwrap());
    let mut child = Command::new(env!("CARGO_BIN_EXE_dumbwaiter"))
        .args(["compare", &scenario, "--on", path, "--via", "kernel", "--json", out_text])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let top = found.mount.join(format!("dumbwaiter-{}", child.id()));
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let weight_of = |group: &str| {
        let files = ["io.bfq.weight", "blkio.bfq.weight", "io.weight", "blkio.weight"].map(|f| top.join(group).join(f));
        let text = files.into_iter().find(|f| f.exists()).map(read).unwrap_or_default();
        text.trim().trim_start_matches("default ").parse::<u32>().ok()
    };
    let members = |group: &str| -> Vec<u32> {
        read(top.join(group).join("cgroup.procs")).lines().filter_map(|pid| pid.parse().ok()).collect()
    };
    // Values seen while it runs, in the order of first sight.
    let (mut weights, mut priorities, mut homes) = (Vec::new(), Vec::new(), Vec::new());
    let note = |seen: &mut Vec<String>, what: String| {
        if !seen.contains(&what) {
            seen.push(what);
        }
    };
    while child.try_wait().unwrap().is_none() {
        if let Some(weight) = weight_of("t0/t1") {
            note(&mut weights, weight.to_string());
        }
        for home in ["t2", "t0/own"] {
            if let [pid] = members(home)[..] {
                note(&mut homes, home.to_owned());
                if let Ok(priority) = dumbwaiter_linux::ioprio::get(pid) {
                    note(&mut priorities, priority.to_string());
                }
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let done = child.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{message}");
    assert!(!message.contains("not changed"), "{message}");
    if weights.is_empty() {
        println!("skipped: no groups with weights here: {message}");
        return;
    }
    // A new group has the default for a moment.
    assert_eq!(weights.iter().filter(|w| *w != "100").collect::<Vec<_>>(), ["1000", "500"]);
    assert_eq!(homes, ["t2", "t0/own"]);
    assert_eq!(priorities.last().map(String::as_str), Some("be/1"), "{priorities:?}");
    assert!(!top.exists());
    let run = &json(&out)["runs"][0];
    let submitted = |i: usize| run["tenants"][i]["mb_per_s"].as_f64().unwrap();
    assert!((0..3).all(|i| submitted(i) > 0.0), "{}", run["tenants"]);
}

#[test]
fn a_kernel_run_ends_with_its_parent_and_says_what_it_cannot_do() {
    let dir = folder();
    let Some((_disk, path)) = device(dir.path()) else { return };
    let path = path.to_str().unwrap();
    let long = file(dir.path(), "long.toml", READS.replace("200ms", "300s").as_bytes());
    for (signal, code) in [("-TERM", Some(130)), ("-KILL", None)] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_dumbwaiter"))
            .args(["compare", &long, "--on", path, "--via", "kernel"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let children = format!("/proc/{}/task/{0}/children", child.id());
        let parts = || -> Vec<u32> {
            std::fs::read_to_string(&children).unwrap_or_default().split(' ').filter_map(|p| p.parse().ok()).collect()
        };
        let mut begun = Vec::new();
        program::wait_until(&mut child, "it has started both processes", || {
            begun = parts();
            begun.len() >= 2
        });
        std::thread::sleep(Duration::from_millis(500));
        Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert_eq!(child.wait().unwrap().code(), code);
        // Those that lost their parent end when they hear of it.
        let alive = |pid: &u32| Path::new(&format!("/proc/{pid}/exe")).exists();
        let ended = (0..1200).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            !begun.iter().any(alive)
        });
        assert!(ended, "{signal}: processes of the load go on");
    }
    let short = file(dir.path(), "short.toml", READS.as_bytes());
    let done = dumbwaiter(&["compare", &short, "--on", path, "--via", "kernel", "--limit", "100"]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("a limit of 100 I/Os") && said.contains("give a time, or use"), "{said}");
    // The kernel's schedulers were not requested: then it is a remark, and the rest runs.
    let out = dir.path().join("out.json");
    let done = dumbwaiter(&["compare", &short, "--on", path, "--limit", "100", "--json", out.to_str().unwrap()]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(json(&out)["runs"].as_array().unwrap().iter().all(|r| r["via"] == "engine"));
    let args = ["compare", &short, "--on", path, "--via", "kernel", "-s", "none", "--json", out.to_str().unwrap()];
    assert!(dumbwaiter(&args).status.success());
    assert!(json(&out)["runs"][0]["depth"]["device"]["mean"].is_null(), "only the kernel knows");
}

const LIMITED: &str = r#"
duration = "1s"
replicates = 1
schedulers = ["none", "none+io.max"]
[[tenant]]
name = "db"
[[tenant.task]]
name = "t"
rw = "randread"
[[tenant]]
name = "batch"
io_max = "rbps=2MiB"
[[tenant.task]]
name = "t"
rw = "randread"
bs = "64k"
iodepth = 8
"#;

/// The limits of tenants are the kernel's io.max, or version 1's throttling, under the stacks that name it.
#[test]
fn limits_of_tenants_are_kept_by_the_kernel() {
    let dir = folder();
    let Some((_disk, path)) = device(dir.path()) else { return };
    let scenario = file(dir.path(), "s.toml", LIMITED.as_bytes());
    let out = dir.path().join("out.json");
    let (path, out) = (path.to_str().unwrap(), out.to_str().unwrap());
    let done = dumbwaiter(&["compare", &scenario, "--on", path, "--via", "kernel", "--json", out]);
    let said = String::from_utf8_lossy(&done.stderr);
    if said.contains("needs cgroups") || said.contains("this kernel has no io.max") {
        println!("skipped: {said}");
        return;
    }
    assert!(done.status.success(), "{said}");
    let document = json(Path::new(out));
    for run in document["runs"].as_array().unwrap() {
        let batch = run["tenants"].as_array().unwrap().iter().find(|tenant| tenant["name"] == "batch").unwrap();
        // 2 MiB a second; a first tenth of it may go at once, and 8 reads are under way. Without it a loop device does far more.
        let is_limited = batch["mb_per_s"].as_f64().unwrap() < 3.5;
        assert_eq!(is_limited, run["scheduler"] == "none+io.max", "{run}");
    }
    let (found, _) = dumbwaiter_linux::cgroup::detect(&dumbwaiter_linux::Roots::default());
    let left = std::fs::read_dir(found.unwrap().mount).unwrap().flatten().map(|entry| entry.file_name());
    let own = format!("dumbwaiter-{}", std::process::id());
    assert!(left.into_iter().all(|name| name.to_str() != Some(&own)));
}
