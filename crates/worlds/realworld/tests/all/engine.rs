//! Our schedulers on a file.

use std::path::PathBuf;

use dumbwaiter_advise::Goal;
use dumbwaiter_experiment::{Cell, Control, DbBench, Ending, Experiment, FailureKind, Stack, Work, World};
use dumbwaiter_realworld::{
    DeviceOptions, DeviceUnderTest, Engine, Kernel, KernelOptions, Via, WorkerProgram, compare,
};
use dumbwaiter_scenario::Scenario;

use crate::{READS, cell, folder, load, options};

fn file(dir: &tempfile::TempDir) -> PathBuf {
    let path = dir.path().join("disk");
    std::fs::write(&path, vec![7; 1 << 20]).unwrap();
    path
}

fn worker() -> WorkerProgram {
    WorkerProgram { path: "/nowhere/worker".into(), args: Vec::new() }
}

#[test]
fn a_cell_runs_to_its_end_and_a_cancelled_one_says_so() {
    let dir = folder();
    let device = DeviceUnderTest::open(&file(&dir), options()).unwrap();
    let engine = Engine::new(&device).unwrap();
    let load = load(READS);
    let cell = cell(&load, Stack::Engine, "mq-deadline");
    engine.supports(&cell).unwrap();
    let control = Control::default();
    let result = engine.run(&cell, &control).unwrap();
    assert_eq!((result.run.completed, result.run.via.as_str(), result.run.world.as_str()), (256, "engine", "real"));
    assert!(!result.cancelled && result.failure.is_none());
    assert!(result.run.started_unix_ns < result.run.ended_unix_ns);
    control.cancel.store(true, std::sync::atomic::Ordering::Relaxed);
    let long =
        crate::load(&READS.replace("time_based = false\n", "").replace("replicates", "duration = \"60s\"\nreplicates"));
    assert!(engine.run(&Cell { work: Work::Scenario(long), ..cell }, &control).unwrap().cancelled);
    let mut runs = [result.run];
    assert_eq!(engine.conclude(&mut runs, &control).unwrap(), Vec::<String>::new());
}

#[test]
fn a_world_refuses_what_it_cannot_run_and_says_what_would_allow_it() {
    let dir = folder();
    let path = file(&dir);
    let device = DeviceUnderTest::open(&path, options()).unwrap();
    let engine = Engine::new(&device).unwrap();
    let refused = |text: &str| engine.supports(&cell(&load(text), Stack::Engine, "none")).unwrap_err().0;
    assert!(refused(&READS.replace("randread", "randwrite")).contains("--destroy"));
    let database = Work::DbBench(DbBench { threads: 1, seconds: 1 });
    let database = Cell { work: database, ..cell(&load(READS), Stack::Engine, "none") };
    assert!(engine.supports(&database).unwrap_err().0.contains("the kernel's schedulers only"));
    let kernel = Kernel::new(&device, KernelOptions::new(worker())).err().unwrap();
    assert_eq!(kernel.kind, FailureKind::Refused);
    assert!(kernel.reason.contains("belong to block devices"), "{kernel}");
    let confirmed = Some("/another/path".into());
    let wrong = DeviceUnderTest::open(&path, DeviceOptions { allow_writes: true, confirmed, ..options() });
    assert!(wrong.err().unwrap().reason.contains("/another/path"));
    assert_eq!(std::fs::read(&path).unwrap(), vec![7; 1 << 20], "not a byte has changed");
}

#[test]
fn a_comparison_is_one_call() {
    let dir = folder();
    let device = DeviceUnderTest::open(&file(&dir), options()).unwrap();
    let scenario = Scenario::from_toml(READS, "test").unwrap();
    let experiment = Experiment {
        scenario,
        goal: Goal::default(),
        notes: vec!["a remark".into()],
        drives: Vec::new(),
        finished: Vec::new(),
        command: String::new(),
        until: None,
        asked: Default::default(),
    };
    let control = Control::default();
    let done = compare(&experiment, &device, None, worker(), &control).unwrap();
    assert_eq!(done.ending, Ending::Complete);
    let schedulers: Vec<&str> = done.document.runs.iter().map(|run| run.scheduler.as_str()).collect();
    assert_eq!(schedulers, ["none", "mq-deadline"]);
    assert_eq!(done.document.notes[0], "a remark");
    let refused = compare(&experiment, &device, Some(Via::Both), worker(), &control).err().unwrap();
    assert!(refused.kind == FailureKind::Refused && refused.reason.contains("leave out --via"), "{refused}");
    let writes = Scenario::from_toml(&READS.replace("randread", "randrw"), "test").unwrap();
    let experiment = Experiment { scenario: writes, ..experiment };
    let refused = compare(&experiment, &device, None, worker(), &control).err().unwrap();
    assert!(refused.reason.contains("task `t` writes"), "{refused}");
}

#[test]
fn io_max_and_io_latency_are_kept_on_a_real_file() {
    let dir = folder();
    let device = DeviceUnderTest::open(&file(&dir), options()).unwrap();
    let engine = Engine::new(&device).unwrap();
    let text = READS.replace("time_based = false\n", "").replace("replicates", "duration = \"2s\"\nreplicates");
    let text = text.replace("name = \"a\"\n", "name = \"a\"\nio_max = \"riops=200\"\nio_latency = \"1s\"\n");
    let cell = cell(&load(&text), Stack::Engine, "none");
    engine.supports(&cell).unwrap();
    let result = engine.run(&cell, &Control::default()).unwrap();
    // What goes in a tenth of a second goes at once, and a busy machine is late.
    assert!((300..=440).contains(&result.run.completed), "{} reads in 2 s", result.run.completed);
}
