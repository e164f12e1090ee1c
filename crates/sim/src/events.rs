//! What happens next: a queue of events by time, then by the order in which they were announced.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use dumbwaiter_block::Nanos;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A thread may have something to do.
    Wake(u32),
    /// One I/O reaches the block layer.
    Issue(u32),
    /// A thread's batch reaches the block layer.
    IssueBatch(u32),
    /// The application knows that its I/O is done.
    Reply(u32),
    /// A thread takes its completions.
    Reap(u32),
    /// The timer of an I/O's thread, which sleeps before it looks for the completion.
    Slept(u32),
    /// The same of a ring's thread.
    Rested(u32),
    /// The block layer asked for a call.
    Timer,
    /// A change of the scenario is due: its number.
    Change(u32),
}

#[derive(Clone, Copy, Debug)]
struct Event {
    at: u64,
    sequence: u64,
    what: What,
}

impl PartialEq for Event {
    fn eq(&self, other: &Event) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    /// Earlier is greater, for a heap that gives the greatest first.
    fn cmp(&self, other: &Event) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

#[derive(Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Event>,
    sequence: u64,
}

impl Events {
    pub(crate) fn push(&mut self, at: Nanos, what: What) {
        self.sequence += 1;
        self.heap.push(Event { at: at.0, sequence: self.sequence, what });
    }

    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|e| Nanos(e.at))
    }

    pub(crate) fn pop(&mut self) -> Option<(Nanos, What)> {
        self.heap.pop().map(|e| (Nanos(e.at), e.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_keep_their_order() {
        let mut events = Events::default();
        events.push(Nanos(5), What::Wake(1));
        events.push(Nanos(3), What::Wake(2));
        events.push(Nanos(5), What::Wake(3));
        events.push(Nanos(3), What::Wake(4));
        let order: Vec<What> = std::iter::from_fn(|| events.pop()).map(|e| e.1).collect();
        assert_eq!(order, [What::Wake(2), What::Wake(4), What::Wake(1), What::Wake(3)]);
    }
}
