//! Time that each controller adds to a request on its way through the block layer, without a device.

use std::collections::VecDeque;
use std::time::Instant;

use dumbwaiter_block::{
    BlockLayer, Config, Controller, Finished, Flags, Io, Ioprio, Nanos, Op, RequestId, Scope, Setup, TaskId, Tenant,
    TenantId, Tenants,
};
use dumbwaiter_controllers::io_cost::{self, IoCost};
use dumbwaiter_controllers::io_max::{self, Release};
use dumbwaiter_controllers::wbt::{self, Wbt};
use dumbwaiter_controllers::{IoLatency, IoMax, Limits, PrioClasses, io_latency, limits, prio_class};
use dumbwaiter_experiment::Failure;
use dumbwaiter_measure::median;
use dumbwaiter_report::{Align, Style, table};
use dumbwaiter_schedulers::Choice;
use serde::Serialize;

/// One controller at one number of tenants.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The controller.
    pub controller: &'static str,
    /// Tenants that submit in turn, each with a setting of its own where the controller has one.
    pub tenants: u32,
    /// Time of a request without a controller, from submission to its end, in nanoseconds (median of the rounds).
    pub ns_without: f64,
    /// The same with the controller.
    pub ns_with: f64,
    /// What the controller adds: the median over pairs of rounds, in nanoseconds.
    pub ns_added: f64,
}

const TENANTS: [u32; 3] = [1, 100, 1_000];
/// Requests in the device at any time: no more than wbt lets in of writes alone, so that none sleeps.
const DEPTH: usize = 16;
/// So many that a burst of writes fills wbt. Writes queue behind the sleepers from then on, and all sleep and are woken.
const DEPTH_OF_HELD: usize = 32;
const ROUNDS: usize = 21;
const REQUESTS_PER_ROUND: usize = 40_000;
/// Virtual time between two requests.
const GAP: Nanos = Nanos(1_000);
/// A limit that nobody reaches here: what is timed is asking, not waiting.
const PLENTY: i128 = 1 << 40;
/// A drive that is fast enough for all of it.
const MODEL: &str =
    "rbps=1000000000000 rseqiops=4000000 rrandiops=4000000 wbps=1000000000000 wseqiops=4000000 wrandiops=4000000";

/// A controller, and the setting that each tenant gets.
struct Case {
    name: &'static str,
    make: Make,
    setting: Option<(&'static str, i128)>,
    depth: usize,
}

type Make = fn() -> Result<Box<dyn Controller>, Failure>;

impl Case {
    const fn of_plenty(name: &'static str, make: Make, setting: Option<(&'static str, i128)>) -> Case {
        Case { name, make, setting, depth: DEPTH }
    }
}

/// [`wbt`] where writes wait.
const HELD: &str = "wbt, held";

const CASES: [Case; 7] = [
    Case::of_plenty(wbt::NAME, || Ok(Box::new(Wbt::new())), None),
    Case { depth: DEPTH_OF_HELD, ..Case::of_plenty(HELD, || Ok(Box::new(Wbt::new())), None) },
    Case::of_plenty(io_max::NAME, || Ok(Box::new(IoMax::new(Release::V6_12))), Some(("riops", PLENTY))),
    Case::of_plenty(io_cost::NAME, make_io_cost, Some((io_cost::WEIGHT, 200))),
    Case::of_plenty(io_latency::NAME, || Ok(Box::new(IoLatency::default())), Some((io_latency::NAME, 1_000_000))),
    Case::of_plenty(prio_class::NAME, || Ok(Box::new(PrioClasses::default())), Some((prio_class::NAME, 1))),
    Case::of_plenty(limits::NAME, || Ok(Box::new(Limits::default())), Some(("limit_iops", PLENTY))),
];

fn make_io_cost() -> Result<Box<dyn Controller>, Failure> {
    let settings = io_cost::Settings { enabled: true, ..io_cost::Settings::default() };
    let settings = settings.with_model(MODEL).map_err(|why| Failure::refused(why.to_string()))?;
    Ok(Box::new(IoCost::new(settings)))
}

/// Measures every controller in front of this scheduler, at every number of tenants.
pub fn run(scheduler: &Choice) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for case in &CASES {
        for tenants in TENANTS {
            rows.push(measure(case, scheduler, tenants)?);
        }
    }
    Ok(rows)
}

/// The rows as a table.
pub fn text(rows: &[Row], style: Style) -> String {
    let header = [
        ("controller", Align::Left),
        ("tenants", Align::Right),
        ("ns without", Align::Right),
        ("ns with", Align::Right),
        ("ns added", Align::Right),
        ("ratio", Align::Right),
    ];
    let line = |r: &Row| {
        let ns = |value: f64| format!("{value:.1}");
        let ratio = format!("{:.2}", 1.0 + r.ns_added / r.ns_without);
        vec![r.controller.to_owned(), r.tenants.to_string(), ns(r.ns_without), ns(r.ns_with), ns(r.ns_added), ratio]
    };
    let lines: Vec<Vec<String>> = rows.iter().map(line).collect();
    let table = table(&header, &lines, style);
    format!("{table}\na request through the block layer, 70 % reads; ratio to the same layer without the controller\n")
}

/// A block layer in which `depth` requests are under way.
struct Path {
    depth: usize,
    layer: BlockLayer,
    now: Nanos,
    tasks: Vec<TaskId>,
    draws: Vec<(u64, Op)>,
    drawn: usize,
    in_device: VecDeque<RequestId>,
    finished: Vec<Finished>,
}

impl Path {
    fn new(scheduler: &Choice, tenants: u32, depth: usize) -> Path {
        let setup = Setup { nr_requests: 256, device_depth: 256, ..Setup::default() };
        let config = Config { setup, ..Config::default() };
        let mut known = Tenants::default();
        let tasks = (0..tenants).map(|_| {
            let tenant = known.add_tenant(Tenant::default());
            known.add_task(tenant, Ioprio::DEFAULT)
        });
        let tasks = tasks.collect();
        Path {
            depth,
            layer: BlockLayer::new(config, scheduler.scheduler(setup), known),
            now: Nanos::ZERO,
            tasks,
            draws: crate::schedulers::draws(),
            drawn: 0,
            in_device: VecDeque::with_capacity(depth * 2),
            finished: Vec::with_capacity(depth),
        }
    }

    fn with(mut self, case: &Case) -> Result<Path, Failure> {
        self.layer.add_controller(self.now, (case.make)()?);
        if let Some((name, value)) = case.setting {
            for tenant in 0..self.tasks.len() as u32 {
                let set = self.layer.set_control(self.now, Scope::Tenant(TenantId(tenant)), name, value);
                set.map_err(|why| Failure::refused(format!("{}: {why}", case.name)))?;
            }
        }
        Ok(self)
    }

    /// Submits, sends and completes this many requests.
    fn run(&mut self, requests: usize) {
        for _ in 0..requests {
            self.now += GAP;
            if self.layer.next_timer().is_some_and(|at| at <= self.now) {
                self.layer.timer(self.now);
            }
            let (sector, op) = self.draws[self.drawn & 0xffff];
            let task = self.tasks[self.drawn % self.tasks.len()];
            self.drawn += 1;
            // Writes are buffered, which is what wbt counts.
            let flags = if op == Op::Read { Flags::SYNC } else { Flags::NONE };
            let io = Io { op, flags, ioprio: Ioprio::DEFAULT, sector, sectors: 8, task, ..Io::default() };
            self.layer.submit(self.now, io, None);
            while let Some(id) = self.layer.poll(self.now) {
                self.in_device.push_back(id);
            }
            if self.in_device.len() >= self.depth
                && let Some(id) = self.in_device.pop_front()
            {
                self.layer.complete(self.now, id, Ok(()), &mut self.finished);
                self.finished.clear();
            }
        }
    }

    fn ns_per_request(&mut self) -> f64 {
        let started = Instant::now();
        self.run(REQUESTS_PER_ROUND);
        started.elapsed().as_nanos() as f64 / REQUESTS_PER_ROUND as f64
    }
}

fn measure(case: &Case, scheduler: &Choice, tenants: u32) -> Result<Row, Failure> {
    let mut plain = Path::new(scheduler, tenants, case.depth);
    let mut path = Path::new(scheduler, tenants, case.depth).with(case)?;
    plain.run(REQUESTS_PER_ROUND);
    path.run(REQUESTS_PER_ROUND);
    // Each pair of rounds meets the same weather.
    let rounds: Vec<(f64, f64)> = (0..ROUNDS).map(|_| (plain.ns_per_request(), path.ns_per_request())).collect();
    if path.layer.ledger().finished < (REQUESTS_PER_ROUND * ROUNDS) as u64 {
        return Err(Failure::refused(format!("{}: the controller let I/Os wait, so nothing was timed", case.name)));
    }
    Ok(Row {
        controller: case.name,
        tenants,
        ns_without: median(rounds.iter().map(|(without, _)| *without).collect()),
        ns_with: median(rounds.iter().map(|(_, with)| *with).collect()),
        ns_added: median(rounds.iter().map(|(without, with)| with - without).collect()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_behind_a_controller_that_has_plenty() {
        let none = Choice::parse("none").unwrap();
        for case in &CASES {
            let mut path = Path::new(&none, 100, case.depth).with(case).unwrap();
            path.run(20_000);
            assert!(path.layer.ledger().finished > 19_000, "{}", case.name);
            let held = case.name == HELD;
            let controller = path.layer.controller(if held { wbt::NAME } else { case.name }).unwrap();
            let mut waited = 0;
            controller.counters(Scope::Device, &mut |count, times| {
                waited += if ["wbt_held", "io_max_waited", "io_cost_held"].contains(&count) { times } else { 0 };
            });
            // 30 % are writes.
            assert!(if held { waited > 5_000 } else { waited == 0 }, "{}: {waited}", case.name);
        }
    }
}
