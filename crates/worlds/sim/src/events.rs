//! The event queue: events by time, then in order of insertion.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use dumbwaiter_block::Nanos;

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// A thread wakes up and may submit I/O.
    Wake(u32),
    /// One I/O reaches the block layer.
    Issue(u32),
    /// A thread's batch reaches the block layer.
    IssueBatch(u32),
    /// A task that slept for a request runs again and tries to get one for this I/O.
    Retry(u32),
    /// A task that slept for a request runs again and has it.
    Entered(u32),
    /// A worker thread of a ring takes an I/O.
    Work(u32),
    /// The application is notified of a completion.
    Reply(u32),
    /// A thread reaps its completions.
    Reap(u32),
    /// The timer of a thread that sleeps before it polls for its I/O.
    Slept(u32),
    /// The timer of a ring's thread that sleeps before it polls.
    Rested(u32),
    /// A CPU chooses the next thread to run.
    Dispatch(u32),
    /// A CPU wants the scheduler's lock.
    Take(u32),
    /// The lock of a drive's scheduler is free, and others wait for it.
    HandOn(u8),
    /// The kernel's worker sends requests of a drive after completions.
    Send(u8),
    /// A timer of a drive's block layer.
    Timer(u8),
    /// A scheduled change.
    Change,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    at: u64,
    sequence: u64,
    what: EventKind,
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
    /// Earlier events are greater, for a max-heap.
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
    pub(crate) fn push(&mut self, at: Nanos, what: EventKind) {
        self.sequence += 1;
        self.heap.push(Event { at: at.0, sequence: self.sequence, what });
    }

    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|e| Nanos(e.at))
    }

    pub(crate) fn pop(&mut self) -> Option<(Nanos, EventKind)> {
        self.heap.pop().map(|e| (Nanos(e.at), e.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_equal_time_keep_their_order() {
        let mut events = Events::default();
        events.push(Nanos(5), EventKind::Wake(1));
        events.push(Nanos(3), EventKind::Wake(2));
        events.push(Nanos(5), EventKind::Wake(3));
        events.push(Nanos(3), EventKind::Wake(4));
        let order: Vec<EventKind> = std::iter::from_fn(|| events.pop()).map(|e| e.1).collect();
        assert_eq!(order, [EventKind::Wake(2), EventKind::Wake(4), EventKind::Wake(1), EventKind::Wake(3)]);
    }
}
