//! The measurement of a load.

use dumbwaiter_block::{Nanos, Op};
use dumbwaiter_path::closed_loop::Timed;
use serde::Serialize;

/// Share of the I/Os of a loop that belong to its start and are not counted.
const WARM_UP_SHARE: usize = 20;

/// Figures of one closed loop, its start left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Point {
    /// I/Os counted.
    pub ios: u64,
    /// I/Os per second.
    pub iops: f64,
    /// 10^6 bytes per second.
    pub mb_per_s: f64,
    /// Mean latency, µs; of the flushes where there are any.
    pub mean_us: f64,
    /// 5th percentile of the latency, µs.
    pub p5_us: f64,
    /// Median latency, µs.
    pub p50_us: f64,
    /// 95th percentile of the latency, µs.
    pub p95_us: f64,
    /// Median time between two completions, µs.
    pub gap_p50_us: f64,
    /// CPU time of the surveying thread per I/O, µs; 0 in virtual time.
    pub host_us: f64,
}

impl Point {
    /// Of the I/Os of a loop, in order of completion; `None` if there are too few.
    pub(crate) fn of(timed: &[Timed], depth: u32, cpu: Nanos) -> Option<Point> {
        let skip = (timed.len() / WARM_UP_SHARE).max((depth as usize).min(timed.len() / 4)).max(1);
        let (before, counted) = (timed.get(skip - 1)?.completed, timed.get(skip..)?);
        let seconds = counted.last()?.completed.since(before).as_secs_f64();
        if counted.len() < 4 || seconds <= 0.0 {
            return None;
        }
        let flushes = counted.iter().any(|io| io.access.op == Op::Flush);
        let bytes: u64 = counted.iter().map(|io| u64::from(io.access.sectors) * 512).sum();
        let latency = |io: &Timed| io.completed.since(io.submitted).as_us_f64();
        let of_flush = |io: &&Timed| !flushes || io.access.op == Op::Flush;
        let mut latencies: Vec<f64> = counted.iter().filter(of_flush).map(latency).collect();
        latencies.sort_by(f64::total_cmp);
        let mut gaps: Vec<f64> =
            counted.windows(2).map(|pair| pair[1].completed.since(pair[0].completed).as_us_f64()).collect();
        gaps.sort_by(f64::total_cmp);
        let at = |sorted: &[f64], share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize];
        Some(Point {
            ios: counted.len() as u64,
            iops: counted.len() as f64 / seconds,
            mb_per_s: bytes as f64 / seconds / 1e6,
            mean_us: latencies.iter().sum::<f64>() / latencies.len() as f64,
            p5_us: at(&latencies, 0.05),
            p50_us: at(&latencies, 0.5),
            p95_us: at(&latencies, 0.95),
            gap_p50_us: at(&gaps, 0.5),
            host_us: cpu.as_us_f64() / timed.len() as f64,
        })
    }
}
