//! Many ordered trees over one pool of numbered nodes: requests of a queue, queues of a service tree, groups.
//!
//! A node is in at most one tree of a [`Forest`] at a time, so a tree costs three words and moving a node allocates
//! nothing. Trees are treaps whose priorities are a hash of the node's number: expected O(log n) for all operations, O(1)
//! for the ends and, expected, for leaving and for arriving at an end. Equal keys keep their order of arrival.

const NIL: u32 = u32::MAX;
/// Parent of a node that is in no tree.
const OUT: u32 = u32::MAX - 1;

#[derive(Clone, Copy, Debug)]
struct Node<K> {
    key: K,
    parent: u32,
    left: u32,
    right: u32,
}

/// The nodes of all trees.
#[derive(Clone, Debug)]
pub struct Forest<K> {
    nodes: Vec<Node<K>>,
}

impl<K> Default for Forest<K> {
    fn default() -> Self {
        Forest { nodes: Vec::new() }
    }
}

/// One tree; its nodes are in a [`Forest`].
#[derive(Clone, Copy, Debug)]
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
    /// Nodes in it.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Is it empty?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The node of the smallest key, the oldest of equals.
    pub fn first(&self) -> Option<u32> {
        some(self.first)
    }

    /// The node of the greatest key, the newest of equals.
    pub fn last(&self) -> Option<u32> {
        some(self.last)
    }
}

fn some(node: u32) -> Option<u32> {
    (node != NIL).then_some(node)
}

/// Which of two nodes is nearer to the root: a hash, so that no order of arrival makes a tree deep.
fn rank(node: u32) -> u32 {
    let mixed = (node ^ (node >> 16)).wrapping_mul(0x7feb_352d);
    let mixed = (mixed ^ (mixed >> 15)).wrapping_mul(0x846c_a68b);
    mixed ^ (mixed >> 16)
}

impl<K: Copy + Ord + Default> Forest<K> {
    fn node(&self, i: u32) -> &Node<K> {
        &self.nodes[i as usize]
    }

    fn node_mut(&mut self, i: u32) -> &mut Node<K> {
        &mut self.nodes[i as usize]
    }

    /// Is this node in a tree?
    pub fn contains(&self, node: u32) -> bool {
        self.nodes.get(node as usize).is_some_and(|n| n.parent != OUT)
    }

    /// The key under which a node was last inserted.
    pub fn key(&self, node: u32) -> K {
        self.node(node).key
    }

    /// Adds a node, which is in no tree, behind those of equal key.
    pub fn insert(&mut self, tree: &mut Tree, node: u32, key: K) {
        if node as usize >= self.nodes.len() {
            self.nodes.resize(node as usize + 1, Node { key, parent: OUT, left: NIL, right: NIL });
        }
        debug_assert_eq!(self.node(node).parent, OUT, "node {node} is in a tree");
        *self.node_mut(node) = Node { key, parent: NIL, left: NIL, right: NIL };
        tree.len += 1;
        if tree.root == NIL {
            (tree.root, tree.first, tree.last) = (node, node, node);
            return;
        }
        if self.node(tree.last).key <= key {
            let last = tree.last;
            self.node_mut(last).right = node;
            self.node_mut(node).parent = last;
            tree.last = node;
        } else if key < self.node(tree.first).key {
            let first = tree.first;
            self.node_mut(first).left = node;
            self.node_mut(node).parent = first;
            tree.first = node;
        } else {
            let mut at = tree.root;
            loop {
                let n = self.node_mut(at);
                let next = if key < n.key { &mut n.left } else { &mut n.right };
                if *next == NIL {
                    *next = node;
                    break;
                }
                at = *next;
            }
            self.node_mut(node).parent = at;
        }
        let own = rank(node);
        while let Some(parent) = some(self.node(node).parent)
            && own > rank(parent)
        {
            self.rise(tree, node, parent);
        }
    }

    /// Takes a node out of `tree`, in which it is.
    pub fn remove(&mut self, tree: &mut Tree, node: u32) {
        debug_assert!(self.contains(node), "node {node} is in no tree");
        tree.len -= 1;
        if tree.first == node {
            tree.first = self.next(node).unwrap_or(NIL);
        }
        if tree.last == node {
            tree.last = self.previous(node).unwrap_or(NIL);
        }
        loop {
            let Node { left, right, parent, .. } = *self.node(node);
            if left != NIL && right != NIL {
                let up = if rank(left) > rank(right) { left } else { right };
                self.rise(tree, up, node);
                continue;
            }
            let only = if left != NIL { left } else { right };
            self.replace(tree, parent, node, only);
            self.node_mut(node).parent = OUT;
            return;
        }
    }

    /// Gives a node of `tree` another key; it goes behind those of equal key.
    pub fn rekey(&mut self, tree: &mut Tree, node: u32, key: K) {
        let stays = key >= self.node(node).key && self.next(node).is_none_or(|next| self.node(next).key > key);
        if stays {
            self.node_mut(node).key = key;
        } else {
            self.remove(tree, node);
            self.insert(tree, node, key);
        }
    }

    /// The node behind this one in its tree.
    pub fn next(&self, node: u32) -> Option<u32> {
        let right = self.node(node).right;
        if right != NIL {
            let mut at = right;
            while self.node(at).left != NIL {
                at = self.node(at).left;
            }
            return Some(at);
        }
        let mut at = node;
        while let Some(parent) = some(self.node(at).parent) {
            if self.node(parent).left == at {
                return Some(parent);
            }
            at = parent;
        }
        None
    }

    /// The node before this one in its tree.
    pub fn previous(&self, node: u32) -> Option<u32> {
        let left = self.node(node).left;
        if left != NIL {
            let mut at = left;
            while self.node(at).right != NIL {
                at = self.node(at).right;
            }
            return Some(at);
        }
        let mut at = node;
        while let Some(parent) = some(self.node(at).parent) {
            if self.node(parent).right == at {
                return Some(parent);
            }
            at = parent;
        }
        None
    }

    /// The first node whose key is at least `key`.
    pub fn first_from(&self, tree: &Tree, key: K) -> Option<u32> {
        let (mut at, mut found) = (tree.root, NIL);
        while at != NIL {
            let n = self.node(at);
            if n.key < key {
                at = n.right;
            } else {
                found = at;
                at = n.left;
            }
        }
        some(found)
    }

    /// In order.
    pub fn iter<'a>(&'a self, tree: &Tree) -> impl Iterator<Item = u32> + 'a {
        std::iter::successors(tree.first(), |n| self.next(*n))
    }

    /// Lets `below`, a child of `above`, take its place.
    fn rise(&mut self, tree: &mut Tree, below: u32, above: u32) {
        let top = self.node(above).parent;
        let moved = if self.node(above).left == below {
            let moved = std::mem::replace(&mut self.node_mut(below).right, above);
            self.node_mut(above).left = moved;
            moved
        } else {
            let moved = std::mem::replace(&mut self.node_mut(below).left, above);
            self.node_mut(above).right = moved;
            moved
        };
        if moved != NIL {
            self.node_mut(moved).parent = above;
        }
        self.replace(tree, top, above, below);
        self.node_mut(above).parent = below;
    }

    /// Makes `new`, possibly nothing, the child of `parent` that `old` was.
    fn replace(&mut self, tree: &mut Tree, parent: u32, old: u32, new: u32) {
        match parent {
            NIL => tree.root = new,
            p if self.node(p).left == old => self.node_mut(p).left = new,
            p => self.node_mut(p).right = new,
        }
        if new != NIL {
            self.node_mut(new).parent = parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Any insertions and removals in three trees give the order of sorted vectors, ties by age.
        #[test]
        fn like_sorted_vectors(ops in proptest::collection::vec((0u32..200, 0i64..40, 0usize..3, any::<bool>()), 0..800)) {
            let mut forest = Forest::<i64>::default();
            let mut trees = [Tree::default(); 3];
            let mut model: Vec<Vec<(i64, usize, u32)>> = vec![Vec::new(); 3];
            for (sequence, (node, key, tree, rekey)) in ops.into_iter().enumerate() {
                match model.iter().position(|m| m.iter().any(|e| e.2 == node)) {
                    Some(t) if rekey => {
                        model[t].retain(|e| e.2 != node);
                        model[t].push((key, sequence, node));
                        model[t].sort();
                        forest.rekey(&mut trees[t], node, key);
                    }
                    Some(t) => {
                        model[t].retain(|e| e.2 != node);
                        forest.remove(&mut trees[t], node);
                        prop_assert!(!forest.contains(node));
                    }
                    None => {
                        model[tree].push((key, sequence, node));
                        model[tree].sort();
                        forest.insert(&mut trees[tree], node, key);
                        prop_assert_eq!(forest.key(node), key);
                    }
                }
                for (m, t) in model.iter().zip(&trees) {
                    let want: Vec<u32> = m.iter().map(|e| e.2).collect();
                    prop_assert_eq!(forest.iter(t).collect::<Vec<_>>(), want.clone());
                    prop_assert_eq!((t.first(), t.last()), (want.first().copied(), want.last().copied()));
                    prop_assert_eq!(t.len(), want.len());
                    let from = m.iter().find(|e| e.0 >= key).map(|e| e.2);
                    prop_assert_eq!(forest.first_from(t, key), from);
                    for pair in want.windows(2) {
                        prop_assert_eq!(forest.previous(pair[1]), Some(pair[0]));
                    }
                }
            }
        }
    }

    #[test]
    fn ascending_thousands_stay_shallow() {
        let mut forest = Forest::<u64>::default();
        let mut tree = Tree::default();
        for i in 0..20_000 {
            forest.insert(&mut tree, i, u64::from(i));
        }
        let depth = |mut node: u32| {
            let mut steps = 0;
            while let Some(parent) = some(forest.node(node).parent) {
                node = parent;
                steps += 1;
            }
            steps
        };
        let deepest = (0..20_000).map(depth).max().unwrap();
        assert!(deepest < 60, "{deepest} steps from the root");
    }
}
