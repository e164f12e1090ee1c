//! A set of numbered slots, as schedulers use them for tokens.

/// Slots for which memory is set aside at once; more words are added as they are first used.
const SLOTS_AT_START: u32 = 4096;

/// A set of numbered slots, given out lowest first. A caller with a limit gets only slots below it, so that
/// holders of low slots also reduce what it may take (Linux: sbitmap with a shallow depth).
#[derive(Clone, Debug)]
pub struct TagMap {
    words: Vec<u64>,
    /// All words before this one are full.
    first: usize,
    depth: u32,
    used: u32,
}

impl TagMap {
    /// `depth` free slots.
    pub fn new(depth: u32) -> TagMap {
        let words = vec![0; depth.min(SLOTS_AT_START).div_ceil(64) as usize];
        TagMap { words, first: 0, depth, used: 0 }
    }

    /// Slots taken.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Is a slot free?
    pub fn has_free(&self) -> bool {
        self.used < self.depth
    }

    /// Takes the lowest free slot below `limit`.
    pub fn take(&mut self, limit: u32) -> Option<u32> {
        if !self.has_free() {
            return None;
        }
        self.take_below(limit.min(self.depth))
    }

    fn take_below(&mut self, limit: u32) -> Option<u32> {
        while self.words.get(self.first) == Some(&u64::MAX) {
            self.first += 1;
        }
        if self.first == self.words.len() {
            self.words.push(0);
        }
        let word = &mut self.words[self.first];
        let slot = self.first as u32 * 64 + word.trailing_ones();
        if slot >= limit {
            return None;
        }
        *word |= 1 << (slot % 64);
        self.used += 1;
        Some(slot)
    }

    /// Gives a slot back.
    pub fn put(&mut self, slot: u32) {
        let bit = 1u64 << (slot % 64);
        let i = slot as usize / 64;
        assert!(self.words[i] & bit != 0, "tag {slot} freed twice");
        self.words[i] &= !bit;
        self.first = self.first.min(i);
        self.used -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_counts_positions_not_holders() {
        let mut tags = TagMap::new(100);
        assert_eq!((0..3).map(|_| tags.take(100)).collect::<Vec<_>>(), [Some(0), Some(1), Some(2)]);
        assert_eq!(tags.take(4), Some(3));
        assert_eq!(tags.take(4), None, "all positions below 4 are held, three of them by others");
        tags.put(1);
        assert_eq!(tags.take(4), Some(1));
        while tags.take(100).is_some() {}
        assert_eq!(tags.used(), 100);
        tags.put(70);
        assert_eq!(tags.take(70), None);
        assert_eq!(tags.take(71), Some(70));
    }

    #[test]
    fn a_huge_depth_costs_no_memory_before_it_is_used() {
        let mut tags = TagMap::new(u32::MAX);
        assert_eq!((tags.take(u32::MAX), tags.words.len()), (Some(0), 64));
        assert_eq!(TagMap::new(0).take(1), None);
    }
}
