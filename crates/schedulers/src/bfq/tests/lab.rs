//! A scheduler, closed loops of requests, and a device whose service times are known.

use std::collections::BTreeMap;

use dumbwaiter_block::{
    Context, Event, Flags, Io, Ioprio, Nanos, Next, Op, Place, Request, RequestId, Requests, Scheduler, State, TaskId,
    Tenant, TenantId, Tenants,
};

use super::super::queue::NONE;
use super::super::{Bfq, Setup};

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
}

pub(super) struct Lab {
    pub(super) bfq: Bfq,
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
    free_at: Vec<Nanos>,
    head: u64,
    seek: Nanos,
    fixed: Nanos,
    pub(super) sent: Vec<Sent>,
    pub(super) done: Vec<(usize, Nanos)>,
    random: u64,
    asked_at: Nanos,
    pub(super) check: bool,
    /// Time that a byte takes, ns.
    per_byte: u64,
}

impl Lab {
    /// As the kernel was measured: one request after another, 64 KiB in 4.1 ms wherever it lies.
    pub(super) fn fifo(make: impl FnOnce(Setup) -> Bfq, depth: u32) -> Lab {
        Lab { per_byte: 63, ..Lab::new(make, true, depth, 1, Nanos::ZERO, Nanos::ZERO) }
    }

    /// The same, said to be flash.
    pub(super) fn flash(make: impl FnOnce(Setup) -> Bfq, depth: u32) -> Lab {
        Lab { per_byte: 63, ..Lab::new(make, false, depth, 1, Nanos::ZERO, Nanos::ZERO) }
    }

    /// A disk of 100 MB/s that seeks in 5 ms and takes one request at a time.
    pub(super) fn disk(make: impl FnOnce(Setup) -> Bfq) -> Lab {
        Lab::new(make, true, 1, 1, Nanos::from_ms(5), Nanos::ZERO)
    }

    fn new(
        make: impl FnOnce(Setup) -> Bfq,
        rotational: bool,
        depth: u32,
        ways: usize,
        seek: Nanos,
        fixed: Nanos,
    ) -> Lab {
        let setup = Setup { rotational, device_depth: depth, ..Setup::default() };
        let mut tenants = Tenants::default();
        tenants.add_tenant(Tenant::default());
        Lab {
            bfq: make(setup),
            tenants,
            requests: Requests::default(),
            clients: Vec::new(),
            owner: Vec::new(),
            agenda: BTreeMap::new(),
            sequence: 0,
            now: Nanos::ZERO,
            depth,
            held: 0,
            free_at: vec![Nanos::ZERO; ways],
            head: 0,
            seek,
            fixed,
            sent: Vec::new(),
            done: Vec::new(),
            random: 0x9e37_79b9_7f4a_7c15,
            asked_at: Nanos::MAX,
            check: true,
            per_byte: 10,
        }
    }

    pub(super) fn weights(mut self, weights: &[u32]) -> Lab {
        self.tenants = weights.iter().map(|w| Tenant { weight: *w, parent: None }).collect();
        self
    }

    pub(super) fn set(mut self, name: &str, value: i128) -> Lab {
        dumbwaiter_block::set_tunable(&mut self.bfq, name, value).unwrap();
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
                    if self.bfq.timer().is_some_and(|t| t <= at) {
                        self.bfq.event(Event::Timer, &ctx);
                    }
                }
            }
            // What comes at the same moment comes before the scheduler is asked.
            if self.agenda.first_key_value().is_none_or(|e| e.0.0 > at) {
                self.serve();
            }
            if self.check {
                check(&self.bfq);
            }
        }
        self.now = until;
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
        self.bfq.insert(id, Place::Tail, &ctx);
    }

    fn serve(&mut self) {
        while self.held < self.depth && self.bfq.has_work(0) {
            let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
            match self.bfq.next(0, &ctx) {
                Next::Dispatch(id) => self.take(id),
                Next::WaitUntil(at) => {
                    assert!(at > self.now);
                    if at != Nanos::MAX && at < self.asked_at {
                        self.asked_at = at;
                        self.plan(at, Happens::Ask);
                    } else if at == Nanos::MAX {
                        assert!(self.held > 0, "waits for a completion and nothing is in the device: {}", self.state());
                    }
                    break;
                }
                Next::Empty => panic!("it holds something and sends nothing: {}", self.state()),
            }
        }
        if let Some(at) = self.bfq.timer() {
            self.plan(at, Happens::Timer);
        }
    }

    pub(super) fn state(&self) -> String {
        self.bfq.describe(&Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false })
    }

    fn take(&mut self, id: RequestId) {
        let request = self.requests[id];
        let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
        self.bfq.issued(id, &ctx);
        let client = self.owner[id.index()];
        let sent = Sent { client, at: self.now, sectors: request.sectors };
        self.sent.push(sent);
        self.held += 1;
        let way = (0..self.free_at.len()).min_by_key(|w| self.free_at[*w]).unwrap();
        let seek = if request.sector == self.head { Nanos::ZERO } else { self.seek };
        self.head = request.end();
        let transfer = Nanos(request.bytes() * self.per_byte);
        let end = self.free_at[way].max(self.now) + seek + self.fixed + transfer;
        self.free_at[way] = end;
        self.plan(end, Happens::Done(id));
    }

    fn finish(&mut self, id: RequestId) {
        let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
        self.bfq.complete(id, &ctx);
        self.requests.remove(id);
        self.held -= 1;
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

    /// Parts of the sectors sent between two times, by client.
    pub(super) fn shares(&self, from: Nanos, to: Nanos) -> Vec<f64> {
        let mut sum = vec![0u64; self.clients.len()];
        for sent in self.sent.iter().filter(|s| s.at >= from && s.at < to) {
            sum[sent.client] += u64::from(sent.sectors);
        }
        let all: u64 = sum.iter().sum();
        sum.iter().map(|s| *s as f64 / all.max(1) as f64).collect()
    }

    /// Who was served from when on, and for how many sectors, as long as it was the same.
    pub(super) fn turns(&self) -> Vec<(usize, Nanos, u64)> {
        let mut turns: Vec<(usize, Nanos, u64)> = Vec::new();
        for sent in &self.sent {
            match turns.last_mut().filter(|t| t.0 == sent.client) {
                Some(turn) => turn.2 += u64::from(sent.sectors),
                None => turns.push((sent.client, sent.at, u64::from(sent.sectors))),
            }
        }
        turns
    }
}

/// Counters agree with what they count.
pub(super) fn check(bfq: &Bfq) {
    let live = || bfq.queues.iter().filter(|q| q.live);
    assert_eq!(live().filter(|q| q.busy).count(), bfq.busy_total() as usize);
    assert_eq!(live().map(|q| q.queued[0] + q.queued[1]).sum::<u32>(), bfq.queued);
    assert_eq!(live().map(|q| q.in_flight).sum::<u32>(), bfq.in_driver);
    assert_eq!(live().filter(|q| q.busy && q.raise.coeff > 1).count(), bfq.raised_busy as usize);
    assert_eq!(live().filter(|q| q.pending).count(), bfq.pending as usize);
    assert_eq!(live().filter(|q| q.pending && q.constantly_seeky).count(), bfq.pending_seeky as usize);
    assert_eq!(bfq.groups.iter().filter(|g| g.pending > 0).count(), bfq.groups_pending as usize);
    let crowded = bfq.groups.iter().filter(|g| g.entity.is_some() && g.active_children > 1).count();
    assert_eq!(crowded, bfq.crowded_groups as usize);
    let counted: u32 = bfq.weight_counts.iter().map(|w| w.1).sum();
    assert_eq!(live().filter(|q| q.counted.is_some()).count(), counted as usize);
    for (i, queue) in bfq.queues.iter().enumerate().filter(|(_, q)| q.live) {
        assert_eq!(queue.is_empty(), queue.next == NONE);
        assert!(queue.is_empty() || queue.busy);
        assert!(!queue.busy || queue.pending);
        let entity = bfq.engine.entity(queue.entity);
        let oversized = queue.max_budget.max(512);
        assert!(bfq.in_service != Some(i as u32) || entity.used <= entity.budget.max(oversized));
    }
}
