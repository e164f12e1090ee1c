//! How much a reproduction may cost, and the runs it asks for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use dumbwaiter_experiment::Control;
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::Scenario;
use dumbwaiter_schedulers::Choice;
use dumbwaiter_sim::Prepared;

use crate::{Device, Error};

/// How much work a figure may be.
pub struct Effort<'a> {
    /// Shorter runs and fewer replicates.
    pub quick: bool,
    /// Runs at the same time; results do not depend on it.
    pub jobs: usize,
    /// Watched and steered from outside.
    pub control: &'a Control,
    /// Takes the place of the models.
    pub device: Option<&'a dyn Device>,
}

/// How far a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Runs finished.
    pub done: usize,
    /// Runs in all.
    pub of: usize,
}

/// One run to be made.
#[derive(Clone, Debug)]
pub struct Case {
    /// Load, host and length. Its lists of devices and schedulers are not looked at.
    pub scenario: Scenario,
    /// The device, as `--device` takes it.
    pub device: String,
    /// The scheduler, as `--schedulers` takes it.
    pub scheduler: String,
    /// Number of the replicate, from 0.
    pub replicate: u32,
}

impl Effort<'_> {
    /// `full`, or `quick` where a quick look was asked for.
    pub fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Runs all cases, several at a time, and answers in their order.
    pub fn simulate(&self, cases: &[Case], progress: &mut dyn FnMut(Progress)) -> Result<Vec<RunResult>, Error> {
        let mut models = BTreeMap::new();
        for case in cases {
            if !models.contains_key(&case.device) {
                let model = dumbwaiter_devices::load(&case.device).map_err(|e| Error::Case(e.to_string()))?;
                models.insert(case.device.clone(), model);
            }
        }
        let next = AtomicUsize::new(0);
        let (sender, receiver) = mpsc::channel();
        let mut results: Vec<Option<RunResult>> = cases.iter().map(|_| None).collect();
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.clamp(1, cases.len().max(1)) {
                let (sender, next, models, control) = (sender.clone(), &next, &models, self.control);
                scope.spawn(move || {
                    while !control.cancel.load(Ordering::Relaxed) {
                        let i = next.fetch_add(1, Ordering::Relaxed);
                        let Some(case) = cases.get(i) else { break };
                        // Nobody listens any more once another run has failed.
                        if sender.send((i, one(case, &models[&case.device], control))).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            for (done, (i, result)) in receiver.iter().enumerate() {
                results[i] = Some(result?);
                progress(Progress { done: done + 1, of: cases.len() });
            }
            Ok::<(), Error>(())
        })?;
        results.into_iter().collect::<Option<Vec<_>>>().ok_or(Error::Cancelled)
    }
}

fn one(case: &Case, model: &dumbwaiter_devices::DeviceModel, control: &Control) -> Result<RunResult, Error> {
    let choice = Choice::parse(&case.scheduler).map_err(|e| Error::Case(e.to_string()))?;
    let cell = Prepared::new(&case.scenario)?.run(model, &choice, case.replicate, control)?;
    if cell.cancelled { Err(Error::Cancelled) } else { Ok(cell.run) }
}
