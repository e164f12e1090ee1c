//! A batch of requests on its way to the device.

use dumbwaiter_block::{Context, RequestId};

use super::models::TYPES;
use crate::mechanisms::list::{Links, List};
use crate::mechanisms::ordered::{Tree, TreeArena};

/// The list that is ordered by sector on a disk.
const SORTED: usize = 1;

/// Where the requests of pages are linked.
#[derive(Clone, Debug, Default)]
pub(super) struct Storage {
    pub links: Links,
    pub forest: TreeArena<u64>,
}

/// A batch: lists that are served one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    lists: [List; TYPES],
    /// The requests of list 1 where they are ordered by sector.
    sorted: Tree,
    /// Requests taken in when it was filled, by type.
    pub counts: [u64; TYPES],
    len: usize,
    /// Its lists are tiers, not types.
    by_sector: bool,
}

impl Page {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Empties the counts for the next fill.
    pub(super) fn begin(&mut self, by_sector: bool) {
        self.counts = [0; TYPES];
        self.by_sector = by_sector;
    }

    pub(super) fn by_sector(&self) -> bool {
        self.by_sector
    }

    pub(super) fn push(&mut self, storage: &mut Storage, list: usize, id: RequestId) {
        self.lists[list].push_back(&mut storage.links, id);
        self.len += 1;
    }

    /// Requests in list 1.
    pub(super) fn sortable(&self) -> usize {
        self.lists[SORTED].len()
    }

    /// Orders list 1 by sector.
    pub(super) fn sort(&mut self, storage: &mut Storage, ctx: &Context<'_>) {
        while let Some(id) = self.lists[SORTED].pop_front(&mut storage.links) {
            storage.forest.insert(&mut self.sorted, id.0, ctx.requests[id].sector);
        }
    }

    /// The middle between the first and the last sector of list 1.
    pub(super) fn middle(&self, ctx: &Context<'_>) -> Option<u64> {
        let list = &self.lists[SORTED];
        let ends = match (self.sorted.first(), self.sorted.last()) {
            (Some(first), Some(last)) => (RequestId(first), RequestId(last)),
            _ => (list.front()?, list.back()?),
        };
        let (first, last) = (ctx.requests[ends.0].sector, ctx.requests[ends.1].sector);
        Some((first / 2).saturating_add(last / 2) + (first % 2 + last % 2) / 2)
    }

    /// Takes the next request out; of list 1 the last one if `descending`.
    pub(super) fn pop(&mut self, storage: &mut Storage, descending: bool) -> Option<RequestId> {
        for (i, list) in self.lists.iter_mut().enumerate() {
            let descending = i == SORTED && self.by_sector && descending;
            if i == SORTED && !self.sorted.is_empty() {
                let id = if descending { self.sorted.last() } else { self.sorted.first() }?;
                storage.forest.remove(&mut self.sorted, id);
                self.len -= 1;
                return Some(RequestId(id));
            }
            let next = if descending { list.back() } else { list.front() };
            if let Some(id) = next {
                list.remove(&mut storage.links, id);
                self.len -= 1;
                return Some(id);
            }
        }
        None
    }
}
