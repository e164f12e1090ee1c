//! Location of sectors: zones of equal cylinders, serpentine bands of tracks, skew.
//!
//! Angles are times: the angle of a sector is the time within a revolution, in ns, at which it passes the head.

use super::params::Params;

/// Physical location of a sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) cylinder: u32,
    pub(crate) head: u32,
    /// Time within a revolution at which it passes the head, ns.
    pub(crate) angle: u64,
}

/// A position in LBA order, track by track.
#[derive(Clone, Copy, Debug)]
struct Track {
    zone: usize,
    /// Index of the track inside its zone.
    index: u64,
    /// Sector inside the track.
    sector: u64,
}

#[derive(Clone, Copy, Debug)]
struct Zone {
    first_lba: u64,
    sectors_per_track: u64,
}

/// Maps sectors to places, and ranges of sectors to streaming times.
#[derive(Debug)]
pub(crate) struct Geometry {
    zones: Vec<Zone>,
    cylinders_per_zone: u64,
    tracks_per_zone: u64,
    surfaces: u64,
    band: u64,
    /// Time of a revolution, ns.
    pub(crate) revolution: u64,
    skew: u64,
    /// Time of a band crossing beyond the skew, ns.
    band_extra: u64,
    head_switch: u64,
}

impl Geometry {
    pub(crate) fn new(p: &Params) -> Geometry {
        let ns = |ms: f64| (ms * 1e6 + 0.5) as u64;
        let zones_f = f64::from(p.zones);
        let (outer, inner) = (f64::from(p.sectors_per_track_outer), f64::from(p.sectors_per_track_inner));
        let cylinders_per_zone = u64::from(p.cylinders / p.zones);
        let tracks_per_zone = cylinders_per_zone * u64::from(p.surfaces);
        let mut first_lba = 0;
        let zones = (0..p.zones)
            .map(|z| {
                let here = outer + (inner - outer) * (f64::from(z) + 0.5) / zones_f;
                let sectors_per_track = (here + 0.5) as u64;
                let zone = Zone { first_lba, sectors_per_track };
                first_lba += sectors_per_track * tracks_per_zone;
                zone
            })
            .collect();
        let (skew, head_switch) = (ns(p.t_skew_ms), ns(p.t_head_ms));
        Geometry {
            zones,
            cylinders_per_zone,
            tracks_per_zone,
            surfaces: u64::from(p.surfaces),
            band: u64::from(p.band_tracks),
            revolution: (60e9 / p.rpm + 0.5) as u64,
            skew,
            band_extra: head_switch.saturating_sub(skew),
            head_switch,
        }
    }

    /// Sectors on the platters; those beyond the drive's capacity are not addressable.
    pub(crate) fn sectors(&self) -> u64 {
        self.zones.last().map_or(0, |zone| zone.first_lba + zone.sectors_per_track * self.tracks_per_zone)
    }

    fn track(&self, lba: u64) -> Track {
        let zone = self.zones.partition_point(|zone| zone.first_lba <= lba) - 1;
        let Zone { first_lba, sectors_per_track } = self.zones[zone];
        let offset = lba - first_lba;
        let index = offset / sectors_per_track;
        Track { zone, index, sector: offset - index * sectors_per_track }
    }

    fn next_track(&self, track: Track) -> Track {
        if track.index + 1 < self.tracks_per_zone || track.zone + 1 == self.zones.len() {
            Track { index: track.index + 1, sector: 0, ..track }
        } else {
            Track { zone: track.zone + 1, index: 0, sector: 0 }
        }
    }

    /// Time from the end of one track to the start of the next, ns.
    fn crossing(&self, from: Track, to: Track) -> u64 {
        if to.zone != from.zone {
            self.head_switch
        } else if from.index / self.band != to.index / self.band {
            self.skew + self.band_extra
        } else {
            self.skew
        }
    }

    /// Time of `sectors` on a track of this zone, ns.
    fn pass(&self, zone: usize, sectors: u64) -> u64 {
        let per_track = self.zones[zone].sectors_per_track;
        (sectors * self.revolution + per_track / 2) / per_track
    }

    pub(crate) fn place(&self, lba: u64) -> Place {
        let Track { zone, index, sector } = self.track(lba);
        let per_band = self.band * self.surfaces;
        let band = index / per_band;
        let within = index - band * per_band;
        // The last band of a zone may have fewer tracks.
        let width = self.band.min(self.cylinders_per_zone - band * self.band);
        let head = within / width;
        let x = within - head * width;
        let step = if head.is_multiple_of(2) { x } else { width - 1 - x };
        let cylinder = zone as u64 * self.cylinders_per_zone + band * self.band + step;
        // Skew accumulates over the tracks, so that a sequential read meets the first sector of the next track in time.
        let lag = index * self.skew + index / self.band * self.band_extra;
        let angle = (self.pass(zone, sector) + lag) % self.revolution;
        Place { cylinder: cylinder as u32, head: head as u32, angle }
    }

    /// Time to stream `sectors` from `lba`, ns.
    pub(crate) fn media(&self, lba: u64, sectors: u64) -> u64 {
        let mut at = self.track(lba);
        let mut left = sectors;
        let mut ns = 0;
        loop {
            let here = left.min(self.zones[at.zone].sectors_per_track - at.sector);
            ns += self.pass(at.zone, here);
            left -= here;
            if left == 0 {
                return ns;
            }
            let next = self.next_track(at);
            ns += self.crossing(at, next);
            at = next;
        }
    }

    /// The first sector of the track that holds `lba`.
    pub(crate) fn track_start(&self, lba: u64) -> u64 {
        lba - self.track(lba).sector
    }

    /// The sector after the last one of the track that holds `lba`.
    pub(crate) fn track_end(&self, lba: u64) -> u64 {
        let at = self.track(lba);
        lba + self.zones[at.zone].sectors_per_track - at.sector
    }

    /// Time to cross to `lba` after the sector before it has passed, ns; 0 inside a track.
    pub(crate) fn step(&self, lba: u64) -> u64 {
        let at = self.track(lba);
        if at.sector > 0 || lba == 0 { 0 } else { self.crossing(self.track(lba - 1), at) }
    }

    /// Number of whole sectors from `lba` that pass within `ns` of the end of sector `lba - 1`, at most `most`.
    pub(crate) fn passed(&self, lba: u64, ns: u64, most: u64) -> u64 {
        let mut at = self.track(lba);
        let mut left = ns;
        let mut sectors = 0;
        let step = self.step(lba);
        if left < step {
            return 0;
        }
        left -= step;
        while sectors < most {
            let per_track = self.zones[at.zone].sectors_per_track;
            let here = per_track - at.sector;
            let whole = self.pass(at.zone, here);
            if left < whole {
                let mut part = left * per_track / self.revolution;
                // Matches the rounding of `media`.
                while part < here && self.pass(at.zone, part + 1) <= left {
                    part += 1;
                }
                while part > 0 && self.pass(at.zone, part) > left {
                    part -= 1;
                }
                return (sectors + part).min(most);
            }
            sectors += here;
            left -= whole;
            let next = self.next_track(at);
            let crossing = self.crossing(at, next);
            if left < crossing {
                return sectors.min(most);
            }
            left -= crossing;
            at = next;
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Params as Any, load};

    fn geometry(name: &str) -> (Geometry, u64) {
        match load(name).unwrap().params() {
            Any::Hdd(p) => (Geometry::new(p), p.capacity_sectors),
            _ => unreachable!("a hard disk"),
        }
    }

    proptest! {
        #[test]
        fn a_sequential_read_meets_the_next_sector(share in 0.0..0.999f64, sectors in 1u64..20_000) {
            for name in ["hdd:st1000dm003", "hdd:hts541010a9e662"] {
                let (g, capacity) = geometry(name);
                let lba = (capacity as f64 * share) as u64;
                let sectors = sectors.min(capacity - lba - 1);
                let (from, to) = (g.track(lba), g.track(lba + sectors));
                if sectors == 0 || from.zone != to.zone {
                    continue;
                }
                // After streaming, the angle is that of the next sector up to the rounding of each track.
                let ns = g.media(lba, sectors) + g.step(lba + sectors);
                let after = (g.place(lba).angle + ns) % g.revolution;
                let off = (after + g.revolution - g.place(lba + sectors).angle + 20) % g.revolution;
                prop_assert!(off <= 40, "{} {} {}: {}", name, lba, sectors, off);
            }
        }

        #[test]
        fn passed_is_the_inverse_of_streaming(share in 0.0..0.99f64, ns in 0u64..200_000_000) {
            let (g, capacity) = geometry("hdd:hts541010a9e662");
            let lba = (capacity as f64 * share) as u64;
            let span = |n: u64| if n == 0 { 0 } else { g.step(lba) + g.media(lba, n) };
            let n = g.passed(lba, ns, 1_000_000);
            prop_assert!(span(n) <= ns && span(n + 1) > ns, "{}: {} <= {} < {}", n, span(n), ns, span(n + 1));
        }

        #[test]
        fn every_sector_has_a_place(share in 0.0..1.0f64) {
            for name in ["hdd:st1000dm003", "hdd:hts541010a9e662"] {
                let (g, capacity) = geometry(name);
                let place = g.place(((capacity as f64 * share) as u64).min(capacity - 1));
                prop_assert!(u64::from(place.cylinder) < g.cylinders_per_zone * g.zones.len() as u64);
                prop_assert!(u64::from(place.head) < g.surfaces && place.angle < g.revolution);
            }
        }
    }

    #[test]
    fn bands_are_serpentine() {
        let (g, _) = geometry("hdd:st1000dm003");
        let spt = g.zones[0].sectors_per_track;
        assert_eq!(g.place(0), Place { cylinder: 0, head: 0, angle: 0 });
        assert_eq!((g.place(127 * spt).cylinder, g.place(127 * spt).head), (127, 0));
        assert_eq!((g.place(128 * spt).cylinder, g.place(128 * spt).head), (127, 1));
        assert_eq!((g.place(255 * spt).cylinder, g.place(255 * spt).head), (0, 1));
        assert_eq!((g.place(256 * spt).cylinder, g.place(256 * spt).head), (128, 0));
    }
}
