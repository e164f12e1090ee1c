//! Time of the schedulers' own decisions, without a device.

use std::time::{Duration, Instant};

use dumbwaiter_block::{
    Context, Flags, Io, Ioprio, Nanos, Next, Op, Place, Request, RequestId, Requests, Setup, State, Tenant, Tenants,
};
use dumbwaiter_experiment::Failure;
use dumbwaiter_measure::median;
use dumbwaiter_report::{Align, Style, table};
use dumbwaiter_schedulers::Choice;
use serde::Serialize;

/// One scheduler at one backlog.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The scheduler with its settings.
    pub scheduler: String,
    /// Requests that it holds.
    pub backlog: u32,
    /// Tasks among which they are divided.
    pub queues: u32,
    /// Time of one insertion, decision and completion, in nanoseconds (median of the rounds).
    pub ns_per_request: f64,
}

const BACKLOGS: [u32; 3] = [1, 64, 4096];
/// Tasks among which the backlog is divided.
const QUEUES: [u32; 3] = [1, 64, 10_000];
const ROUNDS: usize = 9;
/// Requests between two readings of the clock.
const GROUP: usize = 64;
const GROUPS_PER_ROUND: usize = 3_000;

/// Measures every scheduler at every backlog.
pub fn run(choices: &[Choice]) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for choice in choices {
        for queues in QUEUES {
            for backlog in BACKLOGS {
                let stopped = || Failure::refused(format!("{}: the scheduler stopped dispatching", choice.label()));
                rows.push(Row {
                    scheduler: choice.label().to_owned(),
                    backlog,
                    queues,
                    ns_per_request: measure(choice, backlog, queues).ok_or_else(stopped)?,
                });
            }
        }
    }
    Ok(rows)
}

/// The rows as a table.
pub fn text(rows: &[Row], style: Style) -> String {
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
    let table = table(&header, &lines, style);
    format!("{table}\ninsert + next + complete; ratio to {first} at a backlog of 64\n")
}

/// Sectors and directions, drawn beforehand: 70 % reads over a terabyte.
pub(crate) fn draws() -> Vec<(u64, Op)> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let draw = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let sector = (state >> 20) % 1_953_525_168 / 8 * 8;
        (sector, if (state >> 12) % 10 < 7 { Op::Read } else { Op::Write })
    };
    (0..1 << 16).map(draw).collect()
}

/// Keeps a backlog, and for each request inserted takes one out and completes it.
fn measure(choice: &Choice, backlog: u32, queues: u32) -> Option<f64> {
    let setup = Setup { nr_requests: backlog + GROUP as u32, ..Setup::default() };
    let mut policy = choice.scheduler(setup);
    let mut tenants = Tenants::default();
    let tenant = tenants.add_tenant(Tenant::default());
    let tasks: Vec<_> = (0..queues).map(|_| tenants.add_task(tenant, Ioprio::DEFAULT)).collect();
    let draws = draws();
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
                        // It idles for a next request that never comes.
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
