//! Runs: on flash a task whose turn it is may be served for a few requests more, if a setting says so.

use super::shares::{NodeId, ROOT};

/// The task that was served last, and what is left of its run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) owner: NodeId,
    sectors_left: u64,
}

impl Default for Run {
    fn default() -> Run {
        Run { owner: ROOT, sectors_left: 0 }
    }
}

impl Run {
    /// Something is left of it.
    pub(super) fn goes_on(&self) -> bool {
        self.sectors_left > 0
    }

    /// A request is served: of the run, or the first of another.
    pub(super) fn served(&mut self, owner: NodeId, sectors: u64, limit_sectors: u64) {
        if owner != self.owner || !self.goes_on() {
            *self = Run { owner, sectors_left: limit_sectors };
        }
        self.used(sectors);
    }

    /// The request that is served grew.
    pub(super) fn used(&mut self, sectors: u64) {
        self.sectors_left = self.sectors_left.saturating_sub(sectors);
    }
}
