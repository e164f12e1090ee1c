//! Steering and watching runs from outside.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dumbwaiter_block::Nanos;

use crate::{Cell, CellResult};

/// A step of an experiment, for progress displays and callbacks.
pub enum Step<'a> {
    /// The matrix is known.
    Planned {
        /// Runs that will be made.
        cells: u64,
        /// Length of one run, if known beforehand.
        each: Option<Nanos>,
    },
    /// A run begins.
    Began(&'a Cell),
    /// A run ended.
    Finished(&'a Cell, &'a CellResult),
}

type Observer = Box<dyn Fn(&Step<'_>) + Send + Sync>;

/// Ends runs early and shows how far they are. Shared by every run of an experiment.
#[derive(Default)]
pub struct Control {
    /// Set it to end all runs early; finished runs count.
    pub cancel: AtomicBool,
    /// Time that the runs have covered so far, all runs together, in nanoseconds: virtual in a simulation.
    pub elapsed_ns: AtomicU64,
    /// I/Os finished so far, all runs together.
    pub finished: AtomicU64,
    observer: Option<Observer>,
}

impl Control {
    /// A control that calls `observer` at each step. It may be called from several threads.
    pub fn observed(observer: impl Fn(&Step<'_>) + Send + Sync + 'static) -> Control {
        Control { observer: Some(Box::new(observer)), ..Control::default() }
    }

    /// Is [`Control::cancel`] set?
    pub fn cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    pub(crate) fn step(&self, step: &Step<'_>) {
        if let Some(observer) = &self.observer {
            observer(step);
        }
    }
}
