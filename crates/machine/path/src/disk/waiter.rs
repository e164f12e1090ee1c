//! How a disk waits: what it has learned about how long to sleep, to spin and to let completions gather.

use std::collections::VecDeque;

use dumbwaiter_block::{Nanos, RequestId, SECTOR_BYTES};

use super::in_device::{Held, InDevice};
use crate::completion::CompletionSupport;
use crate::hybrid::Sleeper;
use crate::options::{Batching, batch};
use crate::ring::RingMode;
use crate::rings::Rings;
use crate::spinner::Spinner;

/// The part of a new service time in the mean: one over this.
const SMOOTHING: u64 = 64;

pub(super) struct Waiter {
    completion: CompletionSupport,
    batching: Batching,
    /// Mean service time, ns.
    service: u64,
    sleeper: Option<Sleeper>,
    /// Requests for which hybrid polling has not slept yet, oldest first: until when, and their numbers.
    to_sleep: VecDeque<(Nanos, RequestId, u64)>,
    /// For a device that a thread of this machine serves.
    spinner: Option<Spinner>,
    /// System calls that waited.
    pub(super) waits: u64,
}

impl Waiter {
    pub(super) fn new(completion: CompletionSupport, batching: Batching, spins: bool) -> Waiter {
        Waiter {
            sleeper: completion.sleep.map(Sleeper::new),
            completion,
            batching,
            service: 0,
            to_sleep: VecDeque::new(),
            spinner: spins.then(Spinner::new),
            waits: 0,
        }
    }

    /// A transfer goes to the device.
    pub(super) fn issued(&mut self, now: Nanos, id: RequestId, held: &InDevice) {
        if let Some(sleeper) = &mut self.sleeper {
            let sleep = sleeper.after_issue(now, held.op, (held.bytes / SECTOR_BYTES) as u32);
            if sleep > Nanos::ZERO {
                self.to_sleep.push_back((now + sleep, id, held.number));
            }
        }
    }

    /// A request was served.
    pub(super) fn served(&mut self, now: Nanos, held: &InDevice) {
        if !held.op.carries_data() {
            return;
        }
        let took = now.since(held.issue);
        self.service = self.service - self.service / SMOOTHING + took.0 / SMOOTHING;
        if let Some(sleeper) = &mut self.sleeper {
            sleeper.completed(now, held.op, (held.bytes / SECTOR_BYTES) as u32, took);
        }
    }

    /// Do interrupts alone end its waits, as by default?
    pub(super) fn by_interrupts(&self) -> bool {
        self.completion == CompletionSupport::default()
    }

    /// Does the kernel wait, without polling before or meanwhile?
    pub(super) fn only_sleeps(&self) -> bool {
        self.completion.ring == RingMode::Interrupt && self.sleeper.is_none()
    }

    /// Does it sleep before it polls?
    pub(super) fn is_hybrid(&self) -> bool {
        self.sleeper.is_some()
    }

    /// Until when to sleep before polling: for the oldest request for which that was not done.
    pub(super) fn sleep_first(&mut self, held: &Held) -> Option<Nanos> {
        while let Some((until, id, number)) = self.to_sleep.pop_front() {
            if held.get(id).number == number {
                return Some(until);
            }
        }
        None
    }

    /// Does the next wait for one completion spin first, where trials show that this is faster? `None`: it never does.
    pub(super) fn spins(&self) -> Option<bool> {
        self.spinner.as_ref().map(Spinner::spins)
    }

    /// A wait that may have spun took this long.
    pub(super) fn waited(&mut self, time: Nanos) {
        if let Some(spinner) = &mut self.spinner {
            spinner.waited(time);
        }
    }

    /// How many completions to wait for, and after how many microseconds one is enough.
    pub(super) fn batch(&self, rings: &Rings, listening: bool) -> (u32, u32) {
        if listening {
            // The kernel cannot tell a ready descriptor from a completion.
            return (1, 0);
        }
        batch(&rings.main, rings.in_main(), Nanos(self.service), self.batching)
    }
}
