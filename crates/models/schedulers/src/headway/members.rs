//! Tenants and tasks that come and go.

use dumbwaiter_block::{Context, RequestId, TaskId, TenantId};

use super::Headway;
use super::depth::Account;
use super::queue::{Queue, queue_node};
use super::shares::{NodeId, ROOT, task_node, tenant_node, write_back_node};

impl Headway {
    pub(super) fn learn_shares(&mut self, ctx: &Context<'_>, retired: Option<TenantId>) {
        self.depth.reserve(ctx.tenants.tenant_slots());
        self.shares.learn_shares(ctx.tenants, retired);
    }

    pub(super) fn add_node(&mut self, node: NodeId) {
        self.shares.add(node);
        let len = self.queues.len().max(node as usize + 1);
        self.queues.resize_with(len, Queue::default);
    }

    /// The queue of a request, added if it is new.
    pub(super) fn queue_of(&mut self, id: RequestId, ctx: &Context<'_>) -> NodeId {
        let request = &ctx.requests[id];
        let tenant = request.io.tenant.0;
        if !self.shares.learned() || tenant as usize >= self.depth.accounts.len() {
            self.learn_shares(ctx, None);
            self.depth.reserve(tenant as usize + 1);
            self.add_node(tenant_node(tenant));
        }
        let node = queue_node(request);
        if !self.shares.is_live(node) {
            self.add_node(node);
            if request.sync() {
                self.starts.started(node, &mut self.queues, ctx.now);
            }
        }
        self.shares.attach_idle(node, tenant_node(tenant));
        self.queues[node as usize].tenant = tenant;
        node
    }

    /// A task exited, and its number may be used again.
    pub(super) fn forget_task(&mut self, task: TaskId) {
        let node = task_node(task.0);
        if self.exclusive.is_some_and(|e| e.owner == node) {
            self.exclusive = None;
        }
        if self.reservation.is_some_and(|r| r.task == node) {
            self.reservation = None;
        }
        self.starts.forget(node);
        self.forget_node(node);
    }

    /// A tenant was retired, and its number may be used again.
    pub(super) fn forget_tenant(&mut self, tenant: TenantId, ctx: &Context<'_>) {
        let node = tenant_node(tenant.0);
        if self.exclusive.is_some_and(|e| e.owner == node) {
            self.exclusive = None;
        }
        self.forget_node(write_back_node(tenant.0));
        // Tasks that moved to another tenant while requests of theirs waited here.
        let moved: Vec<NodeId> = self.shares.children(node).collect();
        for child in moved {
            let now_in = self.queues.get(child as usize).map_or(ROOT, |q| tenant_node(q.tenant));
            self.shares.attach(child, if now_in == node { ROOT } else { now_in });
        }
        self.shares.forget(node);
        self.hold.is_back(tenant.0);
        if let Some(account) = self.depth.accounts.get_mut(tenant.0 as usize) {
            *account = Account::default();
        }
        self.learn_shares(ctx, Some(tenant));
    }

    pub(super) fn forget_node(&mut self, node: NodeId) {
        if let Some(queue) = self.queues.get_mut(node as usize).filter(|q| q.outstanding == 0) {
            *queue = Queue::default();
            self.shares.forget(node);
        }
    }
}
