//! A bounded window over nearly sorted events: arrivals leave it in order of time, after the events that
//! tell their measured times had a chance to be seen.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use dumbwaiter_block::Nanos;

use super::record::{Record, Span};

/// Arrivals held back. Times are raw, compared as differences to the first.
pub(crate) struct Window {
    most: usize,
    origin: Option<u64>,
    heap: BinaryHeap<Reverse<(i64, u64, u32)>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    seen: u64,
    /// Slots by device, sector and order of arrival, until their completion.
    open: BTreeMap<(u32, u64, u64), u32>,
    /// Scratch of `complete`.
    found: Vec<(u32, u64, u64)>,
}

struct Slot {
    record: Record,
    order: u64,
}

impl Window {
    pub(crate) fn new(most: usize) -> Window {
        Window {
            most,
            origin: None,
            heap: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            seen: 0,
            open: BTreeMap::new(),
            found: Vec::new(),
        }
    }

    /// Takes an arrival in.
    pub(crate) fn arrive(&mut self, record: Record) {
        let origin = *self.origin.get_or_insert(record.time.0);
        let order = self.seen;
        self.seen += 1;
        let slot = Slot { record, order };
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        self.heap.push(Reverse((record.time.0.wrapping_sub(origin) as i64, order, at)));
        if record.sectors > 0 {
            self.open.insert((record.device, record.sector, order), at);
        }
    }

    /// Is it time to hand one out?
    pub(crate) fn full(&self) -> bool {
        self.heap.len() > self.most
    }

    /// The earliest arrival; equal times in order of arrival.
    pub(crate) fn pop(&mut self) -> Option<Record> {
        let Reverse((_, order, at)) = self.heap.pop()?;
        let record = self.slots[at as usize].record;
        self.open.remove(&(record.device, record.sector, order));
        self.free.push(at);
        Some(record)
    }

    /// A range went to the device: the arrivals that start in it waited until now.
    pub(crate) fn issue(&mut self, span: Span) {
        for (_, at) in self.open.range(range(span)) {
            let record = &mut self.slots[*at as usize].record;
            if record.wait.is_none() {
                record.wait = since(record, span.time);
            }
        }
    }

    /// A range is done: so are the arrivals that start in it. An arrival that was never seen to be issued while
    /// another of the same place was belongs to a later completion.
    pub(crate) fn complete(&mut self, span: Span) {
        let issued = self.open.range(range(span)).any(|(_, at)| self.slots[*at as usize].record.wait.is_some());
        self.found.clear();
        for (key, at) in self.open.range(range(span)) {
            let slot = &mut self.slots[*at as usize];
            debug_assert_eq!(slot.order, key.2);
            if issued && slot.record.wait.is_none() {
                continue;
            }
            slot.record.latency = since(&slot.record, span.time);
            self.found.push(*key);
        }
        for key in &self.found {
            self.open.remove(key);
        }
    }
}

fn range(span: Span) -> std::ops::Range<(u32, u64, u64)> {
    (span.device, span.sector, 0)..(span.device, span.sector.saturating_add(u64::from(span.sectors.max(1))), 0)
}

/// Time since a record's arrival; `None` where the event is earlier.
fn since(record: &Record, time: u64) -> Option<Nanos> {
    let ns = time.wrapping_sub(record.time.0);
    (ns as i64 >= 0).then_some(Nanos(ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dumbwaiter_block::Op;

    fn at(time: u64, sector: u64) -> Record {
        Record { time: Nanos(time), ..Record::new(Op::Read, sector, 8) }
    }

    fn span(time: u64, sector: u64, sectors: u32) -> Span {
        Span { time, sector, sectors, device: 0 }
    }

    #[test]
    fn a_merged_request_completes_all_its_parts() {
        let mut w = Window::new(8);
        w.arrive(at(10, 0));
        w.arrive(at(11, 8));
        w.arrive(at(12, 16));
        w.issue(span(20, 0, 16));
        w.complete(span(50, 0, 16));
        let all: Vec<Record> = std::iter::from_fn(|| w.pop()).collect();
        assert_eq!(all.iter().map(|r| r.wait.map(|n| n.0)).collect::<Vec<_>>(), [Some(10), Some(9), None]);
        assert_eq!(all.iter().map(|r| r.latency.map(|n| n.0)).collect::<Vec<_>>(), [Some(40), Some(39), None]);
    }

    #[test]
    fn the_second_request_of_a_place_waits_for_its_own_completion() {
        let mut w = Window::new(8);
        w.arrive(at(0, 0));
        w.issue(span(1, 0, 8));
        w.arrive(at(2, 0));
        w.complete(span(5, 0, 8));
        w.issue(span(6, 0, 8));
        w.complete(span(9, 0, 8));
        let all: Vec<_> = std::iter::from_fn(|| w.pop()).map(|r| (r.wait.unwrap().0, r.latency.unwrap().0)).collect();
        assert_eq!(all, [(1, 5), (4, 7)]);
    }

    #[test]
    fn wrapped_times_come_first_and_equal_ones_keep_their_order() {
        let mut w = Window::new(2);
        let mut out = Vec::new();
        for r in [at(5, 1), at(5, 2), at(5u64.wrapping_neg(), 3), at(6, 4)] {
            w.arrive(r);
            if w.full() {
                out.extend(w.pop());
            }
        }
        out.extend(std::iter::from_fn(|| w.pop()));
        assert_eq!(out.iter().map(|r| r.sector).collect::<Vec<_>>(), [3, 1, 2, 4]);
        assert!(w.open.is_empty());
    }
}
