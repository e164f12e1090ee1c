use dumbwaiter_block::{
    BlockLayer, Config, Event, Io, Ioprio, Next, Op, Request, Requests, Scheduler, State, Task, TaskId, Tenant,
    TenantId, Tenants,
};
use proptest::prelude::*;

use super::shares::task_node;
use super::*;

/// A scheduler driven without a block layer.
struct Lab {
    headway: Headway,
    requests: Requests,
    tenants: Tenants,
    now: Nanos,
    sector: u64,
}

impl Lab {
    fn new(weights: &[u32], device_depth: u32) -> Lab {
        let mut tenants: Tenants = weights.iter().map(|w| Tenant { weight: *w, parent: None }).collect();
        for tenant in 0..weights.len() as u32 {
            tenants.add_task(TenantId(tenant), Ioprio::DEFAULT);
        }
        let mut headway = Headway::new(Setup { device_depth, ..Setup::default() });
        // No task is preferred, so that the shares alone decide.
        headway.set("low_latency", 0);
        Lab { headway, requests: Requests::default(), tenants, now: Nanos::ZERO, sector: 0 }
    }

    fn with<R>(&mut self, call: impl FnOnce(&mut Headway, &Context<'_>) -> R) -> R {
        let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
        call(&mut self.headway, &ctx)
    }

    /// A read of 8 sectors by a task for a tenant.
    fn read_for(&mut self, task: u32, tenant: u32) -> RequestId {
        self.request_for(Op::Read, task, tenant)
    }

    fn request_for(&mut self, op: Op, task: u32, tenant: u32) -> RequestId {
        self.sector += 10_000;
        let (task, tenant) = (TaskId(task), TenantId(tenant));
        let ioprio = Ioprio::DEFAULT;
        let io = Io { op, ioprio, sector: self.sector, sectors: 8, task, tenant, ..Io::default() };
        let mut request = Request::new(io, self.now);
        request.state = State::Queued;
        let id = self.requests.insert(request);
        self.with(|h, ctx| h.insert(id, dumbwaiter_block::Place::Tail, ctx));
        id
    }

    fn read(&mut self, tenant: u32) -> RequestId {
        self.read_for(tenant, tenant)
    }

    fn next(&mut self) -> Option<RequestId> {
        match self.with(|h, ctx| h.next(0, ctx)) {
            Next::Dispatch(id) => Some(id),
            _ => None,
        }
    }

    fn tenant(&self, id: RequestId) -> u32 {
        self.requests[id].io.tenant.0
    }

    fn complete(&mut self, id: RequestId) {
        self.now += Nanos::from_us(10);
        self.with(|h, ctx| h.complete(id, ctx));
        self.requests.remove(id);
    }

    fn requeue(&mut self, id: RequestId) {
        self.with(|h, ctx| h.requeued(id, ctx));
        self.with(|h, ctx| h.insert(id, dumbwaiter_block::Place::Head, ctx));
    }

    /// Serves `count` requests one at a time, with a backlog of four for each of these tenants; returns how many each got.
    /// The driver returns each request of `requeues` once before it serves it.
    fn serve(&mut self, tenants: &[u32], count: usize, requeues: Option<u32>) -> Vec<usize> {
        for tenant in tenants {
            (0..4).for_each(|_| _ = self.read(*tenant));
        }
        let mut got = vec![0; self.tenants.tenant_slots()];
        let mut returned = std::collections::BTreeSet::new();
        while got.iter().sum::<usize>() < count {
            let id = self.next().unwrap();
            let tenant = self.tenant(id);
            if requeues == Some(tenant) && returned.insert(id) {
                self.requeue(id);
                continue;
            }
            returned.remove(&id);
            got[tenant as usize] += 1;
            self.complete(id);
            self.read(tenant);
        }
        got
    }

    fn share(&self, tenant: u32) -> u64 {
        self.headway.shares.share(tenant as usize)
    }
}

/// Task 0 is fresh and asks for one thing after the other, task 1 for much at once.
#[test]
fn flash_is_kept_idle_for_a_fresh_task_behind_its_reads_only() {
    for (op, is_kept) in [(Op::Read, true), (Op::Write, false)] {
        let mut lab = Lab::new(&[100], 32);
        lab.headway.set("low_latency", 1);
        lab.tenants.add_task(TenantId(0), Ioprio::DEFAULT);
        (0..8).for_each(|_| _ = lab.read_for(1, 0));
        let own = lab.request_for(op, 0, 0);
        let sent: Vec<RequestId> = std::iter::from_fn(|| lab.next()).collect();
        assert!(sent.contains(&own), "{op:?}");
        assert_eq!(sent.len() < 9, is_kept, "{op:?}: {} of 9 were sent", sent.len());
    }
}

#[test]
fn a_requeued_request_is_charged_once() {
    for rotational in [false, true] {
        let mut lab = Lab::new(&[100, 100], 1);
        lab.headway.rotational = rotational;
        lab.headway.set("slice_us", 0);
        let got = lab.serve(&[0, 1], 400, Some(0));
        assert!(got[0].abs_diff(got[1]) <= 8, "rotational {rotational}: {got:?}");
    }
}

#[test]
fn service_follows_weights_at_once_when_they_change() {
    let mut lab = Lab::new(&[100, 300], 1);
    assert!(lab.serve(&[0, 1], 400, None)[0].abs_diff(100) <= 4);
    lab.tenants.tenant_mut(TenantId(0)).unwrap().weight = 900;
    lab.with(|h, ctx| h.event(Event::TenantChanged(TenantId(0)), ctx));
    assert!(lab.serve(&[], 400, None)[0].abs_diff(300) <= 4);
    assert_eq!(lab.share(0) / lab.share(1), 3);
}

/// Tenants 0 and 1 have 100 and 300. Tenant 2 moves into tenant 0 while it has a backlog, and out again.
#[test]
fn a_tenant_moves_with_its_backlog_and_takes_no_service_along() {
    let mut lab = Lab::new(&[100, 300, 300], 1);
    let got = lab.serve(&[0, 1, 2], 700, None);
    assert!(got[0].abs_diff(100) <= 4 && got[1].abs_diff(got[2]) <= 4, "{got:?}");
    let nest = |lab: &mut Lab, parent: Option<u32>| {
        lab.tenants.tenant_mut(TenantId(2)).unwrap().parent = parent.map(TenantId);
        lab.with(|h, ctx| h.event(Event::TenantChanged(TenantId(2)), ctx));
    };
    nest(&mut lab, Some(0));
    assert_eq!((lab.share(0), lab.share(1), lab.share(2)), (1 << 22, 3 << 22, 1 << 22));
    let got = lab.serve(&[], 800, None);
    // Its own task and the nested tenant share tenant 0's quarter, 100 to 300.
    assert!(got[1].abs_diff(600) <= 8 && got[2].abs_diff(150) <= 16, "{got:?}");
    nest(&mut lab, None);
    let got = lab.serve(&[], 700, None);
    assert!(got[0].abs_diff(100) <= 8 && got[1].abs_diff(got[2]) <= 8, "{got:?}");
}

/// A task keeps a backlog while it moves from tenant 0 to tenant 1; then tenant 0 goes and comes again.
#[test]
fn a_tenant_retires_while_a_task_that_left_it_has_a_backlog() {
    let mut lab = Lab::new(&[100, 100, 100], 1);
    (0..4).for_each(|_| _ = lab.read_for(0, 0));
    let mut moved: Vec<RequestId> = (0..4).map(|_| lab.read_for(0, 1)).collect();
    for _ in 0..4 {
        let id = lab.next().unwrap();
        assert_eq!(lab.tenant(id), 0);
        lab.complete(id);
    }
    lab.with(|h, ctx| h.event(Event::TenantRetired(TenantId(0)), ctx));
    assert_eq!((lab.share(0), lab.share(1)), (0, 1 << 23));
    lab.tenants.tenant_mut(TenantId(0)).unwrap().weight = 200;
    lab.with(|h, ctx| h.event(Event::TenantAdded(TenantId(0)), ctx));
    assert_eq!((lab.share(0), lab.share(1)), (1 << 23, 1 << 22));
    while let Some(id) = lab.next() {
        assert_eq!(id, moved.remove(0));
        lab.complete(id);
    }
    assert!(moved.is_empty() && !lab.headway.has_work(0));
}

#[test]
fn parents_in_a_circle_hang_from_the_root() {
    let mut lab = Lab::new(&[100, 100], 1);
    lab.tenants.tenant_mut(TenantId(0)).unwrap().parent = Some(TenantId(1));
    lab.tenants.tenant_mut(TenantId(1)).unwrap().parent = Some(TenantId(0));
    let got = lab.serve(&[0, 1], 100, None);
    assert!(got[0].abs_diff(got[1]) <= 2, "{got:?}");
}

/// Shares as they are defined: weight over the weights of all siblings, times the share of the parent.
fn slow_share(tenants: &Tenants, id: TenantId) -> u64 {
    let own = tenants.tenant(id).unwrap();
    let siblings: u64 =
        tenants.tenants().filter(|(_, t)| t.parent == own.parent).map(|(_, t)| u64::from(t.weight)).sum();
    let above = own.parent.map_or(shares::WHOLE, |p| slow_share(tenants, p));
    (above * u64::from(own.weight) / siblings).max(1)
}

proptest! {
    /// Any changes of weight, nesting and membership, with requests waiting, give the shares of the slow computation; and
    /// every request is served.
    #[test]
    fn shares_are_those_of_a_slow_model(changes in proptest::collection::vec((0u8..5, 0u32..12, 1u32..10_000, 0u32..12), 1..60)) {
        let mut lab = Lab::new(&[100, 100, 100], 4);
        let mut outstanding = 0;
        for (what, tenant, weight, other) in changes {
            let (id, parent) = (TenantId(tenant), TenantId(other));
            let exists = lab.tenants.tenant(id).is_some();
            let nested = lab.tenants.tenants().any(|(_, t)| t.parent == Some(id));
            match what {
                0 if !exists => {
                    let added = lab.tenants.add_tenant(Tenant { weight, parent: None });
                    lab.with(|h, ctx| h.event(Event::TenantAdded(added), ctx));
                }
                1 if exists => {
                    lab.tenants.tenant_mut(id).unwrap().weight = weight;
                    lab.with(|h, ctx| h.event(Event::TenantChanged(id), ctx));
                }
                2 if exists && !nested && tenant != other && lab.tenants.tenant(parent).is_some() => {
                    lab.tenants.tenant_mut(id).unwrap().parent = Some(parent);
                    lab.with(|h, ctx| h.event(Event::TenantChanged(id), ctx));
                }
                3 if exists && !nested => {
                    let busy = lab.headway.depth.accounts.get(tenant as usize).is_some_and(|a| a.outstanding > 0);
                    if !busy {
                        lab.with(|h, ctx| h.event(Event::TenantRetired(id), ctx));
                        lab.tenants.remove_tenant(id);
                    }
                }
                _ if exists => {
                    // Task `other` may have requests of several tenants.
                    lab.read_for(other, tenant);
                    outstanding += 1;
                }
                _ => {}
            }
            if lab.headway.shares.learned() {
                for (id, _) in lab.tenants.tenants() {
                    prop_assert_eq!(lab.share(id.0), slow_share(&lab.tenants, id), "tenant {}", id.0);
                }
            }
        }
        for _ in 0..outstanding {
            let id = lab.next().unwrap();
            lab.complete(id);
        }
        prop_assert!(!lab.headway.has_work(0));
    }
}

/// Ten thousand tenants and tasks that come, read and go leave no state behind, and none that a later one inherits.
#[test]
fn connects_and_disconnects_leave_nothing() {
    let mut lab = Lab::new(&[100], 2);
    let mut sizes = Vec::new();
    for round in 0..10_000u32 {
        let tenant = lab.tenants.add_tenant(Tenant { weight: 1 + round % 1000, parent: None });
        lab.with(|h, ctx| h.event(Event::TenantAdded(tenant), ctx));
        let task = lab.tenants.add_task(tenant, Ioprio::DEFAULT);
        lab.with(|h, ctx| h.event(Event::TaskAdded(task), ctx));
        assert!(lab.headway.queues.get(task_node(task.0) as usize).is_none_or(|q| q.last_seen == Nanos::ZERO));
        lab.read_for(task.0, tenant.0);
        let id = lab.next().unwrap();
        lab.complete(id);
        lab.with(|h, ctx| h.event(Event::TaskExited(task), ctx));
        lab.tenants.remove_task(task);
        lab.with(|h, ctx| h.event(Event::TenantRetired(tenant), ctx));
        lab.tenants.remove_tenant(tenant);
        sizes.push((lab.headway.queues.len(), lab.headway.slots.len(), lab.headway.depth.accounts.len()));
    }
    assert_eq!(sizes[0], sizes[9_999]);
    assert!(!lab.headway.shares.is_live(tenant_node(1)) && !lab.headway.shares.is_live(task_node(1)));
}

#[test]
fn a_run_serves_a_task_a_few_times_in_a_row_and_shares_hold() {
    let switches = |run_kib| {
        let mut lab = Lab::new(&[100, 300], 1);
        lab.headway.set("run_kib", run_kib);
        (0..2).for_each(|tenant| (0..32).for_each(|_| _ = lab.read(tenant)));
        let (mut got, mut switches, mut last, mut longest, mut in_row) = ([0, 0], 0, 2, 0, 0);
        for _ in 0..800 {
            let id = lab.next().unwrap();
            let tenant = lab.tenant(id);
            in_row = if tenant == last { in_row + 1 } else { 1 };
            longest = longest.max(in_row);
            switches += usize::from(tenant != last);
            last = tenant;
            got[tenant as usize] += 1;
            lab.complete(id);
            lab.read(tenant);
        }
        assert!(200usize.abs_diff(got[0]) <= 16, "run of {run_kib} KiB: {got:?}");
        (switches, longest)
    };
    let (alone, _) = switches(0);
    let (in_runs, longest) = switches(32);
    assert!(in_runs * 3 < alone, "{in_runs} changes of the tenant, {alone} without runs");
    // A run of 12 requests of 4 KiB, and one that begins while the other tenant is still ahead.
    assert!(longest <= 24, "{longest} requests of one tenant in a row");
}

#[test]
fn neighbours_of_a_task_go_as_one_request_and_are_charged() {
    let config = Config { setup: Setup { device_depth: 1, ..Setup::default() }, nomerges: 2, ..Config::default() };
    let mut scheduler = Headway::new(config.setup);
    scheduler.set("low_latency", 0);
    scheduler.set("join_kib", 32);
    let mut layer = BlockLayer::new(config, Box::new(scheduler), Tenants::default());
    let now = Nanos::ZERO;
    let tenants = [0, 1].map(|_| layer.add_tenant(now, Tenant { weight: 100, parent: None }).unwrap());
    let tasks = tenants.map(|tenant| layer.add_task(now, Task { tenant, ioprio: Ioprio::DEFAULT }).unwrap());
    let mut issued = [0u64; 2];
    let mut submit = |layer: &mut BlockLayer, now, at: usize| {
        // The first reads in a row, the second reads every other block.
        let sector = issued[at] * [8, 16][at] + [0, 1 << 20][at];
        issued[at] += 1;
        let io = Io { op: Op::Read, sector, sectors: 8, task: tasks[at], tenant: tenants[at], ..Io::default() };
        layer.submit(now, io, None);
    };
    (0..2).for_each(|at| (0..32).for_each(|_| submit(&mut layer, now, at)));
    let (mut moved, mut sizes, mut finished) = ([0u64; 2], [0u32; 2], Vec::new());
    for turn in 1..2000 {
        let now = Nanos(turn * 1000);
        let id = layer.poll(now).unwrap();
        let request = layer.request(id);
        let at = usize::from(request.io.tenant == tenants[1]);
        let (begin, sectors, end) = (request.sector, request.sectors, request.end());
        sizes[at] = sizes[at].max(sectors);
        moved[at] += u64::from(sectors);
        // The parts follow each other.
        let last = layer.parts(id).fold(begin, |at, part| {
            assert_eq!(part.sector, at);
            at + u64::from(part.sectors)
        });
        assert_eq!(last, end);
        layer.complete(now, id, Ok(()), &mut finished);
        finished.drain(..).for_each(|_| submit(&mut layer, now, at));
    }
    assert!(layer.fault().is_none());
    assert_eq!(sizes, [64, 8], "sectors of the largest request of each tenant");
    assert!(moved[0].abs_diff(moved[1]) <= 2 * 64, "{moved:?}");
}
