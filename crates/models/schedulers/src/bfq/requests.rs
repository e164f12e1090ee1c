//! Requests that wait, and what is known of each beside itself.

use dumbwaiter_block::{Nanos, RequestId};

use super::queue::{NONE, QueueId};
use crate::mechanisms::list::{Links, List};
use crate::mechanisms::ordered::TreeArena;

/// State of a request beside itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestState {
    pub(super) queue: QueueId,
    pub(super) task: u32,
    pub(super) sectors: u32,
    pub(super) deadline: Nanos,
    pub(super) sync: bool,
    pub(super) meta: bool,
    pub(super) at_head: bool,
    /// In its queue's order.
    pub(super) queued: bool,
}

impl RequestState {
    pub(super) const NEW: RequestState = RequestState {
        queue: NONE,
        task: 0,
        sectors: 0,
        deadline: Nanos::ZERO,
        sync: false,
        meta: false,
        at_head: false,
        queued: false,
    };
}

/// All requests, by their id.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    all: Vec<RequestState>,
    pub(super) links: Links,
    /// Requests by sector, one tree a queue.
    pub(super) sorted: TreeArena,
    /// Requests in the order of queues.
    pub(super) queued: u32,
    /// Requests that go before all others.
    head: List,
    queued_head: u32,
}

impl Requests {
    /// A request arrives.
    pub(super) fn admit(&mut self, id: RequestId, state: RequestState) {
        if id.index() >= self.all.len() {
            self.all.resize(id.index() + 1, RequestState::NEW);
        }
        self.all[id.index()] = state;
    }

    pub(super) fn get(&self, id: RequestId) -> Option<&RequestState> {
        self.all.get(id.index())
    }

    /// Does any wait?
    pub(super) fn any(&self) -> bool {
        self.queued_head + self.queued > 0
    }

    /// The request goes before all others.
    pub(super) fn push_head(&mut self, id: RequestId) {
        self.all[id.index()].at_head = true;
        self.head.push_front(&mut self.links, id);
        self.queued_head += 1;
    }

    pub(super) fn pop_head(&mut self) -> Option<RequestId> {
        let id = self.head.pop_front(&mut self.links)?;
        self.queued_head -= 1;
        Some(id)
    }

    pub(super) fn remove_head(&mut self, id: RequestId) {
        self.head.remove(&mut self.links, id);
        self.queued_head -= 1;
    }

    /// Is this request queued in sector order?
    pub(super) fn is_sorted(&self, id: RequestId) -> bool {
        self.get(id).is_some_and(|e| e.queue != NONE && !e.at_head && e.queued)
    }

    /// The better of two requests for a head at `head`: sync, then metadata, then position, with seeks back of up to `back` sectors, which
    /// count `penalty` times.
    pub(super) fn better(&self, a: u32, b: u32, head: u64, (back, penalty): (u64, u64)) -> u32 {
        if a == NONE || b == NONE || a == b {
            return if a == NONE { b } else { a };
        }
        let (x, y) = (&self.all[a as usize], &self.all[b as usize]);
        if x.sync != y.sync {
            return if x.sync { a } else { b };
        }
        if x.meta != y.meta {
            return if x.meta { a } else { b };
        }
        let (s, t) = (self.sorted.key(a), self.sorted.key(b));
        let distance = |p: u64| match p {
            p if p >= head => Some(p - head),
            p if p + back >= head => Some((head - p).saturating_mul(penalty)),
            _ => None,
        };
        let first = match (distance(s), distance(t)) {
            (Some(d), Some(e)) if d != e => d < e,
            (Some(_), Some(_)) => s >= t,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => s <= t,
        };
        if first { a } else { b }
    }
}

by_number!(Requests: RequestState);
