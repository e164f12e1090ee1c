//! Fractions of the active groups, and the order in which they are served.
//!
//! All active groups are in one order of virtual time, which runs faster for a small fraction. A group that was away goes
//! to the end of the line.

use super::anticipation::Turn;
use super::group::WHOLE;
use super::queue::NONE;
use super::{Cfq, Version};

impl Cfq {
    /// Group `g` gets its first queue.
    pub(super) fn activate_group(&mut self, g: u32) {
        let leaf = self.set.leaf_weight[usize::from(g == 0)];
        self.groups[g as usize].leaf_weight = leaf;
        let mut at = g;
        let mut weight = u64::from(leaf);
        loop {
            let group = &mut self.groups[at as usize];
            group.children_weight += weight;
            group.active_children += 1;
            if group.active_children > 1 || group.parent == NONE {
                break;
            }
            group.weight = group.wanted_weight;
            weight = u64::from(group.weight);
            at = group.parent;
        }
        self.refresh(g);
        let from = match self.line.last() {
            Some(last) => self.groups[last as usize].vdisktime.saturating_add(self.new_group_delay()),
            None => self.min_vdisktime,
        };
        self.groups[g as usize].vdisktime = from;
        self.order.insert(&mut self.line, g, from);
        self.shorten_turn();
    }

    /// Group `g` lost its last queue; what it had used is forgotten.
    pub(super) fn deactivate_group(&mut self, g: u32) {
        self.order.remove(&mut self.line, g);
        self.groups[g as usize].saved.rest = 0;
        let mut at = g;
        let mut weight = u64::from(self.groups[g as usize].leaf_weight);
        loop {
            let group = &mut self.groups[at as usize];
            group.children_weight -= weight;
            group.active_children -= 1;
            if group.active_children > 0 || group.parent == NONE {
                return;
            }
            weight = u64::from(group.weight);
            at = group.parent;
        }
    }

    /// Takes up new weights of an active group, and computes its fraction among those active now.
    pub(super) fn refresh(&mut self, g: u32) {
        let leaf = self.set.leaf_weight[usize::from(g == 0)];
        let own = &mut self.groups[g as usize];
        own.children_weight = own.children_weight + u64::from(leaf) - u64::from(own.leaf_weight);
        own.leaf_weight = leaf;
        let part = |of: u64, weight: u32, sum: u64| {
            if u64::from(weight) == sum { of } else { of * u64::from(weight) / sum.max(1) }
        };
        let mut fraction = part(WHOLE, own.leaf_weight, own.children_weight);
        let mut at = g;
        while self.groups[at as usize].parent != NONE {
            let group = &mut self.groups[at as usize];
            let (old, weight, parent) = (group.weight, group.wanted_weight, group.parent);
            group.weight = weight;
            let above = &mut self.groups[parent as usize];
            above.children_weight = above.children_weight + u64::from(weight) - u64::from(old);
            fraction = part(fraction, weight, above.children_weight);
            at = parent;
        }
        self.groups[g as usize].vfraction = fraction.max(1);
    }

    /// By how much a group that becomes active goes behind the last: next to nothing.
    fn new_group_delay(&self) -> u64 {
        match self.version {
            Version::K310 | Version::K318 => self.clock.second as u64 / 5,
            Version::K420 if self.counts_requests() => 1,
            Version::K420 => 200_000_000,
        }
    }

    /// Charges an active group and sorts it again.
    pub(super) fn charge_group(&mut self, g: u32, charge: i64) {
        let group = &mut self.groups[g as usize];
        let charge = charge.max(0) as u64;
        // 24 bits: 12 for the fraction and 12 for the fixed point of virtual time.
        let step = match charge.checked_mul(1 << 24) {
            Some(scaled) if group.vfraction == WHOLE => scaled / WHOLE,
            Some(scaled) => scaled / group.vfraction,
            None => (charge / group.vfraction).saturating_mul(1 << 24),
        };
        group.vdisktime = group.vdisktime.saturating_add(step);
        let vdisktime = group.vdisktime;
        self.order.rekey(&mut self.line, g, vdisktime);
        self.refresh(g);
        self.note_min_vdisktime();
    }

    fn note_min_vdisktime(&mut self) {
        if let Some(first) = self.line.first() {
            self.min_vdisktime = self.min_vdisktime.max(self.groups[first as usize].vdisktime);
        }
    }

    /// The group that has used least; its workload continues where it was interrupted.
    pub(super) fn choose_group(&mut self, now: i64) -> Option<u32> {
        self.note_min_vdisktime();
        let g = match &self.anticipation {
            Some(anticipation) => anticipation.choose()?,
            None => self.line.first()?,
        };
        self.serving.group = g;
        let saved = self.groups[g as usize].saved;
        if saved.rest > 0 {
            (self.serving.class, self.serving.kind) = (saved.class, saved.kind);
            self.serving.end = now + saved.rest;
        } else {
            self.serving.end = now - 1;
        }
        Some(g)
    }

    /// A group's part of the target latency.
    pub(super) fn share_of_target(&self, g: u32) -> i64 {
        mul_div(self.set.target_latency, self.groups[g as usize].vfraction as i64, WHOLE as i64)
    }

    /// A tenant's part of the target latency.
    pub(super) fn slot_of(&self, g: u32) -> i64 {
        self.share_of_target(g).max(2 * self.clock.tick)
    }

    /// One more tenant is backlogged: shortens the slot in service. Otherwise a tenant that was alone for a moment would
    /// keep the device for the whole target latency.
    fn shorten_turn(&mut self) {
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
}

/// `a * b / c` without overflow.
pub(super) fn mul_div(a: i64, b: i64, c: i64) -> i64 {
    match a.checked_mul(b) {
        Some(product) => product / c.max(1),
        None => (i128::from(a) * i128::from(b) / i128::from(c.max(1))) as i64,
    }
}
