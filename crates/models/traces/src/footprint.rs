//! The set of blocks read and written, in bounded memory.
//!
//! Blocks are bits of chunks of 1024 blocks (4 MiB with 4 KiB blocks). Up to 2^19 chunks are kept (about 170 MB; at
//! least 2 TiB of scattered 4 KiB blocks), and the counts are exact. Beyond, half of the chunks, chosen by a hash of
//! their position, are dropped as often as needed, and the counts are estimates from the remaining fraction.

use std::collections::BTreeMap;

use dumbwaiter_block::SECTOR_BYTES;

const CHUNK_BLOCKS: u64 = 1024;
const WORDS: usize = (CHUNK_BLOCKS / 64) as usize;
const CHUNKS_MAX: usize = 1 << 19;

#[derive(Clone, Debug)]
struct Chunk {
    read: [u64; WORDS],
    written: [u64; WORDS],
    /// Block writes, repeated ones included.
    writes: u64,
}

/// The blocks accessed so far.
#[derive(Clone, Debug)]
pub(crate) struct Footprint {
    block: u64,
    chunks: BTreeMap<(u32, u64), Box<Chunk>>,
    most: usize,
    /// Trailing zero bits in the hash of a chunk that is kept.
    halvings: u32,
}

/// A hash of a chunk's position with uniform low bits (the finalizer of splitmix64).
fn hash(device: u32, chunk: u64) -> u64 {
    let mut x = chunk ^ u64::from(device).rotate_left(40) ^ 0x9e37_79b9_7f4a_7c15;
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

impl Footprint {
    /// An empty footprint in blocks of `block` bytes.
    pub(crate) fn new(block: u64) -> Footprint {
        Footprint { block: block.max(1), chunks: BTreeMap::new(), most: CHUNKS_MAX, halvings: 0 }
    }

    /// Counts the blocks of a request.
    pub(crate) fn touch(&mut self, device: u32, sector: u64, sectors: u32, write: bool) {
        if sectors == 0 {
            return;
        }
        let start = sector * SECTOR_BYTES;
        let (mut at, last) = (start / self.block, (start + u64::from(sectors) * SECTOR_BYTES - 1) / self.block);
        while at <= last {
            let (chunk, from) = (at / CHUNK_BLOCKS, at % CHUNK_BLOCKS);
            let n = (CHUNK_BLOCKS - from).min(last - at + 1);
            self.mark(device, chunk, from, n, write);
            at += n;
        }
    }

    fn mark(&mut self, device: u32, chunk: u64, from: u64, n: u64, write: bool) {
        if !self.keeps(device, chunk) {
            return;
        }
        let empty = || Box::new(Chunk { read: [0; WORDS], written: [0; WORDS], writes: 0 });
        let bits = self.chunks.entry((device, chunk)).or_insert_with(empty);
        let (mut at, end) = (from, from + n);
        while at < end {
            let (word, bit) = ((at / 64) as usize, at % 64);
            let run = (64 - bit).min(end - at);
            let mask = (u64::MAX >> (64 - run)) << bit;
            let side = if write { &mut bits.written } else { &mut bits.read };
            side[word] |= mask;
            at += run;
        }
        if write {
            bits.writes += n;
        }
        while self.chunks.len() > self.most {
            self.halvings += 1;
            let mask = (1u64 << self.halvings) - 1;
            self.chunks.retain(|(device, chunk), _| hash(*device, *chunk) & mask == 0);
        }
    }

    fn keeps(&self, device: u32, chunk: u64) -> bool {
        self.halvings == 0 || hash(device, chunk) & ((1 << self.halvings) - 1) == 0
    }

    /// Fraction of the address space that was sampled; 1 if all counts are exact.
    pub(crate) fn sampled(&self) -> f64 {
        1.0 / (1u64 << self.halvings) as f64
    }

    /// Bytes of distinct blocks accessed, read, and written.
    pub(crate) fn bytes(&self) -> [u64; 3] {
        let mut blocks = [0u64; 3];
        for c in self.chunks.values() {
            for (read, written) in c.read.iter().zip(&c.written) {
                for (sum, word) in blocks.iter_mut().zip([read | written, *read, *written]) {
                    *sum += u64::from(word.count_ones());
                }
            }
        }
        blocks.map(|b| (b << self.halvings).saturating_mul(self.block))
    }

    /// Fraction of block writes that were rewrites; `None` without writes.
    pub(crate) fn rewritten(&self) -> Option<f64> {
        let writes: u64 = self.chunks.values().map(|c| c.writes).sum();
        let distinct: u64 =
            self.chunks.values().map(|c| c.written.iter().map(|w| u64::from(w.count_ones())).sum::<u64>()).sum();
        (writes > 0).then(|| (writes - distinct) as f64 / writes as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn counts_match_a_set_of_blocks(ops in prop::collection::vec((0u32..2, 0u64..20_000, 1u32..9000, any::<bool>()), 1..40)) {
            let mut f = Footprint::new(4096);
            let (mut touched, mut written, mut writes) = (BTreeSet::new(), BTreeSet::new(), 0u64);
            for (device, sector, sectors, write) in ops {
                f.touch(device, sector, sectors, write);
                for block in sector / 8..=(sector + u64::from(sectors) - 1) / 8 {
                    touched.insert((device, block));
                    if write {
                        written.insert((device, block));
                        writes += 1;
                    }
                }
            }
            prop_assert_eq!(f.bytes()[2], written.len() as u64 * 4096);
            prop_assert_eq!(f.bytes()[0], touched.len() as u64 * 4096);
            prop_assert_eq!(f.rewritten().is_some(), writes > 0);
            if let Some(share) = f.rewritten() {
                prop_assert!((share - (1.0 - written.len() as f64 / writes as f64)).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn large_footprints_are_estimated() {
        let mut f = Footprint { most: 2048, ..Footprint::new(4096) };
        let mut n = 0u64;
        for i in 0..50_000u64 {
            f.touch(0, i * 8192, 8, true);
            n += 4096;
        }
        assert!(f.sampled() < 1.0 && f.chunks.len() <= 2048);
        let error = f.bytes()[0] as f64 / n as f64 - 1.0;
        assert!(error.abs() < 0.15, "{error}");
    }
}
