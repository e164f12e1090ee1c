//! The drive's own events, in order of time.
//!
//! Most events of one sort come in order of time by themselves, as each is a constant time after another: these wait in a queue for
//! each sort. The rest is in a heap.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use dumbwaiter_block::Nanos;

/// What happens inside the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// The firmware has taken up a write, whose data comes over a link that reads use too.
    Fetched(u32),
    /// A write's data has arrived.
    Arrived(u32),
    /// A read may go to the flash, or on, if its data is in the cache.
    Ready(u32),
    /// The present step of a die ends, unless the die has turned to another step since.
    Die { die: u32, turn: u32 },
    /// A channel has transferred.
    Channel(u32),
    /// The controller hands a program to its die.
    Drained,
    /// A partial program may be due.
    Partial,
    /// A flush that is not queued begins.
    FlushBegins,
    /// It has ended.
    FlushEnded,
    /// A command left the controller, which has room for another.
    Left,
}

/// Sorts of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// A read goes to the flash.
    Ready,
    /// A die has read cells.
    Sensed,
    /// A channel has transferred data of a read.
    Sent,
    /// These are in the heap.
    Other,
}

const SORTS: usize = 3;

/// Time and, below it, number of an event.
type Key = u128;
const NEVER: Key = Key::MAX;

fn time(key: Key) -> Nanos {
    Nanos((key >> 64) as u64)
}

/// The events to come; those of one time in the order in which they were added.
#[derive(Debug)]
pub(crate) struct Events {
    queues: [VecDeque<(Key, Event)>; SORTS],
    heap: BinaryHeap<Reverse<(Key, Event)>>,
    /// The first of each queue, and of the heap.
    first: [Key; SORTS + 1],
    /// Least time from an event of each sort to the use of the link, and of that use: until then others see nothing.
    lags: [Nanos; SORTS],
    link: Nanos,
    added: u64,
}

impl Events {
    /// No events. `lags`: the least time from the end of a read's latency, and of its cell read, to the end of its transfer.
    pub(crate) fn new([ready, sensed]: [Nanos; 2]) -> Events {
        Events {
            queues: Default::default(),
            heap: BinaryHeap::new(),
            first: [NEVER; SORTS + 1],
            lags: [ready, sensed, Nanos::ZERO],
            link: Nanos::MAX,
            added: 0,
        }
    }

    pub(crate) fn add(&mut self, at: Nanos, sort: Sort, event: Event) {
        self.added += 1;
        let key = Key::from(at.0) << 64 | Key::from(self.added);
        let queue = self.queues.get_mut(sort as usize).filter(|queue| queue.back().is_none_or(|(last, _)| *last < key));
        let Some(queue) = queue else {
            self.heap.push(Reverse((key, event)));
            self.first[SORTS] = self.first[SORTS].min(key);
            return;
        };
        queue.push_back((key, event));
        let first = &mut self.first[sort as usize];
        *first = key.min(*first);
    }

    /// From now on reads may be as short as this on the link.
    pub(crate) fn expect_link(&mut self, time: Nanos) {
        self.link = self.link.min(time);
    }

    /// From now on reads that are ready may need no cells.
    pub(crate) fn expect_at_once(&mut self) {
        self.lags[Sort::Ready as usize] = Nanos::ZERO;
    }

    /// A time before which nothing happens that others can see. The link is taken until `link_free`; `t_program`: a program may begin
    /// when a read has left its die, and end so much later.
    pub(crate) fn next(&self, link_free: Nanos, t_program: Option<Nanos>) -> Option<Nanos> {
        let late = |sort: Sort| time(self.first[sort as usize]).0.saturating_add(self.lags[sort as usize].0);
        let read = late(Sort::Ready).min(late(Sort::Sensed)).min(late(Sort::Sent));
        let next = match t_program {
            None => read.max(link_free.0).saturating_add(self.link.0),
            Some(t_program) => read.saturating_add(self.link.min(t_program).0),
        };
        let next = next.min(time(self.first[SORTS]).0);
        (next < u64::MAX).then_some(Nanos(next))
    }

    /// The next event due by `now`.
    pub(crate) fn pop(&mut self, now: Nanos) -> Option<(Nanos, Event)> {
        let first = &self.first;
        let pair = |a: usize, b: usize| if first[a] < first[b] { a } else { b };
        let sort = pair(pair(0, 1), pair(2, 3));
        if time(first[sort]) > now || first[sort] == NEVER {
            return None;
        }
        let (key, event) = match self.queues.get_mut(sort) {
            Some(queue) => {
                let next = queue.pop_front();
                self.first[sort] = queue.front().map_or(NEVER, |(key, _)| *key);
                next?
            }
            None => {
                let next = self.heap.pop();
                self.first[sort] = self.heap.peek().map_or(NEVER, |Reverse((key, _))| *key);
                next?.0
            }
        };
        Some((time(key), event))
    }
}
