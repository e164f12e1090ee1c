use super::*;
use crate::Confidence;
use dumbwaiter_block::{Nanos, Op, TaskId, TenantId};
use dumbwaiter_measure::{
    Completed, CpuFacts, Recorder, RecorderConfig, RunFacts, TaskSpec, TenantSpec, TestKind, Unfinished,
};

/// A run of 2000 reads of 1 MB, each `latency_us` long, in `run_s`.
fn run(scheduler: &str, seed: u64, latency_us: u64, run_s: u64, cpu_us: u64) -> RunResult {
    let config = RecorderConfig { warmup: Nanos::ZERO, interval: Nanos::from_secs(1), tenants: vec![], tasks: vec![] };
    let mut r = Recorder::new(config);
    for i in 0..2000 {
        let submit = Nanos::from_us(i * 10);
        let complete = submit + Nanos::from_us(latency_us + seed % 3);
        r.record(&Completed {
            op: Op::Read,
            task: TaskId(0),
            tenant: TenantId(0),
            sector: 0,
            bytes: 1_000_000,
            submit,
            insert: submit,
            issue: submit,
            device_done: complete,
            complete,
        });
    }
    let cpu = CpuFacts { busy: vec![Nanos::from_us(cpu_us * 2000)], ..CpuFacts::default() };
    let facts = RunFacts { device: "d".into(), scheduler: scheduler.into(), seed, cpu, ..RunFacts::default() };
    r.finish(Nanos::from_secs(run_s), facts)
}

fn runs(of: &[(&str, u64, u64, u64)], seeds: u64) -> Vec<RunResult> {
    let one = |(name, latency, s, cpu): &(&str, u64, u64, u64)| {
        (0..seeds).map(|seed| run(name, seed, *latency + 7 * (seed % 2), *s, *cpu)).collect::<Vec<_>>()
    };
    of.iter().flat_map(one).collect()
}

fn winner(runs: &[RunResult], goal: Goal) -> String {
    rank(runs, goal)[0].rows[0].scheduler.clone()
}

#[test]
fn each_goal_ranks_by_its_rate() {
    // 200, 200, 111 and 40 MB/s; latencies of 9, 5, 1 and 0.5 ms.
    let r = runs(&[("fast", 9000, 10, 5), ("mixed", 5000, 10, 5), ("quick", 1000, 18, 5), ("idle", 500, 50, 5)], 3);
    assert_eq!(winner(&r, Goal::Balanced), "quick", "a fifth of the latency is worth more than 45 % of the throughput");
    assert_eq!(winner(&r, Goal::Latency), "quick");
    assert_eq!(winner(&r, Goal::Throughput), "mixed", "equal throughput: the lower latency");
    assert_eq!(winner(&r, Goal::Fairness), "mixed", "nobody set weights, and throughput weighs more");
    let balanced = &rank(&r, Goal::Balanced)[0];
    let names: Vec<&str> = balanced.rows.iter().map(|r| r.scheduler.as_str()).collect();
    assert_eq!(names, ["quick", "mixed", "idle", "fast"]);
    assert!(
        balanced.verdict.trades.iter().any(|line| line.starts_with("idle: p99 of reads")),
        "{:?}",
        balanced.verdict.trades
    );
}

#[test]
fn runs_without_io_give_no_recommendation() {
    let idle = |scheduler: &str| {
        let config =
            RecorderConfig { warmup: Nanos::ZERO, interval: Nanos::from_secs(1), tenants: vec![], tasks: vec![] };
        let facts = RunFacts { device: "d".into(), scheduler: scheduler.into(), ..RunFacts::default() };
        Recorder::new(config).finish(Nanos::from_secs(1), facts)
    };
    let sentence = rank(&[idle("a"), idle("b")], Goal::Balanced)[0].verdict.sentence();
    assert!(sentence.contains("no I/O finished") && sentence.starts_with("Too short to tell"), "{sentence}");
}

#[test]
fn processor_time_decides_between_alternatives_that_are_nearly_worth_the_same() {
    // The first by name is what stands in for the one that is set.
    let r = runs(&[("a", 9000, 10, 9), ("dear", 5000, 10, 9), ("cheap", 5010, 10, 3)], 3);
    let ranking = &rank(&r, Goal::Balanced)[0];
    let names: Vec<&str> = ranking.rows.iter().map(|row| row.scheduler.as_str()).collect();
    assert_eq!((names[0], ranking.verdict.recommended.as_deref()), ("cheap", Some("cheap")));
    assert!(names.contains(&"dear"));
}

#[test]
fn insignificant_differences_are_ties_and_single_runs_are_untested() {
    let mut r = runs(&[("a", 5000, 10, 5)], 3);
    r.extend([(0, 5900), (1, 4300), (2, 5100)].map(|(seed, us)| run("b", seed, us, 10, 5)));
    let estimate = |r: &[RunResult], name: &str| {
        let ranking = &rank(r, Goal::Balanced)[0];
        ranking.rows.iter().find(|row| row.scheduler == name).unwrap().metrics["focus_p99_us"].clone()
    };
    assert_eq!(estimate(&r, "b").difference, Difference::Tie);
    assert_eq!(estimate(&r, "b").test, Some(TestKind::PairedT));
    assert_eq!(estimate(&r, "a").difference, Difference::Best);
    let single = runs(&[("a", 5000, 10, 5), ("b", 6000, 10, 5)], 1);
    assert_eq!(estimate(&single, "b").difference, Difference::Untested);
    assert!(estimate(&single, "b").p.is_none() && estimate(&single, "b").ci95.is_none());
}

#[test]
fn significant_differences_are_worse() {
    let r = runs(&[("a", 5000, 10, 5), ("b", 9000, 10, 5)], 3);
    let ranking = &rank(&r, Goal::Balanced)[0];
    assert_eq!(ranking.rows[1].difference, Difference::Worse);
    assert!(ranking.rows[1].metrics["focus_p99_us"].p.unwrap() < 0.05);
}

#[test]
fn each_device_has_its_own_ranking_and_no_runs_give_none() {
    let mut r = runs(&[("a", 5000, 10, 5), ("b", 9000, 10, 5)], 1);
    r.push(RunResult { device: "e".into(), ..r[1].clone() });
    let rankings = rank(&r, Goal::Balanced);
    assert_eq!(rankings.len(), 2);
    assert_eq!(rankings[1].rows[0].scheduler, "b");
    assert!(rank(&[], Goal::Balanced).is_empty());
}

/// One I/O: its tenant, the time of submission and the latency, ms; unfinished if it completes after the end.
type Request = (u32, u64, u64);

/// A second after a warm-up of 100 ms, in which the tenant `waits` has the focus and `works` moves 1 MB per I/O.
fn shared(scheduler: &str, seed: u64, requests: &[Request]) -> RunResult {
    let tenant = |name: &str, focus| TenantSpec { name: name.into(), weight: 100, parent: None, focus };
    let config = RecorderConfig {
        warmup: Nanos::from_ms(100),
        interval: Nanos::from_ms(100),
        tenants: vec![tenant("waits", true), tenant("works", false)],
        tasks: (0..2)
            .map(|i| TaskSpec { name: i.to_string(), tenant: TenantId(i), focus: None, write_back: false })
            .collect(),
    };
    let end = Nanos::from_ms(1100);
    let mut r = Recorder::new(config);
    let mut requests = requests.to_vec();
    requests.sort_by_key(|(_, at, took)| at + took);
    for (tenant, at, took) in requests {
        let (submit, complete) = (Nanos::from_ms(at), Nanos::from_ms(at + took));
        let (op, task, tenant) = (Op::Read, TaskId(tenant), TenantId(tenant));
        let bytes = 4096 + u64::from(tenant.0) * 1_000_000;
        if complete > end {
            r.unfinished(Unfinished { op, task, tenant, submit, end });
        } else {
            let (insert, issue, device_done) = (submit, submit, complete);
            r.record(&Completed { op, task, tenant, sector: 0, bytes, submit, insert, issue, device_done, complete });
        }
    }
    let facts = RunFacts { device: "d".into(), scheduler: scheduler.into(), seed, ..RunFacts::default() };
    r.finish(end, facts)
}

/// `works` has an I/O every ms, `waits` one every 10 ms that takes `ms` and a little more by the seed.
fn served(scheduler: &str, seed: u64, ms: u64) -> RunResult {
    let mut requests: Vec<Request> = (0..1099).map(|at| (1, at, 1)).collect();
    requests.extend((0..90).map(|i| (0, 100 + 10 * i, ms + u64::from(i % (seed + 2) == 0))));
    shared(scheduler, seed, &requests)
}

/// The same, but all that `waits` asks for stays unfinished; `works` gets more.
fn starving(scheduler: &str, seed: u64) -> RunResult {
    let mut requests: Vec<Request> = (0..1099).flat_map(|at| [(1, at, 1), (1, at, 1)]).collect();
    requests.extend([(0, 50, 5000), (1, 500, 2 + seed)]);
    shared(scheduler, seed, &requests)
}

fn row<'a>(ranking: &'a Ranking, name: &str) -> &'a RankingRow {
    ranking.rows.iter().find(|row| row.scheduler == name).unwrap()
}

#[test]
fn a_run_that_starves_the_focus_is_the_worst_and_not_missing() {
    for goal in Goal::ALL {
        // Twice it serves the focus better than the other, once not at all.
        let mut r: Vec<RunResult> = (0..3).map(|seed| served("fair", seed, 50)).collect();
        r.extend((0..2).map(|seed| served("greedy", seed, 5)));
        r.push(starving("greedy", 2));
        let ranking = &rank(&r, goal)[0];
        assert_eq!(ranking.rows[0].scheduler, "fair", "{goal:?}");
        assert_eq!(ranking.verdict.decision, crate::Decision::Keep, "{goal:?}");
        let of = |name: &str| row(ranking, name).metrics["focus_p99_us"].clone();
        let greedy = of("greedy");
        assert_eq!((greedy.mean, greedy.starved, greedy.n, greedy.difference), (None, 1, 2, Difference::Worse));
        assert_eq!((of("fair").n, of("fair").starved, of("fair").difference), (3, 0, Difference::Best));
    }
    // A run in which the focus did not even ask is no better than one in which it waits.
    let mut r: Vec<RunResult> = (0..3).map(|seed| served("fair", seed, 50)).collect();
    r.extend((0..3).map(|seed| starving("greedy", seed)));
    r.iter_mut().filter(|run| run.scheduler == "greedy").for_each(|run| run.tenants[0].latency_us.unfinished = 0);
    let ranking = &rank(&r, Goal::Balanced)[0];
    assert_eq!(
        (row(ranking, "greedy").metrics["focus_p99_us"].starved, ranking.rows[0].scheduler.as_str()),
        (3, "fair")
    );
}

#[test]
fn where_every_scheduler_starves_the_focus_none_is_recommended() {
    let r: Vec<RunResult> = ["a", "b"].iter().flat_map(|name| [starving(name, 0), starving(name, 1)]).collect();
    let ranking = &rank(&r, Goal::Balanced)[0];
    assert_eq!(ranking.verdict.recommended, None, "{}", ranking.verdict.sentence());
    assert!(ranking.verdict.apply.is_empty());
}

#[test]
fn a_percentile_of_few_that_finished_while_one_waits_is_not_the_best() {
    // 11 finish within 10 ms, and one has waited for 900 ms; the other has a known p99 of 950 ms.
    let few = |seed| {
        let mut requests: Vec<Request> = (0..1099).map(|at| (1, at, 1)).collect();
        requests.extend((0..11).map(|i| (0, 100 + i, 10)));
        requests.push((0, 200, 5000));
        shared("few", seed, &requests)
    };
    let slow = |seed| {
        let mut requests: Vec<Request> = (0..1099).map(|at| (1, at, 1)).collect();
        requests.extend((0..50).map(|i| (0, 100 + i, 949 + u64::from(i % (seed + 2) == 0))));
        shared("slow", seed, &requests)
    };
    let mut r: Vec<RunResult> = (0..3).map(few).collect();
    r.extend((0..3).map(slow));
    let ranking = &rank(&r, Goal::Balanced)[0];
    assert_ne!(ranking.verdict.recommended.as_deref(), Some("few"), "{}", ranking.verdict.sentence());
    let few = &row(ranking, "few").metrics["focus_p99_us"];
    assert_eq!((few.mean, few.at_least, few.n, few.ci95), (Some(900_000.0), true, 0, None));
    assert!(few.difference != Difference::Best && few.difference != Difference::Tie, "{few:?}");
}

#[test]
fn one_run_of_another_seed_is_compared_as_single_runs_are() {
    let mut r: Vec<RunResult> = (0..3).map(|seed| served("slow", seed, 50)).collect();
    r.push(served("xquick", 0, 5));
    let ranking = &rank(&r, Goal::Balanced)[0];
    assert_ne!(ranking.verdict.confidence, Confidence::Clear, "{}", ranking.verdict.sentence());
    assert_eq!(row(ranking, "xquick").worth.unwrap().runs, 1);
}

#[test]
fn replicates_that_are_the_same_run_are_one_replicate() {
    let same = |name: &str, us| (0..3).map(|seed| RunResult { seed, ..run(name, 0, us, 10, 5) }).collect::<Vec<_>>();
    let mut r = same("a", 5000);
    r.extend(same("b", 9000));
    let ranking = &rank(&r, Goal::Balanced)[0];
    for row in &ranking.rows {
        let p99 = &row.metrics["focus_p99_us"];
        assert_eq!((row.replicates, p99.n, p99.ci95, p99.p), (3, 1, None, None));
    }
    // Nothing in this load is random, and b is worse.
    assert_eq!(row(ranking, "b").difference, Difference::Worse);
    assert_eq!((ranking.verdict.decision, ranking.verdict.confidence), (crate::Decision::Keep, Confidence::Clear));
    // The device may differ between replicates of a trace, but the load does not.
    let mut r = runs(&[("a", 5000, 10, 5), ("b", 9000, 10, 5)], 3);
    let tested = |r: &[RunResult]| rank(r, Goal::Balanced)[0].rows[1].metrics["focus_p99_us"].p.is_some();
    assert!(tested(&r));
    r.iter_mut().for_each(|run| (run.same_load, run.world) = (true, "sim".into()));
    assert!(!tested(&r));
    r.iter_mut().for_each(|run| run.world = "real".into());
    assert!(tested(&r), "the runs of a machine differ");
}

#[test]
fn p_values_are_corrected_for_the_number_of_schedulers() {
    // Noise of the same kind in all; the pairs of one are just significant by themselves.
    let us = [[5000, 5100, 4900], [5400, 5700, 5250], [5010, 5080, 4920], [4990, 5110, 4905]];
    let of = |names: &[usize]| -> Vec<RunResult> {
        let one = |i: &usize| (0..3).map(|seed| run(&i.to_string(), 0, us[*i][seed], 10, 5)).collect::<Vec<_>>();
        let seeded = |(seed, r): (u64, RunResult)| RunResult { seed: seed % 3, ..r };
        (0..).zip(names.iter().flat_map(one)).map(seeded).collect()
    };
    let estimate = |names: &[usize]| {
        let ranking = &rank(&of(names), Goal::Balanced)[0];
        ranking.rows.iter().find(|row| row.scheduler == "1").unwrap().metrics["focus_p99_us"].clone()
    };
    let (alone, among) = (estimate(&[0, 1]), estimate(&[0, 1, 2, 3]));
    let (p, corrected) = (alone.p.unwrap(), among.p.unwrap());
    assert!((corrected - 3.0 * p).abs() < 1e-9, "{p} {corrected}");
    assert!(p <= 0.05 && corrected > 0.05, "{p} {corrected}");
}
