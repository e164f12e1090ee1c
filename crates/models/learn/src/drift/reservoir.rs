//! Completed requests for training: the most recent ones, and a uniform sample of every kind.

use dumbwaiter_block::Op;

/// Strata of the sample: reads and writes by octave of their size.
const STRATA: usize = 32;

/// The kind of a request: its operation and the octave of its size, from 512 bytes on.
pub fn stratum_of(op: Op, bytes: u32) -> usize {
    let octave = (bytes.max(512).ilog2() - 9).min(15) as usize;
    2 * octave + usize::from(op == Op::Write)
}

/// A bounded sample of a stream of rows: one half are the most recent rows, the other half a uniform sample of each stratum,
/// so that a quiet week does not erase the writes. It never grows; a push costs the same always.
#[derive(Clone, Debug)]
pub struct Reservoir<T> {
    recent: Vec<T>,
    /// Position of the next row, once it is full.
    next: usize,
    /// Rows of each stratum, and how many there were.
    strata: Vec<(Vec<T>, u64)>,
    recent_max: usize,
    stratum_max: usize,
    state: u64,
    pushed: u64,
}

impl<T: Copy> Reservoir<T> {
    /// Rows that a reservoir holds by default.
    pub const CAPACITY: usize = 32_768;

    /// A reservoir of at most `capacity` rows; the same seed and rows give the same sample.
    pub fn new(capacity: usize, seed: u64) -> Reservoir<T> {
        let recent_max = (capacity / 2).max(1);
        Reservoir {
            recent: Vec::with_capacity(recent_max),
            next: 0,
            strata: vec![(Vec::new(), 0); STRATA],
            recent_max,
            stratum_max: (capacity / 2 / STRATA).max(1),
            state: seed,
            pushed: 0,
        }
    }

    /// A request of a stratum ([`stratum_of`]) completed.
    pub fn push(&mut self, stratum: usize, row: T) {
        self.pushed += 1;
        if self.recent.len() < self.recent_max {
            self.recent.push(row);
        } else {
            // What leaves the recent half has been sampled when it came.
            self.recent[self.next] = row;
            self.next = (self.next + 1) % self.recent_max;
        }
        let below = self.draw();
        let (kept, seen) = &mut self.strata[stratum % STRATA];
        *seen += 1;
        if kept.len() < self.stratum_max {
            kept.push(row);
        } else {
            let place = ((u128::from(below) * u128::from(*seen)) >> 64) as usize;
            if let Some(old) = kept.get_mut(place) {
                *old = row;
            }
        }
    }

    /// SplitMix64.
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The most recent rows, oldest first.
    pub fn recent(&self) -> impl Iterator<Item = &T> {
        let (new, old) = self.recent.split_at(self.next.min(self.recent.len()));
        old.iter().chain(new)
    }

    /// The sample of all strata.
    pub fn sampled(&self) -> impl Iterator<Item = &T> {
        self.strata.iter().flat_map(|(kept, _)| kept)
    }

    /// Rows kept.
    pub fn len(&self) -> usize {
        self.recent.len() + self.strata.iter().map(|(kept, _)| kept.len()).sum::<usize>()
    }

    /// Whether nothing was pushed yet.
    pub fn is_empty(&self) -> bool {
        self.recent.is_empty()
    }

    /// Rows pushed since the beginning.
    pub fn pushed(&self) -> u64 {
        self.pushed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rare_kind_survives_a_flood_of_another() {
        let mut reservoir = Reservoir::new(1024, 1);
        let (read, write) = (stratum_of(Op::Read, 4096), stratum_of(Op::Write, 65_536));
        (0..10).for_each(|i| reservoir.push(write, i));
        (10..200_000).for_each(|i| reservoir.push(read, i));
        assert_eq!(reservoir.sampled().filter(|row| **row < 10).count(), 10);
        assert!(reservoir.len() <= 1024 && reservoir.recent().eq((199_488..200_000).collect::<Vec<_>>().iter()));
        let of_reads: Vec<i32> = reservoir.sampled().copied().filter(|row| *row >= 10).collect();
        let mean = of_reads.iter().sum::<i32>() / of_reads.len() as i32;
        assert!((50_000..150_000).contains(&mean), "a uniform sample: {mean}");
    }

    #[test]
    fn strata_are_operations_and_octaves() {
        assert_ne!(stratum_of(Op::Read, 4096), stratum_of(Op::Write, 4096));
        assert_ne!(stratum_of(Op::Read, 4096), stratum_of(Op::Read, 8192));
        assert_eq!(stratum_of(Op::Read, 0), stratum_of(Op::Read, 512));
        assert!(stratum_of(Op::Write, u32::MAX) < STRATA);
    }
}
