//! Service times, sampled to learn what injection costs.

use dumbwaiter_block::RequestId;

/// The request being timed to learn what injection costs.
#[derive(Clone, Debug, Default)]
pub(super) struct Sampling {
    /// The next request of the queue in service will be timed.
    pub(super) awaited: bool,
    pub(super) request: Option<RequestId>,
    pub(super) since: u64,
    /// Something was injected meanwhile.
    pub(super) injected: bool,
}

impl Sampling {
    pub(super) fn forget(&mut self) {
        self.request = None;
    }
}
