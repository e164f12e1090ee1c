//! Which queued command the arm serves next.

use dumbwaiter_block::Nanos;

use super::Hdd;
use super::seek::DEPTH_MAX;

impl Hdd {
    /// Index of a queued command, not just arrived, that continues the transfer that ends now.
    pub(super) fn continuing(&self, now: Nanos) -> Option<usize> {
        if now != self.passed_at || self.starving(now) {
            return None;
        }
        let mut window = self.queue.iter().take(self.rpo_window);
        window.position(|q| q.from == self.next_lba && q.held.arrival < now)
    }

    /// Whether the oldest command has waited longer than `t_age`.
    fn starving(&self, now: Nanos) -> bool {
        self.queue.first().is_some_and(|q| now.since(q.held.arrival) > self.t_age)
    }

    /// Index of the queued command to serve.
    pub(super) fn choose(&self, now: Nanos) -> usize {
        if self.starving(now) {
            return 0;
        }
        let phase = (now.0 + self.phase0) % self.geometry.revolution;
        let mut favour = [0.0; DEPTH_MAX];
        if self.age_weight > 0.0 {
            for (favour, queued) in favour.iter_mut().zip(&self.queue) {
                *favour = self.age_weight * now.since(queued.held.arrival).0 as f32;
            }
        }
        let from = (self.here, phase);
        self.candidates.nearest(from, self.geometry.revolution, self.rpo_window, &self.seek, &favour)
    }
}
