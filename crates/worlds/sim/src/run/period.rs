//! Statistics of a period of a run, for callers that decide period by period.

use dumbwaiter_block::{Nanos, Op};
use dumbwaiter_measure::Completed;

/// Buckets of latencies: eight for each power of two of a nanosecond.
const BUCKETS: usize = 40 * 8;
/// The ends of the classes of sizes, in bytes: up to 4 KiB, 64 KiB, and above.
const SIZE_ENDS: [u64; 2] = [4096, 65_536];

/// The end of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeriodEnd {
    /// After this much time.
    Time(Nanos),
    /// After this many completed requests.
    Requests(u64),
}

/// Requests that completed in a period.
#[derive(Clone, Debug)]
pub struct Period {
    /// Their number.
    pub requests: u64,
    /// Reads among them.
    pub reads: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Requests of up to 4 KiB, of up to 64 KiB, and longer ones.
    pub sizes: [u64; 3],
    /// Requests that begin where the one of their task that completed before ended.
    pub sequential: u64,
    /// Sum of the latencies, from submission to notification.
    pub latency: Nanos,
    /// Sum over the requests of how many were in the scheduler when they completed.
    pub in_scheduler: u64,
    /// As `in_scheduler`, for the device.
    pub in_device: u64,
    /// When it began and ended.
    pub from: Nanos,
    /// As `from`.
    pub to: Nanos,
    latencies: [u32; BUCKETS],
    /// By task, the sector after the last one.
    ends: Vec<u64>,
}

impl Default for Period {
    fn default() -> Period {
        Period {
            requests: 0,
            reads: 0,
            bytes: 0,
            sizes: [0; 3],
            sequential: 0,
            latency: Nanos::ZERO,
            in_scheduler: 0,
            in_device: 0,
            from: Nanos::ZERO,
            to: Nanos::ZERO,
            latencies: [0; BUCKETS],
            ends: Vec::new(),
        }
    }
}

fn bucket(ns: u64) -> usize {
    let ns = ns.max(8);
    let power = 63 - ns.leading_zeros() as usize;
    (power * 8 + (ns >> (power - 3)) as usize - 8).min(BUCKETS - 1)
}

/// The longest latency of a bucket.
fn longest(bucket: usize) -> u64 {
    let (power, part) = (bucket / 8, bucket % 8);
    if power < 3 { 8 } else { ((8 + part as u64 + 1) << (power - 3)) - 1 }
}

impl Period {
    /// A request completed while this many were in the scheduler and in the device.
    #[inline]
    pub(super) fn record(&mut self, done: &Completed, in_scheduler: u64, in_device: u64) {
        let ns = done.complete.since(done.submit).0;
        self.requests += 1;
        self.reads += u64::from(done.op == Op::Read);
        self.bytes += done.bytes;
        self.sizes[SIZE_ENDS.iter().filter(|end| done.bytes > **end).count()] += 1;
        self.latency += Nanos(ns);
        self.latencies[bucket(ns)] += 1;
        self.in_scheduler += in_scheduler;
        self.in_device += in_device;
        let task = done.task.0 as usize;
        if self.ends.len() <= task {
            self.ends.resize(task + 1, u64::MAX);
        }
        self.sequential += u64::from(self.ends[task] == done.sector);
        self.ends[task] = done.sector + done.bytes / dumbwaiter_block::SECTOR_BYTES;
    }

    /// Begins the next period; where tasks are is kept.
    pub(super) fn restart(&mut self, now: Nanos) {
        let ends = std::mem::take(&mut self.ends);
        *self = Period { from: now, to: now, ends, ..Period::default() };
    }

    /// The latency that 99 % of the requests stayed below, to an eighth; zero where there were none.
    pub fn p99(&self) -> Nanos {
        let above = self.requests / 100;
        let mut longer = 0;
        for (number, count) in self.latencies.iter().enumerate().rev() {
            longer += u64::from(*count);
            if longer > above {
                return Nanos(longest(number));
            }
        }
        Nanos::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_is_in_a_bucket_an_eighth_wide() {
        for ns in (8..100_000).chain([1 << 30, (1 << 36) + 12345]) {
            let longest = longest(bucket(ns));
            assert!(ns <= longest && longest - ns <= ns / 8, "{ns} is in the bucket to {longest}");
        }
    }
}
