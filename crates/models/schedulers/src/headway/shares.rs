//! Shares: the hierarchy of tenants and their tasks, served by start-time fair queueing.
//!
//! Each level has one virtual clock. The node with the smallest virtual time among its siblings goes next, and its time
//! advances by the service it used, divided by its weight.

use dumbwaiter_block::{Tenant, TenantId, Tenants};

use crate::mechanisms::nesting;
use crate::mechanisms::ordered::{Tree, TreeArena, later};

/// Number of a node: the root, or see [`tenant_node`], [`task_node`] and [`write_back_node`].
pub(super) type NodeId = u32;

/// The whole device.
pub(super) const ROOT: NodeId = 0;
/// Parts into which the whole device is divided to express shares.
pub(super) const WHOLE: u64 = 1 << 24;
/// Weight of a task at the default priority, and of a tenant by default.
pub(super) const DEFAULT_WEIGHT: u64 = 100;
/// Virtual time of a sector at [`DEFAULT_WEIGHT`], on flash.
pub(super) const SECTOR: u64 = 1 << 16;
/// Virtual time of a nanosecond at [`DEFAULT_WEIGHT`], on disks.
pub(super) const NANOSECOND: u64 = 1 << 4;
/// How far a node may be behind its siblings' clock when it becomes busy again after a moment: 2 MiB on flash, 50 ms on a
/// disk.
const CREDIT: [u64; 2] = [4096 * SECTOR, 50_000_000 * NANOSECOND];
/// A tenant lags whose time is this far behind its siblings' clock: 128 KiB at [`DEFAULT_WEIGHT`], 4 ms on a disk.
const LAG: u64 = 256 * SECTOR;

pub(super) fn tenant_node(tenant: u32) -> NodeId {
    1 + 3 * tenant
}

pub(super) fn task_node(task: u32) -> NodeId {
    2 + 3 * task
}

/// All asynchronous writes of a tenant.
pub(super) fn write_back_node(tenant: u32) -> NodeId {
    3 + 3 * tenant
}

/// The tenant of a node, if it is one.
pub(super) fn tenant_of(node: NodeId) -> Option<usize> {
    (node % 3 == 1).then_some((node / 3) as usize)
}

/// A node of the hierarchy: the root, a tenant, a task, or a tenant's write-back.
#[derive(Clone, Copy, Debug)]
struct Node {
    parent: NodeId,
    /// Virtual time at which its next request starts, among its siblings.
    time: u64,
    weight: u64,
    /// It is in its parent's `ready` tree: something in it is waiting.
    queued: bool,
    /// Children with something waiting, by virtual time.
    ready: Tree,
    /// Virtual time of the last child that was served in its turn.
    clock: u64,
    /// It belongs to a tenant or task that exists.
    live: bool,
    /// Of a tenant: its part of [`WHOLE`] by weight; 0 if it is unknown.
    share: u64,
    /// Of a tenant: it was more than [`LAG`] behind when it last became busy.
    lags: bool,
}

impl Default for Node {
    fn default() -> Self {
        Node {
            parent: ROOT,
            time: 0,
            weight: DEFAULT_WEIGHT,
            queued: false,
            ready: Tree::default(),
            clock: 0,
            live: false,
            share: 0,
            lags: false,
        }
    }
}

/// All nodes.
#[derive(Clone, Debug)]
pub(super) struct Hierarchy {
    nodes: Vec<Node>,
    /// The `ready` trees.
    ready: TreeArena,
    learned: bool,
    /// Tenants that have shares.
    tenants: u64,
    /// Weights of the tenants nested in each tenant, and last of those in none: kept to be reused.
    weights_below: Vec<u64>,
    /// Tenants whose shares wait for that of the tenant around them: kept to be reused.
    path: Vec<TenantId>,
}

impl Hierarchy {
    pub(super) fn new() -> Hierarchy {
        Hierarchy {
            nodes: vec![Node { live: true, ..Node::default() }],
            ready: TreeArena::default(),
            learned: false,
            tenants: 0,
            weights_below: Vec::new(),
            path: Vec::new(),
        }
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    /// Has [`Hierarchy::learn_shares`] been called?
    pub(super) fn learned(&self) -> bool {
        self.learned
    }

    pub(super) fn is_live(&self, id: NodeId) -> bool {
        self.nodes.get(id as usize).is_some_and(|n| n.live)
    }

    /// Adds the node of a tenant or task that exists.
    pub(super) fn add(&mut self, id: NodeId) {
        if id as usize >= self.nodes.len() {
            self.nodes.resize_with(id as usize + 1, Node::default);
        }
        self.node_mut(id).live = true;
    }

    /// Forgets a node in which nothing waits.
    pub(super) fn forget(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(id as usize).filter(|n| !n.queued && n.ready.is_empty()) {
            *node = Node::default();
        }
    }

    /// Nodes whose parent is `parent`.
    pub(super) fn children(&self, parent: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let children = self.nodes.iter().enumerate().skip(1).filter(move |(_, n)| n.live && n.parent == parent);
        children.map(|(id, _)| id as NodeId)
    }

    /// Takes up the weights and the nesting of all tenants but `retired`, in O(tenants). The share of a tenant is that of
    /// the tenant around it times its weight, over the weights of its siblings.
    pub(super) fn learn_shares(&mut self, tenants: &Tenants, retired: Option<TenantId>) {
        let all = || tenants.tenants().filter(|(id, _)| Some(*id) != retired);
        let slots = tenants.tenant_slots();
        let below = |parent: Option<TenantId>| parent.map_or(slots, |p| p.0 as usize).min(slots);
        self.weights_below.clear();
        self.weights_below.resize(slots + 1, 0);
        self.tenants = all().count() as u64;
        for (id, tenant) in all() {
            self.weights_below[below(tenant.parent)] += u64::from(tenant.weight);
            self.add(tenant_node(id.0));
            self.node_mut(tenant_node(id.0)).share = 0;
        }
        for (id, tenant) in all() {
            self.learn_share(id, tenant, tenants);
        }
        for (id, tenant) in all() {
            let node = tenant_node(id.0);
            self.node_mut(node).weight = u64::from(tenant.weight.max(1));
            let parent = nesting::parent_of(tenant, tenants).map(|p| tenant_node(p.0));
            self.attach(node, parent.unwrap_or(ROOT));
        }
        self.learned = true;
    }

    /// Computes the share of a tenant, and before it those of the tenants around it that are not known.
    fn learn_share(&mut self, id: TenantId, tenant: &Tenant, tenants: &Tenants) {
        let slots = tenants.tenant_slots();
        let (mut at, mut own) = (Some(id), Some(tenant));
        self.path.clear();
        // No chain is longer than there are tenants, unless it is a cycle.
        while let (Some(id), Some(tenant)) = (at, own)
            && self.node(tenant_node(id.0)).share == 0
            && self.path.len() < slots
        {
            self.path.push(id);
            at = tenant.parent;
            own = at.and_then(|p| tenants.tenant(p)).filter(|_| at.is_some_and(|p| self.is_live(tenant_node(p.0))));
        }
        while let Some(id) = self.path.pop() {
            let Some(tenant) = tenants.tenant(id) else { continue };
            let above = match tenant.parent.map(|p| self.nodes.get(tenant_node(p.0) as usize)) {
                None => WHOLE,
                Some(parent) => parent.map_or(0, |n| n.share),
            };
            let siblings = self.weights_below[tenant.parent.map_or(slots, |p| p.0 as usize).min(slots)];
            let share = (above * u64::from(tenant.weight) / siblings.max(1)).max(1);
            self.node_mut(tenant_node(id.0)).share = share;
        }
    }

    /// Makes `id` a child of `parent`, keeping its lead over its siblings. It may be queued.
    pub(super) fn attach(&mut self, id: NodeId, parent: NodeId) {
        let Node { parent: old, queued, time, .. } = *self.node(id);
        if old == parent {
            return;
        }
        self.add(parent);
        if queued {
            self.remove_from_line(id);
            let mut above = old;
            while above != ROOT && self.node(above).queued && self.node(above).ready.is_empty() {
                self.remove_from_line(above);
                above = self.node(above).parent;
            }
        }
        let clock = self.node(old).clock;
        let lead = if later(time, clock) { time.wrapping_sub(clock) } else { 0 };
        self.node_mut(id).parent = parent;
        self.node_mut(id).time = self.node(parent).clock.wrapping_add(lead);
        if queued {
            let time = self.node(id).time;
            self.put_in_line(id, time);
            self.enter(parent, false, false);
        }
    }

    /// Makes `id`, a task or write-back, a child of `parent`, unless requests of it wait where it is.
    pub(super) fn attach_idle(&mut self, id: NodeId, parent: NodeId) {
        if !self.node(id).queued {
            self.node_mut(id).parent = parent;
        }
    }

    /// A tenant's part of [`WHOLE`]; 0 for an unknown one.
    pub(super) fn share(&self, tenant: usize) -> u64 {
        self.nodes.get(tenant_node(tenant as u32) as usize).map_or(0, |n| n.share)
    }

    /// A tenant's part of an amount that is meant for one of mean weight: `amount` times its share over the mean one, four times at most.
    pub(super) fn in_proportion(&self, amount: u64, tenant: usize) -> u64 {
        (amount * self.share(tenant) * self.tenants / WHOLE).min(4 * amount)
    }

    /// Was this tenant more than [`LAG`] behind when it last became busy?
    pub(super) fn lags(&self, tenant: usize) -> bool {
        self.nodes.get(tenant_node(tenant as u32) as usize).is_some_and(|n| n.lags)
    }

    pub(super) fn time(&self, id: NodeId) -> u64 {
        self.node(id).time
    }

    pub(super) fn weight(&self, id: NodeId) -> u64 {
        self.node(id).weight
    }

    pub(super) fn set_weight(&mut self, id: NodeId, weight: u64) {
        self.node_mut(id).weight = weight;
    }

    /// Something waits in a node: it, and all above it, join their siblings in line. After an absence (`away`) a node
    /// starts at its siblings' clock; after a moment it may catch up a little.
    pub(super) fn enter(&mut self, node: NodeId, away: bool, rotational: bool) {
        let mut id = node;
        while id != ROOT && !self.node(id).queued {
            let Node { parent, weight, time, .. } = *self.node(id);
            let credit = if away { 0 } else { CREDIT[usize::from(rotational)] };
            let clock = self.node(parent).clock;
            let floor = clock.wrapping_sub(credit * DEFAULT_WEIGHT / weight);
            self.node_mut(id).lags = !away && later(clock.wrapping_sub(LAG), time);
            self.put_in_line(id, if later(floor, time) { floor } else { time });
            id = parent;
        }
    }

    fn put_in_line(&mut self, id: NodeId, time: u64) {
        let node = self.node_mut(id);
        (node.time, node.queued) = (time, true);
        let parent = node.parent;
        self.ready.insert(&mut self.nodes[parent as usize].ready, id, time);
    }

    fn remove_from_line(&mut self, id: NodeId) {
        let node = self.node_mut(id);
        node.queued = false;
        let parent = node.parent;
        self.ready.remove(&mut self.nodes[parent as usize].ready, id);
    }

    /// Charges service to a node and to all above it; negative service corrects an earlier charge. `weight` is the weight
    /// of the node now, `in_turn` says that it was the first of all, and `waits` that something still waits in it.
    pub(super) fn charge(&mut self, node: NodeId, used: i64, weight: u64, in_turn: bool, waits: bool) {
        let (mut id, mut weight, mut waits) = (node, weight, waits);
        while id != ROOT {
            let node = self.node_mut(id);
            let (parent, before, queued) = (node.parent, node.time, node.queued);
            let time = before.wrapping_add((used * DEFAULT_WEIGHT as i64 / weight as i64) as u64);
            node.time = time;
            let above = &mut self.nodes[parent as usize];
            if in_turn && later(before, above.clock) {
                above.clock = before;
            }
            weight = above.weight;
            match (queued, waits) {
                (true, true) => self.ready.rekey(&mut above.ready, id, time),
                (true, false) => self.remove_from_line(id),
                (false, true) => self.put_in_line(id, time),
                (false, false) => {}
            }
            id = parent;
            waits = !self.node(id).ready.is_empty();
        }
    }

    /// The child whose turn it is.
    pub(super) fn first(&self, node: NodeId) -> Option<NodeId> {
        self.node(node).ready.first()
    }

    /// The sibling whose turn comes after this one's.
    pub(super) fn next(&self, node: NodeId) -> Option<NodeId> {
        self.ready.next(node)
    }

    /// The task or write-back in `node` whose turn it is; `node` itself if it is one.
    pub(super) fn first_leaf(&self, node: NodeId) -> NodeId {
        let mut id = node;
        while let Some(below) = self.first(id) {
            id = below;
        }
        id
    }

    /// Would `behind`, in which nothing waits, have gone before its sibling `ahead` by more than [`LAG`], had something waited?
    pub(super) fn is_owed(&self, behind: NodeId, ahead: NodeId) -> bool {
        let (own, other) = (self.node(behind), self.node(ahead));
        own.parent == other.parent && behind != ahead && later(other.time.wrapping_sub(LAG), own.time)
    }

    /// Would this node be served next if something waited in it?
    pub(super) fn is_first(&self, node: NodeId) -> bool {
        let mut id = node;
        while id != ROOT {
            let Node { parent, time, .. } = *self.node(id);
            if self.first(parent).is_some_and(|f| f != id && later(time, self.node(f).time)) {
                return false;
            }
            id = parent;
        }
        true
    }
}
