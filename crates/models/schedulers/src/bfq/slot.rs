//! The slot: the queue in service, and the device's wait for its next request.

use dumbwaiter_block::Nanos;

use super::queue::QueueId;
use super::time::Now;

#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    /// In service.
    pub(super) queue: Option<QueueId>,
    pub(super) start: Nanos,
    /// Its clock starts with its first completion (before mainline).
    pub(super) unstarted: bool,
    pub(super) requests: u32,
    pub(super) last_pos: u64,
    pub(super) idle_until: Option<Nanos>,
    pub(super) idle_since: Nanos,
}

impl Slot {
    /// A slot of `q` begins; its clock starts `unstarted` or with it.
    pub(super) fn begin(&mut self, q: QueueId, unstarted: bool) {
        self.queue = Some(q);
        self.unstarted = unstarted;
        self.requests = 0;
        self.last_pos = 0;
    }

    /// The device idles for this long.
    pub(super) fn idle(&mut self, now: Now, length: u64) {
        self.idle_since = now.at;
        self.idle_until = Some(now.at + Nanos(length));
    }

    /// Is this queue in service?
    #[inline]
    pub(super) fn serves(&self, q: QueueId) -> bool {
        self.queue == Some(q)
    }
}
