//! Statistics of a process: how long it thinks between reads, and how far apart they are.

use dumbwaiter_block::Nanos;

/// Think times are counted in steps of this length.
const STEP: Nanos = Nanos::from_us(250);
/// Steps; longer think times count as the last one.
const STEPS: usize = 48;
/// At this many samples, all are halved: the past is forgotten.
const SAMPLES_MAX: u32 = 64;
/// The mean positioning time follows the last eight reads or so.
const MEAN_SHIFT: u32 = 3;

#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    think: [u8; STEPS],
    samples: u32,
    /// Mean time to position the arm from its last read to its next, ns; 0: unknown.
    positioning_ns: u64,
    /// Its reads queued and in the device.
    pub outstanding: u32,
    /// When its last read completed; zero: none has.
    pub completed: Nanos,
    /// The sector behind that read.
    pub end: u64,
}

impl Default for Process {
    fn default() -> Self {
        Process { think: [0; STEPS], samples: 0, positioning_ns: 0, outstanding: 0, completed: Nanos::ZERO, end: 0 }
    }
}

impl Process {
    /// Has it thought before?
    pub(super) fn is_known(&self) -> bool {
        self.samples > 0
    }

    pub(super) fn thought(&mut self, time: Nanos) {
        let step = (time.0 / STEP.0).min(STEPS as u64 - 1) as usize;
        self.think[step] += 1;
        self.samples += 1;
        if self.samples >= SAMPLES_MAX {
            self.think.iter_mut().for_each(|count| *count /= 2);
            self.samples = self.think.iter().map(|count| u32::from(*count)).sum();
        }
    }

    pub(super) fn positioned(&mut self, ns: u64) {
        let mean = self.positioning_ns - (self.positioning_ns >> MEAN_SHIFT) + (ns >> MEAN_SHIFT);
        self.positioning_ns = if self.positioning_ns == 0 { ns } else { mean };
    }

    /// Expected time to position the arm for its next read.
    pub(super) fn positioning_ns(&self) -> u64 {
        self.positioning_ns
    }

    /// The think time that this part of its think times does not exceed, rounded up to a step; the longest for a process that is not known.
    pub(super) fn think_time(&self, percent: u32) -> Nanos {
        let need = (self.samples * percent).div_ceil(100);
        let mut seen = 0;
        for (step, count) in self.think.iter().enumerate() {
            seen += u32::from(*count);
            if self.samples > 0 && seen >= need {
                return Nanos(STEP.0 * (step as u64 + 1));
            }
        }
        Nanos(STEP.0 * STEPS as u64)
    }
}

/// Mean service times by distance of the arm: powers of two of sectors.
#[derive(Clone, Debug)]
pub(super) struct Distances {
    mean_ns: [u64; 42],
}

/// Assumed cost of a distance before it was measured: more for each doubling.
const COST_AT_FIRST_NS: u64 = 300_000;

impl Default for Distances {
    fn default() -> Self {
        Distances { mean_ns: std::array::from_fn(|i| i as u64 * COST_AT_FIRST_NS) }
    }
}

fn class_of(distance: u64) -> usize {
    (u64::BITS - distance.leading_zeros()).min(41) as usize
}

impl Distances {
    /// Expected time for a request this far away.
    pub(super) fn cost_ns(&self, distance: u64) -> u64 {
        self.mean_ns[class_of(distance)]
    }

    pub(super) fn learn(&mut self, distance: u64, ns: u64) {
        let mean = &mut self.mean_ns[class_of(distance)];
        *mean = *mean - (*mean >> MEAN_SHIFT) + (ns >> MEAN_SHIFT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_think_times() {
        let mut process = Process::default();
        assert_eq!(process.think_time(50), Nanos::from_ms(12));
        for _ in 0..19 {
            process.thought(Nanos::from_us(300));
        }
        process.thought(Nanos::from_ms(500));
        assert_eq!([50, 95, 96].map(|p| process.think_time(p)), [500, 500, 12_000].map(Nanos::from_us));
        (0..1000).for_each(|_| process.thought(Nanos::from_ms(2)));
        assert_eq!(process.think_time(95), Nanos::from_us(2250), "the past is forgotten");
    }

    #[test]
    fn positioning_is_learned_by_distance() {
        let mut distances = Distances::default();
        assert!(distances.cost_ns(0) < distances.cost_ns(100) && distances.cost_ns(100) < distances.cost_ns(1 << 30));
        (0..100).for_each(|_| distances.learn(1 << 30, 12_000_000));
        assert!((11_000_000..=12_000_000).contains(&distances.cost_ns(1 << 30)));
    }
}
