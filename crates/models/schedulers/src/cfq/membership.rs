//! The group of a tenant and the queue of a task: made when one first asks, gone with their last use.

use dumbwaiter_block::{Context, TenantId};

use super::group::Group;
use super::queue::{HOMELESS, IDLE, NONE, Queue};
use super::{Cfq, Version};
use crate::mechanisms::nesting;

/// Groups.
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

    /// Is group `below` nested in `above`?
    pub(super) fn descends(&self, below: u32, above: u32) -> bool {
        let mut at = self.groups[below as usize].parent;
        while at != NONE && at != above {
            at = self.groups[at as usize].parent;
        }
        at == above
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

/// Queues.
impl Cfq {
    /// The async queue's place in its group's table.
    pub(super) fn async_place(&self, group: u32, asked: (u8, u8)) -> (u32, usize) {
        let group = if self.version == Version::K420 { group } else { 0 };
        let place = if asked.0 == IDLE { 16 } else { usize::from(asked.0) * 8 + usize::from(asked.1) };
        (group, place)
    }

    pub(super) fn new_queue(&mut self, queue: Queue) -> u32 {
        self.groups[queue.group as usize].references += 1;
        match self.free_queues.pop() {
            Some(q) => {
                self.queues[q as usize] = queue;
                q
            }
            None => {
                self.queues.push(queue);
                self.queues.len() as u32 - 1
            }
        }
    }

    /// A task leaves its queue.
    pub(super) fn detach(&mut self, task: usize) {
        let q = std::mem::replace(&mut self.processes[task].queue, NONE);
        if q != NONE {
            self.queues[q as usize].tasks -= 1;
            self.release_queue(q);
        }
    }

    /// Frees a queue that is not used any more.
    pub(super) fn release_queue(&mut self, q: u32) {
        let queue = &mut self.queues[q as usize];
        let used = queue.tasks > 0
            || queue.pointers > 0
            || queue.in_flight > 0
            || queue.home != HOMELESS
            || !queue.is_empty()
            || queue.free
            || self.active == q;
        if used {
            return;
        }
        queue.free = true;
        let into = std::mem::replace(&mut queue.merge_into, NONE);
        let group = queue.group;
        self.free_queues.push(q);
        self.release_group(group);
        if into != NONE {
            self.queues[into as usize].pointers -= 1;
            self.release_queue(into);
        }
    }
}
