//! Activity of every core, for energy: pairs of SMT siblings that idle, work or poll.

use std::collections::VecDeque;

/// Unordered pairs of the activities of two siblings.
pub const PAIRS: [(Kind, Kind); 6] = [
    (Kind::Idle, Kind::Idle),
    (Kind::Idle, Kind::Work),
    (Kind::Idle, Kind::Poll),
    (Kind::Work, Kind::Work),
    (Kind::Work, Kind::Poll),
    (Kind::Poll, Kind::Poll),
];

/// Activity of a logical CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Idle.
    Idle,
    /// Instructions of the kernel or an application.
    Work,
    /// Polling for a completion.
    Poll,
}

/// Time for which the package stays awake after the last activity, ns.
const PACKAGE_AWAKE: u64 = 100_000;

/// Total activity up to a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Time of all cores in each of [`PAIRS`], ns.
    pub pairs: [u64; 6],
    /// Time in which the package was awake, ns.
    pub awake: u64,
    /// Work of all logical CPUs, ns.
    pub work: u64,
    /// Polling of all logical CPUs, ns.
    pub poll: u64,
    /// Context switches to threads of the load.
    pub switches: u64,
    /// Interrupts of the device.
    pub interrupts: u64,
    /// Interrupts of timers.
    pub timers: u64,
    /// Logical CPUs that left the idle state.
    pub wakes: u64,
    /// I/Os whose completion reached the application.
    pub ios: u64,
    /// Of these, I/Os found by polling.
    pub polled: u64,
}

impl Activity {
    /// Activity since `earlier`.
    pub fn since(&self, earlier: &Activity) -> Activity {
        Activity {
            pairs: std::array::from_fn(|i| self.pairs[i] - earlier.pairs[i]),
            awake: self.awake - earlier.awake,
            work: self.work - earlier.work,
            poll: self.poll - earlier.poll,
            switches: self.switches - earlier.switches,
            interrupts: self.interrupts - earlier.interrupts,
            timers: self.timers - earlier.timers,
            wakes: self.wakes - earlier.wakes,
            ios: self.ios - earlier.ios,
            polled: self.polled - earlier.polled,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Span {
    from: u64,
    to: u64,
    kind: Kind,
}

/// A core: booked spans of its one or two logical CPUs, and the time up to which they are summed.
#[derive(Clone, Debug, Default)]
struct Core {
    spans: [VecDeque<Span>; 2],
    settled: u64,
}

/// The timeline of all CPUs.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    cores: Vec<Core>,
    siblings: usize,
    /// Activity that does not belong to a core.
    pub(super) total: Activity,
    awake_until: u64,
    pollers: u32,
}

/// Most spans of a CPU that are kept before they are summed.
const PENDING_SPANS_MAX: usize = 64;

impl Timeline {
    /// `cpus` logical CPUs, of which `k` and `k + siblings` share a core unless `siblings` is 0.
    pub(super) fn new(cpus: usize, siblings: usize) -> Timeline {
        let cores = if siblings > 0 { siblings } else { cpus };
        Timeline {
            cores: vec![Core::default(); cores],
            siblings,
            total: Activity::default(),
            awake_until: 0,
            pollers: 0,
        }
    }

    fn place(&self, cpu: usize) -> (usize, usize) {
        if self.siblings > 0 { (cpu % self.siblings, cpu / self.siblings) } else { (cpu, 0) }
    }

    /// Books an activity of a CPU from `from` to `to`, not before earlier bookings end. No later booking begins before
    /// `now`.
    pub(super) fn book(&mut self, cpu: usize, from: u64, to: u64, kind: Kind, now: u64) {
        let (core, thread) = self.place(cpu);
        let from = from.max(self.cores[core].settled);
        if to <= from {
            return;
        }
        let spans = &mut self.cores[core].spans[thread];
        match spans.back_mut() {
            Some(last) if last.to == from && last.kind == kind => last.to = to,
            _ => {
                spans.push_back(Span { from, to, kind });
                if spans.len() > PENDING_SPANS_MAX {
                    self.settle(core, now);
                }
            }
        }
        self.touch(from, to);
    }

    /// Polling begins or ends; the package is awake until it ends.
    pub(super) fn polling(&mut self, from: u64, begins: bool) {
        self.touch(from, from);
        if begins {
            self.pollers += 1;
        } else {
            self.pollers -= 1;
        }
    }

    fn touch(&mut self, from: u64, to: u64) {
        let until = to + PACKAGE_AWAKE;
        if self.pollers > 0 || from <= self.awake_until {
            self.total.awake += until.saturating_sub(self.awake_until);
        } else {
            self.total.awake += until - from;
        }
        self.awake_until = self.awake_until.max(until);
    }

    /// Sums the activity of a core until `until`.
    fn settle(&mut self, core: usize, until: u64) {
        let smt = self.siblings > 0;
        let core = &mut self.cores[core];
        let total = &mut self.total;
        while core.settled < until {
            let at = core.settled;
            let mut next = until;
            let mut kinds = [Kind::Idle; 2];
            for (kind, spans) in kinds.iter_mut().zip(&core.spans) {
                if let Some(span) = spans.front() {
                    if span.from <= at {
                        *kind = span.kind;
                        next = next.min(span.to);
                    } else {
                        next = next.min(span.from);
                    }
                }
            }
            let length = next - at;
            for kind in &kinds[..1 + usize::from(smt)] {
                match kind {
                    Kind::Idle => {}
                    Kind::Work => total.work += length,
                    Kind::Poll => total.poll += length,
                }
            }
            total.pairs[pair(kinds)] += length;
            core.settled = next;
            for spans in &mut core.spans {
                while spans.front().is_some_and(|s| s.to <= next) {
                    spans.pop_front();
                }
            }
        }
    }

    /// Totals until `at`; times must not decrease.
    pub(super) fn until(&mut self, at: u64) -> Activity {
        for core in 0..self.cores.len() {
            self.settle(core, at);
        }
        let mut total = self.total;
        // The package time is summed ahead.
        if self.pollers > 0 && self.awake_until < at {
            total.awake += at - self.awake_until;
        } else {
            total.awake -= self.awake_until.saturating_sub(at).min(total.awake);
        }
        total
    }
}

fn pair(kinds: [Kind; 2]) -> usize {
    let found = PAIRS.iter().position(|(a, b)| kinds == [*a, *b] || kinds == [*b, *a]);
    found.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn siblings_match_a_calculation_by_hand() {
        let mut t = Timeline::new(4, 2);
        t.book(0, 10, 30, Kind::Work, 0);
        t.book(2, 20, 50, Kind::Poll, 0);
        t.book(0, 40, 45, Kind::Work, 0);
        let a = t.until(60);
        // Core 0: idle 10, work 10, work and poll 10 + 5, poll 10 + 5, idle 10; core 1 idle 60.
        assert_eq!(a.pairs, [80, 10, 15, 0, 15, 0]);
        assert_eq!((a.work, a.poll, a.awake), (25, 30, 50));
    }

    #[test]
    fn the_package_sleeps_between_distant_work_but_not_beside_a_poller() {
        let mut t = Timeline::new(2, 0);
        t.book(0, 0, 1000, Kind::Work, 0);
        t.book(0, 1_000_000, 1_001_000, Kind::Work, 0);
        assert_eq!(t.until(2_000_000).awake, 202_000);
        t.polling(2_000_000, true);
        t.book(1, 2_500_000, 2_500_100, Kind::Work, 0);
        t.polling(3_000_000, false);
        assert_eq!(t.until(4_000_000).awake, 202_000 + 1_100_000);
    }

    proptest! {
        #[test]
        fn time_is_conserved(works in prop::collection::vec((0usize..4, 0u64..300_000, 1u64..5_000, any::<bool>()), 0..300)) {
            let mut t = Timeline::new(4, 2);
            let mut free = [0u64; 4];
            let mut now = 0;
            for (cpu, gap, length, poll) in works {
                let from = free[cpu].max(now) + gap % 1000;
                let kind = if poll { Kind::Poll } else { Kind::Work };
                t.book(cpu, from, from + length, kind, now);
                free[cpu] = from + length;
                now += gap / 10;
            }
            let end = free.into_iter().max().unwrap_or(0).max(now) + 77;
            let a = t.until(end);
            prop_assert_eq!(a.pairs.iter().sum::<u64>(), 2 * end);
            let halves: u64 = a.pairs.iter().zip(PAIRS).map(|(ns, (x, y))| {
                ns * ([x, y].iter().filter(|k| **k != Kind::Idle).count() as u64)
            }).sum();
            prop_assert_eq!(a.work + a.poll, halves);
            prop_assert!(a.awake <= end);
        }
    }
}
