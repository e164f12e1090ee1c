//! Which queued requests overlap: two of which at least one is no read keep their order of arrival.

use dumbwaiter_block::RequestId;

use crate::mechanisms::list::{Links, List};
use crate::mechanisms::ordered::{Forest, Tree};

/// The ranges of queued requests, and those that wait for an earlier one that they overlap.
#[derive(Clone, Debug, Default)]
pub(super) struct Overlaps {
    /// By first sector; the second key is the end, negated, so that the least one is the farthest end.
    ranges: Forest<u64, i64>,
    /// Requests that may go: reads, and all others.
    free: [Tree; 2],
    /// Requests that wait, of the same kinds.
    waiting: [Tree; 2],
    /// Those that wait, oldest first.
    order: List,
    links: Links,
}

/// A range of sectors, and whether it is only read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) write: bool,
}

impl Range {
    pub(super) fn new(sector: u64, sectors: u32, write: bool) -> Range {
        let limit = i64::MAX as u64;
        let start = sector.min(limit);
        Range { start, end: start.saturating_add(u64::from(sectors)).min(limit), write }
    }
}

impl Overlaps {
    fn hits(&self, tree: &Tree, range: Range) -> bool {
        let ends_behind_start = -(range.start as i64) - 1;
        let first = self.ranges.first_eligible(tree, ends_behind_start);
        first.is_some_and(|id| self.ranges.key(id) < range.end)
    }

    fn conflicts(&self, trees: &[Tree; 2], range: Range) -> bool {
        range.start < range.end && (self.hits(&trees[1], range) || (range.write && self.hits(&trees[0], range)))
    }

    /// Does a new request of this range have to wait for a queued one?
    pub(super) fn must_wait(&self, range: Range) -> bool {
        self.conflicts(&self.free, range) || self.conflicts(&self.waiting, range)
    }

    /// Does any request wait?
    pub(super) fn any_waits(&self) -> bool {
        !self.order.is_empty()
    }

    /// Adds a request. Returns whether it waits.
    pub(super) fn add(&mut self, id: RequestId, range: Range) -> bool {
        let waits = self.must_wait(range);
        let tree = if waits { &mut self.waiting } else { &mut self.free };
        self.ranges.insert_with_low(&mut tree[usize::from(range.write)], id.0, range.start, -(range.end as i64));
        if waits {
            self.order.push_back(&mut self.links, id);
        }
        waits
    }

    /// A free request grew.
    pub(super) fn grow(&mut self, id: RequestId, range: Range, waits: bool) {
        let trees = if waits { &mut self.waiting } else { &mut self.free };
        let tree = &mut trees[usize::from(range.write)];
        self.ranges.remove(tree, id.0);
        self.ranges.insert_with_low(tree, id.0, range.start, -(range.end as i64));
    }

    /// A request left.
    pub(super) fn remove(&mut self, id: RequestId, write: bool, waits: bool) {
        let trees = if waits { &mut self.waiting } else { &mut self.free };
        self.ranges.remove(&mut trees[usize::from(write)], id.0);
        if waits {
            self.order.remove(&mut self.links, id);
        }
    }

    /// The oldest request that waits, if nothing is in its way any more; it is free from now on.
    pub(super) fn release(&mut self, range_of: impl Fn(RequestId) -> Range) -> Option<RequestId> {
        let id = self.order.front()?;
        let range = range_of(id);
        if self.conflicts(&self.free, range) {
            return None;
        }
        self.remove(id, range.write, true);
        let tree = &mut self.free[usize::from(range.write)];
        self.ranges.insert_with_low(tree, id.0, range.start, -(range.end as i64));
        Some(id)
    }
}
