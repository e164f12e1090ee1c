use std::fmt::Write as _;

use dumbwaiter_block::Nanos;
use dumbwaiter_sim::Simulator;

use super::*;

/// One reader of 4 KiB after 4 KiB, from this place on, for a second.
fn job(offset: &str) -> String {
    format!(
        "[global]\nioengine=libaio\ndirect=1\ntime_based=1\nruntime=1\n[r]\nrw=randread\nbs=4k\niodepth=1\noffset={offset}\nsize=64m\n"
    )
}

/// A recording's JSON, with what is said of its load.
fn description(load: serde_json::Value) -> serde_json::Value {
    let mut all = serde_json::json!({
        "scheduler": "bfq", "kernel": "6.12.117+deb12-cloud-amd64", "cpus": 1, "clock": "virtual",
        "device": { "kind": "null_blk", "attributes": { "size": 8192, "completion_nsec": 2_000_000, "hw_queue_depth": 1 } },
        "queue": { "nr_requests": "64", "rotational": "1", "max_sectors_kb": "127" },
        "iosched": { "low_latency": "0", "slice_idle": "0", "slice_idle_us": "0" },
        "jiffies": { "period_ns": 4_000_000, "step_at_ns": 0 },
    });
    let fields = all.as_object_mut().unwrap();
    fields.extend(load.as_object().unwrap().clone());
    all
}

/// Rows of processes that take turns: each I/O needs this long, the next arrives when it is done.
fn rows(turns: &[(i32, u64)], us: u64, count: u64) -> String {
    let mut text = "ts_ns,event,req,sector,bytes,op,flags,pid,ioprio,cpu\n".to_owned();
    for i in 0..count {
        let (pid, sector) = turns[i as usize % turns.len()];
        let (at, sector, req) = (i * us * 1000, sector + 8 * i, i + 1);
        let _ = writeln!(text, "{at},bio_queue,,{sector},4096,R,,{pid},,0");
        let _ = writeln!(text, "{at},getrq,{req},{sector},4096,R,,{pid},,0");
        let _ = writeln!(text, "{},rq_complete,{req},{sector},4096,R,,{pid},16388,0", at + us * 1000);
    }
    text
}

fn put(dir: &Path, name: &str, about: &serde_json::Value, rows: &str) -> PathBuf {
    std::fs::write(dir.join(format!("{name}.csv")), rows).unwrap();
    let path = dir.join(format!("{name}.json"));
    std::fs::write(&path, about.to_string()).unwrap();
    path
}

fn run(paths: &[PathBuf]) -> ClosedLoops {
    closed_loops(paths, &Simulator::new(2), &Control::default()).unwrap()
}

#[test]
fn a_job_alone_gets_what_the_device_gives() {
    let dir = tempfile::tempdir().unwrap();
    let about = description(serde_json::json!({ "job": job("0m") }));
    let path = put(dir.path(), "alone", &about, &rows(&[(7, 0)], 2020, 495));
    let by_rows = path.with_extension("csv");
    let found = run(&[path, by_rows]);
    assert_eq!(found.compared.len(), 2, "{:?}", found.not_comparable);
    let [first, second] = &found.compared[..] else { return };
    assert!(first.within(&BOUNDS) && first.share_error == 0.0, "{first:?}");
    assert_eq!((first.file.as_str(), second.file.as_str()), ("alone.json", "alone.csv"));
    assert_eq!(Agreement { file: first.file.clone(), ..second.clone() }, *first);
}

#[test]
fn what_differs_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let about = description(serde_json::json!({ "job": job("0m") }));
    // The kernel is made out to be twice as slow as its device.
    let found = run(&[put(dir.path(), "slow", &about, &rows(&[(7, 0)], 4040, 247))]);
    let got = &found.compared[0];
    assert!((got.mb_ratio - 2.0).abs() < 0.06 && (got.mean_ratio - 0.5).abs() < 0.02, "{got:?}");
    assert!(!got.within(&BOUNDS));
}

#[test]
fn shares_are_those_of_groups_with_the_root_beside_them() {
    let dir = tempfile::tempdir().unwrap();
    let groups = serde_json::json!({ "job": null, "groups": [
        { "path": "a", "weight": 100, "pids": [] },
        { "path": "a/x", "weight": 100, "job": job("0m"), "pids": [5] },
        { "path": "", "weight": 100, "job": job("64m"), "pids": [6] },
    ], "changes": [{ "group": "a", "after_s": 0.5, "weight": 200 }] });
    let about = description(groups);
    // One request at a time and no idling: both get half, whatever they weigh.
    let equal = put(dir.path(), "equal", &about, &rows(&[(5, 0), (6, 131_072)], 2020, 495));
    let none = put(dir.path(), "none", &about, &rows(&[(5, 0)], 2020, 495));
    let found = run(&[equal, none]);
    assert_eq!(found.compared.len(), 2, "{:?}", found.not_comparable);
    assert!(found.compared[0].share_error < 0.02, "{:?}", found.compared[0]);
    assert!((found.compared[1].share_error - 0.5).abs() < 0.02, "{:?}", found.compared[1]);
}

#[test]
fn the_scenario_has_what_the_recording_says() {
    let groups = serde_json::json!({ "job": null, "groups": [
        { "path": "a", "weight": 300, "pids": [] },
        { "path": "a/x", "weight": 50, "job": job("0m"), "pids": [5] },
        { "path": "", "weight": 100, "job": job("64m"), "pids": [6] },
    ], "changes": [{ "group": "a", "after_s": 0.5, "weight": 200 }] });
    let dir = tempfile::tempdir().unwrap();
    let path = put(dir.path(), "groups", &description(groups), &rows(&[(5, 0)], 2020, 5));
    let about = Conditions::read(&path).unwrap();
    let scenario = scenario::scenario(&about, &Recording::open(&path).unwrap()).unwrap();
    let host = &scenario.host;
    assert_eq!((scenario.nr_requests, host.nr_requests_at_attach), (Some(64), Some(2)));
    assert_eq!((host.cpus, host.hz, host.rotational), (1, 250, Some(true)));
    assert_eq!(scenario.schedulers[0].to_string(), "bfq:low_latency=0,slice_idle=0,slice_idle_us=0");
    let device = &scenario.devices[0];
    assert!(device.contains("latency_ns=2002000&") && device.contains("capacity_sectors=16777216&"), "{device}");
    let tenants: Vec<_> = scenario.tenants.iter().map(|t| (t.name.as_str(), t.weight, t.parent.as_deref())).collect();
    assert_eq!(tenants, [("a", 300, None), ("a/x", 50, Some("a")), ("/", 100, None)]);
    assert_eq!(scenario.tenants[0].changes[0].weight, Some(200));
}

#[test]
fn weights_change_when_the_rows_say_so() {
    let groups = serde_json::json!({ "job": null, "groups": [
        { "path": "a", "weight": 300, "job": job("0m"), "pids": [5] },
        { "path": "b", "weight": 100, "job": job("64m"), "pids": [6] },
    ], "changes": [{ "group": "a", "after_s": 0.5, "weight": 200 }, { "group": "b", "after_s": 0.25, "weight": 70 }] });
    let dir = tempfile::tempdir().unwrap();
    let made = "900000000,group_weight,,,,,group=a weight=200,,,0\n";
    let path = put(dir.path(), "late", &description(groups), &(rows(&[(5, 0)], 2020, 5) + made));
    let about = Conditions::read(&path).unwrap();
    let scenario = scenario::scenario(&about, &Recording::open(&path).unwrap()).unwrap();
    let changes =
        |i: usize| scenario.tenants[i].changes.iter().filter_map(|c| Some((c.at, c.weight?))).collect::<Vec<_>>();
    assert_eq!(changes(0), [(Nanos::from_ms(900), 200)], "as it was made");
    assert_eq!(changes(1), [(Nanos::from_ms(250), 70)], "as planned: no row says when");
}

#[test]
fn what_cannot_be_compared_is_there_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let with =
        |name: &str, change: serde_json::Value| put(dir.path(), name, &description(change), &rows(&[(7, 0)], 2020, 5));
    let buffered = job("0m").replace("direct=1", "direct=0");
    let mixed = job("0m") + "cmdprio_percentage=50\n";
    let cases = [
        (
            with("scsi", serde_json::json!({ "job": job("0m"), "device": { "kind": "scsi_debug" } })),
            "scsi_debug, not null_blk",
        ),
        (with("wall", serde_json::json!({ "job": job("0m"), "clock": "wall" })), "real time"),
        (with("buffered", serde_json::json!({ "job": buffered })), "page cache"),
        (with("cmdprio", serde_json::json!({ "job": mixed })), "cmdprio"),
        (with("jobless", serde_json::json!({})), "the job that ran"),
        (with("unknown", serde_json::json!({ "job": job("0m"), "scheduler": "lookahead" })), "no scheduler lookahead"),
        (with("refused", serde_json::json!({ "job": job("0m") + "verify=crc32c\n" })), "verify"),
        (put(dir.path(), "list", &serde_json::json!([]), ""), "not a dispatch recording"),
    ];
    let paths: Vec<PathBuf> = cases.iter().map(|(path, _)| path.clone()).collect();
    let found = run(&paths);
    assert!(found.compared.is_empty());
    for ((path, reason), got) in cases.iter().zip(&found.not_comparable) {
        assert!(got.file == name_of(path) && got.reason.contains(reason), "{path:?}: {got:?}");
    }
    assert_eq!(found.not_comparable.len(), cases.len());
    let missing = closed_loops(&[dir.path().join("missing.json")], &Simulator::new(1), &Control::default());
    assert!(missing.unwrap_err().to_string().contains("missing.json"));
}

#[test]
fn processes_have_the_job_that_begins_last_before_their_lowest_sector() {
    let lowest = |sectors: &[u64]| Observed {
        mb_per_s: 0.0,
        mean_us: 0.0,
        p95_us: 0.0,
        processes: (1..).zip(sectors).map(|(pid, s)| (pid, kernel::Process { bytes: 1, lowest: *s })).collect(),
    };
    let mib = 1 << 20;
    assert_eq!(by_offset(&[0, mib, 2 * mib], &lowest(&[5000, 0, 2048])), [Some(2), Some(3), Some(1)]);
    assert_eq!(by_offset(&[0, 0], &lowest(&[8, 0])), [Some(1), Some(2)], "of equals, in order");
    assert_eq!(by_offset(&[0, mib], &lowest(&[0])), [Some(1), None]);
}

#[test]
fn a_second_recording_is_compared_by_groups_and_by_jobs() {
    let (first, again) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let groups = |x: i32, root: i32| {
        description(serde_json::json!({ "groups": [
            { "path": "a", "weight": 100, "pids": [] },
            { "path": "a/x", "weight": 100, "pids": [x] },
            { "path": "", "weight": 100, "pids": [root] },
        ] }))
    };
    let jobs = description(serde_json::json!({ "job": job("0m") + "[s]\nrw=randread\nbs=4k\noffset=64m\n" }));
    let paths = [
        // Other processes in the same groups: half each, then a quarter and three quarters.
        put(first.path(), "groups", &groups(5, 6), &rows(&[(5, 0), (6, 131_072)], 2000, 400)),
        put(first.path(), "jobs", &jobs, &rows(&[(5, 0), (6, 131_072)], 2000, 400)),
        put(first.path(), "once", &jobs, &rows(&[(5, 0)], 2000, 4)),
    ];
    let quarter = [(6, 131_072), (6, 131_072), (7, 0), (6, 131_072)];
    put(again.path(), "groups", &groups(7, 6), &rows(&quarter, 4000, 400));
    // The jobs by where they begin, whoever has the lower process number.
    put(again.path(), "jobs", &jobs, &rows(&[(9, 131_072), (8, 0)], 2000, 400));
    let found = recorded_again(&paths, again.path()).unwrap();
    let [groups, jobs] = &found.compared[..] else { panic!("{found:?}") };
    assert!((groups.share_error - 0.25).abs() < 0.01 && !groups.within(&BOUNDS), "{groups:?}");
    assert!((groups.mb_ratio - 0.5).abs() < 0.01 && (groups.mean_ratio - 2.0).abs() < 0.01, "{groups:?}");
    assert!(jobs.within(&BOUNDS) && jobs.share_error < 0.01, "{jobs:?}");
    assert!(found.not_comparable[0].reason.contains("no recording of its name"), "{:?}", found.not_comparable);
    let same = recorded_again(&paths, first.path()).unwrap();
    assert!(same.compared.len() == 3 && same.compared.iter().all(|a| a.within(&BOUNDS) && a.share_error == 0.0));
}
