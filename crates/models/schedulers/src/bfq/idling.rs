//! When the device idles for a queue: because idling raises throughput, or because it preserves shares.

use super::queue::QueueId;
use super::{Bfq, Generation, Now};
use crate::mechanisms::wf2q::Class;

/// The device idles for seeky queues no longer than this, ns.
const SEEKY_IDLE_NS: u64 = 2_000_000;
/// Factor of the idle time of raised queues (before mainline).
const RAISED_IDLE_FACTOR: u64 = 3;
/// Raised queues at least this, ns.
const RAISED_IDLE_NS: u64 = 20_000_000;

impl Bfq {
    /// Would idling for this queue raise throughput, and harm no raised queue?
    pub(super) fn idling_boosts(&self, q: QueueId) -> bool {
        let queue = &self.queues[q];
        let arm_without_queueing = self.device.rotational && self.device.hw_tag == 0;
        let sequential = !queue.seeky() && queue.io_bound && queue.short_think;
        let boosts = arm_without_queueing || ((self.device.rotational || self.device.hw_tag == 0) && sequential);
        boosts && self.counts.raised == 0
    }

    /// Is idling for this queue needed to keep the shares?
    pub(super) fn idling_needed(&self, q: QueueId) -> bool {
        let queue = &self.queues[q];
        let busy = self.counts.total();
        if busy == 0 {
            return false;
        }
        let raised =
            queue.raise.coeff > 1 && (self.counts.raised < busy || self.device.in_driver >= queue.in_flight + 4);
        raised || self.asymmetric(q) || busy == 1
    }

    /// Does the device idle for this queue when it runs empty?
    pub(super) fn deserves_idling(&self, q: QueueId) -> bool {
        let queue = &self.queues[q];
        if queue.processes == 0 && queue.sync {
            return false;
        }
        if self.values.strict_guarantees {
            return true;
        }
        if self.values.slice_idle == 0 || !queue.sync || self.class_of(q) == Class::Idle {
            return false;
        }
        if !self.values.on.symmetry {
            queue.idle_flag
        } else if self.is(Generation::Mainline) {
            self.idling_boosts(q) || self.idling_needed(q)
        } else {
            self.must_not_expire(q)
        }
    }

    /// The rule of v7r8 for whether to idle.
    fn must_not_expire(&self, q: QueueId) -> bool {
        let queue = &self.queues[q];
        let queueing = self.device.hw_tag != 0;
        if queue.large_burst && queueing && (!self.device.rotational || queue.constantly_seeky) {
            return false;
        }
        let useless = queueing
            && (self.counts.raised > 0
                || !self.device.rotational
                || (queue.constantly_seeky && self.counts.all_seeky()));
        queue.raise.coeff > 1 || self.asymmetric(q) || (queue.io_bound && queue.idle_flag && !useless)
    }

    /// Is the queue empty, and does the device idle for it?
    pub(super) fn must_idle(&self, q: QueueId) -> bool {
        self.queues[q].is_empty() && self.deserves_idling(q)
    }

    /// Starts the idle timer for the queue in service.
    pub(super) fn arm_idle_timer(&mut self, q: QueueId, now: Now) {
        let queue = &self.queues[q];
        let (slice_idle, seeky) = (self.values.slice_idle, queue.seeky());
        let plain = queue.raise.coeff == 1 && !self.asymmetric(q);
        let brief = match self.constants.generation {
            Generation::Original => seeky,
            Generation::V1 => seeky && self.used_much(q),
            Generation::V7r8 => plain && (queue.constantly_seeky || (seeky && self.used_much(q))),
            Generation::Mainline => plain && seeky,
        };
        let length = if brief {
            slice_idle.min(SEEKY_IDLE_NS)
        } else if queue.raise.coeff == 1 || !self.values.on.raised_idle {
            slice_idle
        } else if self.is(Generation::Mainline) {
            slice_idle.max(RAISED_IDLE_NS)
        } else {
            RAISED_IDLE_FACTOR * slice_idle
        };
        self.queues[q].waiting = true;
        self.tally.waits += 1;
        self.slot.idle(now, length);
    }

    /// The device stops idling for the queue.
    pub(super) fn stop_waiting(&mut self, q: QueueId) {
        self.queues[q].waiting = false;
        self.slot.idle_until = None;
    }
}
