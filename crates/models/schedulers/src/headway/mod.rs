//! `headway`: proportional shares by weight without exclusive service, and quick starts; ours.
//!
//! Tenants, nested ones, and the tasks in them are served by start-time fair queueing: at each level the node with the
//! smallest virtual time goes next, and its time advances by what it used over its weight: sectors on flash, device time
//! on a disk. Requests of all tenants are in the device together, as deep as the shares allow. Three rules go beyond that:
//!
//! - **Depth.** A tenant that cannot keep a backlog (few requests at a time) falls behind its share because the others fill
//!   the device. Only then the depth that all share shrinks, and at the bottom the device idles for that tenant's next
//!   request. When no tenant is behind, the depth grows back.
//! - **Exclusive slices.** On a disk, a task that streams or has much to sweep may have the disk for itself for a short
//!   while, since two such tasks side by side cause a seek per request. The disk idles a little for the next request of
//!   the slice's owner.
//! - **Fresh tasks**, which start or were quiet for seconds, weigh a hundred times as much within their tenant until they
//!   have moved a program's worth of data, and keep their place in the order while they think for a moment, on flash after a read.
//!
//! On flash, reads and writes go in batches, because a device that alternates between them does less of both. Settings let a task be served
//! for a few requests in a row there, and neighbouring requests of it go as one.
//!
//! Bound: between two siblings with a backlog, service over weight differs by at most one largest request of each, plus what
//! is in the device, plus one run, plus one exclusive slice. Weakness: a tenant with a high weight that thinks longer than the patience
//! does not get its share, and tasks that start in a large burst gain nothing.
//!
//! - `settings`: the settings
//! - `shares`: the hierarchy of tenants and tasks, and its virtual times
//! - `queue`: requests of one task
//! - `depth`: what tenants got, and the depth that follows from it
//! - `exclusive`: exclusive slices
//! - `fresh`: fresh tasks
//! - `members`: tenants and tasks that come and go
//! - `hold`: tenants that are held back for one that ran empty
//! - `run`: a few requests of one task in a row
//! - `scheduler`: the calls of the block layer

mod depth;
mod exclusive;
mod fresh;
mod hold;
mod members;
mod queue;
mod run;
mod scheduler;
mod settings;
mod shares;
#[cfg(test)]
mod tests;

use dumbwaiter_block::{Context, Dir, Nanos, Op, RequestId, Setup};

use depth::Depth;
use exclusive::ExclusiveSlice;
use fresh::{Reservation, Starts};
use hold::Hold;
use queue::{Order, Queue, Storage};
use run::Run;
use settings::Settings;
pub use settings::TUNABLES;
use shares::{Hierarchy, NANOSECOND, NodeId, ROOT, SECTOR, tenant_node, tenant_of};

/// How far, in virtual time, a batch may reach past the tenant whose turn it is: 256 KiB at the default weight...
const BATCH_REACH: u64 = 512 * SECTOR;
/// ...and past how many tenants.
const BATCH_CANDIDATES: u32 = 4;
/// A full device is asked again after this time; its completions come sooner.
const FULL_DEVICE_RECHECK: Nanos = Nanos::from_ms(100);

/// The scheduler's state of a request.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// Node of its queue.
    queue: NodeId,
    order: Order,
    /// The driver returned it after it was charged.
    charged: bool,
    /// It was chosen for the device.
    sent: bool,
}

/// Effect of the reservation for a fresh task at this moment.
enum Reserved {
    /// Nothing: others may go.
    Nothing,
    /// It is this task's turn.
    Serve(NodeId),
    /// It would be this task's turn, but it has nothing waiting yet.
    Wait(Nanos),
}

/// See the module documentation.
#[derive(Clone)]
pub struct Headway {
    settings: Settings,
    rotational: bool,
    shares: Hierarchy,
    /// By node; only those of tasks and write-back are used.
    queues: Vec<Queue>,
    storage: Storage,
    /// By request.
    slots: Vec<Slot>,
    depth: Depth,
    in_device: u32,
    waiting: u32,
    exclusive: Option<ExclusiveSlice>,
    reservation: Option<Reservation>,
    starts: Starts,
    run: Run,
    hold: Hold,
    /// Direction of the current batch, and its length.
    batch_dir: Dir,
    batch_len: u64,
    last_completion: Nanos,
}

impl Headway {
    /// An empty scheduler.
    pub fn new(setup: Setup) -> Headway {
        Headway {
            settings: Settings::new(),
            rotational: setup.rotational,
            shares: Hierarchy::new(),
            queues: vec![Queue::default()],
            storage: Storage::default(),
            slots: Vec::new(),
            depth: Depth::new(setup.commands()),
            in_device: 0,
            waiting: 0,
            exclusive: None,
            reservation: None,
            starts: Starts::default(),
            run: Run::default(),
            hold: Hold::default(),
            batch_dir: Dir::Read,
            batch_len: 0,
            last_completion: Nanos::ZERO,
        }
    }

    fn patience(&self) -> Nanos {
        self.settings.patience(self.rotational)
    }

    fn is_fresh(&self, node: NodeId, now: Nanos) -> bool {
        self.settings.low_latency && fresh::is_fresh(&self.queues[node as usize], now)
    }

    /// Weight of a queue among those of its tenant now.
    fn weight(&self, node: NodeId, fresh: bool) -> u64 {
        self.shares.weight(node) * if fresh { fresh::WEIGHT_FACTOR } else { 1 }
    }

    /// The queue whose turn it is; or one that is nearly as early and has requests of the current batch's direction.
    fn first(&self) -> Option<NodeId> {
        let mut at = self.shares.first(ROOT);
        let first = self.first_in(at?)?;
        if self.rotational {
            return Some(first);
        }
        let bound = self.shares.time(at?).wrapping_add(self.depth.scaled(BATCH_REACH));
        for _ in 0..BATCH_CANDIDATES {
            let in_reach = |node: &NodeId| !crate::mechanisms::ordered::later(self.shares.time(*node), bound);
            let Some(sibling) = at.filter(in_reach) else { break };
            let candidate = self.first_in(sibling);
            if candidate.is_some_and(|node| self.queues[node as usize].has(self.batch_dir)) {
                return candidate;
            }
            at = self.shares.next(sibling);
        }
        Some(first)
    }

    /// The queue that was served last, if its run goes on and it does not keep others from the batch.
    fn in_run(&self) -> Option<NodeId> {
        let owner = self.run.owner;
        let go_on = self.run.goes_on() && self.queues.get(owner as usize)?.waiting > 0;
        let of_batch = |node: NodeId| self.queues[node as usize].has(self.batch_dir);
        (go_on && (of_batch(owner) || !self.first().is_some_and(of_batch))).then_some(owner)
    }

    /// The queue in `node` whose turn it is.
    fn first_in(&self, node: NodeId) -> Option<NodeId> {
        let leaf = self.shares.first_leaf(node);
        (self.queues.get(leaf as usize)?.waiting > 0).then_some(leaf)
    }

    /// Takes the next request out of a queue.
    fn pick(&mut self, node: NodeId) -> Option<RequestId> {
        let (queue, storage) = (&mut self.queues[node as usize], &mut self.storage);
        queue.take_head(storage).or_else(|| queue.take_sorted(storage)).or_else(|| {
            self.batch_len += 1;
            queue.take_oldest(storage, self.batch_dir)
        })
    }

    /// A request leaves its queue for the device: it is charged, unless it was when it was sent before.
    fn send(&mut self, node: NodeId, id: RequestId, in_turn: bool, ctx: &Context<'_>) {
        let fresh = self.is_fresh(node, ctx.now);
        let request = &ctx.requests[id];
        let slot = &mut self.slots[id.index()];
        let charged = std::mem::take(&mut slot.charged);
        slot.sent = true;
        let queue = &mut self.queues[node as usize];
        queue.waiting -= 1;
        queue.in_device += 1;
        let mut used = 0;
        if !charged {
            queue.note_sent(request.sector, request.sectors);
            used = if self.rotational {
                queue.estimate_ns * NANOSECOND
            } else {
                u64::from(request.sectors.max(1)) * SECTOR
            };
        }
        let run = self.depth.scaled(self.settings.run_sectors());
        let run =
            if run == 0 || self.rotational { 0 } else { self.shares.in_proportion(run, request.io.tenant.0 as usize) };
        self.run.served(node, u64::from(request.sectors), run);
        let gains = self.rotational && queue.gains_by_exclusive_slice();
        let slice = self.settings.slice();
        if self.exclusive.is_some_and(|e| tenant_of(e.owner).is_some()) {
            self.exclusive = None;
        } else if in_turn && gains && slice > Nanos::ZERO {
            self.exclusive = Some(ExclusiveSlice::of_task(node, slice, ctx.now));
        }
        // While a limit holds its tenant back, its next request is not worth waiting for.
        let paced = self.depth.accounts[request.io.tenant.0 as usize].paced;
        // On flash only a read is answered sooner where nothing else is under way.
        let is_answered_sooner = self.rotational || request.io.op == Op::Read;
        if fresh && !paced && is_answered_sooner && self.reservation.is_none() {
            self.reservation = Some(Reservation { task: node, until: ctx.now });
        }
        self.in_device += 1;
        self.waiting -= 1;
        self.depth.accounts[request.io.tenant.0 as usize].sent(ctx.now);
        self.note_empty(request.io.tenant.0, ctx.now);
        let waits = self.queues[node as usize].waiting > 0;
        self.shares.charge(node, used as i64, self.weight(node, fresh), in_turn, waits);
    }

    /// Was that the last waiting request of a tenant with a backlog?
    fn note_empty(&mut self, tenant: u32, now: Nanos) {
        let account = &self.depth.accounts[tenant as usize];
        if self.settings.hold() > Nanos::ZERO
            && account.waiting == 0
            && account.spell >= hold::BACKLOG
            && !account.paced
        {
            self.hold.ran_empty(tenant, now);
        }
    }

    /// Until when the tenant whose turn it is waits for one that is behind and ran empty a moment ago, if it does.
    fn held_until(&mut self, now: Nanos) -> Option<Nanos> {
        let longest = self.settings.hold();
        if longest == Nanos::ZERO || self.rotational {
            return None;
        }
        let (shares, first) = (&self.shares, self.shares.first(ROOT)?);
        self.hold.until(now, longest, |tenant| shares.is_owed(tenant_node(tenant), first))
    }

    /// Until when the device idles for the owner of an exclusive slice, if it does; ends a slice that is over.
    fn idles_until(&mut self, now: Nanos) -> Option<Nanos> {
        let slice = self.exclusive?;
        let (waiting, in_device) = self.counts(slice.owner);
        if waiting > 0 {
            return None;
        }
        let until = slice.idles_until(in_device);
        if now < until {
            return Some(until);
        }
        self.exclusive = None;
        None
    }

    /// Effect of the reservation at this moment; ends one that is over.
    fn reserved(&mut self, now: Nanos) -> Reserved {
        let Some(Reservation { task, until }) = self.reservation else { return Reserved::Nothing };
        let Queue { waiting, in_device, .. } = self.queues[task as usize];
        if !self.is_fresh(task, now) || waiting == 0 && in_device == 0 && now >= until {
            self.reservation = None;
            return Reserved::Nothing;
        }
        match self.exclusive {
            // It has the slice, or the slice cannot be ended yet.
            Some(slice) if slice.owner == task || waiting == 0 || now < slice.preemptible_from => Reserved::Nothing,
            _ if !self.shares.is_first(task) => Reserved::Nothing,
            _ if waiting > 0 => Reserved::Serve(task),
            // The device is not kept idle where little may be given up.
            _ if !self.rotational && !self.settings.gives_up_all() => Reserved::Nothing,
            _ if in_device > 0 => Reserved::Wait(now + FULL_DEVICE_RECHECK),
            _ => Reserved::Wait(until),
        }
    }

    /// Requests waiting and in the device, of a tenant or of a queue.
    fn counts(&self, node: NodeId) -> (u32, u32) {
        match tenant_of(node) {
            Some(tenant) => {
                let account = &self.depth.accounts[tenant];
                (account.waiting, account.in_device)
            }
            None => {
                let queue = &self.queues[node as usize];
                (queue.waiting, queue.in_device)
            }
        }
    }

    /// Charges the device time of a finished request that its estimate did not foresee.
    fn correct_charge(&mut self, node: NodeId, took_ns: u64, now: Nanos) {
        let queue = &mut self.queues[node as usize];
        let guessed_ns = queue.estimate_ns;
        queue.estimate_ns = (7 * guessed_ns + took_ns) / 8;
        let correction = (took_ns as i64 - guessed_ns as i64) * NANOSECOND as i64;
        let waits = queue.waiting > 0;
        let weight = self.weight(node, self.is_fresh(node, now));
        self.shares.charge(node, correction, weight, false, waits);
    }
}
