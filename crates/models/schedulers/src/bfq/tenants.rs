//! Tenants that come, change and go, and the groups that stand for them.

use dumbwaiter_block::{Context, TenantId};

use super::queue::{Group, NONE, QueueId};
use super::reason::Reason;
use super::{Bfq, Now};
use crate::mechanisms::nesting;
use crate::mechanisms::wf2q::NodeId;

/// Is this the root, or the only tenant?
fn is_root(tenant: u32, ctx: &Context<'_>) -> bool {
    ctx.tenants.tenant_slots() <= 1 || ctx.tenants.is_root(TenantId(tenant))
}

impl Bfq {
    /// The group of a tenant. The root's tasks have no group around them in the engine: their queues are siblings of the
    /// outermost groups. A tenant that is alone is the root.
    pub(super) fn group_of(&mut self, tenant: u32, ctx: &Context<'_>) -> u32 {
        while tenant as usize >= self.tenants.len() {
            self.tenants.push(NONE);
        }
        let known = self.tenants[tenant as usize];
        if known != NONE {
            return known;
        }
        let own = ctx.tenants.tenant(TenantId(tenant)).copied();
        let group = match own {
            Some(own) if !is_root(tenant, ctx) => {
                let parent = nesting::parent_of(&own, ctx.tenants).map(|p| self.group_of(p.0, ctx));
                let above = parent.map_or(NodeId::ROOT, |p| self.groups[p as usize].node);
                if let Some(parent) = parent {
                    self.groups[parent as usize].references += 1;
                }
                let (entity, inside) = self.engine.add_group(above, NONE, self.group_weight(own.weight));
                Group::new(inside, Some(entity), parent, own.weight)
            }
            _ => Group::new(NodeId::ROOT, None, None, own.map_or(100, |own| own.weight)),
        };
        let id = self.free_groups.pop().unwrap_or(self.groups.len() as u32);
        if id as usize == self.groups.len() {
            self.groups.push(group);
        } else {
            self.groups[id as usize] = group;
        }
        self.tenants[tenant as usize] = id;
        id
    }

    /// A tenant's weight in the engine.
    pub(super) fn group_weight(&self, configured: u32) -> u32 {
        if self.values.on.group_weights { configured.clamp(1, 1000) } else { self.constants.default_weight }
    }

    /// The process belongs to another tenant now: it takes its queue along, or leaves a shared one.
    pub(super) fn change_group(&mut self, task: u32, q: QueueId, group: u32, now: Now) -> QueueId {
        if self.queues[q as usize].coop || self.queues[q as usize].merge_into != NONE {
            self.processes[task as usize].queue = NONE;
            self.saved[task as usize] = None;
            self.release(q, now);
            return NONE;
        }
        if self.in_service == Some(q) {
            self.expire(q, Reason::Preempted, false, now);
        }
        let busy = self.queues[q as usize].busy;
        if busy {
            self.idle_out_of_service(q, now);
        }
        let pending = self.queues[q as usize].pending;
        self.set_pending(q, false);
        if self.queues[q as usize].by_position {
            let queue = &mut self.queues[q as usize];
            queue.by_position = false;
            self.positions.remove(&mut self.groups[queue.group as usize].positions, q);
        }
        let old = self.queues[q as usize].group as usize;
        if self.groups[old].last_created == q {
            self.groups[old].last_created = NONE;
        }
        let allocated = self.queues[q as usize].allocated as i32;
        self.allocate(q, -allocated);
        let node = self.groups[group as usize].node;
        self.engine.move_leaf(self.queues[q as usize].entity, node);
        self.queues[q as usize].group = group;
        self.allocate(q, allocated);
        self.groups[group as usize].references += 1;
        self.release_group(old as u32);
        if busy && !self.queues[q as usize].is_empty() {
            let queue = &self.queues[q as usize];
            let budget = queue.max_budget.max(self.cost(q, queue.next));
            self.engine.set_budget(queue.entity, budget);
            self.engine.set_used(queue.entity, 0);
            self.make_busy(q, now);
        }
        if pending {
            self.set_pending(q, true);
        }
        self.move_position(q);
        q
    }

    /// One more tenant: one that was alone before, without a group in the engine, has siblings now. Its processes follow
    /// with their next request.
    pub(super) fn tenant_added(&mut self, ctx: &Context<'_>) {
        for tenant in 0..self.tenants.len() {
            let group = self.groups.get(self.tenants[tenant] as usize);
            if !is_root(tenant as u32, ctx) && group.is_some_and(|g| g.entity.is_none()) {
                self.part_from_group(tenant);
            }
        }
    }

    /// A tenant's weight changed; or its parent: then it and the tenants nested in it get new groups.
    pub(super) fn tenant_changed(&mut self, tenant: TenantId, ctx: &Context<'_>) {
        let group = self.tenants.get(tenant.0 as usize).copied().unwrap_or(NONE);
        let (Some(known), Some(own)) = (self.groups.get(group as usize), ctx.tenants.tenant(tenant)) else { return };
        let Some(entity) = known.entity else { return };
        self.groups[group as usize].weight = own.weight;
        self.engine.set_weight(entity, self.group_weight(own.weight));
        let group_of = |parent: TenantId| self.tenants.get(parent.0 as usize).copied().unwrap_or(NONE);
        let parent = nesting::parent_of(own, ctx.tenants).map(group_of);
        if parent == self.groups[group as usize].parent {
            return;
        }
        for index in 0..self.tenants.len() {
            if self.is_in(self.tenants[index], group) {
                self.part_from_group(index);
            }
        }
    }

    /// Is it this group, or nested in it?
    fn is_in(&self, group: u32, above: u32) -> bool {
        let mut at = Some(group).filter(|g| *g != NONE);
        while let Some(g) = at.filter(|g| *g != above) {
            at = self.groups[g as usize].parent;
        }
        at.is_some()
    }

    /// A tenant was retired, and its number may be used again.
    pub(super) fn tenant_retired(&mut self, tenant: TenantId, now: Now) {
        let index = tenant.0 as usize;
        let Some(group) = self.tenants.get(index).copied().filter(|g| *g != NONE) else { return };
        // Processes that moved to another tenant since their last request leave their queues.
        for task in 0..self.processes.len() {
            let q = self.processes[task].queue;
            if q != NONE && self.queues[q as usize].group == group {
                self.task_exited(task as u32, now);
            }
        }
        self.part_from_group(index);
    }

    /// A tenant's group has no tenant any more; it goes when its last queue does.
    fn part_from_group(&mut self, tenant: usize) {
        let group = std::mem::replace(&mut self.tenants[tenant], NONE);
        for slot in 0..self.groups[group as usize].async_queues.len() {
            let q = std::mem::replace(&mut self.groups[group as usize].async_queues[slot], NONE);
            if q == NONE {
                continue;
            }
            for process in self.processes.iter_mut().filter(|p| p.async_queue == q) {
                process.async_queue = NONE;
            }
            self.queues[q as usize].held -= 1;
            self.free_if_unused(q);
        }
        self.release_group(group);
    }

    /// A tenant, a queue or a nested group does not use this group any more.
    pub(super) fn release_group(&mut self, group: u32) {
        let own = &mut self.groups[group as usize];
        own.references -= 1;
        if own.references > 0 {
            return;
        }
        let (entity, parent) = (own.entity.take(), own.parent);
        if let Some(entity) = entity {
            self.engine.remove_group(entity);
        }
        self.forget_burst_of(group);
        self.free_groups.push(group);
        if let Some(parent) = parent {
            self.release_group(parent);
        }
    }
}
