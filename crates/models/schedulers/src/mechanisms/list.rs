//! First-in-first-out lists of requests, from whose middle any one can leave in O(1), without allocating.

use dumbwaiter_block::RequestId;

const NIL: u32 = u32::MAX;

/// The links of all lists of one scheduler. A request is in at most one list of a [`Links`] at a time.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// (previous, next) by request id.
    at: Vec<(u32, u32)>,
}

/// One list; its links are in a [`Links`].
#[derive(Clone, Copy, Debug)]
pub struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        List { head: NIL, tail: NIL, len: 0 }
    }
}

fn some(id: u32) -> Option<RequestId> {
    RequestId(id).some()
}

impl List {
    /// Oldest.
    pub fn front(&self) -> Option<RequestId> {
        some(self.head)
    }

    /// Newest.
    pub fn back(&self) -> Option<RequestId> {
        some(self.tail)
    }

    /// Requests in it.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Is it empty?
    pub fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// Appends.
    #[inline]
    pub fn push_back(&mut self, links: &mut Links, id: RequestId) {
        links.reserve(id);
        links.at[id.index()] = (self.tail, NIL);
        match self.tail {
            NIL => self.head = id.0,
            tail => links.at[tail as usize].1 = id.0,
        }
        self.tail = id.0;
        self.len += 1;
    }

    /// Prepends.
    pub fn push_front(&mut self, links: &mut Links, id: RequestId) {
        links.reserve(id);
        links.at[id.index()] = (NIL, self.head);
        match self.head {
            NIL => self.tail = id.0,
            head => links.at[head as usize].0 = id.0,
        }
        self.head = id.0;
        self.len += 1;
    }

    /// Puts `id` directly before `other`, which is in this list.
    pub fn insert_before(&mut self, links: &mut Links, id: RequestId, other: RequestId) {
        let previous = links.at[other.index()].0;
        if previous == NIL {
            return self.push_front(links, id);
        }
        links.reserve(id);
        links.at[id.index()] = (previous, other.0);
        links.at[previous as usize].1 = id.0;
        links.at[other.index()].0 = id.0;
        self.len += 1;
    }

    /// Takes `id`, which is in this list, out.
    pub fn remove(&mut self, links: &mut Links, id: RequestId) {
        let (previous, next) = links.at[id.index()];
        debug_assert!(self.len > 0 && (previous != NIL || self.head == id.0), "request {} is not in the list", id.0);
        match previous {
            NIL => self.head = next,
            p => links.at[p as usize].1 = next,
        }
        match next {
            NIL => self.tail = previous,
            n => links.at[n as usize].0 = previous,
        }
        self.len -= 1;
    }

    /// Takes the oldest out.
    #[inline]
    pub fn pop_front(&mut self, links: &mut Links) -> Option<RequestId> {
        let id = self.front()?;
        self.remove(links, id);
        Some(id)
    }

    /// Moves everything of `other` behind this list.
    pub fn append(&mut self, links: &mut Links, other: &mut List) {
        if other.is_empty() {
            return;
        }
        match self.tail {
            NIL => self.head = other.head,
            tail => {
                links.at[tail as usize].1 = other.head;
                links.at[other.head as usize].0 = tail;
            }
        }
        self.tail = other.tail;
        self.len += other.len;
        *other = List::default();
    }

    /// From the oldest on.
    pub fn iter<'a>(&self, links: &'a Links) -> impl Iterator<Item = RequestId> + 'a {
        std::iter::successors(self.front(), |id| some(links.at[id.index()].1))
    }

    /// From the newest on.
    pub fn iter_back<'a>(&self, links: &'a Links) -> impl Iterator<Item = RequestId> + 'a {
        std::iter::successors(self.back(), |id| some(links.at[id.index()].0))
    }
}

impl Links {
    fn reserve(&mut self, id: RequestId) {
        if id.index() >= self.at.len() {
            self.at.resize(id.index() + 1, (NIL, NIL));
        }
    }

    /// The request before `id` in its list.
    pub fn previous(&self, id: RequestId) -> Option<RequestId> {
        some(self.at[id.index()].0)
    }

    /// The request behind `id` in its list.
    pub fn next(&self, id: RequestId) -> Option<RequestId> {
        some(self.at[id.index()].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Any mix of operations on two lists gives what two vectors give.
        #[test]
        fn like_vectors(ops in proptest::collection::vec((0u8..6, 0u32..24), 0..200)) {
            let mut links = Links::default();
            let mut lists = [List::default(), List::default()];
            let mut model: [Vec<u32>; 2] = Default::default();
            for (op, id) in ops {
                let which = (op % 2) as usize;
                let r = RequestId(id);
                let home = model.iter().position(|m| m.contains(&id));
                match (op / 2, home) {
                    (0, None) => { lists[which].push_back(&mut links, r); model[which].push(id); }
                    (1, None) => { lists[which].push_front(&mut links, r); model[which].insert(0, id); }
                    (2, None) => {
                        if let Some(at) = model[which].get(id as usize % model[which].len().max(1)).copied() {
                            lists[which].insert_before(&mut links, r, RequestId(at));
                            let i = model[which].iter().position(|x| *x == at).unwrap();
                            model[which].insert(i, id);
                        }
                    }
                    (2, Some(_)) => {
                        let [a, b] = &mut lists;
                        a.append(&mut links, b);
                        let moved = std::mem::take(&mut model[1]);
                        model[0].extend(moved);
                    }
                    (_, Some(h)) => { lists[h].remove(&mut links, r); model[h].retain(|x| *x != id); }
                    _ => unreachable!(),
                }
                for (list, want) in lists.iter().zip(&model) {
                    prop_assert_eq!(&list.iter(&links).map(|r| r.0).collect::<Vec<_>>(), want);
                    let mut back = list.iter_back(&links).map(|r| r.0).collect::<Vec<_>>();
                    back.reverse();
                    prop_assert_eq!(&back, want);
                    prop_assert_eq!(list.len(), want.len());
                }
            }
        }
    }
}
