//! Tasks and tenants that change and go.

use dumbwaiter_block::{Context, Nanos, TaskId, TenantId};

use super::Cfq;
use super::queue::{NONE, ThinkTime};
use crate::mechanisms::nesting;

impl Cfq {
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

    /// A task exited: the slice of its queue ends.
    pub(super) fn task_ends(&mut self, task: TaskId, at: Nanos) {
        let now = self.clock.count(at);
        let index = task.0 as usize;
        let Some(process) = self.processes.get_mut(index) else { return };
        process.alive = false;
        process.think = ThinkTime::new(now);
        if process.queue != NONE && process.queue == self.active {
            self.expire(false, now);
        }
        if self.last_task == task.0 {
            self.last_task = NONE;
        }
        self.detach(index);
    }
}
