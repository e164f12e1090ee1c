//! I/O completed by a device, and its score.

use dumbwaiter_block::Nanos;

use crate::switching::settings::Goal;

/// I/O completed in a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Requests.
    pub ios: u64,
    /// Bytes.
    pub bytes: u64,
    /// Sum of their latencies.
    pub latency: Nanos,
}

impl Work {
    /// The score, higher is better: bytes per second, or requests per second of waiting.
    pub fn score(&self, goal: Goal, elapsed: Nanos) -> f64 {
        match goal {
            Goal::Throughput => self.bytes as f64 / elapsed.as_secs_f64().max(1e-9),
            Goal::Latency => self.ios as f64 / self.latency.as_secs_f64().max(1e-9),
        }
    }

    /// Mean latency of a request, seconds; 0 without requests.
    pub fn mean_latency_s(&self) -> f64 {
        self.latency.as_secs_f64() / self.ios.max(1) as f64
    }

    /// The sum.
    pub fn plus(self, other: Work) -> Work {
        Work { ios: self.ios + other.ios, bytes: self.bytes + other.bytes, latency: self.latency + other.latency }
    }
}
