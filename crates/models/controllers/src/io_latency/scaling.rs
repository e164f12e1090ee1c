//! Judging latencies, and how deep those may be that are in the way.

use dumbwaiter_block::Nanos;

/// The cookie of a group in which nobody is throttled.
pub const UNTHROTTLED: u32 = 1_000_000;
/// Between two changes of a cookie.
const SPACING: Nanos = Nanos::from_ms(500);
/// After this without a change nobody is said to be protected any more.
const FORGOTTEN: Nanos = Nanos::from_secs(5);
/// Fewest latencies that let a cookie rise.
const SAMPLES_MIN: u64 = 5;

/// Latencies of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// How many.
    pub total: u64,
    /// How many of them reached the target.
    pub missed: u64,
    /// Their sum, ns.
    pub sum_ns: u64,
}

impl Latencies {
    /// Counts one.
    pub fn add(&mut self, latency: Nanos, target: Nanos) {
        self.total += 1;
        self.missed += u64::from(latency >= target);
        self.sum_ns = self.sum_ns.saturating_add(latency.0);
    }

    /// Counts all of others.
    pub fn add_all(&mut self, others: Latencies) {
        self.total += others.total;
        self.missed += others.missed;
        self.sum_ns = self.sum_ns.saturating_add(others.sum_ns);
    }

    /// Do they meet the target? On flash fewer than a tenth may miss it, on disks the mean counts.
    pub fn good(&self, target: Nanos, rotational: bool) -> bool {
        if rotational { self.sum_ns / self.total.max(1) <= target.0 } else { self.missed < (self.total / 10).max(1) }
    }
}

/// How groups in one are throttled for one of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scaling {
    /// [`UNTHROTTLED`], or less: each sees a change with its next I/O.
    pub(super) cookie: u32,
    /// Who is protected, and the target for which it was throttled; zero: never.
    pub(super) protects: Option<usize>,
    pub(super) target: Nanos,
    /// Latencies of the groups in this one, as far as they are judged.
    pub(super) samples: u64,
    pub(super) changed: Option<Nanos>,
}

impl Default for Scaling {
    fn default() -> Self {
        Scaling { cookie: UNTHROTTLED, protects: None, target: Nanos::ZERO, samples: 0, changed: None }
    }
}

impl Scaling {
    /// Was there a change so lately that there is none yet?
    pub(super) fn rests(&self, now: Nanos) -> bool {
        self.changed.is_some_and(|changed| now.since(changed) < SPACING)
    }

    /// A group of this number meets its target again.
    pub(super) fn met(&mut self, group: usize, samples: u64, queue_depth: u32, now: Nanos) {
        if samples >= SAMPLES_MIN && self.protects == Some(group) {
            self.changed = Some(now);
            self.rise(queue_depth);
        }
    }

    /// A group of this number and target missed it. `protected`: the target of the one that is protected.
    pub(super) fn missed(
        &mut self,
        group: usize,
        target: Nanos,
        protected: Option<Nanos>,
        queue_depth: u32,
        now: Nanos,
    ) {
        if self.target > Nanos::ZERO && self.target < target {
            return;
        }
        self.changed = Some(now);
        if protected.is_none_or(|protected| protected > target) {
            self.protects = Some(group);
        }
        self.target = target;
        let below = UNTHROTTLED - self.cookie;
        let step = if below > queue_depth { 1 } else { (queue_depth / 4).max(1) };
        self.cookie = (self.cookie.saturating_sub(step)).max(UNTHROTTLED.saturating_sub(queue_depth.saturating_mul(2)));
    }

    fn rise(&mut self, queue_depth: u32) {
        let step = if UNTHROTTLED - self.cookie > queue_depth { 1 } else { step_up(queue_depth) };
        self.cookie = (self.cookie + step).min(UNTHROTTLED);
    }

    /// Once a second: who was protected is forgotten after a while, and then all recover.
    pub(super) fn second(&mut self, queue_depth: u32, now: Nanos) {
        if self.cookie == UNTHROTTLED {
            return;
        }
        if self.protects.is_none() {
            self.rise(queue_depth);
        } else if self.changed.is_none_or(|changed| now.since(changed) >= FORGOTTEN) {
            self.protects = None;
        }
    }
}

/// By how much a group becomes deeper, and a cookie rises.
pub(super) fn step_up(queue_depth: u32) -> u32 {
    (queue_depth / 16).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_may_miss_on_flash_and_the_mean_counts_on_disks() {
        let target = Nanos::from_ms(5);
        let of = |total: u64, missed: u64| Latencies { total, missed, sum_ns: 0 };
        for (total, least_bad) in [(0, 1), (1, 1), (9, 1), (10, 1), (19, 1), (20, 2), (29, 2), (100, 10)] {
            assert!(of(total, least_bad - 1).good(target, false), "{total}");
            assert!(!of(total, least_bad).good(target, false), "{total}");
        }
        let mut latencies = Latencies::default();
        assert!(latencies.good(target, true));
        latencies.add(Nanos::from_ms(9), target);
        latencies.add(Nanos::from_ms(1), target);
        assert!(latencies.good(target, true) && latencies.missed == 1, "a mean of 5 ms meets 5 ms");
        latencies.add(Nanos::from_ms(6), target);
        assert!(!latencies.good(target, true));
        let mut sum = Latencies::default();
        sum.add_all(latencies);
        assert_eq!(sum, latencies);
        latencies.add(target, target);
        assert_eq!(latencies.missed, 3, "one that takes as long as the target misses it");
    }

    #[test]
    fn cookies_stay_between_their_bounds() {
        for depth in [1, 2, 15, 256, 100_000_000] {
            let mut scaling = Scaling::default();
            for _ in 0..2_000 {
                scaling.missed(1, Nanos::from_ms(5), None, depth, Nanos::ZERO);
                assert!(u64::from(UNTHROTTLED - scaling.cookie) <= u64::from(depth) * 2, "{depth}");
            }
            for _ in 0..2_000 {
                scaling.met(1, 5, depth, Nanos::ZERO);
                assert!(scaling.cookie <= UNTHROTTLED);
            }
            assert_eq!(scaling.cookie, UNTHROTTLED, "{depth}");
        }
    }
}
