//! A load whose kind of I/O changes from time to time, as that of a trace does.

use dumbwaiter_block::Nanos;

use crate::generate::random::Random;
use crate::{Next, Workload};

/// One phase's I/O, and how many I/Os it has on average.
pub(super) struct Phase {
    pub(super) workload: Box<dyn Workload>,
    pub(super) mean_ios: u32,
}

/// Phases by turns. Their lengths are counted in I/Os and exponentially distributed: a replayed trace goes on as fast as its I/Os complete,
/// and never rests.
pub(super) struct Phases {
    phases: [Phase; 2],
    current: usize,
    /// I/Os that the current phase still issues.
    left: u64,
    /// I/Os of each phase that have not completed.
    outstanding: [u32; 2],
    random: Random,
}

impl Phases {
    /// Begins with a phase, and at a place in it, drawn from `random`, so that loads started together are not in step.
    pub(super) fn new(phases: [Phase; 2], mut random: Random) -> Phases {
        let total = u64::from(phases[0].mean_ios) + u64::from(phases[1].mean_ios);
        let current = usize::from(random.below(total) >= u64::from(phases[0].mean_ios));
        let mut all = Phases { phases, current, left: 0, outstanding: [0; 2], random };
        all.left = all.length();
        all
    }

    fn length(&mut self) -> u64 {
        let mean = f64::from(self.phases[self.current].mean_ios);
        ((mean * self.random.exponential()) as u64).max(1)
    }
}

impl Workload for Phases {
    fn next(&mut self, now: Nanos) -> Next {
        if self.left == 0 {
            self.current = 1 - self.current;
            self.left = self.length();
        }
        let next = self.phases[self.current].workload.next(now);
        if let Next::Issue(_) = next {
            self.left -= 1;
            self.outstanding[self.current] += 1;
        }
        next
    }

    fn completed(&mut self, now: Nanos, task: u16, lat: Nanos) {
        // Which of the two it belongs to does not matter to them: they only count. The earlier phase is the first to end.
        let phase = if self.outstanding[1 - self.current] > 0 { 1 - self.current } else { self.current };
        self.outstanding[phase] = self.outstanding[phase].saturating_sub(1);
        self.phases[phase].workload.completed(now, task, lat);
    }
}

#[cfg(test)]
mod tests {
    use dumbwaiter_block::{Flags, Op};

    use super::*;
    use crate::Want;

    /// Reads of one size, at most `depth` of them outstanding.
    struct Fixed {
        sectors: u32,
        depth: u32,
        outstanding: u32,
    }

    impl Workload for Fixed {
        fn next(&mut self, _now: Nanos) -> Next {
            if self.outstanding == self.depth {
                return Next::Blocked;
            }
            self.outstanding += 1;
            let (op, sector, sectors, flags) = (Op::Read, 0, self.sectors, Flags::NONE);
            Next::Issue(Want { op, sector, sectors, flags, ioprio: None, stream: 0, task: 0 })
        }

        fn completed(&mut self, _now: Nanos, _task: u16, _lat: Nanos) {
            self.outstanding -= 1;
        }
    }

    #[test]
    fn phases_take_turns_by_their_number_of_ios() {
        let phase = |sectors, mean_ios| {
            let workload = Box::new(Fixed { sectors, depth: 4, outstanding: 0 });
            Phase { workload, mean_ios }
        };
        let mut load = Phases::new([phase(8, 300), phase(512, 100)], Random::new(&[3]));
        let (mut small, mut changes, mut last, mut under) = (0u32, 0u32, 0, 0u32);
        let n = 200_000;
        for _ in 0..n {
            if under == 4 {
                load.completed(Nanos::ZERO, 0, Nanos::ZERO);
                under -= 1;
            }
            let Next::Issue(want) = load.next(Nanos::ZERO) else { panic!("it never rests") };
            under += 1;
            small += u32::from(want.sectors == 8);
            changes += u32::from(want.sectors != last);
            last = want.sectors;
        }
        let share = f64::from(small) / f64::from(n);
        assert!((0.7..0.8).contains(&share), "three of four I/Os are small: {share}");
        let cycles = f64::from(changes) / 2.0;
        assert!((400.0..600.0).contains(&cycles), "cycles of 400 I/Os: {cycles}");
    }
}
