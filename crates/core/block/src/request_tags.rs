//! The tags of requests: numbered slots in words, given out as Linux's sbitmap does.

/// Bits of a word: taken, and given back since the word was last full.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    taken: u64,
    returned: u64,
}

/// The tags of requests: numbered slots, spread over words.
///
/// A search begins in the word of the tag that was given back last and takes its lowest free slot. A returned slot is free again
/// once its word is full. A caller with a limit gets the lowest slots of each word only, in proportion: holders of these also
/// reduce what it may take, but mostly it finds again what its like gave back (Linux: sbitmap with a shallow depth).
#[derive(Clone, Debug)]
pub struct RequestTags {
    /// More are made as they are first used, so that a huge depth costs no memory before.
    words: Vec<Word>,
    /// A word has 2 to this power slots.
    shift: u32,
    depth: u32,
    used: u32,
    hint: u32,
}

/// Slots of the largest set whose first slot is from the middle.
const LARGEST_BEGUN_IN_THE_MIDDLE: u32 = 1 << 16;

impl RequestTags {
    /// `depth` free slots.
    pub fn new(depth: u32) -> RequestTags {
        // Linux begins anywhere. This begins in the middle, away from most slots of callers with a limit, unless that would
        // take memory for half of a huge set.
        let hint = if depth <= LARGEST_BEGUN_IN_THE_MIDDLE { depth / 2 } else { 0 };
        RequestTags { words: Vec::new(), shift: shift_for(depth), depth, used: 0, hint }
    }

    /// Words of a new set of this depth.
    pub fn words(depth: u32) -> u32 {
        depth.div_ceil(1 << shift_for(depth))
    }

    /// Slots in all.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Slots taken. More than the depth after [`RequestTags::resize`] to fewer or [`RequestTags::take_beyond`].
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
        if self.used == 0 {
            *self = RequestTags::new(depth);
        }
    }

    /// Takes a free slot; with a `limit` below the depth, one of the `limit` slots that such callers may use.
    pub fn take(&mut self, limit: u32) -> Option<u32> {
        if !self.has_free() {
            return None;
        }
        // After a change of the depth words may be of another size than new ones.
        let words = self.depth.div_ceil(1 << self.shift);
        let first = (self.hint >> self.shift).min(words - 1);
        let slot = (first..words).chain(0..first).find_map(|word| {
            let slots = self.slots_of(word, limit);
            self.take_in(word, slots)
        });
        self.hint = match slot {
            Some(slot) if slot == self.hint && slot + 1 < self.depth => slot + 1,
            Some(slot) if slot != self.hint => self.hint,
            _ => 0,
        };
        slot
    }

    /// Takes a free slot, beyond the depth if need be. As long as such slots are held, fewer than the depth are given out.
    pub fn take_beyond(&mut self) -> Option<u32> {
        (0..=u32::MAX >> self.shift).find_map(|word| self.take_in(word, 1 << self.shift))
    }

    /// Slots of a word that a caller with this limit may use.
    fn slots_of(&self, word: u32, limit: u32) -> u32 {
        let slots = (1 << self.shift).min(self.depth - (word << self.shift));
        if limit >= self.depth {
            return slots;
        }
        let share = u64::from(slots) * u64::from(limit);
        let rest = share % u64::from(self.depth);
        let one_more = rest >= (u64::from(word) + 1) * u64::from(slots);
        (share / u64::from(self.depth)) as u32 + u32::from(one_more)
    }

    /// Takes the lowest free one of the first `slots` of a word.
    fn take_in(&mut self, word: u32, slots: u32) -> Option<u32> {
        if self.words.len() <= word as usize {
            self.words.resize(word as usize + 1, Word::default());
        }
        let state = &mut self.words[word as usize];
        let mut bit = state.taken.trailing_ones();
        if bit >= slots {
            state.taken &= !std::mem::take(&mut state.returned);
            bit = state.taken.trailing_ones();
        }
        if bit >= slots {
            return None;
        }
        state.taken |= 1 << bit;
        self.used += 1;
        Some((word << self.shift) + bit)
    }

    /// Gives a slot back.
    pub fn put(&mut self, slot: u32) {
        let bit = 1u64 << (slot & ((1 << self.shift) - 1));
        let word = &mut self.words[(slot >> self.shift) as usize];
        assert!(word.taken & !word.returned & bit != 0, "tag {slot} freed twice");
        word.returned |= bit;
        self.used -= 1;
        self.hint = slot;
    }
}

/// Small sets have smaller words, so that there are at least four.
fn shift_for(depth: u32) -> u32 {
    match depth {
        0..4 => 6,
        _ => (depth.ilog2() - 2).min(6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_is_given_out_once_and_small_sets_have_four_words() {
        for depth in [1, 2, 3, 4, 5, 8, 63, 64, 100, 128, 1000] {
            let mut tags = RequestTags::new(depth);
            let mut taken: Vec<u32> = std::iter::from_fn(|| tags.take(depth)).collect();
            taken.sort_unstable();
            assert_eq!(taken, (0..depth).collect::<Vec<_>>());
            for slot in taken {
                tags.put(slot);
            }
            assert_eq!(tags.used(), 0);
        }
        assert_eq!([4, 8, 64, 255, 256, 4000].map(shift_for), [0, 1, 4, 5, 6, 6]);
    }

    #[test]
    fn a_limit_is_spread_over_the_words_and_counts_positions_not_holders() {
        // 64 tags in words of 16; 8 of them: two of each word.
        let mut tags = RequestTags::new(64);
        let mut limited: Vec<u32> = std::iter::from_fn(|| tags.take(8)).collect();
        limited.sort_unstable();
        assert_eq!(limited, [0, 1, 16, 17, 32, 33, 48, 49]);
        // 6 of 256 in words of 64: one of each and one more of the first two.
        let mut tags = RequestTags::new(256);
        assert_eq!(std::iter::from_fn(|| tags.take(6)).count(), 6);
        let mut tags = RequestTags::new(64);
        for _ in 0..4 {
            tags.take(64);
        }
        assert_eq!(std::iter::from_fn(|| tags.take(8)).count(), 6, "others hold the first two");
    }

    #[test]
    fn a_returned_slot_is_left_to_callers_with_a_limit_while_its_word_has_others() {
        let mut tags = RequestTags::new(64);
        assert_eq!((tags.take(8), tags.take(64)), (Some(32), Some(33)));
        tags.put(32);
        assert_eq!((tags.take(64), tags.take(8), tags.take(64)), (Some(34), Some(32), Some(35)));
    }

    #[test]
    fn slots_beyond_a_smaller_depth_stay_held_and_count() {
        let mut tags = RequestTags::new(130);
        while tags.take(130).is_some() {}
        tags.resize(2);
        assert_eq!((tags.take(2), tags.used()), (None, 130));
        for slot in (1..130).rev() {
            assert_eq!(tags.take(2), None, "{} are held", tags.used());
            tags.put(slot);
        }
        assert_eq!(tags.take(2), Some(1));
        assert!(tags.take_beyond().is_some_and(|slot| slot > 1));
        tags.put(0);
        assert_eq!(tags.take(2), None, "the slot beyond the depth counts");
    }

    #[test]
    fn a_huge_depth_costs_no_memory_before_it_is_used() {
        let mut tags = RequestTags::new(u32::MAX);
        assert_eq!((tags.take(u32::MAX), tags.words.len()), (Some(0), 1));
        let mut none = RequestTags::new(0);
        assert_eq!((none.take(1), none.take_beyond()), (None, Some(0)));
    }
}
