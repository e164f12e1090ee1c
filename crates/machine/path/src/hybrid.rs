//! How long hybrid polling sleeps before it polls.

use dumbwaiter_block::{Nanos, Op, PollStats};

use crate::completion::Sleep;

/// A fixed time, or statistics of service times and what follows from them.
#[derive(Clone, Debug)]
pub(crate) struct Sleeper {
    sleep: Sleep,
    stats: PollStats,
}

impl Sleeper {
    pub(crate) fn new(sleep: Sleep) -> Sleeper {
        Sleeper { sleep, stats: PollStats::default() }
    }

    /// How long after its issue a request should be slept for; nothing while nothing is known.
    pub(crate) fn after_issue(&mut self, now: Nanos, op: Op, sectors: u32) -> Nanos {
        match self.sleep {
            Sleep::Fixed(time) => time,
            Sleep::Auto | Sleep::Learned => self.stats.sleep(now, op, sectors),
        }
    }

    /// A request took this long, from issue to being found.
    pub(crate) fn completed(&mut self, now: Nanos, op: Op, sectors: u32, took: Nanos) {
        self.stats.record(now, op, sectors, took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_learned_time_follows_the_requests_and_a_fixed_one_does_not() {
        let after = |sleep| {
            let mut sleeper = Sleeper::new(sleep);
            let mut at = |ms, took| {
                let time = sleeper.after_issue(Nanos::from_ms(ms), Op::Read, 8);
                sleeper.completed(Nanos::from_ms(ms + 1), Op::Read, 8, Nanos::from_us(took));
                time
            };
            [at(0, 100), at(50, 200), at(101, 10)]
        };
        assert_eq!(after(Sleep::Learned), [Nanos::ZERO, Nanos::ZERO, Nanos::from_us(75)]);
        assert_eq!(after(Sleep::Fixed(Nanos(9))), [Nanos(9); 3]);
    }
}
