//! Ordered trees over small integers ("ids"): many trees, one arena, an id in at most one tree at a time.
//!
//! Red-black trees ordered by a key, the first inserted first among equals. Each node also knows the least `low` (a
//! second key) of its subtree, so that "the smallest key among those whose low is not later than x" takes O(log n).
//! The ends take O(1), to find and to insert at but for rare mending further up. Keys and lows are compared by [`later`], which survives wrapping. Nothing allocates once the arena has grown.

const NIL: u32 = u32::MAX;

/// Is `a` later than `b`, wherever the counters wrapped?
pub fn later(a: u64, b: u64) -> bool {
    a.wrapping_sub(b) as i64 > 0
}

#[derive(Clone, Copy, Debug)]
struct Link {
    key: u64,
    low: u64,
    min: u64,
    left: u32,
    right: u32,
    parent: u32,
    red: bool,
}

const LOOSE: Link = Link { key: 0, low: 0, min: 0, left: NIL, right: NIL, parent: NIL, red: false };

/// The nodes of all trees.
#[derive(Clone, Debug, Default)]
pub struct Forest {
    nodes: Vec<Link>,
}

/// One tree of a [`Forest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    root: u32,
    first: u32,
    last: u32,
}

impl Default for Tree {
    fn default() -> Self {
        Tree { root: NIL, first: NIL, last: NIL }
    }
}

impl Tree {
    /// Is it empty?
    pub fn is_empty(&self) -> bool {
        self.root == NIL
    }
}

fn some(id: u32) -> Option<u32> {
    (id != NIL).then_some(id)
}

impl Forest {
    fn at(&self, id: u32) -> &Link {
        &self.nodes[id as usize]
    }

    fn at_mut(&mut self, id: u32) -> &mut Link {
        &mut self.nodes[id as usize]
    }

    /// The key under which an id was inserted.
    pub fn key(&self, id: u32) -> u64 {
        self.at(id).key
    }

    /// The second key of an id.
    pub fn low(&self, id: u32) -> u64 {
        self.at(id).low
    }

    /// Adds `id`, behind those of equal key.
    pub fn insert(&mut self, tree: &mut Tree, id: u32, key: u64, low: u64) {
        if id as usize >= self.nodes.len() {
            self.nodes.resize(id as usize + 1, LOOSE);
        }
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
        while above != NIL && later(self.at(above).min, low) {
            self.at_mut(above).min = low;
            above = self.at(above).parent;
        }
        self.mend_insertion(tree, id);
    }

    /// Under which id a key goes, and whether on its left.
    fn place_for(&self, tree: &Tree, key: u64) -> (u32, bool) {
        if tree.is_empty() || !later(self.at(tree.last).key, key) {
            return (tree.last, false);
        }
        if later(self.at(tree.first).key, key) {
            return (tree.first, true);
        }
        let (mut parent, mut at, mut left) = (NIL, tree.root, false);
        while at != NIL {
            let node = self.at(at);
            parent = at;
            left = later(node.key, key);
            at = if left { node.left } else { node.right };
        }
        (parent, left)
    }

    /// Takes `id`, which is in this tree, out.
    pub fn remove(&mut self, tree: &mut Tree, id: u32) {
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
            // What is above knows the least low of the place, so repairs may stop where it stays.
            self.at_mut(heir).min = gone.min;
            if parent != heir {
                self.repair_up(parent);
            }
            self.repair_up(heir);
        }
        if !was_red {
            self.mend_removal(tree, child, parent);
        }
    }

    /// Changes the key of an id whose place between its neighbours stays the same.
    pub fn rekey(&mut self, id: u32, key: u64) {
        self.at_mut(id).key = key;
    }

    /// The id with the smallest key, the oldest of equals.
    pub fn first(&self, tree: &Tree) -> Option<u32> {
        some(tree.first)
    }

    /// The id with the greatest key, the newest of equals.
    pub fn last(&self, tree: &Tree) -> Option<u32> {
        some(tree.last)
    }

    /// The id behind this one.
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

    /// The id before this one.
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
    pub fn first_from(&self, tree: &Tree, key: u64) -> Option<u32> {
        let (mut at, mut found) = (tree.root, NIL);
        while at != NIL {
            let link = self.at(at);
            if later(key, link.key) {
                at = link.right;
            } else {
                found = at;
                at = link.left;
            }
        }
        some(found)
    }

    /// The least low of the tree.
    pub fn least_low(&self, tree: &Tree) -> Option<u64> {
        some(tree.root).map(|root| self.at(root).min)
    }

    /// The first id, in order, whose low is not later than `bound`.
    pub fn first_eligible(&self, tree: &Tree, bound: u64) -> Option<u32> {
        let eligible = |at: u32| at != NIL && !later(self.at(at).min, bound);
        let mut at = tree.root;
        if !eligible(at) {
            return None;
        }
        loop {
            let link = self.at(at);
            if eligible(link.left) {
                at = link.left;
            } else if !later(link.low, bound) {
                return Some(at);
            } else {
                at = link.right;
            }
        }
    }

    /// An id whose low is not later than `bound`, found as the kernel searches: downwards, leftwards while something
    /// eligible is there, and never rightwards once something eligible was passed. Not always the first.
    pub fn early_eligible(&self, tree: &Tree, bound: u64) -> Option<u32> {
        let (mut at, mut passed) = (tree.root, NIL);
        while at != NIL {
            let link = self.at(at);
            if !later(link.low, bound) {
                passed = at;
            }
            if link.left != NIL && !later(self.at(link.left).min, bound) {
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
        std::iter::successors(self.first(tree), |id| self.next(*id))
    }

    fn leftmost(&self, mut at: u32) -> u32 {
        while self.at(at).left != NIL {
            at = self.at(at).left;
        }
        at
    }

    /// Computes the least low of one subtree from its children's. Answers whether it changed.
    fn repair(&mut self, at: u32) -> bool {
        let link = *self.at(at);
        let mut min = link.low;
        for child in [link.left, link.right] {
            if child != NIL && later(min, self.at(child).min) {
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

    /// Puts `new` (perhaps nothing) where `old` hangs under its parent.
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
            let side = |link: &Link, near: bool| if near == on_left { link.left } else { link.right };
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
    fn check(forest: &Forest, at: u32, parent: u32) -> u32 {
        if at == NIL {
            return 1;
        }
        let link = forest.at(at);
        assert_eq!(link.parent, parent);
        assert!(!(link.red && (forest.red(link.left) || forest.red(link.right))), "two reds");
        let blacks = check(forest, link.left, at);
        assert_eq!(blacks, check(forest, link.right, at), "unbalanced");
        let least = [link.left, link.right].into_iter().filter(|c| *c != NIL).map(|c| forest.at(c).min);
        let least = least.chain([link.low]).min_by_key(|m| m.wrapping_sub(ORIGIN)).unwrap();
        assert_eq!(link.min, least);
        blacks + u32::from(!link.red)
    }

    /// Keys near the wrap.
    const ORIGIN: u64 = u64::MAX - 20;

    proptest! {
        /// Any mix of operations gives what a sorted vector gives, balanced, with true minima.
        #[test]
        fn like_a_vector(ops in proptest::collection::vec((0u32..40, 0u64..60, 0u64..60), 0..300), bound in 0u64..60) {
            let mut forest = Forest::default();
            let mut tree = Tree::default();
            let mut model: Vec<(u64, u32, u64)> = Vec::new();
            for (id, key, low) in ops {
                match model.iter().position(|m| m.1 == id) {
                    Some(i) => { forest.remove(&mut tree, id); model.remove(i); }
                    None => {
                        forest.insert(&mut tree, id, ORIGIN.wrapping_add(key), ORIGIN.wrapping_add(low));
                        let i = model.partition_point(|m| m.0 <= key);
                        model.insert(i, (key, id, low));
                    }
                }
                check(&forest, tree.root, NIL);
                prop_assert_eq!(forest.iter(&tree).collect::<Vec<_>>(), model.iter().map(|m| m.1).collect::<Vec<_>>());
                let eligible = model.iter().find(|m| m.2 <= bound).map(|m| m.1);
                prop_assert_eq!(forest.first_eligible(&tree, ORIGIN.wrapping_add(bound)), eligible);
                let early = forest.early_eligible(&tree, ORIGIN.wrapping_add(bound));
                prop_assert_eq!(early.is_some(), eligible.is_some());
                prop_assert!(early.is_none_or(|id| !later(forest.low(id), ORIGIN.wrapping_add(bound))));
                prop_assert_eq!(forest.first_from(&tree, ORIGIN.wrapping_add(bound)), model.iter().find(|m| m.0 >= bound).map(|m| m.1));
                prop_assert_eq!(forest.last(&tree), model.last().map(|m| m.1));
                prop_assert_eq!(forest.first(&tree), model.first().map(|m| m.1));
                for pair in model.windows(2) {
                    prop_assert_eq!(forest.previous(pair[1].1), Some(pair[0].1));
                }
            }
        }
    }
}
