//! The loop over cells and the comparison, in fake worlds.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use dumbwaiter_advise::Goal;
use dumbwaiter_block::{Nanos, Op, TaskId, TenantId};
use dumbwaiter_experiment::{
    About, Cell, CellResult, Concurrency, Control, Ending, Experiment, Failure, FailureKind, Finished, Matrix, Refusal,
    SideBySide, Stack, Step, World, compare,
};
use dumbwaiter_measure::{Completed, Recorder, RecorderConfig, RunFacts, RunResult, TaskSpec, TenantSpec};
use dumbwaiter_scenario::Scenario;

/// A world whose latency depends on the scheduler only.
struct Fake {
    stack: Stack,
    concurrency: Concurrency,
    refuses: fn(&Cell) -> Option<String>,
    /// The run with this number (from 0) breaks off.
    breaks_at: Option<u32>,
    begun: AtomicU32,
    order: Mutex<Vec<String>>,
    concluded: AtomicBool,
}

fn fake(stack: Stack, concurrency: Concurrency) -> Fake {
    Fake {
        stack,
        concurrency,
        refuses: |_| None,
        breaks_at: None,
        begun: AtomicU32::new(0),
        order: Mutex::default(),
        concluded: AtomicBool::new(false),
    }
}

fn figures(cell: &Cell, via: &str) -> RunResult {
    let us = if cell.scheduler.name == "none" { 100 } else { 200 } + u64::from(cell.replicate);
    let mut recorder = Recorder::new(RecorderConfig {
        warmup: Nanos::ZERO,
        interval: Nanos::from_secs(1),
        tenants: vec![TenantSpec { name: "t".into(), weight: 100, parent: None, focus: false }],
        tasks: vec![TaskSpec { name: "t".into(), tenant: TenantId(0), focus: None, write_back: false }],
    });
    for i in 0..1000 {
        let submit = Nanos::from_us(i * 500);
        let done = submit + Nanos::from_us(us);
        recorder.record(&Completed {
            op: Op::Read,
            task: TaskId(0),
            tenant: TenantId(0),
            sector: 0,
            bytes: 4096,
            submit,
            insert: submit,
            issue: submit,
            device_done: done,
            complete: done,
        });
    }
    let facts = RunFacts {
        device: cell.device.clone(),
        scheduler: cell.scheduler.to_string(),
        completion: cell.completion.to_string(),
        via: via.into(),
        replicate: cell.replicate,
        seed: u64::from(cell.replicate),
        ..RunFacts::default()
    };
    recorder.finish(Nanos::from_secs(1), facts)
}

impl World for Fake {
    fn about(&self) -> About {
        About { name: "fake".into(), stacks: vec![self.stack], notes: vec!["a fake".into()], ..About::default() }
    }

    fn concurrency(&self) -> Concurrency {
        self.concurrency
    }

    fn supports(&self, cell: &Cell) -> Result<(), Refusal> {
        (self.refuses)(cell).map_or(Ok(()), |why| Err(Refusal(why)))
    }

    fn run(&self, cell: &Cell, _control: &Control) -> Result<CellResult, Failure> {
        if self.breaks_at == Some(self.begun.fetch_add(1, Ordering::Relaxed)) {
            return Err(Failure::device("the cable fell out"));
        }
        self.order.lock().unwrap().push(format!("{}{}", cell.scheduler, cell.replicate));
        Ok(CellResult::of(figures(cell, self.stack.name())))
    }

    fn conclude(&self, _runs: &mut [RunResult], _control: &Control) -> Result<Vec<String>, Failure> {
        self.concluded.store(true, Ordering::Relaxed);
        Ok(vec!["concluded".into()])
    }
}

fn experiment() -> Experiment {
    let text = "devices = [\"null:0us\"]\nschedulers = [\"none\", \"kyber\"]\nduration = \"1s\"\nreplicates = 3\n\
                [[task]]\nname = \"t\"\nrw = \"randread\"\nbs = \"4k\"\n";
    let scenario = Scenario::from_toml(text, "test").unwrap();
    Experiment {
        scenario,
        goal: Goal::default(),
        notes: vec!["read from a test".into()],
        drives: Vec::new(),
        finished: Vec::new(),
        command: String::new(),
        until: None,
        asked: Default::default(),
    }
}

#[test]
fn a_shared_device_runs_replicate_after_replicate_each_begun_elsewhere() {
    let world = fake(Stack::Kernel, Concurrency::Rotation);
    let done = compare(&experiment(), &world, &Control::default()).unwrap();
    assert_eq!(*world.order.lock().unwrap(), ["none0", "kyber0", "kyber1", "none1", "none2", "kyber2"]);
    assert_eq!((done.ending, done.document.runs.len()), (Ending::Complete, 6));
    assert_eq!(done.document.notes, ["read from a test", "a fake", "concluded"]);
    assert!(world.concluded.load(Ordering::Relaxed));
}

#[test]
fn independent_runs_give_one_document_with_any_number_of_jobs() {
    let json = |jobs| {
        let world = fake(Stack::Simulated, Concurrency::Independent(jobs));
        compare(&experiment(), &world, &Control::default()).unwrap().document.to_json()
    };
    assert_eq!(json(1), json(7));
}

#[test]
fn a_failure_ends_the_runs_and_keeps_what_was_finished() {
    let world = Fake { breaks_at: Some(3), ..fake(Stack::Kernel, Concurrency::Rotation) };
    let done = compare(&experiment(), &world, &Control::default()).unwrap();
    assert_eq!(done.document.runs.len(), 3);
    assert_eq!(done.ending, Ending::Failed(Failure::device("none: the cable fell out")));
    assert!(done.document.notes.contains(&"ended early: 3 of 6 runs finished".to_owned()));
    assert!(world.concluded.load(Ordering::Relaxed), "settings are put back whatever happens");
    let world = Fake { breaks_at: Some(0), ..fake(Stack::Kernel, Concurrency::Rotation) };
    let failure = compare(&experiment(), &world, &Control::default()).err().unwrap();
    assert_eq!((failure.kind, failure.reason.as_str()), (FailureKind::Device, "none: the cable fell out"));
}

#[test]
fn a_matrix_goes_on_where_it_was_ended() {
    let load = std::sync::Arc::new(dumbwaiter_scenario::load::Prepared::new(&experiment().scenario).unwrap());
    let cells = || -> Vec<Cell> {
        let of = |name: &str| Cell::of(&load, "d", Stack::Kernel, dumbwaiter_scenario::SchedulerSpec::named(name));
        (0..3).flat_map(|replicate| ["none", "kyber"].map(|name| Cell { replicate, ..of(name) })).collect()
    };
    let world = Fake { breaks_at: Some(2), ..fake(Stack::Kernel, Concurrency::Rotation) };
    let mut matrix = Matrix::new(cells());
    assert!(matches!(matrix.run(&world, &Control::default()), Finished::Failed(_)));
    assert_eq!((0..matrix.cells().len()).filter(|cell| matrix.result(*cell).is_some()).count(), 2);
    // A later session restores what the first one finished.
    let mut resumed = Matrix::new(cells());
    for i in 0..matrix.cells().len() {
        if let Some(result) = matrix.result(i) {
            resumed.restore(i, result.clone());
        }
    }
    let world = fake(Stack::Kernel, Concurrency::Rotation);
    assert_eq!(resumed.run(&world, &Control::default()), Finished::All);
    assert_eq!(world.begun.load(Ordering::Relaxed), 4, "only the missing ones");
    assert_eq!(resumed.run(&world, &Control::default()), Finished::All);
    assert_eq!(world.begun.load(Ordering::Relaxed), 4);
}

#[test]
fn cancelling_ends_the_matrix_and_says_so() {
    let world = fake(Stack::Kernel, Concurrency::Rotation);
    let control = Control::default();
    control.cancel.store(true, Ordering::Relaxed);
    let failure = compare(&experiment(), &world, &control).err().unwrap();
    assert_eq!(failure.kind, FailureKind::Interrupted);
}

#[test]
fn what_another_stack_runs_is_not_missed() {
    let lacks_kyber = |cell: &Cell| (cell.scheduler.name == "kyber").then(|| "not in this kernel: kyber".to_owned());
    let kernel = Fake { refuses: lacks_kyber, ..fake(Stack::Kernel, Concurrency::Rotation) };
    let engine = fake(Stack::Engine, Concurrency::Rotation);
    let both = SideBySide(vec![&engine, &kernel]);
    let done = compare(&experiment(), &both, &Control::default()).unwrap();
    assert_eq!(done.document.runs.len(), 9);
    assert!(!done.document.notes.iter().any(|note| note.contains("not in this kernel")));
    let alone = compare(&experiment(), &kernel, &Control::default()).unwrap();
    assert_eq!(alone.document.notes.iter().filter(|n| *n == "not in this kernel: kyber").count(), 1);
    let nothing = Fake { refuses: |_| Some("no ring".into()), ..fake(Stack::Engine, Concurrency::Rotation) };
    let failure = compare(&experiment(), &nothing, &Control::default()).err().unwrap();
    assert_eq!((failure.kind, failure.reason.as_str()), (FailureKind::Refused, "no ring"));
}

#[test]
fn an_observer_sees_every_step() {
    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let control = Control::observed(|step| {
        SEEN.lock().unwrap().push(match step {
            Step::Planned { cells, each } => format!("{cells} of {}", each.unwrap()),
            Step::Began(cell) => format!("{cell} begins"),
            Step::Finished(cell, result) => format!("{cell}: {}", result.run.completed),
        });
    });
    compare(&experiment(), &fake(Stack::Kernel, Concurrency::Rotation), &control).unwrap();
    let seen = SEEN.lock().unwrap();
    assert_eq!(seen[..3], ["6 of 1.000 s", "none begins", "none: 1000"]);
    assert_eq!(seen.len(), 13);
}
