//! io.cost before a scheduler: tenants share by weight, and no task sleeps for ever whatever changes.

use dumbwaiter_block::{
    BlockLayer, Config, Finished, Handover, Io, Ioprio, Nanos, Op, RequestId, Scheduler, Scope, Setup, Stack, TaskId,
    Tenant, TenantId, Tenants,
};
use dumbwaiter_controllers::io_cost::{IoCost, NAME, Settings};
use dumbwaiter_testkit::Fifo;

/// A device of eight channels that serves a request in 8 ms: 1000 a second.
const SERVICE: Nanos = Nanos::from_ms(8);
const CHANNELS: u32 = 8;

/// 700 random reads of 4 KiB a second.
fn settings() -> Settings {
    let model = "rbps=45875200 rseqiops=700 rrandiops=700 wbps=45875200 wseqiops=700 wrandiops=700";
    let qos = "enable=1 rlat=25000 wlat=25000 min=100 max=100";
    Settings::default().with_model(model).and_then(|it| it.with_qos(qos)).unwrap()
}

struct Device {
    layer: BlockLayer,
    now: Nanos,
    /// Ends of requests, in order.
    queue: std::collections::VecDeque<(Nanos, RequestId)>,
    finished: Vec<Finished>,
    submitted: u64,
    served: Vec<u64>,
    /// Tasks that must submit their next I/O, unless nothing more is submitted.
    ready: Vec<TaskId>,
    open: bool,
}

impl Device {
    /// With so many tasks of depth 1 for each tenant of these weights.
    fn new(weights: &[u32], tasks: u32) -> Device {
        let mut tenants: Tenants = weights.iter().map(|weight| Tenant { weight: *weight, parent: None }).collect();
        let each = (0..weights.len() as u32).flat_map(|tenant| (0..tasks).map(move |_| TenantId(tenant)));
        let ready =
            each.collect::<Vec<_>>().into_iter().map(|tenant| tenants.add_task(tenant, Ioprio::DEFAULT)).collect();
        let setup = Setup { nr_requests: 64, device_depth: CHANNELS, ..Setup::default() };
        let scheduler: Box<dyn Scheduler> = Box::new(Fifo::default());
        let stack = Stack { scheduler, controllers: vec![Box::new(IoCost::new(settings()))] };
        let layer = BlockLayer::new(Config { setup, ..Config::default() }, stack, tenants);
        let served = vec![0; weights.len()];
        Device {
            layer,
            now: Nanos::ZERO,
            queue: Default::default(),
            finished: Vec::new(),
            submitted: 0,
            served,
            ready,
            open: true,
        }
    }

    fn send(&mut self) {
        while let Some(id) = self.layer.poll(self.now) {
            self.queue.push_back((self.now + SERVICE, id));
        }
    }

    fn submit_ready(&mut self) {
        for task in std::mem::take(&mut self.ready) {
            self.submitted += 1;
            // 20 MiB further each time: random.
            let sector = self.submitted * 40_960 % (1 << 40);
            let tenant = self.layer.tenants().task(task).unwrap().tenant;
            let io = Io { op: Op::Read, sector, sectors: 8, task, tenant, token: self.submitted, ..Io::default() };
            self.layer.submit(self.now, io, None);
            self.send();
        }
    }

    fn run(&mut self, until: Nanos) {
        loop {
            self.submit_ready();
            let next = self.queue.front().map(|(at, _)| *at).into_iter().chain(self.layer.next_timer()).min();
            let Some(at) = next.filter(|at| *at <= until) else { break };
            self.now = self.now.max(at);
            self.layer.timer(self.now);
            self.send();
            while let Some((_, id)) = self.queue.front().copied().filter(|(at, _)| *at <= self.now) {
                self.queue.pop_front();
                self.layer.complete(self.now, id, Ok(()), &mut self.finished);
            }
            self.layer.finish_idle(self.now, &mut self.finished);
            for done in self.finished.drain(..) {
                self.served[done.io.tenant.0 as usize] += 1;
                self.ready.extend(Some(done.io.task).filter(|_| self.open));
            }
            self.send();
        }
        self.now = until;
    }
}

#[test]
fn tenants_share_by_weight_below_any_depth() {
    let mut device = Device::new(&[50, 150], 8);
    device.run(Nanos::from_secs(1));
    let before = device.served.clone();
    device.run(Nanos::from_secs(11));
    let rate = |tenant: usize| (device.served[tenant] - before[tenant]) as f64 / 10.0;
    assert!((rate(0) - 175.0).abs() < 3.0 && (rate(1) - 525.0).abs() < 6.0, "{} and {}", rate(0), rate(1));
    // Its own weight goes before that of the tenant.
    device.layer.set_control(device.now, Scope::Tenant(TenantId(0)), "io_weight", 450).unwrap();
    device.run(Nanos::from_secs(12));
    let before = device.served.clone();
    device.run(Nanos::from_secs(17));
    let rate = |tenant: usize| (device.served[tenant] - before[tenant]) as f64 / 5.0;
    assert!((rate(0) - 525.0).abs() < 8.0 && (rate(1) - 175.0).abs() < 5.0, "{} and {}", rate(0), rate(1));
}

/// One that thinks leaves its share to the other, and the root group is not held.
#[test]
fn a_share_that_is_not_used_goes_to_the_others() {
    let mut device = Device::new(&[300, 100], 1);
    // One task of depth 1 cannot use three quarters: a read takes 8 ms, 125 a second.
    let more: Vec<TaskId> = (0..15)
        .map(|_| {
            let task = dumbwaiter_block::Task { tenant: TenantId(1), ioprio: Ioprio::DEFAULT };
            device.layer.add_task(Nanos::ZERO, task).unwrap()
        })
        .collect();
    device.ready.extend(more);
    device.run(Nanos::from_secs(2));
    let before = device.served.clone();
    device.run(Nanos::from_secs(7));
    let rate = |tenant: usize| (device.served[tenant] - before[tenant]) as f64 / 5.0;
    assert!(rate(0) > 95.0 && rate(1) > 520.0, "{} and {}", rate(0), rate(1));
}

#[test]
fn nobody_sleeps_for_ever_whatever_changes_under_way() {
    let mut device = Device::new(&[1, 100, 10_000], 6);
    for round in 0..60_u64 {
        device.run(Nanos::from_ms(37 * (round + 1)));
        let now = device.now;
        match round % 6 {
            0 => device.layer.set_device_depth(now, 1 + round as u32 % 8),
            1 => device.layer.set_control(now, Scope::Tenant(TenantId(1)), "io_weight", 1 + i128::from(round)).unwrap(),
            2 => {
                let tenant = Tenant { weight: 1 + round as u32 * 7, parent: None };
                device.layer.change_tenant(now, TenantId(2), tenant).unwrap();
            }
            3 => device.layer.remove_controller(now, NAME),
            4 => device.layer.add_controller(now, Box::new(IoCost::new(settings()))),
            _ => {
                device.layer.remove_controller(now, NAME);
                let stack = Stack {
                    scheduler: Box::new(Fifo::default()),
                    controllers: vec![Box::new(IoCost::new(settings()))],
                };
                device.layer.replace(now, stack, Handover::Live);
            }
        }
        device.send();
    }
    let before = device.served.clone();
    device.run(Nanos::from_secs(60));
    assert_eq!(device.layer.fault(), None);
    assert!(device.served.iter().zip(&before).all(|(after, before)| after > before), "{:?}", device.served);
    // Nothing more is submitted: all that waits goes on.
    device.open = false;
    device.run(Nanos::from_secs(600));
    assert_eq!((device.submitted, device.layer.ledger().imbalance()), (device.served.iter().sum(), None));
}
