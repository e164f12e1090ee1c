//! Latency as a line over size, learned while requests complete.

use dumbwaiter_block::{Nanos, Op};

/// Latency as a line over size for each of reads and writes, learned on line: the baseline that costs almost nothing.
///
/// Least squares over all completions with exponential forgetting, in whole numbers of the caller's completions only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencyLine {
    lines: [Line; 2],
}

/// Sums of a weighted least-squares fit of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Line {
    weight: f64,
    size: f64,
    latency: f64,
    size_square: f64,
    product: f64,
}

impl LatencyLine {
    /// Weight that is left of a completion after the next one of the same operation.
    const MEMORY: f64 = 1.0 - 1.0 / 1024.0;

    /// Nothing learned yet.
    pub fn new() -> LatencyLine {
        LatencyLine::default()
    }

    /// A request completed.
    pub fn push(&mut self, op: Op, bytes: u32, latency: Nanos) {
        let line = &mut self.lines[usize::from(op == Op::Write)];
        let (x, y) = (f64::from(bytes) / 4096.0, latency.0 as f64);
        let terms = [1.0, x, y, x * x, x * y];
        let sums = [&mut line.weight, &mut line.size, &mut line.latency, &mut line.size_square, &mut line.product];
        for (sum, term) in sums.into_iter().zip(terms) {
            *sum = *sum * LatencyLine::MEMORY + term;
        }
    }

    /// The latency it expects; `None` before the first completion of the operation.
    pub fn predict(&self, op: Op, bytes: u32) -> Option<Nanos> {
        let line = &self.lines[usize::from(op == Op::Write)];
        if line.weight == 0.0 {
            return None;
        }
        let (mean_x, mean_y) = (line.size / line.weight, line.latency / line.weight);
        let spread = line.size_square - line.size * mean_x;
        // Sizes that hardly differ give no slope; a line that falls with size is chance.
        let slope =
            if spread > 1e-6 * line.weight { ((line.product - line.size * mean_y) / spread).max(0.0) } else { 0.0 };
        Some(Nanos((mean_y + slope * (f64::from(bytes) / 4096.0 - mean_x)).max(1e3) as u64))
    }
}
