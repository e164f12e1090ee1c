//! Properties of the rule: what changes it and what must not, and how often it may be wrong.

use proptest::prelude::*;

use super::estimate::{Grounds, against};
use super::objective::{Blend, Judged};
use super::{HARMFUL, USEFUL_GAIN};
use crate::test_runs::template;
use crate::{Conditions, Decision, Goal, Ranking, rank_under};
use dumbwaiter_measure::RunResult;

/// Figures of a run: mean, p95 and p99, us, and MB/s.
type Figures = (f64, f64);

fn run(template: &RunResult, name: &str, seed: u64, (us, rate): Figures) -> RunResult {
    let mut run = template.clone();
    (run.scheduler, run.seed, run.mb_per_s) = (name.to_owned(), seed, rate);
    for latency in [&mut run.read.latency_us, &mut run.latency_us] {
        (latency.mean, latency.p95, latency.p99) = (us, 2.0 * us, 3.0 * us);
    }
    run
}

/// Schedulers and their runs; the first is what is set.
type Results = Vec<(String, Vec<Figures>)>;

fn runs_of(results: &Results) -> Vec<RunResult> {
    let template = template(1200);
    let one = |(name, runs): &(String, Vec<Figures>)| {
        (0..).zip(runs).map(|(seed, figures)| run(&template, name, seed, *figures)).collect::<Vec<_>>()
    };
    results.iter().flat_map(one).collect()
}

fn ranked(runs: &[RunResult], set: &str) -> Ranking {
    let conditions = Conditions { incumbent: Some(set.to_owned()), ..Conditions::default() };
    rank_under(runs, Goal::Balanced, &conditions).remove(0)
}

fn decided(runs: &[RunResult], set: &str) -> (Decision, Option<String>, crate::Confidence) {
    let verdict = ranked(runs, set).verdict;
    (verdict.decision, verdict.recommended, verdict.confidence)
}

prop_compose! {
    fn results()(
        schedulers in 2usize..=4,
        runs in 2usize..=6,
        noise in 0.0..0.3f64,
        means in prop::collection::vec((200.0..2000.0f64, 30.0..100.0f64), 4),
        noises in prop::collection::vec(prop::collection::vec((-1.0..1.0f64, -1.0..1.0f64), 6), 4),
    ) -> Results {
        let names = ["mq-deadline", "bfq", "kyber", "none"];
        (0..schedulers).map(|i| {
            let (us, rate) = means[i];
            let of = |(a, b): &(f64, f64)| (us * (1.0 + noise * a), rate * (1.0 + 0.2 * noise * b));
            (names[i].to_owned(), noises[i].iter().take(runs).map(of).collect())
        }).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn names_order_units_duplicates_and_dominated_ones_change_nothing(results in results(), k in 0.5..3.0f64) {
        let runs = runs_of(&results);
        let found = decided(&runs, "mq-deadline");
        // Order of schedulers and of seeds.
        let reversed: Vec<RunResult> = runs.iter().rev().cloned().collect();
        prop_assert_eq!(&decided(&reversed, "mq-deadline"), &found);
        // Names: those that are not near to others in worth do not depend on the order of names.
        let renamed: Results = results.iter().map(|(name, runs)| (format!("x-{name}"), runs.clone())).collect();
        let of_renamed = decided(&runs_of(&renamed), "x-mq-deadline");
        prop_assert_eq!((of_renamed.0, of_renamed.2), (found.0, found.2));
        // Units.
        let scaled: Results = results
            .iter()
            .map(|(name, runs)| (name.clone(), runs.iter().map(|(us, rate)| (us * k, rate * k)).collect()))
            .collect();
        let of_scaled = decided(&runs_of(&scaled), "mq-deadline");
        prop_assert_eq!((of_scaled.0, of_scaled.1.is_some()), (found.0, found.1.is_some()));
        // An exact duplicate under another name, and one that is worse in everything.
        let mut more = results.clone();
        more.push(("zz-copy".to_owned(), results[1].1.clone()));
        let worse = results[0].1.iter().map(|(us, rate)| (us * 3.0, rate * 0.9)).collect();
        more.push(("zz-worse".to_owned(), worse));
        let of_more = decided(&runs_of(&more), "mq-deadline");
        prop_assert_eq!((of_more.0, of_more.2), (found.0, found.2));
        prop_assert_eq!(&of_more.1, &found.1);
        // The same runs again are no further evidence.
        let twice: Vec<RunResult> = runs.iter().chain(&runs).cloned().collect();
        prop_assert_eq!(&decided(&twice, "mq-deadline"), &found);
    }

    #[test]
    fn a_small_change_of_a_figure_moves_the_worth_by_as_little(results in results(), which in 0usize..4, up in any::<bool>()) {
        let which = which % results.len();
        let change = if up { 1.001 } else { 1.0 / 1.001 };
        let mut other = results.clone();
        other[which].1[0].0 *= change;
        other[which].1[0].1 *= change;
        let of = |results: &Results| {
            let ranking = ranked(&runs_of(results), "mq-deadline");
            let mut worth: Vec<(String, f64)> =
                ranking.rows.iter().filter_map(|row| Some((row.scheduler.clone(), row.worth?.gain))).collect();
            worth.sort_by(|a, b| a.0.cmp(&b.0));
            worth
        };
        for ((name, a), (_, b)) in of(&results).into_iter().zip(of(&other)) {
            prop_assert!((a - b).abs() < 0.005, "{name}: {a} {b}");
        }
    }

    #[test]
    fn a_better_alternative_never_turns_a_change_into_keep(results in results(), by in 0.5..1.0f64) {
        let before = decided(&runs_of(&results), "mq-deadline");
        let mut better = results.clone();
        for (us, rate) in &mut better[1].1 {
            *us *= by;
            *rate /= by;
        }
        if before.0 == Decision::Change {
            prop_assert_eq!(decided(&runs_of(&better), "mq-deadline").0, Decision::Change);
        }
        let mut incumbent = results;
        for (us, rate) in &mut incumbent[0].1 {
            *us *= by;
            *rate /= by;
        }
        if before.0 == Decision::Keep {
            prop_assert_eq!(decided(&runs_of(&incumbent), "mq-deadline").0, Decision::Keep);
        }
    }

    #[test]
    fn sentences_say_what_the_figures_do(results in results()) {
        let ranking = ranked(&runs_of(&results), "mq-deadline");
        let verdict = &ranking.verdict;
        let text = verdict.sentence();
        prop_assert_eq!(verdict.incumbent.as_str(), "mq-deadline");
        match verdict.decision {
            Decision::Change => {
                let to = verdict.recommended.clone().unwrap();
                prop_assert!(text.starts_with(&format!("Change mq-deadline to {to}: p99 of reads ")), "{}", text);
                let worth = ranking.rows.iter().find(|row| row.scheduler == to).unwrap().worth.unwrap();
                prop_assert!(worth.gain >= USEFUL_GAIN && worth.at_least > -HARMFUL, "{:?}", worth);
                prop_assert!(text.contains("half the latency is worth a third of the throughput"), "{}", text);
                prop_assert_eq!(&ranking.rows[0].scheduler, &to);
            }
            _ => {
                prop_assert!(text.starts_with("Keep mq-deadline: "), "{}", text);
                prop_assert!(verdict.recommended.is_none() && verdict.apply.is_empty());
                prop_assert_eq!(ranking.rows[0].scheduler.as_str(), "mq-deadline");
                let most = ranking.rows.iter().filter_map(|row| row.worth).map(|of| of.at_most).fold(f64::MIN, f64::max);
                prop_assert_eq!(text.contains("may be gained with"), most > USEFUL_GAIN, "{} {}", most, text);
            }
        }
        // Each trade has the changes of the frontier's figures.
        for member in verdict.frontier.iter().filter(|member| member.scheduler != "mq-deadline") {
            let line = verdict.trades.iter().chain([&verdict.because]).find(|line| line.starts_with(&format!("{}: p99", member.scheduler)));
            let shown = format!("throughput {}", super::change_text(1.0 + member.throughput_change));
            if let Some(line) = line {
                prop_assert!(line.contains(&shown), "{} in {}", shown, line);
            }
            let p99 = |name: &str| {
                let of = results.iter().find(|(other, _)| other == name).unwrap();
                of.1.iter().map(|(us, _)| (3.0 * us).ln()).sum::<f64>() / of.1.len() as f64
            };
            let change = (p99(&member.scheduler) - p99("mq-deadline")).exp() - 1.0;
            prop_assert!((member.latency_change - change).abs() < 1e-3, "{} {}", member.latency_change, change);
        }
        // Nobody on the frontier is beaten in both by another of it.
        for a in &verdict.frontier {
            for b in &verdict.frontier {
                let beats = a.latency_change < b.latency_change - 0.1 && a.throughput_change > b.throughput_change + 0.1;
                prop_assert!(!beats, "{a:?} {b:?}");
            }
        }
        let clear_and_open = verdict.confidence == crate::Confidence::Clear && text.contains("may be gained");
        prop_assert!(!clear_and_open, "{}", text);
    }
}

#[test]
fn no_count_of_requests_is_a_threshold() {
    let of = |n: f64| {
        let blend = Blend::of(n);
        assert!((blend.mean + blend.p95 + blend.p99 - 1.0).abs() < 1e-12);
        blend.mean * 1.0f64.ln() + blend.p95 * 3.0f64.ln() + blend.p99 * 5.0f64.ln()
    };
    for n in 10..10_000 {
        let step = (of(f64::from(n) + 1.0) - of(f64::from(n))).abs();
        assert!(step < 0.01, "{n}: {step}");
    }
    assert_eq!(Blend::of(1000.0), Blend { mean: 0.5, p95: 0.0, p99: 0.5 });
    assert!(Blend::of(122.0).p99 == 0.0, "the p99 of 122 requests decides nothing");
}

/// Standard normal numbers from a small generator.
struct Normal(u64);

impl Normal {
    fn next(&mut self) -> f64 {
        let mut uniform = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1u64 << 53) as f64
        };
        (0..12).map(|_| uniform()).sum::<f64>() - 6.0
    }
}

#[test]
fn a_change_is_harmful_in_at_most_5_of_100_decisions_where_all_are_just_harmful() {
    let mut normal = Normal(11);
    let grounds = Grounds { error: 0.05, requests: 1000.0, real: false, one_run: false, host: 0.0 };
    let judged = |seed: u64, utility: f64| Judged { seed, latency: [-utility; 2], rate: 0.0, utility: [utility; 2] };
    for (n, alternatives, most) in [(3u64, 1, 0.03), (3, 3, 0.06), (5, 3, 0.06), (10, 3, 0.06)] {
        for noise in [0.02, 0.1, 0.4] {
            let trials = 2000;
            let mut wrong = 0;
            for _ in 0..trials {
                let incumbent: Vec<Judged> = (0..n).map(|seed| judged(seed, 0.0)).collect();
                let worth = (0..alternatives).any(|_| {
                    let own: Vec<Judged> = (0..n).map(|seed| judged(seed, -0.031 + noise * normal.next())).collect();
                    let of = against(&own, &incumbent, &grounds).unwrap();
                    of.gain >= USEFUL_GAIN && of.lo > -HARMFUL
                });
                wrong += u32::from(worth);
            }
            let part = f64::from(wrong) / f64::from(trials);
            assert!(part <= most, "{n} runs, {alternatives} alternatives, noise {noise}: {part}");
        }
    }
}
