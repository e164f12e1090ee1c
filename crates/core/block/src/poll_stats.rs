//! Statistics of hybrid polling, which sleeps before it polls: those of blk-mq (Linux 4.10 to 6.3).

use crate::{Nanos, Op};

/// Number of size buckets: 512 B to 64 KB by powers of two; larger I/Os share the last.
const SIZES: usize = 8;
/// Length of the window over which service times are averaged.
const WINDOW: Nanos = Nanos(100_000_000);

/// Mean service times of blk-mq's hybrid polling, by size and direction.
#[derive(Clone, Debug, Default)]
pub struct PollStats {
    mean: [u64; 2 * SIZES],
    sum: [u64; 2 * SIZES],
    count: [u64; 2 * SIZES],
    window_ends: Option<Nanos>,
    on: bool,
}

/// The bucket of an I/O.
fn bucket(op: Op, sectors: u32) -> usize {
    let size = (sectors.max(1).ilog2() as usize).min(SIZES - 1);
    usize::from(op != Op::Read) + 2 * size
}

impl PollStats {
    /// Sleep time of an I/O just issued: half of its bucket's mean, or 0 without a mean.
    pub fn sleep(&mut self, now: Nanos, op: Op, sectors: u32) -> Nanos {
        self.roll(now);
        // The first polled request switches the statistics on.
        self.on = true;
        let mean = self.mean[bucket(op, sectors)];
        Nanos(if mean == 0 { 0 } else { mean.div_ceil(2) })
    }

    /// Records an I/O found `service` after its issue.
    pub fn record(&mut self, now: Nanos, op: Op, sectors: u32, service: Nanos) {
        if !self.on {
            return;
        }
        self.roll(now);
        self.window_ends.get_or_insert(now + WINDOW);
        let at = bucket(op, sectors);
        self.sum[at] += service.0;
        self.count[at] += 1;
    }

    /// At the end of a window its means take effect; empty buckets keep theirs. The next completion starts the next
    /// window.
    fn roll(&mut self, now: Nanos) {
        if self.window_ends.is_none_or(|end| now < end) {
            return;
        }
        self.window_ends = None;
        for at in 0..2 * SIZES {
            self.mean[at] = self.sum[at].checked_div(self.count[at]).unwrap_or(self.mean[at]);
            (self.sum[at], self.count[at]) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_sixteen_buckets() {
        let all: Vec<usize> =
            [1, 2, 8, 15, 16, 127, 128, 129, 256, 5000].map(|s| bucket(Op::Read, s)).into_iter().collect();
        assert_eq!(all, [0, 2, 6, 6, 8, 12, 14, 14, 14, 14]);
        assert_eq!(bucket(Op::Write, 256), 15);
    }

    #[test]
    fn sleeps_half_of_the_mean_of_the_last_window() {
        let mut stats = PollStats::default();
        let ms = Nanos::from_ms;
        assert_eq!(stats.sleep(ms(0), Op::Read, 8), Nanos::ZERO);
        stats.record(ms(1), Op::Read, 8, Nanos(6000));
        stats.record(ms(50), Op::Read, 8, Nanos(7001));
        assert_eq!(stats.sleep(ms(100), Op::Read, 8), Nanos::ZERO, "the window began with the first completion");
        assert_eq!(stats.sleep(ms(101), Op::Read, 8), Nanos(3250), "half of 6500");
        assert_eq!(stats.sleep(ms(101), Op::Write, 8), Nanos::ZERO);
        stats.record(ms(150), Op::Write, 8, Nanos(10_001));
        assert_eq!(stats.sleep(ms(250), Op::Write, 8), Nanos(5001));
        assert_eq!(stats.sleep(ms(250), Op::Read, 8), Nanos(3250), "an empty bucket keeps its mean");
        // 128 KB shares the bucket of 64 KB.
        stats.record(ms(260), Op::Read, 256, Nanos(40_000));
        assert_eq!(stats.sleep(ms(400), Op::Read, 128), Nanos(20_000));
    }
}
