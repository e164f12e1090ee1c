//! `compare --on` and `record` on files and on loop devices, as users meet them.

use std::path::Path;
use std::process::{Command, Stdio};

use dumbwaiter_testkit::{LoopDevice, program};

use crate::common::*;

#[test]
fn a_file_is_measured_through_the_engine_and_the_json_says_so() {
    let dir = folder();
    let disk = file(dir.path(), "disk", &vec![7; 8 << 20]);
    let scenario = file(dir.path(), "s.toml", ONCE.as_bytes());
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
        assert_eq!(run["completed"], 2048);
        assert_eq!(run["ledger"]["submitted"], run["ledger"]["completed"]);
        for key in ["usr_s", "sys_s", "us_per_io", "ctx_per_io"] {
            assert!(run["cpu"][key].is_number(), "{key}: {}", run["cpu"]);
        }
        assert!(run["energy"].is_null() || run["energy"]["joules"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn several_scenarios_run_on_a_drive_and_a_suite_that_writes_needs_permission() {
    let dir = folder();
    let disk = file(dir.path(), "disk", &vec![7; 8 << 20]);
    let scenarios = ["one.toml", "two.toml"].map(|name| file(dir.path(), name, ONCE.as_bytes()));
    let out = dir.path().join("out.json");
    let json_file = out.to_str().unwrap();
    let done = dumbwaiter(&["compare", &scenarios[0], &scenarios[1], "--on", &disk, "--json", json_file]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let found = json(&out);
    assert_eq!(found["suite"]["lines"].as_array().unwrap().len(), 2, "{}", found["suite"]);
    assert!(found["runs"].as_array().unwrap().iter().all(|run| run["world"] == "real"));
    let sentence = found["suite_verdict"]["sentence"].as_str().unwrap();
    assert!(sentence.contains(", this drive, "), "{sentence}");
    let command = found["provenance"]["command"].as_str().unwrap();
    assert!(command.contains("one.toml") && command.contains("two.toml"), "{command}");
    assert!(command.ends_with(&format!(" --on {disk}")), "{command}");
    let suite = dumbwaiter(&["compare", "suite:database", "--on", &disk]);
    let why = String::from_utf8_lossy(&suite.stderr).into_owned();
    assert_eq!(suite.status.code(), Some(2), "{why}");
    assert!(why.contains("writes") && why.contains("--destroy"), "{why}");
}

#[test]
fn rings_that_only_one_scheduler_can_use_are_remarked_on() {
    let dir = folder();
    let disk = file(dir.path(), "disk", &vec![7; 8 << 20]);
    let scenario = file(dir.path(), "s.toml", ONCE.as_bytes());
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
        assert!(run["tenants"].as_array().unwrap().iter().all(|t| t["count"] == 1024));
    }
}

#[test]
fn both_ways_run_on_a_device_and_its_scheduler_is_as_before() {
    let dir = folder();
    let Some((_disk, path)) = device(dir.path()) else { return };
    let before = scheduler_of(&path);
    let scenario = file(dir.path(), "s.toml", ONCE.as_bytes());
    let out = dir.path().join("out.json");
    let done = dumbwaiter(&["compare", &scenario, "--on", path.to_str().unwrap(), "--json", out.to_str().unwrap()]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(scheduler_of(&path), before);
    let report = json(&out);
    let mut ways: Vec<(String, String)> = Vec::new();
    for run in report["runs"].as_array().unwrap() {
        ways.push((run["via"].as_str().unwrap().into(), run["scheduler"].as_str().unwrap().into()));
        let moved = run["tenants"].as_array().unwrap().iter().all(|t| t["count"] == 1024);
        assert!(moved, "every tenant's process did its part: {}", run["tenants"]);
        assert_eq!(run["ledger"]["submitted"], run["ledger"]["completed"]);
    }
    ways.sort();
    let engine = ["headway", "mq-deadline", "none"].map(|s| ("engine".to_owned(), s.to_owned()));
    assert_eq!(ways[..3], engine);
    assert!(ways[3..].contains(&("kernel".to_owned(), "none".to_owned())), "{ways:?}");
    assert!(!ways.contains(&("kernel".to_owned(), "headway".to_owned())));
}

#[test]
fn an_application_is_told_of_both_ways() {
    let dir = folder();
    let Some(disk) = LoopDevice::new(dir.path(), 128 << 20) else {
        println!("skipped: no loop device (root is needed)");
        return;
    };
    let text = "duration = \"30s\"\nschedulers = [\"mq-deadline\"]\n[[task]]\nname = \"writer\"\napp = \"oowriter-like\"\nthink = \"greedy\"\nrepeat = 2\nlaunch_after = \"200ms\"\n";
    let scenario = file(dir.path(), "s.toml", text.as_bytes());
    let out = dir.path().join("out.json");
    let on = disk.path().to_str().unwrap();
    let done = dumbwaiter(&[
        "compare",
        &scenario,
        "--on",
        on,
        "--via",
        "both",
        "--replicates",
        "1",
        "--json",
        out.to_str().unwrap(),
    ]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    for run in json(&out)["runs"].as_array().unwrap() {
        let application = &run["applications"][0];
        assert_eq!((&application["name"], &application["kind"]), (&"writer".into(), &"oowriter-like".into()), "{run}");
        assert_eq!(application["start_up"]["started"], 2, "{run}");
    }
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(text.contains("mq-deadline  engine") && text.contains("mq-deadline  kernel"), "{text}");
}

#[test]
fn an_interrupt_puts_the_scheduler_back_and_keeps_what_is_finished() {
    let dir = folder();
    let Some((_disk, path)) = device(dir.path()) else { return };
    let before = scheduler_of(&path);
    let long = READS.replace("replicates = 1", "replicates = 50");
    let scenario = file(dir.path(), "s.toml", long.as_bytes());
    let out = dir.path().join("out.json");
    let folders = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_dumbwaiter"))
        .args(["compare", &scenario, "--on", path.to_str().unwrap(), "--json", out.to_str().unwrap()])
        .env("TMPDIR", folders.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Runs through the kernel's schedulers have a folder each and come first.
    program::wait_until(&mut child, "a second run", || runs_begun(folders.path()) > 1);
    program::interrupt(&mut child, "INT");
    let status = child.wait_with_output().unwrap().status;
    assert_eq!(status.code(), Some(130));
    assert_eq!(scheduler_of(&path), before);
    let report = json(&out);
    assert!(!report["runs"].as_array().unwrap().is_empty());
    assert!(report["notes"].to_string().contains("interrupted"));
}

#[test]
fn an_interrupt_before_the_first_run_has_ended_is_told_as_one() {
    let dir = folder();
    let disk = file(dir.path(), "disk", &vec![7; 1 << 20]);
    let scenario = file(dir.path(), "s.toml", READS.replace("200ms", "60s").as_bytes());
    let mut child = Command::new(env!("CARGO_BIN_EXE_dumbwaiter"))
        .args(["compare", &scenario, "--on", &disk])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    program::interrupt(&mut child, "TERM");
    let done = child.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(130), "{message}");
    assert!(message.contains("interrupted before the first run was finished"), "{message}");
}

#[test]
fn results_are_in_their_files_even_if_stdout_is_closed() {
    let dir = folder();
    let disk = file(dir.path(), "disk", &vec![7; 8 << 20]);
    let scenario = file(dir.path(), "s.toml", READS.as_bytes());
    for closed in ["stdout", "stderr"] {
        let (out, page) = (dir.path().join(format!("{closed}.json")), dir.path().join(format!("{closed}.html")));
        let full = || Stdio::from(std::fs::File::options().write(true).open("/dev/full").unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_dumbwaiter"));
        command.args(["compare", &scenario, "--on", &disk, "--json"]).arg(&out).arg("--html").arg(&page);
        match closed {
            "stdout" => command.stdout(full()),
            _ => command.stderr(full()).stdout(Stdio::null()),
        };
        let code = command.status().unwrap().code();
        assert_eq!(
            code,
            Some(if closed == "stdout" { 2 } else { 0 }),
            "what cannot be printed is an error, remarks are not"
        );
        assert_eq!(json(&out)["runs"].as_array().unwrap().len(), 3);
        assert!(page.exists());
    }
}

#[test]
fn what_is_measured_or_read_is_not_written_over() {
    let dir = folder();
    let content = vec![7; 8 << 20];
    let disk = file(dir.path(), "disk", &content);
    let link = dir.path().join("link");
    std::fs::hard_link(&disk, &link).unwrap();
    let scenario = file(dir.path(), "s.toml", READS.as_bytes());
    let (link, one) = (link.to_str().unwrap(), dir.path().join("one").to_str().unwrap().to_owned());
    let cases: [&[&str]; 4] =
        [&["--json", link], &["--json", &scenario], &["--html", &one, "--json", &one], &["--html", "-"]];
    for outputs in cases {
        let done = dumbwaiter(&[&["compare", &scenario, "--on", &disk], outputs].concat());
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        // The next run restores what a program killed by another test left, and says so.
        let own = said.lines().filter(|line| !line.contains("left by process")).count();
        assert_eq!((done.status.code(), own), (Some(2), 1), "{said}");
    }
    assert_eq!(std::fs::read(&disk).unwrap(), content);
    assert_eq!(std::fs::read_to_string(&scenario).unwrap(), READS);
    if let Some((_disk, path)) = device(dir.path()) {
        let done = dumbwaiter(&["compare", &scenario, "--on", &disk, "--json", path.to_str().unwrap()]);
        assert_eq!(done.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&done.stderr).contains("block device"));
    }
}

#[test]
fn writing_needs_permission_and_a_device_in_use_is_refused() {
    let dir = folder();
    let disk = file(dir.path(), "disk", &vec![7; 4 << 20]);
    let writes = READS.replace("randread", "randwrite");
    let scenario = file(dir.path(), "s.toml", writes.as_bytes());
    let done = dumbwaiter(&["compare", &scenario, "--on", &disk]);
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("--destroy"));
    let done = dumbwaiter(&["compare", &scenario, "--on", &disk, "--destroy", "another"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("--destroy names another"));
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
fn two_runs_on_one_device_do_not_meet() {
    let dir = folder();
    let Some((_disk, path)) = device(dir.path()) else { return };
    let before = scheduler_of(&path);
    let long = file(dir.path(), "long.toml", READS.replace("replicates = 1", "replicates = 50").as_bytes());
    let on = path.to_str().unwrap();
    let mut first = Command::new(env!("CARGO_BIN_EXE_dumbwaiter"))
        .args(["compare", &long, "--on", on])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // It signs its lock.
    let signed = first.id().to_string();
    let locked = || {
        let all = std::fs::read_dir("/run/dumbwaiter").into_iter().flatten().flatten();
        all.filter(|f| f.path().extension().is_some_and(|e| e == "lock"))
            .any(|f| std::fs::read_to_string(f.path()).is_ok_and(|pid| pid == signed))
    };
    program::wait_until(&mut first, "it has locked the device", locked);
    let told = format!("is being measured by process {}", first.id());
    for second in [&["compare", &long, "--on", on][..], &["recommend", on], &["bench", "engine", "--on", on]] {
        let done = dumbwaiter(second);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(2), "{second:?}: {said}");
        assert!(said.contains(&told), "{second:?}: {said}");
    }
    program::interrupt(&mut first, "INT");
    assert_eq!(first.wait().unwrap().code(), Some(130));
    assert_eq!(scheduler_of(&path), before);
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
        (&["compare", "--on", &disk, "--destroy", &disk, "--verify", "--via", "kernel"], "only our engine checks"),
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

#[test]
fn a_recording_without_io_has_nothing_to_compare_and_its_outputs_are_looked_at_before() {
    let dir = folder();
    let Some((_disk, path)) = device(dir.path()) else { return };
    if !Path::new("/sys/kernel/tracing/instances").is_dir() {
        eprintln!("skipped: no tracefs");
        return;
    }
    let device = path.to_str().unwrap();
    let name = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let refused = |args: &[&str], why: &str| {
        let out = dumbwaiter(&[&["record", device, "--for", "10ms"], args].concat());
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        // Before it begins.
        assert!(out.status.code() == Some(2) && said.contains(why) && !said.contains("recording /dev"), "{said}");
    };
    let (trace, rows, linked) = (name("a.dwt"), name("a.csv"), name("b.dwt"));
    std::os::unix::fs::symlink(&path, &linked).unwrap();
    std::fs::create_dir(name("c.json")).unwrap();
    refused(&["-o", &trace, "--json", &format!("{}/./a.dwt", dir.path().display())], "the recording itself");
    refused(&["-o", &rows, "--dispatch", "--json", &name("a.json")], "the recording's description");
    refused(&["-o", &linked], "is a symbolic link");
    refused(&["-o", &trace, "--json", device], "is a block device");
    refused(&["-o", &trace, "--json", &name("nowhere/a.json")], "there is no folder");
    refused(&["-o", &name("c.csv"), "--dispatch"], "c.json: it is a folder");

    for length in ["0", "30ms"] {
        let summary = dir.path().join("summary.json");
        let out = dumbwaiter(&["record", device, "--for", length, "-o", &trace, "--json", summary.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        let records = json(&summary)["records"].as_u64().unwrap();
        if records > 0 {
            eprintln!("skipped: something looked at the new device meanwhile");
            continue;
        }
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert!(said.contains("no request in ") && said.contains("nothing is written"), "{said}");
        assert!(!Path::new(&trace).exists() && json(&summary)["files"].as_array().unwrap().is_empty());
    }
}
