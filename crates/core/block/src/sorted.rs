//! Handles in order of a key (requests by their start sector), oldest first among equals.
//!
//! A B+ tree whose nodes come from a pool and whose leaves are chained. Each entry knows its leaf, so that one can
//! leave without a search from the root. Nodes that run empty are freed; half-empty ones are not merged, so the height
//! is that of the largest size lately. All operations are O(log n), and none allocates once the pool has grown.

use std::marker::PhantomData;

use crate::RequestId;

const NIL: u32 = u32::MAX;
/// Entries of a node.
const WIDTH: usize = 32;

#[derive(Clone, Debug)]
struct Node {
    /// In a leaf the entries' keys; in an inner node a lower bound of each child's keys.
    keys: [u64; WIDTH],
    /// In a leaf request ids; in an inner node children.
    kids: [u32; WIDTH],
    len: u16,
    leaf: bool,
    parent: u32,
    previous: u32,
    next: u32,
}

impl Node {
    const EMPTY: Node =
        Node { keys: [0; WIDTH], kids: [NIL; WIDTH], len: 0, leaf: true, parent: NIL, previous: NIL, next: NIL };

    fn keys(&self) -> &[u64] {
        &self.keys[..usize::from(self.len)]
    }

    fn full(&self) -> bool {
        usize::from(self.len) == WIDTH
    }

    fn insert_at(&mut self, i: usize, key: u64, kid: u32) {
        let len = usize::from(self.len);
        self.keys.copy_within(i..len, i + 1);
        self.kids.copy_within(i..len, i + 1);
        self.keys[i] = key;
        self.kids[i] = kid;
        self.len += 1;
    }

    fn remove_at(&mut self, i: usize) {
        let len = usize::from(self.len);
        self.keys.copy_within(i + 1..len, i);
        self.kids.copy_within(i + 1..len, i);
        self.len -= 1;
    }

    fn position_of(&self, kid: u32) -> usize {
        self.kids[..usize::from(self.len)].iter().position(|k| *k == kid).expect("a child is listed by its parent")
    }
}

/// Small reused numbers (requests by default) in order of a key.
#[derive(Clone, Debug)]
pub struct Sorted<H = RequestId> {
    nodes: Vec<Node>,
    free: Vec<u32>,
    root: u32,
    /// Leaf and key of each entry, by number.
    places: Vec<(u32, u64)>,
    len: usize,
    handle: PhantomData<H>,
}

impl<H> Default for Sorted<H> {
    fn default() -> Self {
        Sorted { nodes: vec![Node::EMPTY], free: Vec::new(), root: 0, places: Vec::new(), len: 0, handle: PhantomData }
    }
}

impl<H: Copy + From<u32> + Into<u32>> Sorted<H> {
    /// Requests held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Is it empty?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Is this request held?
    pub fn contains(&self, id: H) -> bool {
        self.places.get(id.into() as usize).is_some_and(|p| p.0 != NIL)
    }

    /// The key under which a held request is sorted.
    pub fn key(&self, id: H) -> Option<u64> {
        self.places.get(id.into() as usize).filter(|p| p.0 != NIL).map(|p| p.1)
    }

    /// Adds a request behind those of equal key.
    pub fn insert(&mut self, id: H, key: u64) {
        if id.into() as usize >= self.places.len() {
            self.places.resize(id.into() as usize + 1, (NIL, 0));
        }
        debug_assert_eq!(self.places[id.into() as usize].0, NIL, "request {} sorted twice", id.into());
        let mut at = self.root;
        while !self.nodes[at as usize].leaf {
            let node = &self.nodes[at as usize];
            let i = node.keys().partition_point(|k| *k <= key).max(1) - 1;
            at = node.kids[i];
        }
        let mut i = self.nodes[at as usize].keys().partition_point(|k| *k <= key);
        if self.nodes[at as usize].full() {
            (at, i) = self.make_room(at, i, key);
        }
        self.nodes[at as usize].insert_at(i, key, id.into());
        self.places[id.into() as usize] = (at, key);
        self.len += 1;
    }

    /// Takes a held request out.
    pub fn remove(&mut self, id: H) {
        let (leaf, key) = self.places[id.into() as usize];
        self.places[id.into() as usize].0 = NIL;
        self.len -= 1;
        let i = self.index_in(leaf, key, id);
        let node = &mut self.nodes[leaf as usize];
        node.remove_at(i);
        if node.len == 0 {
            self.free_empty(leaf);
        }
    }

    fn index_in(&self, leaf: u32, key: u64, id: H) -> usize {
        let node = &self.nodes[leaf as usize];
        let first = node.keys().partition_point(|k| *k < key);
        first + node.kids[first..usize::from(node.len)].iter().position(|k| *k == id.into()).expect("its leaf holds it")
    }

    /// The first request whose key is at least `key`.
    pub fn first_from(&self, key: u64) -> Option<H> {
        let mut at = self.root;
        while !self.nodes[at as usize].leaf {
            let node = &self.nodes[at as usize];
            let i = node.keys().partition_point(|k| *k < key).max(1) - 1;
            at = node.kids[i];
        }
        let node = &self.nodes[at as usize];
        let i = node.keys().partition_point(|k| *k < key);
        self.entry_at(at, i)
    }

    /// Entry `i` of a leaf, or the first of the next leaf where that is its end.
    fn entry_at(&self, leaf: u32, i: usize) -> Option<H> {
        let node = &self.nodes[leaf as usize];
        if i < usize::from(node.len) {
            Some(H::from(node.kids[i]))
        } else if node.next != NIL {
            Some(H::from(self.nodes[node.next as usize].kids[0]))
        } else {
            None
        }
    }

    /// The request with the smallest key.
    pub fn first(&self) -> Option<H> {
        self.first_from(0)
    }

    /// The request with the greatest key, the newest of equals.
    pub fn last(&self) -> Option<H> {
        let mut at = self.root;
        while !self.nodes[at as usize].leaf {
            let node = &self.nodes[at as usize];
            at = node.kids[usize::from(node.len) - 1];
        }
        let node = &self.nodes[at as usize];
        node.len.checked_sub(1).map(|i| H::from(node.kids[usize::from(i)]))
    }

    /// The last request whose key is below `key`.
    pub fn last_before(&self, key: u64) -> Option<H> {
        match self.first_from(key) {
            Some(above) => self.previous(above),
            None => self.last(),
        }
    }

    /// The request behind a held one.
    pub fn next(&self, id: H) -> Option<H> {
        let (leaf, key) = self.places[id.into() as usize];
        self.entry_at(leaf, self.index_in(leaf, key, id) + 1)
    }

    /// The request before a held one.
    pub fn previous(&self, id: H) -> Option<H> {
        let (leaf, key) = self.places[id.into() as usize];
        let node = &self.nodes[leaf as usize];
        match self.index_in(leaf, key, id) {
            0 if node.previous == NIL => None,
            0 => {
                let previous = &self.nodes[node.previous as usize];
                Some(H::from(previous.kids[usize::from(previous.len) - 1]))
            }
            i => Some(H::from(node.kids[i - 1])),
        }
    }

    /// A request whose key is exactly `key`: the oldest of them.
    pub fn at(&self, key: u64) -> Option<H> {
        self.first_from(key).filter(|id| self.places[(*id).into() as usize].1 == key)
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = H> + '_ {
        std::iter::successors(self.first(), |id| self.next(*id))
    }

    fn allocate(&mut self, leaf: bool) -> u32 {
        let node = Node { leaf, ..Node::EMPTY };
        match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        }
    }

    /// Splits a full leaf; answers where entry `i` of it belongs now.
    fn make_room(&mut self, leaf: u32, i: usize, key: u64) -> (u32, usize) {
        let right = self.allocate(true);
        // Ascending arrivals fill leaves to the brim: the last leaf is not halved but followed by a new one.
        let at_end = i == WIDTH && self.nodes[leaf as usize].next == NIL;
        let kept = if at_end { WIDTH } else { WIDTH / 2 };
        self.move_tail(leaf, right, kept);
        for j in 0..usize::from(self.nodes[right as usize].len) {
            let id = self.nodes[right as usize].kids[j];
            self.places[id as usize].0 = right;
        }
        let after = self.nodes[leaf as usize].next;
        self.nodes[right as usize].previous = leaf;
        self.nodes[right as usize].next = after;
        self.nodes[leaf as usize].next = right;
        if after != NIL {
            self.nodes[after as usize].previous = right;
        }
        let bound = if at_end { key } else { self.nodes[right as usize].keys[0] };
        self.adopt(leaf, right, bound);
        if i >= kept && (i > kept || at_end || key >= bound) { (right, i - kept) } else { (leaf, i) }
    }

    fn move_tail(&mut self, from: u32, to: u32, kept: usize) {
        let source = &mut self.nodes[from as usize];
        let moved = usize::from(source.len) - kept;
        let (keys, kids) = (source.keys, source.kids);
        source.len = kept as u16;
        let target = &mut self.nodes[to as usize];
        target.keys[..moved].copy_from_slice(&keys[kept..kept + moved]);
        target.kids[..moved].copy_from_slice(&kids[kept..kept + moved]);
        target.len = moved as u16;
    }

    /// Makes `right` the next sibling of `left` under its parent, which may have to split, or under a new root.
    fn adopt(&mut self, left: u32, right: u32, bound: u64) {
        let parent = self.nodes[left as usize].parent;
        if parent == NIL {
            let root = self.allocate(false);
            let least = self.nodes[left as usize].keys[0];
            let node = &mut self.nodes[root as usize];
            node.insert_at(0, least, left);
            node.insert_at(1, bound, right);
            self.nodes[left as usize].parent = root;
            self.nodes[right as usize].parent = root;
            self.root = root;
            return;
        }
        let mut home = parent;
        let mut i = self.nodes[parent as usize].position_of(left) + 1;
        if self.nodes[parent as usize].full() {
            let sibling = self.allocate(false);
            let kept = WIDTH / 2;
            self.move_tail(parent, sibling, kept);
            for j in 0..usize::from(self.nodes[sibling as usize].len) {
                let kid = self.nodes[sibling as usize].kids[j];
                self.nodes[kid as usize].parent = sibling;
            }
            let least = self.nodes[sibling as usize].keys[0];
            self.adopt(parent, sibling, least);
            if i > kept {
                home = sibling;
                i -= kept;
            }
        }
        self.nodes[home as usize].insert_at(i, bound, right);
        self.nodes[right as usize].parent = home;
    }

    fn free_empty(&mut self, empty: u32) {
        let mut at = empty;
        let node = &self.nodes[at as usize];
        let (previous, next) = (node.previous, node.next);
        if node.parent == NIL {
            return; // An empty root leaf stays.
        }
        if previous != NIL {
            self.nodes[previous as usize].next = next;
        }
        if next != NIL {
            self.nodes[next as usize].previous = previous;
        }
        loop {
            let parent = self.nodes[at as usize].parent;
            self.free.push(at);
            let i = self.nodes[parent as usize].position_of(at);
            self.nodes[parent as usize].remove_at(i);
            if self.nodes[parent as usize].len > 0 {
                break;
            }
            at = parent;
        }
        while !self.nodes[self.root as usize].leaf && self.nodes[self.root as usize].len == 1 {
            let only = self.nodes[self.root as usize].kids[0];
            self.free.push(self.root);
            self.nodes[only as usize].parent = NIL;
            self.root = only;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(ops: Vec<(u32, u64, bool)>) {
        let mut sorted = Sorted::default();
        let mut model: Vec<(u64, u64, u32)> = Vec::new(); // key, sequence, id
        for (sequence, (id, key, look)) in ops.into_iter().enumerate() {
            match model.iter().position(|m| m.2 == id) {
                Some(i) => {
                    model.remove(i);
                    sorted.remove(RequestId(id));
                }
                None => {
                    model.push((key, sequence as u64, id));
                    model.sort();
                    sorted.insert(RequestId(id), key);
                }
            }
            assert_eq!(sorted.len(), model.len());
            let want = model.iter().find(|m| m.0 >= key).map(|m| RequestId(m.2));
            assert_eq!(sorted.first_from(key), want);
            if look {
                let order: Vec<u32> = sorted.iter().map(|r| r.0).collect();
                assert_eq!(order, model.iter().map(|m| m.2).collect::<Vec<_>>());
                for w in model.windows(2) {
                    assert_eq!(sorted.previous(RequestId(w[1].2)), Some(RequestId(w[0].2)));
                }
            }
        }
    }

    proptest! {
        /// Any insertions and removals give the order of a sorted vector, ties by age.
        #[test]
        fn like_a_sorted_vector(ops in proptest::collection::vec((0u32..700, 0u64..90, prop::bool::weighted(0.05)), 0..1500)) {
            check(ops);
        }
    }

    #[test]
    fn ascending_and_descending_thousands_grow_and_shrink() {
        for reverse in [false, true] {
            let mut sorted = Sorted::default();
            let n = 20_000u32;
            for i in 0..n {
                sorted.insert(RequestId(i), u64::from(if reverse { n - i } else { i }));
            }
            assert_eq!(sorted.iter().count(), n as usize);
            for i in 0..n {
                sorted.remove(RequestId(i));
            }
            assert!(sorted.is_empty() && sorted.first().is_none());
            assert!(sorted.free.len() + 1 == sorted.nodes.len(), "every node but the root is free again");
        }
    }
}
