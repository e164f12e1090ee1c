//! The calls of the block layer.

use dumbwaiter_block::{Context, Event, Flags, Io, Join, Nanos, Next, Op, Place, Request, RequestId, Scheduler, Side};

use super::exclusive::ExclusiveSlice;
use super::queue::{self, Order, is_foreground, queue_node};
use super::settings::{SETTINGS, TUNABLES};
use super::shares::{self, NANOSECOND, SECTOR, tenant_node};
use super::{FULL_DEVICE_RECHECK, Headway, Reserved, Slot, fresh};
use crate::settings::has_settings;

impl Scheduler for Headway {
    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) {
        let node = self.queue_of(id, ctx);
        let request = &ctx.requests[id];
        let patience = self.patience();
        let account = &mut self.depth.accounts[request.io.tenant.0 as usize];
        let away = account.outstanding == 0 && ctx.now.since(account.last_seen) > patience;
        if account.waiting == 0 {
            self.hold.is_back(request.io.tenant.0);
        }
        account.arrived(ctx.now, request.io.flags.any(Flags::PACED));
        let queue = &self.queues[node as usize];
        let seen = queue.last_seen;
        let quiet = seen > Nanos::ZERO && ctx.now.since(seen) >= fresh::QUIET_TIME;
        if queue.outstanding == 0 && request.sync() && quiet {
            self.starts.started(node, &mut self.queues, ctx.now);
        }
        let order = match place {
            Place::Head => Order::Head,
            Place::Tail if self.rotational => Order::Sector,
            Place::Tail => Order::Arrival(request.io.op.dir()),
        };
        let queue = &mut self.queues[node as usize];
        queue.outstanding += 1;
        queue.waiting += 1;
        queue.foreground += u32::from(is_foreground(request));
        queue.insert(&mut self.storage, id, order, request.sector);
        let first = queue.waiting == 1;
        if id.index() >= self.slots.len() {
            self.slots.resize(id.index() + 1, Slot::default());
        }
        let charged = matches!(order, Order::Head) && self.slots[id.index()].charged;
        self.slots[id.index()] = Slot { queue: node, order, charged, sent: false };
        self.waiting += 1;
        if first {
            self.shares.set_weight(node, queue::weight_of(request.io.ioprio));
            self.shares.enter(node, away, self.rotational);
        }
    }

    fn has_work(&self, _hw_queue: usize) -> bool {
        self.waiting > 0
    }

    fn next(&mut self, _hw_queue: usize, ctx: &Context<'_>) -> Next {
        if self.exclusive.is_some_and(|slice| ctx.now >= slice.ends) {
            self.exclusive = None;
        }
        let reserved = match self.reserved(ctx.now) {
            Reserved::Nothing => None,
            Reserved::Wait(until) => return Next::WaitUntil(until),
            Reserved::Serve(task) => {
                self.exclusive = None;
                Some(task)
            }
        };
        if let Some(until) = self.idles_until(ctx.now) {
            return Next::WaitUntil(until);
        }
        let special = self.exclusive.is_some() || reserved.is_some();
        if self.in_device >= if special { self.depth.max } else { self.depth.current } {
            // Only a completion makes room.
            return Next::WaitUntil(ctx.now + FULL_DEVICE_RECHECK);
        }
        if self.batch_len >= self.depth.scaled(self.settings.batch) {
            (self.batch_dir, self.batch_len) = (queue::other(self.batch_dir), 0);
        }
        let exclusive = self.exclusive.and_then(|slice| self.first_in(slice.owner));
        let special = exclusive.or(reserved);
        if special.is_none()
            && let Some(until) = self.held_until(ctx.now)
        {
            return Next::WaitUntil(until);
        }
        let run = if special.is_none() { self.in_run() } else { None };
        let in_turn = exclusive.is_none() && run.is_none();
        let Some(node) = special.or(run).or_else(|| self.first()) else { return Next::Empty };
        let Some(id) = self.pick(node) else { return Next::Empty };
        self.send(node, id, in_turn, ctx);
        Next::Dispatch(id)
    }

    fn complete(&mut self, id: RequestId, ctx: &Context<'_>) -> bool {
        let request = &ctx.requests[id];
        let Slot { queue: node, .. } = self.slots[id.index()];
        let patience = self.patience();
        let alone = self.exclusive.is_some_and(|slice| slice.owner == node);
        let since = if alone { self.last_completion } else { self.last_completion.max(request.issue) };
        let took_ns = ctx.now.since(since).0;
        self.last_completion = ctx.now;
        let queue = &mut self.queues[node as usize];
        queue.in_device -= 1;
        queue.outstanding -= 1;
        queue.foreground -= u32::from(is_foreground(request));
        queue.last_seen = ctx.now;
        let used = if self.rotational { took_ns * NANOSECOND } else { u64::from(request.sectors) * SECTOR };
        if self.rotational {
            self.correct_charge(node, took_ns, ctx.now);
        }
        let tenant = request.io.tenant.0;
        let account = &mut self.depth.accounts[tenant as usize];
        account.completed(used, ctx.now);
        self.in_device -= 1;
        if let Some(reservation) = self.reservation.as_mut().filter(|r| r.task == node) {
            reservation.until = ctx.now + patience;
        }
        if let Some(slice) = &mut self.exclusive {
            if slice.owner == node || slice.owner == tenant_node(tenant) {
                slice.idle_until = ctx.now + patience;
            }
        } else if account.behind
            && self.depth.current <= 2
            && self.settings.gives_up_all()
            && account.waiting == 0
            && account.in_device == 0
        {
            self.exclusive = Some(ExclusiveSlice::of_tenant(tenant_node(tenant), patience, ctx.now));
        }
        self.depth.completed(&self.shares, self.settings.following(), ctx.now);
        self.waiting > 0
    }

    fn requeued(&mut self, id: RequestId, ctx: &Context<'_>) {
        let request = &ctx.requests[id];
        let slot = &mut self.slots[id.index()];
        slot.charged = true;
        let queue = &mut self.queues[slot.queue as usize];
        queue.in_device -= 1;
        queue.outstanding -= 1;
        queue.foreground -= u32::from(is_foreground(request));
        self.depth.accounts[request.io.tenant.0 as usize].returned();
        self.in_device -= 1;
    }

    fn allow_merge(&self, queued: RequestId, io: &Io, ctx: &Context<'_>) -> bool {
        // Each tenant pays for what it moves: requests of different tenants or tasks do not merge.
        let own = queue_node(&Request::new(*io, Nanos::ZERO));
        self.slots[queued.index()].queue == own && ctx.requests[queued].io.tenant == io.tenant
    }

    fn merged(&mut self, join: Join, ctx: &Context<'_>) {
        if join.side == Side::Front {
            let Slot { queue, order, .. } = self.slots[join.into.index()];
            let sector = ctx.requests[join.into].sector;
            self.queues[queue as usize].moved(&mut self.storage, join.into, order, sector);
        }
    }

    fn limit(&self, io: &Io, nr_requests: u32) -> u32 {
        // Asynchronous writes get half of the slots.
        if io.op != Op::Read && !io.flags.any(Flags::SYNC.with(Flags::FUA)) {
            return (nr_requests / 2).max(1);
        }
        // When slots are scarce, each tenant has as many as its share: without one it could not use its turn.
        let scarce = (self.waiting + self.in_device) * 4 > nr_requests * 3;
        let tenant = io.tenant.0 as usize;
        let account = self.depth.accounts.get(tenant).filter(|_| scarce && self.settings.follow_shares);
        let share = self.shares.share(tenant);
        let whole = self.depth.active_share.max(share);
        match account {
            Some(a) if u64::from(a.outstanding) * whole > u64::from(nr_requests) * share => 1,
            _ => nr_requests,
        }
    }

    fn follower(&self, chosen: RequestId, ctx: &Context<'_>) -> Option<RequestId> {
        let limit = self.settings.join_sectors();
        if limit == 0 || self.rotational {
            return None;
        }
        let request = &ctx.requests[chosen];
        let queue = &self.queues[self.slots[chosen.index()].queue as usize];
        let next = queue.oldest(request.io.op.dir())?;
        let follows = ctx.requests[next].sector == request.end();
        let sectors = u64::from(request.sectors) + u64::from(ctx.requests[next].sectors);
        (follows && sectors <= self.depth.scaled(limit)).then_some(next)
    }

    fn withdraw(&mut self, id: RequestId, ctx: &Context<'_>) -> bool {
        if self.slots[id.index()].charged {
            // The driver gave it back: it stays where it is.
            return false;
        }
        self.absorbed(id, id, ctx);
        true
    }

    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, ctx: &Context<'_>) {
        let Slot { queue: node, order, .. } = self.slots[absorbed.index()];
        let request = &ctx.requests[absorbed];
        self.depth.accounts[request.io.tenant.0 as usize].absorbed(ctx.now);
        let queue = &mut self.queues[node as usize];
        queue.remove(&mut self.storage, absorbed, order);
        queue.outstanding -= 1;
        queue.foreground -= u32::from(is_foreground(request));
        queue.waiting -= 1;
        self.waiting -= 1;
        let waits = queue.waiting > 0;
        if self.slots[survivor.index()].sent {
            // The survivor was charged before it grew.
            queue.note_sent(request.sector, request.sectors);
            self.run.used(u64::from(request.sectors));
            let weight = self.weight(node, self.is_fresh(node, ctx.now));
            self.shares.charge(node, (u64::from(request.sectors) * SECTOR) as i64, weight, false, waits);
        } else if !waits {
            self.shares.charge(node, 0, shares::DEFAULT_WEIGHT, false, false);
        }
    }

    fn event(&mut self, event: Event, ctx: &Context<'_>) {
        match event {
            Event::TenantAdded(_) | Event::TenantChanged(_) => self.learn_shares(ctx, None),
            Event::TenantRetired(tenant) => self.forget_tenant(tenant, ctx),
            Event::TaskExited(task) => self.forget_task(task),
            // Queued requests stay where they are: both orders are served.
            Event::RotationalChanged(rotational) => self.rotational = rotational,
            Event::WriterPaused => {}
            Event::DepthChanged { device_depth, .. } => self.depth.set_max(device_depth),
            // The next request brings a task's tenant and priority.
            Event::TaskAdded(_) | Event::TaskChanged(_) | Event::Timer => {}
        }
    }

    has_settings!(SETTINGS, TUNABLES in settings);

    fn counters(&self, count: &mut dyn FnMut(&'static str, u64)) {
        count("headway_held_ns", self.hold.held.0);
    }

    fn describe(&self, _ctx: &Context<'_>) -> String {
        let owner = self.exclusive.map_or("none".to_owned(), |e| format!("node {} until {}", e.owner, e.ends));
        let mut text = format!(
            "depth {} of {}, {} in device, exclusive for {owner}\n",
            self.depth.current, self.depth.max, self.in_device
        );
        for (tenant, account) in self.depth.accounts.iter().enumerate() {
            let node = tenant_node(tenant as u32);
            if self.shares.is_live(node) {
                text += &format!(
                    "tenant {tenant}: time {} share {} in device {} waiting {} behind {}\n",
                    self.shares.time(node),
                    self.shares.share(tenant),
                    account.in_device,
                    account.waiting,
                    account.behind
                );
            }
        }
        text
    }

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}
