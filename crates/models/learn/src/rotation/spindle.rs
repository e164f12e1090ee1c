//! The angle of a disk's platter, from the last completion.

use std::f64::consts::TAU;

use dumbwaiter_block::Nanos;
use serde::{Deserialize, Serialize};

/// Rotation of a disk: found in training, for the part of the disk that the training data covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rotation {
    /// Time of one revolution in nanoseconds; 0: the device does not rotate, or its rotation is unknown.
    pub period_ns: f64,
    /// Sectors after which a sequential transfer has turned by one revolution; skews between tracks are part of it.
    pub sectors: f64,
}

impl Rotation {
    /// Whether it is known.
    pub fn is_known(&self) -> bool {
        self.period_ns >= 1e3 && self.sectors >= 1.0 && self.period_ns.is_finite() && self.sectors.is_finite()
    }
}

/// The last request that the platter served, from which the present angle follows.
///
/// A request completes when its end passes the head. So the angle to another sector is its distance from that end, less the
/// time that has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spindle {
    rotation: Rotation,
    last: Option<(u64, Nanos)>,
}

impl Spindle {
    /// A disk with this rotation.
    pub fn new(rotation: Rotation) -> Spindle {
        Spindle { rotation, last: None }
    }

    /// A request completed. Those that were too quick for the platter came from a buffer and are left out.
    pub fn completed(&mut self, end: u64, at: Nanos, latency: Nanos) {
        if latency.0 as f64 >= self.rotation.period_ns / 8.0 {
            self.last = Some((end, at));
        }
    }

    /// Sine and cosine of the angle by which the platter has yet to turn until `sector` passes the head; zeros if it is not
    /// known.
    pub fn angle(&self, sector: u64, now: Nanos) -> [f32; 2] {
        let Some((end, at)) = self.last.filter(|_| self.rotation.is_known()) else { return [0.0; 2] };
        let distance = if sector >= end { (sector - end) as f64 } else { -((end - sector) as f64) };
        let passed = now.0.saturating_sub(at.0) as f64;
        let turns = distance / self.rotation.sectors - passed / self.rotation.period_ns;
        let angle = (TAU * (turns - libm::floor(turns))) as f32;
        [libm::sinf(angle), libm::cosf(angle)]
    }
}
