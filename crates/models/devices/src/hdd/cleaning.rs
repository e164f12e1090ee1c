//! The arm's work on a shingled disk: appending to the persistent cache, and cleaning bands.

use dumbwaiter_block::Nanos;

use super::shingled::Cleaning;
use super::{Arm, Hdd};

/// Cached writes that are appended to the persistent cache at once.
const APPENDED_MAX: usize = 32;

impl Hdd {
    /// Cleans the oldest band from `now` on; returns the end, and where the arm then is. Reads what is cached of it and the band, and
    /// writes the band.
    pub(super) fn clean(&mut self, now: Nanos) -> Option<Nanos> {
        let capacity = self.facts.capacity_sectors;
        let shingled = self.shingled.as_mut()?;
        let cache_start = shingled.cache_start;
        let Cleaning { start, sectors, cached } = shingled.take_oldest(capacity)?;
        let mut at = now + self.t_cmd;
        for (lba, count, write) in [(cache_start, cached, false), (start, sectors, false), (start, sectors, true)] {
            if count == 0 {
                continue;
            }
            let place = self.geometry.place(lba);
            let seek = self.seek.time(self.here, place, write);
            let rotation = self.rotation(at, seek, place);
            at += Nanos(seek + rotation + self.geometry.media(lba, count));
            self.here = self.geometry.place(lba + count - 1);
        }
        self.moved(now, at, start + sectors);
        self.counters.gc_runs += 1;
        self.counters.gc_moved_pages += sectors / 8;
        Some(at)
    }

    /// Appends a cached write, and the oldest others with it, to the persistent cache; or cleans a band where it has no room.
    pub(super) fn append_with_oldest(&mut self, first: u32, now: Nanos) {
        let (mut target, mut sectors) = (None, 0);
        let mut next = Some(first);
        for _ in 0..APPENDED_MAX {
            let Some(slot) = next else { break };
            let extent = self.dirty.extent(slot);
            let (lba, end) = (extent.lba, extent.end.min(self.geometry.track_end(extent.lba)));
            let Some(shingled) = &mut self.shingled else { break };
            if shingled.full_for(lba, end - lba) || shingled.in_order(lba) || shingled.wraps(end - lba) && sectors > 0 {
                break;
            }
            let at = shingled.place(lba, end - lba);
            target.get_or_insert(at);
            sectors += end - lba;
            self.dirty.remove(lba, end, &self.geometry);
            next = self.dirty.oldest().next();
        }
        let Some(target) = target else { return self.clean_now(now) };
        let place = self.geometry.place(target);
        let seek = self.seek.time(self.here, place, true);
        let rotation = self.rotation(now + self.t_cmd, seek, place);
        let until = now + self.t_cmd + Nanos(seek + rotation + self.geometry.media(target, sectors));
        self.returning += sectors;
        self.moved(now, until, target + sectors);
        self.wrote_back_last = true;
        self.arm = Arm::Write { until, returns: sectors };
    }

    /// Cleans a band as an action of the arm.
    pub(super) fn clean_now(&mut self, now: Nanos) {
        if let Some(until) = self.clean(now) {
            self.wrote_back_last = true;
            self.arm = Arm::Write { until, returns: 0 };
        }
    }
}
