//! Time since the start of a run. Nothing here can read a clock: time is handed in.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A point in time, or a span of it, in nanoseconds. Points count from the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The start of the run, or an empty span.
    pub const ZERO: Nanos = Nanos(0);
    /// Later than anything that happens.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// A span of whole microseconds.
    pub const fn from_us(us: u64) -> Nanos {
        Nanos(us.saturating_mul(1_000))
    }

    /// A span of whole milliseconds.
    pub const fn from_ms(ms: u64) -> Nanos {
        Nanos(ms.saturating_mul(1_000_000))
    }

    /// A span of whole seconds.
    pub const fn from_secs(s: u64) -> Nanos {
        Nanos(s.saturating_mul(1_000_000_000))
    }

    /// A span of microseconds, rounded half up to a nanosecond; negative becomes 0.
    pub fn from_us_f64(us: f64) -> Nanos {
        Nanos((us * 1e3 + 0.5).max(0.0) as u64)
    }

    /// A span of seconds, rounded half up to a nanosecond; negative becomes 0.
    pub fn from_secs_f64(s: f64) -> Nanos {
        Nanos((s * 1e9 + 0.5).max(0.0) as u64)
    }

    /// This span in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// This span in microseconds.
    pub fn as_us_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// The span since `earlier`, or 0 where that is later.
    pub const fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, rhs: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, rhs: Nanos) {
        *self = *self + rhs;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, rhs: Nanos) -> Nanos {
        debug_assert!(rhs <= self, "{self} - {rhs} would be before the run");
        Nanos(self.0.saturating_sub(rhs.0))
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n < 1_000 => write!(f, "{n} ns"),
            n if n < 1_000_000 => write!(f, "{:.2} us", n as f64 / 1e3),
            n if n < 1_000_000_000 => write!(f, "{:.2} ms", n as f64 / 1e6),
            n => write!(f, "{:.3} s", n as f64 / 1e9),
        }
    }
}

/// The kernel's coarse clock ("jiffies"): ticks of a fixed period whose phase is known.
/// Some schedulers count in ticks, and what they decide depends on where the ticks fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickClock {
    /// Length of a tick.
    pub period: Nanos,
    /// A time at which the tick count steps.
    pub step_at: Nanos,
}

impl TickClock {
    /// HZ = 250, as distribution kernels are built, stepping at the start of the run.
    pub const HZ_250: TickClock = TickClock { period: Nanos::from_ms(4), step_at: Nanos::ZERO };

    /// The tick count at `now`; it may be negative before the first known step.
    pub fn ticks(&self, now: Nanos) -> i64 {
        (now.0 as i64).saturating_sub(self.step_at.0 as i64).div_euclid((self.period.0 as i64).max(1))
    }

    /// When the count becomes `tick`, not before 0.
    pub fn time_of(&self, tick: i64) -> Nanos {
        let ns = self.step_at.0 as i128 + tick as i128 * self.period.0 as i128;
        Nanos(ns.clamp(0, u64::MAX as i128) as u64)
    }

    /// Ticks in one second (HZ).
    pub fn per_second(&self) -> i64 {
        (1_000_000_000 / self.period.0.max(1)) as i64
    }

    /// Milliseconds in ticks, rounded up as the kernel rounds its tunables.
    pub fn from_ms(&self, ms: u64) -> i64 {
        // Saturated, it is 584 years.
        ms.saturating_mul(1_000_000).div_ceil(self.period.0.max(1)).min(i64::MAX as u64 / 4) as i64
    }
}

impl Default for TickClock {
    fn default() -> Self {
        TickClock::HZ_250
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_follow_the_phase() {
        let c = TickClock { period: Nanos::from_ms(4), step_at: Nanos(1_976_391) };
        assert_eq!(c.ticks(Nanos(0)), -1);
        assert_eq!(c.ticks(Nanos(1_976_390)), -1);
        assert_eq!(c.ticks(Nanos(1_976_391)), 0);
        assert_eq!(c.ticks(Nanos(5_976_391)), 1);
        assert_eq!(c.time_of(1), Nanos(5_976_391));
        assert_eq!(c.from_ms(50), 13);
        assert_eq!(c.per_second(), 250);
    }

    #[test]
    fn spans_round_half_up_and_never_wrap() {
        assert_eq!(Nanos::from_us_f64(0.0005), Nanos(1));
        assert_eq!(Nanos::from_us_f64(-3.0), Nanos::ZERO);
        assert_eq!(Nanos(3).since(Nanos(5)), Nanos::ZERO);
        assert_eq!(Nanos::MAX + Nanos(1), Nanos::MAX);
    }
}
