//! Groups: what stands for a tenant, with its queues by position.

use super::queue::{NONE, Queue, QueueId};
use crate::mechanisms::ordered::{Tree, TreeArena};
use crate::mechanisms::wf2q::{EntityId, NodeId};

/// State of a tenant.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// The tenant, queues and nested groups that use it; without any its number is free.
    pub(super) references: u32,
    pub(super) node: NodeId,
    pub(super) entity: Option<EntityId>,
    pub(super) parent: Option<u32>,
    /// Requests its queues hold, and those of the groups in it.
    pub(super) allocated: u32,
    /// Async queues: eight levels of RT, eight of BE, one of IDLE.
    pub(super) async_queues: [QueueId; 17],
    pub(super) last_created: QueueId,
    /// Configured weight.
    pub(super) weight: u32,
    /// Queues that are busy or have requests in flight, and groups in it that have such.
    pub(super) pending: u32,
    pub(super) active_children: u32,
    /// Its weight in the counters.
    pub(super) counted: Option<u64>,
    /// Queues by the position of their next request.
    positions: Tree,
}

impl Group {
    /// The group of one tenant.
    pub(super) fn new(node: NodeId, entity: Option<EntityId>, parent: Option<u32>, weight: u32) -> Group {
        Group {
            references: 1,
            node,
            entity,
            parent,
            allocated: 0,
            async_queues: [NONE; 17],
            last_created: NONE,
            weight,
            pending: 0,
            active_children: 0,
            counted: None,
            positions: Tree::default(),
        }
    }
}

/// All groups.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    all: Vec<Group>,
    free: Vec<u32>,
    /// Group of each tenant.
    of_tenant: Vec<u32>,
    /// Queues by the sector of their next request, one tree a group.
    positions: TreeArena,
}

impl Groups {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Group> {
        self.all.iter()
    }

    /// The group of a tenant, or [`NONE`].
    pub(super) fn of_tenant(&self, tenant: u32) -> u32 {
        self.of_tenant.get(tenant as usize).copied().unwrap_or(NONE)
    }

    /// Tenants seen so far.
    pub(super) fn tenants(&self) -> u32 {
        self.of_tenant.len() as u32
    }

    /// A new group, of this tenant.
    pub(super) fn add(&mut self, tenant: u32, group: Group) -> u32 {
        let id = self.free.pop().unwrap_or(self.all.len() as u32);
        if id as usize == self.all.len() {
            self.all.push(group);
        } else {
            self.all[id as usize] = group;
        }
        if tenant as usize >= self.of_tenant.len() {
            self.of_tenant.resize(tenant as usize + 1, NONE);
        }
        self.of_tenant[tenant as usize] = id;
        id
    }

    /// The tenant has no group any more; returns the one it had.
    pub(super) fn part(&mut self, tenant: u32) -> u32 {
        std::mem::replace(&mut self.of_tenant[tenant as usize], NONE)
    }

    /// Its number may be used again.
    pub(super) fn free(&mut self, group: u32) {
        self.free.push(group);
    }

    /// Is it this group, or nested in it?
    pub(super) fn is_in(&self, group: u32, above: u32) -> bool {
        let mut at = Some(group).filter(|g| *g != NONE);
        while let Some(g) = at.filter(|g| *g != above) {
            at = self[g].parent;
        }
        at.is_some()
    }

    /// Adds `by` to the requests allocated to this group and the groups above it.
    pub(super) fn allocate(&mut self, group: u32, by: i32) {
        let mut at = Some(group);
        while let Some(group) = at {
            let group = &mut self[group];
            group.allocated = group.allocated.wrapping_add_signed(by);
            at = group.parent;
        }
    }

    /// Puts a queue in its place by position, or, without a sector, nowhere.
    pub(super) fn place(&mut self, q: QueueId, queue: &mut Queue, sector: Option<u64>) {
        let tree = &mut self.all[queue.group as usize].positions;
        if std::mem::replace(&mut queue.by_position, sector.is_some()) {
            self.positions.remove(tree, q);
        }
        if let Some(sector) = sector {
            self.positions.insert(tree, q, sector);
        }
    }

    /// The queue whose next request is nearest to `sector`, of the next one above and the next one below, if within `limit`.
    pub(super) fn nearest(&self, group: u32, sector: u64, limit: u64) -> Option<QueueId> {
        let tree = &self[group].positions;
        let after = self.positions.first_from(tree, sector);
        let before = match after {
            Some(q) if self.positions.key(q) == sector => return Some(q),
            Some(q) => self.positions.previous(q),
            None => tree.last(),
        };
        [after, before].into_iter().flatten().find(|q| self.positions.key(*q).abs_diff(sector) <= limit)
    }
}

by_number!(Groups: Group);
