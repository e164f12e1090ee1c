//! The state of a run: each part owns what it keeps.

use dumbwaiter_block::Nanos;
use dumbwaiter_experiment::Control;
use dumbwaiter_scenario::load::{RunningLoad, Slots};

use super::cpus::Cpus;
use super::disk::{Disks, Exchanges};
use super::io::Slot;
use super::measurement::Measurement;
use super::thread::{TaskSleeps, ThreadState};
use crate::events::Events;

/// A run in progress.
pub struct Run<'a> {
    pub(super) now: Nanos,
    pub(super) events: Events,
    pub(super) load: RunningLoad,
    pub(super) threads: Vec<ThreadState>,
    pub(super) sleeps: TaskSleeps,
    pub(super) slots: Slots<Slot>,
    pub(super) cpus: Cpus,
    pub(super) disks: Disks,
    pub(super) exchanges: Exchanges,
    pub(super) measured: Measurement,
    pub(super) control: &'a Control,
}
