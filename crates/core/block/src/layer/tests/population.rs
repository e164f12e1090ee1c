//! Tenants and tasks that come and go.

use super::*;
use crate::{Ioprio, Task, TaskId, Tenant, TenantError, TenantId};

const NOW: Nanos = Nanos::ZERO;

/// First in, first out; shows the events that it gets.
#[derive(Clone)]
struct Listening {
    queue: Queue,
    single_queue: bool,
    events: std::sync::Arc<std::sync::Mutex<Vec<Event>>>,
}

impl Scheduler for Listening {
    fn traits(&self) -> Traits {
        Traits { single_queue: self.single_queue, direct: self.queue.direct, ..Traits::default() }
    }
    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) {
        self.queue.insert(id, place, ctx);
    }
    fn has_work(&self, hw_queue: usize) -> bool {
        self.queue.has_work(hw_queue)
    }
    fn next(&mut self, hw_queue: usize, ctx: &Context<'_>) -> Next {
        self.queue.next(hw_queue, ctx)
    }
    fn absorbed(&mut self, _survivor: RequestId, absorbed: RequestId, _ctx: &Context<'_>) {
        self.queue.list.retain(|id| *id != absorbed);
    }
    fn event(&mut self, event: Event, ctx: &Context<'_>) {
        if let Event::TenantRetired(id) = event {
            assert!(ctx.tenants.tenant(id).is_some(), "it is still there to be looked at");
        }
        self.events.lock().unwrap().push(event);
    }
    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}

/// A layer, and what its scheduler has heard since it was last asked.
fn listening(single_queue: bool, direct: bool, setup: Setup) -> (BlockLayer, impl Fn() -> Vec<Event>) {
    let events = std::sync::Arc::<std::sync::Mutex<Vec<Event>>>::default();
    let queue = Queue { direct, ..Queue::default() };
    let scheduler = Listening { queue, single_queue, events: events.clone() };
    let config = Config { setup, ..Config::default() };
    let layer = BlockLayer::new(config, Box::new(scheduler), Tenants::default());
    (layer, move || std::mem::take(&mut *events.lock().unwrap()))
}

fn task(tenant: TenantId) -> Task {
    Task { tenant, ioprio: Ioprio::DEFAULT }
}

#[test]
fn a_retired_id_is_freed_when_its_last_request_is_complete() {
    let (mut layer, heard) = listening(false, false, Setup::default());
    let parent = layer.add_tenant(NOW, Tenant::default()).unwrap();
    let tenant = layer.add_tenant(NOW, Tenant { weight: 7, parent: Some(parent) }).unwrap();
    let one = layer.add_task(NOW, task(tenant)).unwrap();
    assert_eq!(heard(), [Event::TenantAdded(parent), Event::TenantAdded(tenant), Event::TaskAdded(one)]);
    layer.submit(NOW, Io { task: one, tenant, ..read(0) }, None);
    layer.submit(NOW, Io { task: one, tenant, ..read(100) }, None);
    layer.retire_tenant(NOW, parent).unwrap();
    layer.retire_tenant(NOW, tenant).unwrap();
    layer.retire_task(NOW, one).unwrap();
    assert_eq!(layer.add_task(NOW, task(tenant)), Err(TenantError::Retiring(tenant)));
    let mut out = Vec::new();
    for _ in 0..2 {
        assert_eq!((heard(), layer.tenants().task(one).is_some()), (vec![], true));
        let id = layer.poll(NOW).unwrap();
        layer.complete(NOW, id, Ok(()), &mut out);
    }
    let gone = [Event::TaskExited(one), Event::TenantRetired(tenant), Event::TenantRetired(parent)];
    assert_eq!(heard(), gone, "the task first, then its tenant, then what that was nested in");
    assert_eq!(layer.retire_task(NOW, one), Err(TenantError::NoTask(one)));
    assert_eq!(layer.add_tenant(NOW, Tenant::default()), Ok(parent), "its id is given out again");
}

#[test]
fn changes_are_checked_and_reported() {
    let (mut layer, heard) = listening(false, false, Setup::default());
    let a = layer.add_tenant(NOW, Tenant::default()).unwrap();
    let b = layer.add_tenant(NOW, Tenant { weight: 5, parent: Some(a) }).unwrap();
    let one = layer.add_task(NOW, task(a)).unwrap();
    heard();
    let (none, no_task) = (TenantId(9), TaskId(9));
    let nested = |weight, parent| Tenant { weight, parent };
    assert_eq!(layer.change_tenant(NOW, a, nested(0, None)), Err(TenantError::Weight(0)));
    assert_eq!(layer.change_tenant(NOW, a, nested(10_001, None)), Err(TenantError::Weight(10_001)));
    assert_eq!(layer.change_tenant(NOW, a, nested(5, Some(b))), Err(TenantError::Cycle(a)));
    assert_eq!(layer.change_tenant(NOW, a, nested(5, Some(none))), Err(TenantError::NoTenant(none)));
    assert_eq!(layer.change_tenant(NOW, none, nested(5, None)), Err(TenantError::NoTenant(none)));
    assert_eq!(layer.change_task(NOW, no_task, task(a)), Err(TenantError::NoTask(no_task)));
    assert_eq!(layer.change_task(NOW, one, task(none)), Err(TenantError::NoTenant(none)));
    assert_eq!(heard(), []);
    layer.change_tenant(NOW, b, nested(300, None)).unwrap();
    layer.change_task(NOW, one, task(b)).unwrap();
    assert_eq!(heard(), [Event::TenantChanged(b), Event::TaskChanged(one)]);
    // Nothing keeps `a` now; the task's new tenant stays until that has gone too.
    layer.retire_tenant(NOW, a).unwrap();
    layer.retire_tenant(NOW, b).unwrap();
    assert_eq!(heard(), [Event::TenantRetired(a)]);
    layer.retire_task(NOW, one).unwrap();
    assert_eq!(heard(), [Event::TaskExited(one), Event::TenantRetired(b)]);
}

/// Lengths and capacities of everything that the layer keeps.
fn footprint(layer: &BlockLayer) -> Vec<usize> {
    let requests = layer.requests.capacity();
    let tenants = (layer.tenants.tenant_slots(), layer.tenants.task_slots());
    let mut all = vec![
        requests,
        tenants.0,
        tenants.1,
        layer.slots.capacity(),
        layer.tags.pools.len(),
        layer.tags.woken.capacity(),
    ];
    all.extend(layer.tags.pools.iter().map(|pool| pool.used() as usize));
    all.extend(layer.population.footprint());
    all.extend(layer.tags.waiting.iter().map(|queues| queues.footprint()));
    all.extend(layer.hw.iter().flat_map(|hw| [hw.ready.capacity(), hw.direct.capacity()]));
    all
}

/// Each connection is a tenant with two tasks, submits more than there are tags for, and goes.
#[test]
fn ten_thousand_connections_leave_memory_where_it_was() {
    for (single_queue, direct) in [(false, false), (true, false), (false, true)] {
        let setup = Setup { nr_requests: 3, device_depth: 2, ..Setup::default() };
        let (mut layer, heard) = listening(single_queue, direct, setup);
        let mut after_warm_up = Vec::new();
        for connection in 0..10_000u64 {
            let tenant = layer.add_tenant(NOW, Tenant::default()).unwrap();
            let tasks = [(); 2].map(|()| layer.add_task(NOW, task(tenant)).unwrap());
            for n in 0..8 {
                let task = tasks[n as usize % 2];
                layer.submit(NOW, Io { task, tenant, ..read((connection * 8 + n) * 100) }, None);
            }
            for task in tasks {
                layer.retire_task(NOW, task).unwrap();
            }
            layer.retire_tenant(NOW, tenant).unwrap();
            let mut out = Vec::new();
            while let Some(id) = layer.poll(NOW) {
                layer.complete(NOW, id, Ok(()), &mut out);
            }
            assert_eq!((out.len(), heard().len()), (8, 6), "three come and three go");
            if connection == 100 {
                after_warm_up = footprint(&layer);
            }
        }
        assert_eq!(after_warm_up, footprint(&layer), "single queue {single_queue}, direct {direct}");
        assert!(layer.tenants.tenant_slots() <= 1 && layer.tenants.task_slots() <= 2);
    }
}
