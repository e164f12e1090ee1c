//! What the layer itself notes of each request, by its id.

use std::ops::{Index, IndexMut};

use crate::RequestId;
use crate::scheduler::Place;

/// The tag of a request that has none.
pub(super) const NO_TAG: u32 = u32::MAX;

/// The layer's own record of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// Scheduler tag, and the pool it is of.
    pub(super) tag: u32,
    pub(super) pool: u32,
    /// The scheduler's limit on its tag; 0 before that was asked.
    pub(super) limit: u32,
    /// Holds a driver tag of its hardware queue.
    pub(super) driver_tag: bool,
    /// It has none, and its hardware queue keeps the next free one for it.
    pub(super) awaits_driver_tag: bool,
    /// It was inserted at the scheduler's head.
    pub(super) at_head: bool,
    /// The scheduler that had it, by the number of exchanges before.
    pub(super) owner: u32,
    /// Counts insertions.
    pub(super) arrival: u64,
    /// Its parts in sector order: the first, the last, and behind this one the next.
    pub(super) first: RequestId,
    last: RequestId,
    pub(super) next: RequestId,
}

impl Slot {
    const NONE: Slot = Slot {
        tag: NO_TAG,
        pool: 0,
        limit: 0,
        driver_tag: false,
        awaits_driver_tag: false,
        at_head: false,
        owner: 0,
        arrival: 0,
        first: RequestId::NIL,
        last: RequestId::NIL,
        next: RequestId::NIL,
    };
}

/// The records of all requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    arrivals: u64,
}

impl Slots {
    /// The id is given to a new request.
    #[inline(always)]
    pub(super) fn enter(&mut self, id: RequestId) {
        if id.index() >= self.slots.len() {
            self.slots.resize(id.index() + 1, Slot::NONE);
        }
        self.slots[id.index()] = Slot::NONE;
    }

    pub(super) fn get(&self, id: RequestId) -> Option<&Slot> {
        self.slots.get(id.index())
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// A request reaches the scheduler that came after so many exchanges, or passes it.
    pub(super) fn note_arrival(&mut self, id: RequestId, place: Place, exchanges: u64) {
        self.arrivals += 1;
        let arrival = self.arrivals;
        let slot = &mut self[id];
        slot.at_head = place == Place::Head;
        slot.owner = exchanges as u32;
        slot.arrival = arrival;
    }

    /// `part` alone.
    pub(super) fn begin_parts(&mut self, part: RequestId) {
        let slot = &mut self[part];
        (slot.first, slot.last, slot.next) = (part, part, RequestId::NIL);
    }

    /// The parts of `lower` come before those of `upper`; `survivor`, which is one of the two, has them all.
    pub(super) fn join_parts(&mut self, lower: RequestId, upper: RequestId, survivor: RequestId) {
        let (first, end) = (self[lower].first, self[lower].last);
        let (begin, last) = (self[upper].first, self[upper].last);
        self[end].next = begin;
        let slot = &mut self[survivor];
        (slot.first, slot.last) = (first, last);
    }
}

impl Index<RequestId> for Slots {
    type Output = Slot;

    #[inline(always)]
    fn index(&self, id: RequestId) -> &Slot {
        &self.slots[id.index()]
    }
}

impl IndexMut<RequestId> for Slots {
    #[inline(always)]
    fn index_mut(&mut self, id: RequestId) -> &mut Slot {
        &mut self.slots[id.index()]
    }
}
