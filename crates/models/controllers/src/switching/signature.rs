//! The signature of a load, independent of the scheduler that serves it.
//!
//! Shares of requests depend on the scheduler: one that favours a stream makes the stream's requests arrive more often. So each
//! figure is taken per task first and then averaged over the tasks that are active.

use dumbwaiter_block::Nanos;

/// An I/O that arrives.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The task that submits it.
    pub task: u32,
    /// Is it a write (or a discard)?
    pub write: bool,
    /// First sector.
    pub sector: u64,
    /// Length in sectors.
    pub sectors: u32,
}

/// Tasks with an entry of their own; others share entries.
const TASKS: usize = 256;
/// A task is active for this long after its last arrival.
const ACTIVE: Nanos = Nanos::from_ms(1000);
/// A task with an incomplete I/O is active for this long: schedulers that serve tasks in turn let it wait.
const ACTIVE_WAITING: Nanos = Nanos::from_ms(5000);
/// An arrival is sequential if it starts within this many sectors behind the last one of its task.
const NEAR: u64 = 256;
/// Averaging length of a task's figures, in arrivals: short, to follow changes quickly,
const AVERAGED: u32 = 4;
/// but longer for the share of writes, so that a task with mixed reads and writes does not seem to alternate.
const AVERAGED_WRITES: u32 = 8;
/// Fixed point of the shares in an entry.
const ONE: u32 = 1024;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    end: u64,
    last: Nanos,
    used: bool,
    /// Incomplete I/Os; an upper bound, as several may complete as one.
    waiting: u32,
    /// Whether its arrivals are sequential is known from the second on.
    placed: bool,
    /// Arrivals, up to [`AVERAGED_WRITES`].
    arrivals: u32,
    /// Share of sequential arrivals and of writes, and log2 of the length in sectors (times `ONE`): averages over the last
    /// [`AVERAGED`] or [`AVERAGED_WRITES`] or so.
    sequential: u32,
    write: u32,
    length: u32,
}

/// Recent I/O of each task.
#[derive(Clone, Debug)]
pub struct TaskTable {
    entries: Vec<Entry>,
    arrivals: u32,
    /// Whether completions are reported.
    counts: bool,
}

impl Default for TaskTable {
    fn default() -> Self {
        TaskTable { entries: vec![Entry::default(); TASKS], arrivals: 0, counts: false }
    }
}

/// log2 of a number of sectors, times `ONE`, linear between powers of two.
fn log2(sectors: u32) -> u32 {
    let n = sectors.max(1);
    let whole = n.ilog2();
    whole * ONE + (((u64::from(n) << 10) >> whole) as u32 - ONE)
}

impl Entry {
    /// `counts`: completions are reported.
    fn is_active(&self, now: Nanos, counts: bool) -> bool {
        let limit = if counts && self.waiting > 0 { ACTIVE_WAITING } else { ACTIVE };
        self.used && now.since(self.last) < limit
    }
}

/// The average of `count` values, of which `new` is the last.
fn average(old: u32, new: u32, count: u32) -> u32 {
    (old * (count - 1) + new) / count
}

impl TaskTable {
    /// Notes an arrival.
    pub fn arrive(&mut self, now: Nanos, arrival: Arrival) {
        let end = arrival.sector.wrapping_add(u64::from(arrival.sectors));
        let entry = &mut self.entries[arrival.task as usize % TASKS];
        if entry.used && entry.end == end && now.since(entry.last) < ACTIVE {
            // The task slept for a tag and submits it again.
            return;
        }
        self.arrivals = self.arrivals.saturating_add(1);
        let known = entry.is_active(now, self.counts);
        entry.arrivals = if known { (entry.arrivals + 1).min(AVERAGED_WRITES) } else { 1 };
        let (count, writes) = (entry.arrivals.min(AVERAGED), entry.arrivals);
        entry.waiting = if known { entry.waiting.saturating_add(1) } else { 1 };
        let ahead = arrival.sector.wrapping_sub(entry.end);
        let sequential = if known && ahead <= NEAR { ONE } else { 0 };
        let write = if arrival.write { ONE } else { 0 };
        let length = log2(arrival.sectors);
        entry.sequential =
            if known && entry.placed { average(entry.sequential, sequential, (count - 1).max(1)) } else { sequential };
        entry.placed = known;
        entry.write = if known { average(entry.write, write, writes) } else { write };
        entry.length = if known { average(entry.length, length, count) } else { length };
        entry.used = true;
        entry.last = now;
        entry.end = end;
    }

    /// Notes the completion of an I/O of a task. Without any such call, tasks are active for 1 s after an arrival.
    pub fn complete(&mut self, task: u32) {
        self.counts = true;
        let entry = &mut self.entries[task as usize % TASKS];
        entry.waiting = entry.waiting.saturating_sub(1);
    }

    /// A task ended.
    pub fn exit(&mut self, task: u32) {
        self.entries[task as usize % TASKS].used = false;
    }

    /// I/Os that have arrived since the last signature.
    pub fn arrivals(&self) -> u32 {
        self.arrivals
    }

    /// The load at `now`. `None` if no task is active that has submitted more than one I/O.
    pub fn signature(&mut self, now: Nanos) -> Option<Signature> {
        self.arrivals = 0;
        let mut sums = [0u64; 3];
        let (mut tasks, mut random, mut outstanding) = (0u32, 0u32, 0u64);
        for entry in self.entries.iter().filter(|e| e.placed && e.is_active(now, self.counts)) {
            tasks += 1;
            sums[0] += u64::from(entry.sequential);
            sums[1] += u64::from(entry.write);
            sums[2] += u64::from(entry.length);
            // I/Os of a stream merge, so that their number depends on the scheduler.
            if entry.sequential < ONE / 2 {
                random += 1;
                outstanding += u64::from(log2(entry.waiting));
            }
        }
        if tasks == 0 {
            return None;
        }
        let mean = |sum: u64| sum as f64 / f64::from(tasks) / f64::from(ONE);
        let crowd = f64::from(log2(tasks)) / f64::from(ONE) / 12.0;
        let outstanding = outstanding as f64 / f64::from(random.max(1)) / f64::from(ONE) / 12.0;
        Some(Signature {
            parts: [mean(sums[0]), mean(sums[1]), mean(sums[2]) / 12.0, crowd],
            outstanding: self.counts.then_some(outstanding),
        })
    }
}

/// A load in four numbers from 0 to 1: the share of sequential tasks, the share of writers, the length of their I/Os
/// (log2 of sectors, by 12), and their number (log2, by 12).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Signature {
    /// The numbers in this order.
    pub parts: [f64; 4],
    /// Outstanding I/Os of a random task (log2, by 12); `None` where completions are not reported. It does not distinguish
    /// workloads, because the outstanding I/Os of an open load depend on the scheduler.
    pub outstanding: Option<f64>,
}

impl Signature {
    /// A load without its outstanding I/Os.
    pub fn of(parts: [f64; 4]) -> Signature {
        Signature { parts, outstanding: None }
    }

    /// Distance from another: 0 for the same load, about 1 for an opposite one.
    pub fn distance(&self, other: &Signature) -> f64 {
        let squares = self.parts.iter().zip(&other.parts).map(|(a, b)| (a - b) * (a - b));
        squares.sum::<f64>().sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(table: &mut TaskTable, tasks: u32, per_task: u32, sequential: bool, from_ms: u64) {
        for i in 0..per_task {
            for task in 0..tasks {
                let sector = if sequential { u64::from(i) * 8 } else { u64::from(i * 7919 % 104_729) * 4096 };
                let sector = sector + u64::from(task) * 1_000_000_000;
                table
                    .arrive(Nanos::from_ms(from_ms + u64::from(i)), Arrival { task, write: false, sector, sectors: 8 });
            }
        }
    }

    #[test]
    fn streams_and_random_readers_are_far_apart_and_each_is_like_itself() {
        let (mut streams, mut random) = (TaskTable::default(), TaskTable::default());
        fill(&mut streams, 4, 50, true, 0);
        fill(&mut random, 4, 50, false, 0);
        let at = Nanos::from_ms(50);
        let (a, b) = (streams.signature(at).unwrap(), random.signature(at).unwrap());
        assert!(a.distance(&b) > 0.9, "{a:?} {b:?}");
        fill(&mut streams, 4, 50, true, 60);
        assert!(streams.signature(Nanos::from_ms(110)).unwrap().distance(&a) < 0.05);
    }

    #[test]
    fn a_stream_that_is_served_more_often_changes_nothing() {
        let mut table = TaskTable::default();
        fill(&mut table, 2, 50, true, 0);
        let even = table.signature(Nanos::from_ms(50)).unwrap();
        for i in 50..500u64 {
            let arrival = Arrival { task: 0, write: false, sector: i * 8, sectors: 8 };
            table.arrive(Nanos::from_ms(i), arrival);
        }
        let favoured = table.signature(Nanos::from_ms(500)).unwrap();
        assert!(even.distance(&favoured) < 0.01, "{even:?} {favoured:?}");
    }

    #[test]
    fn a_task_that_waits_for_its_turn_still_counts() {
        let mut table = TaskTable::default();
        fill(&mut table, 4, 20, true, 0);
        let four = table.signature(Nanos::from_ms(20)).unwrap();
        // One is served for two seconds; the others wait for one I/O each.
        (1..4).for_each(|task| (0..19).for_each(|_| table.complete(task)));
        for i in 20..2_000u64 {
            table.complete(0);
            table.arrive(Nanos::from_ms(i), Arrival { task: 0, write: false, sector: i * 8, sectors: 8 });
        }
        assert!(table.signature(Nanos::from_ms(2_000)).unwrap().distance(&four) < 0.01);
        (1..4).for_each(|task| table.complete(task));
        assert!(table.signature(Nanos::from_ms(2_000)).unwrap().distance(&four) > 0.15, "they rest");
    }

    #[test]
    fn tasks_that_ended_or_rest_do_not_count() {
        let mut table = TaskTable::default();
        fill(&mut table, 4, 20, true, 0);
        (0..4).for_each(|task| (0..20).for_each(|_| table.complete(task)));
        let four = table.signature(Nanos::from_ms(20)).unwrap();
        table.exit(1);
        table.exit(2);
        table.exit(3);
        assert!(table.signature(Nanos::from_ms(20)).unwrap().distance(&four) > 0.15);
        assert_eq!(table.signature(Nanos::from_secs(5)), None);
    }

    #[test]
    fn logarithms_are_exact_at_powers_of_two() {
        assert_eq!([1, 2, 8, 1024].map(log2), [0, ONE, 3 * ONE, 10 * ONE]);
        assert_eq!(log2(3), ONE + ONE / 2);
        assert!((1..10_000).all(|n| log2(n) <= log2(n + 1)));
        assert!(log2(u32::MAX) < 32 * ONE);
    }
}
