//! An ordered index over numbered slots that allocates only to grow: a skip list in arrays.

use crate::rng::mix;

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;
/// Enough for 4^8 slots at one in four per level.
const LEVELS: usize = 8;

/// Slots by (key, slot).
#[derive(Debug)]
pub(crate) struct Sorted {
    head: [u32; LEVELS],
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    key: u64,
    previous: u32,
    next: [u32; LEVELS],
}

impl Sorted {
    pub(crate) fn new() -> Sorted {
        Sorted { head: [NONE; LEVELS], nodes: Vec::new() }
    }

    /// Height of a slot's tower: a fixed function of its number, spread like draws of one in four.
    fn height(slot: u32) -> usize {
        1 + (mix(u64::from(slot)).trailing_zeros() as usize / 2).min(LEVELS - 1)
    }

    fn link(&self, node: u32, level: usize) -> u32 {
        if node == NONE { self.head[level] } else { self.nodes[node as usize].next[level] }
    }

    fn set_link(&mut self, node: u32, level: usize, to: u32) {
        if node == NONE {
            self.head[level] = to;
        } else {
            self.nodes[node as usize].next[level] = to;
        }
    }

    /// The last node before (key, slot), per level.
    fn path(&self, key: u64, slot: u32) -> [u32; LEVELS] {
        let mut path = [NONE; LEVELS];
        let mut at = NONE;
        for level in (0..LEVELS).rev() {
            loop {
                let next = self.link(at, level);
                if next == NONE || (self.nodes[next as usize].key, next) >= (key, slot) {
                    break;
                }
                at = next;
            }
            path[level] = at;
        }
        path
    }

    /// Adds a slot that is not in.
    pub(crate) fn insert(&mut self, slot: u32, key: u64) {
        if self.nodes.len() <= slot as usize {
            let empty = Node { key: 0, previous: NONE, next: [NONE; LEVELS] };
            self.nodes.resize(slot as usize + 1, empty);
        }
        let path = self.path(key, slot);
        self.nodes[slot as usize].key = key;
        for (level, &before) in path.iter().enumerate().take(Sorted::height(slot)) {
            let after = self.link(before, level);
            self.nodes[slot as usize].next[level] = after;
            self.set_link(before, level, slot);
        }
        self.nodes[slot as usize].previous = path[0];
        let after = self.nodes[slot as usize].next[0];
        if after != NONE {
            self.nodes[after as usize].previous = slot;
        }
    }

    /// Takes out a slot that is in.
    pub(crate) fn remove(&mut self, slot: u32) {
        let Node { key, previous, next } = self.nodes[slot as usize];
        let path = self.path(key, slot);
        for level in 0..Sorted::height(slot) {
            self.set_link(path[level], level, next[level]);
        }
        if next[0] != NONE {
            self.nodes[next[0] as usize].previous = previous;
        }
    }

    /// The first slot with a key of at least `key`, or [`NONE`].
    pub(crate) fn at_or_after(&self, key: u64) -> u32 {
        self.link(self.path(key, 0)[0], 0)
    }

    /// The last slot with a key below `key`, or [`NONE`].
    pub(crate) fn before(&self, key: u64) -> u32 {
        self.path(key, 0)[0]
    }

    /// The slot after one that is in, or [`NONE`].
    pub(crate) fn next(&self, slot: u32) -> u32 {
        self.nodes[slot as usize].next[0]
    }

    /// The slot before one that is in, or [`NONE`].
    pub(crate) fn previous(&self, slot: u32) -> u32 {
        self.nodes[slot as usize].previous
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_tree(steps in prop::collection::vec((0u32..200, 0u64..50), 1..400)) {
            let mut list = Sorted::new();
            let mut tree: BTreeSet<(u64, u32)> = BTreeSet::new();
            for (slot, key) in steps {
                match tree.iter().find(|(_, s)| *s == slot).copied() {
                    Some(entry) => {
                        tree.remove(&entry);
                        list.remove(slot);
                    }
                    None => {
                        tree.insert((key, slot));
                        list.insert(slot, key);
                    }
                }
                let expect = |entry: Option<&(u64, u32)>| entry.map_or(NONE, |(_, s)| *s);
                prop_assert_eq!(list.at_or_after(key), expect(tree.range((key, 0)..).next()));
                prop_assert_eq!(list.before(key), expect(tree.range(..(key, 0)).next_back()));
                let (mut at, mut back) = (list.at_or_after(0), NONE);
                for &(_, s) in &tree {
                    prop_assert_eq!(at, s);
                    prop_assert_eq!(list.previous(at), back);
                    back = at;
                    at = list.next(at);
                }
                prop_assert_eq!(at, NONE);
            }
        }
    }
}
