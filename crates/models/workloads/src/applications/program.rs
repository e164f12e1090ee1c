//! Models of the cold start of programs: the reads of a start and their places.
//!
//! `oowriter-like` has the statistics of the trace of a writer's cold start that the S benchmark suite ships: sizes and
//! counts per process exactly, jumps by their quantiles. The two terminals have the suite's totals; how their sizes divide
//! is our choice, after the writer's.

use dumbwaiter_block::SECTOR_BYTES;

use crate::generate::random::Random;

/// One process of a start.
struct Process {
    /// Sizes of the synchronous reads, KiB, with their counts.
    sizes: &'static [(u32, u32)],
    /// Metadata reads among those of 4 KiB.
    metadata: u32,
    /// Reads that do not follow the previous request.
    random: u32,
    /// Blocks of 4 KiB that are read ahead, and the number of batches of at most 32.
    ahead: (u32, u32),
}

/// A program.
pub(super) struct Program {
    pub(super) name: &'static str,
    processes: &'static [Process],
}

pub(super) const PROGRAMS: [Program; 3] = [
    Program {
        name: "oowriter-like",
        processes: &[
            Process { sizes: &[(4, 6), (8, 1)], metadata: 4, random: 4, ahead: (65, 3) },
            Process {
                sizes: &[(4, 36), (8, 10), (16, 10), (44, 1), (68, 2), (72, 2), (128, 1)],
                metadata: 24,
                random: 42,
                ahead: (327, 11),
            },
            Process {
                sizes: &[(4, 20), (8, 5), (16, 10), (32, 10), (40, 3), (68, 5), (72, 3), (128, 6)],
                metadata: 12,
                random: 37,
                ahead: (102, 4),
            },
            Process {
                sizes: &[
                    (4, 74),
                    (8, 4),
                    (16, 8),
                    (20, 1),
                    (24, 4),
                    (32, 1),
                    (36, 4),
                    (40, 4),
                    (48, 6),
                    (52, 8),
                    (64, 10),
                    (68, 32),
                    (72, 21),
                    (80, 14),
                    (84, 30),
                    (112, 12),
                    (128, 242),
                ],
                metadata: 38,
                random: 236,
                ahead: (168, 6),
            },
        ],
    },
    Program {
        name: "terminal-like",
        processes: &[Process {
            sizes: &[(4, 82), (16, 40), (32, 4), (40, 20), (68, 6), (128, 12)],
            metadata: 21,
            random: 86,
            ahead: (554, 20),
        }],
    },
    Program {
        name: "desktop-terminal-like",
        processes: &[Process {
            sizes: &[(4, 400), (8, 80), (16, 200), (40, 60), (44, 15), (48, 2), (52, 2), (128, 30)],
            metadata: 102,
            random: 415,
            ahead: (1992, 72),
        }],
    },
];

/// One read of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Index of the reading process.
    pub(super) process: u16,
    pub(super) sector: u64,
    pub(super) sectors: u32,
    /// Whether it reads metadata.
    pub(super) metadata: bool,
    /// Whether the program waits for it and for the read-ahead before it.
    pub(super) waits: bool,
}

/// Region over which a start is spread, bytes.
pub(super) const REGION: u64 = 84_000_000_000;
/// Alignment of reads, bytes.
const BLOCK: u64 = 4096;
const CLUSTER: u64 = 1_000_000_000;
/// Places of half of the requests, 11 and 31 GB apart like the long jumps.
const CLUSTERS: [u64; 3] = [2_000_000_000, 13_000_000_000, 44_000_000_000];
/// Room after a jump for contiguous reads, bytes.
const RUN: u64 = 64 << 20;
/// Quantiles of the length of a jump in bytes: the quartiles and the ninth decile are the trace's.
const JUMPS: [(f64, f64); 6] = [(0.0, 1e6), (0.25, 108e6), (0.5, 284e6), (0.75, 11e9), (0.9, 42e9), (1.0, 80e9)];

/// Length of the jump at a quantile, interpolated between the logarithms of the known ones.
fn jump(quantile: f64) -> u64 {
    let above = JUMPS.iter().position(|(q, _)| *q >= quantile).unwrap_or(JUMPS.len() - 1).max(1);
    let ((q0, a), (q1, b)) = (JUMPS[above - 1], JUMPS[above]);
    let part = (quantile - q0) / (q1 - q0);
    libm::exp(libm::log(a) + part * (libm::log(b) - libm::log(a))) as u64
}

impl Program {
    /// The reads of a start in order, on a region of `length` bytes from byte `start`. A region shorter than [`REGION`]
    /// scales the jumps down.
    pub(super) fn place(&self, start: u64, length: u64, random: &mut Random) -> Vec<Step> {
        let numbered = self.processes.iter().zip(0u16..);
        let blocks: Vec<(u16, Block)> =
            numbered.flat_map(|(p, n)| p.blocks(random).into_iter().map(move |block| (n, block))).collect();
        let jumps = blocks.iter().filter(|(_, b)| b.jumps).count();
        let mut lengths: Vec<u64> = (0..jumps).map(|i| jump((i as f64 + 0.5) / jumps as f64)).collect();
        shuffle(&mut lengths, random);
        let scale = length.min(REGION) as f64 / REGION as f64;
        let mut steps = Vec::new();
        let near = |at: u64| (at as f64 * scale) as u64 / BLOCK * BLOCK;
        let (mut at, mut inside) = (CLUSTERS[0], 0usize);
        // Position in the region: only jumps are scaled, so that contiguous runs stay contiguous.
        let mut place = near(at);
        for (process, block) in &blocks {
            if block.jumps {
                at = leap(at, 2 * inside <= steps.len(), &mut lengths, block.bytes());
                place = near(at);
            }
            if in_cluster(at) {
                inside += block.count as usize;
            }
            // A run must not leave a small region.
            place = place.min(length.saturating_sub(block.bytes()) / BLOCK * BLOCK);
            for i in 0..block.count {
                let byte = start + place + u64::from(i) * u64::from(block.kib) * 1024;
                steps.push(Step {
                    process: *process,
                    sector: byte / SECTOR_BYTES,
                    sectors: block.kib * 2,
                    metadata: block.metadata,
                    waits: block.waits,
                });
            }
            at += block.bytes();
            place += block.bytes();
        }
        steps
    }
}

/// Contiguous reads: one synchronous read, or one batch of read-ahead.
struct Block {
    kib: u32,
    count: u32,
    metadata: bool,
    waits: bool,
    jumps: bool,
}

impl Block {
    fn bytes(&self) -> u64 {
        u64::from(self.kib) * 1024 * u64::from(self.count)
    }
}

impl Process {
    /// Its reads in random order.
    fn blocks(&self, random: &mut Random) -> Vec<Block> {
        let sizes = self.sizes.iter().flat_map(|(kib, count)| std::iter::repeat_n(*kib, *count as usize));
        let mut reads: Vec<Block> = sizes
            .enumerate()
            .map(|(i, kib)| Block { kib, count: 1, metadata: i < self.metadata as usize, waits: true, jumps: false })
            .collect();
        shuffle(&mut reads, random);
        // The first read of a process is not contiguous.
        let mut places: Vec<usize> = (1..reads.len()).collect();
        shuffle(&mut places, random);
        reads[0].jumps = true;
        for place in &places[..self.random as usize - 1] {
            reads[*place].jumps = true;
        }
        let (blocks, batches) = self.ahead;
        let mut before: Vec<usize> = (0..reads.len()).collect();
        shuffle(&mut before, random);
        let mut before = before[..batches as usize].to_vec();
        before.sort_unstable();
        let mut out = Vec::new();
        let mut batch = 0;
        for (i, read) in reads.into_iter().enumerate() {
            if before.get(batch as usize) == Some(&i) {
                // As even as whole blocks allow.
                let count = blocks * (batch + 1) / batches - blocks * batch / batches;
                out.push(Block { kib: 4, count, metadata: true, waits: false, jumps: true });
                batch += 1;
            }
            out.push(read);
        }
        out
    }
}

fn in_cluster(at: u64) -> bool {
    CLUSTERS.iter().any(|c| (*c..c + CLUSTER).contains(&at))
}

/// Removes the first of the remaining lengths that leads from `at` into a cluster (or out, if not `into`), else the
/// first that stays in the region.
fn leap(at: u64, into: bool, lengths: &mut Vec<u64>, bytes: u64) -> u64 {
    let fits = |to: &u64| *to + bytes + RUN <= REGION;
    let ends = |length: u64| [at.checked_sub(length), at.checked_add(length)].into_iter().flatten().filter(fits);
    let wanted = |(i, length): (usize, &u64)| ends(*length).find(|to| in_cluster(*to) == into).map(|to| (i, to));
    let any = |(i, length): (usize, &u64)| ends(*length).next().map(|to| (i, to));
    let found = lengths.iter().enumerate().find_map(wanted).or_else(|| lengths.iter().enumerate().find_map(any));
    match found {
        Some((i, to)) => {
            lengths.swap_remove(i);
            to
        }
        // All remaining lengths are too long here: jump to the end of the region.
        None => {
            lengths.pop();
            if at > REGION / 2 { 0 } else { REGION - bytes - RUN }
        }
    }
}

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for i in (1..items.len()).rev() {
        items.swap(i, random.below(i as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(program: usize, seed: u64) -> Vec<Step> {
        PROGRAMS[program].place(1 << 30, REGION, &mut Random::new(&[seed]))
    }

    /// From the table of the trace: requests, MB, synchronous reads, random synchronous reads, their mean size in KiB.
    #[test]
    fn the_processes_of_the_writer_match_the_trace() {
        let table =
            [(72, 0.3, 7, 4, 4.6), (389, 2.2, 62, 42, 13.5), (164, 2.5, 62, 37, 33.0), (643, 43.6, 475, 236, 88.0)];
        for (process, (requests, mb, sync, random, mean)) in PROGRAMS[0].processes.iter().zip(table) {
            let blocks = process.blocks(&mut Random::new(&[1]));
            let total: u32 = blocks.iter().map(|b| b.count).sum();
            let bytes: u64 = blocks.iter().map(Block::bytes).sum();
            let waits: Vec<&Block> = blocks.iter().filter(|b| b.waits).collect();
            let kib: u32 = waits.iter().map(|b| b.kib).sum();
            assert_eq!((total, waits.len()), (requests, sync));
            assert_eq!(waits.iter().filter(|b| b.jumps).count(), random);
            assert!((bytes as f64 / 1e6 - mb).abs() < 0.15, "{bytes} bytes, {mb} MB");
            assert!((f64::from(kib) / sync as f64 - mean).abs() < 0.35, "{kib} KiB");
        }
    }

    #[test]
    fn the_sizes_of_the_writer_match_the_trace() {
        for seed in 0..5 {
            let steps = steps(0, seed);
            let bytes: u64 = steps.iter().map(|s| u64::from(s.sectors) * 512).sum();
            assert_eq!(steps.len(), 1268);
            assert!((bytes as f64 / 1e6 - 48.6).abs() < 0.05, "{bytes}");
            let sync = || steps.iter().filter(|s| s.waits);
            assert_eq!((sync().count(), sync().filter(|s| s.metadata).count()), (606, 78));
            assert!(sync().filter(|s| s.metadata).all(|s| s.sectors == 8));
            let data = |kib: u32| sync().filter(|s| !s.metadata && s.sectors == kib * 2).count();
            assert_eq!([128, 68, 16, 72, 8, 112, 4].map(data), [249, 39, 28, 26, 20, 12, 58]);
            let other = |kib: &u32| ![128, 68, 16, 72, 8, 112, 4].contains(kib) && (12..=84).contains(kib);
            assert_eq!((0..200).filter(other).map(data).sum::<usize>(), 96);
        }
    }

    #[test]
    fn the_quantiles_of_jumps_match_the_trace() {
        for (program, count) in [(0, 343), (1, 106), (2, 487)] {
            for seed in 0..5 {
                let steps = steps(program, seed);
                let end = |s: &Step| s.sector + u64::from(s.sectors);
                let pairs = steps.windows(2).filter(|w| end(&w[0]) != w[1].sector);
                let mut jumps: Vec<u64> = pairs.map(|w| end(&w[0]).abs_diff(w[1].sector) * 512).collect();
                jumps.sort_unstable();
                // The first read has no previous position.
                assert!(jumps.len().abs_diff(count - 1) <= 1, "{} jumps", jumps.len());
                for (quantile, bytes, tolerance) in
                    [(0.25, 108e6, 0.1), (0.5, 284e6, 0.1), (0.75, 11e9, 0.15), (0.9, 42e9, 0.1)]
                {
                    let found = jumps[(quantile * jumps.len() as f64) as usize] as f64;
                    let tolerance = if program == 0 { tolerance } else { 2.0 * tolerance };
                    assert!((found / bytes - 1.0).abs() < tolerance, "{program} {seed}: {quantile} {found}, {bytes}");
                }
                let near = |s: &&Step| in_cluster(s.sector * 512 - (1 << 30));
                let inside = steps.iter().filter(near).count() as f64 / steps.len() as f64;
                let tolerance = if program == 0 { 0.06 } else { 0.12 };
                assert!((inside - 0.5).abs() < tolerance, "{program} {seed}: {inside} in the clusters");
                assert!(steps.iter().all(|s| end(s) * 512 <= (1 << 30) + REGION));
            }
        }
    }

    #[test]
    fn batches_are_contiguous_and_at_most_32_long() {
        let steps = steps(0, 3);
        let runs: Vec<&[Step]> = steps.chunk_by(|a, b| !a.waits && !b.waits && a.sector + 8 == b.sector).collect();
        let batches: Vec<usize> = runs.iter().filter(|r| !r[0].waits).map(|r| r.len()).collect();
        assert_eq!((batches.iter().sum::<usize>(), batches.len()), (662, 24));
        assert!(batches.iter().all(|n| *n <= 32));
        assert!(steps.last().is_some_and(|s| s.waits), "the last read is synchronous");
    }

    #[test]
    fn jumps_shrink_on_a_small_device() {
        let end = |s: &Step| s.sector + u64::from(s.sectors);
        let jumps = |steps: &[Step]| steps.windows(2).filter(|w| end(&w[0]) != w[1].sector).count();
        for program in &PROGRAMS {
            let whole = program.place(0, REGION, &mut Random::new(&[1]));
            for length in [64 << 20, 100 << 20, 10_000_000_000] {
                let steps = program.place(1 << 20, length, &mut Random::new(&[1]));
                assert!(steps.iter().all(|s| s.sector >= 2048 && end(s) * 512 <= (1 << 20) + length), "{length}");
                // Runs keep their length, except a few that meet the end of the region or each other.
                assert!(jumps(&steps).abs_diff(jumps(&whole)) <= 3, "{length}: {} of {}", jumps(&steps), jumps(&whole));
            }
        }
    }
}
