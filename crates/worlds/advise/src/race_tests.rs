use super::*;
use crate::test_runs::read;
use dumbwaiter_block::{Nanos, TenantId};
use dumbwaiter_measure::{Completed, Recorder, RecorderConfig, RunFacts, TenantSpec};

/// A run of one second, in which one tenant waits `p99_us` for each I/O and another transfers `mb` in all.
fn run(point: &str, scheduler: &str, seed: u64, p99_us: f64, mb: f64) -> RunResult {
    let tenant = |name: &str, focus| TenantSpec { name: name.into(), weight: 100, parent: None, focus };
    let tenants = vec![tenant("waits", true), tenant("works", false)];
    let config = RecorderConfig { warmup: Nanos::ZERO, interval: Nanos::from_secs(1), tenants, tasks: vec![] };
    let mut recorder = Recorder::new(config);
    for i in 0..100 {
        for (tenant, latency, bytes) in
            [(0, Nanos((p99_us * 1e3) as u64), 0), (1, Nanos::from_ms(1), (mb * 1e4) as u64)]
        {
            let submit = Nanos::from_ms(i * 9);
            recorder.record(&Completed { tenant: TenantId(tenant), ..read(submit, latency, bytes) });
        }
    }
    let facts = RunFacts {
        device: "d".into(),
        scheduler: scheduler.into(),
        variant: point.into(),
        seed,
        ..RunFacts::default()
    };
    recorder.finish(Nanos::from_secs(1), facts)
}

fn race(schedulers: &[&str], current: &str) -> Race {
    Race {
        points: vec!["shared", "deep"],
        schedulers: schedulers.iter().map(|w| (*w).to_owned()).collect(),
        current: current.into(),
        goal: Goal::Balanced,
    }
}

/// A scheduler's p99 and MB/s where it decides, its MB/s at the other point, and how much all of that scatters.
type Nature = (&'static str, f64, f64, f64, f64);

/// Result of a round on a device of this nature: alternating up and down, by another amount in each.
fn one(nature: &Nature, point: &str, round: u64) -> RunResult {
    let (name, p99, mb, deep, spread) = *nature;
    // Steps that are not the same for all, so that nothing is paired by accident.
    let step = (round * 7 + name.len() as u64 * 3) % 5;
    let scatter = 1.0 + spread * (step as f64 - 2.0) / 2.0;
    run(point, name, round, p99 * scatter, if point == "shared" { mb } else { deep } * (2.0 - scatter))
}

/// Runs the race on a device of this nature, at most `rounds` rounds; the results and how many runs it took.
fn raced(race: &Race, natures: &[Nature], rounds: u64) -> Vec<RunResult> {
    let mut results = Vec::new();
    for round in 0..rounds {
        for heat in race.next(&results) {
            for index in heat.schedulers {
                results.push(one(&natures[index], race.points[heat.point], round));
            }
        }
    }
    results
}

#[test]
fn everybody_is_screened_and_a_clear_winner_ends_the_race() {
    let race = race(&["none", "kyber", "bfq"], "none");
    let natures =
        [("none", 900.0, 100.0, 100.0, 0.05), ("kyber", 300.0, 99.0, 98.0, 0.05), ("bfq", 800.0, 99.0, 99.0, 0.05)];
    let first = race.next(&[]);
    assert_eq!(first.iter().map(|h| (h.point, h.schedulers.len())).collect::<Vec<_>>(), [(0, 3), (1, 3)]);
    let results = raced(&race, &natures, 50);
    assert!(race.next(&results).is_empty(), "decided");
    let runs = |index: &str, point: &str| results.iter().filter(|r| r.scheduler == index && r.variant == point).count();
    assert_eq!((runs("none", "shared"), runs("none", "deep")), (SURE, GUARD_ROUNDS), "no more than it takes");
    let decision = race.decide(&results).unwrap();
    assert_eq!((decision.pick.as_str(), decision.keep), ("kyber", false));
    let gain = decision.gain.unwrap();
    assert!(gain.p < 0.01 && (gain.change + 2.0 / 3.0).abs() < 0.05, "{gain:?}");
    assert_eq!((gain.metric.as_str(), gain.point.as_str()), ("focus_mean_us", "shared"));
}

#[test]
fn a_tie_keeps_what_is_set_and_goes_on_as_long_as_there_is_time() {
    for current in ["none", "deadline"] {
        let race = race(&["none", "deadline"], current);
        let natures = [("none", 500.0, 100.0, 100.0, 0.3), ("deadline", 490.0, 100.0, 100.0, 0.3)];
        let results = raced(&race, &natures, 10);
        let all: Vec<usize> = (0..2).collect();
        let said = race.ranking(&results, &all).unwrap().verdict;
        assert!(!race.next(&results).is_empty(), "more runs could tell more: {said:?}");
        let decision = race.decide(&results).unwrap();
        assert_eq!((decision.pick.as_str(), decision.keep), (current, true));
        assert!(decision.gain.is_none());
        let other = if current == "none" { "deadline" } else { "none" };
        assert_eq!(decision.ties, [other]);
    }
}

#[test]
fn equals_that_hardly_scatter_end_the_race() {
    let race = race(&["none", "mq-deadline"], "mq-deadline");
    let natures = [("none", 500.0, 100.0, 100.0, 0.005), ("mq-deadline", 503.0, 100.0, 100.0, 0.005)];
    let results = raced(&race, &natures, 50);
    assert!(race.next(&results).is_empty());
    assert!(results.len() < 30, "{} runs", results.len());
    // Even where the difference is certain, it is too small to be noticed.
    assert!(race.decide(&results).unwrap().keep);
}

#[test]
fn who_wins_in_latency_and_loses_throughput_is_out() {
    let race = race(&["none", "bfq", "kyber"], "none");
    // bfq has the lowest latency, but loses a third of the deep reads, which is worth more; kyber is a little better than none.
    let natures =
        [("none", 900.0, 100.0, 100.0, 0.02), ("bfq", 560.0, 98.0, 67.0, 0.02), ("kyber", 700.0, 99.0, 97.0, 0.02)];
    let results = raced(&race, &natures, 50);
    let decision = race.decide(&results).unwrap();
    assert_eq!(decision.pick, "kyber");
    let loss = &decision.losses[0];
    assert_eq!((loss.scheduler.as_str(), loss.point.as_str()), ("bfq", "deep"));
    assert!((loss.share - 0.67).abs() < 0.03 && loss.p <= 0.05, "{loss:?}");
    // The goal latency picks it.
    let race = Race { goal: Goal::Latency, ..race };
    assert_eq!(race.decide(&raced(&race, &natures, 50)).unwrap().pick, "bfq");
}

#[test]
fn what_is_set_goes_if_it_loses_throughput() {
    let race = race(&["none", "bfq"], "bfq");
    let natures = [("none", 900.0, 100.0, 100.0, 0.02), ("bfq", 880.0, 60.0, 67.0, 0.02)];
    let decision = race.decide(&raced(&race, &natures, 50)).unwrap();
    assert_eq!((decision.pick.as_str(), decision.keep), ("none", false));
    let gain = decision.gain.unwrap();
    assert_eq!((gain.metric.as_str(), gain.point.as_str()), ("mb_per_s", "shared"), "the latency is worse");
    assert!(gain.change > 0.5);
}

#[test]
fn the_current_scheduler_stays_unless_the_pick_is_surely_not_worse() {
    let race = race(&["none", "bfq", "kyber"], "bfq");
    let mut results: Vec<RunResult> = Vec::new();
    // kyber has a much lower latency, or a higher one.
    for (round, us) in [(0, 300.0), (1, 1700.0), (2, 250.0), (3, 1500.0), (4, 310.0)] {
        let small = round as f64 / 10.0;
        results.push(run("shared", "none", round, 900.0 + small, 100.0 + small));
        results.push(run("shared", "bfq", round, 900.0 + small, 100.0 - small));
        results.push(run("shared", "kyber", round, us, 100.0));
        results.extend(race.schedulers.iter().map(|index| run("deep", index, round, 900.0, 100.0 + small)));
    }
    let decision = race.decide(&results).unwrap();
    assert_eq!((decision.pick.as_str(), decision.keep), ("bfq", true));
    let (best, gain) = decision.unproven.unwrap();
    assert!(best == "kyber" && gain.p > 0.05, "{best} {gain:?}");
}

#[test]
fn a_doubtful_loss_is_looked_at_again_before_it_counts() {
    let race = race(&["none", "kyber"], "none");
    let mut results: Vec<RunResult> = Vec::new();
    for round in 0..3 {
        results.push(run("shared", "none", round, 900.0 + round as f64, 100.0));
        results.push(run("shared", "kyber", round, 300.0 + round as f64, 100.0));
    }
    for (round, none, kyber) in [(0, 100.0, 60.0), (1, 100.0, 61.0)] {
        results.push(run("deep", "none", round, 1.0, none));
        results.push(run("deep", "kyber", round, 1.0, kyber));
    }
    let (_, losses) = race.keepers(&results);
    assert!(losses.is_empty(), "two runs say nothing yet");
    let again = race.next(&results).into_iter().find(|heat| heat.point == 1).unwrap();
    assert_eq!(again.schedulers, [0, 1]);
}

#[test]
fn a_loss_elsewhere_is_weighed_against_the_gain_and_said() {
    let race = race(&["none", "bfq"], "none");
    let natures = [("none", 900.0, 60.0, 100.0, 0.01), ("bfq", 300.0, 100.0, 80.0, 0.01)];
    let decision = race.decide(&raced(&race, &natures, 50)).unwrap();
    assert_eq!(decision.pick, "bfq");
    assert_eq!(decision.losses.len(), 1);
    assert!(decision.losses[0].sentence("bfq").starts_with("bfq loses throughput: 80 % of what is moved now at deep"));
}

#[test]
fn too_little_decides_nothing() {
    let race = race(&["none", "bfq"], "none");
    assert!(race.decide(&[]).is_none());
    let once = [run("shared", "none", 0, 900.0, 100.0), run("shared", "bfq", 0, 100.0, 100.0)];
    assert!(race.decide(&once).is_none(), "one run each is chance");
    // Interrupted before the other had its second run: what is set stays.
    let mut few = once.to_vec();
    few.push(run("shared", "none", 1, 905.0, 100.0));
    let decision = race.decide(&few).unwrap();
    assert!(decision.keep && decision.pick == "none");
}

#[test]
fn a_single_scheduler_is_measured_and_kept() {
    let race = race(&["none"], "none");
    let results = raced(&race, &[("none", 900.0, 100.0, 100.0, 0.05)], 50);
    assert_eq!(results.len(), ROUNDS_MIN + GUARD_ROUNDS);
    assert!(race.decide(&results).unwrap().keep);
}

#[test]
fn noise_that_both_share_hides_nothing() {
    // Now and then the machine is busy, and everything takes up to ten times as long.
    let busy = [1.0, 10.0, 2.0, 7.0, 1.0, 4.0];
    let of = |us: f64| -> Vec<(u64, f64)> {
        busy.iter().zip(0..).map(|(b, round)| (round, us * b * (1.0 + 0.0001 * (round % 2) as f64 * us))).collect()
    };
    let (a, b) = (of(100.0), of(70.0));
    let apart = Contrast::of(&a, &b);
    let told = gain("shared", Metric::FocusP99, &a, &b);
    assert!(apart.p < 0.001 && (told.change + 0.3).abs() < 0.01, "{} {}", apart.p, told.change);
    assert!(told.ci95[0] <= told.change && told.change <= told.ci95[1] && told.ci95[1] < -0.25);
    // The same figures in other rounds are as good as none.
    let shifted: Vec<(u64, f64)> = b.iter().map(|(round, v)| (round + 100, *v)).collect();
    assert!(Contrast::of(&a, &shifted).p > 0.3);
}
