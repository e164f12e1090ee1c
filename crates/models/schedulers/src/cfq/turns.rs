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

    /// A tenant's part of the target latency.
    fn slot_of(&self, g: u32) -> i64 {
        self.share_of_target(g).max(2 * self.clock.tick)
    }

    /// One more tenant is backlogged: shortens the slot in service. Otherwise a tenant that was alone for a moment would
    /// keep the device for the whole target latency.
    pub(super) fn shorten_turn(&mut self) {
        let Some(Turn { group, start, .. }) = self.anticipation.as_ref().and_then(|a| a.turn) else { return };
        // A tenant without queued requests has no part yet; its next request leads here again.
        if self.groups[group as usize].queues == 0 {
            return;
        }
        self.refresh(group);
        let end = start + self.slot_of(group);
        if let Some(turn) = self.anticipation.as_mut().and_then(|a| a.turn.as_mut()) {
            turn.end = turn.end.min(end);
        }
    }

    pub(super) fn end_turn(&mut self) {
        if let Some(a) = &mut self.anticipation {
            a.end_turn(&self.groups);
        }
    }

    /// Until when the device idles for the tenant in service, which has nothing to send; `None` if it does not. A slot that
    /// is used up, or for which the device idled in vain, ends here.
    pub(super) fn hold_turn(&mut self, now: i64, at: Nanos) -> Option<Nanos> {
        let a = self.anticipation.as_ref()?;
        let turn = a.turn?;
        let group = &self.groups[turn.group as usize];
        let slot_sectors = a.slot_sectors;
        let used_up = match slot_sectors {
            0 => now >= turn.end,
            n => turn.sectors >= n.saturating_mul(u64::from(group.weight)),
        };
        if !used_up {
            if group.queued > 0 {
                return None;
            }
            if group.in_flight > 0 {
                let end = if slot_sectors == 0 { self.clock.time_of(turn.end) } else { Nanos::MAX };
                return Some(end.max(Nanos(at.0 + 1)));
            }
            if let Some(deadline) = turn.deadline
                && at < deadline
            {
                return Some(deadline);
            }
        }
        self.expire(used_up, now);
        self.end_turn();
        None
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
