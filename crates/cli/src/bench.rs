//! `bench`: the speed of the simulator and of the schedulers themselves.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use dumbwaiter_block::{
    Context, Flags, Io, Ioprio, Nanos, Next, Op, Place, Request, RequestId, Requests, Setup, State, Tenant, Tenants,
};
use dumbwaiter_experiment::Control;
use dumbwaiter_measure::median;
use dumbwaiter_report::{Align, table};
use dumbwaiter_scenario::{Scenario, SchedulerSpec};
use dumbwaiter_schedulers::{Choice, REGISTRY};
use dumbwaiter_sim::Prepared;
use serde::Serialize;

use crate::args::{Bench, BenchWhat};
use crate::{Ended, output};

/// Measures and prints.
pub(crate) fn run(args: &Bench) -> Result<Ended> {
    if let Some(path) = &args.json {
        output::check_writable(path)?;
    }
    if !matches!(args.what, BenchWhat::Engine)
        && let Some(option) = args.engine.given()
    {
        bail!("{option}: is for `bench engine`; leave it out");
    }
    match args.what {
        BenchWhat::Engine => crate::bench_engine::run(args),
        BenchWhat::Sim => sim(args),
        BenchWhat::Schedulers => schedulers(args),
    }
}

#[derive(Serialize)]
struct SimRow {
    device: String,
    scheduler: String,
    workload: String,
    requests: u64,
    requests_per_s: f64,
    peak_rss_bytes: Option<u64>,
}

/// (device, scheduler, depth, pattern, I/Os). One thread on one CPU; 4 KiB over the whole device.
const SIM_CASES: &[(&str, &str, u32, &str, u64)] = &[
    ("ull:optane-p4801x", "none", 32, "randread", 3_000_000),
    ("ull:optane-p4801x", "mq-deadline", 32, "randread", 2_000_000),
    ("ull:optane-p4801x", "kyber", 32, "randread", 2_000_000),
    ("ssd:850pro-256", "none", 32, "randread", 2_000_000),
    ("ssd:850pro-256", "mq-deadline", 32, "randread", 2_000_000),
    ("ssd:850pro-256", "mq-deadline", 32, "randrw", 2_000_000),
    ("ssd:850pro-256", "kyber", 32, "randread", 2_000_000),
    ("ssd:850pro-256", "bfq", 32, "randread", 2_000_000),
    ("hdd:st1000dm003", "none", 1, "randread", 2_000_000),
    ("hdd:st1000dm003", "mq-deadline", 32, "randread", 1_000_000),
    ("hdd:st1000dm003", "mq-deadline", 64, "randrw", 1_000_000),
    ("hdd:st1000dm003", "mq-deadline", 32, "read", 2_000_000),
];
/// Runs per case; the median counts.
const SIM_RUNS: usize = 3;

fn sim(args: &Bench) -> Result<Ended> {
    let wanted = wanted(args)?;
    let mut rows = Vec::new();
    for (device, scheduler, depth, rw, ios) in SIM_CASES {
        if !wanted.iter().any(|c| c.entry().name == *scheduler) {
            continue;
        }
        let workload = format!("{rw} 4k depth {depth}");
        let text = format!(
            "limit = {ios}\n[host]\ncpus = 1\n[[task]]\nname = \"bench\"\nrw = \"{rw}\"\nbs = \"4k\"\niodepth = {depth}\nnorandommap = true\n"
        );
        let mut scenario = Scenario::from_toml(&text, "bench")?;
        scenario.schedulers = vec![SchedulerSpec::named(scheduler)];
        let model = dumbwaiter_devices::load(device)?;
        let choice = Choice::parse(scheduler)?;
        let prepared = Prepared::new(&scenario)?;
        let mut rates = Vec::new();
        let mut requests = 0;
        reset_peak_rss();
        for replicate in 0..SIM_RUNS as u32 {
            let control = Control::default();
            let started = Instant::now();
            let cell = prepared.run(&model, &choice, replicate, &control)?;
            requests = cell.run.requests;
            rates.push(requests as f64 / started.elapsed().as_secs_f64());
        }
        rows.push(SimRow {
            device: (*device).to_owned(),
            scheduler: (*scheduler).to_owned(),
            workload,
            requests,
            requests_per_s: median(rates),
            peak_rss_bytes: peak_rss(),
        });
    }
    match &args.json {
        Some(path) => output::write_json(path, &rows)?,
        None => {
            let best = rows.iter().map(|r| r.requests_per_s).fold(0.0, f64::max);
            let lines: Vec<Vec<String>> = rows
                .iter()
                .map(|r| {
                    vec![
                        r.device.clone(),
                        r.scheduler.clone(),
                        r.workload.clone(),
                        format!("{:.2} M/s", r.requests_per_s / 1e6),
                        format!("{:.2}", r.requests_per_s / best),
                        r.peak_rss_bytes.map_or("–".to_owned(), |b| format!("{:.0} MB", b as f64 / 1e6)),
                    ]
                })
                .collect();
            let header = [
                ("device", Align::Left),
                ("scheduler", Align::Left),
                ("workload", Align::Left),
                ("simulated", Align::Right),
                ("of the fastest", Align::Right),
                ("peak memory", Align::Right),
            ];
            output::print(&table(&header, &lines, output::style()))?;
        }
    }
    Ok(Ended::Done)
}

fn wanted(args: &Bench) -> Result<Vec<Choice>> {
    match &args.schedulers {
        None => REGISTRY.iter().map(|e| Ok(Choice::parse(e.name)?)).collect(),
        Some(list) => {
            let specs = SchedulerSpec::parse_list(list).map_err(|e| anyhow::anyhow!("--schedulers: {e}"))?;
            specs.iter().map(|s| Ok(Choice::parse(&s.to_string())?)).collect()
        }
    }
}

fn peak_rss() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Lets the kernel count the peak anew; where it cannot, the peak is that of the whole program.
fn reset_peak_rss() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

#[derive(Serialize)]
struct SchedulerRow {
    scheduler: String,
    backlog: u32,
    queues: u32,
    ns_per_request: f64,
}

const BACKLOGS: [u32; 3] = [1, 64, 4096];
/// Tasks among which the backlog is divided.
const QUEUES: [u32; 3] = [1, 64, 10_000];
const ROUNDS: usize = 9;
/// Requests between two looks at the clock.
const GROUP: usize = 64;
const GROUPS_PER_ROUND: usize = 3_000;

fn schedulers(args: &Bench) -> Result<Ended> {
    let mut rows = Vec::new();
    for choice in wanted(args)? {
        for queues in QUEUES {
            for backlog in BACKLOGS {
                rows.push(SchedulerRow {
                    scheduler: choice.label().to_owned(),
                    backlog,
                    queues,
                    ns_per_request: measure(&choice, backlog, queues).context("a scheduler stopped dispatching")?,
                });
            }
        }
    }
    match &args.json {
        Some(path) => output::write_json(path, &rows)?,
        None => {
            let base = rows.iter().find(|r| r.backlog == 64).map_or(1.0, |r| r.ns_per_request);
            let lines: Vec<Vec<String>> = rows
                .iter()
                .map(|r| {
                    vec![
                        r.scheduler.clone(),
                        r.queues.to_string(),
                        r.backlog.to_string(),
                        format!("{:.1}", r.ns_per_request),
                        format!("{:.1}", r.ns_per_request / base),
                    ]
                })
                .collect();
            let header = [
                ("scheduler", Align::Left),
                ("tasks", Align::Right),
                ("backlog", Align::Right),
                ("ns per request", Align::Right),
                ("ratio", Align::Right),
            ];
            let first = rows.first().map_or("the first", |r| r.scheduler.as_str());
            output::print(&table(&header, &lines, output::style()))?;
            output::print(&format!("\ninsert + next + complete; ratio to {first} at a backlog of 64\n"))?;
        }
    }
    Ok(Ended::Done)
}

/// Keeps a backlog, and for each request inserted takes one out and completes it.
fn measure(choice: &Choice, backlog: u32, queues: u32) -> Option<f64> {
    let setup = Setup { nr_requests: backlog + GROUP as u32, ..Setup::default() };
    let mut policy = choice.build(setup);
    let mut tenants = Tenants::default();
    let tenant = tenants.add_tenant(Tenant::default());
    let tasks: Vec<_> = (0..queues).map(|_| tenants.add_task(tenant, Ioprio::DEFAULT)).collect();
    // Places and directions, drawn beforehand: 70 % reads over a terabyte.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let draws: Vec<(u64, Op)> = (0..1 << 16)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let sector = (state >> 20) % 1_953_525_168 / 8 * 8;
            (sector, if (state >> 12) % 10 < 7 { Op::Read } else { Op::Write })
        })
        .collect();
    let io = |i: usize| {
        let (sector, op) = draws[i & 0xffff];
        let task = tasks[i % tasks.len()];
        Io { op, flags: Flags::SYNC, ioprio: Ioprio::DEFAULT, sector, sectors: 8, task, ..Io::default() }
    };
    let mut requests = Requests::default();
    let mut now = Nanos::ZERO;
    let mut drawn = 0;
    let draw = |requests: &mut Requests, id: RequestId, drawn: &mut usize, now| {
        requests[id] = Request::new(io(*drawn), now);
        requests[id].state = State::Queued;
        *drawn += 1;
    };
    for _ in 0..backlog {
        let id = requests.insert(Request::new(Io::default(), now));
        draw(&mut requests, id, &mut drawn, now);
        let ctx = Context { now, requests: &requests, tenants: &tenants, busy: true };
        policy.insert(id, Place::Tail, &ctx);
    }
    let mut spare: Vec<RequestId> = (0..GROUP).map(|_| requests.insert(Request::new(Io::default(), now))).collect();
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let mut spent = Duration::ZERO;
        for _ in 0..GROUPS_PER_ROUND {
            // Requests are made beforehand: what is timed is the scheduler alone.
            for id in &spare {
                draw(&mut requests, *id, &mut drawn, now);
            }
            let started = Instant::now();
            for id in &mut spare {
                now += Nanos(1_000);
                let ctx = Context { now, requests: &requests, tenants: &tenants, busy: true };
                policy.insert(*id, Place::Tail, &ctx);
                *id = loop {
                    let ctx = Context { now, requests: &requests, tenants: &tenants, busy: true };
                    match policy.next(0, &ctx) {
                        Next::Dispatch(next) => {
                            policy.complete(next, &ctx);
                            break next;
                        }
                        // It idles for somebody; nobody comes.
                        Next::WaitUntil(at) if at < Nanos::MAX => now = now.max(at),
                        _ => return None,
                    }
                };
            }
            spent += started.elapsed();
            let ctx = Context { now, requests: &requests, tenants: &tenants, busy: true };
            if policy.timer().is_some_and(|t| t <= now) {
                policy.event(dumbwaiter_block::Event::Timer, &ctx);
            }
        }
        rounds.push(spent.as_nanos() as f64 / (GROUPS_PER_ROUND * GROUP) as f64);
    }
    Some(median(rounds))
}
