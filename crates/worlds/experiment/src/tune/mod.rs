//! The search for better settings of schedulers, in any world.
//!
//! A [`Tuner`] is the search without a loop: it names trials, which may run anywhere, and takes their results. [`tune`] is the loop on
//! this machine; [`run_trial`] runs a trial that came as text, such as on a cluster.

mod device_search;
mod space;
mod trial;
mod tuner;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dumbwaiter_advise::tune::Tuning;
use dumbwaiter_block::Nanos;
use dumbwaiter_scenario::SchedulerSpec;

pub use trial::run_trial;
pub use tuner::{Tuner, TunerTrial};

use crate::{Cell, Control, Experiment, Failure, Finished, Matrix, World};

/// How much a search may do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    /// Time that all runs cover together, warm-ups included; several devices share it. Virtual in a simulation, so that the
    /// result does not depend on the machine. `None`: a fixed number of candidates.
    pub runs: Option<Nanos>,
    /// Time on the clock after which the search ends with the best so far.
    pub clock: Option<Duration>,
}

/// Of the time on the clock, tenths that runs on a drive may cover. They take as long as they cover, and some time between them; what is
/// left confirms the result.
const RUNS_TENTHS: u64 = 7;

impl Budget {
    /// On a real drive, where `clock` also bounds the runs unless `runs` does.
    pub fn on_drive(runs: Option<Nanos>, clock: Option<Duration>) -> Budget {
        let of_clock = clock.map(|clock| Nanos(clock.as_nanos() as u64 / 10 * RUNS_TENTHS));
        Budget { runs: runs.or(of_clock), clock }
    }
}

/// Options of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TuneOptions {
    /// The schedulers whose settings are searched; settings that they have stay as they are. Empty: those of the scenario that a
    /// kernel offers.
    pub schedulers: Vec<SchedulerSpec>,
    /// How much it may do.
    pub budget: Budget,
    /// Part of the throughput that half the latency is worth; `None`: the goal's.
    pub rate: Option<f64>,
    /// The scheduler that is set; `None`: the drive's, the first that is searched in a simulation, or the kernel's default.
    pub incumbent: Option<String>,
}

/// A search's document, and why it ended early if a run failed.
pub struct Tuned {
    /// The result.
    pub tuning: Tuning,
    /// The failure of a run.
    pub failure: Option<Failure>,
}

/// Searches better settings on each device of the experiment. The seed is the scenario's; results do not depend on the number of jobs.
///
/// # Errors
/// An experiment that cannot run, or one that ended before the defaults had run.
pub fn tune(
    experiment: &Experiment,
    options: &TuneOptions,
    world: &dyn World,
    control: &Control,
) -> Result<Tuned, Failure> {
    let mut tuner = Tuner::new(experiment, options, world, control)?;
    let (timed_out, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let failure = std::thread::scope(|scope| {
        if let Some(limit) = options.budget.clock {
            let (timed_out, ended) = (&timed_out, &ended);
            scope.spawn(move || end_after(limit, control, timed_out, ended));
        }
        let failure = run(&mut tuner, world, control);
        ended.store(true, Ordering::Relaxed);
        failure
    })?;
    let early = match (&failure, timed_out.load(Ordering::Relaxed), control.cancelled()) {
        (Some(_), ..) => Some("a run failed"),
        (None, true, _) => Some("time is over"),
        (None, false, true) => Some("interrupted"),
        (None, false, false) => None,
    };
    let concluded = world.conclude(&mut [], control)?;
    match (tuner.finish(early, concluded), failure) {
        (Ok(tuning), failure) => Ok(Tuned { tuning, failure }),
        (Err(_), Some(failure)) => Err(failure),
        (Err(nothing), None) => Err(nothing),
    }
}

/// Cancels the runs after `limit`.
fn end_after(limit: Duration, control: &Control, timed_out: &AtomicBool, ended: &AtomicBool) {
    let began = Instant::now();
    while !ended.load(Ordering::Relaxed) {
        if began.elapsed() >= limit && !control.cancelled() {
            timed_out.store(true, Ordering::Relaxed);
            control.cancel.store(true, Ordering::Relaxed);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs a search to its end, or until it is cancelled or a run fails.
fn run(tuner: &mut Tuner, world: &dyn World, control: &Control) -> Result<Option<Failure>, Failure> {
    loop {
        let trials = tuner.next_trials();
        if trials.is_empty() {
            return Ok(None);
        }
        let cells: Vec<Cell> = trials.iter().map(|trial| tuner.cell(trial)).collect();
        if let Some(Err(refusal)) = cells.iter().map(|cell| world.supports(cell)).find(Result::is_err) {
            return Err(Failure::refused(refusal.0));
        }
        let mut matrix = Matrix::new(cells);
        let finished = matrix.run(world, control);
        for (i, trial) in trials.iter().enumerate() {
            if let Some(result) = matrix.result(i) {
                tuner.record(trial, result.run.clone());
            }
        }
        match finished {
            Finished::All => {}
            Finished::Cancelled => return Ok(None),
            Finished::Failed(failure) => return Ok(Some(failure)),
        }
    }
}
