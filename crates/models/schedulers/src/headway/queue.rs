//! Requests of one task, or of a tenant's write-back.

use dumbwaiter_block::{Dir, Flags, IoClass, Ioprio, Nanos, Request, RequestId};

use super::shares::{DEFAULT_WEIGHT, NodeId, task_node, write_back_node};
use crate::mechanisms::list::{Links, List};
use crate::mechanisms::ordered::{Tree, TreeArena};

/// A queue with this many requests waiting may have an exclusive slice of a disk.
const SWEEP_REQUESTS: u32 = 8;
/// Requests this near to the end of the one before are sequential, sectors.
const NEAR_SECTORS: u64 = 2048;
/// A queue streams if this many of its last 8 requests were sequential.
const STREAM_REQUESTS: u32 = 4;

/// The order in which a request waits in its queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Order {
    /// Before all others.
    #[default]
    Head,
    /// In order of arrival (flash).
    Arrival(Dir),
    /// In order of sector (disks).
    Sector,
}

/// The links of all lists and the nodes of all trees.
#[derive(Clone, Debug, Default)]
pub(super) struct Storage {
    links: Links,
    sorted: TreeArena,
}

/// Requests of one task, or of a tenant's write-back, and what is known of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    head: List,
    /// Reads and writes.
    lists: [List; 2],
    sorted: Tree,
    pub(super) waiting: u32,
    pub(super) outstanding: u32,
    pub(super) in_device: u32,
    /// Outstanding requests other than read-ahead.
    pub(super) foreground: u32,
    /// Tenant of the newest request.
    pub(super) tenant: u32,
    /// End of the last request sent.
    position: u64,
    /// One bit for each of the last 8 requests: was it sequential?
    near: u8,
    /// Mean device time of a request on a disk, ns.
    pub(super) estimate_ns: u64,
    /// Last completion.
    pub(super) last_seen: Nanos,
    pub(super) fresh_since: Nanos,
    /// Sectors for which it stays fresh.
    pub(super) fresh_sectors: u64,
}

impl Queue {
    #[inline]
    pub(super) fn insert(&mut self, storage: &mut Storage, id: RequestId, order: Order, sector: u64) {
        match order {
            Order::Head => self.head.push_front(&mut storage.links, id),
            Order::Arrival(dir) => self.lists[dir as usize].push_back(&mut storage.links, id),
            Order::Sector => storage.sorted.insert(&mut self.sorted, id.into(), sector),
        }
    }

    pub(super) fn remove(&mut self, storage: &mut Storage, id: RequestId, order: Order) {
        match order {
            Order::Head => self.head.remove(&mut storage.links, id),
            Order::Arrival(dir) => self.lists[dir as usize].remove(&mut storage.links, id),
            Order::Sector => storage.sorted.remove(&mut self.sorted, id.into()),
        }
    }

    /// The first sector of a waiting request changed.
    pub(super) fn moved(&mut self, storage: &mut Storage, id: RequestId, order: Order, sector: u64) {
        if let Order::Sector = order {
            storage.sorted.rekey(&mut self.sorted, id.into(), sector);
        }
    }

    /// Has it requests of this direction waiting in order of arrival?
    pub(super) fn has(&self, dir: Dir) -> bool {
        !self.lists[dir as usize].is_empty()
    }

    /// Takes out a request that goes before the others.
    #[inline]
    pub(super) fn take_head(&mut self, storage: &mut Storage) -> Option<RequestId> {
        self.head.pop_front(&mut storage.links)
    }

    /// Takes out the next request in order of sector, upwards from the last one and then from the lowest.
    #[inline]
    pub(super) fn take_sorted(&mut self, storage: &mut Storage) -> Option<RequestId> {
        let id = storage.sorted.first_from(&self.sorted, self.position).or_else(|| self.sorted.first())?;
        storage.sorted.remove(&mut self.sorted, id);
        Some(RequestId::from(id))
    }

    /// Takes out the oldest request of this direction, or of the other if it has none.
    #[inline]
    pub(super) fn take_oldest(&mut self, storage: &mut Storage, dir: Dir) -> Option<RequestId> {
        let dir = if self.has(dir) { dir } else { other(dir) };
        self.lists[dir as usize].pop_front(&mut storage.links)
    }

    /// The oldest request of this direction.
    #[inline]
    pub(super) fn oldest(&self, dir: Dir) -> Option<RequestId> {
        self.lists[dir as usize].front()
    }

    /// Notes the position of a request that is sent, and what it moves.
    #[inline]
    pub(super) fn note_sent(&mut self, sector: u64, sectors: u32) {
        self.near = self.near << 1 | u8::from(sector.abs_diff(self.position) <= NEAR_SECTORS);
        self.position = sector.saturating_add(u64::from(sectors));
        self.fresh_sectors = self.fresh_sectors.saturating_sub(u64::from(sectors));
    }

    /// Would a slice of a disk for itself save seeks?
    pub(super) fn gains_by_exclusive_slice(&self) -> bool {
        self.near.count_ones() >= STREAM_REQUESTS || self.waiting >= SWEEP_REQUESTS
    }
}

pub(super) fn other(dir: Dir) -> Dir {
    if dir == Dir::Read { Dir::Write } else { Dir::Read }
}

/// Weight of a task among those of its tenant.
pub(super) fn weight_of(ioprio: Ioprio) -> u64 {
    match ioprio.class() {
        IoClass::Realtime => 16 * DEFAULT_WEIGHT,
        IoClass::Idle => DEFAULT_WEIGHT / 16,
        _ => (8 - u64::from(ioprio.level())) * DEFAULT_WEIGHT / 4,
    }
}

/// Is it more than read-ahead?
pub(super) fn is_foreground(request: &Request) -> bool {
    !request.io.flags.any(Flags::RAHEAD)
}

/// Reads and synchronous writes belong to their task, all other writes to their tenant's write-back.
pub(super) fn queue_node(request: &Request) -> NodeId {
    if request.sync() { task_node(request.io.task.0) } else { write_back_node(request.io.tenant.0) }
}
