//! Which queued requests overlap: two of which at least one is no read keep their order of arrival.
//!
//! Most requests share no part of the device with another queued one. A table of counts by part of the device finds that out
//! in O(1); only the others are kept in trees by sector.

use dumbwaiter_block::RequestId;

use crate::mechanisms::list::{Links, List};
use crate::mechanisms::ordered::{Tree, TreeArena};

/// Parts of the device are 2^13 sectors: 4 MiB.
const PART_SHIFT: u32 = 13;
/// Parts share this many counts.
const COUNTS_SHIFT: u32 = 10;
const NOBODY: u32 = u32::MAX;

/// The ranges of queued requests, and those that wait for an earlier one that they overlap.
#[derive(Clone, Debug)]
pub(super) struct Overlaps {
    /// By part of the device.
    parts: Vec<Part>,
    /// By request.
    places: Vec<PlaceOf>,
    /// Requests that shared no part with another when they came; they are in no tree.
    alone: List,
    alone_links: Links,
    /// Queued requests of more than two parts.
    wide: u32,
    /// By first sector; the second key is the end, negated, so that the least one is the farthest end.
    ranges: TreeArena<u64, i64>,
    /// Requests that may go: reads, and all others.
    free: [Tree; 2],
    /// Requests that wait, of the same kinds.
    waiting: [Tree; 2],
    /// Those that wait, oldest first.
    order: List,
    links: Links,
}

impl Default for Overlaps {
    fn default() -> Self {
        Overlaps {
            parts: vec![Part { requests: 0, alone: NOBODY }; 1 << COUNTS_SHIFT],
            places: Vec::new(),
            alone: List::default(),
            alone_links: Links::default(),
            wide: 0,
            ranges: TreeArena::default(),
            free: [Tree::default(); 2],
            waiting: [Tree::default(); 2],
            order: List::default(),
            links: Links::default(),
        }
    }
}

/// The queued requests in one part of the device, and in all that share its count.
#[derive(Clone, Copy, Debug)]
struct Part {
    requests: u32,
    /// The one of them that is in no tree, or [`NOBODY`].
    alone: u32,
}

/// Where a request is kept.
#[derive(Clone, Copy, Debug, Default)]
struct PlaceOf {
    range: Range,
    alone: bool,
}

/// A range of sectors, and whether it is only read.
#[derive(Clone, Copy, Debug, Default)]
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

    fn conflicts(self, other: Range) -> bool {
        (self.write || other.write) && self.start < other.end && other.start < self.end
    }

    /// First and last part of the device.
    fn parts(self) -> (u64, u64) {
        (self.start >> PART_SHIFT, self.end.saturating_sub(1).max(self.start) >> PART_SHIFT)
    }

    fn is_wide(self) -> bool {
        let (first, last) = self.parts();
        last > first + 1
    }

    /// Its counts, of which both may be one; nothing if it is wide.
    fn counts(self) -> [usize; 2] {
        let (first, last) = self.parts();
        [first, last].map(|part| (part.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - COUNTS_SHIFT)) as usize)
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

    fn in_trees(&self, range: Range) -> bool {
        self.conflicts(&self.free, range) || self.conflicts(&self.waiting, range)
    }

    /// Does a new request of this range have to wait for a queued one? Of a wide one this is not looked up: yes.
    pub(super) fn must_wait(&self, range: Range) -> bool {
        let alone = |count: usize| {
            let id = self.parts[count].alone;
            id != NOBODY && self.places[id as usize].range.conflicts(range)
        };
        range.is_wide() || range.counts().into_iter().any(alone) || self.in_trees(range)
    }

    /// Does any request wait?
    pub(super) fn any_waits(&self) -> bool {
        !self.order.is_empty()
    }

    /// Adds a request. Returns whether it waits.
    pub(super) fn add(&mut self, id: RequestId, range: Range) -> bool {
        if id.index() >= self.places.len() {
            self.places.resize(id.index() + 1, PlaceOf::default());
        }
        let wide = range.is_wide();
        let counts = range.counts();
        if !wide && self.wide == 0 && counts.iter().all(|count| self.parts[*count].requests == 0) {
            for count in counts {
                let part = &mut self.parts[count];
                *part = Part { requests: part.requests + 1, alone: id.0 };
            }
            self.places[id.index()] = PlaceOf { range, alone: true };
            self.alone.push_back(&mut self.alone_links, id);
            return false;
        }
        if wide {
            while let Some(other) = self.alone.front() {
                self.index(other);
            }
        } else {
            for other in counts.map(|count| self.parts[count].alone) {
                if other != NOBODY && self.places[other as usize].alone {
                    self.index(RequestId(other));
                }
            }
        }
        self.occupy(range);
        self.places[id.index()] = PlaceOf { range, alone: false };
        let waits = self.in_trees(range);
        self.insert(id, range, waits);
        if waits {
            self.order.push_back(&mut self.links, id);
        }
        waits
    }

    /// A request that is queued grew.
    pub(super) fn grow(&mut self, id: RequestId, range: Range, waits: bool) {
        let PlaceOf { range: old, alone } = self.places[id.index()];
        self.vacate(old);
        if alone {
            self.leave_alone(id, old);
        } else {
            self.ranges.remove(if waits { &mut self.waiting } else { &mut self.free }.kind(old), id.0);
        }
        self.occupy(range);
        self.places[id.index()] = PlaceOf { range, alone: false };
        self.insert(id, range, waits);
    }

    /// A request left.
    pub(super) fn remove(&mut self, id: RequestId, waits: bool) {
        let PlaceOf { range, alone } = self.places[id.index()];
        self.vacate(range);
        if alone {
            self.leave_alone(id, range);
            return;
        }
        self.ranges.remove(if waits { &mut self.waiting } else { &mut self.free }.kind(range), id.0);
        if waits {
            self.order.remove(&mut self.links, id);
        }
    }

    /// The oldest request that waits, if nothing is in its way any more; it is free from now on. What came before it and shares
    /// a part with it is in the trees.
    pub(super) fn release(&mut self) -> Option<RequestId> {
        let id = self.order.front()?;
        let range = self.places[id.index()].range;
        if self.conflicts(&self.free, range) {
            return None;
        }
        self.order.remove(&mut self.links, id);
        self.ranges.remove(self.waiting.kind(range), id.0);
        self.insert(id, range, false);
        Some(id)
    }

    fn insert(&mut self, id: RequestId, range: Range, waits: bool) {
        let trees = if waits { &mut self.waiting } else { &mut self.free };
        self.ranges.insert_with_low(trees.kind(range), id.0, range.start, -(range.end as i64));
    }

    /// Puts a request that was alone into the trees.
    fn index(&mut self, id: RequestId) {
        let range = self.places[id.index()].range;
        self.leave_alone(id, range);
        self.places[id.index()].alone = false;
        self.insert(id, range, false);
    }

    fn leave_alone(&mut self, id: RequestId, range: Range) {
        self.alone.remove(&mut self.alone_links, id);
        for count in range.counts() {
            let part = &mut self.parts[count];
            if part.alone == id.0 {
                part.alone = NOBODY;
            }
        }
    }

    fn occupy(&mut self, range: Range) {
        if range.is_wide() {
            self.wide += 1;
            return;
        }
        range.counts().into_iter().for_each(|count| self.parts[count].requests += 1);
    }

    fn vacate(&mut self, range: Range) {
        if range.is_wide() {
            self.wide -= 1;
            return;
        }
        range.counts().into_iter().for_each(|count| self.parts[count].requests -= 1);
    }
}

/// The tree of a kind: reads, or all others.
trait ByKind {
    fn kind(&mut self, range: Range) -> &mut Tree;
}

impl ByKind for [Tree; 2] {
    fn kind(&mut self, range: Range) -> &mut Tree {
        &mut self[usize::from(range.write)]
    }
}
