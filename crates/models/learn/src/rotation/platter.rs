//! Model of a disk's platter: the angle of each sector and the time of seeks, learned from completions alone.
//!
//! When a read that went to the media completes, its last sector has just passed the head. So each completion shows the angle
//! of one sector. Within a zone of a disk angles repeat with the length of a track: the angle is nearly `f · sector + φ`
//! revolutions. For each region of the disk the frequency `f` is found as a star's period is from single observations: the one
//! under which the angles seen agree best (a periodogram), from sixteen reads on. What is left is the skew between tracks,
//! 3 % of a revolution.
//!
//! It works only at queue depth 1, for disks with one of the usual speeds, which the first region determines. Where angles do not
//! agree, it predicts half a revolution.

use dumbwaiter_block::Nanos;

use super::speeds::SPEEDS;
use crate::gap::GapBins;

/// Sectors of a region, as a shift: 8 GiB.
const REGION_SHIFT: u32 = 24;
const REGION: f64 = (1u64 << REGION_SHIFT) as f64;
/// Most regions (32 TiB).
const REGIONS_MAX: usize = 4096;
/// Reads of a region that are kept, and numbers of them at which a fit is tried.
const SAMPLES_MAX: usize = 48;
const TRIES: [usize; 4] = [16, 24, 32, 48];
/// Revolutions per sector to search: tracks of 500 to 4,000 sectors.
const FREQUENCIES: [f64; 2] = [1.0 / 4000.0, 1.0 / 500.0];
/// Steps of the search per region's length and revolution.
const STEPS: f64 = 3.0;
/// How much track lengths differ between neighbouring regions at most.
const NEIGHBOUR: f64 = 0.04;
/// Reads faster than this came from a cache, ns.
const MEDIA_MIN: u64 = 500_000;
/// After a missed revolution a seek counts for longer, after each other read for a little less: one read in 17 may miss.
const MISS_STEP: u64 = 320_000;
const HIT_STEP: u64 = 20_000;
/// Most searches of all frequencies and speeds: each takes some 10 ms.
const FULL_SEARCHES_MAX: u32 = 8;
/// A region whose mean error exceeds this share of a revolution is not used.
const ERROR_MAX: f64 = 0.15;

/// A read that went to the media: its end within the region, and when it had passed the head.
type Sample = (u32, u64);

#[derive(Clone, Copy, Debug)]
struct Fit {
    /// Revolutions per sector, and the angle of the region's first sector.
    frequency: f64,
    phase: f64,
    /// Mean error of late, revolutions.
    error: f64,
}

#[derive(Clone, Debug, Default)]
struct Region {
    samples: Vec<Sample>,
    /// Where the next sample goes once there are enough.
    next: usize,
    fit: Option<Fit>,
}

/// See the module documentation.
#[derive(Clone, Debug, Default)]
pub struct Platter {
    /// Time of a revolution, ns; 0 while it is not known.
    revolution: u64,
    regions: Vec<Region>,
    /// Time from the dispatch until the arm is settled, by gap.
    arms: GapBins,
    /// Regions with a fit.
    fitted: u32,
    full_searches: u32,
}

fn turns(time: u64, revolution: u64) -> f64 {
    (time % revolution) as f64 / revolution as f64
}

/// The share of a revolution that a number of revolutions ends with.
fn fraction(turns: f64) -> f64 {
    turns - turns.floor()
}

/// Coherence, frequency and phase of the samples under the best frequency of a range.
fn search(samples: &[Sample], revolution: u64, range: [f64; 2]) -> (f64, f64, f64, f64) {
    let step = 1.0 / (STEPS * REGION);
    let n = samples.len().min(SAMPLES_MAX);
    let [mut re, mut im, mut cos, mut sin] = [[0.0f64; SAMPLES_MAX]; 4];
    for (i, (sector, time)) in samples.iter().take(n).enumerate() {
        let start = std::f64::consts::TAU * fraction(turns(*time, revolution) - range[0] * f64::from(*sector));
        let turn = -std::f64::consts::TAU * fraction(step * f64::from(*sector));
        (re[i], im[i]) = (libm::cos(start), libm::sin(start));
        (cos[i], sin[i]) = (libm::cos(turn), libm::sin(turn));
    }
    let steps = ((range[1] - range[0]) / step) as u64 + 1;
    let mut best = (0.0, 0u64, 0.0, 0.0);
    for k in 0..steps {
        let (mut x, mut y) = (0.0, 0.0);
        for i in 0..n {
            x += re[i];
            y += im[i];
            let turned = re[i] * cos[i] - im[i] * sin[i];
            im[i] = re[i] * sin[i] + im[i] * cos[i];
            re[i] = turned;
        }
        let power = x * x + y * y;
        if power > best.0 {
            best = (power, k, x, y);
        }
    }
    let (power, k, x, y) = best;
    let coherence = power.sqrt() / n.max(1) as f64;
    let phase = libm::atan2(y, x) / std::f64::consts::TAU;
    // Chance reaches this with as many frequencies and samples in one search of ten.
    let chance = (libm::log(10.0 * steps as f64) / n.max(1) as f64).sqrt();
    (coherence, chance, range[0] + k as f64 * step, fraction(phase))
}

impl Platter {
    fn region_of(sector: u64) -> Option<(usize, u32)> {
        let number = (sector >> REGION_SHIFT) as usize;
        (number < REGIONS_MAX).then_some((number, (sector & ((1 << REGION_SHIFT) - 1)) as u32))
    }

    /// Whether any angles are known.
    pub fn ready(&self) -> bool {
        self.fitted > 0
    }

    /// The angle of the end of a request, if its region is known.
    fn angle(&self, end: u64) -> Option<f64> {
        let (number, within) = Self::region_of(end)?;
        let fit = self.regions.get(number)?.fit.filter(|fit| fit.error < ERROR_MAX)?;
        Some(fraction(fit.frequency * f64::from(within) + fit.phase))
    }

    /// Latency of a read that ends before sector `end`, which an idle disk gets at `now` behind `gap` sectors, ns.
    pub fn cost(&self, end: u64, gap: u64, now: Nanos) -> u64 {
        let arm = self.arms.at_or_near(gap).unwrap_or(0);
        let Some(angle) = self.angle(end) else { return arm + self.revolution / 2 };
        let settled = turns(now.0 + arm, self.revolution);
        arm + (fraction(angle - settled) * self.revolution as f64) as u64
    }

    /// Notes the completion of a read that was alone in the disk; `predicted` is the result of [`Platter::cost`], or 0.
    pub fn learn(&mut self, end: u64, gap: u64, latency: Nanos, predicted: u64, now: Nanos) {
        let given_up = !self.ready() && self.full_searches >= FULL_SEARCHES_MAX;
        if latency.0 < MEDIA_MIN || gap == 0 || given_up {
            return;
        }
        self.learn_arm(end, gap, latency.0, predicted);
        let Some((number, within)) = Self::region_of(end) else { return };
        if number >= self.regions.len() {
            self.regions.resize_with(number + 1, Region::default);
        }
        self.learn_error(number, within, now);
        let region = &mut self.regions[number];
        if region.samples.len() < SAMPLES_MAX {
            region.samples.push((within, now.0));
            if TRIES.contains(&self.regions[number].samples.len()) {
                self.fit(number);
            }
        } else {
            region.samples[region.next] = (within, now.0);
            region.next = (region.next + 1) % SAMPLES_MAX;
            if region.next == 0 {
                self.fit(number);
            }
        }
    }

    fn learn_arm(&mut self, end: u64, gap: u64, latency: u64, predicted: u64) {
        let known = self.ready() && predicted > 0 && self.angle(end).is_some();
        if !known {
            self.arms.lower_to(gap, latency);
        } else if latency > predicted + self.revolution / 2 {
            self.arms.raise(gap, MISS_STEP);
        } else {
            self.arms.lower_by(gap, HIT_STEP);
        }
    }

    fn learn_error(&mut self, number: usize, within: u32, now: Nanos) {
        let revolution = self.revolution;
        if let Some(fit) = &mut self.regions[number].fit {
            let expected = fit.frequency * f64::from(within) + fit.phase;
            let off = fraction(turns(now.0, revolution) - expected);
            fit.error += (off.min(1.0 - off) - fit.error) / 8.0;
        }
    }

    /// The region with a fit that is nearest to `number`, and how far it is.
    fn nearest_fit(&self, number: usize) -> Option<(f64, usize)> {
        let fits = self.regions.iter().enumerate().filter_map(|(i, region)| Some((region.fit?.frequency, i)));
        fits.map(|(frequency, i)| (frequency, i.abs_diff(number))).min_by_key(|(_, distance)| *distance)
    }

    fn fit(&mut self, number: usize) {
        let samples = std::mem::take(&mut self.regions[number].samples);
        let found = match self.nearest_fit(number) {
            Some((frequency, distance)) => {
                let reach = frequency * NEIGHBOUR * (1.0 + distance as f64 / 4.0);
                let range = [(frequency - reach).max(FREQUENCIES[0]), (frequency + reach).min(FREQUENCIES[1])];
                Some((self.revolution, search(&samples, self.revolution, range)))
            }
            None => {
                self.full_searches += 1;
                let speeds = SPEEDS.iter().map(|rpm| {
                    let revolution = 60_000_000_000 / rpm + u64::from(2 * (60_000_000_000 % rpm) >= *rpm);
                    (revolution, search(&samples, revolution, FREQUENCIES))
                });
                speeds.max_by(|a, b| a.1.0.total_cmp(&b.1.0))
            }
        };
        let region = &mut self.regions[number];
        region.samples = samples;
        let Some((revolution, (coherence, chance, frequency, phase))) = found else { return };
        if coherence > chance.max(0.6) {
            self.fitted += u32::from(region.fit.is_none());
            region.fit = Some(Fit { frequency, phase, error: (1.0 - coherence) / 2.0 });
            self.revolution = revolution;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: u64 = 11_111_111;

    /// A disk with tracks of `spt` sectors and a skew of 1 ms, read at random. Returns the share of predictions within a tenth
    /// of a revolution over the last reads.
    fn predicted(spt: u64, reads: u64, noise: bool) -> f64 {
        let mut platter = Platter::default();
        let (mut state, mut now, mut position) = (7u64, 0u64, 0u64);
        let (mut right, mut asked) = (0, 0);
        for i in 0..reads {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let sector = (state >> 30) % (4 << REGION_SHIFT) / 8 * 8;
            let end = sector + 8;
            let gap = sector.abs_diff(position);
            let cost = if platter.ready() { platter.cost(end, gap, Nanos(now)) } else { 0 };
            let (track, at) = (end / spt, end % spt);
            let mut angle = (at * TURN / spt + track * 1_000_000) % TURN;
            if noise {
                angle = (state >> 3) % TURN;
            }
            let settled = now + 8_000_000;
            let done = settled + (angle + TURN - settled % TURN) % TURN;
            let latency = done - now;
            if i >= reads * 3 / 4 {
                asked += 1;
                right +=
                    u64::from(cost.abs_diff(latency) < TURN / 10 || cost.abs_diff(latency).abs_diff(TURN) < TURN / 10);
            }
            platter.learn(end, gap, Nanos(latency), cost, Nanos(done));
            (now, position) = (done, end);
        }
        right as f64 / asked as f64
    }

    #[test]
    fn angles_of_sectors_never_read_before_are_predicted() {
        for spt in [2000, 1431, 2789] {
            let share = predicted(spt, 600, false);
            assert!(share > 0.9, "{spt}: {share}");
        }
    }

    #[test]
    fn a_disk_without_a_pattern_is_not_believed_to_have_one() {
        assert!(predicted(2000, 600, true) < 0.5);
    }
}
