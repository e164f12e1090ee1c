//! The pages of a device that are in memory. Clean ones leave when there is no room, the least recently used first.
//!
//! Use is remembered for 64 pages at a time: they are one step of the list.

use std::collections::BTreeMap;

/// Pages of a group, a bit each in its sets.
const GROUP_PAGES: u64 = 64;
/// No group.
const NONE: u64 = u64::MAX;
/// Groups that are looked at for clean pages before memory is exceeded: the list may begin with dirty ones.
const LOOKS: usize = 16;

#[derive(Clone, Copy)]
struct Group {
    cached: u64,
    /// On their way from the device.
    reading: u64,
    /// Neighbours in the order of use, where any page is cached.
    newer: u64,
    older: u64,
}

const EMPTY: Group = Group { cached: 0, reading: 0, newer: NONE, older: NONE };

/// Pages in memory.
pub(super) struct Pages {
    groups: BTreeMap<u64, Group>,
    /// Dirty pages of groups that have any; all of them are cached.
    dirty: BTreeMap<u64, u64>,
    newest: u64,
    oldest: u64,
    cached: u64,
    most: u64,
}

impl Pages {
    /// None; there is room for `most`.
    pub(super) fn new(most: u64) -> Pages {
        Pages { groups: BTreeMap::new(), dirty: BTreeMap::new(), newest: NONE, oldest: NONE, cached: 0, most }
    }

    fn group(&mut self, group: u64) -> &mut Group {
        self.groups.entry(group).or_insert(EMPTY)
    }

    fn at(&self, page: u64) -> (Group, u64) {
        (self.groups.get(&(page / GROUP_PAGES)).copied().unwrap_or(EMPTY), 1 << (page % GROUP_PAGES))
    }

    /// Is the page in memory?
    pub(super) fn is_cached(&self, page: u64) -> bool {
        let (group, bit) = self.at(page);
        group.cached & bit != 0
    }

    /// Is the page on its way from the device?
    pub(super) fn is_read(&self, page: u64) -> bool {
        let (group, bit) = self.at(page);
        group.reading & bit != 0
    }

    /// The first of `from..to` that is neither in memory nor on its way, and the number of such pages from there, at most `most`.
    pub(super) fn absent(&self, from: u64, to: u64, most: u64) -> Option<(u64, u64)> {
        let is_absent = |page: &u64| {
            let (group, bit) = self.at(*page);
            (group.cached | group.reading) & bit == 0
        };
        let first = (from..to).find(is_absent)?;
        Some((first, (first..to.min(first + most)).take_while(is_absent).count() as u64))
    }

    /// Pages in memory or on their way just before this one, at most `most`.
    pub(super) fn present_before(&self, page: u64, most: u64) -> u64 {
        let present = |page: &u64| {
            let (group, bit) = self.at(*page);
            (group.cached | group.reading) & bit != 0
        };
        (page.saturating_sub(most)..page).rev().take_while(present).count() as u64
    }

    /// Pages are read.
    pub(super) fn begin_read(&mut self, first: u64, count: u64) {
        for page in first..first + count {
            self.group(page / GROUP_PAGES).reading |= 1 << (page % GROUP_PAGES);
        }
    }

    /// They have arrived.
    pub(super) fn end_read(&mut self, first: u64, count: u64) {
        for page in first..first + count {
            self.group(page / GROUP_PAGES).reading &= !(1 << (page % GROUP_PAGES));
            self.add(page);
        }
    }

    /// A page is written; true unless it was dirty.
    pub(super) fn write(&mut self, page: u64) -> bool {
        let bit = 1 << (page % GROUP_PAGES);
        let dirty = self.dirty.entry(page / GROUP_PAGES).or_default();
        let is_clean = *dirty & bit == 0;
        *dirty |= bit;
        self.add(page);
        is_clean
    }

    /// A page is used.
    pub(super) fn used(&mut self, page: u64) {
        let group = page / GROUP_PAGES;
        if self.newest == group {
            return;
        }
        let Group { newer, older, .. } = *self.group(group);
        let linked = newer != NONE || older != NONE || self.oldest == group;
        if linked {
            self.unlink(group);
        }
        let before = std::mem::replace(&mut self.newest, group);
        *self.group(group) = Group { newer: NONE, older: before, ..*self.group(group) };
        match before {
            NONE => self.oldest = group,
            before => self.group(before).newer = group,
        }
    }

    fn unlink(&mut self, group: u64) {
        let Group { newer, older, .. } = *self.group(group);
        match newer {
            NONE => self.newest = older,
            newer => self.group(newer).older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.group(older).newer = newer,
        }
        let entry = self.group(group);
        (entry.newer, entry.older) = (NONE, NONE);
    }

    fn add(&mut self, page: u64) {
        self.used(page);
        let bit = 1 << (page % GROUP_PAGES);
        let group = self.group(page / GROUP_PAGES);
        if group.cached & bit == 0 {
            group.cached |= bit;
            self.cached += 1;
            self.make_room();
        }
    }

    /// Lets the least recently used clean pages go while there are too many. The newest group stays.
    fn make_room(&mut self) {
        for _ in 0..LOOKS {
            let oldest = self.oldest;
            if self.cached <= self.most || oldest == self.newest {
                return;
            }
            let dirty = self.dirty.get(&oldest).copied().unwrap_or(0);
            let group = self.group(oldest);
            let is_read = group.reading != 0;
            let left = (group.cached & !dirty).count_ones();
            group.cached = dirty;
            self.cached -= u64::from(left);
            if dirty != 0 {
                self.used(oldest * GROUP_PAGES);
            } else {
                self.unlink(oldest);
                if !is_read {
                    self.groups.remove(&oldest);
                }
            }
        }
    }

    /// The first dirty page in `from..to`.
    pub(super) fn next_dirty(&self, from: u64, to: u64) -> Option<u64> {
        for (group, dirty) in self.dirty.range(from / GROUP_PAGES..) {
            let mask = if *group == from / GROUP_PAGES { u64::MAX << (from % GROUP_PAGES) } else { u64::MAX };
            if dirty & mask != 0 {
                let page = group * GROUP_PAGES + u64::from((dirty & mask).trailing_zeros());
                return (page < to).then_some(page);
            }
        }
        None
    }

    /// Marks the first run of dirty pages in `from..to` clean, up to `most` of them: its first page and length.
    pub(super) fn take_dirty(&mut self, from: u64, to: u64, most: u64) -> Option<(u64, u64)> {
        let first = self.next_dirty(from, to)?;
        let mut end = first;
        while end < to.min(first + most) {
            let (group, bit) = (end / GROUP_PAGES, 1 << (end % GROUP_PAGES));
            let Some(dirty) = self.dirty.get_mut(&group).filter(|dirty| **dirty & bit != 0) else { break };
            *dirty &= !bit;
            if *dirty == 0 {
                self.dirty.remove(&group);
            }
            end += 1;
        }
        Some((first, end - first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_clean_pages_leave_first() {
        let mut pages = Pages::new(3 * GROUP_PAGES);
        let group = |n: u64| n * 1000 * GROUP_PAGES;
        for n in 0..3 {
            pages.end_read(group(n), GROUP_PAGES);
        }
        pages.used(group(0));
        assert!(pages.write(group(1)) && !pages.write(group(1)));
        pages.end_read(group(3), GROUP_PAGES);
        let cached = |pages: &Pages, n| (group(n)..group(n) + 64).filter(|page| pages.is_cached(*page)).count();
        assert_eq!([0, 1, 2, 3].map(|n| cached(&pages, n)), [64, 64, 0, 64], "the third was used least recently");
        pages.used(group(3));
        pages.end_read(group(4), GROUP_PAGES);
        assert_eq!([0, 1, 3, 4].map(|n| cached(&pages, n)), [0, 64, 64, 64]);
        pages.end_read(group(5), GROUP_PAGES);
        assert_eq!([1, 3, 4, 5].map(|n| cached(&pages, n)), [1, 0, 64, 64], "what is dirty stays");
        assert_eq!(pages.take_dirty(0, u64::MAX, 9), Some((group(1), 1)));
        assert_eq!(pages.take_dirty(0, u64::MAX, 9), None);
    }

    #[test]
    fn runs_are_dirty_or_absent_pages_one_after_another() {
        let mut pages = Pages::new(1 << 20);
        for page in [3, 63, 64, 65, 200] {
            pages.write(page);
        }
        pages.begin_read(66, 2);
        assert_eq!(pages.absent(63, 80, 256), Some((68, 12)));
        assert_eq!(pages.absent(63, 68, 256), None);
        assert_eq!(pages.present_before(68, 4), 4);
        assert_eq!((pages.present_before(4, 9), pages.present_before(3, 9), pages.present_before(0, 9)), (1, 0, 0));
        assert_eq!(pages.take_dirty(4, 300, 2), Some((63, 2)));
        assert_eq!(pages.take_dirty(4, 300, 256), Some((65, 1)));
        assert_eq!(pages.take_dirty(4, 200, 256), None);
        assert!(pages.is_cached(65) && pages.is_read(66) && !pages.is_cached(66));
    }
}
