//! Shares, limits, reservations and the automatic depth in virtual time: the server's own block layer, scheduler, limits and
//! controllers over a device model, with clients that keep a number of requests under way. Only sockets and the ring are left out.

use dumbwaiter_block::{BlockLayer, Finished, Flags, Io, Ioprio, Nanos, Op, RequestId, SECTOR_BYTES, Task, TaskId};
use dumbwaiter_controllers::{search_depth, set_tenant_controls};
use dumbwaiter_measure::pv;
use dumbwaiter_path::{VirtualDevice, VirtualRequest};
use dumbwaiter_schedulers::Choice;

use crate::bench::next_random;
use crate::memory_store::MemoryStore;
use crate::open_target;
use crate::settings::{DeviceDepth, ExportSettings, TargetSettings, place};
use crate::tenant::Tenant;

/// 8 requests of 1 ms at a time.
const SLOW: &str = "emulate:null:0us?latency_ns=1000000&depth=8";
/// 24 requests of 4 ms at a time.
const DEEP: &str = "emulate:null:0us?latency_ns=4000000&depth=24";
const SSD: &str = "emulate:ssd:850pro-256";
const WEIGHTS: [&str; 4] = [
    "one:weight=100,size=1G",
    "two:weight=200,offset=1G,size=1G",
    "four:weight=400,offset=2G,size=1G",
    "five:weight=500,offset=3G,size=1G",
];

/// A closed loop on an export.
#[derive(Clone, Copy)]
struct Client {
    tenant: usize,
    bytes: u32,
    depth: u32,
    sequential: bool,
}

fn random(tenant: usize, bytes: u32, depth: u32) -> Client {
    Client { tenant, bytes, depth, sequential: false }
}

struct Running {
    client: Client,
    task: TaskId,
    issued: u64,
    random: u64,
}

/// A disk without sockets, in virtual time.
struct Lab {
    layer: BlockLayer,
    device: Box<dyn VirtualDevice + Send>,
    tenants: Vec<Tenant>,
    clients: Vec<Running>,
    /// Client and start of each I/O under way, by its token.
    under_way: Vec<(usize, Nanos)>,
    free: Vec<usize>,
    now: Nanos,
    finished: Vec<Finished>,
    done: Vec<(u32, Result<(), dumbwaiter_block::Errno>)>,
}

impl Lab {
    fn new(target: &str, scheduler: &str, depth: DeviceDepth, exports: &[&str]) -> Lab {
        let mut settings = TargetSettings::new(target);
        settings.device_depth = depth;
        let open = open_target::open(&settings, true, MemoryStore::new(1 << 20)).unwrap();
        let config = open.layer_config(&settings);
        let choice = Choice::parse(scheduler).unwrap();
        let scheduler = crate::scheduler::build(&choice, config.setup);
        let mut layer = BlockLayer::new(config, scheduler, dumbwaiter_block::Tenants::default());
        let mut tenants = Vec::new();
        for text in exports {
            let export = ExportSettings::parse(text).unwrap();
            let (offset, size) = place(&export, open.target.facts().bytes, 512).unwrap();
            let weight = export.weight;
            let id = layer.add_tenant(Nanos::ZERO, dumbwaiter_block::Tenant { weight, parent: None }).unwrap();
            set_tenant_controls(&mut layer, Nanos::ZERO, id, &export.limits());
            tenants.push(Tenant::new(export, id, offset, size, dumbwaiter_block::Nanos::ZERO));
        }
        if depth == DeviceDepth::Auto {
            search_depth(&mut layer, Nanos::ZERO, config.setup.device_depth);
        }
        Lab {
            layer,
            device: open.device.unwrap(),
            tenants,
            clients: Vec::new(),
            under_way: Vec::new(),
            free: Vec::new(),
            now: Nanos::ZERO,
            finished: Vec::new(),
            done: Vec::new(),
        }
    }

    fn with(mut self, clients: &[Client]) -> Lab {
        for client in clients {
            let tenant = self.tenants[client.tenant].id;
            let task = self.layer.add_task(self.now, Task { tenant, ioprio: Ioprio::DEFAULT }).unwrap();
            self.clients.push(Running { client: *client, task, issued: 0, random: self.clients.len() as u64 });
            for _ in 0..client.depth {
                self.ask(self.clients.len() - 1);
            }
        }
        self
    }

    /// The next request of a client.
    fn ask(&mut self, number: usize) {
        let Running { client, task, issued, random } = &mut self.clients[number];
        let tenant = &mut self.tenants[client.tenant];
        let blocks = tenant.size / u64::from(client.bytes);
        let block = if client.sequential { *issued } else { next_random(random) };
        *issued += 1;
        let slot = self.free.pop().unwrap_or(self.under_way.len());
        self.under_way.resize(self.under_way.len().max(slot + 1), (0, Nanos::ZERO));
        self.under_way[slot] = (number, self.now);
        let io = Io {
            op: Op::Read,
            flags: Flags::SYNC,
            sector: (tenant.offset + block % blocks * u64::from(client.bytes)) / SECTOR_BYTES,
            sectors: client.bytes / SECTOR_BYTES as u32,
            task: *task,
            tenant: tenant.id,
            token: slot as u64,
            ..Io::default()
        };
        tenant.outstanding += 1;
        self.layer.submit(self.now, io, None);
    }

    fn send(&mut self) {
        while let Some(id) = self.layer.poll(self.now) {
            let request = self.layer.request(id);
            let (op, fua) = (request.io.op, false);
            let command = VirtualRequest { tag: id.0, op, fua, sector: request.sector, sectors: request.sectors };
            if !self.device.submit(self.now, &command) {
                self.layer.refused(self.now, id);
            }
        }
    }

    /// Runs for so long; what each tenant moved meanwhile.
    fn run(&mut self, time: Nanos) -> Vec<f64> {
        let until = self.now + time;
        let bytes = |lab: &Lab| lab.tenants.iter().map(|tenant| tenant.counts.bytes()).collect::<Vec<_>>();
        let before = bytes(self);
        while self.now < until {
            self.send();
            let events = [self.device.next_event(), self.layer.next_timer(), Some(until)];
            let next = events.into_iter().flatten().min().unwrap();
            self.now = self.now.max(next);
            self.device.advance(self.now, &mut self.done);
            for (tag, result) in self.done.drain(..) {
                self.layer.complete(self.now, RequestId(tag), result, &mut self.finished);
            }
            if self.layer.next_timer().is_some_and(|at| at <= self.now) {
                self.layer.timer(self.now);
            }
            for done in std::mem::take(&mut self.finished) {
                self.count(&done);
            }
        }
        bytes(self).iter().zip(before).map(|(after, before)| (after - before) as f64).collect()
    }

    fn count(&mut self, done: &Finished) {
        assert_eq!(done.result, Ok(()));
        let slot = done.io.token as usize;
        let (client, since) = self.under_way[slot];
        self.free.push(slot);
        let tenant = &mut self.tenants[self.clients[client].client.tenant];
        tenant.outstanding -= 1;
        tenant.counts.reads += 1;
        tenant.counts.read_bytes += u64::from(done.io.sectors) * SECTOR_BYTES;
        tenant.latency.add(self.now.since(since));
        self.ask(client);
    }

    /// I/Os per second of a tenant over so long.
    fn rate(&mut self, tenant: usize, time: Nanos) -> f64 {
        let before = self.tenants[tenant].counts.ios();
        self.run(time);
        (self.tenants[tenant].counts.ios() - before) as f64 / (time.0 as f64 / 1e9)
    }
}

/// The bytes that tenants of these exports and clients move in windows of 5 s after the first: PV of each window and bytes in all.
fn windows(target: &str, scheduler: &str, depth: DeviceDepth, clients: &[Client]) -> (Vec<f64>, f64) {
    let mut lab = Lab::new(target, scheduler, depth, &WEIGHTS).with(clients);
    lab.run(Nanos::from_secs(5));
    let weights = [1.0, 2.0, 4.0, 5.0];
    let (mut pvs, mut all) = (Vec::new(), 0.0);
    for _ in 0..2 {
        let moved = lab.run(Nanos::from_secs(5));
        pvs.push(pv(&weights, &moved));
        all += moved.iter().sum::<f64>();
    }
    (pvs, all)
}

fn each(client: impl Fn(usize) -> Client) -> [Client; 4] {
    [0, 1, 2, 3].map(client)
}

/// The loads of which shares are promised.
fn loads() -> [(&'static str, [Client; 4]); 3] {
    [
        ("4 KiB at random", each(|tenant| random(tenant, 4096, 32))),
        ("64 KiB in a row", each(|tenant| Client { sequential: true, ..random(tenant, 64 << 10, 32) })),
        ("mixed", [random(0, 4096, 64), random(1, 64 << 10, 16), random(2, 16 << 10, 32), random(3, 128 << 10, 24)]),
    ]
}

#[test]
fn shares_hold_in_every_window_and_cost_no_throughput() {
    for (target, depth, loads) in
        [(SLOW, DeviceDepth::Default, &loads()[..]), (SSD, DeviceDepth::Fixed(8), &loads()[1..2])]
    {
        for (name, clients) in loads {
            let (pvs, all) = windows(target, "headway", depth, clients);
            let (unfair, none) = windows(target, "none", depth, clients);
            assert!(pvs.iter().all(|pv| *pv <= 0.05), "{target}, {name}: PV {pvs:?}");
            assert!(unfair[0] > 0.5, "{target}, {name}: PV {unfair:?} under none tells nothing");
            // Under `none` the mix of sizes is another one, and its bytes are not comparable.
            assert!(*name == "mixed" || all >= 0.95 * none, "{target}, {name}: {all} of {none} bytes");
        }
    }
}

#[test]
fn the_automatic_depth_reaches_95_percent_and_keeps_the_shares() {
    let loads = loads();
    for (target, (name, clients)) in [(DEEP, loads[0]), (SSD, loads[1]), (DEEP, loads[2])] {
        let (pvs, all) = windows(target, "headway", DeviceDepth::Auto, &clients);
        let (_, most) = windows(target, "headway", DeviceDepth::Fixed(128), &clients);
        assert!(pvs.iter().all(|pv| *pv <= 0.05), "{name}: PV {pvs:?}");
        assert!(all >= 0.95 * most, "{name}: {all} of {most} bytes");
    }
}

#[test]
fn one_active_tenant_gets_the_drive() {
    for target in [SLOW, SSD] {
        let alone = |scheduler: &str| {
            let mut lab = Lab::new(target, scheduler, DeviceDepth::Default, &WEIGHTS).with(&[random(0, 16 << 10, 32)]);
            lab.run(Nanos::from_secs(1));
            lab.run(Nanos::from_secs(4))[0]
        };
        let (ours, none) = (alone("headway"), alone("none"));
        assert!(ours >= 0.97 * none, "{target}: {ours} of {none} bytes");
    }
}

#[test]
fn a_light_tenants_tail_grows_by_no_more_than_its_share_explains() {
    let p99 = |clients: &[Client]| {
        let mut lab = Lab::new(SLOW, "headway", DeviceDepth::Default, &WEIGHTS).with(clients);
        lab.run(Nanos::from_secs(10));
        lab.tenants[0].latency.quantile(0.99).unwrap().0 as f64
    };
    let own = random(0, 4096, 8);
    let solo = p99(&[own]);
    let beside = p99(&[own, random(1, 4096, 32), random(2, 4096, 32), random(3, 4096, 32)]);
    assert!(beside <= 2.0 * solo * 12.0, "{beside} ns beside others, {solo} ns alone");
}

#[test]
fn a_reserved_tenant_has_its_rate_whatever_others_do() {
    // Of 8,000 I/Os per second; weight alone would give it 0.1 % to 50 %.
    for (reserved, weight, others) in [(1000, 100, 100), (100, 100, 5000), (6000, 1, 10_000), (4000, 100, 100)] {
        let exports = [
            format!("a:weight={weight},size=1G,reservation={reserved}"),
            format!("b:weight={others},offset=1G,size=1G"),
            format!("c:weight={others},offset=2G,size=1G"),
        ];
        let exports: Vec<&str> = exports.iter().map(String::as_str).collect();
        for neighbours in [random(1, 4096, 32), random(1, 128 << 10, 64)] {
            let clients = [random(0, 4096, 32), neighbours, random(2, 4096, 64)];
            let mut lab = Lab::new(SLOW, "headway", DeviceDepth::Default, &exports).with(&clients);
            lab.run(Nanos::from_secs(3));
            let rate = lab.rate(0, Nanos::from_secs(5));
            let weight_alone = 8000.0 * f64::from(weight) / f64::from(weight + 2 * others);
            let floor = f64::from(reserved).max(if neighbours.bytes == 4096 { weight_alone } else { 0.0 });
            assert!(rate >= 0.98 * floor, "{rate} IOPS of {reserved}, weight {weight} against {others}");
            // The rest is shared by weight, so it gets no more than it needs.
            assert!(rate <= 1.02 * floor.max(weight_alone) || neighbours.bytes != 4096, "{rate} IOPS of {reserved}");
        }
    }
}

#[test]
fn a_limit_holds_and_others_get_what_it_leaves() {
    for (limit, bytes) in [(500u32, 4096u32), (2000, 4096), (300, 64 << 10)] {
        let exports = [format!("a:weight=900,size=1G,limit_iops={limit}"), "b:weight=100,offset=1G,size=1G".into()];
        let exports: Vec<&str> = exports.iter().map(String::as_str).collect();
        let clients = [random(0, bytes, 32), random(1, 4096, 32)];
        let mut lab = Lab::new(SLOW, "headway", DeviceDepth::Default, &exports).with(&clients);
        lab.run(Nanos::from_secs(2));
        let other = lab.tenants[1].counts.ios();
        let rate = lab.rate(0, Nanos::from_secs(5));
        let rest = (lab.tenants[1].counts.ios() - other) as f64 / 5.0;
        assert!((rate / f64::from(limit) - 1.0).abs() <= 0.01, "{rate} IOPS of {limit}");
        assert!(rate + rest >= 0.97 * 8000.0, "{rate} and {rest} IOPS");
    }
    let exports = ["a:size=1G,limit_bytes=10000000", "b:offset=1G,size=1G"];
    let mut lab =
        Lab::new(SSD, "headway", DeviceDepth::Default, &exports).with(&[random(0, 16 << 10, 32), random(1, 4096, 32)]);
    lab.run(Nanos::from_secs(1));
    let moved = lab.run(Nanos::from_secs(5))[0] / 5.0;
    assert!((moved / 1e7 - 1.0).abs() <= 0.01, "{moved} bytes per second");
}

#[test]
fn a_thousand_exports_disturb_no_shares_of_those_that_are_active() {
    let mut exports: Vec<String> = WEIGHTS.iter().map(|text| (*text).to_owned()).collect();
    exports.extend((4..1000).map(|number| format!("idle{number}:shared,readonly,size=1M")));
    let exports: Vec<&str> = exports.iter().map(String::as_str).collect();
    let clients = each(|tenant| random(tenant, 4096, 64));
    let mut lab = Lab::new(SLOW, "headway", DeviceDepth::Default, &exports).with(&clients);
    lab.run(Nanos::from_secs(1));
    let moved = lab.run(Nanos::from_secs(5));
    let error = pv(&[1.0, 2.0, 4.0, 5.0], &moved[..4]);
    assert!(error <= 0.05, "PV {error}, {:?}", &moved[..4]);
}
