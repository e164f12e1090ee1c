//! The time of the call being answered, in nanoseconds and in ticks.

use std::ops::Range;

use dumbwaiter_block::{Nanos, TickClock};

/// The time of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Now {
    pub(super) at: Nanos,
    pub(super) tick: i64,
}

/// Spans of time in ticks, computed once so that no request divides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spans {
    pub(super) ms_10: i64,
    pub(super) ms_100: i64,
    pub(super) ms_500: i64,
    pub(super) ms_1000: i64,
    pub(super) ms_2000: i64,
    pub(super) ms_10_000: i64,
    pub(super) burst: i64,
    pub(super) second: u64,
}

impl Spans {
    fn new(clock: &TickClock, burst_ms: u64) -> Spans {
        Spans {
            ms_10: clock.from_ms(10),
            ms_100: clock.from_ms(100),
            ms_500: clock.from_ms(500),
            ms_1000: clock.from_ms(1000),
            ms_2000: clock.from_ms(2000),
            ms_10_000: clock.from_ms(10_000),
            burst: clock.from_ms(burst_ms),
            second: clock.per_second() as u64,
        }
    }
}

/// The clock, and the time of the last call.
#[derive(Clone, Debug)]
pub(super) struct Time {
    pub(super) clock: TickClock,
    pub(super) spans: Spans,
    pub(super) now: Now,
    /// The times at which the tick is that of `now`.
    tick_span: Range<Nanos>,
}

impl Time {
    pub(super) fn new(clock: TickClock, burst_ms: u64) -> Time {
        let spans = Spans::new(&clock, burst_ms);
        Time { clock, spans, now: Now::default(), tick_span: Nanos::ZERO..Nanos::ZERO }
    }

    /// It is `at` now.
    pub(super) fn at(&mut self, at: Nanos) -> Now {
        // The tick changes seldom: no division unless it did.
        if !self.tick_span.contains(&at) {
            let tick = self.clock.ticks(at);
            self.now.tick = tick;
            self.tick_span = self.clock.time_of(tick)..self.clock.time_of(tick + 1);
        }
        self.now.at = at;
        self.now
    }
}
