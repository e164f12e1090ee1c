//! A pattern of idling and load that a power logger records, by which its clock is found.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::time::unix_ns;

/// Idle, load, idle: the length of each, which the alignment of the logger's clock looks for.
const PART: Duration = Duration::from_secs(20);
/// How soon cancelling is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A line for people while the pattern runs.
pub(crate) fn description() -> String {
    format!("a minute for the power logger: {} s each of idling, full load and idling", PART.as_secs())
}

/// 20 s of idling, 20 s of load on every CPU, 20 s of idling. Returns when it began, in seconds since 1970; `None` if it was
/// cancelled.
pub(crate) fn run(cancel: &AtomicBool) -> Option<f64> {
    let began = unix_ns() as f64 / 1e9;
    let start = Instant::now();
    let cancelled = || cancel.load(Ordering::Relaxed);
    let idle_until = |end: Duration| {
        while start.elapsed() < end && !cancelled() {
            std::thread::sleep(POLL_INTERVAL);
        }
    };
    idle_until(PART);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                let mut x = 1u64;
                while start.elapsed() < 2 * PART && !cancelled() {
                    for _ in 0..10_000 {
                        x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                    }
                }
            });
        }
    });
    idle_until(3 * PART);
    (!cancelled()).then_some(began)
}
