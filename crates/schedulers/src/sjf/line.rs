//! A line of latency over size for each operation, learned on line: the cheapest sensible predictor.
//!
//! A least-squares fit over decaying sums, in integers: each `HALF_LIFE` completions the sums are halved. After Adios, which
//! drives deadlines by such a line.

use dumbwaiter_block::{Op, Request};

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

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    n: u64,
    x: u64,
    y: u64,
    xx: u128,
    xy: u128,
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
        self.xx += u128::from(x * x);
        self.xy += u128::from(x) * u128::from(y);
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
        let spread = n * self.xx as i128 - x * x;
        // Sizes that hardly differ say nothing about a slope: one sector squared at least.
        let rise = n * self.xy as i128 - x * y;
        let slope = if spread >= n * n { ((rise << (SLOPE_SHIFT + 10)) / spread).max(0) } else { 0 };
        let base = ((y << 10) - ((slope * x) >> SLOPE_SHIFT)) / n;
        self.slope = slope as u64;
        self.base = base.max(0) as u64;
    }

    fn predict(&self, sectors: u64) -> u64 {
        self.base.saturating_add(self.slope.saturating_mul(sectors.min(SECTORS_MAX)) >> SLOPE_SHIFT)
    }
}

/// A line per operation.
#[derive(Clone, Copy, Debug, Default)]
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
    /// Learns the latency of a request.
    pub fn learn(&mut self, request: &Request, latency_ns: u64) {
        self.lines[kind(request.io.op)].learn(u64::from(request.sectors), latency_ns);
    }

    /// Latency of a request, ns; that of reads for an operation that never completed, and 0 before the first completion.
    pub fn predict(&self, request: &Request) -> u64 {
        let own = &self.lines[kind(request.io.op)];
        let line = if own.n > 0 { own } else { &self.lines[0] };
        line.predict(u64::from(request.sectors))
    }

    /// Time per sector beyond the first, times 2^16, ns.
    pub(super) fn slope(&self, request: &Request) -> u64 {
        self.lines[kind(request.io.op)].slope
    }
}

#[cfg(test)]
mod tests {
    use dumbwaiter_block::{Io, Nanos};

    use super::*;

    fn request(op: Op, sectors: u32) -> Request {
        Request::new(Io { op, sectors, ..Io::default() }, Nanos::ZERO)
    }

    #[test]
    fn it_finds_the_line_of_each_operation() {
        let mut line = LatencyLine::default();
        for i in 0..4000u32 {
            let sectors = 8 << (i % 8);
            line.learn(&request(Op::Read, sectors), 100_000 + 500 * u64::from(sectors));
            line.learn(&request(Op::Write, sectors), 3_000_000 + 100 * u64::from(sectors));
            line.learn(&request(Op::Discard, sectors), 20_000);
        }
        for (op, sectors, expected) in [
            (Op::Read, 256, 228_000),
            (Op::Write, 1000, 3_100_000),
            (Op::Discard, 8, 20_000),
            (Op::Discard, 4096, 20_000),
        ] {
            let got = line.predict(&request(op, sectors));
            assert!(got.abs_diff(expected) < expected / 50 + 1100, "{op} {sectors}: {got}");
        }
    }

    #[test]
    fn one_size_gives_its_mean_and_no_slope() {
        let mut line = LatencyLine::default();
        for i in 0..100 {
            line.learn(&request(Op::Read, 8), if i % 2 == 0 { 4_000_000 } else { 8_000_000 });
        }
        assert!(line.predict(&request(Op::Read, 8)).abs_diff(6_000_000) < 100_000);
        assert_eq!(line.slope(&request(Op::Read, 8)), 0);
    }

    #[test]
    fn the_greatest_numbers_do_not_overflow() {
        let mut line = LatencyLine::default();
        for i in 0..10_000u32 {
            let (sectors, latency) = if i % 2 == 0 { (u32::MAX, u64::MAX) } else { (0, 0) };
            line.learn(&request(Op::Write, sectors), latency);
        }
        line.predict(&request(Op::Write, u32::MAX));
    }
}
