//! Turns of A+CFQ's tenants: when one begins, how long the device idles in it, and when it ends.

use dumbwaiter_block::Nanos;

use super::Cfq;
use super::anticipation::Turn;

impl Cfq {
    /// A queue of the serving group begins its slice: unless its tenant is in service, the tenant's slot begins.
    pub(super) fn begin_turn(&mut self, now: i64) {
        let g = self.serving.group;
        if self.anticipation.as_ref().is_none_or(|a| a.turn.is_some()) {
            return;
        }
        let end = now + self.slot_of(g);
        if let Some(a) = &mut self.anticipation {
            a.turn = Some(Turn { group: g, start: now, end, sectors: 0, last_dispatch: None, deadline: None });
        }
    }

    pub(super) fn end_turn(&mut self) {
        if let Some(a) = &mut self.anticipation {
            a.end_turn(&self.groups);
        }
    }

    /// A request of group `g` arrived.
    pub(super) fn tenant_asks(&mut self, g: u32) {
        if let Some(a) = &mut self.anticipation {
            if let Some(turn) = &mut a.turn
                && turn.group == g
            {
                turn.deadline = None;
            }
            a.backlog(g, &self.groups);
        }
    }

    /// A request left group `g` without being served.
    pub(super) fn tenant_lost_one(&mut self, g: u32) {
        if let Some(a) = &mut self.anticipation
            && self.groups[g as usize].queued == 0
            && !a.serves(g)
        {
            a.drain(g, &self.groups);
        }
    }

    /// The tenant in service sends a request.
    pub(super) fn tenant_sends(&mut self, sectors: u32, at: Nanos) {
        let Some(a) = &mut self.anticipation else { return };
        let Some(turn) = &mut a.turn else { return };
        turn.sectors += u64::from(sectors);
        turn.deadline = None;
        if let Some(last) = turn.last_dispatch.replace(at) {
            let habit = &mut a.habits[turn.group as usize];
            let interval = at.since(last).0;
            habit.mean = match habit.samples {
                0 => interval,
                _ if interval >= habit.mean => habit.mean + (interval - habit.mean) / 8,
                _ => habit.mean - (habit.mean - interval) / 8,
            };
            habit.samples = habit.samples.saturating_add(1);
        }
    }

    /// A request of group `g` is done. If it was synchronous and the tenant's last, the device idles for the next.
    pub(super) fn tenant_done(&mut self, g: u32, sync: bool, at: Nanos) {
        let group = &self.groups[g as usize];
        let Some(a) = &mut self.anticipation else { return };
        let window = a.window(g);
        if sync
            && group.queued == 0
            && group.in_flight == 0
            && let Some(turn) = &mut a.turn
            && turn.group == g
        {
            turn.deadline = Some(at + Nanos(window));
        }
    }
}
