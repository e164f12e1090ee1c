//! The state of a task.

use super::queue::ThinkTime;

/// A task as the scheduler knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    pub(super) queue: u32,
    pub(super) think: ThinkTime,
    pub(super) alive: bool,
}
