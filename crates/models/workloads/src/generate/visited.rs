//! The blocks that a random job has visited: a bitmap of bitmaps.

/// Blocks of a region, visited or free. The next free block and the length of a free run are found in steps of 64 blocks to
/// the power of the level, so neither search walks the region. Memory is zeroed at build, which costs nothing before its
/// pages are written.
#[derive(Debug)]
pub(super) struct Visited {
    blocks: u64,
    /// The first level has a bit for each block, set when it was visited; each further level has a bit for each word of the
    /// level below, set when the word is full.
    levels: Vec<Vec<u64>>,
}

const WORD: u64 = u64::BITS as u64;

impl Visited {
    /// The largest region that has a map, in blocks: 2 TiB in blocks of 4 KiB, in 64 MiB of memory.
    pub(super) const MAX_BLOCKS: u64 = 1 << 29;

    /// A map of `blocks` free blocks, at most [`Visited::MAX_BLOCKS`].
    pub(super) fn new(blocks: u64) -> Visited {
        let mut levels = Vec::new();
        let mut bits = blocks.max(1);
        loop {
            let words = bits.div_ceil(WORD);
            levels.push(vec![0; words as usize]);
            if words == 1 {
                return Visited { blocks, levels };
            }
            bits = words;
        }
    }

    /// Makes all blocks free.
    pub(super) fn clear(&mut self) {
        self.levels.iter_mut().for_each(|level| level.fill(0));
    }

    /// The first free block at or after `from`.
    pub(super) fn next_free(&self, from: u64) -> Option<u64> {
        let (mut level, mut index) = (0, from);
        // Up to the first level with a word that is not full from here on,
        loop {
            let words = self.levels.get(level)?;
            let free = !words.get((index / WORD) as usize)? & (u64::MAX << (index % WORD));
            if free != 0 {
                index = index / WORD * WORD + u64::from(free.trailing_zeros());
                break;
            }
            index = index / WORD + 1;
            level += 1;
        }
        // and down to its first free block.
        while level > 0 {
            level -= 1;
            let word = self.levels[level].get(index as usize)?;
            index = index * WORD + u64::from((!word).trailing_zeros());
        }
        (index < self.blocks).then_some(index)
    }

    /// Visits up to `most` free blocks from `block` on, which is free itself; returns how many.
    pub(super) fn visit(&mut self, block: u64, most: u64) -> u64 {
        let most = most.min(self.blocks - block);
        let mut visited = 0;
        while visited < most {
            let (word, bit) = ((block + visited) / WORD, (block + visited) % WORD);
            let span = (WORD - bit).min(most - visited);
            let free = u64::from((self.levels[0][word as usize] >> bit).trailing_zeros()).min(span);
            if free > 0 {
                self.levels[0][word as usize] |= (u64::MAX >> (WORD - free)) << bit;
                self.note_full(word);
            }
            visited += free;
            if free < span {
                break;
            }
        }
        visited
    }

    /// Sets the bits of the levels above if this word of the first level is full.
    fn note_full(&mut self, mut word: u64) {
        for level in 1..self.levels.len() {
            if self.levels[level - 1][word as usize] != u64::MAX {
                return;
            }
            self.levels[level][(word / WORD) as usize] |= 1 << (word % WORD);
            word /= WORD;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn searches_and_visits_equal_those_of_a_plain_list(
            blocks in prop_oneof![1u64..200, 4000u64..4200, 262_100u64..262_200],
            calls in prop::collection::vec((any::<prop::sample::Index>(), 1u64..5000), 1..60),
        ) {
            let mut map = Visited::new(blocks);
            let mut plain = vec![false; blocks as usize];
            for (at, most) in calls {
                let from = at.index(blocks as usize);
                let expected = (from..plain.len()).find(|i| !plain[*i]);
                prop_assert_eq!(map.next_free(from as u64), expected.map(|i| i as u64));
                let Some(first) = expected else { continue };
                let run = plain[first..].iter().take(most as usize).take_while(|visited| !**visited).count();
                prop_assert_eq!(map.visit(first as u64, most), run as u64);
                plain[first..first + run].fill(true);
            }
            map.clear();
            prop_assert_eq!(map.next_free(blocks - 1), Some(blocks - 1));
        }
    }

    #[test]
    fn a_full_map_has_no_free_block() {
        for blocks in [1, 64, 65, 4096, 4097, 300_000] {
            let mut map = Visited::new(blocks);
            assert_eq!(map.visit(0, u64::MAX), blocks);
            assert_eq!(map.next_free(0), None);
            assert_eq!(map.next_free(blocks), None);
        }
    }
}
