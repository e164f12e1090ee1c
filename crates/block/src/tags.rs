//! Tags: numbered slots of which each request holds one while it is in the scheduler or in the device.

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

    /// Slots in all.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Slots taken. More than the depth after [`TagMap::resize`] to fewer or [`TagMap::take_beyond`].
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Is a slot free?
    pub fn has_free(&self) -> bool {
        self.used < self.depth
    }

    /// Changes the depth. Slots beyond it stay with their holders until these give them back.
    pub fn resize(&mut self, depth: u32) {
        self.depth = depth;
    }

    /// Takes the lowest free slot below `limit`.
    pub fn take(&mut self, limit: u32) -> Option<u32> {
        if !self.has_free() {
            return None;
        }
        self.take_below(limit.min(self.depth))
    }

    /// Takes the lowest free slot, beyond the depth if need be. As long as such slots are held, fewer than the depth are
    /// given out.
    pub fn take_beyond(&mut self) -> Option<u32> {
        self.take_below(u32::MAX)
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
    fn slots_beyond_a_smaller_depth_stay_held_and_count() {
        let mut tags = TagMap::new(130);
        while tags.take(130).is_some() {}
        tags.resize(2);
        assert_eq!((tags.take(2), tags.used()), (None, 130));
        for slot in (1..130).rev() {
            assert_eq!(tags.take(2), None, "{} are held", tags.used());
            tags.put(slot);
        }
        assert_eq!(tags.take(2), Some(1));
        assert_eq!(tags.take_beyond(), Some(2));
        tags.put(0);
        assert_eq!(tags.take(2), None, "the slot beyond the depth counts");
        tags.put(2);
        assert_eq!(tags.take(2), Some(0));
    }

    #[test]
    fn a_huge_depth_costs_no_memory_before_it_is_used() {
        let mut tags = TagMap::new(u32::MAX);
        assert_eq!((tags.take(u32::MAX), tags.words.len()), (Some(0), 64));
        let mut none = TagMap::new(0);
        assert_eq!((none.take(1), none.take_beyond()), (None, Some(0)));
    }
}
