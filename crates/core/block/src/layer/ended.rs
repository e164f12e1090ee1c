//! I/Os that end without the device, until they are reported.

use crate::RequestId;
use crate::finished::Finished;

/// I/Os that the next [`crate::BlockLayer::finish_idle`] reports.
#[derive(Clone, Debug, Default)]
pub(super) struct Ended {
    /// Flushes with nothing to flush.
    pub(super) done_at_once: Vec<RequestId>,
    /// Those that a controller refused, or gave up after it had parked them.
    pub(super) refused: Vec<RequestId>,
    /// Requests that left the scheduler because their task is gone.
    pub(super) withdrawn: Vec<RequestId>,
    /// I/Os of tasks that are gone, done without the device.
    pub(super) dropped: Vec<Finished>,
}

impl Ended {
    /// Requests that wait only to be reported.
    pub(super) fn waiting(&self) -> usize {
        self.done_at_once.len() + self.refused.len() + self.withdrawn.len()
    }

    /// Are there I/Os that are reported because their task is gone?
    pub(super) fn any_of_gone(&self) -> bool {
        !self.dropped.is_empty() || !self.withdrawn.is_empty()
    }
}
