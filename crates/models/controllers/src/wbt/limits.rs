//! How many buffered writes may be in the device at each step of the throttle, and how long its window is (Linux 6.12 and 6.18).

use dumbwaiter_block::Nanos;

/// Length of a window at step 0 and below.
const WINDOW_NS: u64 = 100_000_000;

/// Requests that may be in the device, of each counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// For those that someone waits for, and while dirtiers are throttled.
    pub max: u32,
    /// For other write-back.
    pub normal: u32,
    /// For background write-back, write-back beside recent reads, and discards.
    pub background: u32,
}

/// The limits at a step for a device of this queue depth. `throttles`: there is a target. The flag: the next step down would
/// allow no more.
pub fn limits(depth: u32, step: i32, throttles: bool) -> (Limits, bool) {
    let depth = depth.max(1);
    let base = depth.min(16);
    let (max, topped) = if depth == 1 {
        // One request cannot be halved: two may be counted until the device is found slow.
        (if step > 0 { 1 } else { 2 }, step <= 0)
    } else if step > 0 {
        (1 + ((base - 1) >> step.min(31)), false)
    } else if step < 0 {
        let wanted = 1 + (u64::from(base - 1) << step.unsigned_abs().min(31));
        let most = 3 * u64::from(depth) / 4;
        (wanted.min(most) as u32, wanted > most)
    } else {
        (base, false)
    };
    let (normal, background) = match max {
        _ if !throttles => (0, 0),
        ..=2 => (max, 1),
        _ => (max.div_ceil(2), max.div_ceil(4)),
    };
    (Limits { max, normal, background }, topped)
}

/// The window at a step: it shrinks with the square root while writes are throttled.
pub fn window(step: i32) -> Nanos {
    match u64::try_from(step) {
        Ok(step) if step > 0 => Nanos((WINDOW_NS << 4) / (256 * (step + 1)).isqrt()),
        _ => Nanos(WINDOW_NS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Limits as max, normal, background.
    fn of(depth: u32, step: i32) -> (u32, u32, u32) {
        let (found, _) = limits(depth, step, true);
        (found.max, found.normal, found.background)
    }

    #[test]
    fn limits_are_those_of_the_kernel() {
        for (depth, step, expected) in [
            (256, -4, (192, 96, 48)),
            (256, -3, (121, 61, 31)),
            (128, -3, (96, 48, 24)),
            (256, -2, (61, 31, 16)),
            (128, -2, (61, 31, 16)),
            (64, -1, (31, 16, 8)),
            (16, 0, (16, 8, 4)),
            (16, 4, (1, 1, 1)),
            (64, -2, (48, 24, 12)),
            (256, -1, (31, 16, 8)),
            (32, -1, (24, 12, 6)),
            (16, -1, (12, 6, 3)),
            (8, -1, (6, 3, 2)),
            (4, -1, (3, 2, 1)),
            (1023, 0, (16, 8, 4)),
            (8, 0, (8, 4, 2)),
            (4, 0, (4, 2, 1)),
            (256, 1, (8, 4, 2)),
            (8, 1, (4, 2, 1)),
            (4, 1, (2, 2, 1)),
            (256, 2, (4, 2, 1)),
            (256, 3, (2, 2, 1)),
            (256, 4, (1, 1, 1)),
            (2, -1, (1, 1, 1)),
            (1, 0, (2, 2, 1)),
            (1, -1, (2, 2, 1)),
            (1, 1, (1, 1, 1)),
        ] {
            assert_eq!(of(depth, step), expected, "depth {depth}, step {step}");
        }
        assert!(limits(256, -4, true).1 && !limits(256, -3, true).1 && limits(128, -3, true).1);
        assert_eq!(limits(64, 0, false).0, Limits { max: 16, normal: 0, background: 0 });
    }

    #[test]
    fn windows_shrink_while_writes_are_throttled() {
        let ticks = |step| window(step).0 / 4_000_000;
        assert_eq!([-3, 0, 1, 2, 3, 4].map(ticks), [25, 25, 18, 14, 12, 11]);
        assert_eq!(window(3), Nanos::from_ms(50));
    }
}
