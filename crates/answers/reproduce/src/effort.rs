//! How much a reproduction may cost, and where its runs are made.

use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};

use dumbwaiter_block::Nanos;
use dumbwaiter_experiment::{Control, Failure, World};
use dumbwaiter_scenario::Scenario;

use crate::{Error, FigureResult};

/// How much work a figure may be, and the world that runs it: the models, or a real device.
pub struct Effort<'a> {
    /// Shorter runs and fewer replicates.
    pub quick: bool,
    pub(crate) on_device: OnDevice,
    pub(crate) world: &'a dyn World,
    pub(crate) control: &'a Control,
    failure: Mutex<Option<Failure>>,
}

/// Options of a user for figures on a real device.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnDevice {
    /// Runs of each case; a figure has its own number.
    pub replicates: Option<NonZeroU32>,
    /// Seed of what a figure draws, such as the order of phases.
    pub seed: u64,
    /// How long a phase lasts under the scheduler `none`; a figure has its own length.
    pub phase: Option<Nanos>,
}

impl OnDevice {
    /// The lengths that a phase may have.
    const PHASE: std::ops::RangeInclusive<Nanos> = Nanos::from_ms(10)..=Nanos::from_secs(3600);

    /// These options, if they are possible.
    ///
    /// # Errors
    /// A phase of another length than 10 ms to 1 h.
    pub fn new(replicates: Option<NonZeroU32>, seed: u64, phase: Option<Nanos>) -> Result<OnDevice, Error> {
        match phase.filter(|phase| !OnDevice::PHASE.contains(phase)) {
            Some(phase) => Err(Error::Case(format!("--phase {phase}: expected 10ms to 1h"))),
            None => Ok(OnDevice { replicates, seed, phase }),
        }
    }
}

/// One combination that a figure needs runs of.
#[derive(Clone, Debug)]
pub struct Case {
    /// Load, host and length. Its lists of devices and schedulers are ignored.
    pub scenario: Scenario,
    /// The device, as `--device` takes it; a real device takes its place.
    pub device: String,
    /// The scheduler, as `--schedulers` takes it.
    pub scheduler: String,
}

impl<'a> Effort<'a> {
    /// Figures in `world`, ended early by `control`.
    pub fn new(quick: bool, world: &'a dyn World, control: &'a Control) -> Effort<'a> {
        Effort { quick, on_device: OnDevice::default(), world, control, failure: Mutex::default() }
    }

    /// With what a user chose for a real device.
    pub fn on_device(self, on_device: OnDevice) -> Effort<'a> {
        Effort { on_device, ..self }
    }

    /// Why a real device ended a figure early, if it did. Nothing more can be run on it then.
    pub fn failure(&self) -> Option<Failure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn fail(&self, failure: Failure) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
    }

    /// Is it a real device?
    pub fn real(&self) -> bool {
        self.world.about().real
    }

    /// `full`, or `quick` where a quick look was asked for.
    pub fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Warm-up and length of a run, ms: those of the model, or what a real device needs.
    pub(crate) fn lengths(&self, warmup: u32, duration: u32) -> (u32, u32) {
        if self.real() { self.pick((300, 2000), (50, 250)) } else { (warmup, duration) }
    }

    /// Runs of each case: a real device is never twice the same.
    pub(crate) fn replicates(&self, model: u32) -> u32 {
        if self.real() { self.replicates_on_device(self.pick(3, 1)) } else { model }
    }

    /// The same on a real device, of a figure that has `own` there.
    pub(crate) fn replicates_on_device(&self, own: u32) -> u32 {
        self.on_device.replicates.map_or(own, NonZeroU32::get)
    }

    /// Has each run an energy?
    pub(crate) fn metered(&self) -> bool {
        self.world.about().no_energy.is_none()
    }

    /// Result of a figure of energies where a real device has no meter: the reason.
    pub(crate) fn without_meter(&self) -> Option<FigureResult> {
        let why = self.world.about().no_energy?;
        Some(FigureResult { notes: vec![format!("no meter, so no number ({why})")], ..FigureResult::default() })
    }

    /// The steps of an axis: every third for a quick look at a real device, which cannot be hurried.
    pub(crate) fn steps(&self, all: &[u32]) -> Vec<u32> {
        let every = if self.real() { self.pick(1, 3) } else { 1 };
        all.iter().copied().step_by(every).collect()
    }
}
