//! Findings of a check, and the header by which a block accounts for itself.

/// Begins every block that was written.
const MAGIC: u64 = 0x4457_424c_4f43_4b31;

/// Findings of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Blocks read and judged.
    pub checked: u64,
    /// Blocks that were read while a write of them was under way, and those that a final pass that was ended from outside
    /// did not come to: not judged.
    pub unsettled: u64,
    /// Blocks that hold older data than an acknowledged write, or none of ours.
    pub lost: u64,
    /// Blocks whose data is not what their checksum says.
    pub torn: u64,
    /// Blocks with the data of another block.
    pub misplaced: u64,
    /// Blocks that could not be read.
    pub unreadable: u64,
    /// The first thing found wrong.
    pub first: Option<String>,
}

impl std::fmt::Display for Verified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.clean() && self.checked + self.unsettled == 0 {
            return f.write_str("nothing to check: no write was acknowledged");
        }
        write!(
            f,
            "{} blocks checked, {} lost, {} torn, {} misplaced, {} unreadable, {} indeterminate",
            self.checked, self.lost, self.torn, self.misplaced, self.unreadable, self.unsettled
        )?;
        self.first.as_ref().map_or(Ok(()), |first| write!(f, "; the first: {first}"))
    }
}

impl Verified {
    /// Is all well?
    pub fn clean(&self) -> bool {
        self.lost + self.torn + self.misplaced + self.unreadable == 0
    }

    pub(super) fn wrong(&mut self, what: String) {
        if self.first.is_none() {
            self.first = Some(what);
        }
    }

    pub(super) fn judge(&mut self, data: &[u8], block: u64, stamp: u64, floor: u64) {
        self.checked += 1;
        let word = |i: usize| word_of(data, i);
        let at = block * data.len() as u64;
        if word(0) != MAGIC || word(3) != stamp {
            self.lost += 1;
            self.wrong(format!("block at byte {at}: not what this run wrote, though the write was acknowledged"));
        } else if word(4) != checksum(data) {
            self.torn += 1;
            self.wrong(format!("block at byte {at}: torn, its checksum is wrong"));
        } else if word(1) != block {
            self.misplaced += 1;
            self.wrong(format!(
                "block at byte {at}: holds the data of the block at byte {}",
                word(1).saturating_mul(data.len() as u64)
            ));
        } else if word(2) < floor {
            self.lost += 1;
            self.wrong(format!("block at byte {at}: holds write {}, though write {floor} was acknowledged", word(2)));
        }
    }
}

pub(super) fn word_of(data: &[u8], i: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&data[i * 8..i * 8 + 8]);
    u64::from_le_bytes(bytes)
}

/// Of everything but the checksum itself, word 4.
fn checksum(data: &[u8]) -> u64 {
    let mut hash = 0x9e37_79b9_7f4a_7c15u64;
    for i in (0..data.len() / 8).filter(|i| *i != 4) {
        hash = (hash ^ word_of(data, i)).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(29);
    }
    hash
}

/// Fills a block with what accounts for itself.
pub(super) fn stamp_block(data: &mut [u8], block: u64, generation: u64, stamp: u64) {
    let mut state = stamp ^ block.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ generation.rotate_left(32) | 1;
    for chunk in data.as_chunks_mut::<8>().0 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *chunk = state.to_le_bytes();
    }
    for (i, word) in [MAGIC, block, generation, stamp].into_iter().enumerate() {
        data[i * 8..i * 8 + 8].copy_from_slice(&word.to_le_bytes());
    }
    let sum = checksum(data);
    data[32..40].copy_from_slice(&sum.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_damage_is_told_apart() {
        let mut good = vec![0; 512];
        stamp_block(&mut good, 7, 3, 99);
        let judge = |data: &[u8], block, floor| {
            let mut found = Verified::default();
            found.judge(data, block, 99, floor);
            assert_eq!(found.checked, 1);
            [found.lost, found.torn, found.misplaced]
        };
        assert_eq!(judge(&good, 7, 3), [0, 0, 0]);
        assert_eq!(judge(&good, 7, 2), [0, 0, 0], "a newer write that was not acknowledged may be there");
        assert_eq!(judge(&good, 7, 4), [1, 0, 0]);
        assert_eq!(judge(&good, 8, 3), [0, 0, 1]);
        assert_eq!(judge(&[0; 512], 7, 3), [1, 0, 0]);
        for byte in [8, 100, 511] {
            let mut torn = good.clone();
            torn[byte] ^= 1;
            assert_eq!(judge(&torn, 7, 3), [0, 1, 0], "byte {byte}");
        }
    }

    #[test]
    fn a_misplaced_block_may_claim_any_number() {
        let mut far = vec![0; 512];
        stamp_block(&mut far, u64::MAX, 3, 99);
        let mut found = Verified::default();
        found.judge(&far, 7, 99, 3);
        assert_eq!(found.misplaced, 1);
    }

    #[test]
    fn nothing_checked_is_said() {
        assert_eq!(Verified::default().to_string(), "nothing to check: no write was acknowledged");
        let unread = Verified { unreadable: 2, ..Verified::default() };
        assert!(unread.to_string().starts_with("0 blocks checked") && !unread.clean());
    }
}
