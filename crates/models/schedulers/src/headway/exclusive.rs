//! Exclusive slices: for a short while only one task, or one tenant behind its share, is served.

use dumbwaiter_block::Nanos;

use super::shares::NodeId;

/// The device is reserved for one task or tenant.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExclusiveSlice {
    /// A task's or a tenant's node.
    pub(super) owner: NodeId,
    /// A fresh task may end the slice from then on.
    pub(super) preemptible_from: Nanos,
    /// The slice ends then at the latest.
    pub(super) ends: Nanos,
    /// The slice ends then if its owner has nothing outstanding.
    pub(super) idle_until: Nanos,
}

impl ExclusiveSlice {
    /// A slice in which a task is served.
    pub(super) fn of_task(owner: NodeId, length: Nanos, now: Nanos) -> ExclusiveSlice {
        let preemptible_from = now + Nanos(length.0 / 4);
        ExclusiveSlice { owner, preemptible_from, ends: now + length, idle_until: now }
    }

    /// A wait for the next request of a tenant that is behind its share.
    pub(super) fn of_tenant(owner: NodeId, patience: Nanos, now: Nanos) -> ExclusiveSlice {
        let idle_until = now + patience;
        ExclusiveSlice { owner, preemptible_from: now, ends: idle_until, idle_until }
    }

    /// Until when the device idles for the owner, which has nothing waiting and `in_device` requests in the device.
    pub(super) fn idles_until(&self, in_device: u32) -> Nanos {
        if in_device > 0 { self.ends } else { self.idle_until.min(self.ends) }
    }
}
