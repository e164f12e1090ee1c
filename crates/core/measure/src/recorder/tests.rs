use super::*;
use crate::RunResult;
use dumbwaiter_block::TaskId;
use proptest::prelude::*;

fn recorder(weights: &[u32], warmup: Nanos) -> Recorder {
    let tenant = |(i, w): (usize, &u32)| TenantSpec { name: format!("t{i}"), weight: *w, parent: None, focus: false };
    let task = |i| TaskSpec { name: format!("t{i}.0"), tenant: TenantId(i), focus: None, write_back: false };
    Recorder::new(RecorderConfig {
        warmup,
        interval: Nanos::from_ms(1),
        tenants: weights.iter().enumerate().map(tenant).collect(),
        tasks: (0..weights.len() as u32).map(task).collect(),
    })
}

/// Submitted at `at`: 10 us in the queue, 30 us in the device, 2 us until the task is notified.
fn done(op: Op, tenant: u32, bytes: u64, at: Nanos) -> Completed {
    let us = |n| at + Nanos::from_us(n);
    Completed {
        op,
        task: TaskId(tenant),
        tenant: TenantId(tenant),
        sector: 2048 * u64::from(tenant),
        bytes,
        submit: at,
        insert: at,
        issue: us(10),
        device_done: us(40),
        complete: us(42),
    }
}

#[test]
fn a_result_matches_a_calculation_by_hand() {
    let mut r = recorder(&[100, 300], Nanos::ZERO);
    r.record(&done(Op::Read, 0, 1_000_000, Nanos::ZERO));
    r.record(&done(Op::Write, 1, 3_000_000, Nanos::from_us(100)));
    r.record(&done(Op::Discard, 1, 8_000_000, Nanos::from_us(200)));
    let cpu = CpuFacts { busy: vec![Nanos::from_us(30)], ..CpuFacts::default() };
    let out = r.finish(Nanos::from_ms(2), RunFacts { cpu, ..RunFacts::default() });
    assert_eq!((out.completed, out.duration_s, out.iops), (3, 0.002, 1500.0));
    assert_eq!(out.mb_per_s, 2000.0, "a discard moves no data");
    assert_eq!((out.read.count, out.write.count, out.other.count), (1, 1, 1));
    assert_eq!((out.read.latency_us.mean, out.read.latency_us.max), (42.0, 42.0));
    assert_eq!((out.phases_us.queue.mean, out.phases_us.device.mean), (10.0, 30.0));
    assert_eq!([out.tenants[0].share, out.tenants[1].share], [0.25, 0.75]);
    assert_eq!([out.tenants[0].ideal_share, out.tenants[1].ideal_share], [0.25, 0.75]);
    assert_eq!((out.fairness.pv, out.fairness.pv_share, out.fairness.jain), (0.0, 0.0, 1.0));
    assert_eq!((out.cpu.us_per_io, out.cpu.utilisation[0]), (10.0, 0.015));
    assert_eq!(out.series.mb_per_s, [4000.0, 0.0]);
    assert_eq!(out.tasks[1].count, 2);
    assert_eq!(out.latency_nested_us.intervals, 1);
}

#[test]
fn nobody_waits_for_write_back() {
    let task = |i, write_back| TaskSpec { name: format!("t{i}"), tenant: TenantId(0), focus: None, write_back };
    let config =
        |tasks| RecorderConfig { warmup: Nanos::ZERO, interval: Nanos::from_ms(1), tenants: Vec::new(), tasks };
    let run = |write_back| {
        let mut r = Recorder::new(config(vec![task(0, false), task(1, write_back)]));
        r.record(&done(Op::Read, 0, 1000, Nanos::ZERO));
        for at in [100, 200] {
            r.record(&Completed { task: TaskId(1), ..done(Op::Write, 0, 3000, Nanos::from_us(at)) });
        }
        r.unfinished(Unfinished { task: TaskId(1), ..waiting(0, Nanos::ZERO, Nanos::from_ms(2)) });
        r.unfinished(waiting(0, Nanos::from_ms(1), Nanos::from_ms(2)));
        r.finish(Nanos::from_ms(2), RunFacts::default())
    };
    let waited = run(true).waited.unwrap();
    assert_eq!((waited.count, waited.latency_us.samples, waited.latency_us.unfinished), (1, 1, 1));
    assert!(run(false).waited.is_none());
}

/// Submitted at `at` and unfinished at `end`.
fn waiting(tenant: u32, at: Nanos, end: Nanos) -> Unfinished {
    Unfinished { op: Op::Read, task: TaskId(tenant), tenant: TenantId(tenant), submit: at, end }
}

#[test]
fn rates_count_by_completion_and_latencies_by_submission() {
    let mut r = recorder(&[100], Nanos::from_ms(1));
    let slow = |at, took| Completed { complete: at + Nanos::from_us(took), ..done(Op::Read, 0, 4096, at) };
    r.record(&slow(Nanos::from_us(900), 50));
    r.record(&slow(Nanos::from_us(980), 70));
    r.record(&slow(Nanos::from_us(1000), 200));
    assert_eq!(r.finished(), 3);
    let end = Nanos::from_ms(3);
    r.unfinished(waiting(0, Nanos::from_us(2900), end));
    let out = r.finish(end, RunFacts::default());
    assert_eq!((out.requests, out.warmup_completed, out.completed, out.unfinished), (4, 1, 2, 1));
    assert_eq!((out.duration_s, out.iops, out.read.count), (0.002, 1000.0, 2));
    assert_eq!((out.tenants[0].count, out.tasks[0].count, out.tenants[0].share), (2, 2, 1.0));
    assert_eq!(out.series.times, [0.001, 0.002]);
    assert_eq!(out.series.iops, [2000.0, 0.0]);
    for latency in [&out.latency_us, &out.tenants[0].latency_us, &out.tasks[0].latency_us] {
        assert_eq!((latency.samples, latency.unfinished, latency.known_to), (1, 1, 1.0));
        assert_eq!((latency.p50, latency.max), (200.0, 200.0), "the other is 100 us old only");
    }
    assert_eq!((out.phases_us.device.samples, out.oldest_unfinished_s), (1, 0.0001));
}

#[test]
fn what_waits_since_before_the_measured_time_counts_with_its_wait() {
    let mut r = recorder(&[100, 100], Nanos::from_ms(1));
    for us in 1000..1011 {
        r.record(&done(Op::Read, 0, 4096, Nanos::from_us(us)));
    }
    let end = Nanos::from_ms(1200);
    r.unfinished(waiting(1, Nanos::ZERO, end));
    let out = r.finish(end, RunFacts::default());
    assert_eq!((out.latency_us.p50, out.latency_us.p99, out.oldest_unfinished_s), (42.0, 1_200_000.0, 1.2));
    assert!(out.latency_us.is_known(0.5) && !out.latency_us.is_known(0.99), "{:?}", out.latency_us);
    let starved = &out.tenants[1].latency_us;
    assert_eq!((starved.samples, starved.known_to, starved.p50), (0, 0.0, 1_200_000.0));
    // A run that ends in its warm-up has measured nothing.
    let mut r = recorder(&[100], Nanos::from_ms(5));
    r.unfinished(waiting(0, Nanos::ZERO, Nanos::from_ms(4)));
    let out = r.finish(Nanos::from_ms(4), RunFacts::default());
    assert_eq!((out.requests, out.unfinished, out.latency_us.unfinished, out.duration_s), (1, 1, 0, 0.0));
}

#[test]
fn a_starved_tenant_is_unfair_and_an_idle_one_is_not() {
    let run = |starved: u64| {
        let mut r = recorder(&[100, 100, 100], Nanos::ZERO);
        r.record(&done(Op::Read, 0, 4096, Nanos::ZERO));
        r.record(&done(Op::Read, 1, 4096, Nanos::ZERO));
        (0..starved).for_each(|i| r.unfinished(waiting(2, Nanos(i), Nanos::from_ms(1))));
        r.finish(Nanos::from_ms(1), RunFacts::default())
    };
    let idle = run(0);
    assert_eq!((idle.fairness.pv, idle.fairness.jain), (0.0, 1.0));
    assert_eq!(idle.tenants[2].ideal_share, 0.0);
    assert!(idle.tenants[2].latency_us.mean.is_nan());
    let starved = run(9);
    assert!(starved.fairness.jain < 0.7 && starved.fairness.pv > 0.3, "{:?}", starved.fairness);
}

#[test]
fn fairness_follows_changes_of_weights_and_activity() {
    let ms = Nanos::from_ms;
    let mut r = recorder(&[100, 300, 100], Nanos::ZERO);
    r.record(&done(Op::Read, 0, 1000, Nanos::ZERO));
    r.record(&done(Op::Read, 1, 3000, Nanos::ZERO));
    r.weight(ms(1), TenantId(1), 50);
    r.record(&done(Op::Read, 0, 1000, ms(1)));
    r.record(&done(Op::Read, 1, 3000, ms(1)));
    r.record(&done(Op::Read, 1, 3000, ms(2)));
    // From 2 ms on the third tenant submits and nothing completes; the first is idle.
    r.unfinished(waiting(2, ms(2), ms(3)));
    let out = r.finish(ms(3), RunFacts::default());
    // 1 : 3 is ideal; then 100 : 50 by weight and 1 : 3 by bytes, relative to the second: |2 - 1/3| / 2; then 50 :
    // 100 by weight and all to one.
    let expected = [0.0, 5.0 / 6.0, 1.0];
    assert!(out.series.pv.iter().zip(expected).all(|(pv, e)| (pv - e).abs() < 1e-12), "{:?}", out.series.pv);
    assert_eq!(out.fairness.reversals_s, 0.002, "the second tenant is the lightest from 1 ms on");
    // Weights of 100, 300, 100 for 1 ms and 100, 50, 100 for 2 ms.
    let expected = (0.6 + 2.0 * 0.2) / 3.0;
    assert!((out.tenants[1].ideal_share - expected).abs() < 1e-12, "{}", out.tenants[1].ideal_share);
}

#[test]
fn a_run_without_io_has_undefined_figures() {
    let out = recorder(&[], Nanos::ZERO).finish(Nanos::ZERO, RunFacts::default());
    assert_eq!((out.completed, out.iops, out.mb_per_s), (0, 0.0, 0.0));
    assert_eq!(out.tenants[0].name, "all");
    let text = serde_json::to_string(&out).unwrap();
    let back: RunResult = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&back).unwrap(), text);
}

#[test]
fn of_many_tasks_those_that_move_most_are_listed() {
    let task = |i| TaskSpec { name: format!("{i}"), tenant: TenantId(0), focus: None, write_back: false };
    let (tenants, tasks) = (Vec::new(), (0..1000).map(task).collect());
    let config = RecorderConfig { warmup: Nanos::ZERO, interval: Nanos::from_ms(1), tenants, tasks };
    let mut r = Recorder::new(config);
    for i in 0..1001 {
        r.record(&Completed { task: TaskId(i), ..done(Op::Read, 0, u64::from(i), Nanos::ZERO) });
    }
    let out = r.finish(Nanos::from_ms(1), RunFacts::default());
    assert_eq!((out.tasks.len(), out.tasks_omitted), (256, 744));
    assert_eq!((out.tasks[0].name.as_str(), out.completed), ("0", 1001));
    assert_eq!(out.tasks[0].latency_us.p99, 42.0, "the first tasks have percentiles, however little they moved");
    assert_eq!(out.tasks[64].name, "808");
    assert!(out.tasks[64].latency_us.p99.is_nan() && out.tasks[64].latency_us.mean == 42.0);
}

/// The Kaplan-Meier estimate from a list of (ns, finished), by its definition: the product over the times at which any
/// finished of the part that went on, of those that were left.
fn product_limit(all: &[(u64, bool)], quantile: f64) -> Option<u64> {
    let mut times: Vec<u64> = all.iter().filter(|(_, finished)| *finished).map(|(ns, _)| *ns).collect();
    times.sort_unstable();
    times.dedup();
    let mut beyond = 1.0;
    for time in times {
        let left = all.iter().filter(|(ns, _)| *ns >= time).count() as f64;
        let ended = all.iter().filter(|(ns, finished)| *ns == time && *finished).count() as f64;
        beyond *= 1.0 - ended / left;
        if 1.0 - beyond >= quantile - 1e-9 {
            return Some(time);
        }
    }
    None
}

proptest! {
    #[test]
    fn figures_are_those_of_the_raw_data(
        requests in prop::collection::vec((0u32..2, 0u64..50_000_000, 1u64..30_000_000, any::<bool>()), 1..400),
        warmup_ms in 0u64..20,
    ) {
        let (warmup, end) = (Nanos::from_ms(warmup_ms), Nanos::from_ms(50));
        let mut r = recorder(&[100, 200], warmup);
        // (tenant, submitted, taken or waited, finished, read)
        let raw: Vec<(u32, u64, u64, bool, bool)> = requests
            .iter()
            .map(|(tenant, at, ns, read)| (*tenant, *at, (*ns).min(end.0 - at), at + ns <= end.0, *read))
            .collect();
        let mut order = raw.clone();
        order.sort_by_key(|(_, at, ns, ..)| at + ns);
        for (tenant, at, ns, finished, read) in order {
            let (at, op) = (Nanos(at), if read { Op::Read } else { Op::Write });
            if finished {
                r.record(&Completed { complete: at + Nanos(ns), ..done(op, tenant, 512, at) });
            } else {
                r.unfinished(Unfinished { op, ..waiting(tenant, at, end) });
            }
        }
        let out = r.finish(end, RunFacts::default());
        prop_assert_eq!(out.requests, raw.len() as u64);
        prop_assert_eq!(out.requests, out.warmup_completed + out.completed + out.unfinished);
        let of = |keep: &dyn Fn(u32, bool) -> bool| -> Vec<(u64, u64, bool)> {
            raw.iter().filter(|r| keep(r.0, r.4)).map(|r| (r.1, r.2, r.3)).collect()
        };
        let fine: fn(u64) -> u64 = |ns| Fine::longest(Fine::bucket(ns));
        let coarse: fn(u64) -> u64 = |ns| Coarse::longest(Coarse::bucket(ns));
        let groups = [
            (of(&|_, _| true), &out.latency_us, out.completed, fine),
            (of(&|_, read| read), &out.read.latency_us, out.read.count, fine),
            (of(&|_, read| !read), &out.write.latency_us, out.write.count, fine),
            (of(&|tenant, _| tenant == 1), &out.tenants[1].latency_us, out.tenants[1].count, coarse),
        ];
        for (group, latency, count, bound) in groups {
            let finished = |r: &&(u64, u64, bool)| r.2 && r.0 + r.1 >= warmup.0;
            prop_assert_eq!(count, group.iter().filter(finished).count() as u64);
            let mut counted: Vec<(u64, bool)> =
                group.iter().filter(|r| r.0 >= warmup.0 || !r.2).map(|r| (r.1, r.2)).collect();
            counted.sort_unstable();
            let Some((longest, _)) = counted.last().copied() else {
                prop_assert!(latency.p50.is_nan() && latency.max.is_nan());
                continue;
            };
            prop_assert_eq!(latency.max, longest as f64 / 1e3);
            let longest_finished = counted.iter().filter(|r| r.1).map(|r| r.0).max().unwrap_or(0);
            let bounds: Vec<(u64, bool)> = counted.iter().map(|(ns, finished)| (bound(*ns), *finished)).collect();
            for (quantile, us) in [(0.5, latency.p50), (0.95, latency.p95), (0.99, latency.p99), (0.999, latency.p99_9)] {
                let known = product_limit(&bounds, quantile).map(|ns| ns.min(longest_finished));
                prop_assert_eq!(us, known.unwrap_or(longest) as f64 / 1e3);
                prop_assert_eq!(latency.is_known(quantile), known.is_some());
                if latency.unfinished == 0 {
                    // Without them it is the value of this rank, to the digits of the histogram.
                    let rank = (quantile * counted.len() as f64 - 1e-9).ceil() as usize;
                    let exact = counted[rank.max(1) - 1].0;
                    let ns = (us * 1e3).round() as u64;
                    prop_assert!((exact..=bound(exact)).contains(&ns), "{} {}", ns, exact);
                }
            }
        }
    }

    #[test]
    fn shares_sum_to_one(requests in prop::collection::vec((0u32..4, 1u64..1_000_000, 0u64..100_000), 1..200)) {
        let mut r = recorder(&[1, 2, 4, 5], Nanos::ZERO);
        let mut now = Nanos::ZERO;
        for (tenant, bytes, gap) in &requests {
            now += Nanos(*gap);
            r.record(&done(Op::Write, *tenant, *bytes, now));
        }
        let out = r.finish(now, RunFacts::default());
        prop_assert!((out.tenants.iter().map(|t| t.share).sum::<f64>() - 1.0).abs() < 1e-9);
        prop_assert_eq!(out.tenants.iter().map(|t| t.count).sum::<u64>(), out.completed);
        let moved: f64 = out.tenants.iter().map(|t| t.mb_per_s).sum();
        prop_assert!((moved - out.mb_per_s).abs() <= 1e-9 * moved);
    }

    #[test]
    fn exact_proportions_have_no_variation(weights in prop::collection::vec(1u32..1000, 2..6)) {
        let mut r = recorder(&weights, Nanos::ZERO);
        for (i, w) in weights.iter().enumerate() {
            r.record(&done(Op::Read, i as u32, u64::from(*w) * 4096, Nanos::ZERO));
        }
        let out = r.finish(Nanos::from_ms(1), RunFacts::default());
        prop_assert!(out.fairness.pv.abs() < 1e-9 && out.fairness.pv_share.abs() < 1e-9);
    }
}
