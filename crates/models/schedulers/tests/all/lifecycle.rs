//! Tenants and tasks that come and go: every scheduler forgets them, so that memory does not grow and a number that is
//! used again brings nothing of its earlier owner. And requests that come back.

use std::collections::{BTreeSet, VecDeque};

use dumbwaiter_block::{
    BlockLayer, Config, Finished, Flags, Io, IoClass, Ioprio, Nanos, Op, RequestId, Setup, Task, TaskId, Tenant,
    TenantId, Tenants,
};
use dumbwaiter_schedulers::{Choice, REGISTRY};
use dumbwaiter_testkit::allocations::{CountingAllocator, live_bytes};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Every entry of the registry in all its versions.
fn subjects() -> Vec<String> {
    let versions =
        |name: &'static str, all: &'static [&'static str]| all.iter().skip(1).map(move |v| format!("{name}:{v}"));
    REGISTRY.iter().flat_map(|e| std::iter::once(e.name.to_owned()).chain(versions(e.name, e.versions()))).collect()
}

/// A disk whose tenants connect and disconnect. The device serves one request in 100 us, in the order of dispatch.
struct Disk {
    layer: BlockLayer,
    now: Nanos,
    device: VecDeque<RequestId>,
    finished: Vec<Finished>,
    /// The device returns each request of this tenant once before it serves it.
    requeues: Option<TenantId>,
    /// Requests that it returned.
    returned: BTreeSet<RequestId>,
    random: u64,
}

impl Disk {
    fn new(subject: &str, rotational: bool) -> Disk {
        let setup = Setup { rotational, device_depth: 8, ..Setup::default() };
        let config = Config { setup, ..Config::default() };
        let scheduler = Choice::parse(subject).unwrap().build(setup);
        let layer = BlockLayer::new(config, scheduler, Tenants::default());
        Disk {
            layer,
            now: Nanos::ZERO,
            device: VecDeque::new(),
            finished: Vec::new(),
            requeues: None,
            returned: BTreeSet::new(),
            random: 1,
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    fn tenant(&mut self, weight: u32, parent: Option<TenantId>) -> TenantId {
        self.layer.add_tenant(self.now, Tenant { weight, parent }).unwrap()
    }

    fn task(&mut self, tenant: TenantId, ioprio: Ioprio) -> TaskId {
        self.layer.add_task(self.now, Task { tenant, ioprio }).unwrap()
    }

    fn submit(&mut self, task: TaskId, op: Op, flags: Flags) {
        let tenant = self.layer.tenants().task(task).unwrap().tenant;
        let sector = self.random(1 << 20) * 8;
        self.layer.submit(self.now, Io { op, flags, sector, sectors: 8, task, tenant, ..Io::default() }, None);
    }

    /// The next request completes, or time goes on to the next timer; `false` if there is nothing to do.
    fn step(&mut self) -> bool {
        while let Some(id) = self.layer.poll(self.now) {
            self.device.push_back(id);
        }
        if let Some(id) = self.device.pop_front() {
            if self.requeues == Some(self.layer.request(id).io.tenant) && self.returned.insert(id) {
                self.layer.requeue(self.now, id);
                return true;
            }
            self.returned.remove(&id);
            self.now += Nanos::from_us(100);
            self.layer.complete(self.now, id, Ok(()), &mut self.finished);
        } else if self.layer.requests().is_empty() {
            return false;
        } else {
            let at = self.layer.next_timer().unwrap_or_else(|| panic!("stuck: {:?}", self.layer.fault()));
            self.now = self.now.max(at);
        }
        self.layer.timer(self.now);
        true
    }

    fn drain(&mut self) {
        while self.step() {}
        assert!(self.layer.fault().is_none(), "{:?}", self.layer.fault());
        self.finished.clear();
    }

    /// Serves `count` requests of two tasks, each with four reads outstanding; returns how many each task got.
    fn serve(&mut self, tasks: [TaskId; 2], count: u32) -> [u32; 2] {
        for task in [0, 1, 0, 1, 0, 1, 0, 1] {
            self.submit(tasks[task], Op::Read, Flags::NONE);
        }
        let mut got = [0; 2];
        while got[0] + got[1] < count {
            assert!(self.step(), "stuck");
            while let Some(done) = self.finished.pop() {
                let task = usize::from(done.io.task != tasks[0]);
                got[task] += 1;
                self.submit(tasks[task], Op::Read, Flags::NONE);
            }
        }
        got
    }

    /// A tenant, sometimes nested, with two tasks that read and write, that goes while its I/O is under way. The tenant
    /// that stays changes its weight, or where it is nested, meanwhile.
    fn connect_and_disconnect(&mut self, round: u32, stays: (TenantId, TaskId)) {
        let outer = round.is_multiple_of(3).then(|| self.tenant(1 + round % 999, None));
        let tenant = self.tenant(1 + round % 1000, outer);
        let class = [IoClass::BestEffort, IoClass::Realtime, IoClass::Idle][round as usize % 3];
        let tasks = [self.task(tenant, Ioprio::new(class, round as u8 % 8)), self.task(tenant, Ioprio::DEFAULT)];
        for i in 0..4 {
            self.submit(tasks[i % 2], Op::Read, Flags::NONE);
            self.submit(tasks[i % 2], Op::Write, if i == 0 { Flags::SYNC } else { Flags::NONE });
            self.submit(stays.1, Op::Read, Flags::NONE);
            (0..round % 5).for_each(|_| _ = self.step());
        }
        if round.is_multiple_of(4) {
            let weight = 1 + round % 777;
            let nested = Tenant { weight, parent: outer };
            self.layer.change_tenant(self.now, stays.0, nested).unwrap();
            self.submit(stays.1, Op::Read, Flags::NONE);
            self.step();
            self.layer.change_tenant(self.now, stays.0, Tenant { weight, parent: None }).unwrap();
        }
        for task in tasks {
            self.layer.retire_task(self.now, task).unwrap();
        }
        for gone in [Some(tenant), outer].into_iter().flatten() {
            self.layer.retire_tenant(self.now, gone).unwrap();
        }
        self.drain();
        assert_eq!(self.layer.tenants().tenants().count(), 1);
    }
}

#[test]
fn ten_thousand_connects_and_disconnects_leave_memory_where_it_was() {
    for subject in subjects() {
        for rotational in [false, true] {
            let mut disk = Disk::new(&subject, rotational);
            let stays = disk.tenant(100, None);
            let stays = (stays, disk.task(stays, Ioprio::DEFAULT));
            let mut after_start = 0;
            for round in 0..10_000 {
                disk.connect_and_disconnect(round, stays);
                if round == 500 {
                    after_start = live_bytes();
                }
            }
            let grown = live_bytes() - after_start;
            assert!(grown <= 1024, "{subject}, rotational {rotational}: {grown} bytes more");
        }
    }
}

/// A tenant of a great weight, with a realtime task that reads and writes a lot, goes. One that gets its numbers and one
/// with new numbers then do the same thing with the same weight, and get the same.
#[test]
fn a_number_used_again_brings_nothing_of_its_earlier_owner() {
    for subject in subjects() {
        for rotational in [false, true] {
            let mut disk = Disk::new(&subject, rotational);
            let bystander = disk.tenant(100, None);
            let gone = disk.tenant(1000, None);
            let gone_task = disk.task(gone, Ioprio::new(IoClass::Realtime, 0));
            for i in 0..500 {
                disk.submit(gone_task, if i % 3 == 0 { Op::Write } else { Op::Read }, Flags::NONE);
                (0..i % 3).for_each(|_| _ = disk.step());
            }
            disk.drain();
            disk.layer.retire_task(disk.now, gone_task).unwrap();
            disk.layer.retire_tenant(disk.now, gone).unwrap();
            disk.now += Nanos::from_secs(30);
            let again = disk.tenant(100, None);
            let fresh = disk.tenant(100, None);
            assert!(again == gone && fresh > gone && bystander < gone);
            let tasks = [disk.task(again, Ioprio::DEFAULT), disk.task(fresh, Ioprio::DEFAULT)];
            assert_eq!(tasks[0], gone_task);
            let got = disk.serve(tasks, 40_000);
            assert!(got[0].abs_diff(got[1]) < 2000, "{subject}, rotational {rotational}: {got:?}");
        }
    }
}

/// Two tenants of the same weight do the same thing, but the driver returns each request of one of them once. Where weights
/// count, both get the same.
#[test]
fn a_requeued_request_is_charged_once() {
    let weighted = |subject: &String| {
        ["cfq", "a-cfq", "bfq", "h-bfq", "headway", "wf2q+", "mclock", "mqfq"]
            .iter()
            .any(|name| subject.starts_with(name))
    };
    for subject in subjects().into_iter().filter(weighted) {
        for rotational in [false, true] {
            let mut disk = Disk::new(&subject, rotational);
            // One request at a time: the scheduler alone decides what each tenant gets.
            disk.layer.set_device_depth(disk.now, 1);
            let tenants = [disk.tenant(100, None), disk.tenant(100, None)];
            let tasks = tenants.map(|tenant| disk.task(tenant, Ioprio::DEFAULT));
            disk.requeues = Some(tenants[0]);
            let got = disk.serve(tasks, 40_000);
            assert!(got[0].abs_diff(got[1]) < 2000, "{subject}, rotational {rotational}: {got:?}");
        }
    }
}
