//! Bounded windows over nearly sorted events: [`Sorter`] sorts events by time, [`Pairer`] delays arrivals until the
//! events with their measured times should have been read.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use dumbwaiter_block::Nanos;

use super::record::{Event, Record, Span};

/// Age of an issued request (the kernel's default timeout) after which its completion counts as lost, ns.
const LOST_NS: u64 = 30_000_000_000;

/// Sorts within a window of events; equal times keep their order. Times are raw, compared as differences to the first.
/// Events in order pass through a queue, others through a heap.
pub(crate) struct Sorter {
    most: usize,
    origin: Option<u64>,
    queue: VecDeque<(i64, u64, Event)>,
    heap: BinaryHeap<Reverse<(i64, u64, usize)>>,
    slots: Vec<Event>,
    free: Vec<usize>,
    seen: u64,
}

impl Sorter {
    pub(crate) fn new(most: usize) -> Sorter {
        Sorter {
            most,
            origin: None,
            queue: VecDeque::new(),
            heap: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            seen: 0,
        }
    }

    pub(crate) fn push(&mut self, event: Event) {
        let origin = *self.origin.get_or_insert(event.time());
        let time = event.time().wrapping_sub(origin) as i64;
        let order = self.seen;
        self.seen += 1;
        if self.queue.back().is_none_or(|(last, ..)| *last <= time) {
            self.queue.push_back((time, order, event));
            return;
        }
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(event);
        } else {
            self.slots[slot] = event;
        }
        self.heap.push(Reverse((time, order, slot)));
    }

    pub(crate) fn full(&self) -> bool {
        self.queue.len() + self.heap.len() > self.most
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        let front = self.queue.front().map(|(time, order, _)| (*time, *order));
        match self.heap.peek() {
            Some(Reverse((time, order, slot))) if front.is_none_or(|f| (*time, *order) < f) => {
                let slot = *slot;
                self.heap.pop();
                self.free.push(slot);
                Some(self.slots[slot])
            }
            _ => self.queue.pop_front().map(|(_, _, event)| event),
        }
    }
}

/// Finds the measured times of arrivals, which keep their order.
pub(crate) struct Pairer {
    most: usize,
    /// Arrivals in the window, and the number that have left it.
    held: VecDeque<Record>,
    gone: u64,
    /// Arrivals by device, sector and number, until their completion.
    open: BTreeSet<(u32, u64, u64)>,
    /// Scratch of `complete`.
    found: Vec<(u32, u64, u64)>,
}

impl Pairer {
    pub(crate) fn new(most: usize) -> Pairer {
        Pairer { most, held: VecDeque::new(), gone: 0, open: BTreeSet::new(), found: Vec::new() }
    }

    /// Adds an arrival.
    pub(crate) fn arrive(&mut self, record: Record) {
        if record.sectors > 0 {
            self.open.insert((record.device, record.sector, self.gone + self.held.len() as u64));
        }
        self.held.push_back(record);
    }

    pub(crate) fn full(&self) -> bool {
        self.held.len() > self.most
    }

    /// The next arrival.
    pub(crate) fn pop(&mut self) -> Option<Record> {
        let record = self.held.pop_front()?;
        self.open.remove(&(record.device, record.sector, self.gone));
        self.gone += 1;
        Some(record)
    }

    /// A range was sent to the device: sets the wait of the first waiting arrival at each sector of it.
    pub(crate) fn issue(&mut self, span: Span) {
        let mut done = None;
        for (_, sector, number) in self.open.range(range(span)) {
            let record = &mut self.held[(number - self.gone) as usize];
            if done != Some(*sector) && record.wait.is_none() {
                record.wait = since(record, span.time);
                done = Some(*sector);
            }
        }
    }

    /// A range completed: completes the first issued arrival at each sector of it (or the first, if no issue was
    /// recorded).
    pub(crate) fn complete(&mut self, span: Span) {
        let issued = |held: &VecDeque<Record>, n: u64, gone: u64| held[(n - gone) as usize].wait.is_some();
        let any = self.open.range(range(span)).any(|key| issued(&self.held, key.2, self.gone));
        self.found.clear();
        let mut done = None;
        for key in self.open.range(range(span)) {
            let record = &mut self.held[(key.2 - self.gone) as usize];
            if done == Some(key.1) || (any && record.wait.is_none()) {
                continue;
            }
            self.found.push(*key);
            let latency = since(record, span.time);
            let lost = latency.zip(record.wait).is_some_and(|(l, w)| l.0.saturating_sub(w.0) > LOST_NS);
            if !lost {
                record.latency = latency;
                done = Some(key.1);
            }
        }
        for key in &self.found {
            self.open.remove(key);
        }
    }
}

fn range(span: Span) -> std::ops::Range<(u32, u64, u64)> {
    (span.device, span.sector, 0)..(span.device, span.sector.saturating_add(u64::from(span.sectors.max(1))), 0)
}

/// Time since a record's arrival; `None` if the event is earlier.
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

    fn times(mut p: Pairer) -> Vec<(Option<u64>, Option<u64>)> {
        std::iter::from_fn(|| p.pop()).map(|r| (r.wait.map(|n| n.0), r.latency.map(|n| n.0))).collect()
    }

    #[test]
    fn a_merged_request_completes_all_its_ios() {
        let mut p = Pairer::new(8);
        p.arrive(at(10, 0));
        p.arrive(at(11, 8));
        p.arrive(at(12, 16));
        p.issue(span(20, 0, 16));
        p.complete(span(50, 0, 16));
        assert_eq!(times(p), [(Some(10), Some(40)), (Some(9), Some(39)), (None, None)]);
    }

    #[test]
    fn requests_of_one_sector_complete_in_order() {
        let mut p = Pairer::new(8);
        p.arrive(at(0, 0));
        p.issue(span(1, 0, 8));
        p.arrive(at(2, 0));
        p.issue(span(3, 0, 8));
        p.complete(span(5, 0, 8));
        p.complete(span(9, 0, 8));
        assert_eq!(times(p), [(Some(1), Some(5)), (Some(1), Some(7))]);
    }

    #[test]
    fn a_lost_completion_does_not_pair_with_a_later_request() {
        let mut p = Pairer::new(8);
        p.arrive(at(0, 0));
        p.issue(span(1, 0, 8));
        let later = LOST_NS * 2;
        p.arrive(at(later, 0));
        p.issue(span(later + 1, 0, 8));
        p.complete(span(later + 5, 0, 8));
        assert_eq!(times(p), [(Some(1), None), (Some(1), Some(5))]);
    }

    #[test]
    fn wrapped_times_sort_first_and_equal_times_keep_their_order() {
        let mut s = Sorter::new(2);
        let mut out = Vec::new();
        for r in [at(5, 1), at(5, 2), at(5u64.wrapping_neg(), 3), at(6, 4)] {
            s.push(Event::Arrive(r));
            if s.full() {
                out.extend(s.pop());
            }
        }
        out.extend(std::iter::from_fn(|| s.pop()));
        let sectors = out.iter().map(|e| if let Event::Arrive(r) = e { r.sector } else { 0 });
        assert_eq!(sectors.collect::<Vec<_>>(), [3, 1, 2, 4]);
    }
}
