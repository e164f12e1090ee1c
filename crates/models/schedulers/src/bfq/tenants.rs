//! Tenants that come, change and go, with the groups that stand for them; and tasks that go.

use dumbwaiter_block::{Context, TenantId};

use super::groups::Group;
use super::processes::Process;
use super::queue::{NONE, QueueId};
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
        let known = self.groups.of_tenant(tenant);
        if known != NONE {
            return known;
        }
        let own = ctx.tenants.tenant(TenantId(tenant)).copied();
        let group = match own {
            Some(own) if !is_root(tenant, ctx) => {
                let parent = nesting::parent_of(&own, ctx.tenants).map(|p| self.group_of(p.0, ctx));
                let above = parent.map_or(NodeId::ROOT, |p| self.groups[p].node);
                if let Some(parent) = parent {
                    self.groups[parent].references += 1;
                }
                let (entity, inside) = self.engine.add_group(above, NONE, self.group_weight(own.weight));
                Group::new(inside, Some(entity), parent, own.weight)
            }
            _ => Group::new(NodeId::ROOT, None, None, own.map_or(100, |own| own.weight)),
        };
        self.groups.add(tenant, group)
    }

    /// A tenant's weight in the engine.
    pub(super) fn group_weight(&self, configured: u32) -> u32 {
        if self.values.on.group_weights { configured.clamp(1, 1000) } else { self.constants.default_weight }
    }

    /// The process belongs to another tenant now: it takes its queue along, or leaves a shared one.
    pub(super) fn change_group(&mut self, task: u32, q: QueueId, group: u32, now: Now) -> QueueId {
        if self.queues[q].coop || self.queues[q].merge_into != NONE {
            self.processes[task].queue = NONE;
            *self.processes.saved_mut(task) = None;
            self.release(q, now);
            return NONE;
        }
        if self.slot.serves(q) {
            self.expire(q, Reason::Preempted, false, now);
        }
        let busy = self.queues[q].busy;
        if busy {
            self.idle_out_of_service(q, now);
        }
        let pending = self.queues[q].pending;
        self.set_pending(q, false);
        self.leave_group(q);
        let old = self.queues[q].group;
        let allocated = self.queues[q].allocated as i32;
        self.allocate(q, -allocated);
        let node = self.groups[group].node;
        self.engine.move_leaf(self.queues[q].entity, node);
        self.queues[q].group = group;
        self.allocate(q, allocated);
        self.groups[group].references += 1;
        self.release_group(old);
        if busy && !self.queues[q].is_empty() {
            let queue = &self.queues[q];
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
        for tenant in 0..self.groups.tenants() {
            let group = self.groups.of_tenant(tenant);
            if !is_root(tenant, ctx) && group != NONE && self.groups[group].entity.is_none() {
                self.part_from_group(tenant);
            }
        }
    }

    /// A tenant's weight changed; or its parent: then it and the tenants nested in it get new groups.
    pub(super) fn tenant_changed(&mut self, tenant: TenantId, ctx: &Context<'_>) {
        let group = self.groups.of_tenant(tenant.0);
        let Some(own) = ctx.tenants.tenant(tenant).filter(|_| group != NONE) else { return };
        let Some(entity) = self.groups[group].entity else { return };
        self.groups[group].weight = own.weight;
        self.engine.set_weight(entity, self.group_weight(own.weight));
        let parent = nesting::parent_of(own, ctx.tenants).map(|parent| self.groups.of_tenant(parent.0));
        if parent == self.groups[group].parent {
            return;
        }
        for index in 0..self.groups.tenants() {
            if self.groups.is_in(self.groups.of_tenant(index), group) {
                self.part_from_group(index);
            }
        }
    }

    /// A tenant was retired, and its number may be used again.
    pub(super) fn tenant_retired(&mut self, tenant: TenantId, now: Now) {
        let group = self.groups.of_tenant(tenant.0);
        if group == NONE {
            return;
        }
        // Processes that moved to another tenant since their last request leave their queues.
        for task in 0..self.processes.len() {
            let q = self.processes[task].queue;
            if q != NONE && self.queues[q].group == group {
                self.task_exited(task, now);
            }
        }
        self.part_from_group(tenant.0);
    }

    /// A tenant's group has no tenant any more; it goes when its last queue does.
    fn part_from_group(&mut self, tenant: u32) {
        let group = self.groups.part(tenant);
        for slot in 0..self.groups[group].async_queues.len() {
            let q = std::mem::replace(&mut self.groups[group].async_queues[slot], NONE);
            if q != NONE {
                self.processes.drop_async_queue(q);
                self.let_go(q);
            }
        }
        self.release_group(group);
    }

    /// A process ended, or parts from its tenant.
    pub(super) fn task_exited(&mut self, task: u32, now: Now) {
        let Some(Process { queue: q, stable_candidate, .. }) = self.processes.forget(task) else { return };
        if stable_candidate != NONE {
            self.let_go(stable_candidate);
        }
        if q != NONE {
            let queue = &mut self.queues[q];
            if queue.task == task {
                queue.task = NONE;
            }
            if self.slot.serves(q) && queue.is_empty() && queue.processes == 1 {
                self.expire(q, Reason::NoMoreRequests, false, now);
            }
            self.release(q, now);
        }
    }
}
