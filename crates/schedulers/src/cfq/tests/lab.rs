//! A scheduler, closed loops of requests, and a device whose service times are known.

use std::collections::BTreeMap;

use dumbwaiter_block::{
    Context, Event, Flags, Io, Ioprio, Nanos, Next, Op, Place, Replayable, Request, RequestId, Requests, Scheduler,
    State, TaskId, Tenant, TenantId, Tenants, TickClock,
};

use super::super::queue::{HOMELESS, NONE};
use super::super::{Cfq, Setup};

/// A task that keeps `depth` requests outstanding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    pub(super) tenant: u32,
    pub(super) ioprio: Ioprio,
    pub(super) op: Op,
    pub(super) flags: Flags,
    pub(super) sectors: u32,
    pub(super) depth: u32,
    pub(super) think: Nanos,
    /// Where it reads next; `None` reads all over.
    pub(super) sector: Option<u64>,
    pub(super) stride: u64,
    pub(super) start: Nanos,
    pub(super) stop: Nanos,
}

impl Client {
    /// A reader at level 4 of the first tenant, one request of 64 KiB after another.
    pub(super) fn reader() -> Client {
        Client {
            tenant: 0,
            ioprio: Ioprio::DEFAULT,
            op: Op::Read,
            flags: Flags::NONE,
            sectors: 128,
            depth: 1,
            think: Nanos::ZERO,
            sector: Some(0),
            stride: 128,
            start: Nanos::ZERO,
            stop: Nanos::MAX,
        }
    }
}

#[derive(Clone, Copy)]
enum Happens {
    Submit(usize),
    Done(RequestId),
    Ask,
    Timer,
}

/// One dispatch.
#[derive(Clone, Copy)]
pub(super) struct Sent {
    pub(super) client: usize,
    pub(super) at: Nanos,
    pub(super) sectors: u32,
    pub(super) sector: u64,
    /// In the device before it: of the same kind, of the other (async, sync).
    pub(super) in_device: [u32; 2],
}

pub(super) struct Lab {
    pub(super) cfq: Cfq,
    pub(super) tenants: Tenants,
    pub(super) requests: Requests,
    clients: Vec<Client>,
    owner: Vec<usize>,
    agenda: BTreeMap<(Nanos, u64), Happens>,
    sequence: u64,
    pub(super) now: Nanos,
    /// Requests the device holds, and serves at once.
    depth: u32,
    held: u32,
    in_device: [u32; 2],
    free_at: Vec<Nanos>,
    head: u64,
    seek: Nanos,
    fixed: Nanos,
    pub(super) sent: Vec<Sent>,
    pub(super) done: Vec<(usize, Nanos)>,
    random: u64,
    asked_at: Nanos,
    pub(super) check: bool,
    /// Every so many dispatches are not the scheduler's choice; 0: none.
    pub(super) force: usize,
    /// Virtual times of groups when last looked at, if they were active.
    vdisktimes: Vec<Option<u64>>,
    min_vdisktime: u64,
}

pub(super) const HZ_1000: TickClock = TickClock { period: Nanos::from_ms(1), step_at: Nanos::ZERO };

impl Lab {
    /// A disk of 100 MB/s that seeks in 5 ms and takes one request at a time, or of `depth`.
    pub(super) fn disk(make: impl FnOnce(Setup) -> Cfq, depth: u32) -> Lab {
        Lab::new(make, true, depth, 1, Nanos::from_ms(5), Nanos::ZERO)
    }

    /// The same, seeking in this time.
    pub(super) fn seeking(mut self, seek: Nanos) -> Lab {
        self.seek = seek;
        self
    }

    /// Flash: 16 ways of 80 us and 100 MB/s each, 32 requests.
    pub(super) fn flash(make: impl FnOnce(Setup) -> Cfq) -> Lab {
        Lab::new(make, false, 32, 16, Nanos::ZERO, Nanos::from_us(80))
    }

    fn new(
        make: impl FnOnce(Setup) -> Cfq,
        rotational: bool,
        depth: u32,
        ways: usize,
        seek: Nanos,
        fixed: Nanos,
    ) -> Lab {
        let setup = Setup { clock: HZ_1000, rotational, device_depth: depth, ..Setup::default() };
        let mut tenants = Tenants::default();
        tenants.add_tenant(Tenant::default());
        Lab {
            cfq: make(setup),
            tenants,
            requests: Requests::default(),
            clients: Vec::new(),
            owner: Vec::new(),
            agenda: BTreeMap::new(),
            sequence: 0,
            now: Nanos::ZERO,
            depth,
            held: 0,
            in_device: [0; 2],
            free_at: vec![Nanos::ZERO; ways],
            head: 0,
            seek,
            fixed,
            sent: Vec::new(),
            done: Vec::new(),
            random: 0x9e37_79b9_7f4a_7c15,
            asked_at: Nanos::MAX,
            check: true,
            force: 0,
            vdisktimes: Vec::new(),
            min_vdisktime: 0,
        }
    }

    pub(super) fn weights(mut self, weights: &[u32]) -> Lab {
        self.tenants = weights.iter().map(|w| Tenant { weight: *w, parent: None }).collect();
        self
    }

    pub(super) fn set(mut self, name: &str, value: i128) -> Lab {
        dumbwaiter_block::set_tunable(&mut self.cfq, name, value).unwrap();
        self
    }

    pub(super) fn add(&mut self, client: Client) -> usize {
        let n = self.clients.len();
        self.tenants.add_task(TenantId(client.tenant), client.ioprio);
        self.clients.push(client);
        for _ in 0..client.depth {
            self.plan(client.start, Happens::Submit(n));
        }
        n
    }

    /// A tenant's weight changes now.
    pub(super) fn reweigh(&mut self, tenant: u32, weight: u32) {
        self.tenants.tenant_mut(TenantId(tenant)).unwrap().weight = weight;
        let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
        self.cfq.event(Event::TenantChanged(TenantId(tenant)), &ctx);
    }

    /// A task ends; what it has asked for is still served.
    pub(super) fn ends(&mut self, client: usize) {
        self.clients[client].stop = self.now;
        let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
        self.cfq.event(Event::TaskExited(TaskId(client as u32)), &ctx);
        self.serve();
    }

    /// From now on a client reads all over.
    pub(super) fn jump_about(&mut self, client: usize) {
        self.clients[client].sector = None;
    }

    fn plan(&mut self, at: Nanos, what: Happens) {
        self.sequence += 1;
        self.agenda.insert((at.max(self.now), self.sequence), what);
    }

    pub(super) fn run(&mut self, until: Nanos) {
        while let Some((&(at, sequence), &what)) = self.agenda.first_key_value().filter(|e| e.0.0 <= until) {
            self.agenda.remove(&(at, sequence));
            self.now = at;
            match what {
                Happens::Submit(n) => self.submit(n),
                Happens::Done(id) => self.finish(id),
                Happens::Ask => {
                    self.asked_at = Nanos::MAX;
                }
                Happens::Timer => {
                    let ctx = Context { now: at, requests: &self.requests, tenants: &self.tenants, busy: false };
                    if self.cfq.timer().is_some_and(|t| t <= at) {
                        self.cfq.event(Event::Timer, &ctx);
                    }
                }
            }
            // What comes at the same moment comes before the scheduler is asked.
            if self.agenda.first_key_value().is_none_or(|e| e.0.0 > at) {
                self.serve();
            }
            if self.check {
                check(&self.cfq);
                self.check_times();
            }
        }
        self.now = until;
    }

    /// Virtual times go on while a group is active, and the least of them always.
    fn check_times(&mut self) {
        assert!(self.cfq.min_vdisktime >= self.min_vdisktime);
        self.min_vdisktime = self.cfq.min_vdisktime;
        self.vdisktimes.resize(self.cfq.groups.len(), None);
        for (before, group) in self.vdisktimes.iter_mut().zip(&self.cfq.groups) {
            let now = (group.queues > 0).then_some(group.vdisktime);
            assert!(before.is_none() || now.is_none() || now >= *before, "{before:?} {now:?}");
            *before = now;
        }
    }

    /// A wait has a reason: the idle timer, a tenant's slot or its next request; or something is in the device.
    fn check_wait(&self, until: Nanos) {
        assert!(until > self.now);
        if until == Nanos::MAX {
            assert!(self.held > 0, "waits for a completion and nothing is in the device: {}", self.state());
        } else if self.cfq.anticipation.is_none() {
            let active = &self.cfq.queues[self.cfq.active as usize];
            assert!(self.cfq.idle_timer == Some(until) && active.is_empty() && active.waiting, "{}", self.state());
        }
    }

    /// A queued request, not the one that the scheduler would choose.
    fn any_queued(&self) -> Option<RequestId> {
        let n = self.requests.capacity() as u32;
        (0..n).map(|i| RequestId((i + self.sent.len() as u32) % n)).find(|id| self.cfq.queued(*id))
    }

    fn submit(&mut self, n: usize) {
        let client = self.clients[n];
        if self.now >= client.stop {
            return;
        }
        let sector = match client.sector {
            Some(sector) => {
                self.clients[n].sector = Some(sector + client.stride);
                sector
            }
            None => {
                self.random =
                    self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (self.random >> 34) % 1_000_000 * 256
            }
        };
        let Client { op, flags, ioprio, sectors, tenant, .. } = client;
        let (task, tenant) = (TaskId(n as u32), TenantId(tenant));
        let io = Io { op, flags, ioprio, sector, sectors, task, tenant, ..Io::default() };
        let id = self.requests.insert(Request::new(io, self.now));
        self.requests[id].state = State::Queued;
        if id.index() >= self.owner.len() {
            self.owner.resize(id.index() + 1, 0);
        }
        self.owner[id.index()] = n;
        let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
        self.cfq.insert(id, Place::Tail, &ctx);
    }

    fn serve(&mut self) {
        while self.held < self.depth && self.cfq.has_work(0) {
            let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
            if self.force > 0
                && self.sent.len().is_multiple_of(self.force)
                && let Some(id) = self.any_queued()
            {
                self.cfq.take(id, 0, &ctx);
                self.take(id);
                continue;
            }
            match self.cfq.next(0, &ctx) {
                Next::Dispatch(id) => self.take(id),
                Next::WaitUntil(at) => {
                    self.check_wait(at);
                    if at != Nanos::MAX && at < self.asked_at {
                        self.asked_at = at;
                        self.plan(at, Happens::Ask);
                    }
                    break;
                }
                Next::Empty => panic!("it holds something and sends nothing: {}", self.state()),
            }
        }
        if let Some(at) = self.cfq.timer() {
            self.plan(at, Happens::Timer);
        }
    }

    fn state(&self) -> String {
        self.cfq.describe(&Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false })
    }

    fn take(&mut self, id: RequestId) {
        let request = self.requests[id];
        let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
        self.cfq.issued(id, &ctx);
        let client = self.owner[id.index()];
        let kind = usize::from(request.sync());
        let sent =
            Sent { client, at: self.now, sectors: request.sectors, sector: request.sector, in_device: self.in_device };
        self.sent.push(sent);
        self.held += 1;
        self.in_device[kind] += 1;
        let way = (0..self.free_at.len()).min_by_key(|w| self.free_at[*w]).unwrap();
        let seek = if request.sector == self.head { Nanos::ZERO } else { self.seek };
        self.head = request.end();
        let transfer = Nanos(request.bytes() * 10);
        let end = self.free_at[way].max(self.now) + seek + self.fixed + transfer;
        self.free_at[way] = end;
        self.plan(end, Happens::Done(id));
    }

    fn finish(&mut self, id: RequestId) {
        let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
        self.cfq.complete(id, &ctx);
        let request = self.requests.remove(id);
        self.held -= 1;
        self.in_device[usize::from(request.sync())] -= 1;
        let n = self.owner[id.index()];
        self.done.push((n, self.now));
        let think = self.clients[n].think;
        self.plan(self.now + think, Happens::Submit(n));
    }

    /// Parts of the time from `from` on: a client owns the device from its dispatch to another's.
    pub(super) fn time_shares(&self, from: Nanos) -> Vec<f64> {
        let mut time = vec![0u64; self.clients.len()];
        for pair in self.sent.windows(2).filter(|p| p[0].at >= from) {
            time[pair[0].client] += (pair[1].at - pair[0].at).0;
        }
        let all: u64 = time.iter().sum();
        time.iter().map(|t| *t as f64 / all as f64).collect()
    }

    /// Parts of what was sent from `from` on, counted as `what` says, by tenant.
    pub(super) fn shares(&self, from: Nanos, what: fn(&Sent) -> u64) -> Vec<f64> {
        let mut sum = vec![0u64; self.tenants.tenant_slots()];
        for sent in self.sent.iter().filter(|s| s.at >= from) {
            sum[self.clients[sent.client].tenant as usize] += what(sent);
        }
        let all: u64 = sum.iter().sum();
        sum.iter().map(|s| *s as f64 / all as f64).collect()
    }
}

/// Fractions, computed anew, are parts of a whole; none is less than one part of 4096.
pub(super) fn check_fractions(cfq: &Cfq) {
    let mut cfq = cfq.clone();
    let active: Vec<u32> = cfq.order.iter(&cfq.line).collect();
    active.iter().for_each(|g| cfq.refresh(*g));
    // The first were computed before the others took up new weights.
    active.iter().for_each(|g| cfq.refresh(*g));
    let fractions = active.iter().map(|g| cfq.groups[*g as usize].vfraction);
    let least = fractions.clone().filter(|f| *f == 1).count() as u64;
    assert!(fractions.sum::<u64>() <= 4096 + least);
}

/// Counts agree with what they count, and trees are in order.
pub(super) fn check(cfq: &Cfq) {
    let on_trees: usize = cfq.groups.iter().flat_map(|g| &g.trees).map(|t| t.tree.len()).sum();
    assert_eq!(on_trees, cfq.busy_queues as usize);
    let homes = cfq.queues.iter().filter(|q| q.home != HOMELESS);
    assert_eq!(homes.clone().count(), on_trees);
    assert_eq!(homes.filter(|q| q.sync).count(), cfq.busy_sync as usize);
    let queued: usize = cfq.queues.iter().map(|q| q.requests.len()).sum();
    assert_eq!(queued, cfq.rq_queued as usize);
    for (i, q) in cfq.queues.iter().enumerate() {
        let active = cfq.active == i as u32;
        assert!(!q.is_empty() || q.home == HOMELESS || active, "an empty queue in line");
        assert!(q.is_empty() || q.home != HOMELESS, "a queue with requests is not in line");
        assert_eq!(q.is_empty(), q.next == NONE);
        assert_eq!(q.requests.len(), q.fifo.len());
    }
    for g in &cfq.groups {
        for tree in &g.trees {
            assert!(cfq.service.iter(&tree.tree).is_sorted_by_key(|q| cfq.service.key(q)));
        }
        assert_eq!(g.queues as usize, g.trees.iter().map(|t| t.tree.len()).sum::<usize>());
    }
    assert_eq!(cfq.groups.iter().filter(|g| g.queues > 0).count(), cfq.line.len());
    assert!(cfq.order.iter(&cfq.line).is_sorted_by_key(|g| cfq.groups[g as usize].vdisktime));
    assert!(cfq.groups.iter().map(|g| g.in_flight).sum::<u32>() == cfq.in_flight[0] + cfq.in_flight[1]);
}
