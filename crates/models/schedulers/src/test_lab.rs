//! For tests of one scheduler: closed loops of requests, and a device whose service times are known.

use std::collections::BTreeMap;

use dumbwaiter_block::{
    Context, Event, Flags, Io, Ioprio, Nanos, Next, Op, Place, Replayable, Request, RequestId, Requests, Scheduler,
    Setup, State, TaskId, Tenant, TenantId, Tenants,
};

/// A task that keeps `depth` requests outstanding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) tenant: u32,
    pub(crate) ioprio: Ioprio,
    pub(crate) op: Op,
    pub(crate) flags: Flags,
    pub(crate) sectors: u32,
    pub(crate) depth: u32,
    pub(crate) think: Nanos,
    /// Its next position; `None` for random positions.
    pub(crate) sector: Option<u64>,
    pub(crate) stride: u64,
    pub(crate) start: Nanos,
    pub(crate) stop: Nanos,
}

impl Client {
    /// A reader at level 4 of the first tenant, one request of 64 KiB after another.
    pub(crate) fn reader() -> Client {
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

/// A device whose service times are known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    /// Requests that it holds.
    pub(crate) depth: u32,
    /// Requests that it serves at once.
    pub(crate) channels: usize,
    /// Time to a sector that does not follow the last request.
    pub(crate) seek: Nanos,
    /// Time of every request.
    pub(crate) fixed: Nanos,
    /// Time that a byte takes, ns.
    pub(crate) per_byte: u64,
}

impl Device {
    /// One request at a time, 100 MB/s, no seeks.
    pub(crate) const PLAIN: Device =
        Device { depth: 1, channels: 1, seek: Nanos::ZERO, fixed: Nanos::ZERO, per_byte: 10 };
}

/// A scheduler whose state is checked after every event.
pub(crate) trait Checked: Scheduler + Replayable {
    /// State that a check keeps for the next one.
    type Memory: Default;

    /// Panics if its state is inconsistent.
    fn check(&self, memory: &mut Self::Memory);

    /// Has it a reason to send nothing before `until`, which is a time?
    fn waits_with_reason(&self, _until: Nanos) -> bool {
        true
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
pub(crate) struct Sent {
    pub(crate) client: usize,
    pub(crate) at: Nanos,
    pub(crate) sectors: u32,
    pub(crate) sector: u64,
    /// Requests in the device before it: asynchronous and synchronous ones.
    pub(crate) in_device: [u32; 2],
}

/// A scheduler with its clients and its device, in virtual time.
pub(crate) struct Lab<S: Checked> {
    pub(crate) scheduler: S,
    pub(crate) tenants: Tenants,
    pub(crate) requests: Requests,
    pub(crate) clients: Vec<Client>,
    pub(crate) now: Nanos,
    pub(crate) sent: Vec<Sent>,
    pub(crate) done: Vec<(usize, Nanos)>,
    /// The state is checked after every event.
    pub(crate) check: bool,
    /// One in this many dispatches is not the scheduler's choice; 0: none.
    pub(crate) force: usize,
    pub(crate) device: Device,
    /// The client of each request.
    owner: Vec<usize>,
    /// The scheduler holds the request.
    queued: Vec<bool>,
    agenda: BTreeMap<(Nanos, u64), Happens>,
    sequence: u64,
    in_device: [u32; 2],
    free_at: Vec<Nanos>,
    head: u64,
    random: u64,
    asked_at: Nanos,
    memory: S::Memory,
}

impl<S: Checked> Lab<S> {
    pub(crate) fn new(make: impl FnOnce(Setup) -> S, setup: Setup, device: Device) -> Lab<S> {
        let mut tenants = Tenants::default();
        tenants.add_tenant(Tenant::default());
        Lab {
            scheduler: make(Setup { device_depth: device.depth, ..setup }),
            tenants,
            requests: Requests::default(),
            clients: Vec::new(),
            now: Nanos::ZERO,
            sent: Vec::new(),
            done: Vec::new(),
            check: true,
            force: 0,
            device,
            owner: Vec::new(),
            queued: Vec::new(),
            agenda: BTreeMap::new(),
            sequence: 0,
            in_device: [0; 2],
            free_at: vec![Nanos::ZERO; device.channels],
            head: 0,
            random: 0x9e37_79b9_7f4a_7c15,
            asked_at: Nanos::MAX,
            memory: S::Memory::default(),
        }
    }

    pub(crate) fn weights(mut self, weights: &[u32]) -> Lab<S> {
        self.tenants = weights.iter().map(|w| Tenant { weight: *w, parent: None }).collect();
        self
    }

    pub(crate) fn set(mut self, name: &str, value: i128) -> Lab<S> {
        dumbwaiter_block::set_tunable(&mut self.scheduler, name, value).unwrap();
        self
    }

    pub(crate) fn add(&mut self, client: Client) -> usize {
        let n = self.clients.len();
        self.tenants.add_task(TenantId(client.tenant), client.ioprio);
        self.clients.push(client);
        for _ in 0..client.depth {
            self.plan(client.start, Happens::Submit(n));
        }
        n
    }

    /// A tenant's weight changes now.
    pub(crate) fn reweigh(&mut self, tenant: u32, weight: u32) {
        self.tenants.tenant_mut(TenantId(tenant)).unwrap().weight = weight;
        let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
        self.scheduler.event(Event::TenantChanged(TenantId(tenant)), &ctx);
    }

    /// A task ends; its requests are still served.
    pub(crate) fn ends(&mut self, client: usize) {
        self.clients[client].stop = self.now;
        let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
        self.scheduler.event(Event::TaskExited(TaskId(client as u32)), &ctx);
        self.serve();
    }

    /// From now on a client's positions are random.
    pub(crate) fn jump_about(&mut self, client: usize) {
        self.clients[client].sector = None;
    }

    pub(crate) fn run(&mut self, until: Nanos) {
        while let Some((&(at, sequence), &what)) = self.agenda.first_key_value().filter(|e| e.0.0 <= until) {
            self.agenda.remove(&(at, sequence));
            self.now = at;
            match what {
                Happens::Submit(n) => self.submit(n),
                Happens::Done(id) => self.finish(id),
                Happens::Ask => self.asked_at = Nanos::MAX,
                Happens::Timer => {
                    let ctx = Context { now: at, requests: &self.requests, tenants: &self.tenants, busy: false };
                    if self.scheduler.timer().is_some_and(|t| t <= at) {
                        self.scheduler.event(Event::Timer, &ctx);
                    }
                }
            }
            // Events of the same moment come before the scheduler is asked.
            if self.agenda.first_key_value().is_none_or(|e| e.0.0 > at) {
                self.serve();
            }
            if self.check {
                self.scheduler.check(&mut self.memory);
            }
        }
        self.now = until;
    }

    pub(crate) fn state(&self) -> String {
        let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
        self.scheduler.describe(&ctx)
    }

    /// Parts of the time from `from` on: a client owns the device from its dispatch to another's.
    pub(crate) fn time_shares(&self, from: Nanos) -> Vec<f64> {
        let mut time = vec![0u64; self.clients.len()];
        for pair in self.sent.windows(2).filter(|p| p[0].at >= from) {
            time[pair[0].client] += (pair[1].at - pair[0].at).0;
        }
        let all: u64 = time.iter().sum();
        time.iter().map(|t| *t as f64 / all as f64).collect()
    }

    fn plan(&mut self, at: Nanos, what: Happens) {
        self.sequence += 1;
        self.agenda.insert((at.max(self.now), self.sequence), what);
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
            self.queued.resize(id.index() + 1, false);
        }
        (self.owner[id.index()], self.queued[id.index()]) = (n, true);
        let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
        self.scheduler.insert(id, Place::Tail, &ctx);
    }

    fn serve(&mut self) {
        while self.held() < self.device.depth && self.scheduler.has_work(0) {
            let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
            if self.force > 0
                && self.sent.len().is_multiple_of(self.force)
                && let Some(id) = self.any_queued()
            {
                self.scheduler.take(id, 0, &ctx);
                self.dispatch(id);
                continue;
            }
            match self.scheduler.next(0, &ctx) {
                Next::Dispatch(id) => self.dispatch(id),
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
        if let Some(at) = self.scheduler.timer() {
            self.plan(at, Happens::Timer);
        }
    }

    fn check_wait(&self, until: Nanos) {
        assert!(until > self.now);
        if until == Nanos::MAX {
            assert!(self.held() > 0, "waits for a completion and nothing is in the device: {}", self.state());
        } else {
            assert!(self.scheduler.waits_with_reason(until), "{}", self.state());
        }
    }

    /// A queued request, not the one that the scheduler would choose.
    fn any_queued(&self) -> Option<RequestId> {
        let n = self.queued.len();
        (0..n).map(|i| (i + self.sent.len()) % n).find(|i| self.queued[*i]).map(|i| RequestId(i as u32))
    }

    /// Requests in the device.
    fn held(&self) -> u32 {
        self.in_device[0] + self.in_device[1]
    }

    fn dispatch(&mut self, id: RequestId) {
        let request = self.requests[id];
        let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
        self.scheduler.issued(id, &ctx);
        self.queued[id.index()] = false;
        let client = self.owner[id.index()];
        let Request { sectors, sector, .. } = request;
        self.sent.push(Sent { client, at: self.now, sectors, sector, in_device: self.in_device });
        self.in_device[usize::from(request.sync())] += 1;
        let channel = (0..self.free_at.len()).min_by_key(|c| self.free_at[*c]).unwrap();
        let seek = if request.sector == self.head { Nanos::ZERO } else { self.device.seek };
        self.head = request.end();
        let transfer = Nanos(request.bytes() * self.device.per_byte);
        let end = self.free_at[channel].max(self.now) + seek + self.device.fixed + transfer;
        self.free_at[channel] = end;
        self.plan(end, Happens::Done(id));
    }

    fn finish(&mut self, id: RequestId) {
        let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
        self.scheduler.complete(id, &ctx);
        let request = self.requests.remove(id);
        self.in_device[usize::from(request.sync())] -= 1;
        let n = self.owner[id.index()];
        self.done.push((n, self.now));
        let think = self.clients[n].think;
        self.plan(self.now + think, Happens::Submit(n));
    }
}
