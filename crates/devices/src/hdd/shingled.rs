//! Drive-managed shingled recording (SMR) in its simplest form: a persistent cache on the medium, and bands that are cleaned.
//!
//! A write that begins a band, or continues such a write, goes to its place. Every other write is appended to the
//! persistent cache, and its band must later be cleaned: read, merged with what the cache holds of it, and written
//! again as a whole. Bands are cleaned in the order in which they got their first cached write, when the drive is idle,
//! and when the cache is full before a write may go on.
//!
//! Left out: reads of cached data take their place's time, the cache lies at the inner edge behind the data, and one
//! stream at a time is recognised.

use std::collections::{BTreeMap, VecDeque};

use dumbwaiter_block::Nanos;

use super::params::Params;
use super::{Arm, Hdd};

/// Cached writes that are appended to the persistent cache at once.
const APPENDED_MAX: usize = 32;

/// What the drive knows of its bands and its persistent cache.
#[derive(Debug)]
pub(super) struct Shingled {
    band_sectors: u64,
    cache_sectors: u64,
    /// First sector of the cache, behind the data.
    cache_start: u64,
    /// Sectors after it at which the next write is appended.
    append_at: u64,
    used: u64,
    /// Cached sectors by band.
    cached: BTreeMap<u64, u64>,
    /// Bands with cached sectors, the oldest first.
    order: VecDeque<u64>,
    /// The sector after the stream that writes a band in order.
    stream_next: u64,
    /// Idle time before a band is cleaned.
    pub(super) t_idle: Nanos,
}

/// A band to clean.
struct Cleaning {
    start: u64,
    sectors: u64,
    cached: u64,
}

impl Shingled {
    /// `None` for a drive that is not shingled.
    pub(super) fn new(p: &Params) -> Option<Shingled> {
        let cache_sectors = p.smr_cache_sectors();
        (cache_sectors > 0).then(|| Shingled {
            band_sectors: ((p.smr_band_mib * 2048.0) as u64).max(1),
            cache_sectors,
            cache_start: p.capacity_sectors,
            append_at: 0,
            used: 0,
            cached: BTreeMap::new(),
            order: VecDeque::new(),
            stream_next: u64::MAX,
            t_idle: Nanos::from_us_f64(p.smr_idle_ms * 1e3),
        })
    }

    pub(super) fn in_order(&self, lba: u64) -> bool {
        lba == self.stream_next || lba.is_multiple_of(self.band_sectors)
    }

    /// Whether a write of `sectors` at `lba` must wait until a band was cleaned.
    pub(super) fn full_for(&self, lba: u64, sectors: u64) -> bool {
        !self.in_order(lba) && self.used + sectors > self.cache_sectors && !self.order.is_empty()
    }

    /// Where `sectors` for `lba` are written; books them.
    pub(super) fn place(&mut self, lba: u64, sectors: u64) -> u64 {
        if self.in_order(lba) {
            self.stream_next = lba + sectors;
            return lba;
        }
        let band = lba / self.band_sectors;
        let cached = self.cached.entry(band).or_insert(0);
        if *cached == 0 {
            self.order.push_back(band);
        }
        *cached += sectors;
        self.used += sectors;
        if self.wraps(sectors) {
            self.append_at = 0;
        }
        let at = self.cache_start + self.append_at;
        self.append_at += sectors;
        at
    }

    /// Whether the next append of `sectors` begins the cache anew.
    fn wraps(&self, sectors: u64) -> bool {
        self.append_at + sectors > self.cache_sectors
    }

    pub(super) fn has_cached(&self) -> bool {
        !self.order.is_empty()
    }

    fn take_oldest(&mut self, capacity: u64) -> Option<Cleaning> {
        let band = self.order.pop_front()?;
        let cached = self.cached.remove(&band).unwrap_or(0);
        self.used = self.used.saturating_sub(cached);
        let start = band * self.band_sectors;
        Some(Cleaning { start, sectors: self.band_sectors.min(capacity - start), cached })
    }
}

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
