//! What `suite:isolation` says of each controller: its cost, its shares, and what a tenant's latency costs the others.

use dumbwaiter_measure::RunResult;
use serde::Serialize;

use crate::suite::Suite;

/// The suite.
const SUITE: &str = "isolation";
/// Its scenarios that show shares: of equal I/Os, of unequal ones, of reads beside writes.
const SHARES: [&str; 3] = ["isolation-equal", "isolation-sizes", "isolation-writes"];
/// A tenant with a single read beside those that flood the drive: at their weight, and at ten times that.
const FRONTS: [&str; 2] = ["isolation-front-100", "isolation-front-1000"];

/// A scheduler with its controllers on a drive. Figures are means over the runs; NaN where there are none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Isolation {
    /// The device.
    pub device: String,
    /// The stack.
    pub scheduler: String,
    /// Of a tenant alone: mean latency, µs.
    pub alone_mean_us: f64,
    /// The same: CPU time of an I/O, µs.
    pub alone_cpu_us: f64,
    /// The part of all bytes that the wrong tenants moved, by weight: in I/Os of one size, of two sizes, and of reads beside writes.
    pub share_error: [f64; 3],
    /// What a tenant with one read at a time has, and what is left: at the others' weight, and at ten times that.
    pub front: [FrontPoint; 2],
    /// p99 of a tenant that works for 50 ms in each 250 ms, µs.
    pub burst_p99_us: f64,
    /// The throughput beside it, relative to `none`.
    pub burst_throughput: f64,
}

/// A point of the front of latency and throughput.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FrontPoint {
    /// p99 of the tenant that is to be protected, µs.
    pub p99_us: f64,
    /// All throughput, relative to `none`.
    pub throughput: f64,
    /// No other has both a lower p99 and more throughput.
    pub is_on_front: bool,
}

/// What the runs of `suite:isolation` say of each stack, in the order of their first runs; empty for other results.
pub fn isolation(suite: Option<&Suite>, runs: &[RunResult]) -> Vec<Isolation> {
    let Some(suite) = suite.filter(|suite| suite.name == SUITE) else { return Vec::new() };
    let mut found: Vec<Isolation> = Vec::new();
    for device in unique(suite.cases.iter().map(|case| &case.device)) {
        let runs_of = |scenario: &str, scheduler: &str| -> Vec<&RunResult> {
            let is_one = |run: &&RunResult| {
                let of_stack = run.device == *device && run.scheduler == scheduler;
                of_stack && suite.scenario_of(device, &run.variant) == Some(scenario)
            };
            runs.iter().filter(is_one).collect()
        };
        let of_device = runs.iter().filter(|run| run.device == *device);
        let from = found.len();
        for scheduler in unique(of_device.map(|run| &run.scheduler)) {
            found.push(of_stack(device, scheduler, &runs_of));
        }
        for front in 0..FRONTS.len() {
            mark(&mut found[from..], front);
        }
    }
    found
}

fn unique<'a>(all: impl Iterator<Item = &'a String>) -> Vec<&'a String> {
    let mut found: Vec<&String> = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

fn of_stack<'a>(device: &str, scheduler: &str, runs_of: &impl Fn(&str, &str) -> Vec<&'a RunResult>) -> Isolation {
    let average = |scenario: &str, of: fn(&RunResult) -> f64| mean(&runs_of(scenario, scheduler), of);
    let throughput =
        |scenario: &str| average(scenario, |run| run.mb_per_s) / mean(&runs_of(scenario, "none"), |run| run.mb_per_s);
    Isolation {
        device: device.to_owned(),
        scheduler: scheduler.to_owned(),
        alone_mean_us: average("isolation-cost", |run| run.latency_us.mean),
        alone_cpu_us: average("isolation-cost", |run| run.cpu.us_per_io),
        share_error: SHARES.map(|scenario| average(scenario, |run| run.fairness.share_error)),
        front: FRONTS.map(|scenario| FrontPoint {
            p99_us: average(scenario, focus_p99_us),
            throughput: throughput(scenario),
            is_on_front: false,
        }),
        burst_p99_us: average("isolation-burst", focus_p99_us),
        burst_throughput: throughput("isolation-burst"),
    }
}

fn mean(runs: &[&RunResult], of: fn(&RunResult) -> f64) -> f64 {
    runs.iter().map(|run| of(run)).sum::<f64>() / runs.len() as f64
}

fn focus_p99_us(run: &RunResult) -> f64 {
    run.tenants.iter().find(|tenant| tenant.focus).map_or(f64::NAN, |tenant| tenant.latency_us.p99)
}

fn mark(stacks: &mut [Isolation], front: usize) {
    let points: Vec<FrontPoint> = stacks.iter().map(|stack| stack.front[front]).collect();
    for stack in stacks {
        let own = stack.front[front];
        let beats = |other: &FrontPoint| {
            other.p99_us <= own.p99_us
                && other.throughput >= own.throughput
                && (other.p99_us < own.p99_us || other.throughput > own.throughput)
        };
        stack.front[front].is_on_front = own.p99_us.is_finite() && !points.iter().any(beats);
    }
}
