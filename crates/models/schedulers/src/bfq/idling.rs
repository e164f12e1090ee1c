//! When the device idles for a queue: because idling raises throughput, or because it preserves shares.

use super::queue::QueueId;
use super::{Bfq, Generation, Now};
use crate::mechanisms::wf2q::Class;

/// The device idles for seeky queues no longer than this, ns.
const SEEKY_IDLE_NS: u64 = 2_000_000;
/// Raised queues so many times longer (before mainline).
const RAISED_IDLE_FACTOR: u64 = 3;
/// Raised queues at least this, ns.
const RAISED_IDLE_NS: u64 = 20_000_000;

impl Bfq {
    /// Are weights or classes unequal, so that each queue must have its slot for itself?
    pub(super) fn asymmetric(&self, q: Option<QueueId>) -> bool {
        if !self.is(Generation::Mainline) {
            return self.weight_counts.len() > 1 || self.group_weights.len() > 1 || self.crowded_groups > 0;
        }
        let smallest = q.and_then(|q| self.queues[q as usize].counted);
        let varied =
            self.weight_counts.len() > 1 && (smallest.is_none() || smallest != self.weight_counts.first().map(|w| w.0));
        let classes = self.busy.iter().filter(|b| **b > 0).count();
        varied || classes > 1 || self.groups_pending > 1
    }

    /// Would idling for this queue raise throughput, and harm no raised queue?
    pub(super) fn idling_boosts(&self, q: QueueId) -> bool {
        let queue = &self.queues[q as usize];
        let arm_without_queueing = self.rotational && self.hw_tag == 0;
        let sequential = !queue.seeky() && queue.io_bound && queue.short_think;
        let boosts = arm_without_queueing || ((self.rotational || self.hw_tag == 0) && sequential);
        boosts && self.raised_busy == 0
    }

    /// Is idling for this queue needed to keep the shares?
    pub(super) fn idling_needed(&self, q: QueueId) -> bool {
        let queue = &self.queues[q as usize];
        let busy = self.busy_total();
        if busy == 0 {
            return false;
        }
        let raised = queue.raise.coeff > 1 && (self.raised_busy < busy || self.in_driver >= queue.in_flight + 4);
        raised || self.asymmetric(Some(q)) || busy == 1
    }

    /// Does the device idle for this queue when it runs empty?
    pub(super) fn deserves_idling(&self, q: QueueId) -> bool {
        let queue = &self.queues[q as usize];
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
        let queue = &self.queues[q as usize];
        let queueing = self.hw_tag != 0;
        if queue.large_burst && queueing && (!self.rotational || queue.constantly_seeky) {
            return false;
        }
        let all_seeky = self.pending_seeky == self.pending;
        let useless = queueing && (self.raised_busy > 0 || !self.rotational || (queue.constantly_seeky && all_seeky));
        queue.raise.coeff > 1 || self.asymmetric(Some(q)) || (queue.io_bound && queue.idle_flag && !useless)
    }

    /// Is the queue empty, and does the device idle for it?
    pub(super) fn must_idle(&self, q: QueueId) -> bool {
        self.queues[q as usize].is_empty() && self.deserves_idling(q)
    }

    /// Starts the idle timer for the queue in service.
    pub(super) fn arm_idle_timer(&mut self, q: QueueId, now: Now) {
        let queue = &self.queues[q as usize];
        let (slice_idle, seeky) = (self.values.slice_idle, queue.seeky());
        let plain = queue.raise.coeff == 1 && !self.asymmetric(Some(q));
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
        self.queues[q as usize].waiting = true;
        self.idle_since = now.at;
        self.tally.waits += 1;
        self.idle_until = Some(now.at + dumbwaiter_block::Nanos(length));
    }

    /// The device stops idling for the queue.
    pub(super) fn stop_waiting(&mut self, q: QueueId) {
        self.queues[q as usize].waiting = false;
        self.idle_until = None;
    }
}
