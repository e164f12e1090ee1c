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

/// The drive's record of its bands and its persistent cache.
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
    /// Bands in the order in which they got their first cached write; some have none left.
    order: VecDeque<u64>,
    /// The sector after the stream that writes a band in order.
    stream_next: u64,
    /// Cached sectors of the band that it writes, from before it began with the band: it replaces them.
    replaced: u64,
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
            replaced: 0,
            t_idle: Nanos::from_us_f64(p.smr_idle_ms * 1e3),
        })
    }

    pub(super) fn in_order(&self, lba: u64) -> bool {
        lba == self.stream_next || lba.is_multiple_of(self.band_sectors)
    }

    /// Whether a write of `sectors` at `lba` must wait until a band was cleaned.
    pub(super) fn full_for(&self, lba: u64, sectors: u64) -> bool {
        !self.in_order(lba) && self.used + sectors > self.cache_sectors && self.has_cached()
    }

    /// Where `sectors` for `lba` are written; books them.
    pub(super) fn place(&mut self, lba: u64, sectors: u64) -> u64 {
        if self.in_order(lba) {
            self.stream_to(lba, lba + sectors);
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
        !self.cached.is_empty()
    }

    /// The stream writes `lba..end`. What was cached of a band before the stream began with it is replaced at its end.
    fn stream_to(&mut self, lba: u64, end: u64) {
        let mut band = lba / self.band_sectors;
        if lba.is_multiple_of(self.band_sectors) {
            self.replaced = self.cached_of(band);
        }
        while (band + 1) * self.band_sectors <= end {
            self.forget(band, self.replaced);
            band += 1;
            self.replaced = self.cached_of(band);
        }
        self.stream_next = end;
    }

    fn cached_of(&self, band: u64) -> u64 {
        self.cached.get(&band).copied().unwrap_or(0)
    }

    fn forget(&mut self, band: u64, sectors: u64) {
        let Some(cached) = self.cached.get_mut(&band) else { return };
        let forgotten = sectors.min(*cached);
        *cached -= forgotten;
        self.used -= forgotten;
        if *cached == 0 {
            self.cached.remove(&band);
        }
        if self.cached.is_empty() {
            self.order.clear();
        }
    }

    /// Takes the band that has waited longest for its cleaning.
    pub(super) fn take_oldest(&mut self, capacity: u64) -> Option<Cleaning> {
        loop {
            let band = self.order.pop_front()?;
            let Some(cached) = self.cached.remove(&band) else { continue };
            self.used = self.used.saturating_sub(cached);
            let start = band * self.band_sectors;
            return Some(Cleaning { start, sectors: self.band_sectors.min(capacity - start), cached });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAND: u64 = 2048;

    fn shingled() -> Shingled {
        let drive = crate::load("hdd:smr-16tb?smr_band_mib=1").unwrap();
        let crate::Params::Hdd(params) = drive.params() else { panic!("a hard disk") };
        Shingled::new(params).unwrap()
    }

    #[test]
    fn a_band_that_is_written_in_order_is_not_cleaned_of_what_it_replaced() {
        let mut drive = shingled();
        for band in [3, 5] {
            drive.place(band * BAND + 100, 8);
        }
        // The first half of band 3, then a write that goes to the cache, and the second half.
        drive.place(3 * BAND, BAND / 2);
        assert!(drive.place(3 * BAND + 16, 8) >= drive.cache_start);
        drive.place(3 * BAND + BAND / 2, BAND / 2);
        drive.place(4 * BAND, 2 * BAND);
        let left = drive.take_oldest(drive.cache_start).unwrap();
        assert_eq!((left.start, left.cached), (3 * BAND, 8), "what came after the stream began");
        assert!(drive.take_oldest(drive.cache_start).is_none() && !drive.has_cached(), "band 5 was replaced");
        assert_eq!(drive.used, 0);
    }

    #[test]
    fn bands_are_cleaned_in_the_order_of_their_first_cached_write() {
        let mut drive = shingled();
        for band in [7, 2, 7, 4] {
            drive.place(band * BAND + 8, 8);
        }
        let order: Vec<u64> = std::iter::from_fn(|| drive.take_oldest(u64::MAX)).map(|c| c.start / BAND).collect();
        assert_eq!(order, [7, 2, 4]);
    }
}
