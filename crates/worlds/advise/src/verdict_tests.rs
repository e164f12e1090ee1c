//! What verdicts say of results that are set by hand; the properties of the rule are those of `answer`.

use dumbwaiter_measure::RunResult;

use super::*;
use crate::test_runs::template;
use crate::{Conditions, DriveClass, Goal, LoadKind, rank_under};

const NAMES: [&str; 3] = ["alpha", "beta", "gamma"];

fn run(template: &RunResult, name: &str, seed: u64, us: f64, mb_per_s: f64) -> RunResult {
    let mut run = template.clone();
    (run.scheduler, run.seed, run.mb_per_s) = (name.to_owned(), seed, mb_per_s);
    for latency in [&mut run.read.latency_us, &mut run.latency_us] {
        (latency.mean, latency.p95, latency.p99) = (us, us, us);
    }
    run
}

/// Per scheduler the latency and the throughput of each run; the first is what is set.
type Results = Vec<Vec<(f64, f64)>>;

fn runs_of(results: &Results) -> Vec<RunResult> {
    let template = template(1200);
    let mut all = Vec::new();
    for (name, runs) in NAMES.iter().zip(results) {
        all.extend((0..).zip(runs).map(|(seed, (us, rate))| run(&template, name, seed, *us, *rate)));
    }
    all
}

fn set(name: &str) -> Conditions {
    Conditions { incumbent: Some(name.to_owned()), ..Conditions::default() }
}

fn verdict_of(runs: &[RunResult]) -> Verdict {
    rank_under(runs, Goal::Balanced, &set("alpha"))[0].verdict.clone()
}

/// Three runs of two schedulers of the same throughput.
fn of_two(a: [f64; 3], b: [f64; 3]) -> Verdict {
    let with_rate = |us: [f64; 3]| us.map(|us| (us, 100.0)).to_vec();
    verdict_of(&runs_of(&vec![with_rate(a), with_rate(b)]))
}

#[test]
fn among_equals_what_is_set_is_kept_and_nothing_is_to_be_typed() {
    let verdict = of_two([1000.0, 1001.0, 999.0], [1010.0, 1011.0, 1009.0]);
    assert_eq!((verdict.decision, verdict.confidence), (Decision::Keep, Confidence::Clear), "{verdict:?}");
    assert!(verdict.sentence().starts_with("Keep alpha: nothing else is better by a useful amount (5.0 %)"));
    assert!(verdict.apply.is_empty() && verdict.undo.is_empty() && verdict.recommended.is_none());
    // The same by every figure, whatever its name comes before.
    let verdict = of_two([1000.0, 1001.0, 999.0], [1000.0, 1001.0, 999.0]);
    assert!(verdict.because.ends_with("beta does the same here"), "{}", verdict.because);
    assert_eq!(verdict.confidence, Confidence::Clear);
}

#[test]
fn a_useful_gain_that_is_not_chance_is_a_change() {
    let verdict = of_two([1200.0, 1202.0, 1198.0], [1000.0, 1001.0, 999.0]);
    assert_eq!((verdict.decision, verdict.confidence), (Decision::Change, Confidence::Clear));
    assert_eq!(verdict.recommended.as_deref(), Some("beta"));
    let text = verdict.sentence();
    assert!(
        text.starts_with(
            "Change alpha to beta: p99 of reads 1.00 ms in place of 1.20 ms (-17 %), mean -17 %, throughput +0.0 %"
        ),
        "{text}"
    );
    assert!(verdict.certainty.starts_with("at least "), "{}", verdict.certainty);
}

#[test]
fn noise_that_may_hide_a_gain_is_said_and_claims_nothing() {
    let verdict = of_two([600.0, 1400.0, 900.0], [1300.0, 700.0, 1500.0]);
    assert_eq!((verdict.decision, verdict.confidence), (Decision::Keep, Confidence::Open));
    assert!(verdict.because.contains("may be gained with beta, but 3 runs do not show it"), "{}", verdict.because);
    assert!(!verdict.is_settled(0.05) && verdict.more_runs_help);
}

#[test]
fn a_trade_is_shown_with_the_rate_at_which_the_answer_turns() {
    let runs = runs_of(&vec![
        vec![(2020.0, 47.2), (2021.0, 47.3), (2019.0, 47.1)],
        vec![(144.0, 40.1), (145.0, 40.2), (143.0, 40.0)],
        vec![(171.0, 7.2), (172.0, 7.21), (170.0, 7.19)],
    ]);
    let verdict = verdict_of(&runs);
    assert_eq!(
        (verdict.decision, verdict.recommended.as_deref()),
        (Decision::Change, Some("beta")),
        "{}",
        verdict.sentence()
    );
    assert!(verdict.because.contains("keep alpha if it is worth less than"), "{}", verdict.because);
    // Nearly all of the throughput is no price for it, at this rate.
    let gamma =
        verdict.trades.iter().find(|line| line.starts_with("gamma")).expect("a trade that is not taken is shown");
    assert!(gamma.contains("throughput -85 %"), "{gamma}");
    let without: Vec<RunResult> = runs.iter().filter(|run| run.scheduler != "beta").cloned().collect();
    let verdict = verdict_of(&without);
    assert_eq!(verdict.decision, Decision::Keep);
    assert!(
        verdict.trades[0].starts_with(
            "gamma: p99 of reads 171 us in place of 2.02 ms (-92 %), mean -92 %, throughput -85 %: take it if"
        ),
        "{:?}",
        verdict.trades
    );
    assert!(verdict.trades[0].contains("half the latency is worth more than 4"), "{:?}", verdict.trades);
    let conditions = Conditions { rate: Some(0.6), ..set("alpha") };
    assert_eq!(rank_under(&without, Goal::Balanced, &conditions)[0].verdict.decision, Decision::Change);
}

#[test]
fn a_busy_machine_changes_nothing_and_is_said_first() {
    let conditions = Conditions { busy: Some((7.5, 2.0)), ..set("alpha") };
    let runs = runs_of(&vec![vec![(900.0, 90.0); 3], vec![(100.0, 90.0); 3]]);
    let verdict = &rank_under(&runs, Goal::Balanced, &conditions)[0].verdict;
    assert_eq!((verdict.decision, verdict.confidence, &verdict.recommended), (Decision::Keep, Confidence::Open, &None));
    assert!(verdict.because.starts_with("the machine was busy"), "{}", verdict.because);
}

#[test]
fn the_simulators_own_error_caps_how_sure_a_change_is() {
    let runs = runs_of(&vec![
        vec![(1200.0, 90.0), (1201.0, 90.0), (1199.0, 90.0)],
        vec![(1000.0, 90.0), (1001.0, 90.0), (999.0, 90.0)],
    ]);
    let of = |runs: &[RunResult], class: Option<DriveClass>| {
        let drive_classes = class.map(|class| ("d".to_owned(), class)).into_iter().collect();
        rank_under(runs, Goal::Balanced, &Conditions { drive_classes, ..set("alpha") })[0].verdict.clone()
    };
    let (anywhere, on_flash) = (of(&runs, None), of(&runs, Some(DriveClass::Flash)));
    assert_eq!((anywhere.confidence, anywhere.model_error, anywhere.load_kind), (Confidence::Clear, None, None));
    assert_eq!((on_flash.decision, on_flash.confidence), (Decision::Change, Confidence::Likely));
    assert_eq!(on_flash.load_kind, Some(LoadKind::ReadsOfOneDrive));
    assert!(on_flash.model_error.unwrap() > on_flash.gain.unwrap()[0], "{on_flash:?}");
    let said = &on_flash.caveats[0];
    assert!(said.starts_with("on real flash drives differences under reads alone were off by up to"), "{said}");
    assert!(on_flash.weakened_by == 1 && !on_flash.more_runs_help, "more runs say nothing of the simulator");
    // One who reads beside a flood of writes, and jobs of one tenant beside each other.
    let changed = |change: fn(&mut RunResult)| {
        let mut runs = runs.clone();
        runs.iter_mut().for_each(change);
        of(&runs, Some(DriveClass::Flash)).load_kind
    };
    let flood = changed(|run| (run.read.count, run.write.count) = (500, 1_000_000));
    assert_eq!(flood, Some(LoadKind::ReadsBesideWrites));
    let writes = changed(|run| (run.read.count, run.write.count) = (5, 1_000_000));
    assert_eq!(writes, Some(LoadKind::Writes));
    fn with_jobs(run: &mut RunResult, names: [&str; 3]) {
        let of_tenant = run.tenants[0].clone();
        let job = |name: &str| dumbwaiter_measure::TaskStats {
            name: name.into(),
            tenant: of_tenant.name.clone(),
            count: 100,
            reads: if name == "log" { 0 } else { 100 },
            iops: of_tenant.iops,
            mb_per_s: of_tenant.mb_per_s,
            latency_us: of_tenant.latency_us.clone(),
        };
        run.tasks = names.map(job).into();
    }
    let jobs = changed(|run| with_jobs(run, ["reads.0", "reads.1", "other"]));
    assert_eq!(jobs, Some(LoadKind::ReadsBesideReads));
    let log = changed(|run| with_jobs(run, ["reads.0", "reads.1", "log"]));
    assert_eq!(log, Some(LoadKind::ReadsOfOneDrive), "a job that writes little reads beside nobody");
    // What is larger than the error is as clear as before; what was never measured says so.
    let far = runs_of(&vec![vec![(9000.0, 90.0), (9001.0, 90.0), (8999.0, 90.0)], vec![(100.0, 90.0); 3]]);
    let on_flash = of(&far, Some(DriveClass::Flash));
    assert_eq!((on_flash.confidence, on_flash.weakened_by), (Confidence::Clear, 0), "{:?}", on_flash.caveats);
    let on_a_volume = of(&far, Some(DriveClass::Volume));
    assert_eq!((on_a_volume.confidence, on_a_volume.model_error), (Confidence::Clear, None));
    assert!(on_a_volume.caveats[0].ends_with("on real volumes are off was not measured"), "{:?}", on_a_volume.caveats);
}

fn with_writer(mut run: RunResult, start_up: dumbwaiter_measure::StartUpStats) -> RunResult {
    run.applications.push(dumbwaiter_measure::ApplicationStats {
        name: "writer".into(),
        tenant: "default".into(),
        kind: "writer".into(),
        start_up: Some(start_up),
        player: None,
    });
    run
}

#[test]
fn an_application_that_did_not_begin_makes_the_runs_too_short() {
    use dumbwaiter_measure::StartUpStats;
    let runs = runs_of(&vec![vec![(100.0, 90.0); 3], vec![(900.0, 90.0); 3]]);
    let runs: Vec<RunResult> =
        runs.into_iter().map(|run| with_writer(run, StartUpStats::new(vec![], 0, vec![], 10.0))).collect();
    let verdict = verdict_of(&runs);
    assert_eq!((verdict.decision, &verdict.recommended), (Decision::TooShort, &None));
    assert!(verdict.because.starts_with("writer did not begin in the measured time"), "{}", verdict.because);
    assert!(verdict.next.as_deref().is_some_and(|next| next.starts_with("--duration 60s")), "{:?}", verdict.next);
    // Where throughput was asked for, it is not missed.
    let verdict = &rank_under(&runs, Goal::Throughput, &set("alpha"))[0].verdict;
    assert!(!verdict.because.contains("writer"), "{}", verdict.because);
}

#[test]
fn one_that_started_an_application_is_preferred_to_one_that_did_not() {
    use dumbwaiter_measure::StartUpStats;
    let template = template(1200);
    let mut runs = Vec::new();
    for seed in 0..2 {
        // The one with the better latency and throughput never started it.
        let never = StartUpStats::new(vec![], 2, vec![], 10.0);
        let started = StartUpStats::new(vec![4.1, 4.2 + seed as f64 / 100.0], 0, vec![], 10.0);
        let slow = RunResult { duration_s: 30.0, ..run(&template, "cfq", seed, 50.0, 100.0) };
        runs.push(with_writer(slow, never));
        runs.push(with_writer(run(&template, "bfq", seed, 500.0, 95.0), started));
    }
    let verdict = &rank_under(&runs, Goal::Balanced, &set("cfq"))[0].verdict;
    assert_eq!(verdict.recommended.as_deref(), Some("bfq"), "{}", verdict.sentence());
    assert_eq!(verdict.decided_by, "start_up_s");
    let sentence = verdict.sentence();
    assert!(sentence.contains("start-up 4.15 s in place of") && !sentence.contains("-100 %"), "{sentence}");
    let verdict = &rank_under(&runs, Goal::Balanced, &set("bfq"))[0].verdict;
    assert_eq!(verdict.decision, Decision::Keep, "{}", verdict.sentence());
}

#[test]
fn a_few_requests_are_too_short_to_tell() {
    let template = template(4);
    let runs: Vec<RunResult> = [("alpha", 900.0), ("beta", 300.0)]
        .into_iter()
        .flat_map(|(name, us)| (0..3).map(move |seed| (name, us, seed)))
        .map(|(name, us, seed)| run(&template, name, seed, us + seed as f64, 90.0))
        .collect();
    let verdict = verdict_of(&runs);
    assert_eq!(verdict.decision, Decision::TooShort, "{}", verdict.sentence());
    assert!(verdict.because.starts_with("only 4 requests of reads in a run"), "{}", verdict.because);
    assert!(verdict.next.as_deref().is_some_and(|next| next.contains("--duration 50s")), "{:?}", verdict.next);
}

#[test]
fn a_class_that_is_too_short_asks_for_what_its_slowest_model_needs() {
    let on = |device: &str, reads: u64| {
        let template = template(reads);
        let each =
            [("alpha", 900.0), ("beta", 300.0)].into_iter().flat_map(|(name, us)| (0..3).map(move |s| (name, us, s)));
        let mut runs: Vec<RunResult> =
            each.map(|(name, us, seed)| run(&template, name, seed, us + seed as f64, 90.0)).collect();
        runs.iter_mut().for_each(|run| run.device = device.to_owned());
        crate::rank(&runs, Goal::Balanced).remove(0)
    };
    let rankings = [on("one", 8), on("two", 2), on("three", 4)];
    // For 200 requests, in steps of 5 s up to a minute, then of 30 s.
    assert_eq!([0, 1, 2].map(|i: usize| rankings[i].verdict.enough_s), [25.0, 120.0, 50.0].map(Some));
    let models: Vec<String> = rankings.iter().map(|ranking| ranking.device.clone()).collect();
    let (_, class) = crate::class_verdict::verdicts("hdd", &models, &rankings).remove(0);
    assert_eq!((class.decision, class.enough_s), (Decision::TooShort, Some(120.0)));
    assert_eq!(class.next.as_deref(), Some("--duration 120s would do"));
    assert!(class.because.starts_with("two: only 2 requests"), "{}", class.because);
}

#[test]
fn a_row_says_in_how_much_of_a_run_bfq_raised_tasks_that_had_begun() {
    use dumbwaiter_measure::TaskStats;
    let mut runs = runs_of(&vec![vec![(100.0, 1.0), (101.0, 1.0)], vec![(60.0, 1.0), (61.0, 1.0)]]);
    for run in &mut runs {
        let (name, tenant, latency_us) = ("t".to_owned(), String::new(), run.latency_us.clone());
        let task = TaskStats { name, tenant, count: 1, reads: 1, iops: 1.0, mb_per_s: 1.0, latency_us };
        (run.duration_s, run.tasks) = (10.0, vec![task.clone(), task]);
        let raised = [("raises_interactive", 2.0), ("raise_length_ms", 6000.0)].map(|(k, v)| (k.to_owned(), v));
        if run.scheduler == NAMES[1] {
            run.scheduler_counters = raised.into_iter().collect();
        }
    }
    let ranking = crate::rank(&runs, Goal::Balanced).remove(0);
    let raised = |name: &str| ranking.rows.iter().find(|row| row.scheduler == name).unwrap().raised_s;
    assert_eq!((raised(NAMES[0]), raised(NAMES[1])), (0.0, 6.0));
}

#[test]
fn an_idle_drive_has_no_winner() {
    use dumbwaiter_measure::DepthShare;
    let mut runs = runs_of(&vec![vec![(100.0, 1.0), (101.0, 1.0)], vec![(108.0, 1.0), (109.0, 1.0)]]);
    for run in &mut runs {
        run.depth.device.mean = 0.002;
        run.depth.scheduler.mean = 0.0;
        run.depth.device.distribution =
            vec![DepthShare { from: 0, to: 0, share: 0.998 }, DepthShare { from: 1, to: 1, share: 0.002 }];
        (run.same_load, run.world) = (true, "sim".into());
    }
    let verdict = verdict_of(&runs);
    assert_eq!((verdict.decision, &verdict.recommended), (Decision::Keep, &None));
    let text = verdict.sentence();
    assert!(text.contains("the drive was 0.2 % busy; try --depth N or --closed-per-task"), "{text}");
}

#[test]
fn one_lucky_run_decides_nothing() {
    // A throughput of one run that no other reaches.
    let runs =
        runs_of(&vec![vec![(100.0, 9.0), (100.0, 9.1), (100.0, 8.9)], vec![(100.0, 4.0), (100.0, 19.0), (100.0, 4.1)]]);
    let verdict = verdict_of(&runs);
    assert_eq!((verdict.decision, verdict.recommended), (Decision::Keep, None));
}

#[test]
fn a_lower_bound_of_what_is_set_is_no_reason_to_keep_it_and_one_of_an_alternative_is() {
    let waiting = |results: &Results, name: &str| {
        let mut runs = runs_of(results);
        for run in runs.iter_mut().filter(|run| run.scheduler == name) {
            run.latency_us.known_to = 0.98;
            run.read.latency_us.known_to = 0.98;
        }
        verdict_of(&runs)
    };
    let of = |us: f64| vec![(us, 100.0), (us + 1.0, 100.1), (us - 1.0, 99.9)];
    let verdict = waiting(&vec![of(900.0), of(300.0)], "alpha");
    assert_eq!(verdict.decision, Decision::Change, "{}", verdict.sentence());
    assert!(verdict.because.contains("in place of at least 900 us"), "{}", verdict.because);
    assert!(verdict.caveats[0].contains("so that its latency is a lower bound"), "{:?}", verdict.caveats);
    let verdict = waiting(&vec![of(900.0), of(300.0)], "beta");
    assert_ne!(verdict.decision, Decision::Change, "{}", verdict.sentence());
}

#[test]
fn what_starves_another_tenant_is_named_in_the_first_line() {
    let mut runs = runs_of(&vec![vec![(900.0, 100.0); 3], vec![(100.0, 99.0); 3]]);
    for (i, run) in runs.iter_mut().enumerate() {
        let first = run.tenants[0].clone();
        let rate = if run.scheduler == "alpha" { 50.0 } else { 1.0 };
        run.tenants.push(dumbwaiter_measure::TenantStats {
            name: "backup".into(),
            mb_per_s: rate,
            share: 0.5,
            ..first
        });
        run.tenants.iter_mut().for_each(|tenant| tenant.ideal_share = 0.5);
        run.mb_per_s += i as f64 / 1000.0;
    }
    let verdict = verdict_of(&runs);
    assert!(verdict.headline.ends_with("to beta, which starves backup"), "{}", verdict.headline);
}

/// The p99 falls and the mean rises: what the time is spent on is said of the mean.
#[test]
fn a_larger_mean_beside_a_smaller_p99_is_called_that() {
    let of = |name: &str, mean: f64, p99: f64, in_scheduler: f64, seed: u64| {
        let mut run = run(&template(1200), name, seed, mean + seed as f64, 100.0);
        let mut parts = run.read.time_parts_us.expect("the reads are known");
        (parts.cpu, parts.lock, parts.tag, parts.controller, parts.before_insert, parts.idling) = Default::default();
        (parts.beside_writes, parts.completion, parts.unfinished) = Default::default();
        (parts.scheduler, parts.device) = (in_scheduler, mean - in_scheduler);
        for all in [&mut run.read.time_parts_us, &mut run.time_parts_us] {
            *all = Some(parts);
        }
        for latency in [&mut run.read.latency_us, &mut run.latency_us] {
            latency.p99 = p99 + seed as f64;
        }
        run
    };
    let why = |alpha: (f64, f64, f64), beta: (f64, f64, f64)| {
        let both = [("alpha", alpha), ("beta", beta)];
        let each = (0..3).flat_map(|seed| both.map(|(name, (mean, p99, wait))| of(name, mean, p99, wait, seed)));
        verdict_of(&each.collect::<Vec<_>>()).why.join("\n")
    };
    let said = why((588.0, 1380.0, 12.0), (727.0, 1020.0, 385.0));
    assert!(said.starts_with("beta is slower on average: 53 % of the time is spent in the"), "{said}");
    let said = why((727.0, 1900.0, 385.0), (588.0, 1380.0, 12.0));
    assert!(said.starts_with("alpha is slower: 53 % of the time is spent in the"), "{said}");
}
