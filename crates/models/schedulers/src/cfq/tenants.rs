//! Tenants that come, change and go, and the groups that stand for them.

use dumbwaiter_block::{Context, Nanos, TenantId};

use super::Cfq;
use super::group::Group;
use super::queue::NONE;
use crate::mechanisms::nesting;

impl Cfq {
    /// The group of a tenant: group 0 for the root, and for a tenant that is alone.
    pub(super) fn group_of(&mut self, tenant: TenantId, ctx: &Context<'_>) -> u32 {
        let index = tenant.0 as usize;
        match self.tenants.get(index) {
            Some(group) if *group != NONE => *group,
            _ => self.make_group(tenant, ctx),
        }
    }

    #[cold]
    fn make_group(&mut self, tenant: TenantId, ctx: &Context<'_>) -> u32 {
        let index = tenant.0 as usize;
        let slots = ctx.tenants.tenant_slots();
        if index >= self.tenants.len() {
            self.tenants.resize(index.max(slots.saturating_sub(1)) + 1, NONE);
        }
        if slots <= 1 || ctx.tenants.is_root(tenant) {
            self.tenants[index] = 0;
            return 0;
        }
        let own = ctx.tenants.tenant(tenant).copied().unwrap_or_default();
        let parent = nesting::parent_of(&own, ctx.tenants).map_or(0, |parent| self.group_of(parent, ctx));
        self.groups[parent as usize].references += 1;
        let made = Group::new(parent, own.weight.max(1), self.clock.count(ctx.now));
        let group = match self.free_groups.pop() {
            Some(group) => {
                self.groups[group as usize] = made;
                group
            }
            None => {
                self.groups.push(made);
                self.groups.len() as u32 - 1
            }
        };
        self.tenants[index] = group;
        group
    }

    /// One more tenant: one that was alone before, as the root, has siblings now. Its tasks follow with their next request.
    pub(super) fn tenant_added(&mut self, ctx: &Context<'_>) {
        if ctx.tenants.tenant_slots() > 1 {
            for (tenant, group) in self.tenants.iter_mut().enumerate() {
                if *group == 0 && !ctx.tenants.is_root(TenantId(tenant as u32)) {
                    *group = NONE;
                }
            }
        }
    }

    /// A tenant's weight changed: it counts from when the group is sorted again. Or its parent changed: then it and the
    /// tenants nested in it get new groups.
    pub(super) fn tenant_changed(&mut self, tenant: TenantId, ctx: &Context<'_>) {
        let group = self.tenants.get(tenant.0 as usize).copied().unwrap_or(NONE);
        let Some(own) = ctx.tenants.tenant(tenant).filter(|_| group != NONE && group != 0) else { return };
        self.groups[group as usize].wanted_weight = own.weight.max(1);
        let group_of = |parent: TenantId| self.tenants.get(parent.0 as usize).copied().unwrap_or(NONE);
        let parent = nesting::parent_of(own, ctx.tenants).map_or(0, group_of);
        if parent == self.groups[group as usize].parent {
            return;
        }
        for index in 0..self.tenants.len() {
            let nested = self.tenants[index];
            if nested != NONE && nested != 0 && (nested == group || self.descends(nested, group)) {
                self.part_from_group(index, ctx.now);
            }
        }
    }

    /// Is group `below` nested in `above`?
    pub(super) fn descends(&self, below: u32, above: u32) -> bool {
        let mut at = self.groups[below as usize].parent;
        while at != NONE && at != above {
            at = self.groups[at as usize].parent;
        }
        at == above
    }

    /// A tenant was retired, and its number may be used again.
    pub(super) fn tenant_retired(&mut self, tenant: TenantId, now: Nanos) {
        let index = tenant.0 as usize;
        let Some(group) = self.tenants.get(index).copied().filter(|g| *g != NONE) else { return };
        if group == 0 {
            self.tenants[index] = NONE;
            return;
        }
        // Tasks that moved to another tenant since their last request leave their queues.
        let in_group = |cfq: &Cfq, q: u32| q != NONE && cfq.queues[q as usize].group == group;
        for task in 0..self.processes.len() {
            if in_group(self, self.processes[task].queue) {
                self.detach(task);
            }
        }
        self.part_from_group(index, now);
    }

    /// A tenant's group has no tenant any more; it goes when its last queue does.
    fn part_from_group(&mut self, tenant: usize, at: Nanos) {
        let g = std::mem::replace(&mut self.tenants[tenant], NONE);
        if let Some(active) = self.queues.get(self.active as usize)
            && active.group == g
            && active.is_empty()
        {
            let now = self.clock.count(at);
            self.expire(false, now);
        }
        for place in 0..self.groups[g as usize].asyncs.len() {
            let q = std::mem::replace(&mut self.groups[g as usize].asyncs[place], NONE);
            if q != NONE {
                self.queues[q as usize].tasks -= 1;
                self.release_queue(q);
            }
        }
        self.release_group(g);
    }

    /// A tenant, a queue or a nested group does not use this group any more.
    pub(super) fn release_group(&mut self, g: u32) {
        let group = &mut self.groups[g as usize];
        group.references -= 1;
        if group.references > 0 {
            return;
        }
        let parent = group.parent;
        if let Some(anticipation) = &mut self.anticipation {
            anticipation.forget(g, &self.groups);
        }
        if self.serving.group == g {
            self.serving.group = 0;
        }
        self.free_groups.push(g);
        self.release_group(parent);
    }
}
