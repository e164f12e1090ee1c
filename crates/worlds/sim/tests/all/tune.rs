//! The search for better settings, in the simulator.

use std::sync::atomic::Ordering;

use dumbwaiter_advise::Goal;
use dumbwaiter_block::Nanos;
use dumbwaiter_experiment::{
    Budget, Cell, Control, Experiment, FailureKind, Overrides, Stack, Step, TuneOptions, Tuner, World, run_trial, tune,
};
use dumbwaiter_scenario::{Scenario, SchedulerSpec};
use dumbwaiter_sim::Simulator;
use std::sync::Arc;

/// bfq idles between the requests of processes, on a drive where that costs much.
const LOAD: &str = r#"
devices = ["ull:optane-900p"]
schedulers = ["bfq"]
duration = "40ms"
warmup = "10ms"
[[tenant]]
name = "a"
[[tenant.task]]
name = "user"
rw = "randread"
bs = "4k"
[[tenant]]
name = "b"
[[tenant.task]]
name = "bulk"
rw = "randread"
bs = "64k"
iodepth = 8
[[tenant.task]]
name = "writer"
rw = "randwrite"
bs = "16k"
iodepth = 8
"#;

fn experiment() -> Experiment {
    let scenario = Scenario::from_toml(LOAD, "test").unwrap();
    Experiment::of(scenario, &Overrides::default(), Goal::Balanced).unwrap()
}

fn options() -> TuneOptions {
    let budget = Budget { runs: Some(Nanos::from_ms(3500)), clock: None };
    TuneOptions { schedulers: vec![SchedulerSpec::named("bfq")], budget, ..TuneOptions::default() }
}

#[test]
fn a_seed_gives_one_result_with_any_number_of_jobs() {
    let found = |jobs| {
        let found = tune(&experiment(), &options(), &Simulator::new(jobs), &Control::default()).unwrap();
        serde_json::to_string(&found.tuning).unwrap()
    };
    assert_eq!(found(1), found(3));
}

#[test]
fn the_claim_is_what_separate_runs_of_its_seeds_give() {
    let options = TuneOptions { budget: Budget::default(), ..options() };
    let found = tune(&experiment(), &options, &Simulator::new(2), &Control::default()).unwrap().tuning;
    let device = &found.devices[0];
    assert_eq!(device.recommended, "bfq:slice_idle=0");
    let claims = device.claim.iter().chain(&device.others);
    let claim = claims.into_iter().find(|claim| claim.metric == "mb_per_s");
    let claim = claim.expect("without bfq's idling the throughput is five times as high");
    let mut scenario = Scenario::from_toml(LOAD, "test").unwrap();
    scenario.nr_requests = device.best.nr_requests;
    let defaults = Scenario::from_toml(LOAD, "test").unwrap();
    for pair in &claim.held_out {
        let run = |scenario: &Scenario, spec: &SchedulerSpec| {
            let load = Arc::new(dumbwaiter_scenario::load::Prepared::new(scenario).unwrap());
            let replicate = (pair.seed - scenario.seed) as u32;
            let cell = Cell::of(&load, "ull:optane-900p", Stack::Simulated, spec.clone());
            Simulator::new(1).run(&Cell { replicate, ..cell }, &Control::default()).unwrap().run.mb_per_s
        };
        assert_eq!(pair.tuned, run(&scenario, &device.best.scheduler), "seed {}", pair.seed);
        assert_eq!(pair.defaults, run(&defaults, &SchedulerSpec::named("bfq")), "seed {}", pair.seed);
    }
}

#[test]
fn trials_that_ran_elsewhere_give_the_same_result() {
    let world = Simulator::new(1);
    let here = tune(&experiment(), &options(), &world, &Control::default()).unwrap().tuning;
    let mut tuner = Tuner::new(&experiment(), &options(), &world, &Control::default()).unwrap();
    loop {
        let trials = tuner.next_trials();
        if trials.is_empty() {
            break;
        }
        // The results come back in another order.
        for trial in trials.iter().rev() {
            let run = run_trial(&tuner.remote(trial).unwrap(), &world, &Control::default()).unwrap();
            let run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
            tuner.record(trial, run);
        }
    }
    let elsewhere = tuner.finish(None, Vec::new()).unwrap();
    assert_eq!(serde_json::to_string(&here).unwrap(), serde_json::to_string(&elsewhere).unwrap());
}

#[test]
fn a_search_that_is_cancelled_gives_the_best_so_far_and_confirms_nothing() {
    let finished = std::sync::atomic::AtomicU64::new(0);
    let cancel = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let asked = Arc::clone(&cancel);
    let control = Arc::new(Control::observed(move |step| {
        if matches!(step, Step::Finished(..)) && finished.fetch_add(1, Ordering::Relaxed) == 45 {
            asked.store(true, Ordering::Relaxed);
        }
    }));
    let watched = Arc::clone(&control);
    std::thread::spawn(move || {
        while !cancel.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        watched.cancel.store(true, Ordering::Relaxed);
    });
    let options = TuneOptions { budget: Budget::default(), ..options() };
    match tune(&experiment(), &options, &Simulator::new(1), &control) {
        Ok(found) => {
            let device = &found.tuning.devices[0];
            assert_eq!(found.tuning.ended_early.as_deref(), Some("interrupted"));
            assert!(device.keep && device.apply.is_empty(), "{device:?}");
            assert!(device.sentence.starts_with("interrupted: "), "{}", device.sentence);
        }
        Err(failure) => assert_eq!(failure.kind, FailureKind::Interrupted, "{failure}"),
    }
}

#[test]
fn what_cannot_be_searched_is_refused_with_what_to_type() {
    let refused = |options: TuneOptions| {
        let failure = tune(&experiment(), &options, &Simulator::new(1), &Control::default()).err().unwrap();
        assert_eq!(failure.kind, FailureKind::Refused);
        failure.reason
    };
    let small = Budget { runs: Some(Nanos::from_ms(1)), clock: None };
    assert!(refused(TuneOptions { budget: small, ..options() }).contains("the smallest search covers"));
    let unknown = vec![SchedulerSpec::named("bfg")];
    let said = refused(TuneOptions { schedulers: unknown, ..TuneOptions::default() });
    assert!(said.contains("--scheduler") && said.contains("did you mean `bfq`"), "{said}");
}
