//! Linux's tick counter and its timers, which are late by rule: all controllers of the kernel see time through them.

use dumbwaiter_block::{Nanos, TickClock};

/// The levels of the timer wheel: ticks ahead below which a timer is in the level, and the level's granularity in ticks.
const LEVELS: [(i64, i64); 4] = [(63, 1), (504, 8), (4032, 64), (32_256, 512)];

/// Granularity of what is further away.
const FARTHEST: i64 = 4096;

/// The tick counter (Linux: `jiffies`). Where slices and late timers are rounded to depends on its value, not on the time alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jiffies {
    /// When it steps.
    pub clock: TickClock,
    /// Its value while [`TickClock::ticks`] says 0.
    pub offset: i64,
}

impl Jiffies {
    /// Its value at `now`.
    pub fn at(&self, now: Nanos) -> i64 {
        self.clock.ticks(now) + self.offset
    }

    /// When it becomes `tick`.
    pub fn time_of(&self, tick: i64) -> Nanos {
        self.clock.time_of(tick - self.offset)
    }

    /// When a timer runs that is set at `now` for `tick`.
    pub fn timer(&self, now: Nanos, tick: i64) -> Nanos {
        self.time_of(runs_at(tick, tick - self.at(now)))
    }

    /// Ticks in a second.
    pub fn hz(&self) -> i64 {
        self.clock.per_second()
    }
}

/// The tick at which a timer runs that is set `ahead` ticks ahead, for the tick `expires`.
///
/// One of the wheel's first level (up to 62 ticks ahead) runs a tick late; one further ahead at the next multiple of its level's
/// granularity above the tick that was asked for.
fn runs_at(expires: i64, ahead: i64) -> i64 {
    let level = LEVELS.iter().find(|(below, _)| ahead < *below);
    let granularity = level.map_or(FARTHEST, |(_, granularity)| *granularity);
    (expires.div_euclid(granularity) + 1) * granularity
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_late_by_their_level() {
        assert_eq!(runs_at(125, 25), 126);
        assert_eq!(runs_at(100, 62), 101);
        assert_eq!(runs_at(100, 63), 104);
        assert_eq!(runs_at(104, 63), 112);
        assert_eq!(runs_at(1000, 504), 1024);
    }

    #[test]
    fn the_counter_has_a_value_of_its_own() {
        let jiffies = Jiffies { clock: TickClock::HZ_250, offset: 1003 };
        assert_eq!(jiffies.at(Nanos::from_ms(9)), 1005);
        assert_eq!(jiffies.time_of(1005), Nanos::from_ms(8));
        // 100 ticks ahead of 1005: the next multiple of 8 above 1105 is 1112.
        assert_eq!(jiffies.timer(Nanos::from_ms(9), 1105), Nanos::from_ms((1112 - 1003) * 4));
    }
}
