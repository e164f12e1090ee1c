//! wbt before a scheduler: buffered writes sleep while reads are slow, and none is lost whatever changes.

use dumbwaiter_block::{
    BlockLayer, Config, Event, Finished, Flags, Handover, Io, Ioprio, Nanos, Op, RequestId, Scheduler, Scope, Setup,
    Stack, TaskId, Tenant, TenantId, Tenants,
};
use dumbwaiter_controllers::wbt::{NAME, Wbt};
use dumbwaiter_testkit::Fifo;

/// A device that serves one request at a time, in order, each in a millisecond.
struct Serial {
    layer: BlockLayer,
    now: Nanos,
    queue: std::collections::VecDeque<RequestId>,
    finished: Vec<Finished>,
    next: u64,
}

const SERVICE: Nanos = Nanos::from_ms(1);

impl Serial {
    fn new() -> Serial {
        let mut tenants = Tenants::default();
        tenants.add_tenant(Tenant::default());
        tenants.add_task(TenantId(0), Ioprio::DEFAULT);
        let setup = Setup { nr_requests: 256, device_depth: 128, ..Setup::default() };
        let config = Config { setup, volatile_cache: true, ..Config::default() };
        let scheduler: Box<dyn Scheduler> = Box::new(Fifo::default());
        let layer = BlockLayer::new(config, Stack { scheduler, controllers: vec![Box::new(Wbt::new())] }, tenants);
        Serial { layer, now: Nanos::ZERO, queue: Default::default(), finished: Vec::new(), next: 0 }
    }

    fn submit(&mut self, op: Op, flags: Flags) {
        self.next += 1;
        // Apart from each other, so that none merges.
        let io =
            Io { op, flags, sector: self.next * 1024, sectors: 8, task: TaskId(0), token: self.next, ..Io::default() };
        self.layer.submit(self.now, io, None);
        self.send();
    }

    fn send(&mut self) {
        while let Some(id) = self.layer.poll(self.now) {
            self.queue.push_back(id);
        }
    }

    /// One request later.
    fn step(&mut self) {
        let until = self.now + SERVICE;
        while let Some(at) = self.layer.next_timer().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.layer.timer(self.now);
            self.send();
        }
        self.now = until;
        if let Some(id) = self.queue.pop_front() {
            self.layer.complete(self.now, id, Ok(()), &mut self.finished);
        }
        self.layer.finish_idle(self.now, &mut self.finished);
        self.send();
    }

    fn counter(&self, name: &str) -> u64 {
        let mut found = 0;
        self.layer.counters(&mut |counter, value| {
            if counter == name {
                found = value;
            }
        });
        found
    }

    /// A reader of depth 1 beside write-back that is always there, whose writer the page cache pauses; the reads that end.
    fn reads_beside_writes(&mut self, steps: u32) -> usize {
        let before = self.finished.iter().filter(|done| done.io.op == Op::Read).count();
        let mut reads = before;
        self.submit(Op::Read, Flags::SYNC);
        for _ in 0..steps {
            self.layer.event(self.now, Event::WriterPaused);
            let under_way = self.layer.requests().iter().filter(|(_, request)| request.io.op == Op::Write).count();
            (under_way..200).for_each(|_| self.submit(Op::Write, Flags::BACKGROUND));
            self.step();
            let ended = self.finished.iter().filter(|done| done.io.op == Op::Read).count();
            if ended > reads {
                reads = ended;
                self.submit(Op::Read, Flags::SYNC);
            }
        }
        reads - before
    }

    fn drain(&mut self) {
        for _ in 0..10_000 {
            if self.layer.requests().is_empty() {
                return;
            }
            self.step();
        }
    }
}

#[test]
fn a_reader_comes_through_buffered_writes() {
    let mut on = Serial::new();
    let with = on.reads_beside_writes(2_000);
    let mut off = Serial::new();
    off.layer.set_control(Nanos::ZERO, Scope::Device, "wbt_lat_usec", 0).unwrap();
    let without = off.reads_beside_writes(2_000);
    // 128 requests stand before a read without it, and a few with it.
    assert!(without < 20 && with > 500, "{with} reads with wbt, {without} without");
    assert!(on.counter("wbt_held") > 100 && on.counter("wbt_exceeded") > 4);
    assert_eq!((off.counter("wbt_held"), off.counter("wbt_exceeded")), (0, 0), "off, it counts nothing");
    for mut device in [on, off] {
        device.drain();
        assert_eq!((device.finished.len() as u64, device.layer.fault()), (device.next, None));
    }
}

#[test]
fn nobody_sleeps_for_ever_whatever_changes_under_way() {
    let mut device = Serial::new();
    for round in 0..40 {
        device.reads_beside_writes(37);
        match round % 5 {
            0 => device.layer.set_control(device.now, Scope::Device, "wbt_lat_usec", 0).unwrap(),
            1 => device.layer.set_control(device.now, Scope::Device, "wbt_lat_usec", 2_000 + round).unwrap(),
            2 => device.layer.set_device_depth(device.now, 2 + round as u32),
            3 => device.layer.remove_controller(device.now, NAME),
            _ => {
                let stack = Stack { scheduler: Box::new(Fifo::default()), controllers: vec![Box::new(Wbt::new())] };
                device.layer.replace(device.now, stack, Handover::Live);
            }
        }
        device.send();
    }
    device.submit(Op::Flush, Flags::SYNC);
    device.drain();
    assert_eq!((device.finished.len() as u64, device.layer.fault()), (device.next, None));
    assert_eq!(device.layer.ledger().imbalance(), None);
}
