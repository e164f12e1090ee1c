//! `compare --on`, `recommend` and `verify` on files and on loop devices, as users meet them.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use dumbwaiter_testkit::{LoopDevice, program};
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

/// The same tenants, each reads its half of 8 MiB once, however long that takes.
const ONCE: &str = r#"
replicates = 1
schedulers = ["none", "mq-deadline", "headway"]
[[tenant]]
name = "light"
weight = 100
[[tenant.task]]
name = "t"
rw = "randread"
time_based = false
size = "4m"
iodepth = 8
[[tenant]]
name = "heavy"
weight = 300
[[tenant.task]]
name = "t"
rw = "randread"
time_based = false
offset = "4m"
size = "4m"
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
        println!("skipped: no loop device (root is needed; ./.ci/lab has devices of its own)");
        return None;
    };
    let path = disk.path().to_path_buf();
    Some((disk, path))
}

/// How many runs through the kernel's schedulers a program began whose TMPDIR is this: the latest one's folder is there.
fn runs_begun(folders: &Path) -> usize {
    let all = std::fs::read_dir(folders).unwrap().flatten().filter_map(|f| f.file_name().into_string().ok());
    all.filter_map(|name| name.rsplit_once('-')?.1.parse::<usize>().ok()).map(|number| number + 1).max().unwrap_or(0)
}

fn scheduler_of(device: &Path) -> String {
    let name = device.file_name().unwrap().to_str().unwrap();
    std::fs::read_to_string(format!("/sys/block/{name}/queue/scheduler")).unwrap()
}

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
    assert!(text.contains("mq-deadline, engine") && text.contains("mq-deadline, kernel"), "{text}");
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
    // Runs through the kernel's schedulers, which have a folder each, come after those through the engine.
    program::wait_until(&mut child, "a run through the kernel's schedulers", || runs_begun(folders.path()) > 0);
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
fn several_processes_write_through_the_kernels_schedulers() {
    let dir = folder();
    let Some((_disk, path)) = device(dir.path()) else { return };
    let scenario = file(dir.path(), "s.toml", ONCE.replace("randread", "randwrite").as_bytes());
    let out = dir.path().join("out.json");
    let (path, out) = (path.to_str().unwrap(), out.to_str().unwrap());
    let done = dumbwaiter(&["compare", &scenario, "--on", path, "--allow-writes", "--via", "kernel", "--json", out]);
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
    let (found, about) = dumbwaiter_kernel::cgroup::detect(&dumbwaiter_kernel::Roots::default());
    let Some(found) = found else {
        println!("skipped: {about}");
        return;
    };
    let scenario = file(dir.path(), "s.toml", CHANGES.as_bytes());
    let out = dir.path().join("out.json");
    let mut child = Command::new(env!("CARGO_BIN_EXE_dumbwaiter"))
        .args([
            "compare",
            &scenario,
            "--on",
            path.to_str().unwrap(),
            "--via",
            "kernel",
            "--json",
            out.to_str().unwrap(),
        ])
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
    // What is seen while it runs, in the order of first sight.
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
                if let Ok(priority) = dumbwaiter_kernel::ioprio::get(pid) {
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
fn results_are_in_their_files_whoever_stopped_listening() {
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
        // Whoever is next puts back what a program killed by another test left, and says so.
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
    // Nobody asked for the kernel's schedulers: then it is a remark, and the rest is done.
    let out = dir.path().join("out.json");
    let done = dumbwaiter(&["compare", &short, "--on", path, "--limit", "100", "--json", out.to_str().unwrap()]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(json(&out)["runs"].as_array().unwrap().iter().all(|r| r["via"] == "engine"));
    let args = ["compare", &short, "--on", path, "--via", "kernel", "-s", "none", "--json", out.to_str().unwrap()];
    assert!(dumbwaiter(&args).status.success());
    assert!(json(&out)["runs"][0]["depth"]["device"]["mean"].is_null(), "only the kernel knows");
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
fn the_engines_bench_writes_to_nothing_that_is_in_use() {
    let dir = folder();
    let Some((held, _)) = device(dir.path()) else { return };
    let link = dir.path().join("link");
    std::fs::hard_link(held.file(), &link).unwrap();
    for path in [held.file(), &link] {
        let on = path.to_str().unwrap();
        let bench = ["bench", "engine", "--on", on, "--allow-writes", "--op", "randwrite", "--schedulers", "none"];
        let done = dumbwaiter(&[&bench[..], &["--depth", "1", "--rounds", "1", "--time", "100ms"]].concat());
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(said.contains("in use (backs loop"), "{said}");
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
    let file = PathBuf::from(format!("/dev/shm/dumbwaiter-{}-0.img", child.id()));
    let attached = || {
        let out = Command::new("losetup").arg("--associated").arg(&file).output().unwrap();
        !out.stdout.is_empty()
    };
    program::wait_until(&mut child, "it has a loop device", || file.exists() && attached());
    child.kill().unwrap();
    child.wait().unwrap();
    let next = dumbwaiter(&["schedulers"]);
    let said = String::from_utf8_lossy(&next.stderr).into_owned();
    // Where another program was started before, that one put it back.
    let gone = || {
        std::thread::sleep(Duration::from_millis(20));
        !file.exists() && !attached()
    };
    assert!((0..3000).any(|_| gone()), "{said}");
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
    // A place of 8 bytes for each block, filled as writes are acknowledged.
    let filled = || {
        let places = std::fs::read(&journal).unwrap_or_default();
        places.chunks_exact(8).filter(|place| place.iter().any(|byte| *byte != 0)).count()
    };
    program::wait_until(&mut child, "it has written for a while", || filled() >= 4000);
    child.kill().unwrap();
    child.wait().unwrap();
    let found = dumbwaiter(&["verify", &disk, journal.to_str().unwrap()]);
    let told = String::from_utf8_lossy(&found.stdout).into_owned();
    assert_eq!(found.status.code(), Some(0), "{told}{}", String::from_utf8_lossy(&found.stderr));
    assert!(told.contains(" 0 lost, 0 torn"), "{told}");
    assert!(!told.starts_with("0 blocks"), "{told}");
}

/// What `recommend` says of a device, in seconds of time; in more where a busy machine did not make `enough` of them.
fn advised(path: &Path, dir: &Path, seconds: u64, more: &[&str], enough: impl Fn(&[Value]) -> bool) -> (Value, String) {
    let before = scheduler_of(path);
    let out = dir.join("advice.json");
    for seconds in [seconds, 4 * seconds, 16 * seconds] {
        let (length, path_text) = (format!("{seconds}s"), path.to_str().unwrap());
        let args = [&["recommend", path_text, "--for", &length, "--json", out.to_str().unwrap()], more].concat();
        let done = dumbwaiter(&args);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(scheduler_of(path), before, "what was set is set again");
        if done.status.code() == Some(2) && said.contains("was over before") {
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
    for dir in [folder(), tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()] {
        let Some((_disk, path)) = device(dir.path()) else { return };
        let before = scheduler_of(&path);
        let page = dir.path().join("survey.html");
        // Every scheduler runs three times where it is decided; twice is what it takes.
        let each_twice = |runs: &[Value]| {
            let mut schedulers = before.split_whitespace().map(|s| s.trim_matches(['[', ']']));
            schedulers.all(|s| runs.iter().filter(|r| r["scheduler"] == s && r["variant"] == "shared").count() >= 2)
        };
        let (advice, told) = advised(&path, dir.path(), 14, &["--html", page.to_str().unwrap()], each_twice);
        let recommended = advice["recommended"].as_str().unwrap();
        assert!(before.contains(recommended));
        let keep = before.contains(&format!("[{recommended}]"));
        assert_eq!(advice["keep"].as_bool().unwrap(), keep);
        assert_eq!(advice["gain"].is_null(), keep, "what changes is told with its confidence: {}", advice["gain"]);
        let rule = format!("ATTR{{queue/scheduler}}=\"{recommended}\"");
        assert!(advice["udev_rule"].as_str().unwrap().contains(&rule));
        assert!(advice["commands"][0].as_str().unwrap().starts_with(&format!("echo {recommended} > /sys/block/")));
        assert!(told.contains(advice["sentence"].as_str().unwrap()), "{told}");
        assert!(told.contains(advice["criterion"].as_str().unwrap()), "{told}");
        assert!(!advice["completion"]["sentence"].as_str().unwrap().is_empty());
        let runs = advice["survey"]["runs"].as_array().unwrap();
        assert!(runs.iter().all(|r| r["write"]["count"] == 0 && r["world"] == "real" && r["via"] == "kernel"));
        let page = std::fs::read_to_string(&page).unwrap();
        assert!(page.contains("survey of") && page.contains("A guard, which decides nothing by itself."));
        let told = advice["survey"]["recommendation"].as_array().unwrap();
        let shared = told.iter().find(|r| r["variant"] == "shared").unwrap();
        assert_eq!((&shared["sentence"], &shared["scheduler"]), (&advice["sentence"], &advice["recommended"]));
    }
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
    let (advice, _) = advised(&path, dir.path(), 8, &["--schedulers", list, "--goal", "throughput"], both);
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
    // What is set has not run twice yet.
    assert!(!out.exists() && said.contains("before anything could be said"), "{said}");
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
        (&["compare", "--on", &disk, "--allow-writes", "--verify", "--via", "kernel"], "only our engine checks"),
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
fn a_recording_without_io_is_no_failure_and_its_outputs_are_looked_at_before() {
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
    refused(&["-o", &linked], "is a block device");
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
        assert!(out.status.success() && said.contains("no I/O in ") && said.contains("nothing is written"), "{said}");
        assert!(!Path::new(&trace).exists() && json(&summary)["files"].as_array().unwrap().is_empty());
    }
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
