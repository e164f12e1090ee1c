//! Ordered trees over small integers ("ids"): many trees share one arena, and an id is in at most one tree at a time.
//!
//! The trees are red-black trees ordered by a key; equal keys keep their order of insertion. An id may also have a second
//! key, its `low`: each node then knows the least `low` of its subtree, so that "the smallest key among those whose low is
//! not later than x" takes O(log n). Finding either end takes O(1), and so does inserting there, apart from rare
//! rebalancing further up. Nothing allocates once the arena has grown.

const NIL: u32 = u32::MAX;
/// Parent of an id that is in no tree.
const OUT: u32 = u32::MAX - 1;

/// Compares counters that wrap: is `a` later than `b`?
pub fn later(a: u64, b: u64) -> bool {
    a.wrapping_sub(b) as i64 > 0
}

/// A key of an ordered tree.
pub trait Key: Copy + Default + PartialEq {
    /// Does it come after `other`?
    fn is_after(self, other: Self) -> bool;
}

/// Virtual times and sectors: compared by [`later`].
impl Key for u64 {
    fn is_after(self, other: u64) -> bool {
        later(self, other)
    }
}

impl Key for i64 {
    fn is_after(self, other: i64) -> bool {
        self > other
    }
}

/// The second number decides between equal first ones.
impl Key for (u64, u64) {
    fn is_after(self, other: (u64, u64)) -> bool {
        self > other
    }
}

/// No key: all are equal.
impl Key for () {
    fn is_after(self, (): ()) -> bool {
        false
    }
}

#[derive(Clone, Copy, Debug)]
struct Link<K, L> {
    key: K,
    low: L,
    /// The least `low` of the subtree.
    min: L,
    left: u32,
    right: u32,
    parent: u32,
    red: bool,
}

/// The nodes of all trees. `L` is the type of the second key; without one it is `()`.
#[derive(Clone, Debug)]
pub struct TreeArena<K = u64, L = ()> {
    nodes: Vec<Link<K, L>>,
}

impl<K, L> Default for TreeArena<K, L> {
    fn default() -> Self {
        TreeArena { nodes: Vec::new() }
    }
}

/// One tree of a [`TreeArena`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    root: u32,
    first: u32,
    last: u32,
    len: u32,
}

impl Default for Tree {
    fn default() -> Self {
        Tree { root: NIL, first: NIL, last: NIL, len: 0 }
    }
}

impl Tree {
    /// Ids in it.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Is it empty?
    pub fn is_empty(&self) -> bool {
        self.root == NIL
    }

    /// The id with the smallest key, the first inserted of equals.
    pub fn first(&self) -> Option<u32> {
        some(self.first)
    }

    /// The id with the greatest key, the last inserted of equals.
    pub fn last(&self) -> Option<u32> {
        some(self.last)
    }
}

fn some(id: u32) -> Option<u32> {
    (id != NIL).then_some(id)
}

impl<K: Key> TreeArena<K, ()> {
    /// Adds `id`, which is in no tree, behind those of equal key.
    pub fn insert(&mut self, tree: &mut Tree, id: u32, key: K) {
        self.insert_with_low(tree, id, key, ());
    }
}

impl<K: Key, L: Key> TreeArena<K, L> {
    fn at(&self, id: u32) -> &Link<K, L> {
        &self.nodes[id as usize]
    }

    fn at_mut(&mut self, id: u32) -> &mut Link<K, L> {
        &mut self.nodes[id as usize]
    }

    /// Is this id in a tree?
    pub fn contains(&self, id: u32) -> bool {
        self.nodes.get(id as usize).is_some_and(|link| link.parent != OUT)
    }

    /// The key under which an id was last inserted.
    pub fn key(&self, id: u32) -> K {
        self.at(id).key
    }

    /// The second key of an id.
    pub fn low(&self, id: u32) -> L {
        self.at(id).low
    }

    /// Adds `id`, which is in no tree, behind those of equal key.
    pub fn insert_with_low(&mut self, tree: &mut Tree, id: u32, key: K, low: L) {
        if id as usize >= self.nodes.len() {
            let out = Link { key, low, min: low, left: NIL, right: NIL, parent: OUT, red: false };
            self.nodes.resize(id as usize + 1, out);
        }
        debug_assert_eq!(self.at(id).parent, OUT, "id {id} is in a tree");
        tree.len += 1;
        let (parent, left) = self.place_for(tree, key);
        *self.at_mut(id) = Link { key, low, min: low, left: NIL, right: NIL, parent, red: true };
        match parent {
            NIL => tree.root = id,
            p if left => self.at_mut(p).left = id,
            p => self.at_mut(p).right = id,
        }
        if parent == tree.first && left || parent == NIL {
            tree.first = id;
        }
        if parent == tree.last && !left {
            tree.last = id;
        }
        let mut above = parent;
        while above != NIL && self.at(above).min.is_after(low) {
            self.at_mut(above).min = low;
            above = self.at(above).parent;
        }
        self.mend_insertion(tree, id);
    }

    /// Under which id a key goes, and whether on its left.
    fn place_for(&self, tree: &Tree, key: K) -> (u32, bool) {
        if tree.is_empty() || !self.at(tree.last).key.is_after(key) {
            return (tree.last, false);
        }
        if self.at(tree.first).key.is_after(key) {
            return (tree.first, true);
        }
        let (mut parent, mut at, mut left) = (NIL, tree.root, false);
        while at != NIL {
            let node = self.at(at);
            parent = at;
            left = node.key.is_after(key);
            at = if left { node.left } else { node.right };
        }
        (parent, left)
    }

    /// Takes `id`, which is in this tree, out.
    pub fn remove(&mut self, tree: &mut Tree, id: u32) {
        debug_assert!(self.contains(id), "id {id} is in no tree");
        tree.len -= 1;
        if tree.first == id {
            tree.first = self.next(id).unwrap_or(NIL);
        }
        if tree.last == id {
            tree.last = self.previous(id).unwrap_or(NIL);
        }
        let gone = *self.at(id);
        let (child, parent, was_red);
        if gone.left == NIL || gone.right == NIL {
            child = if gone.left == NIL { gone.right } else { gone.left };
            parent = gone.parent;
            was_red = gone.red;
            self.replace(tree, id, child);
            self.repair_up(parent);
        } else {
            let heir = self.leftmost(gone.right);
            let link = *self.at(heir);
            child = link.right;
            was_red = link.red;
            if link.parent == id {
                parent = heir;
            } else {
                parent = link.parent;
                self.replace(tree, heir, child);
                self.at_mut(heir).right = gone.right;
                self.at_mut(gone.right).parent = heir;
            }
            self.replace(tree, id, heir);
            self.at_mut(heir).left = gone.left;
            self.at_mut(gone.left).parent = heir;
            self.at_mut(heir).red = gone.red;
            // The nodes above know the least low of the place, so repairs may stop where it stays.
            self.at_mut(heir).min = gone.min;
            if parent != heir {
                self.repair_up(parent);
            }
            self.repair_up(heir);
        }
        if !was_red {
            self.mend_removal(tree, child, parent);
        }
        self.at_mut(id).parent = OUT;
    }

    /// Gives `id`, which is in this tree, another key; it goes behind those of equal key.
    #[inline]
    pub fn rekey(&mut self, tree: &mut Tree, id: u32, key: K) {
        // An only id stays whatever its key.
        if tree.len == 1 || self.keeps_place(id, key) {
            self.at_mut(id).key = key;
        } else {
            let low = self.at(id).low;
            self.remove(tree, id);
            self.insert_with_low(tree, id, key, low);
        }
    }

    /// Would `id` stay between its neighbours with another key?
    fn keeps_place(&self, id: u32, key: K) -> bool {
        let after_previous = || self.previous(id).is_none_or(|p| !self.at(p).key.is_after(key));
        let before_next = || self.next(id).is_none_or(|n| self.at(n).key.is_after(key));
        (!self.at(id).key.is_after(key) || after_previous()) && before_next()
    }

    /// The id after this one in its tree.
    pub fn next(&self, id: u32) -> Option<u32> {
        let link = self.at(id);
        if link.right != NIL {
            return Some(self.leftmost(link.right));
        }
        let (mut at, mut parent) = (id, link.parent);
        while parent != NIL && self.at(parent).right == at {
            (at, parent) = (parent, self.at(parent).parent);
        }
        some(parent)
    }

    /// The id before this one in its tree.
    pub fn previous(&self, id: u32) -> Option<u32> {
        let link = self.at(id);
        if link.left != NIL {
            let mut at = link.left;
            while self.at(at).right != NIL {
                at = self.at(at).right;
            }
            return Some(at);
        }
        let (mut at, mut parent) = (id, link.parent);
        while parent != NIL && self.at(parent).left == at {
            (at, parent) = (parent, self.at(parent).parent);
        }
        some(parent)
    }

    /// The first id whose key is not before `key`.
    pub fn first_from(&self, tree: &Tree, key: K) -> Option<u32> {
        let (mut at, mut found) = (tree.root, NIL);
        while at != NIL {
            let link = self.at(at);
            if key.is_after(link.key) {
                at = link.right;
            } else {
                found = at;
                at = link.left;
            }
        }
        some(found)
    }

    /// The least low of the tree.
    pub fn least_low(&self, tree: &Tree) -> Option<L> {
        some(tree.root).map(|root| self.at(root).min)
    }

    /// The first id, in order, whose low is not later than `bound`.
    pub fn first_eligible(&self, tree: &Tree, bound: L) -> Option<u32> {
        let eligible = |at: u32| at != NIL && !self.at(at).min.is_after(bound);
        let mut at = tree.root;
        if !eligible(at) {
            return None;
        }
        loop {
            let link = self.at(at);
            if eligible(link.left) {
                at = link.left;
            } else if !link.low.is_after(bound) {
                return Some(at);
            } else {
                at = link.right;
            }
        }
    }

    /// An id whose low is not later than `bound`, found as the kernel searches: downwards, leftwards while something
    /// eligible is there, and never rightwards once something eligible was passed. Not always the first.
    pub fn early_eligible(&self, tree: &Tree, bound: L) -> Option<u32> {
        let (mut at, mut passed) = (tree.root, NIL);
        while at != NIL {
            let link = self.at(at);
            if !link.low.is_after(bound) {
                passed = at;
            }
            if link.left != NIL && !self.at(link.left).min.is_after(bound) {
                at = link.left;
            } else if passed != NIL {
                break;
            } else {
                at = link.right;
            }
        }
        some(passed)
    }

    /// In order.
    pub fn iter(&self, tree: &Tree) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(tree.first(), |id| self.next(*id))
    }

    fn leftmost(&self, mut at: u32) -> u32 {
        while self.at(at).left != NIL {
            at = self.at(at).left;
        }
        at
    }

    /// Computes the least low of one subtree from its children's. Returns whether it changed.
    fn repair(&mut self, at: u32) -> bool {
        // Without a second key there is nothing to compute.
        if size_of::<L>() == 0 {
            return false;
        }
        let link = *self.at(at);
        let mut min = link.low;
        for child in [link.left, link.right] {
            if child != NIL && min.is_after(self.at(child).min) {
                min = self.at(child).min;
            }
        }
        self.at_mut(at).min = min;
        min != link.min
    }

    /// Repairs upwards until nothing changes.
    fn repair_up(&mut self, mut at: u32) {
        while at != NIL && self.repair(at) {
            at = self.at(at).parent;
        }
    }

    /// Makes `new` (perhaps nothing) the child of its parent that `old` was.
    fn replace(&mut self, tree: &mut Tree, old: u32, new: u32) {
        let parent = self.at(old).parent;
        match parent {
            NIL => tree.root = new,
            p if self.at(p).left == old => self.at_mut(p).left = new,
            p => self.at_mut(p).right = new,
        }
        if new != NIL {
            self.at_mut(new).parent = parent;
        }
    }

    fn rotate(&mut self, tree: &mut Tree, at: u32, to_left: bool) {
        let link = *self.at(at);
        let up = if to_left { link.right } else { link.left };
        let moved = if to_left { self.at(up).left } else { self.at(up).right };
        self.replace(tree, at, up);
        if to_left {
            self.at_mut(up).left = at;
            self.at_mut(at).right = moved;
        } else {
            self.at_mut(up).right = at;
            self.at_mut(at).left = moved;
        }
        self.at_mut(at).parent = up;
        if moved != NIL {
            self.at_mut(moved).parent = at;
        }
        self.at_mut(up).min = link.min;
        self.repair(at);
    }

    fn red(&self, at: u32) -> bool {
        at != NIL && self.at(at).red
    }

    fn mend_insertion(&mut self, tree: &mut Tree, mut at: u32) {
        while self.red(self.at(at).parent) {
            let parent = self.at(at).parent;
            let grand = self.at(parent).parent;
            let on_left = self.at(grand).left == parent;
            let uncle = if on_left { self.at(grand).right } else { self.at(grand).left };
            if self.red(uncle) {
                self.at_mut(parent).red = false;
                self.at_mut(uncle).red = false;
                self.at_mut(grand).red = true;
                at = grand;
                continue;
            }
            let inner = if on_left { self.at(parent).right } else { self.at(parent).left };
            if inner == at {
                self.rotate(tree, parent, on_left);
                at = parent;
            }
            let parent = self.at(at).parent;
            self.at_mut(parent).red = false;
            self.at_mut(grand).red = true;
            self.rotate(tree, grand, !on_left);
        }
        let root = tree.root;
        self.at_mut(root).red = false;
    }

    /// A black node is missing above `at` (perhaps nothing), which hangs under `parent`.
    fn mend_removal(&mut self, tree: &mut Tree, mut at: u32, mut parent: u32) {
        while at != tree.root && !self.red(at) {
            let on_left = self.at(parent).left == at;
            let side = |link: &Link<K, L>, near: bool| if near == on_left { link.left } else { link.right };
            let mut sibling = side(self.at(parent), false);
            if self.red(sibling) {
                self.at_mut(sibling).red = false;
                self.at_mut(parent).red = true;
                self.rotate(tree, parent, on_left);
                sibling = side(self.at(parent), false);
            }
            let (near, far) = (side(self.at(sibling), true), side(self.at(sibling), false));
            if !self.red(near) && !self.red(far) {
                self.at_mut(sibling).red = true;
                at = parent;
                parent = self.at(at).parent;
                continue;
            }
            if !self.red(far) {
                self.at_mut(near).red = false;
                self.at_mut(sibling).red = true;
                self.rotate(tree, sibling, !on_left);
                sibling = side(self.at(parent), false);
            }
            let far = side(self.at(sibling), false);
            self.at_mut(sibling).red = self.at(parent).red;
            self.at_mut(parent).red = false;
            self.at_mut(far).red = false;
            self.rotate(tree, parent, on_left);
            at = tree.root;
        }
        if at != NIL {
            self.at_mut(at).red = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Black nodes down to every leaf, after checking colours, links and minima.
    fn check<K: Key, L: Key + std::fmt::Debug>(forest: &TreeArena<K, L>, at: u32, parent: u32) -> u32 {
        if at == NIL {
            return 1;
        }
        let link = forest.at(at);
        assert_eq!(link.parent, parent);
        assert!(!(link.red && (forest.red(link.left) || forest.red(link.right))), "two reds");
        let blacks = check(forest, link.left, at);
        assert_eq!(blacks, check(forest, link.right, at), "unbalanced");
        let children = [link.left, link.right].into_iter().filter(|c| *c != NIL).map(|c| forest.at(c).min);
        let least = children.fold(link.low, |least, low| if least.is_after(low) { low } else { least });
        assert_eq!(link.min, least);
        blacks + u32::from(!link.red)
    }

    /// Keys near the wrap.
    const ORIGIN: u64 = u64::MAX - 20;

    proptest! {
        /// Any insertions, removals and changes of key in three trees give what sorted vectors give, balanced, with true
        /// minima.
        #[test]
        fn like_sorted_vectors(
            ops in proptest::collection::vec((0u32..40, 0u64..60, 0u64..60, 0usize..3, any::<bool>()), 0..300),
            bound in 0u64..60,
        ) {
            let mut forest = TreeArena::<u64, u64>::default();
            let mut trees = [Tree::default(); 3];
            let mut models: [Vec<(u64, u32, u64)>; 3] = Default::default();
            let wrapped = |n: u64| ORIGIN.wrapping_add(n);
            for (id, key, low, home, rekey) in ops {
                match models.iter().position(|m| m.iter().any(|e| e.1 == id)) {
                    Some(t) => {
                        let at = models[t].iter().position(|e| e.1 == id).unwrap();
                        let (_, _, low) = models[t].remove(at);
                        if rekey {
                            forest.rekey(&mut trees[t], id, wrapped(key));
                            let at = models[t].partition_point(|e| e.0 <= key);
                            models[t].insert(at, (key, id, low));
                        } else {
                            forest.remove(&mut trees[t], id);
                        }
                        prop_assert_eq!(forest.contains(id), rekey);
                    }
                    None => {
                        forest.insert_with_low(&mut trees[home], id, wrapped(key), wrapped(low));
                        let at = models[home].partition_point(|e| e.0 <= key);
                        models[home].insert(at, (key, id, low));
                        prop_assert_eq!((forest.key(id), forest.low(id)), (wrapped(key), wrapped(low)));
                    }
                }
                for (tree, model) in trees.iter().zip(&models) {
                    check(&forest, tree.root, NIL);
                    prop_assert_eq!(forest.iter(tree).collect::<Vec<_>>(), model.iter().map(|m| m.1).collect::<Vec<_>>());
                    prop_assert_eq!((tree.len(), tree.is_empty()), (model.len(), model.is_empty()));
                    let eligible = model.iter().find(|m| m.2 <= bound).map(|m| m.1);
                    prop_assert_eq!(forest.first_eligible(tree, wrapped(bound)), eligible);
                    let early = forest.early_eligible(tree, wrapped(bound));
                    prop_assert_eq!(early.is_some(), eligible.is_some());
                    prop_assert!(early.is_none_or(|id| !later(forest.low(id), wrapped(bound))));
                    let from = model.iter().find(|m| m.0 >= bound).map(|m| m.1);
                    prop_assert_eq!(forest.first_from(tree, wrapped(bound)), from);
                    prop_assert_eq!((tree.first(), tree.last()), (model.first().map(|m| m.1), model.last().map(|m| m.1)));
                    for pair in model.windows(2) {
                        prop_assert_eq!(forest.previous(pair[1].1), Some(pair[0].1));
                    }
                }
            }
        }
    }

    #[test]
    fn a_second_number_orders_equal_first_ones() {
        let mut forest = TreeArena::<(u64, u64)>::default();
        let mut tree = Tree::default();
        for (id, key) in [(0, (5, 2)), (1, (5, 1)), (2, (4, 9))] {
            forest.insert(&mut tree, id, key);
        }
        assert_eq!(forest.iter(&tree).collect::<Vec<_>>(), [2, 1, 0]);
    }

    #[test]
    fn ascending_thousands_stay_shallow() {
        let mut forest = TreeArena::<i64>::default();
        let mut tree = Tree::default();
        for id in 0..20_000 {
            forest.insert(&mut tree, id, i64::from(id));
        }
        let steps = |mut id: u32| {
            let mut steps = 0;
            while let Some(parent) = some(forest.at(id).parent) {
                id = parent;
                steps += 1;
            }
            steps
        };
        let deepest = (0..20_000).map(steps).max().unwrap();
        assert!(deepest < 30, "{deepest} steps from the root");
    }
}
