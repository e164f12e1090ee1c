//! The I/Os of a load, one after the other.

use dumbwaiter_block::Op;
use dumbwaiter_path::closed_loop::Access;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::fit::{Load, Pattern};

/// I/Os of a backward run.
const BACKWARD_RUN: u64 = 16;
/// How far the ends of a jump vary at most, in sectors: 32 MiB, many tracks.
const END_VARIES_MAX: u64 = 65_536;
/// Places are multiples of this many sectors.
const ALIGNMENT: u64 = 8;

/// The generator of a load's I/Os; one seed gives one sequence.
pub(crate) struct Addresses<'a> {
    load: &'a Load,
    random: Xoshiro256PlusPlus,
    count: u64,
    /// Next sector of each stream, or the last sector of a backward run.
    next: Vec<u64>,
}

impl<'a> Addresses<'a> {
    pub(crate) fn new(load: &'a Load, seed: u64) -> Addresses<'a> {
        let mut addresses =
            Addresses { load, random: Xoshiro256PlusPlus::seed_from_u64(seed), count: 0, next: vec![0] };
        if let Pattern::Sequential { streams } = load.pattern {
            let streams = u64::from(streams.max(1));
            let part = load.span / streams / ALIGNMENT * ALIGNMENT;
            // The first stream begins at the start; equal gaps would lock the others to a disk's rotation.
            let begin = |i: u64, addresses: &mut Addresses<'_>| match i {
                0 => load.start,
                _ => load.start + i * part + addresses.below(part / 8),
            };
            addresses.next = (0..streams).map(|i| begin(i, &mut addresses)).collect();
        }
        addresses
    }

    /// A multiple of the alignment below `most`.
    fn below(&mut self, most: u64) -> u64 {
        let places = (most / ALIGNMENT).max(1);
        ((u128::from(self.random.next_u64()) * u128::from(places)) >> 64) as u64 * ALIGNMENT
    }

    fn size(&mut self) -> u32 {
        match self.load.sectors[..] {
            [one] => one,
            ref several => several[(self.random.next_u64() >> 32) as usize % several.len()],
        }
    }

    pub(crate) fn next(&mut self) -> Access {
        let Load { pattern, reads, start, span, .. } = *self.load;
        let n = self.count;
        self.count += 1;
        if pattern == Pattern::WriteFlush && n % 2 == 1 {
            return Access { op: Op::Flush, sector: 0, sectors: 0 };
        }
        let sectors = self.size();
        let op = match reads {
            _ if pattern == Pattern::WriteFlush => Op::Write,
            1.0 => Op::Read,
            0.0 => Op::Write,
            share if (self.random.next_u64() >> 11) as f64 / ((1u64 << 53) as f64) < share => Op::Read,
            _ => Op::Write,
        };
        let size = u64::from(sectors);
        let room = span.saturating_sub(size).max(ALIGNMENT);
        let sector = match pattern {
            Pattern::Random | Pattern::WriteFlush => start + self.below(span / size * size) / size * size,
            Pattern::Sequential { .. } => {
                let stream = (n % self.next.len() as u64) as usize;
                let at = self.next[stream];
                let at = if at + size > start + span { start } else { at };
                self.next[stream] = at + size;
                at
            }
            Pattern::Backward => {
                if n.is_multiple_of(BACKWARD_RUN) || self.next[0] < start + size {
                    let run = BACKWARD_RUN * u64::from(self.load.max_sectors());
                    self.next[0] = start + run + self.below(room.saturating_sub(run));
                }
                self.next[0] -= size;
                self.next[0]
            }
            Pattern::Alternate { distance } => {
                let varies = self.below((distance / 8).clamp(ALIGNMENT, END_VARIES_MAX));
                let far = if n % 2 == 1 { distance } else { 0 };
                start + (far + varies).min(room) / ALIGNMENT * ALIGNMENT
            }
        };
        Access { op, sector, sectors }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_stays_within_its_span() {
        let patterns = [
            Pattern::Random,
            Pattern::Sequential { streams: 1 },
            Pattern::Sequential { streams: 7 },
            Pattern::Backward,
            Pattern::Alternate { distance: 9_000 },
            Pattern::WriteFlush,
        ];
        for pattern in patterns {
            let load = Load { start: 80, span: 10_000, sectors: vec![8, 64], ..Load::random_reads("x", 1, 0) };
            let load = load.with(pattern);
            let mut addresses = Addresses::new(&load, 3);
            for _ in 0..3_000 {
                let access = addresses.next();
                if access.op == Op::Flush {
                    continue;
                }
                let end = access.sector + u64::from(access.sectors);
                assert!(access.sector >= 80 && end <= 10_080, "{pattern:?}: {access:?}");
                assert!(access.sector.is_multiple_of(8));
            }
        }
    }

    #[test]
    fn a_stream_continues_and_streams_take_turns() {
        let load = Load::random_reads("x", 1, 1 << 20).with(Pattern::Sequential { streams: 2 });
        let mut addresses = Addresses::new(&load, 1);
        let first: Vec<u64> = (0..6).map(|_| addresses.next().sector).collect();
        assert_eq!((first[0], first[2], first[4]), (0, 8, 16));
        assert_eq!((first[3] - first[1], first[5] - first[3]), (8, 8));
    }
}
