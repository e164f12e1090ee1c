//! Tags: numbered slots of which each request holds one while it is in the scheduler or in the device.

/// A set of numbered slots, given out lowest first. A caller with a limit gets only slots below it, so that
/// others who sit in low positions also reduce what it may take (Linux: sbitmap with a shallow depth).
#[derive(Clone, Debug)]
pub struct TagMap {
    words: Vec<u64>,
    depth: u32,
    used: u32,
}

impl TagMap {
    /// `depth` free slots.
    pub fn new(depth: u32) -> TagMap {
        TagMap { words: vec![0; depth.div_ceil(64) as usize], depth, used: 0 }
    }

    /// Slots in all.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Slots taken.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Takes the lowest free slot below `limit`.
    pub fn take(&mut self, limit: u32) -> Option<u32> {
        let limit = limit.min(self.depth);
        if self.used >= self.depth {
            return None;
        }
        for (i, word) in self.words.iter_mut().enumerate() {
            let first = i as u32 * 64;
            if first >= limit {
                return None;
            }
            if *word != u64::MAX {
                let slot = first + word.trailing_ones();
                if slot >= limit {
                    return None;
                }
                *word |= 1 << (slot - first);
                self.used += 1;
                return Some(slot);
            }
        }
        None
    }

    /// Gives a slot back.
    pub fn put(&mut self, slot: u32) {
        let bit = 1u64 << (slot % 64);
        let word = &mut self.words[slot as usize / 64];
        assert!(*word & bit != 0, "tag {slot} freed twice");
        *word &= !bit;
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
}
