//! Sleep times of io_uring's hybrid polling (Linux 6.13).

use dumbwaiter_block::Nanos;

/// io_uring's hybrid polling: the shortest time that a ring has seen, which never grows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RingTime(Option<u64>);

impl RingTime {
    /// Sleep time before polling.
    pub(crate) fn sleep(self) -> Nanos {
        Nanos(self.0.map_or(0, |time| time / 2))
    }

    /// Records a request found `since_issue` after its issue, `slept` of which was requested sleep.
    pub(crate) fn record(&mut self, since_issue: Nanos, slept: Nanos) {
        let runtime = since_issue.since(slept).0;
        self.0 = Some(self.0.map_or(runtime, |time| time.min(runtime)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_sleeps_a_quarter_from_the_third_request_on() {
        let mut ring = RingTime::default();
        let mut sleeps = Vec::new();
        for _ in 0..5 {
            let sleep = ring.sleep();
            sleeps.push(sleep.0);
            ring.record(Nanos(8000), sleep);
        }
        assert_eq!(sleeps, [0, 4000, 2000, 2000, 2000]);
    }
}
