use dumbwaiter_block::{Ioprio, Nanos};
use dumbwaiter_workloads::generate::BuildContext;
use dumbwaiter_workloads::page_cache::{Amount, CacheSpec};
use proptest::prelude::*;

use super::*;

mod fio;

fn anything(_: &str) -> Result<(), String> {
    Ok(())
}

fn refused(text: &str) -> String {
    let read = Scenario::from_toml(text, "x.toml").and_then(|s| s.validate(&anything, &anything));
    read.expect_err("it should be refused").to_string()
}

fn scenarios() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scenarios");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "toml"))
        .map(|path| (path.display().to_string(), std::fs::read_to_string(path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn every_scenario_in_the_tree_is_valid_and_builds() {
    let files = scenarios();
    assert!(files.len() >= 5);
    for (path, text) in files {
        let scenario = Scenario::from_toml(&text, &path).unwrap_or_else(|e| panic!("{e}"));
        scenario.validate(&anything, &anything).unwrap_or_else(|e| panic!("{path}: {e}"));
        for (_, task) in scenario.tasks() {
            if let Work::App(app) = &task.work {
                let build = BuildContext {
                    seed: 1,
                    capacity_sectors: 500_118_192,
                    first_sector: 0,
                    job: 0,
                    instance: 0,
                    replicate: 0,
                };
                let context =
                    dumbwaiter_workloads::applications::AppContext { build, warmup: scenario.warmup, cache: None };
                app.build(&context).unwrap_or_else(|e| panic!("{path}: {}: {e}", task.name));
            }
            let Work::Job(job) = &task.work else { continue };
            for instance in 0..task.count {
                let context = BuildContext {
                    seed: 1,
                    capacity_sectors: 100_000_000,
                    first_sector: 0,
                    job: 0,
                    instance,
                    replicate: 0,
                };
                job.build(context).unwrap_or_else(|e| panic!("{path}: {}: {e}", task.name));
            }
        }
    }
}

#[test]
fn the_built_in_scenario_matches_its_description() {
    let scenario = Scenario::builtin();
    assert_eq!(scenario.devices, ["hdd:st1000dm003", "ssd:850pro-256"]);
    assert_eq!(scenario.schedulers.len(), 5);
    assert_eq!((scenario.duration, scenario.replicates, scenario.seed), (Some(Nanos::from_secs(15)), 5, 1));
    let names: Vec<&str> = scenario.tenants.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["interactive", "database", "streams", "unpack"]);
    assert!(scenario.tenants[0].focus && !scenario.tenants[1].focus);
}

#[test]
fn written_scenarios_read_back() {
    for (path, text) in scenarios() {
        let scenario = Scenario::from_toml(&text, &path).unwrap();
        let toml = scenario.to_toml();
        assert_eq!(Scenario::from_toml(&toml, "again").unwrap_or_else(|e| panic!("{e}\n{toml}")), scenario);
        let json = serde_json::to_string(&scenario).unwrap();
        assert_eq!(serde_json::from_str::<Scenario>(&json).unwrap(), scenario);
    }
}

#[test]
fn the_focus_is_of_tenants_or_of_tasks() {
    let text = "duration = 1\n[[tenant]]\nname = \"a\"\n[[tenant.task]]\nname = \"x\"\nfocus = true\nrw = \"read\"\n[[tenant.task]]\nname = \"y\"\nrw = \"read\"";
    let scenario = Scenario::from_toml(text, "x").unwrap();
    scenario.validate(&anything, &anything).unwrap();
    let marked: Vec<bool> = scenario.tasks().map(|(_, task)| task.focus).collect();
    assert_eq!(marked, [true, false]);
    assert_eq!(Scenario::from_toml(&scenario.to_toml(), "again").unwrap(), scenario);
    let both = text.replace("name = \"a\"", "name = \"a\"\nfocus = true");
    let reason = Scenario::from_toml(&both, "x").unwrap().validate(&anything, &anything).unwrap_err().to_string();
    assert!(reason.contains("mark either tenants or tasks"), "{reason}");
    assert!(refused(&text.replace("= true", "= 2")).contains("is not true or false"));
}

#[test]
fn tasks_of_the_root_group_are_read_written_and_checked() {
    let task = "rw = \"randread\"";
    let text = format!(
        "duration = 5\n[host]\nrotational = true\nnr_requests_at_attach = 8\n[[tenant]]\nname = \"a\"\n[[tenant.task]]\nname = \"x\"\n{task}\n[[task]]\nname = \"y\"\ntenant = \"/\"\n{task}"
    );
    let scenario = Scenario::from_toml(&text, "x").unwrap();
    scenario.validate(&anything, &anything).unwrap();
    assert_eq!((scenario.host.rotational, scenario.host.nr_requests_at_attach), (Some(true), Some(8)));
    assert!(!scenario.tenants[0].is_root() && scenario.tenants[1].is_root());
    assert_eq!(Scenario::from_toml(&scenario.to_toml(), "again").unwrap(), scenario);

    let moves = format!("{text}\n[[task]]\nname = \"z\"\n{task}\n[[task.change]]\nat = 1\ntenant = \"/\"");
    let moves = moves.replace("[[task]]\nname = \"y\"\ntenant = \"/\"\n", "[[task]]\nname = \"y\"\n");
    let moves = Scenario::from_toml(&moves, "x").unwrap();
    moves.validate(&anything, &anything).unwrap();
    assert!(moves.tenants.iter().any(|t| t.is_root() && t.tasks.is_empty()), "a task may move into the root group");

    for (wrong, reason) in [
        (
            "name = \"/\"\nweight = 100",
            "tenant \"/\": the root group has no weight: its tasks have their own, by ioprio; leave it out",
        ),
        ("name = \"/\"\nparent = \"a\"", "tenant \"/\": the root group has neither a parent nor a weight to change"),
        (
            "name = \"b\"\nparent = \"/\"",
            "tenant \"b\": its parent \"/\" is the root group, in which every tenant is; leave it out",
        ),
    ] {
        let said = refused(&format!("{text}\n[[tenant]]\n{wrong}\n[[tenant.task]]\nname = \"w\"\n{task}"));
        assert!(said.contains(reason), "{said}");
    }
    assert_eq!(
        refused(&text.replace("attach = 8", "attach = 0")),
        "host.nr_requests_at_attach: 0 is not a number from 1"
    );
}

#[test]
fn tasks_without_a_tenant_share_the_default_one() {
    let text = r#"
        duration = 5
        [[tenant]]
        name = "a"
        weight = 300
        ioprio = "be/6"
        [[tenant.task]]
        name = "x"
        rw = "randread"
        [[task]]
        name = "y"
        rw = "write"
        prio = 2
        [[task]]
        name = "z"
        tenant = "a"
        trace = "web.csv.zst"
        speed = 2
        limit = 4
    "#;
    let scenario = Scenario::from_toml(text, "x").unwrap();
    scenario.validate(&anything, &anything).unwrap();
    let found: Vec<(&str, &str, Ioprio)> =
        scenario.tasks().map(|(n, t)| (n.name.as_str(), t.name.as_str(), n.ioprio_of(t))).collect();
    let be = |level| Ioprio::new(dumbwaiter_block::IoClass::BestEffort, level);
    assert_eq!(found, [("a", "x", be(6)), ("a", "z", be(6)), ("default", "y", be(2))]);
    assert_eq!(scenario.duration, Some(Nanos::from_secs(5)));
    let Work::Trace(trace) = &scenario.tenants[0].tasks[1].work else { panic!("not a trace") };
    assert_eq!((trace.options.speed, trace.options.limit), (Some(2.0), Some(4)));
    let both = Scenario::from_toml(&text.replace("limit = 4", "depth = 4"), "x").unwrap_err().to_string();
    assert!(both.contains("leave one out"), "{both}");
    assert_eq!(Scenario::from_toml(&scenario.to_toml(), "x").unwrap(), scenario);
}

#[test]
fn schedulers_are_strings_or_tables() {
    let text = r#"schedulers = ["kyber", "mq-deadline:fifo_batch=8,read_expire=100", { name = "bfq", tunables = { low_latency = 0 } }]"#;
    let scenario = Scenario::from_toml(text, "x").unwrap();
    let texts: Vec<String> = scenario.schedulers.iter().map(|s| s.to_string()).collect();
    assert_eq!(texts, ["kyber", "mq-deadline:fifo_batch=8,read_expire=100", "bfq:low_latency=0"]);
    assert_eq!(SchedulerSpec::parse_list(&texts.join(",")).unwrap(), scenario.schedulers);
    let list = "bfq:v7r8,low_latency=0,mq-deadline:5.15,none";
    let specs = SchedulerSpec::parse_list(list).unwrap();
    assert_eq!((specs.len(), &*specs[0].variant, &*specs[1].variant), (3, "v7r8", "5.15"));
    assert_eq!(specs.iter().map(|s| s.to_string()).collect::<Vec<_>>().join(","), list);
    assert_eq!(
        SchedulerSpec::parse("mq-deadline:fifo_batch=8,read_expire").unwrap_err(),
        r#""read_expire" in "mq-deadline:fifo_batch=8,read_expire" is not a tunable such as fifo_batch=8"#
    );
    assert!(SchedulerSpec::parse("").is_err() && SchedulerSpec::parse(":a=1").is_err());
    assert!(SchedulerSpec::parse("a:b=1,b=2").is_err());
}

/// Checks the line of an error and its text.
#[test]
fn errors_show_the_line() {
    let shows = |text: &str, line: usize, message: &str| {
        let error = refused(text);
        assert!(error.starts_with(&format!("x.toml: TOML parse error at line {line}, ")), "{error}");
        assert!(error.ends_with(message), "{error}");
    };
    shows(
        "name = \"a\"\nduratoin = \"10s\"\n",
        2,
        "unknown key `duratoin`; did you mean `duration`? known: name, description, devices, schedulers, completion, drives, queue_depth, nr_requests, duration, warmup, replicates, seed, limit, host, kernel, io, nomerges, series, change, tenant, task",
    );
    shows(
        "duration = \"10 parsecs\"",
        1,
        r#""10 parsecs" is not a time such as 500ms, 10s or 2m (a bare number is seconds)"#,
    );
    shows("[[tenant]]\nname = \"a\"\nweight = -5\n", 3, r#""-5" is not a weight from 1 to 10000"#);
    shows("[[tenant]]\nname = \"a\"\nweight = 0\n", 3, r#""0" is not a weight from 1 to 10000"#);
    shows(
        "[[task]]\nname = \"a\"\nrw = \"read\"\niodepth = 0\n",
        4,
        r#"iodepth: "0" is not a whole number from 1 to 1048576"#,
    );
    shows("[[task]]\nname = \"a\"\niodpeth = 4\n", 3, "unknown key `iodpeth` of a task; did you mean `iodepth`?");
    shows("[[task]]\nname = \"a\"\nbs = \"4q\"\n", 3, r#"bs: "4q" is not a size such as 4096, 4k, 64KiB or 1.5GiB"#);
    shows(
        "[[task]]\nname = \"a\"\nioprio = \"be/9\"\n",
        3,
        r#""be/9" is not an I/O priority such as rt/0, be/4 or idle"#,
    );
    shows(
        "[[task]]\nname = \"a\"\nrw = \"read\"\ncpu = -1\n",
        4,
        "expected the number of a processor, from 0, or a list of them",
    );
    shows(
        "[host]\ncpu = 3\n",
        2,
        "unknown key `cpu`; did you mean `cpus`? known: cpus, affinity, profile, smt, cpu_mhz, ring_sleeps, hw_queues, hz, page_cache, dirty_ratio, dirty_bytes, dirty_background_ratio, dirty_background_bytes, dirty_expire_centisecs, dirty_writeback_centisecs, cgroup_writeback, read_ahead_kb, rotational, nr_requests_at_attach",
    );
    shows("schedulers = [\"a:c=1,b\"]", 1, r#""b" in "a:c=1,b" is not a tunable such as fifo_batch=8"#);
    shows(
        "[[task]]\nname = \"a\"\ntrace = \"t\"\nrw = \"read\"\n",
        1,
        r#""trace" and "rw" of task "a" exclude each other: a task is a job, an application, a trace or a fio file"#,
    );
    shows(
        "[[task]]\nname = \"a\"\nrw = \"read\"\nspeed = 2\n",
        1,
        r#""speed" of task "a" is for a trace; this task has none"#,
    );
    shows(
        "[[task]]\nname = \"a\"\n",
        1,
        r#"nothing to do of task "a": give rw and other options of a job, an app, a trace or a fio file"#,
    );
}

#[test]
fn contradictions_name_the_place() {
    let task = "rw = \"read\"";
    assert_eq!(refused(""), "scenario: it has no tasks; give at least one [[task]] or [[tenant]]");
    assert_eq!(
        refused("duration = 1\n[[tenant]]\nname = \"a\"\n"),
        r#"tenant "a": it has neither tasks nor tenants in it"#
    );
    assert_eq!(
        refused(&format!(
            "duration = 1\n[[tenant]]\nname = \"web\"\n[[tenant]]\nname = \"b\"\nparent = \"wbe\"\n[[tenant.task]]\nname = \"t\"\n{task}\n[[task]]\nname = \"t\"\ntenant = \"web\"\n{task}"
        )),
        r#"tenant "b": its parent "wbe" is not a tenant of this scenario; did you mean `web`?"#
    );
    assert_eq!(
        refused("duration = 1\n[[tenant]]\nname = \"a\"\nparent = \"b\"\n[[tenant]]\nname = \"b\"\nparent = \"a\"\n"),
        r#"tenant "a": it contains itself (parent "b")"#
    );
    assert_eq!(
        refused(&format!("duration = 1\n[[task]]\nname = \"t\"\n{task}\n[[task]]\nname = \"t\"\n{task}")),
        r#"tasks of tenant "default": "t" is there twice"#
    );
    assert_eq!(
        refused(&format!("[[task]]\nname = \"t\"\n{task}")),
        r#"duration: not given, and task "t" does not end by itself; give a time such as "10s""#
    );
    assert_eq!(
        refused(&format!("duration = 0\n[[task]]\nname = \"t\"\n{task}")),
        r#"duration: 0 leaves no time to measure; give a time such as "10s""#
    );
    assert_eq!(
        refused(&format!("duration = 1\n[[task]]\nname = \"t\"\ntenant = \"x\"\n{task}")),
        r#"task "t": tenant "x" is not in this scenario; it has none"#
    );
    assert_eq!(
        refused(&format!("duration = 1\n[[task]]\nname = \"t\"\ncpu = 9\n{task}")),
        r#"task "t" of tenant "default": cpu 9 is not one of the host's 4 (numbered from 0)"#
    );
    assert_eq!(
        refused(&format!("duration = 1\n[[task]]\nname = \"t\"\nbs = 1000\n{task}")),
        "task \"t\" of tenant \"default\": bs: 1000 bytes is not a multiple of 512; a block device has 512-byte sectors, and direct \
         I/O takes whole ones (buffered: direct=0)"
    );
    assert_eq!(refused("queue_depth = 0"), "queue_depth: 0 is not a number from 1");
    assert_eq!(refused("replicates = 0"), "replicates: 0 is not a number from 1");
    let unknown = Scenario::builtin().validate(&|name| Err(format!("no scheduler {name:?}")), &anything);
    assert_eq!(unknown.unwrap_err().to_string(), r#"schedulers: no scheduler "none""#);
}

#[test]
fn a_job_that_ends_needs_no_duration() {
    let text = "[[task]]\nname = \"t\"\nio_size = \"1m\"\n[[task]]\nname = \"u\"\nruntime = 3\n";
    Scenario::from_toml(text, "x").unwrap().validate(&anything, &anything).unwrap();
}

#[test]
fn traces_make_a_scenario_of_one_tenant() {
    let options = TraceOptions { speed: Some(2.0), ..TraceOptions::default() };
    let scenario = Scenario::from_trace(&["a/x.csv".into(), "b/x.csv".into()], options);
    scenario.validate(&anything, &anything).unwrap();
    let names: Vec<&str> = scenario.tasks().map(|(_, task)| task.name.as_str()).collect();
    assert_eq!(names, ["x.csv", "x.csv (2)"]);
    assert_eq!(Scenario::from_toml(&scenario.to_toml(), "x").unwrap(), scenario);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        let _ = Scenario::from_toml(&text, "x");
    }

    #[test]
    fn no_mutation_panics(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..3), 1..12)) {
        let mut bytes = Scenario::BUILTIN.as_bytes().to_vec();
        for (at, byte, kind) in edits {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => { bytes.remove(at); }
            }
        }
        if let Ok(scenario) = Scenario::from_toml(&String::from_utf8_lossy(&bytes), "x") {
            let valid = scenario.validate(&anything, &anything).is_ok();
            let again = Scenario::from_toml(&scenario.to_toml(), "x");
            prop_assert!(again.is_ok(), "{:?}", again.err());
            if valid {
                prop_assert_eq!(again.unwrap(), scenario);
            }
        }
    }
}

const LIFETIMES: &str = r#"
duration = "10s"
warmup = "1s"
[[tenant]]
name = "a"
weight = 100
[[tenant.task]]
name = "x"
rw = "randread"
start = "2s"
stop = "9s"
[[tenant.task.change]]
at = "5s"
ioprio = "be/0"
[[tenant.task.change]]
at = "6s"
tenant = "b"
[[tenant.change]]
at = "5s"
weight = 500
[[tenant]]
name = "b"
"#;

#[test]
fn lifetimes_and_changes_read_back() {
    let scenario = Scenario::from_toml(LIFETIMES, "x").unwrap();
    scenario.validate(&anything, &anything).unwrap();
    let task = &scenario.tenants[0].tasks[0];
    assert_eq!((task.start, task.stop), (Nanos::from_secs(2), Some(Nanos::from_secs(9))));
    assert_eq!(task.changes.len(), 2);
    assert_eq!(
        scenario.tenants[0].changes,
        [TenantChange { at: Nanos::from_secs(5), weight: Some(500), io_max: None }]
    );
    assert_eq!(Scenario::from_toml(&scenario.to_toml(), "x").unwrap(), scenario);
    let json = serde_json::to_string(&scenario).unwrap();
    assert_eq!(serde_json::from_str::<Scenario>(&json).unwrap(), scenario);
    let ends = Scenario::from_toml(&LIFETIMES.replace("duration = \"10s\"", ""), "x").unwrap();
    assert!(ends.ends(), "a stopped task ends");
}

#[test]
fn applications_are_tasks_by_name() {
    let text = r#"
        duration = "30s"
        [[task]]
        name = "writer"
        timeout = 20
        app = "oowriter-like"
        think = "greedy"
        offset = "30%"
        repeat = 2
        [[task]]
        name = "background"
        app = "5r5w-seq"
        maxrate = "4MB/s"
        size = "1GiB"
    "#;
    let scenario = Scenario::from_toml(text, "x").unwrap();
    scenario.validate(&anything, &anything).unwrap();
    assert_eq!(Scenario::from_toml(&scenario.to_toml(), "x").unwrap(), scenario);
    let with = |from: &str, to: &str| refused(&text.replacen(from, to, 1));
    for (from, to, expected) in [
        ("oowriter-like", "oowriter", "unknown application `oowriter`; did you mean `oowriter-like`? known: "),
        (
            "think = \"greedy\"",
            "iodepth = 4",
            "\"iodepth\" of task \"writer\" is for a job; this task is an application",
        ),
        ("app = \"oowriter-like\"", "rw = \"read\"", "of task \"writer\" is for an application; this task has no app"),
        ("think = \"greedy\"", "trace = \"x\"", "\"app\" and \"trace\" of task \"writer\" exclude each other"),
        ("think = \"greedy\"", "maxrate = 500", "maxrate: oowriter-like takes launch_after"),
        ("greedy", "lazy", "\"lazy\" is not paced or greedy"),
        ("timeout = 20", "timeout = 0", "\"0\" is not a time above 0"),
        ("duration = \"30s\"", "", "task \"background\" does not end by itself"),
    ] {
        let error = with(from, to);
        assert!(error.contains(expected), "{error}\nexpected: {expected}");
    }
}

#[test]
fn a_page_cache_has_a_size_and_thresholds() {
    let task = "[[task]]\nname = \"a\"\nrw = \"read\"";
    let text = |keys: &str| format!("duration = 1\n[host]\n{keys}\n{task}");
    let cache = |keys: &str| {
        let scenario = Scenario::from_toml(&text(keys), "x").unwrap();
        scenario.validate(&anything, &anything).unwrap();
        assert_eq!(Scenario::from_toml(&scenario.to_toml(), "x").unwrap(), scenario);
        scenario.host.cache()
    };
    assert_eq!(cache(""), CacheSpec::new(8 << 30));
    let all = "page_cache = \"512MiB\"\nread_ahead_kb = 0\ndirty_expire_centisecs = 100\ndirty_writeback_centisecs = 0\nhz = 1000\n\
               dirty_ratio = 40\ndirty_background_bytes = \"16MiB\"";
    let expected = CacheSpec {
        bytes: 512 << 20,
        read_ahead: 0,
        dirty: Amount::Percent(40),
        background: Amount::Bytes(16 << 20),
        expire: Nanos::from_secs(1),
        interval: Nanos::ZERO,
        hz: 1000,
    };
    assert_eq!(cache(all), expected);
    for (keys, reason) in [
        ("page_cache = \"4k\"", "at least 1MiB"),
        ("dirty_ratio = 0", "host.dirty_ratio: 0 is not a percentage"),
        ("dirty_background_ratio = 101", "host.dirty_background_ratio: 101 is not a percentage"),
        ("dirty_ratio = 5\ndirty_bytes = \"1MiB\"", "host.dirty_ratio: host.dirty_bytes sets the same threshold"),
        ("dirty_bytes = \"9GiB\"", "host.dirty_bytes: 9GiB is more than the page cache's memory of 8GiB"),
        ("read_ahead_kb = 4000000", "host.read_ahead_kb: 4000000 is not a number of KiB"),
        ("dirty_expire_centisecs = 360001", "host.dirty_expire_centisecs: 360001 is not a number of 1/100 s"),
        ("readahead = false", "unknown key `readahead`; did you mean `read_ahead_kb`?"),
        ("writeback_delay = 0", "unknown key `writeback_delay`; did you mean `dirty_expire_centisecs`?"),
    ] {
        let error = refused(&text(keys));
        assert!(error.contains(reason), "{keys}: {error}");
    }
}

#[test]
fn exchanges_of_the_scheduler_read_back_and_impossible_ones_are_refused() {
    let with = |changes: &str| format!("duration = \"9s\"\n{changes}\n[[task]]\nname = \"a\"\nrw = \"randread\"\n");
    let two = "[[change]]\nat = 5\nscheduler = \"bfq:low_latency=0\"\n\
               [[change]]\nat = \"1500ms\"\nscheduler = { name = \"none\" }\nhow = \"live\"";
    let scenario = Scenario::from_toml(&with(two), "test").unwrap();
    scenario.validate(&anything, &anything).unwrap();
    let ways: Vec<_> = scenario.changes.iter().map(|c| (c.at, c.scheduler.to_string(), c.how)).collect();
    let (freeze, live) = (dumbwaiter_block::Handover::Freeze, dumbwaiter_block::Handover::Live);
    let expected = [(5000, "bfq:low_latency=0", freeze), (1500, "none", live)];
    assert_eq!(ways, expected.map(|(ms, name, how)| (Nanos::from_ms(ms), name.to_owned(), how)));
    assert_eq!(Scenario::from_toml(&scenario.to_toml(), "test").unwrap(), scenario);
    for (changes, reason) in [
        ("[[change]]\nat = \"9s\"\nscheduler = \"bfq\"", "not before the end of the run"),
        ("[[change]]\nat = 1\nscheduler = \"cfg\"", "change at 1s: no cfg here"),
        ("[[change]]\nat = 1\nscheduler = \"a\"\n[[change]]\nat = \"1s\"\nscheduler = \"b\"", "is there twice"),
        ("[[change]]\nat = 1\nscheduler = \"bfq\"\nhow = \"cold\"", "expected `freeze` or `live`"),
        ("[[change]]\nat = 1", "missing field `scheduler`"),
        ("[[change]]\nscheduler = \"bfq\"", "missing field `at`"),
        ("[[change]]\nat = 1\nscheduler = \"bfq\"\nweight = 5", "unknown key `weight`; known: "),
    ] {
        let known = |name: &str| if name == "cfg" { Err("no cfg here".to_owned()) } else { Ok(()) };
        let read = Scenario::from_toml(&with(changes), "test");
        let error = read.and_then(|s| s.validate(&known, &anything)).unwrap_err().to_string();
        assert!(error.contains(reason), "{changes}: {error}");
    }
}

#[test]
fn impossible_lifetimes_are_refused() {
    let with = |from: &str, to: &str| {
        assert!(LIFETIMES.contains(from), "{from}");
        refused(&LIFETIMES.replace(from, to))
    };
    assert!(with("weight = 500", "weight = 10001").contains("line 20"), "{}", with("weight = 500", "weight = 10001"));
    assert!(with("weight = 500", "weight = 500\nioprio = \"be/1\"").contains("unknown key `ioprio`"));
    for (from, to, expected) in [
        ("tenant = \"b\"", "tenant = \"bb\"", "\"bb\" is not a tenant of this scenario; did you mean `b`?"),
        (
            "ioprio = \"be/0\"",
            "",
            "task \"x\" of tenant \"a\": the change at 5s changes nothing; give ioprio or tenant",
        ),
        ("at = \"6s\"", "at = \"1s\"", "the change at 1s is outside of its life, from 2s to 9s"),
        ("at = \"6s\"", "at = \"11s\"", "a change at 11s is not before the end of the run at 11s (warm-up included)"),
        ("start = \"2s\"", "start = \"12s\"", "start at 12s is not before the end of the run at 11s"),
        ("stop = \"9s\"", "stop = \"2s\"", "stop 2s is not after its start at 2s"),
        ("stop = \"9s\"", "stop = \"12s\"", "stop 12s is after the end of the run at 11s"),
        ("at = \"5s\"\nweight", "at = \"20s\"\nweight", "tenant \"a\": a change at 20s is not before the end"),
        ("tenant = \"b\"", "ioprio = \"idle\"", "tenant \"b\": it has neither tasks nor tenants in it"),
        ("name = \"b\"", "name = \"b\"\nparent = \"b\"", "it contains itself"),
    ] {
        let error = with(from, to);
        assert!(error.contains(expected), "{error}\nexpected: {expected}");
    }
}

#[test]
fn drives_are_kept_and_checked() {
    let text = "duration = 1\ndrives = 3\n[[task]]\nname = \"t\"\nrw = \"randread\"\n";
    let read = Scenario::from_toml(text, "s.toml").unwrap();
    assert_eq!(Scenario::from_toml(&read.to_toml(), "s.toml").unwrap().drives, 3);
    for wrong in ["0", "33"] {
        let said = refused(&format!("drives = {wrong}"));
        assert_eq!(said, format!("drives: {wrong} is not a number from 1 to 32"));
    }
    let on = |drive: u32| format!("drives = 3\n[[task]]\nname = \"t\"\nrw = \"read\"\ndrive = {drive}\n");
    assert_eq!(refused(&on(4)), "task \"t\" of tenant \"default\": drive 4 is not one of the 3 of `drives`");
    let kept = Scenario::from_toml(&format!("duration = 1\n{}", on(2)), "s.toml").unwrap();
    assert_eq!(Scenario::from_toml(&kept.to_toml(), "s.toml").unwrap(), kept);
}

#[test]
fn what_tenants_state_applies_under_the_stacks_that_name_it() {
    let text = "duration = 1\nschedulers = [\"none\", \"none+io.max=50%\", \"bfq+io.latency=200us\", \"mq-deadline+io.prio.class\"]\n\
                [[tenant]]\nname = \"a\"\nio_max = \"rbps=1000\"\nio_latency = \"5ms\"\nprio_class = \"idle\"\n\
                [[tenant.task]]\nname = \"t\"\nrw = \"randread\"\n";
    let mut scenario = Scenario::from_toml(text, "s.toml").unwrap();
    let stated = scenario.tenants[0].controls;
    let id = dumbwaiter_block::TenantId(1);
    let under = |scenario: &Scenario, stack: usize| {
        let spec = scenario.schedulers[stack].controls;
        let found = scenario.tenant_controls(spec, vec![(id, stated)])[0].1;
        (found.io_max[0].bytes, found.io_latency.map(|ns| ns.0), found.prio_class == stated.prio_class)
    };
    assert_eq!(under(&scenario, 0), (None, None, false));
    assert_eq!(under(&scenario, 1), (Some(500), None, false));
    assert_eq!(under(&scenario, 2), (None, Some(200_000), false));
    assert_eq!(under(&scenario, 3), (None, None, true));
    let limits = [dumbwaiter_controllers::io_max::Rates { bytes: Some(10), ios: None }; 2];
    let change = crate::load::Change::IoMax { tenant: id, limits };
    let changes = |stack: usize| {
        let spec = scenario.schedulers[stack].controls;
        scenario.tenant_changes(spec, vec![(Nanos(1), change.clone())])
    };
    assert_eq!((changes(0).len(), changes(1).len()), (0, 1));
    // Where no stack names them they apply under all.
    scenario.schedulers.truncate(1);
    assert_eq!(under(&scenario, 0), (Some(1000), Some(5_000_000), true));
}
