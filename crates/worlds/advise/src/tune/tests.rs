//! Whole searches on invented drives, whose true answer is known.

use dumbwaiter_measure::{RunResult, paired};
use dumbwaiter_scenario::SchedulerSpec;
use proptest::prelude::*;

use super::*;
use crate::Goal;
use crate::test_runs::template;

fn spaces() -> Vec<Space> {
    let range = |name: &str, values: &[i128]| Range { setting: Setting::Tunable(name.into()), values: values.to_vec() };
    let ranges = vec![range("a", &[1, 2, 3, 4]), range("b", &[10, 20]), range("c", &[5])];
    let limits = Range { setting: Setting::NrRequests, values: vec![32, 64] };
    let first = Space { scheduler: SchedulerSpec::named("x"), ranges: [ranges.clone(), vec![limits]].concat() };
    vec![first, Space { scheduler: SchedulerSpec::named("y"), ranges }]
}

/// A drive: by how much `a=3` and `b=20` change the p99, how much runs scatter, and a seed of that scatter.
#[derive(Clone, Copy, Debug)]
struct Nature {
    a: f64,
    b: f64,
    scatter: f64,
    seed: u64,
}

/// A number in -1 to 1 from some words.
fn noise(words: &[u64]) -> f64 {
    let mut x = 0x9e37_79b9_7f4a_7c15u64;
    for word in words {
        x = (x ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x ^= x >> 29;
    }
    (x >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

impl Nature {
    fn p99_us(&self, candidate: &Candidate, trial: &Trial) -> f64 {
        let has = |name: &str, value: &str| candidate.scheduler.tunables.get(name).is_some_and(|v| v == value);
        let mut p99 = if candidate.scheduler.name == "x" { 1000.0 } else { 1200.0 };
        p99 *= if has("a", "3") { 1.0 + self.a } else { 1.0 };
        p99 *= if has("b", "20") { 1.0 + self.b } else { 1.0 };
        let name = candidate.to_string().bytes().fold(7u64, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(b)));
        let of_seed = noise(&[self.seed, u64::from(trial.replicate)]);
        let own = noise(&[self.seed, u64::from(trial.replicate), name, u64::from(trial.length_percent)]);
        p99 * (1.0 + 0.2 * of_seed) * (1.0 + self.scatter * own)
    }

    fn run(&self, template: &RunResult, candidate: &Candidate, trial: &Trial) -> RunResult {
        let mut run = template.clone();
        run.seed = 1 + u64::from(trial.replicate);
        run.scheduler = candidate.scheduler.to_string();
        let p99 = self.p99_us(candidate, trial);
        for latency in [&mut run.read.latency_us, &mut run.latency_us] {
            (latency.p99, latency.p95, latency.mean) = (p99, p99, p99);
        }
        run
    }
}

/// Runs a search to its end, or for `trials_max` trials; each batch in the order given by `reverse`. The trials that were run.
fn searched(nature: Nature, seed: u64, trials_max: usize, reverse: bool) -> (Search, Vec<Trial>) {
    let template = template(1200);
    let mut search = Search::new(&spaces(), None, TunePlan::of(24, LoadKind::default()), Goal::Balanced, seed);
    let mut ran = Vec::new();
    loop {
        let mut trials = search.next_trials();
        if trials.is_empty() {
            return (search, ran);
        }
        if reverse {
            trials.reverse();
        }
        for trial in trials {
            if ran.len() == trials_max {
                return (search, ran);
            }
            let run = nature.run(&template, search.candidate(trial.candidate), &trial);
            search.record(&trial, run);
            ran.push(trial);
        }
    }
}

fn natures() -> impl Strategy<Value = Nature> {
    (-0.5..0.3f64, -0.4..0.3f64, 0.0..0.3f64, any::<u64>()).prop_map(|(a, b, scatter, seed)| Nature {
        a,
        b,
        scatter,
        seed,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn the_claim_is_the_held_out_comparison(nature in natures(), seed in 0u64..50) {
        let (search, ran) = searched(nature, seed, usize::MAX, false);
        let choice = search.choice().unwrap();
        let last = ran.iter().map(|trial| trial.round).max().unwrap();
        if let Some(claim) = &choice.claim {
            let held_out: Vec<&Trial> = ran.iter().filter(|trial| trial.round == last).collect();
            let seen = |replicate: u32| ran.iter().any(|t| t.round < last && t.replicate == replicate);
            prop_assert!(held_out.iter().all(|trial| !seen(trial.replicate)), "a seed of the search makes the claim");
            let figure = |candidate: &Candidate, seed: u64| {
                let replicate = (seed - 1) as u32;
                nature.p99_us(candidate, &Trial { round: last, candidate: 0, replicate, length_percent: 100 })
            };
            prop_assert_eq!(claim.held_out.len(), 10);
            let (mut tuned, mut defaults) = (Vec::new(), Vec::new());
            for pair in &claim.held_out {
                tuned.push(figure(&choice.best, pair.seed).ln());
                defaults.push(figure(&choice.defaults, pair.seed).ln());
            }
            let mean = tuned.iter().zip(&defaults).map(|(a, b)| a - b).sum::<f64>() / 10.0;
            prop_assert!((claim.change - mean.exp_m1()).abs() < 1e-9, "{} {}", claim.change, mean.exp_m1());
            let p = paired(&tuned, &defaults);
            prop_assert!((claim.p.unwrap() - p).abs() <= 1e-4 * p.max(1e-9), "{:?} {p}", claim.p);
            let [low, high] = claim.ci95.unwrap();
            prop_assert!(low <= claim.change && claim.change <= high);
        }
        if choice.outcome == Outcome::Better {
            let claim = choice.claim.unwrap();
            let gain = choice.gain.unwrap();
            prop_assert!(gain.gain >= 0.05 && gain.at_least > 0.0 && claim.change < 0.0, "{claim:?} {gain:?}");
        } else if choice.claim.is_none() {
            prop_assert_eq!(&choice.best, &choice.defaults);
        }
    }

    #[test]
    fn the_order_of_results_changes_nothing(nature in natures(), seed in 0u64..50) {
        let ((one, _), (other, _)) = (searched(nature, seed, usize::MAX, false), searched(nature, seed, usize::MAX, true));
        let (one, other) = (one.choice().unwrap(), other.choice().unwrap());
        prop_assert_eq!((one.best, one.claim, one.outcome), (other.best, other.claim, other.outcome));
    }

    #[test]
    fn a_search_that_ended_early_confirms_nothing(nature in natures(), trials in 0usize..90) {
        let (whole, all) = searched(nature, 1, usize::MAX, false);
        let (search, ran) = searched(nature, 1, trials, false);
        if let Some(choice) = search.choice()
            && ran.len() < all.len()
        {
            prop_assert!(choice.outcome != Outcome::Better, "{} of {} trials", ran.len(), all.len());
        }
        prop_assert!(whole.choice().is_some());
    }
}

#[test]
fn settings_that_help_are_found_and_what_they_are_worth() {
    let nature = Nature { a: -0.4, b: -0.2, scatter: 0.05, seed: 3 };
    let choice = searched(nature, 1, usize::MAX, false).0.choice().unwrap();
    assert_eq!(choice.best.scheduler.to_string(), "x:a=3,b=20", "{:?}", choice.claim);
    assert_eq!((choice.outcome, choice.defaults.to_string().as_str()), (Outcome::Better, "x"));
    let claim = choice.claim.unwrap();
    assert!((claim.change + 0.52).abs() < 0.05, "{claim:?}");
}

#[test]
fn where_no_setting_matters_the_defaults_stay_but_for_one_search_in_twenty() {
    let better = |seed| {
        let nature = Nature { a: 0.0, b: 0.0, scatter: 0.15, seed };
        searched(nature, seed, usize::MAX, false).0.choice().unwrap().outcome == Outcome::Better
    };
    let wrong = (0..100).filter(|seed| better(*seed)).count();
    assert!(wrong <= 5, "{wrong} of 100");
}

#[test]
fn a_candidate_that_gains_throughput_at_the_cost_of_the_latency_is_not_chosen() {
    let template = template(200);
    let mut search = Search::new(&spaces()[..1], None, TunePlan::of(12, LoadKind::default()), Goal::Balanced, 1);
    loop {
        let trials = search.next_trials();
        if trials.is_empty() {
            break;
        }
        for trial in trials {
            let candidate = search.candidate(trial.candidate).clone();
            let mut run = Nature { a: 0.0, b: 0.0, scatter: 0.01, seed: 1 }.run(&template, &candidate, &trial);
            if candidate.scheduler.tunables.contains_key("a") {
                run.mb_per_s *= 1.5;
                for latency in [&mut run.read.latency_us, &mut run.latency_us] {
                    (latency.p99, latency.p95, latency.mean) = (1e6, 1e6, 1e6);
                }
            }
            search.record(&trial, run);
        }
    }
    assert_eq!(search.choice().unwrap().outcome, Outcome::DefaultsAsGood);
}

#[test]
fn a_result_sets_the_scheduler_its_settings_and_the_limits_and_takes_them_back() {
    let nature = Nature { a: -0.4, b: 0.0, scatter: 0.01, seed: 3 };
    let mut choice = searched(nature, 1, usize::MAX, false).0.choice().unwrap();
    (choice.best.nr_requests, choice.best.queue_depth) = (Some(64), Some(8));
    let at = Applied {
        device: "ssd:850pro-256",
        place: crate::TargetDrive::simulated(crate::DriveKind::SataSsd),
        offered: &["x".to_owned()],
        previous_queue_depth: Some(31),
        another: None,
    };
    let found = tuned(&at, &choice, 10, 100, None, &crate::Rates::of(crate::Goal::Balanced));
    let rule = "ATTR{queue/scheduler}=\"x\", ATTR{queue/iosched/a}=\"3\", ATTR{queue/nr_requests}=\"64\", ATTR{device/queue_depth}=\"8\"";
    assert!(found.udev_rule.ends_with(rule), "{}", found.udev_rule);
    assert_eq!(found.undo[1], "echo 31 | sudo tee /sys/block/sdX/device/queue_depth");
    assert!(
        found.sentence.starts_with("Set x:a=3 nr_requests=64 queue_depth=8: p99 latency of reads "),
        "{}",
        found.sentence
    );
    let elsewhere =
        tuned(&Applied { offered: &[], ..at }, &choice, 10, 100, None, &crate::Rates::of(crate::Goal::Balanced));
    assert!(elsewhere.apply.is_empty() && elsewhere.sentence.contains("kernel has no x"), "{}", elsewhere.sentence);
}

/// A search that goes on to another drive, on which `a=3` changes the p99 by `a_there`.
fn elsewhere(a_there: f64) -> TunedDevice {
    let template = template(1200);
    let plan = TunePlan::of(24, LoadKind::default());
    let mut search = Search::new(&spaces(), None, plan, Goal::Balanced, 1).with_another_drive();
    let (here, mut ran_there) = (Nature { a: -0.4, b: 0.0, scatter: 0.01, seed: 3 }, 0);
    loop {
        let trials = search.next_trials();
        if trials.is_empty() {
            break;
        }
        for trial in trials {
            let there = search.is_elsewhere(&trial);
            ran_there += usize::from(there);
            let nature = if there { Nature { a: a_there, ..here } } else { here };
            let run = nature.run(&template, search.candidate(trial.candidate), &trial);
            search.record(&trial, run);
        }
    }
    assert_eq!(ran_there, 20, "the best and what is set, ten seeds");
    assert!(search.runs() <= search.planned());
    let at = Applied {
        device: "hdd:one",
        place: crate::TargetDrive::simulated(crate::DriveKind::HardDisk),
        offered: &["x".to_owned()],
        previous_queue_depth: None,
        another: Some("hdd:other"),
    };
    tuned(&at, &search.choice().unwrap(), 10, 100, None, &crate::Rates::of(Goal::Balanced))
}

#[test]
fn the_claim_is_of_the_figure_that_brings_the_gain() {
    // By how much `c` changes the p99 and the throughput, and the figure that is named.
    for (latency, rate, named) in [(0.97, 2.0, "mb_per_s"), (0.6, 1.2, "focus_p99_us"), (1.0, 1.5, "mb_per_s")] {
        let template = template(1200);
        let mut search = Search::new(&spaces()[..1], None, TunePlan::of(12, LoadKind::default()), Goal::Balanced, 1);
        loop {
            let trials = search.next_trials();
            if trials.is_empty() {
                break;
            }
            for trial in trials {
                let candidate = search.candidate(trial.candidate).clone();
                let mut run = Nature { a: 0.0, b: 0.0, scatter: 0.001, seed: 1 }.run(&template, &candidate, &trial);
                if candidate.scheduler.tunables.contains_key("c") {
                    run.mb_per_s *= rate;
                    for of in [&mut run.read.latency_us, &mut run.latency_us] {
                        (of.p99, of.p95, of.mean) = (of.p99 * latency, of.p95 * latency, of.mean * latency);
                    }
                }
                search.record(&trial, run);
            }
        }
        let choice = search.choice().unwrap();
        assert_eq!(
            (choice.outcome, choice.claim.unwrap().metric.as_str()),
            (Outcome::Better, named),
            "{latency} {rate}"
        );
    }
}

#[test]
fn a_recommendation_says_what_another_drive_of_the_class_shows() {
    let of = |found: &TunedDevice| found.another_drive.as_ref().unwrap().outcome;
    let (same, other, none) = (elsewhere(-0.4), elsewhere(0.5), elsewhere(0.0));
    assert_eq!((of(&same), of(&other), of(&none)), (Elsewhere::Better, Elsewhere::Worse, Elsewhere::Open));
    assert!(same.sentence.contains(" On hdd:other, another drive of its class, it is worth "), "{}", same.sentence);
    let first = "It depends on the drive: on hdd:other, of the same class, this loses what ";
    assert!(
        other.sentence.starts_with(first) && other.sentence.contains("On this one: set x:a=3"),
        "{}",
        other.sentence
    );
    assert!(none.sentence.ends_with("On hdd:other, another drive of its class, that is not confirmed."));
    assert!(!other.keep && !other.apply.is_empty(), "it holds on this one");
}

#[test]
fn what_stands_before_a_scheduler_is_set_and_joined_like_its_settings() {
    let range = |setting: Setting, value: i128| Range { setting, values: vec![value] };
    let ranges = vec![range(Setting::WbtUs, 0), range(Setting::IoCost, 1), range(Setting::ReadAheadKb, 512)];
    let spaces = [Space { scheduler: SchedulerSpec::named("x"), ranges }];
    let search = Search::new(&spaces, None, TunePlan::of(3, LoadKind::default()), Goal::Balanced, 1);
    let mut names: Vec<String> = (0..search.candidates()).map(|i| search.candidate(i).to_string()).collect();
    names.sort();
    assert_eq!(names, ["x", "x read_ahead_kb=512", "x+io.cost", "x+wbt=off"]);
    let by_name = |name: &str| (0..4).map(|i| search.candidate(i)).find(|one| one.to_string() == name).unwrap();
    let both = by_name("x+wbt=off").joined(by_name("x+io.cost")).unwrap();
    assert_eq!((both.to_string().as_str(), both.settings()), ("x+wbt=off+io.cost", 2));
    let at = Applied {
        device: "hdd:one",
        place: crate::TargetDrive::simulated(crate::DriveKind::HardDisk),
        offered: &["x".to_owned()],
        previous_queue_depth: None,
        another: None,
    };
    let nature = Nature { a: -0.4, b: 0.0, scatter: 0.01, seed: 3 };
    let mut choice = searched(nature, 1, usize::MAX, false).0.choice().unwrap();
    choice.best = Candidate { read_ahead_kb: Some(512), ..both };
    let found = tuned(&at, &choice, 10, 100, None, &crate::Rates::of(Goal::Balanced));
    let set = |what: &str| found.apply.iter().any(|command| command.contains(what));
    assert!(
        set("echo 512 | sudo tee /sys/block/sdX/queue/read_ahead_kb")
            && set("queue/wbt_lat_usec")
            && set("io.cost.qos")
    );
    assert!(found.undo.iter().any(|command| command == "echo 128 | sudo tee /sys/block/sdX/queue/read_ahead_kb"));
}

#[test]
fn no_candidate_is_dropped_for_combinations_that_do_not_exist() {
    let range = Range { setting: Setting::Tunable("a".into()), values: (1..=9).collect() };
    let spaces = [Space { scheduler: SchedulerSpec::named("x"), ranges: vec![range] }];
    let plan = TunePlan::of(9, LoadKind::default());
    let (template, kept) = (template(200), plan.rungs[1].candidates);
    let nature = Nature { a: -0.4, b: 0.0, scatter: 0.01, seed: 3 };
    let mut search = Search::new(&spaces, None, plan, Goal::Balanced, 1);
    for trial in search.next_trials() {
        let run = nature.run(&template, search.candidate(trial.candidate), &trial);
        search.record(&trial, run);
    }
    let mut second: Vec<usize> = search.next_trials().iter().map(|trial| trial.candidate).collect();
    second.sort_unstable();
    second.dedup();
    assert_eq!(second.len(), 1 + kept, "the defaults, and {kept} values of the only setting");
}

#[test]
fn a_start_that_never_ended_counts_as_the_length_of_its_run_in_seconds() {
    use dumbwaiter_measure::{ApplicationStats, StartUpStats};
    let template = template(200);
    let run = |startup_s: Vec<f64>, not_started| {
        let start_up = Some(StartUpStats::new(startup_s, not_started, Vec::new(), 20.0));
        let mut run = template.clone();
        (run.seed, run.duration_s, run.oldest_unfinished_s) = (1, 30.0, 0.0);
        let (name, tenant, kind) = ("writer".to_owned(), String::new(), String::new());
        run.applications = vec![ApplicationStats { name, tenant, kind, start_up, player: None }];
        run
    };
    let (never, quick) = (run(Vec::new(), 1), run(vec![3.0], 0));
    let claim = Claim::of(crate::Metric::StartUp, &crate::Focus::All, &[&never], &[&quick]);
    assert_eq!((claim.defaults, claim.tuned), (30.0, 3.0));
}

#[test]
fn a_gain_in_latency_that_costs_most_of_the_throughput_is_rejected_or_says_so() {
    // The p99 falls from 2.02 s to 171 ms, and the throughput from 47.2 to 7.2 MB/s.
    let found = |goal: Goal| {
        let template = template(1200);
        let mut search = Search::new(&spaces()[..1], None, TunePlan::of(12, LoadKind::default()), goal, 1);
        loop {
            let trials = search.next_trials();
            if trials.is_empty() {
                break;
            }
            for trial in trials {
                let candidate = search.candidate(trial.candidate).clone();
                let mut run = Nature { a: 0.0, b: 0.0, scatter: 0.01, seed: 1 }.run(&template, &candidate, &trial);
                let tuned = candidate.scheduler.tunables.contains_key("c");
                let (us, rate) = if tuned { (171_000.0, 7.2) } else { (2_020_000.0, 47.2) };
                run.mb_per_s = rate;
                for latency in [&mut run.read.latency_us, &mut run.latency_us] {
                    (latency.p99, latency.p95, latency.mean) = (us, us, us);
                }
                search.record(&trial, run);
            }
        }
        search.choice().unwrap()
    };
    assert_eq!(found(Goal::Balanced).outcome, Outcome::DefaultsAsGood);
    let choice = found(Goal::Latency);
    assert_eq!(choice.outcome, Outcome::Better);
    let at = Applied {
        device: "hdd:st1000dm003",
        place: crate::TargetDrive::simulated(crate::DriveKind::HardDisk),
        offered: &["x".to_owned()],
        previous_queue_depth: None,
        another: None,
    };
    let told = tuned(&at, &choice, 10, 100, None, &crate::Rates::of(Goal::Latency));
    assert!(
        told.sentence.starts_with("For throughput -85 % (47.2 MB/s to 7.20 MB/s): set x:c=5: "),
        "{}",
        told.sentence
    );
    assert_eq!(told.losses[0].what, "throughput");
    assert!(told.gain.unwrap().throughput_change.unwrap() < -0.8);
}
