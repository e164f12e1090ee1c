//! A line of latency over size for each operation, learned online: the cheapest sensible predictor.
//!
//! A least-squares fit over decaying sums, in integers: each `HALF_LIFE` completions the sums are halved. After Adios, which
//! drives deadlines by such a line.

use dumbwaiter_block::{Nanos, Op};

/// Completions after which older ones count half.
const HALF_LIFE: u32 = 512;
/// Completions between two fits.
const REFIT: u32 = 16;
/// Latencies are summed in units of 1024 ns, so that no sum overflows, and cut off here (about 68 s).
const LATENCY_MAX: u64 = 1 << 26;
/// Lengths are cut off here (32 MiB).
const SECTORS_MAX: u64 = 1 << 16;
/// Fixed point of the slope.
const SLOPE_SHIFT: u32 = 16;

/// Sums of one operation. With at most [`HALF_LIFE`] times two completions none exceeds 2^53.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Line {
    n: u64,
    x: u64,
    y: u64,
    xx: u64,
    xy: u64,
    since_halving: u32,
    since_fit: u32,
    /// Nanoseconds for no data, and more per sector (times 2^16).
    base: u64,
    slope: u64,
}

impl Line {
    fn learn(&mut self, sectors: u64, latency_ns: u64) {
        let (x, y) = (sectors.min(SECTORS_MAX), (latency_ns >> 10).min(LATENCY_MAX));
        self.n += 1;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
        self.since_halving += 1;
        if self.since_halving == HALF_LIFE {
            self.since_halving = 0;
            self.n /= 2;
            self.x /= 2;
            self.y /= 2;
            self.xx /= 2;
            self.xy /= 2;
        }
        self.since_fit += 1;
        if self.since_fit >= REFIT.min(self.n as u32) {
            self.since_fit = 0;
            self.fit();
        }
    }

    fn fit(&mut self) {
        let (n, x, y) = (i128::from(self.n.max(1)), i128::from(self.x), i128::from(self.y));
        let spread = n * i128::from(self.xx) - x * x;
        // The slope needs sizes that differ: a variance of one sector squared at least.
        let rise = n * i128::from(self.xy) - x * y;
        let slope = if spread >= n * n { ((rise << (SLOPE_SHIFT + 10)) / spread).max(0) } else { 0 };
        let base = ((y << 10) - ((slope * x) >> SLOPE_SHIFT)) / n;
        self.slope = slope as u64;
        self.base = base.max(0) as u64;
    }

    fn predict(&self, sectors: u64) -> u64 {
        self.base.saturating_add(self.slope.saturating_mul(sectors.min(SECTORS_MAX)) >> SLOPE_SHIFT)
    }
}

/// Latency as a line over size for each operation, learned online at almost no cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LatencyLine {
    lines: [Line; 4],
}

fn kind(op: Op) -> usize {
    match op {
        Op::Read | Op::Flush => 0,
        Op::Write => 1,
        Op::Discard | Op::SecureErase => 2,
        Op::WriteZeroes => 3,
    }
}

impl LatencyLine {
    /// Fixed point of [`LatencyLine::slope`].
    pub const SLOPE_SHIFT: u32 = SLOPE_SHIFT;

    /// A line without samples.
    pub fn new() -> LatencyLine {
        LatencyLine::default()
    }

    /// A request of this many sectors took `latency`.
    pub fn learn(&mut self, op: Op, sectors: u64, latency: Nanos) {
        self.lines[kind(op)].learn(sectors, latency.0);
    }

    /// Latency of a request; that of a read for an operation that never completed. `None` before the first completion.
    pub fn predict(&self, op: Op, sectors: u64) -> Option<Nanos> {
        let own = &self.lines[kind(op)];
        let line = if own.n > 0 { own } else { &self.lines[0] };
        (line.n > 0).then(|| Nanos(line.predict(sectors)))
    }

    /// Time per sector beyond the first, nanoseconds times 2^[`LatencyLine::SLOPE_SHIFT`].
    pub fn slope(&self, op: Op) -> u64 {
        self.lines[kind(op)].slope
    }
}
