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

/// What the drive knows of its bands and its persistent cache.
#[derive(Debug)]
pub(super) struct Shingled {
    band_sectors: u64,
    cache_sectors: u64,
    /// First sector of the cache, behind the data.
    pub(super) cache_start: u64,
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
pub(super) struct Cleaning {
    pub(super) start: u64,
    pub(super) sectors: u64,
    /// Cached sectors of it.
    pub(super) cached: u64,
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
    pub(super) fn wraps(&self, sectors: u64) -> bool {
        self.append_at + sectors > self.cache_sectors
    }

    pub(super) fn has_cached(&self) -> bool {
        !self.order.is_empty()
    }

    /// Takes the band that has waited longest for its cleaning.
    pub(super) fn take_oldest(&mut self, capacity: u64) -> Option<Cleaning> {
        let band = self.order.pop_front()?;
        let cached = self.cached.remove(&band).unwrap_or(0);
        self.used = self.used.saturating_sub(cached);
        let start = band * self.band_sectors;
        Some(Cleaning { start, sectors: self.band_sectors.min(capacity - start), cached })
    }
}
