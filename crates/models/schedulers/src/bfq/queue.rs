//! State of queues.

use dumbwaiter_block::Nanos;

use crate::mechanisms::list::List;
use crate::mechanisms::ordered::Tree;
use crate::mechanisms::wf2q::EntityId;

/// Index of a [`Queue`].
pub(super) type QueueId = u32;
/// No queue.
pub(super) const NONE: QueueId = u32::MAX;
/// A tick before everything.
pub(super) const LONG_AGO: i64 = i64::MIN / 4;
/// A tick that does not come.
pub(super) const NEVER: i64 = i64::MAX / 4;

/// How long a process takes to think between requests; a decaying mean.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThinkTime {
    pub(super) last_completion: u64,
    samples: u64,
    total: u64,
    mean: u64,
}

impl ThinkTime {
    pub(super) fn at(last_completion: u64) -> ThinkTime {
        ThinkTime { last_completion, ..ThinkTime::default() }
    }

    /// A request arrived `now`. Think times longer than two idle slices count as two; so does one that ends before it
    /// began, in mainline: that of a new queue, or of a request whose plug began before the last completion.
    pub(super) fn sample(&mut self, now: u64, slice_idle: u64, mainline: bool) {
        let longest = 2 * slice_idle;
        let backwards = if mainline { longest } else { 0 };
        let thought = now.checked_sub(self.last_completion).map_or(backwards, |thought| thought.min(longest));
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * thought) / 8;
        self.mean = (self.total + 128) / self.samples.max(1);
    }

    /// Is the mean known and longer than this?
    pub(super) fn longer_than(&self, limit: u64) -> bool {
        self.samples > 80 && self.mean > limit
    }

    /// The mean in ns, once there are enough samples.
    pub(super) fn mean(&self) -> Option<u64> {
        (self.samples > 80).then_some(self.mean)
    }
}

/// How far a process's requests are apart; a decaying mean (before mainline).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SeekMean {
    samples: u64,
    total: u64,
    mean: u64,
}

impl SeekMean {
    /// Mean distance from which on a queue is seeky, sectors.
    const SEEKY: u64 = 8192;

    pub(super) fn sample(&mut self, distance: u64) {
        let limit = 4 * self.mean + if self.samples <= 60 { 1 << 21 } else { 1 << 17 };
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * distance.min(limit)) / 8;
        self.mean = (self.total + 128) / self.samples;
    }

    fn seeky(&self) -> bool {
        self.samples > 80 && self.mean > SeekMean::SEEKY
    }
}

/// Weight raising of a queue. Times in ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raise {
    /// 1: not raised.
    pub(super) coeff: u32,
    /// When the raise started, or the last one ended.
    pub(super) start_or_end: i64,
    pub(super) max_time: i64,
    /// The raise is for soft real-time, not for interactivity.
    pub(super) soft_rt: bool,
    /// When the interactive raise had started that a soft real-time one interrupted.
    pub(super) interactive_start: i64,
    /// Sectors served since the raise began.
    pub(super) served: u64,
}

impl Raise {
    pub(super) const NO: Raise =
        Raise { coeff: 1, start_or_end: LONG_AGO, max_time: 0, soft_rt: false, interactive_start: LONG_AGO, served: 0 };
}

/// How much others may be served while the device idles for a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Injection {
    /// Service time without injection, ns; 0: not known.
    pub(super) base: u64,
    /// Requests allowed in the driver.
    pub(super) limit: u32,
    /// Tick at which the limit was last lowered or reset.
    pub(super) lowered_at: i64,
}

/// Requests of one process (or of several merged, or of all writeback of one priority).
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) entity: EntityId,
    pub(super) group: u32,
    pub(super) sync: bool,
    /// Processes attached.
    pub(super) processes: u32,
    /// Its only process; [`NONE`] if it is shared.
    pub(super) task: u32,
    /// Last priority level seen.
    pub(super) level: u8,
    /// Requests it holds, queued or in flight: it cannot be freed before.
    pub(super) allocated: u32,
    /// References other than processes and requests: of its group, of merges scheduled.
    pub(super) held: u32,

    pub(super) sorted: Tree,
    pub(super) fifo: List,
    pub(super) next: u32,
    /// Queued requests, async and sync.
    pub(super) queued: [u32; 2],
    pub(super) in_flight: u32,
    pub(super) max_budget: u64,
    /// Tick at which the slot times out; when out of service, since when it is inactive.
    pub(super) budget_deadline: i64,

    pub(super) busy: bool,
    /// The class under which it is counted as busy.
    pub(super) busy_class: u8,
    pub(super) just_created: bool,
    pub(super) waiting: bool,
    pub(super) waiting_no_idle: bool,
    pub(super) fifo_checked: bool,
    pub(super) short_think: bool,
    pub(super) io_bound: bool,
    pub(super) large_burst: bool,
    pub(super) in_burst_list: bool,
    pub(super) coop: bool,
    pub(super) split_wanted: bool,
    pub(super) softrt_update: bool,

    pub(super) think: ThinkTime,
    pub(super) seek_bits: u32,
    /// Decides in place of the bits whether the queue is seeky.
    pub(super) seek_mean: Option<SeekMean>,
    pub(super) constantly_seeky: bool,
    /// Its think time is short enough to idle for it.
    pub(super) idle_flag: bool,
    /// Arrivals in a row that came soon, each when the queue was empty.
    pub(super) prompt: u32,
    /// Number of its slots so far.
    pub(super) slots: u32,
    pub(super) last_pos: u64,
    pub(super) raise: Raise,
    pub(super) soft_rt_next_start: i64,
    pub(super) last_backlogged: i64,
    pub(super) served_since_backlogged: u64,
    pub(super) first_io: i64,
    pub(super) created: i64,
    pub(super) split: i64,
    pub(super) injection: Injection,
    pub(super) waker: QueueId,
    pub(super) tentative_waker: QueueId,
    pub(super) waker_detections: u32,
    pub(super) waker_since: u64,
    /// The queues it wakes, most recent first, as a list through `woken_next`.
    pub(super) woken: QueueId,
    pub(super) woken_next: QueueId,
    pub(super) woken_previous: QueueId,
    pub(super) window_start: u64,
    pub(super) idle_sum: u64,
    /// Merge scheduled into this one.
    pub(super) merge_into: QueueId,
    /// Its weight in the counters.
    pub(super) counted: Option<u64>,
    pub(super) pending: bool,
    /// It is in its group's tree by position.
    pub(super) by_position: bool,
    pub(super) live: bool,
}

impl Queue {
    /// A queue made at `now` (ns; tick `tick`).
    pub(super) fn new(entity: EntityId, group: u32, sync: bool, now: Nanos, tick: i64) -> Queue {
        Queue {
            entity,
            group,
            sync,
            processes: 0,
            task: NONE,
            level: 4,
            allocated: 0,
            held: 0,
            sorted: Tree::default(),
            fifo: List::default(),
            next: NONE,
            queued: [0; 2],
            in_flight: 0,
            max_budget: 0,
            budget_deadline: LONG_AGO,
            busy: false,
            busy_class: 0,
            just_created: true,
            waiting: false,
            waiting_no_idle: false,
            fifo_checked: false,
            short_think: sync,
            io_bound: true,
            large_burst: false,
            in_burst_list: false,
            coop: false,
            split_wanted: false,
            softrt_update: false,
            think: ThinkTime::at(now.0 + 1),
            seek_bits: 1,
            seek_mean: None,
            constantly_seeky: false,
            idle_flag: sync,
            prompt: 0,
            slots: 0,
            last_pos: 0,
            raise: Raise::NO,
            soft_rt_next_start: tick,
            last_backlogged: 0,
            served_since_backlogged: 0,
            first_io: 0,
            created: tick,
            split: LONG_AGO,
            injection: Injection { base: 0, limit: 0, lowered_at: tick },
            waker: NONE,
            tentative_waker: NONE,
            waker_detections: 0,
            waker_since: 0,
            woken: NONE,
            woken_next: NONE,
            woken_previous: NONE,
            window_start: now.0,
            idle_sum: 0,
            merge_into: NONE,
            counted: None,
            pending: false,
            by_position: false,
            live: true,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    pub(super) fn seeky(&self) -> bool {
        self.seek_mean.map_or(self.seek_bits.count_ones() > 19, |mean| mean.seeky())
    }

    pub(super) fn totally_seeky(&self) -> bool {
        self.seek_bits == u32::MAX
    }
}

/// All queues.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    all: Vec<Queue>,
    free: Vec<QueueId>,
}

impl Queues {
    /// The number that the next queue gets.
    pub(super) fn next_id(&self) -> QueueId {
        self.free.last().copied().unwrap_or(self.all.len() as QueueId)
    }

    /// Adds a queue, under [`Queues::next_id`].
    pub(super) fn add(&mut self, queue: Queue) {
        match self.free.pop() {
            Some(q) => self[q] = queue,
            None => self.all.push(queue),
        }
    }

    /// The queue is gone; its number may be used again.
    pub(super) fn free(&mut self, q: QueueId) {
        self[q].live = false;
        self.free.push(q);
    }

    /// The queue of this number, if there is one.
    pub(super) fn get(&self, q: QueueId) -> Option<&Queue> {
        self.all.get(q as usize).filter(|queue| queue.live)
    }

    /// All that there are.
    pub(super) fn live(&self) -> impl Iterator<Item = (QueueId, &Queue)> {
        (0..).zip(&self.all).filter(|(_, queue)| queue.live)
    }

    /// Numbers in use or free: all are below.
    pub(super) fn len(&self) -> QueueId {
        self.all.len() as QueueId
    }
}

by_number!(Queues: Queue);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_mainline_the_first_think_time_of_a_queue_is_the_longest() {
        let slice_idle = 8_000_000;
        let after = |mainline, pauses: &[u64]| {
            let mut think = ThinkTime::at(101);
            think.sample(100, slice_idle, mainline);
            for pause in pauses {
                think.last_completion = 1_000_000;
                think.sample(1_000_000 + pause, slice_idle, mainline);
            }
            think
        };
        let pauses = [3_000_000; 5];
        assert!(after(true, &pauses).longer_than(slice_idle / 2), "16 ms weigh for seven pauses of 3 ms");
        assert!(!after(true, &[3_000_000; 8]).longer_than(slice_idle / 2));
        assert!(!after(false, &pauses).longer_than(slice_idle / 2), "before mainline it counts as none");
    }
}
