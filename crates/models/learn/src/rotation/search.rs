//! Finds the rotation of a disk from the completion times of its requests.

use std::f64::consts::TAU;

use super::speeds::SPEEDS;
use super::spindle::Rotation;
use crate::record::RequestRecord;

/// Fewest and most sectors of a revolution.
const SECTORS: [f64; 2] = [300.0, 8_000.0];
/// Pairs of requests that are examined.
const PAIRS: usize = 20_000;
/// Least agreement of a rotation, from 0 to 1.
const LEAST_AGREEMENT: f64 = 0.3;
/// Quickest request that the platter can have served, in nanoseconds.
const QUICKEST_NS: u64 = 1_500_000;

/// Two requests that the platter served one after the other.
#[derive(Clone, Copy)]
struct Pair {
    /// Sectors from the end of the first to the end of the second.
    distance: f64,
    /// Time from completion to completion, in nanoseconds.
    time: f64,
}

/// The rotation at which the angles of completed requests agree with their times, if there is one. Each segment has requests that
/// followed each other, in order of issue.
///
/// The search goes from near pairs, where a wrong number of sectors matters little, to far ones, where it matters much.
pub fn find<'a>(segments: impl Iterator<Item = &'a [RequestRecord]>) -> Option<Rotation> {
    let mut pairs = pairs_of(segments);
    pairs.sort_by(|a, b| a.distance.abs().total_cmp(&b.distance.abs()));
    let mut best: Option<(f64, Rotation)> = None;
    for speed in SPEEDS {
        let period_ns = 60e9 / speed as f64;
        let (mut low, mut high) = (1.0 / SECTORS[1], 1.0 / SECTORS[0]);
        let mut found = (0.0, 0.0);
        for reach in [3e4, 3e5, 3e6, 3e7] {
            let near: Vec<Pair> = thinned(&pairs[..pairs.partition_point(|pair| pair.distance.abs() <= reach)]);
            if near.len() < 100 {
                continue;
            }
            // An eighth of a turn at the far end.
            let step = 0.125 / reach;
            let count = ((high - low) / step).ceil() as usize + 1;
            found = (0..count)
                .map(|i| low + step * i as f64)
                .map(|turns| (agreement(&near, turns, period_ns), turns))
                .fold((0.0, 0.0), |best, next| if next.0 > best.0 { next } else { best });
            (low, high) = (found.1 - 4.0 * step, found.1 + 4.0 * step);
        }
        if found.1 > 0.0 && best.as_ref().is_none_or(|best| found.0 > best.0) {
            best = Some((found.0, Rotation { period_ns, sectors: 1.0 / found.1 }));
        }
    }
    best.filter(|(agreement, _)| *agreement >= LEAST_AGREEMENT).map(|(_, rotation)| rotation)
}

fn pairs_of<'a>(segments: impl Iterator<Item = &'a [RequestRecord]>) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for segment in segments {
        let served = segment.iter().filter(|record| record.is_learnable() && record.latency().0 >= QUICKEST_NS);
        let served: Vec<_> = served.collect();
        for pair in served.windows(2) {
            let distance = pair[1].end() as f64 - pair[0].end() as f64;
            let time = pair[1].complete.0 as f64 - pair[0].complete.0 as f64;
            if distance != 0.0 && time < 1e9 {
                pairs.push(Pair { distance, time });
            }
        }
    }
    thinned(&pairs)
}

fn thinned(pairs: &[Pair]) -> Vec<Pair> {
    pairs.iter().copied().step_by(pairs.len().div_ceil(PAIRS).max(1)).collect()
}

/// The length of the mean of the unit vectors whose angle is the difference of turned and expected: 1 if all agree.
fn agreement(pairs: &[Pair], turns_per_sector: f64, period_ns: f64) -> f64 {
    let (mut x, mut y) = (0.0, 0.0);
    for pair in pairs {
        let angle = TAU * (pair.distance * turns_per_sector - pair.time / period_ns).rem_euclid(1.0);
        x += libm::cos(angle);
        y += libm::sin(angle);
    }
    (x * x + y * y).sqrt() / pairs.len().max(1) as f64
}
