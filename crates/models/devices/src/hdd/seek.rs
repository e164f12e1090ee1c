//! Seek times, and the search for the command with the shortest positioning time.

use super::geometry::Place;
use super::params::Params;

/// Largest queue depth of the drive.
pub(crate) const DEPTH_MAX: usize = 32;

/// The seek curve, with all times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seek {
    track: f64,
    a: f64,
    b: f64,
    d0: f64,
    c: f64,
    e: f64,
    head: f64,
    settle: f64,
}

impl Seek {
    pub(crate) fn new(p: &Params) -> Seek {
        let ns = 1e6;
        let (a, b, d0) = (p.seek_a_ms * ns, p.seek_b_ms * ns, f64::from(p.seek_d0_cylinders));
        // Beyond d0 the curve continues along its tangent.
        let (c, e) = (a + b * d0.sqrt() / 2.0, b / (2.0 * d0.sqrt()));
        let (track, head, settle) = (p.t_track_ms * ns, p.t_head_ms * ns, p.t_settle_write_ms * ns);
        Seek { track, a, b, d0, c, e, head, settle }
    }

    /// Seek time over `d` cylinders without write settling, ns.
    fn curve(&self, d: u32) -> f64 {
        match d {
            0 => 0.0,
            1 => self.track,
            _ if f64::from(d) <= self.d0 => self.a + self.b * f64::from(d).sqrt(),
            _ => self.c + self.e * f64::from(d),
        }
    }

    /// Seek time from one place to another, ns.
    pub(crate) fn time(&self, from: Place, to: Place, write: bool) -> u64 {
        let d = from.cylinder.abs_diff(to.cylinder);
        let settle = if write { self.settle } else { 0.0 };
        let mut ns = if d == 0 { 0.0 } else { self.curve(d) + settle };
        if from.head != to.head {
            ns = ns.max(self.head + settle);
        }
        (ns + 0.5) as u64
    }

    /// Lower bound of the seek time for a write at least `d` cylinders away, ns.
    pub(crate) fn least_write(&self, d: u32) -> u64 {
        if d == 0 { 0 } else { (self.curve(d) + self.settle) as u64 }
    }

    /// Weighted mean over all seeks of a drive with N = `cylinders`, ns: Σ 2(N−d)/N² · seek(d).
    pub(crate) fn mean(&self, cylinders: u32) -> f64 {
        let n = f64::from(cylinders);
        let sum: f64 = (1..cylinders).map(|d| (n - f64::from(d)) * self.curve(d)).sum();
        2.0 * sum / (n * n)
    }
}

/// Positioning data of the queued commands, in arrival order. One array per quantity, and times in f32, so that the
/// compiler vectorises the search. It only ranks: times of the chosen command are exact.
#[derive(Debug)]
pub(crate) struct Candidates {
    len: usize,
    cylinder: [f32; DEPTH_MAX],
    head: [f32; DEPTH_MAX],
    angle: [f32; DEPTH_MAX],
    settle: [f32; DEPTH_MAX],
}

impl Candidates {
    pub(crate) fn new() -> Candidates {
        let zero = [0.0; DEPTH_MAX];
        Candidates { len: 0, cylinder: zero, head: zero, angle: zero, settle: zero }
    }

    pub(crate) fn push(&mut self, place: Place, write: bool, seek: &Seek) {
        let i = self.len;
        self.cylinder[i] = place.cylinder as f32;
        self.head[i] = place.head as f32;
        self.angle[i] = place.angle as f32;
        self.settle[i] = if write { seek.settle as f32 } else { 0.0 };
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, i: usize) {
        for array in [&mut self.cylinder, &mut self.head, &mut self.angle, &mut self.settle] {
            array.copy_within(i + 1..self.len, i);
        }
        self.len -= 1;
    }

    /// The candidate among the `window` oldest with the shortest positioning time from `from`, ties by age. `phase` is
    /// the angle under the heads after the command overhead; `revolution` is in ns. `favour` is what each is favoured by.
    pub(crate) fn nearest(
        &self,
        (from, phase): (Place, u64),
        revolution: u64,
        window: usize,
        seek: &Seek,
        favour: &[f32; DEPTH_MAX],
    ) -> usize {
        let n = self.len.min(window);
        if n <= 1 {
            return 0;
        }
        let mut cost = [f32::INFINITY; DEPTH_MAX];
        let (here, head_here) = (from.cylinder as f32, from.head as f32);
        let (track, a, b, d0) = (seek.track as f32, seek.a as f32, seek.b as f32, seek.d0 as f32);
        let (c, e, head) = (seek.c as f32, seek.e as f32, seek.head as f32);
        let (turn, per_turn, phase) = (revolution as f32, 1.0 / revolution as f32, phase as f32);
        // Adding and subtracting 1.5 * 2^23 rounds to the nearest integer without a function call.
        const WHOLE: f32 = 12_582_912.0;
        let rounded = n.next_multiple_of(8).min(DEPTH_MAX);
        for (i, cost) in cost.iter_mut().enumerate().take(rounded) {
            let d = (self.cylinder[i] - here).abs();
            let settle = self.settle[i];
            let near = a + b * d.sqrt();
            let far = c + e * d;
            let moved = if d <= d0 { near } else { far };
            let moved = if d < 1.5 { track } else { moved } + settle;
            let moved = if d < 0.5 { 0.0 } else { moved };
            let switched = if self.head[i] == head_here { 0.0 } else { head + settle };
            let arm = if moved > switched { moved } else { switched };
            let turns = (arm + phase - self.angle[i]) * per_turn;
            let next = (turns + 0.5 + WHOLE) - WHOLE;
            let wait = (next - turns) * turn;
            *cost = arm + wait - favour[i];
        }
        let mut best = 0;
        for (i, &this) in cost.iter().enumerate().take(n) {
            if this < cost[best] {
                best = i;
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Params as Any, load};

    fn seek() -> Seek {
        match load("hdd:st1000dm003").unwrap().params() {
            Any::Hdd(p) => Seek::new(p),
            _ => unreachable!("a hard disk"),
        }
    }

    #[test]
    fn the_seek_curve_matches_its_specification() {
        let s = seek();
        let at = |cylinder| Place { cylinder, head: 0, angle: 0 };
        assert_eq!(s.time(at(5), at(5), true), 0);
        assert_eq!(s.time(at(5), at(6), false), 800_000);
        assert_eq!(s.time(at(0), at(100), false), 1_739_400 + 205_834);
        assert_eq!(s.time(at(0), at(100), true), 2_739_400 + 205_834);
        assert_eq!(s.time(at(0), Place { head: 1, ..at(0) }, false), 1_200_000);
        // Full stroke, by the tangent.
        assert!((s.curve(360_000) - 16.0e6).abs() < 2e3);
        assert!((1..359_999).step_by(997).all(|d| s.curve(d + 1) > s.curve(d)));
    }

    proptest! {
        /// The vectorised search chooses as the exact times do, up to its precision.
        #[test]
        fn nearest_has_the_shortest_positioning_time(
            places in prop::collection::vec((0u32..360_000, 0u32..2, 0u64..8_333_333, any::<bool>()), 1..33),
            here in 0u32..360_000, head in 0u32..2, phase in 0u64..8_333_333
        ) {
            let (s, turn) = (seek(), 8_333_333u64);
            let from = Place { cylinder: here, head, angle: 0 };
            let mut candidates = Candidates::new();
            let cost = |&(cylinder, head, angle, write): &(u32, u32, u64, bool)| {
                let arm = s.time(from, Place { cylinder, head, angle }, write);
                arm + (angle + 10 * turn - (arm + phase) % turn) % turn
            };
            for &(cylinder, head, angle, write) in &places {
                candidates.push(Place { cylinder, head, angle }, write, &s);
            }
            let picked = cost(&places[candidates.nearest((from, phase), turn, 32, &s, &[0.0; DEPTH_MAX])]);
            let best = places.iter().map(cost).min().unwrap();
            // Rounding decides whether a sector is just reached or just missed.
            let close = |place| { let c = cost(place); c.abs_diff(best) > turn - 100 };
            prop_assert!(picked <= best + 100 || places.iter().any(close), "{} {}", picked, best);
        }
    }
}
