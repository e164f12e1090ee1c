//! Claims of verdicts against random results, computed again from the runs.

use std::collections::BTreeMap;

use dumbwaiter_measure::RunResult;
use proptest::prelude::*;

use super::*;
use crate::test_runs::template;
use crate::{Conditions, Goal, Metric, Offered, rank_under};

const NAMES: [&str; 5] = ["alpha", "beta", "gamma", "delta", "omega"];

fn run(template: &RunResult, name: &str, seed: u64, p99_us: f64, mb_per_s: f64) -> RunResult {
    let mut run = template.clone();
    (run.scheduler, run.seed, run.mb_per_s) = (name.to_owned(), seed, mb_per_s);
    run.read.latency_us.p99 = p99_us;
    run.latency_us.p99 = p99_us;
    run
}

/// Per scheduler the p99 and the throughput of each run.
type Results = Vec<Vec<(f64, f64)>>;

fn runs_of(results: &Results) -> Vec<RunResult> {
    let template = template(1200);
    let mut all = Vec::new();
    for (name, runs) in NAMES.iter().zip(results) {
        all.extend((0..).zip(runs).map(|(seed, (p99, rate))| run(&template, name, seed, *p99, *rate)));
    }
    all
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().sum::<f64>() / values.count() as f64
}

/// Results: equal means or different ones, little noise or much, one run or several.
fn results() -> impl Strategy<Value = Results> {
    (2usize..=5, 1usize..=6, 0.0..0.4f64, any::<bool>()).prop_flat_map(|(schedulers, runs, noise, equal)| {
        let one = (200.0..4000.0f64, 60.0..100.0f64);
        (
            prop::collection::vec(one, schedulers),
            prop::collection::vec(prop::collection::vec((-1.0..1.0f64, -1.0..1.0f64), runs), schedulers),
        )
            .prop_map(move |(means, noises)| {
                let first = means[0];
                let of = |((p99, rate), noises): ((f64, f64), Vec<(f64, f64)>)| {
                    let (p99, rate) = if equal { first } else { (p99, rate) };
                    noises.iter().map(|(a, b)| (p99 * (1.0 + noise * a), rate * (1.0 + 0.05 * noise * b))).collect()
                };
                means.into_iter().zip(noises).map(of).collect()
            })
    })
}

/// Figures read off the results without any test.
struct Truth {
    p99: BTreeMap<&'static str, f64>,
    rate: BTreeMap<&'static str, f64>,
    /// Those that can be set and keep 90 % of the best throughput of those.
    pool: Vec<&'static str>,
}

fn truth(results: &Results, offered: &[&str]) -> Truth {
    let of = |get: fn(&(f64, f64)) -> f64| {
        NAMES.iter().zip(results).map(|(name, runs)| (*name, mean(runs.iter().map(get)))).collect::<BTreeMap<_, _>>()
    };
    let (p99, rate) = (of(|r| r.0), of(|r| r.1));
    let mut entrants: Vec<&str> = rate.keys().copied().filter(|name| offered.contains(name)).collect();
    if entrants.len() < 2 {
        entrants = rate.keys().copied().collect();
    }
    let most = entrants.iter().map(|name| rate[name]).fold(0.0, f64::max);
    let pool = entrants.into_iter().filter(|name| rate[name] >= 0.9 * most).collect();
    Truth { p99, rate, pool }
}

/// Every `NAME VALUE` in the text has the scheduler's true mean.
fn check_figures(text: &str, metric: Metric, of: &BTreeMap<&str, f64>) -> Result<(), TestCaseError> {
    for (name, value) in of {
        for (at, _) in text.match_indices(name) {
            let after = text[at + name.len()..].trim_start();
            if after.starts_with(|c: char| c.is_ascii_digit()) {
                prop_assert!(after.starts_with(&metric.shown(*value)), "{name} is {}: {text}", metric.shown(*value));
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_claim_of_a_sentence_is_true(results in results(), offered in 0usize..=5) {
        let offered = &NAMES[..offered];
        let conditions = Conditions { offered: Offered::These(offered.iter().map(|n| (*n).to_owned()).collect()), ..Conditions::default() };
        let runs = runs_of(&results);
        let ranking = &rank_under(&runs, Goal::Balanced, &conditions)[0];
        let (verdict, truth) = (&ranking.verdict, truth(&results, offered));
        let text = verdict.sentence();
        let single = results[0].len() == 1;

        // The pool is what the sentence says, and the recommended one is in it and can be set.
        let mut pool: Vec<&str> = verdict.pool.iter().map(String::as_str).collect();
        pool.sort_unstable();
        let mut expected = truth.pool.clone();
        expected.sort_unstable();
        prop_assert_eq!(&pool, &expected);
        if let Some(name) = &verdict.recommended {
            prop_assert!(offered.contains(&name.as_str()) && pool.contains(&name.as_str()), "{}", text);
            prop_assert!(text.contains(&format!("se {name}: ")), "{}", text);
        } else {
            prop_assert!(!text.contains("se alpha: ") && verdict.apply.is_empty(), "{}", text);
        }
        let by_rate = verdict.decided_by == Metric::MbPerS.key();
        let (metric, figures) = if by_rate { (Metric::MbPerS, &truth.rate) } else { (Metric::FocusP99, &truth.p99) };

        // Superlatives.
        let value = |name: &str| figures[name];
        let best = *truth.pool.iter().reduce(|a, b| if metric.better(value(b), value(a)) { b } else { a }).unwrap();
        if let (Some(name), true) = (&verdict.recommended, text.contains(": it has the ")) {
            prop_assert!(!metric.better(value(best), value(name)), "{} is better: {}", best, text);
            prop_assert!(text.contains(&format!(": {}", metric.shown(value(name)))), "{}", text);
        }
        if let Some(at) = text.find(" has the ").filter(|_| verdict.recommended.is_none()) {
            prop_assert!(text[..at].ends_with(best), "{} is the best: {}", best, text);
        }

        // Figures, in the sentence up to what is ruled out by its throughput.
        check_figures(text.split(" is ruled out").next().unwrap(), metric, figures)?;
        for name in NAMES.iter().take(results.len()) {
            let Some(at) = text.find(&format!("{name} is ruled out at ")) else { continue };
            let most = truth.pool.iter().map(|n| truth.rate[n]).fold(0.0, f64::max);
            let part = (100.0 * truth.rate[name] / most).floor();
            prop_assert!(text[at..].contains(&format!("at {part:.0} % of the best")) && part < 90.0, "{}", text);
        }

        // Nothing of chance from one run, and nothing sure.
        if single {
            prop_assert!(!text.contains("significant") && verdict.confidence != Confidence::Clear, "{}", text);
        }
        // A range has every figure of the pool.
        if verdict.confidence == Confidence::NoDifference {
            let (low, high) = truth.pool.iter().fold((f64::INFINITY, 0.0f64), |(l, h), n| (l.min(value(n)), h.max(value(n))));
            prop_assert!(text.contains(&metric.shown(low)) && text.contains(&metric.shown(high)), "{}", text);
        }
        // Of those that are called worse each mean is; of ties none is beyond its bound.
        if let (Some(name), Some(by)) = (&verdict.recommended, verdict.may_be_better_by) {
            let beaten = pool.iter().filter(|n| **n != name && !verdict.ties.iter().any(|t| t == *n));
            let primary = |n: &str| truth.p99[n];
            for other in beaten {
                prop_assert!(metric.better(value(name), value(other)) || primary(other) > primary(name), "{} {}", other, text);
            }
            for tie in &verdict.ties {
                prop_assert!(Metric::FocusP99.worse_by(primary(name), primary(tie)) <= (by + 1e-4) / (1.0 - by).max(1e-3), "{} {}", tie, text);
            }
            prop_assert!(by <= 0.15 + 1e-4, "{}", text);
        }
    }
}

/// Runs of two schedulers, three each.
fn of_two(a: [f64; 3], b: [f64; 3]) -> Verdict {
    let with_rate = |p99: [f64; 3]| p99.map(|p99| (p99, 100.0)).to_vec();
    rank_under(&runs_of(&vec![with_rate(a), with_rate(b)]), Goal::Balanced, &Conditions::default())[0].verdict.clone()
}

#[test]
fn small_differences_are_no_practical_difference_however_sure() {
    let verdict = of_two([1000.0, 1001.0, 999.0], [1015.0, 1016.0, 1014.0]);
    assert_eq!((verdict.confidence, &verdict.recommended), (Confidence::NoDifference, &None));
    assert!(verdict.sentence().starts_with("Keep what is set: no practical difference"), "{}", verdict.sentence());
    let verdict = of_two([1000.0, 1001.0, 999.0], [1200.0, 1202.0, 1198.0]);
    assert_eq!((verdict.confidence, verdict.recommended.as_deref()), (Confidence::Clear, Some("alpha")));
    // Noise hides what there may be: that is said.
    let verdict = of_two([900.0, 1100.0, 1000.0], [1000.0, 950.0, 1150.0]);
    assert_eq!((verdict.confidence, &verdict.recommended), (Confidence::NoDifference, &None));
    assert!(verdict.certainty.contains("cannot exclude one of up to"), "{}", verdict.certainty);
    assert!(verdict.because.starts_with("these runs show no difference"), "{}", verdict.because);
    assert!(!verdict.is_settled(0.05));
    // Means of which one is over twice the other do not show that there is none, even if chance explains them.
    let verdict = of_two([200.0, 240.0, 160.0], [300.0, 190.0, 900.0]);
    assert_eq!((verdict.confidence, &verdict.recommended), (Confidence::Inconclusive, &None), "{}", verdict.sentence());
    // Where it hides everything, nothing can be said.
    let verdict = of_two([600.0, 1400.0, 900.0], [1300.0, 700.0, 1500.0]);
    assert_eq!(verdict.confidence, Confidence::Inconclusive);
    assert!(verdict.because.contains("add --until 5%"), "{}", verdict.because);
}

#[test]
fn a_busy_machine_makes_every_verdict_inconclusive_and_is_said_first() {
    let conditions = Conditions { busy: Some((7.5, 2.0)), ..Conditions::default() };
    let runs = runs_of(&vec![vec![(100.0, 90.0); 3], vec![(900.0, 90.0); 3]]);
    let verdict = &rank_under(&runs, Goal::Balanced, &conditions)[0].verdict;
    assert_eq!((verdict.confidence, &verdict.recommended), (Confidence::Inconclusive, &None));
    assert!(verdict.because.starts_with("the machine was busy"), "{}", verdict.because);
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
fn an_application_that_did_not_begin_leaves_the_verdict_open() {
    use dumbwaiter_measure::StartUpStats;
    let runs = runs_of(&vec![vec![(100.0, 90.0); 3], vec![(900.0, 90.0); 3]]);
    let runs: Vec<RunResult> =
        runs.into_iter().map(|run| with_writer(run, StartUpStats::new(vec![], 0, vec![], 10.0))).collect();
    let verdict = &rank_under(&runs, Goal::Balanced, &Conditions::default())[0].verdict;
    assert_eq!((verdict.confidence, &verdict.recommended), (Confidence::Inconclusive, &None));
    assert!(verdict.because.starts_with("writer did not begin in the measured time"), "{}", verdict.because);
    // Where throughput was asked for, it is not missed.
    let verdict = &rank_under(&runs, Goal::Throughput, &Conditions::default())[0].verdict;
    assert!(!verdict.because.contains("writer"), "{}", verdict.because);
}

#[test]
fn one_that_started_an_application_is_preferred_to_one_that_did_not() {
    use dumbwaiter_measure::StartUpStats;
    let template = template(1200);
    let mut runs = Vec::new();
    for seed in 0..2 {
        // The one with the better p99 and throughput never started it.
        let never = StartUpStats::new(vec![], 2, vec![], 10.0);
        let started = StartUpStats::new(vec![4.1, 4.2 + seed as f64 / 100.0], 0, vec![], 10.0);
        runs.push(with_writer(run(&template, "cfq", seed, 50.0, 100.0), never));
        runs.push(with_writer(run(&template, "bfq", seed, 500.0, 95.0), started));
    }
    let conditions = Conditions { offered: Offered::These(vec!["bfq".into()]), ..Conditions::default() };
    for conditions in [Conditions::default(), conditions] {
        let verdict = &rank_under(&runs, Goal::Balanced, &conditions)[0].verdict;
        assert_eq!(verdict.recommended.as_deref(), Some("bfq"), "{}", verdict.sentence());
        assert_eq!(verdict.decided_by, "start_up_s");
        assert!(verdict.because.contains("cfq started 0 of 4 launches"), "{}", verdict.because);
    }
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
    let verdict = &rank_under(&runs, Goal::Balanced, &Conditions::default())[0].verdict;
    assert_eq!((verdict.confidence, &verdict.recommended), (Confidence::NoDifference, &None));
    let text = verdict.sentence();
    assert!(
        text.contains(
            "the drive was 0.2 % busy: the scheduler makes no difference; try --depth N or --closed-per-task"
        ),
        "{text}"
    );
}

#[test]
fn a_throughput_that_varies_rules_nothing_out() {
    // Alpha's mean is the higher by one of its two runs; the p99 of all are equal.
    let mut runs = runs_of(&vec![vec![(100.0, 40.0), (100.0, 100.0)], vec![(100.0, 42.0), (100.0, 43.0)]]);
    let verdict = &rank_under(&runs, Goal::Balanced, &Conditions::default())[0].verdict;
    assert_eq!((verdict.confidence, &verdict.recommended), (Confidence::Inconclusive, &None));
    assert!(verdict.sentence().contains("only alpha keeps at least 90 % of the best"), "{}", verdict.sentence());
    assert!(verdict.more_runs_help);
    // The better p99 is named, not the throughput, of which only one has enough.
    runs = runs_of(&vec![vec![(100.0, 40.0), (100.0, 100.0)], vec![(50.0, 42.0), (50.0, 43.0)]]);
    let verdict = &rank_under(&runs, Goal::Balanced, &Conditions::default())[0].verdict;
    let said = "beta has a better p99 latency of reads (50.0 us) than alpha (100 us)";
    assert!(verdict.because.starts_with(said), "{}", verdict.because);
    // One that is surely slow is out.
    runs = runs_of(&vec![vec![(100.0, 99.0), (100.0, 100.0)], vec![(100.0, 42.0), (100.0, 43.0)]]);
    let verdict = &rank_under(&runs, Goal::Balanced, &Conditions::default())[0].verdict;
    assert_eq!(verdict.recommended.as_deref(), Some("alpha"), "{}", verdict.sentence());
}

/// Three runs of each, in the first of which this part of one scheduler's reads is left waiting.
fn with_one_unknown(results: &Results, name: &str, unknown: f64) -> Verdict {
    let mut runs = runs_of(results);
    let first = runs.iter_mut().find(|run| run.scheduler == name).unwrap();
    first.latency_us.known_to = 1.0 - unknown;
    first.read.latency_us.known_to = 1.0 - unknown;
    rank_under(&runs, Goal::Balanced, &Conditions::default())[0].verdict.clone()
}

#[test]
fn a_throughput_that_left_the_focus_waiting_rules_out_none_that_is_better() {
    let of = |p99: f64, rate: f64| vec![(p99, rate), (p99 + 1.0, rate + 0.1), (p99 - 1.0, rate - 0.1)];
    let results = vec![of(300.0, 100.0), of(200.0, 85.0), of(400.0, 84.0)];
    let verdict = with_one_unknown(&results, "alpha", 0.0);
    assert_eq!((verdict.recommended.as_deref(), &verdict.pool[..]), (Some("alpha"), &["alpha".to_owned()][..]));
    let verdict = with_one_unknown(&results, "alpha", 0.002);
    assert_eq!((verdict.confidence, &verdict.recommended), (Confidence::Inconclusive, &None), "{}", verdict.sentence());
    assert!(verdict.because.starts_with("beta has a better p99 latency of reads (200 us) than alpha (300 us)"));
    assert!(verdict.because.contains("0.2 % of the I/Os of reads were left waiting"), "{}", verdict.because);
    assert!(verdict.more_runs_help);
    // One that is no better stays out; the leader is only likely, and the reader learns why.
    let results = vec![of(300.0, 100.0), of(300.0, 85.0), of(400.0, 84.0)];
    let verdict = with_one_unknown(&results, "alpha", 0.007);
    assert_eq!((verdict.recommended.as_deref(), verdict.confidence), (Some("alpha"), Confidence::Likely));
    assert!(verdict.caveats[0].contains("1 % would rule it out"), "{:?}", verdict.caveats);
    // So does one that the floor of the others rules out too.
    let results = vec![of(300.0, 100.0), of(200.0, 70.0), of(400.0, 84.0)];
    assert_eq!(with_one_unknown(&results, "alpha", 0.007).recommended.as_deref(), Some("alpha"));
}

/// Runs of which more was unfinished at the end than the p99 leaves out.
fn unfinished(results: &Results) -> Vec<RunResult> {
    let mut runs = runs_of(results);
    for run in &mut runs {
        run.latency_us.known_to = 0.8;
        run.read.latency_us.known_to = 0.8;
    }
    runs
}

#[test]
fn lower_bounds_decide_nothing() {
    // Equal but for the length of the run, which is all that the figures show.
    let runs = unfinished(&vec![vec![(100.0, 40.0), (100.0, 40.0), (100.0, 40.1)]; 2]);
    let verdict = &rank_under(&runs, Goal::Balanced, &Conditions::default())[0].verdict;
    assert_eq!((verdict.confidence, &verdict.recommended), (Confidence::Inconclusive, &None));
    assert!(verdict.because.contains("only a lower bound of the p99 latency of reads is known"), "{}", verdict.because);
    // The throughput is known, and may decide: not clearly, since it is not what was asked for.
    let runs = unfinished(&vec![vec![(100.0, 40.0); 3], vec![(90.0, 20.0), (90.0, 20.1), (90.0, 19.9)]]);
    let verdict = &rank_under(&runs, Goal::Balanced, &Conditions::default())[0].verdict;
    assert_eq!((verdict.recommended.as_deref(), verdict.confidence), (Some("alpha"), Confidence::Likely));
    assert_eq!(verdict.decided_by, "mb_per_s");
    assert!(verdict.caveats[0].contains("only a lower bound is known"), "{:?}", verdict.caveats);
}

#[test]
fn equal_runs_are_no_lack_of_runs() {
    // Alpha gives the same result each time, beta does not.
    let mut runs = runs_of(&vec![vec![(870.0, 100.0); 3], vec![(4149.0, 100.0), (4118.0, 100.1), (4149.0, 100.2)]]);
    let verdict = &rank_under(&runs, Goal::Balanced, &Conditions::default())[0].verdict;
    assert_eq!((verdict.recommended.as_deref(), verdict.confidence), (Some("alpha"), Confidence::Clear));
    // A missing run is.
    runs.remove(2);
    let verdict = &rank_under(&runs, Goal::Balanced, &Conditions::default())[0].verdict;
    assert_eq!(verdict.pool, ["beta"], "{}", verdict.sentence());
}
