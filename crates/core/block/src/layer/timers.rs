//! When the layer wants to be called, and what it does then.

use crate::Nanos;
use crate::layer::BlockLayer;
use crate::scheduler::Event;

impl BlockLayer {
    /// When [`BlockLayer::timer`] wants to be called, if ever.
    #[inline]
    pub fn next_timer(&self) -> Option<Nanos> {
        let next = match (self.hw.rerun_at, self.scheduler.timer()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if self.corridor.is_empty() { next } else { next.into_iter().chain(self.corridor.next_timer()).min() }
    }

    /// Time has come to `now`: fires what is due.
    pub fn timer(&mut self, now: Nanos) {
        if !self.corridor.is_empty() {
            self.wake_sleepers(now);
            self.tick_controllers(now);
        }
        if self.scheduler.timer().is_some_and(|t| t <= now) {
            self.schedule_event(now, Event::Timer);
        }
        self.settle(now);
        self.hw.run_due(now);
    }
}
