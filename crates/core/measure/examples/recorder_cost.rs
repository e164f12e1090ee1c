//! Prints what a recorder costs per finished request:
//! `cargo run --release -p dumbwaiter-measure --example recorder_cost`.
#![allow(clippy::disallowed_methods)] // A clock is the point here.

use dumbwaiter_block::{Nanos, Op, TaskId, TenantId};
use dumbwaiter_measure::{Completed, Recorder, RecorderConfig, RunFacts, TaskSpec, TenantSpec};
use std::hint::black_box;
use std::time::Instant;

const REQUESTS: u64 = 10_000_000;

fn main() {
    for (tenants, tasks) in [(1, 1), (4, 16), (4, 200)] {
        for with_depth in [false, true] {
            let ns = cost(tenants, tasks, with_depth);
            let depth = if with_depth { "with 2 depth changes" } else { "alone" };
            println!("{tenants} tenants, {tasks:3} tasks, {depth:20} {ns:6.1} ns per request");
        }
    }
}

fn cost(tenants: u32, tasks: u32, with_depth: bool) -> f64 {
    let tenant = |i| TenantSpec { name: format!("t{i}"), weight: 100, parent: None, focus: false };
    let task = |i: u32| TaskSpec { name: format!("task{i}"), tenant: TenantId(i % tenants) };
    let mut recorder = Recorder::new(RecorderConfig {
        warmup: Nanos::ZERO,
        interval: Nanos::from_ms(100),
        tenants: (0..tenants).map(tenant).collect(),
        tasks: (0..tasks).map(task).collect(),
    });
    let start = Instant::now();
    let mut state = 1u64;
    for i in 0..REQUESTS {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let now = Nanos(1_000_000_000 + i * 1000);
        let waited = Nanos(state >> 44);
        let task = (state >> 33) as u32 % tasks;
        if with_depth {
            recorder.depth(now, state >> 60, state >> 59);
            recorder.depth(now + Nanos(200), state >> 58, state >> 59);
        }
        let submit = Nanos(now.0 - waited.0);
        recorder.record(black_box(&Completed {
            op: if state >> 63 == 0 { Op::Read } else { Op::Write },
            task: TaskId(task),
            tenant: TenantId(task % tenants),
            sector: state >> 32,
            bytes: 4096,
            submit,
            insert: submit,
            issue: submit + Nanos(waited.0 / 2),
            device_done: now,
            complete: now,
        }));
    }
    let elapsed = start.elapsed().as_nanos() as f64 / REQUESTS as f64;
    black_box(recorder.finish(Nanos::ZERO, RunFacts::default()));
    elapsed
}
