//! Runs on files: every I/O is served, counted and conserved under every scheduler and completion mode.

use crate::drive::common::{filled, open, run_on};
use dumbwaiter_measure::RunResult;
use dumbwaiter_realworld::drive::{CompletionMode, Error, Options, Sleep, Target, Verify, writes};
use dumbwaiter_schedulers::REGISTRY;

const MIXED: &str = r#"
limit = 3000
[[tenant]]
name = "a"
weight = 100
[[tenant]]
name = "b"
weight = 300
[[task]]
name = "reader"
tenant = "a"
rw = "randread"
bs = "4k"
iodepth = 16
ioengine = "io_uring"
[[task]]
name = "writer"
tenant = "b"
rw = "randrw"
bssplit = "4k/60:16k/30:128k/10"
iodepth = 8
ioengine = "io_uring"
[[task]]
name = "stream"
tenant = "b"
rw = "write"
bs = "16k"
iodepth = 4
ioengine = "io_uring"
[[task]]
name = "sync"
tenant = "a"
rw = "randwrite"
bs = "4k"
fsync = 4
"#;

fn writable() -> Options {
    Options { allow_writes: true, verify: Some(Verify::default()), ..Options::default() }
}

#[test]
fn the_scheduler_is_exchanged_during_a_run_and_nothing_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), "disk", 8 << 20);
    let target = open(&path, &writable());
    let text = MIXED.replace(
        "limit = 3000",
        "limit = 6000\n[[change]]\nat = \"1ms\"\nscheduler = \"bfq\"\nhow = \"live\"\n[[change]]\nat = \"2ms\"\nscheduler = \"none\"",
    );
    for scheduler in ["none", "mq-deadline", "cfq"] {
        let cell = run_on(&target, &text, scheduler, CompletionMode::Interrupt).unwrap();
        let r = &cell.result;
        assert_eq!(cell.failure, None, "{scheduler}");
        assert_eq!((r.ledger.submitted, r.ledger.completed, r.errors), (6000, 6000, 0), "{scheduler}");
        assert_eq!(r.switches.map(|s| s.count), Some(2), "{scheduler}");
        assert_eq!(cell.verified.map(|v| v.lost), Some(0), "{scheduler}");
    }
}

#[test]
fn every_scheduler_serves_a_mixed_load_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), "disk", 8 << 20);
    let target = open(&path, &writable());
    for entry in REGISTRY {
        let cell = run_on(&target, MIXED, entry.name, CompletionMode::Interrupt).unwrap();
        let r = &cell.result;
        assert_eq!(cell.failure, None, "{}", entry.name);
        assert_eq!((r.ledger.submitted, r.ledger.completed, r.errors), (3000, 3000, 0), "{}", entry.name);
        assert_eq!(r.completed, 3000, "{}", entry.name);
        assert_eq!((r.world.as_str(), r.via.as_str(), r.completion.as_str()), ("real", "engine", "interrupt"));
        assert!(r.tenants.iter().all(|t| t.count > 0), "{}", entry.name);
        assert!(r.cpu.us_per_io > 0.0 && r.latency_us.p50 > 0.0);
        let verified = cell.verified.unwrap();
        assert!(verified.clean() && verified.checked > 100, "{}: {verified:?}", entry.name);
    }
}

#[test]
fn every_completion_mode_that_works_without_polled_queues() {
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), "disk", 8 << 20);
    let learned = CompletionMode::Hybrid(Sleep::Learned);
    let fixed = CompletionMode::parse("hybrid-fixed:20us").unwrap();
    for (completion, sqpoll) in [
        (learned, false),
        (fixed, false),
        (CompletionMode::Hybrid(Sleep::Auto), false),
        (CompletionMode::Interrupt, true),
        (learned, true),
    ] {
        let target = open(&path, &Options { sqpoll, ..writable() });
        for scheduler in ["none", "mq-deadline", "bfq"] {
            let cell = run_on(&target, MIXED, scheduler, completion).unwrap();
            assert_eq!((cell.result.ledger.completed, cell.failure), (3000, None), "{completion} {scheduler}");
            assert!(cell.verified.unwrap().clean());
        }
    }
}

#[test]
fn polling_where_it_is_impossible_is_refused_with_what_enables_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), "disk", 1 << 20);
    let target = open(&path, &Options { direct: false, ..Options::default() });
    let error = target.check(CompletionMode::Poll).unwrap_err().to_string();
    assert!(error.contains("completion `poll` is not possible") && error.contains("`hybrid`"), "{error}");
    assert_eq!(error.lines().count(), 1);
}

#[test]
fn nothing_is_written_unless_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), "disk", 1 << 20);
    let before = std::fs::read(&path).unwrap();
    let target = open(&path, &Options::default());
    let error = run_on(&target, MIXED, "none", CompletionMode::Interrupt).err().unwrap();
    assert!(matches!(&error, Error::WritesNotAllowed { task, .. } if task == "sync"), "{error}");
    assert!(error.to_string().contains("--destroy"));
    // A trace shows only in the run that it writes.
    let trace = dir.path().join("trace.iolog");
    let file = "fio version 2 iolog\nf add\nf open\nf read 0 4096\nf write 8192 4096\nf close\n";
    std::fs::write(&trace, file).unwrap();
    let text = format!("[[task]]\nname = \"t\"\ntrace = \"{}\"\n", trace.display());
    assert_eq!(writes(&crate::drive::common::scenario(&text)), None);
    let error = run_on(&target, &text, "mq-deadline", CompletionMode::Interrupt).err().unwrap();
    assert!(matches!(error, Error::WritesNotAllowed { .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_trace_is_replayed_open_and_closed() {
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), "disk", 1 << 20);
    let trace = dir.path().join("trace.csv");
    let lines: String = (0..200).map(|i| format!("{},R,{},4096\n", i * 100, (i * 37 % 256) * 4096)).collect();
    std::fs::write(&trace, lines).unwrap();
    let target = open(&path, &Options::default());
    for pace in ["", "depth = 4\n"] {
        let text = format!(
            "[[task]]\nname = \"t\"\ntrace = \"{}\"\ncolumns = \"time_us,op,offset_bytes,size_bytes\"\n{pace}",
            trace.display()
        );
        let cell = run_on(&target, &text, "kyber", CompletionMode::Interrupt).unwrap();
        assert_eq!((cell.result.read.count, cell.failure), (200, None));
        // The recorded span is 20 ms.
        assert!(!pace.is_empty() || cell.result.duration_s >= 0.0199, "{}", cell.result.duration_s);
    }
}

#[test]
fn a_run_ends_at_its_time_and_when_it_is_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), "disk", 4 << 20);
    let target = open(&path, &Options::default());
    let job = "[[task]]\nname = \"t\"\nrw = \"randread\"\nbs = \"4k\"\niodepth = 4\nioengine = \"io_uring\"\n";
    let cell =
        run_on(&target, &format!("duration = \"100ms\"\nwarmup = \"200ms\"\n{job}"), "bfq", CompletionMode::Interrupt)
            .unwrap();
    assert!(cell.result.duration_s >= 0.1 && !cell.cancelled);
    let r = &cell.result;
    assert!(r.warmup_completed > 0 && r.unfinished > 0, "{} {}", r.warmup_completed, r.unfinished);
    assert_eq!(r.requests, r.warmup_completed + r.completed + r.unfinished);
    assert_eq!(r.requests, r.ledger.submitted);
    assert!(r.latency_us.samples <= r.completed && r.latency_us.unfinished == r.unfinished, "{:?}", r.latency_us);
    let scenario = crate::drive::common::scenario(&format!("duration = \"1h\"\n{job}"));
    let prepared = dumbwaiter_scenario::load::Prepared::new(&scenario).unwrap();
    let control = dumbwaiter_experiment::Control::default();
    let choice = dumbwaiter_schedulers::Choice::parse("none").unwrap();
    let cell = std::thread::scope(|scope| {
        scope.spawn(|| {
            while control.finished.load(std::sync::atomic::Ordering::Relaxed) < 100 {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            control.cancel.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        dumbwaiter_realworld::drive::run(&prepared, &target, &choice, CompletionMode::Interrupt, 0, &control).unwrap()
    });
    assert!(cell.cancelled && cell.result.completed > 0);
    assert_eq!(control.finished.load(std::sync::atomic::Ordering::Relaxed), cell.result.completed);
}

#[test]
fn what_cannot_be_opened_is_an_error_of_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let say = |path: &std::path::Path, options: &Options| {
        let error = Target::open(path, options).err().unwrap().to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    };
    let plain = Options::default();
    assert!(say(&dir.path().join("none"), &plain).contains("no such file or device"));
    assert!(say(dir.path(), &plain).contains("is a folder"));
    assert!(say("/dev/null".as_ref(), &plain).contains("neither a file nor a block device"));
    let small = dir.path().join("small");
    std::fs::write(&small, [0; 100]).unwrap();
    assert!(say(&small, &plain).contains("has 100 bytes; expected at least one block"));
    let read_only_verify = Options { verify: Some(Verify::default()), ..Options::default() };
    assert!(say(&small, &read_only_verify).contains("writing must be allowed"));
}

#[test]
fn holes_and_odd_ends_are_noted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sparse");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len((4 << 20) + 100).unwrap();
    let target = open(&path, &Options::default());
    assert!(target.notes().iter().any(|n| n.contains("has holes")), "{:?}", target.notes());
    assert!(target.notes().iter().any(|n| n.contains("last 100 bytes")), "{:?}", target.notes());
    assert_eq!(target.facts().bytes, 4 << 20);
    let whole = open(&filled(dir.path(), "whole", 1 << 20), &Options::default());
    assert!(!whole.notes().iter().any(|n| n.contains("holes")), "{:?}", whole.notes());
}

#[test]
fn tasks_come_and_go_at_their_times_and_weights_change() {
    // In memory where there is such a folder: a busy disk may keep a read for longer than a task is there.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = filled(dir.path(), "disk", 8 << 20);
    let target = open(&path, &Options::default());
    let life = r#"
duration = "2s"
series = "100ms"
[[tenant]]
name = "a"
[[tenant.change]]
at = "600ms"
weight = 500
[[tenant]]
name = "b"
[[tenant.task]]
name = "late"
rw = "randread"
start = "1200ms"
[[tenant.task]]
name = "early"
rw = "randread"
stop = "500ms"
[[task]]
name = "always"
tenant = "a"
rw = "randread"
[[task.change]]
at = "700ms"
tenant = "b"
"#;
    // Where others want the machine, a task may get nothing of it in its time.
    let run = |_| run_on(&target, life, "bfq", CompletionMode::Interrupt).unwrap().result;
    let of = |r: &RunResult, name: &str| r.tasks.iter().find(|t| t.name == name).unwrap().count;
    let r = (0..10).map(run).find(|r| of(r, "late") > 0 && of(r, "early") > 0).expect("tasks that never run");
    assert_eq!(r.ledger.submitted, r.ledger.completed);
    // No task belongs to tenant `a` in the last quarter, long after the last task has left it.
    let a = &r.series.tenants[0].mb_per_s;
    let rest = a.len() * 3 / 4;
    assert!(a[0] > 0.0 && a.len() >= 4 && a[rest..].iter().all(|mb| *mb == 0.0), "{a:?}");
}
