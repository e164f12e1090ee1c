//! Several rings for one run: together they do and count what one would, and what ends one ends all.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::drive::common::{filled, open, run_on};
use dumbwaiter_experiment::Control;
use dumbwaiter_realworld::drive::{CompletionMode, DriveRun, Error, Options, Rings, Verify};

/// Two tasks of two tenants, each of which reads its half of 8 MiB once.
const HALVES: &str = r#"
[[tenant]]
name = "low"
weight = 100
[[tenant]]
name = "high"
weight = 300
[[task]]
name = "first"
tenant = "low"
rw = "randread"
bs = "4k"
time_based = false
size = "4m"
iodepth = 16
ioengine = "io_uring"
[[task]]
name = "second"
tenant = "high"
rw = "randread"
bs = "4k"
time_based = false
offset = "4m"
size = "4m"
iodepth = 4
ioengine = "io_uring"
"#;
const BLOCKS: u64 = 1024;

fn asked(rings: Rings) -> Options {
    Options { rings, ..Options::default() }
}

fn rings_of(cell: &DriveRun) -> f64 {
    cell.result.device_counters["rings"]
}

fn two_cpus() -> bool {
    let enough = std::thread::available_parallelism().is_ok_and(|n| n.get() >= 2);
    if !enough {
        eprintln!("skipped: several rings need several CPUs");
    }
    enough
}

fn endless(text: &str) -> String {
    format!("duration = \"60s\"\n{}", text.replace("time_based = false\n", ""))
}

#[test]
fn two_rings_serve_and_count_what_one_does() {
    if !two_cpus() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), "disk", 8 << 20);
    for (rings, number) in [(Rings::Auto, 2.0), (Rings::PerCore, 2.0), (Rings::Number(2), 2.0), (Rings::Number(1), 1.0)]
    {
        let cell = run_on(&open(&path, &asked(rings)), HALVES, "none", CompletionMode::Interrupt).unwrap();
        let r = &cell.result;
        assert_eq!((rings_of(&cell), &cell.failure), (number, &None), "{rings:?}");
        assert!(!cell.notes.iter().any(|n| n.contains("ring")), "{:?}", cell.notes);
        assert_eq!((r.ledger.submitted, r.ledger.completed, r.errors), (2 * BLOCKS, 2 * BLOCKS, 0), "{rings:?}");
        assert_eq!((r.completed, r.read.count, r.ledger.outstanding), (2 * BLOCKS, 2 * BLOCKS, 0), "{rings:?}");
        assert_eq!(r.tenants.iter().map(|t| t.count).collect::<Vec<_>>(), [BLOCKS, BLOCKS], "{rings:?}");
        assert_eq!(
            r.tasks.iter().map(|t| (t.name.as_str(), t.count)).collect::<Vec<_>>(),
            [("first", BLOCKS), ("second", BLOCKS)]
        );
        assert!((r.tenants[0].share, r.tenants[1].ideal_share) == (0.5, 0.75), "{rings:?}");
        assert!(r.latency_us.p50 > 0.0 && r.cpu.us_per_io > 0.0 && r.depth.device.mean > 0.0);
        assert_eq!(r.depth.device.distribution.is_empty(), number > 1.0, "{rings:?}");
    }
}

#[test]
fn other_completion_modes_have_several_rings_too() {
    if !two_cpus() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), "disk", 8 << 20);
    for (name, sqpoll) in [("hybrid-learned", false), ("hybrid-fixed:20us", false), ("interrupt", true)] {
        let target = open(&path, &Options { sqpoll, ..asked(Rings::PerCore) });
        let cell = run_on(&target, HALVES, "none", CompletionMode::parse(name).unwrap()).unwrap();
        assert_eq!((rings_of(&cell), cell.result.completed, cell.failure), (2.0, 2 * BLOCKS, None), "{name}");
    }
}

/// One ring, and why in a line if several were asked for.
fn one_ring(path: &Path, text: &str, scheduler: &str, options: &Options, why: &str) -> DriveRun {
    let run = |rings| {
        run_on(&open(path, &Options { rings, ..options.clone() }), text, scheduler, CompletionMode::Interrupt).unwrap()
    };
    let told = |cell: &DriveRun| cell.notes.iter().filter(|n| n.contains("ring")).cloned().collect::<Vec<_>>();
    let cell = run(Rings::Auto);
    assert_eq!((rings_of(&cell), told(&cell)), (1.0, vec![]), "nobody asked");
    let cell = run(Rings::PerCore);
    let notes = told(&cell);
    assert_eq!((rings_of(&cell), notes.len()), (1.0, 1), "{notes:?}");
    assert!(notes[0].starts_with(&format!("{scheduler}: one ring for all")) && notes[0].contains(why), "{notes:?}");
    cell
}

#[test]
fn what_needs_one_ring_gets_one_and_a_note() {
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), "disk", 8 << 20);
    let plain = Options::default();
    for scheduler in ["bfq", "kyber", "mq-deadline", "noop"] {
        let cell = one_ring(&path, HALVES, scheduler, &plain, "has to see every request");
        assert_eq!(cell.result.completed, 2 * BLOCKS, "{scheduler}");
        assert_eq!(cell.result.scheduler_counters.contains_key("idle_waits"), scheduler == "bfq");
    }
    let verify = Options { allow_writes: true, verify: Some(Verify::default()), ..Options::default() };
    one_ring(&path, HALVES, "none", &verify, "verify");
    one_ring(&path, &format!("limit = 500\n{HALVES}"), "none", &plain, "limit");
    one_ring(&path, &format!("{HALVES}stage = 1\n"), "none", &plain, "stage");
    one_ring(&path, &format!("duration = \"30ms\"\n{HALVES}stop = \"20ms\"\n"), "none", &plain, "change");
}

#[test]
fn there_are_no_more_rings_than_cpus_that_tasks_run_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), "disk", 8 << 20);
    let one_task = HALVES.split_once("[[task]]\nname = \"second\"").unwrap().0;
    let cell = run_on(&open(&path, &asked(Rings::Number(8))), one_task, "none", CompletionMode::Interrupt).unwrap();
    assert_eq!((rings_of(&cell), cell.result.completed), (1.0, BLOCKS));
    assert!(cell.notes.iter().any(|n| n.contains("rings: 1, not 8") && n.contains("run on: 1,")), "{:?}", cell.notes);
    let shallow = format!("queue_depth = 1\n{HALVES}");
    let cell = run_on(&open(&path, &asked(Rings::Number(2))), &shallow, "none", CompletionMode::Interrupt).unwrap();
    assert_eq!((rings_of(&cell), cell.result.completed), (1.0, 2 * BLOCKS));
}

#[test]
fn an_error_in_one_ring_ends_all() {
    if !two_cpus() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), "disk", 8 << 20);
    let target = open(&path, &asked(Rings::Number(2)));
    let scenario = crate::drive::common::scenario(&endless(HALVES));
    let prepared = dumbwaiter_scenario::load::Prepared::new(&scenario).unwrap();
    let choice = dumbwaiter_schedulers::Choice::parse("none").unwrap();
    let control = Control::default();
    let cell = std::thread::scope(|scope| {
        scope.spawn(|| {
            while control.finished.load(Ordering::Relaxed) < 100 {
                std::thread::sleep(Duration::from_millis(5));
            }
            // The half of the second task only.
            std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4 << 20).unwrap();
        });
        dumbwaiter_realworld::drive::run(&prepared, &target, &choice, CompletionMode::Interrupt, 0, &control).unwrap()
    });
    let failure = cell.failure.clone().unwrap();
    assert!(failure.contains("cut off"), "{failure}");
    assert_eq!(rings_of(&cell), 2.0);
    let (r, l) = (&cell.result, &cell.result.ledger);
    assert!(r.duration_s < 59.0, "the first failure ends the run");
    assert_eq!((l.submitted, l.failed), (l.completed, r.errors));
    assert!(cell.failures["short"] >= 1, "{:?}", cell.failures);
    // The I/Os of each of them are counted, though one ends early.
    assert_eq!(control.finished.load(Ordering::Relaxed), r.completed);
}

#[test]
fn a_ring_that_cannot_go_on_ends_all_with_its_error() {
    if !two_cpus() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), "disk", 8 << 20);
    let trace = dir.path().join("trace.iolog");
    std::fs::write(&trace, "fio version 2 iolog\nf add\nf open\nf read 0 4096\nf write 8192 4096\nf close\n").unwrap();
    let one_task = HALVES.split_once("[[task]]\nname = \"second\"").unwrap().0;
    let text =
        format!("{}[[task]]\nname = \"t\"\ntenant = \"high\"\ntrace = \"{}\"\n", endless(one_task), trace.display());
    let began = Instant::now();
    let error = run_on(&open(&path, &asked(Rings::Number(2))), &text, "none", CompletionMode::Interrupt).err().unwrap();
    assert!(matches!(&error, Error::WritesNotAllowed { task, .. } if task == "t"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(59), "the other ring ends with it");
}

#[test]
fn all_rings_end_when_they_are_cancelled_and_tell_how_far_they_are() {
    if !two_cpus() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), "disk", 8 << 20);
    let target = open(&path, &asked(Rings::Number(2)));
    let scenario = crate::drive::common::scenario(&endless(HALVES));
    let prepared = dumbwaiter_scenario::load::Prepared::new(&scenario).unwrap();
    let choice = dumbwaiter_schedulers::Choice::parse("none").unwrap();
    let control = Control::default();
    let began = Instant::now();
    let cell = std::thread::scope(|scope| {
        scope.spawn(|| {
            while control.finished.load(Ordering::Relaxed) < 1000 {
                std::thread::sleep(Duration::from_millis(5));
            }
            control.cancel.store(true, Ordering::Relaxed);
        });
        dumbwaiter_realworld::drive::run(&prepared, &target, &choice, CompletionMode::Interrupt, 0, &control).unwrap()
    });
    let took = began.elapsed();
    assert!(cell.cancelled && cell.failure.is_none());
    assert_eq!(control.finished.load(Ordering::Relaxed), cell.result.completed);
    let told = Duration::from_nanos(control.elapsed_ns.load(Ordering::Relaxed));
    assert!(!told.is_zero() && told <= took, "{told:?} of {took:?}: the time of both rings is the same");
}
