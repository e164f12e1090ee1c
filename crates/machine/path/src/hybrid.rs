//! How long to sleep before polling: half of the mean service time of requests of that size and direction.
//!
//! The statistics are those of Linux 4.10 to 6.3: eight sizes from 512 bytes to 64 KiB and larger, two directions, means over
//! windows of 100 ms (host-and-completion: hybrid polling of blk-mq).

use dumbwaiter_block::{Dir, Nanos, Op};

use crate::completion::Sleep;

const BUCKETS: usize = 16;
/// The first completion after it starts a new window.
const WINDOW: Nanos = Nanos::from_ms(100);

/// Statistics of service times, and what follows from them.
#[derive(Clone, Debug)]
pub(crate) struct Sleeper {
    sleep: Sleep,
    means: [u64; BUCKETS],
    sums: [u64; BUCKETS],
    counts: [u64; BUCKETS],
    window_ends: Option<Nanos>,
}

/// The bucket of a request: direction in the lowest digit, then the power of two of its sectors.
fn bucket(op: Op, sectors: u32) -> usize {
    let size = sectors.max(1).ilog2().min(BUCKETS as u32 / 2 - 1) as usize;
    2 * size + usize::from(op.dir() == Dir::Write)
}

impl Sleeper {
    pub(crate) fn new(sleep: Sleep) -> Sleeper {
        Sleeper { sleep, means: [0; BUCKETS], sums: [0; BUCKETS], counts: [0; BUCKETS], window_ends: None }
    }

    /// How long after its issue a request should be slept for; nothing while nothing is known.
    pub(crate) fn after_issue(&self, op: Op, sectors: u32) -> Nanos {
        match self.sleep {
            Sleep::Fixed(time) => time,
            Sleep::Auto | Sleep::Learned => match self.means[bucket(op, sectors)] {
                0 => Nanos::ZERO,
                mean => Nanos(mean.div_ceil(2)),
            },
        }
    }

    /// A request took this long, from issue to being found.
    pub(crate) fn completed(&mut self, now: Nanos, op: Op, sectors: u32, took: Nanos) {
        if self.window_ends.is_some_and(|end| now >= end) {
            for i in 0..BUCKETS {
                if let Some(mean) = self.sums[i].checked_div(self.counts[i]) {
                    self.means[i] = mean;
                }
            }
            (self.sums, self.counts) = ([0; BUCKETS], [0; BUCKETS]);
            self.window_ends = None;
        }
        self.window_ends.get_or_insert(now + WINDOW);
        let i = bucket(op, sectors);
        self.sums[i] += took.0;
        self.counts[i] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_sizes_two_directions() {
        assert_eq!(bucket(Op::Read, 1), 0);
        assert_eq!(bucket(Op::Write, 1), 1);
        assert_eq!(bucket(Op::Read, 8), 6);
        assert_eq!(bucket(Op::Read, 15), 6);
        assert_eq!(bucket(Op::Write, 128), 15);
        assert_eq!(bucket(Op::Write, 4096), 15);
    }

    #[test]
    fn half_the_mean_of_the_last_window() {
        let mut s = Sleeper::new(Sleep::Learned);
        let read = |s: &mut Sleeper, ms, us| s.completed(Nanos::from_ms(ms), Op::Read, 8, Nanos::from_us(us));
        read(&mut s, 0, 100);
        read(&mut s, 50, 200);
        assert_eq!(s.after_issue(Op::Read, 8), Nanos::ZERO, "no window has ended");
        read(&mut s, 101, 10);
        assert_eq!(s.after_issue(Op::Read, 8), Nanos::from_us(75));
        assert_eq!(s.after_issue(Op::Write, 8), Nanos::ZERO);
        s.completed(Nanos::from_ms(300), Op::Write, 8, Nanos::from_us(7));
        assert_eq!(s.after_issue(Op::Read, 8), Nanos::from_us(5));
        s.completed(Nanos::from_ms(500), Op::Write, 8, Nanos::from_us(7));
        assert_eq!(s.after_issue(Op::Read, 8), Nanos::from_us(5), "an empty bucket keeps its mean");
        assert_eq!(Sleeper::new(Sleep::Fixed(Nanos(9))).after_issue(Op::Read, 8), Nanos(9));
    }
}
