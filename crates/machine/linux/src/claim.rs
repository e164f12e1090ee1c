//! Settings of a queue that are put back after a crash only while they are still ours.
//!
//! A program that changes settings for days shares the queue with administrators and udev. [`Claim`] notes in the journal what
//! it found and what it left in force; the next process puts the first back only where it still finds the second.

use crate::Error;
use crate::lock::Lock;
use crate::owned::Owned;
use crate::queue::Queue;
use crate::undo::{self, Action, Guard};

pub use crate::owned::Values;

/// A disk that one process at a time may change, with a journal entry while it has changed something.
#[derive(Debug)]
pub struct Claim {
    queue: Queue,
    guard: Option<Guard>,
    /// Released last.
    _lock: Option<Lock>,
}

impl Claim {
    /// Locks the disk. Refused while another process changes its settings.
    pub fn new(queue: &Queue) -> Result<Claim, Error> {
        Ok(Claim { queue: queue.clone(), guard: None, _lock: undo::lock(queue)? })
    }

    /// To be called before each change: what to put back, and what is in force after the change. `None` in `in_force`
    /// stands for values that are not known yet: then the scheduler's name alone decides, and `schedulers` has all names
    /// that it may have.
    pub fn note(&mut self, original: &Values, schedulers: &[String], in_force: Option<&Values>) -> Result<(), Error> {
        let owned = Owned::new(&self.queue, original, schedulers, in_force.cloned().unwrap_or_default());
        let action = Action::restore_owned(owned);
        match &self.guard {
            Some(guard) => guard.replace(action),
            None => self.guard = Some(Guard::new(action, || Ok(()))?),
        }
        Ok(())
    }

    /// Makes a change that was noted. A signal that puts everything back waits for it.
    pub fn change<T>(&self, change: impl FnOnce() -> T) -> T {
        match &self.guard {
            Some(guard) => guard.change(change),
            None => change(),
        }
    }

    /// Nothing that this process changed is in force any more, or it is another user's now: nothing is put back later.
    pub fn release(&mut self) {
        if let Some(guard) = self.guard.take() {
            guard.forget();
        }
    }
}
