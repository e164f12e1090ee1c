//! Contents of the write-back cache: disjoint, merged extents, indexed by sector, cylinder and age.

use super::geometry::{Geometry, Place};
use dumbwaiter_block::Sorted;

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// A slot, or [`NONE`].
fn slot_of(found: Option<u32>) -> u32 {
    found.unwrap_or(NONE)
}

/// Sectors written but not yet on the platter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) lba: u64,
    pub(crate) end: u64,
    pub(crate) place: Place,
    age: u64,
    older: u32,
    younger: u32,
}

/// The dirty set.
#[derive(Debug)]
pub(crate) struct Dirty {
    extents: Vec<Extent>,
    free: Vec<u32>,
    by_lba: Sorted<u32>,
    /// Index by cylinder; kept only if all extents compete for write-back.
    by_cylinder: Option<Sorted<u32>>,
    oldest: u32,
    youngest: u32,
    next_age: u64,
    sectors: u64,
}

impl Dirty {
    /// `all` keeps the index by cylinder, which [`Dirty::nearest`] needs.
    pub(crate) fn new(all: bool) -> Dirty {
        Dirty {
            extents: Vec::new(),
            free: Vec::new(),
            by_lba: Sorted::default(),
            by_cylinder: all.then(Sorted::default),
            oldest: NONE,
            youngest: NONE,
            next_age: 0,
            sectors: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.oldest == NONE
    }

    /// Extents.
    pub(crate) fn len(&self) -> usize {
        self.extents.len() - self.free.len()
    }

    /// Whether `lba..end` touches or overlaps an extent, so that it adds none.
    pub(crate) fn adjoins(&self, lba: u64, end: u64) -> bool {
        let slot = if self.is_empty() { NONE } else { self.touching(lba.saturating_sub(1)) };
        slot != NONE && self.extent(slot).lba <= end
    }

    pub(crate) fn sectors(&self) -> u64 {
        self.sectors
    }

    pub(crate) fn extent(&self, slot: u32) -> &Extent {
        &self.extents[slot as usize]
    }

    /// The first extent that ends after `lba`, or [`NONE`].
    fn touching(&self, lba: u64) -> u32 {
        slot_of(match self.by_lba.last_before(lba + 1) {
            Some(before) if self.extent(before).end > lba => Some(before),
            Some(before) => self.by_lba.next(before),
            None => self.by_lba.first(),
        })
    }

    /// Whether all of `lba..end` is dirty.
    pub(crate) fn covers(&self, lba: u64, end: u64) -> bool {
        if self.is_empty() {
            return false;
        }
        let before = slot_of(self.by_lba.last_before(lba + 1));
        before != NONE && self.extent(before).end >= end
    }

    /// The extent that begins at `lba`, or [`NONE`].
    pub(crate) fn starting_at(&self, lba: u64) -> u32 {
        let slot = if self.is_empty() { NONE } else { slot_of(self.by_lba.first_from(lba)) };
        if slot != NONE && self.extent(slot).lba == lba { slot } else { NONE }
    }

    /// Adds sectors. Extents that touch or overlap them merge into one, which keeps the age of the oldest.
    pub(crate) fn insert(&mut self, lba: u64, end: u64, geometry: &Geometry) {
        let (mut from, mut to, mut kept) = (lba, end, NONE);
        // An extent that ends at the start of this one touches it.
        let mut slot = self.touching(lba.saturating_sub(1));
        while slot != NONE && self.extent(slot).lba <= end {
            let next = slot_of(self.by_lba.next(slot));
            let Extent { lba, end, age, .. } = *self.extent(slot);
            (from, to) = (from.min(lba), to.max(end));
            self.sectors -= end - lba;
            let drop = if kept == NONE {
                kept = slot;
                NONE
            } else if age < self.extent(kept).age {
                std::mem::replace(&mut kept, slot)
            } else {
                slot
            };
            if drop != NONE {
                self.unindex(drop);
                self.unlink(drop);
                self.free.push(drop);
            }
            slot = next;
        }
        self.sectors += to - from;
        if kept == NONE {
            let slot = self.allocate(from, to, geometry);
            self.next_age += 1;
            self.extents[slot as usize].age = self.next_age;
            self.link_after(self.youngest, slot);
            self.index(slot);
        } else {
            self.resize(kept, from, to, geometry);
        }
    }

    /// Removes the dirty ones of the sectors `lba..end`.
    pub(crate) fn remove(&mut self, lba: u64, end: u64, geometry: &Geometry) {
        if self.is_empty() {
            return;
        }
        let mut slot = self.touching(lba);
        while slot != NONE && self.extent(slot).lba < end {
            let next = slot_of(self.by_lba.next(slot));
            let Extent { lba: from, end: to, age, .. } = *self.extent(slot);
            self.sectors -= to.min(end) - from.max(lba);
            if from < lba {
                self.resize(slot, from, lba, geometry);
                if to > end {
                    let rest = self.allocate(end, to, geometry);
                    self.extents[rest as usize].age = age;
                    self.link_after(slot, rest);
                    self.index(rest);
                }
            } else if to > end {
                self.resize(slot, end, to, geometry);
            } else {
                self.unindex(slot);
                self.unlink(slot);
                self.free.push(slot);
            }
            slot = next;
        }
    }

    /// The extents, oldest first.
    pub(crate) fn oldest(&self) -> impl Iterator<Item = u32> {
        let slot = |slot: u32| (slot != NONE).then_some(slot);
        std::iter::successors(slot(self.oldest), move |at| slot(self.extent(*at).younger))
    }

    /// The extent with the shortest positioning time. `cost` is the positioning time to a place; `least(d)` is a lower
    /// bound of it for all places at least `d` cylinders from `here`.
    pub(crate) fn nearest(&self, here: u32, cost: impl Fn(Place) -> u64, least: impl Fn(u32) -> u64) -> u32 {
        let mut best = (u64::MAX, u64::MAX, NONE);
        let rank = |slot: u32| {
            let extent = self.extent(slot);
            (cost(extent.place), extent.age, slot)
        };
        // Searches outwards from the arm until the lower bound at that distance exceeds the best cost.
        let Some(by_cylinder) = &self.by_cylinder else { return NONE };
        let mut out = slot_of(by_cylinder.first_from(u64::from(here)));
        let mut inward = slot_of(by_cylinder.last_before(u64::from(here)));
        let away = |slot: u32| if slot == NONE { u32::MAX } else { self.extent(slot).place.cylinder.abs_diff(here) };
        loop {
            let (d_out, d_in) = (away(out), away(inward));
            let d = d_out.min(d_in);
            if d == u32::MAX || least(d) > best.0 {
                return best.2;
            }
            if d_out <= d_in {
                best = best.min(rank(out));
                out = slot_of(by_cylinder.next(out));
            } else {
                best = best.min(rank(inward));
                inward = slot_of(by_cylinder.previous(inward));
            }
        }
    }

    fn allocate(&mut self, lba: u64, end: u64, geometry: &Geometry) -> u32 {
        let extent = Extent { lba, end, place: geometry.place(lba), age: 0, older: NONE, younger: NONE };
        match self.free.pop() {
            Some(slot) => {
                self.extents[slot as usize] = extent;
                slot
            }
            None => {
                self.extents.push(extent);
                (self.extents.len() - 1) as u32
            }
        }
    }

    fn resize(&mut self, slot: u32, lba: u64, end: u64, geometry: &Geometry) {
        self.extents[slot as usize].end = end;
        if self.extents[slot as usize].lba != lba {
            self.unindex(slot);
            let extent = &mut self.extents[slot as usize];
            extent.lba = lba;
            extent.place = geometry.place(lba);
            self.index(slot);
        }
    }

    fn index(&mut self, slot: u32) {
        let Extent { lba, place, .. } = *self.extent(slot);
        self.by_lba.insert(slot, lba);
        if let Some(by_cylinder) = &mut self.by_cylinder {
            by_cylinder.insert(slot, u64::from(place.cylinder));
        }
    }

    fn unindex(&mut self, slot: u32) {
        self.by_lba.remove(slot);
        if let Some(by_cylinder) = &mut self.by_cylinder {
            by_cylinder.remove(slot);
        }
    }

    fn link_after(&mut self, older: u32, slot: u32) {
        let younger = if older == NONE { self.oldest } else { self.extent(older).younger };
        self.extents[slot as usize].older = older;
        self.extents[slot as usize].younger = younger;
        self.join(older, slot);
        self.join(slot, younger);
    }

    fn unlink(&mut self, slot: u32) {
        let Extent { older, younger, .. } = *self.extent(slot);
        self.join(older, younger);
    }

    fn join(&mut self, older: u32, younger: u32) {
        match older {
            NONE => self.oldest = younger,
            _ => self.extents[older as usize].younger = younger,
        }
        match younger {
            NONE => self.youngest = older,
            _ => self.extents[younger as usize].older = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::{Params, load};

    fn geometry() -> Geometry {
        match load("hdd:st1000dm003").unwrap().params() {
            Params::Hdd(p) => Geometry::new(p),
            _ => unreachable!("a hard disk"),
        }
    }

    fn lowest(dirty: &Dirty) -> Vec<(u64, u64)> {
        let mut extents = Vec::new();
        let mut slot = slot_of(dirty.by_lba.first_from(0));
        while slot != NONE {
            extents.push((dirty.extent(slot).lba, dirty.extent(slot).end));
            slot = slot_of(dirty.by_lba.next(slot));
        }
        extents
    }

    proptest! {
        /// The extents equal a set of sectors and are sorted, disjoint and merged; `nearest` equals a search of all.
        #[test]
        fn extents_match_a_set_of_sectors(
            steps in prop::collection::vec((any::<bool>(), 0u64..400, 1u64..40), 1..80), here in 0u32..1000
        ) {
            let geometry = geometry();
            let (mut dirty, mut set) = (Dirty::new(true), BTreeSet::new());
            for (insert, lba, sectors) in steps {
                // Spread over many cylinders, in groups of four neighbours.
                let wide = |lba: u64| lba / 4 * 4_000_000 + lba % 4;
                let (lba, end) = (wide(lba), wide(lba) + sectors.min(6));
                if insert {
                    dirty.insert(lba, end, &geometry);
                    set.extend(lba..end);
                } else {
                    dirty.remove(lba, end, &geometry);
                    (lba..end).for_each(|sector| { set.remove(&sector); });
                }
                prop_assert_eq!(dirty.sectors(), set.len() as u64);
                prop_assert_eq!(dirty.covers(lba, end), (lba..end).all(|sector| set.contains(&sector)));
                prop_assert_eq!(dirty.is_empty(), set.is_empty());
                let beside = (lba.saturating_sub(1)..=end).any(|sector| set.contains(&sector));
                prop_assert_eq!(dirty.adjoins(lba, end), beside);
            }
            let extents = lowest(&dirty);
            prop_assert_eq!(dirty.len(), extents.len());
            prop_assert!(extents.windows(2).all(|w| w[0].1 < w[1].0));
            let listed: BTreeSet<u64> = extents.iter().flat_map(|(lba, end)| *lba..*end).collect();
            prop_assert_eq!(&listed, &set);
            let cost = |place: Place| u64::from(place.cylinder.abs_diff(here)) * 3 + place.angle % 1000;
            let best = dirty.nearest(here, cost, |d| u64::from(d) * 3);
            let all = dirty.oldest().min_by_key(|slot| cost(dirty.extent(*slot).place));
            prop_assert_eq!(best, all.unwrap_or(NONE));
            let ages: Vec<u64> = dirty.oldest().map(|slot| dirty.extent(slot).age).collect();
            prop_assert!(ages.is_sorted() && ages.len() == extents.len());
        }
    }
}
