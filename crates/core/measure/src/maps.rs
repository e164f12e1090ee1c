//! Grids of counts over time, in bounded memory: how many I/Os completed in each stretch of time, by latency and by position
//! on the device.

use crate::result::{Maps, TimeMap};
use dumbwaiter_block::{Nanos, SECTOR_BYTES};

/// Most columns; even, so that they join in pairs.
const COLUMNS_MAX: usize = 128;
/// Length of a column at the start of a run; it doubles whenever the columns run out.
const COLUMN_FIRST: Nanos = Nanos(1_000_000);
/// Rows of positions; their height doubles whenever an I/O lies beyond them.
const BANDS: usize = 64;
/// Height of a band at the start, sectors.
const BAND_FIRST_SECTORS: u64 = 2048;
/// Latencies below 2^10 ns share the lowest row, those above 2^38 ns (4.6 minutes) the highest.
const LATENCY_EXPONENTS: std::ops::Range<u32> = 10..38;
/// Rows for each doubling of the latency.
const ROWS_PER_OCTAVE: usize = 4;
const LATENCY_ROWS: usize = (LATENCY_EXPONENTS.end - LATENCY_EXPONENTS.start) as usize * ROWS_PER_OCTAVE;

/// The maps of a run while it is recorded.
#[derive(Clone, Debug)]
pub(crate) struct MapRecorder {
    start: Nanos,
    column: Nanos,
    column_end: Nanos,
    /// Number of the current column.
    current: usize,
    band_sectors: u64,
    /// Counts, column by column.
    latencies: Vec<u32>,
    positions: Vec<u32>,
}

impl MapRecorder {
    pub(crate) fn new(start: Nanos) -> MapRecorder {
        MapRecorder {
            start,
            column: COLUMN_FIRST,
            column_end: start + COLUMN_FIRST,
            current: 0,
            band_sectors: BAND_FIRST_SECTORS,
            latencies: vec![0; COLUMNS_MAX * LATENCY_ROWS],
            positions: vec![0; COLUMNS_MAX * BANDS],
        }
    }

    /// Counts an I/O that completed at `now`; `latency` is `None` if that does not count, `sector` for one without data.
    #[inline]
    pub(crate) fn record(&mut self, now: Nanos, latency: Option<u64>, sector: Option<u64>) {
        if now >= self.column_end {
            self.advance(now);
        }
        if let Some(ns) = latency {
            self.latencies[self.current * LATENCY_ROWS + latency_row(ns)] += 1;
        }
        if let Some(sector) = sector {
            if sector / self.band_sectors >= BANDS as u64 {
                self.raise(sector);
            }
            self.positions[self.current * BANDS + (sector / self.band_sectors) as usize] += 1;
        }
    }

    /// Begins the column that holds `now`.
    #[cold]
    fn advance(&mut self, now: Nanos) {
        while now.since(self.start).0 / self.column.0 >= COLUMNS_MAX as u64 {
            halve(&mut self.latencies, LATENCY_ROWS);
            halve(&mut self.positions, BANDS);
            self.column = self.column + self.column;
        }
        self.current = (now.since(self.start).0 / self.column.0) as usize;
        self.column_end = self.start + Nanos((self.current as u64 + 1).saturating_mul(self.column.0));
    }

    /// Doubles the height of the bands until `sector` is in one.
    #[cold]
    fn raise(&mut self, sector: u64) {
        while sector / self.band_sectors >= BANDS as u64 {
            for column in self.positions.chunks_exact_mut(BANDS) {
                halve(column, 1);
            }
            self.band_sectors = self.band_sectors.saturating_mul(2);
        }
    }

    /// Adds the maps of another ring over the same time, up to `now`.
    pub(crate) fn join(&mut self, mut other: MapRecorder, now: Nanos) {
        for one in [&mut *self, &mut other] {
            one.advance(now);
        }
        let last = |one: &MapRecorder| one.band_sectors.saturating_mul(BANDS as u64) - 1;
        let highest = last(self).max(last(&other));
        for one in [&mut *self, &mut other] {
            one.raise(highest);
        }
        self.latencies.iter_mut().zip(&other.latencies).for_each(|(to, from)| *to += from);
        self.positions.iter_mut().zip(&other.positions).for_each(|(to, from)| *to += from);
    }

    /// The maps of a run that ended at `end`, without the rows that nothing reached.
    pub(crate) fn finish(mut self, end: Nanos) -> Maps {
        self.advance(end.max(self.start));
        let columns = self.current + usize::from(end > self.start + Nanos(self.current as u64 * self.column.0));
        let band_mb = (self.band_sectors * SECTOR_BYTES) as f64 / 1e6;
        let map = |counts: &[u32], rows: usize, bound: &dyn Fn(usize) -> f64| {
            let of_row = |row: usize| (0..columns).any(|column| counts[column * rows + row] > 0);
            let used: Vec<usize> = (0..rows).filter(|row| of_row(*row)).collect();
            let (Some(&first), Some(&last)) = (used.first(), used.last()) else { return TimeMap::default() };
            TimeMap {
                start_s: self.start.as_secs_f64(),
                interval_s: self.column.as_secs_f64(),
                bounds: (first..=last + 1).map(bound).collect(),
                counts: (0..columns).map(|c| counts[c * rows + first..=c * rows + last].to_vec()).collect(),
            }
        };
        Maps {
            latency_us: map(&self.latencies, LATENCY_ROWS, &|row| latency_bound_ns(row) / 1e3),
            position_mb: map(&self.positions, BANDS, &|row| row as f64 * band_mb),
        }
    }
}

/// Rows are octaves cut in four at equal distances.
#[inline]
fn latency_row(ns: u64) -> usize {
    let ns = ns.clamp(1 << LATENCY_EXPONENTS.start, (1 << LATENCY_EXPONENTS.end) - 1);
    let exponent = ns.ilog2();
    let quarter = (ns >> (exponent - 2)) as usize & (ROWS_PER_OCTAVE - 1);
    (exponent - LATENCY_EXPONENTS.start) as usize * ROWS_PER_OCTAVE + quarter
}

/// The least latency of a row, ns.
fn latency_bound_ns(row: usize) -> f64 {
    let octave = (1u64 << (LATENCY_EXPONENTS.start as usize + row / ROWS_PER_OCTAVE)) as f64;
    octave * (1.0 + (row % ROWS_PER_OCTAVE) as f64 / ROWS_PER_OCTAVE as f64)
}

/// Adds each second group of `length` counts to the one before it, and moves the sums to the front.
fn halve(counts: &mut [u32], length: usize) {
    let groups = counts.len() / length;
    for to in 0..groups / 2 {
        for i in 0..length {
            counts[to * length + i] = counts[2 * to * length + i] + counts[(2 * to + 1) * length + i];
        }
    }
    counts[groups / 2 * length..].fill(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(map: &TimeMap) -> u64 {
        map.counts.iter().flatten().map(|n| u64::from(*n)).sum()
    }

    #[test]
    fn a_row_begins_at_its_bound() {
        for row in 0..LATENCY_ROWS {
            let bound = latency_bound_ns(row) as u64;
            assert_eq!(latency_row(bound), row);
            assert_eq!(latency_row(bound - 1), row.saturating_sub(1));
        }
        assert_eq!((latency_row(0), latency_row(u64::MAX)), (0, LATENCY_ROWS - 1));
    }

    #[test]
    fn an_io_is_in_the_cell_of_its_time_latency_and_position() {
        let mut maps = MapRecorder::new(Nanos::from_secs(1));
        maps.record(Nanos::from_secs(2), Some(5_000_000), Some(1 << 30));
        maps.record(Nanos::from_secs(21), Some(9_000), None);
        let maps = maps.finish(Nanos::from_secs(21));
        for (map, value, at_s) in [(&maps.latency_us, 5000.0, 2.0), (&maps.position_mb, 549_755.9, 2.0)] {
            let column = ((at_s - map.start_s) / map.interval_s) as usize;
            let row = map.bounds.windows(2).position(|w| w[0] <= value && value < w[1]).unwrap();
            assert_eq!(map.counts[column][row], 1, "{map:?}");
            assert!(map.counts.len() > COLUMNS_MAX / 2 && map.counts.len() <= COLUMNS_MAX);
        }
        assert_eq!((sum(&maps.latency_us), sum(&maps.position_mb)), (2, 1));
    }

    #[test]
    fn nothing_recorded_is_an_empty_map() {
        let maps = MapRecorder::new(Nanos::from_secs(1)).finish(Nanos::from_secs(3));
        assert!(maps.latency_us.counts.is_empty() && maps.position_mb.counts.is_empty());
    }

    proptest! {
        #[test]
        fn two_rings_together_give_the_map_of_one(
            ios in prop::collection::vec((0u64..200_000_000_000, 0u64..1 << 40, 0u64..1 << 44, prop::bool::ANY), 1..60)
        ) {
            let mut ios = ios;
            ios.sort();
            let mut whole = MapRecorder::new(Nanos::ZERO);
            let mut rings = [whole.clone(), whole.clone()];
            for (at, latency, sector, ring) in &ios {
                whole.record(Nanos(*at), Some(*latency), Some(*sector));
                rings[usize::from(*ring)].record(Nanos(*at), Some(*latency), Some(*sector));
            }
            let end = Nanos(ios.last().unwrap().0);
            let [mut joined, other] = rings;
            joined.join(other, end);
            let (joined, whole) = (joined.finish(end), whole.finish(end));
            prop_assert_eq!(sum(&whole.position_mb), ios.len() as u64);
            prop_assert_eq!(joined, whole);
        }
    }
}
