//! The policy in a world where each candidate has a known rate for each workload.

mod table;

use dumbwaiter_block::Nanos;
use dumbwaiter_controllers::switching::{
    Arrival, By, Goal, Memory, Policy, Prior, Reason, Row, Settings, Signature, Tick, Work,
};
use proptest::prelude::*;

/// Requests per second of each candidate.
type Rates = [f64; 4];

/// A load: eight tasks that read at random, or six streams, or both kinds with writes.
#[derive(Clone, Copy)]
struct Load {
    tasks: u32,
    sequential: bool,
    write: bool,
    rates: Rates,
    /// Candidate 1 brings the streams out of step, and the others are faster than it for so long then.
    out_of_step: Nanos,
}

const RANDOM: Load =
    Load { tasks: 8, sequential: false, write: false, rates: [100.0, 78.0, 79.0, 77.0], out_of_step: Nanos::ZERO };
const STREAMS: Load = Load { tasks: 6, sequential: true, write: false, rates: [150.0, 1300.0, 151.0, 149.0], ..RANDOM };

struct World {
    policy: Policy,
    now: Nanos,
    in_force: usize,
    state: u64,
    sent: u64,
    owed: f64,
    out_of_step_until: Nanos,
    work_done: f64,
    best_possible: f64,
    switches: u64,
    switches_of_trials: u64,
    /// Times at which the candidate changed, with the new one.
    history: Vec<(Nanos, usize)>,
}

impl World {
    fn new(settings: Settings) -> World {
        World {
            policy: Policy::new(4, 0, settings, Prior::default()),
            now: Nanos::ZERO,
            in_force: 0,
            state: 1,
            sent: 0,
            owed: 0.0,
            out_of_step_until: Nanos::ZERO,
            work_done: 0.0,
            best_possible: 0.0,
            switches: 0,
            switches_of_trials: 0,
            history: Vec::new(),
        }
    }

    fn draw(&mut self) -> f64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 40) as f64 / (1u64 << 24) as f64
    }

    fn run(&mut self, load: &Load, seconds: u64) {
        let end = self.now + Nanos::from_secs(seconds);
        let mut next = self.now + self.policy.settings().period;
        // A phase begins in step.
        self.out_of_step_until = self.now;
        while self.now < end {
            let elapsed = next.since(self.now);
            // Rates vary by a fifth from tick to tick.
            let noise = 0.8 + 0.4 * self.draw();
            let mut rate = load.rates[self.in_force];
            if self.in_force == 1 {
                self.out_of_step_until = next + load.out_of_step;
            } else if self.now < self.out_of_step_until {
                rate = 1.3 * load.rates[1];
            }
            let done = rate * noise * elapsed.as_secs_f64();
            self.work_done += done;
            self.best_possible += load.rates.iter().copied().fold(0.0, f64::max) * elapsed.as_secs_f64();
            self.owed += done;
            let ios = self.owed as u64;
            self.owed -= ios as f64;
            for _ in 0..ios {
                self.sent += 1;
                let task = (self.sent % u64::from(load.tasks)) as u32;
                let step = self.sent / u64::from(load.tasks);
                let place = if load.sequential { step * 8 } else { step.wrapping_mul(7_368_787) % 100_000_000 * 8 };
                let sector = place + u64::from(task) * 10_000_000_000;
                self.policy.finish(task);
                self.policy.arrive(next, Arrival { task, write: load.write, sector, sectors: 8 });
            }
            self.now = next;
            // Each task has one outstanding.
            let latency = Nanos(u64::from(load.tasks) * elapsed.0);
            let work = Work { ios, bytes: ios * 4096, latency };
            let tick = Tick { now: self.now, work, clean: true, in_force: self.in_force };
            let decision = self.policy.tick(&tick);
            if let Some(candidate) = decision.switch_to {
                self.switches += 1;
                self.switches_of_trials += u64::from(matches!(decision.reason, Reason::Trial | Reason::TrialOver));
                self.in_force = candidate;
                self.history.push((self.now, candidate));
            }
            next = decision.next;
        }
    }
}

fn by_trial() -> Settings {
    Settings { by: By::Trial, goal: Goal::Throughput, ..Settings::default() }
}

#[test]
fn each_workload_gets_its_best_candidate_and_a_known_one_gets_it_again_at_once() {
    let mut world = World::new(by_trial());
    world.run(&RANDOM, 40);
    assert_eq!(world.in_force, 0);
    world.run(&STREAMS, 40);
    assert_eq!(world.in_force, 1);
    for _ in 0..3 {
        let back = world.now;
        world.run(&RANDOM, 20);
        assert_eq!(world.in_force, 0);
        let found = world.history.iter().find(|(at, candidate)| *at >= back && *candidate == 0);
        assert!(found.is_some_and(|(at, _)| at.since(back) <= Nanos::from_ms(2500)), "{:?} after {back}", found);
        world.run(&STREAMS, 20);
        assert_eq!(world.in_force, 1);
    }
    assert!(world.policy.scores().len() <= 4, "transitions are no workloads: {}", world.policy.scores().len());
}

#[test]
fn a_winner_that_rests_on_the_state_that_another_one_left_costs_little() {
    for seconds in [2, 8, 25] {
        let load = Load { out_of_step: Nanos::from_secs(seconds), ..STREAMS };
        let mut world = World::new(by_trial());
        for _ in 0..6 {
            world.run(&RANDOM, 30);
            world.run(&load, 30);
        }
        let share = world.work_done / world.best_possible;
        assert!(share > 0.9, "{seconds} s: {share} of always the best without that state; {:?}", world.history);
    }
}

#[test]
fn trials_cost_no_more_than_their_bound() {
    for load in [RANDOM, Load { rates: [100.0, 5.0, 1.0, 2.0], ..RANDOM }, Load { rates: [100.0; 4], ..RANDOM }] {
        let mut world = World::new(by_trial());
        world.run(&load, 300);
        let lost = 300.0 * (1.0 - world.work_done / world.best_possible);
        let Settings { allowance, regret, slot, .. } = by_trial();
        let bound = allowance.as_secs_f64() + f64::from(regret) / 1000.0 * 300.0 + 2.0 * slot.as_secs_f64();
        assert!(lost <= bound, "{:?}: {lost} s of {bound} s", load.rates);
    }
}

#[test]
fn a_steady_hour_sees_no_needless_switch() {
    let mut world = World::new(by_trial());
    world.run(&RANDOM, 120);
    let before = world.switches;
    world.run(&RANDOM, 3600);
    assert!(world.switches - before <= 1, "{}", world.switches - before);
}

#[test]
fn workloads_that_alternate_too_fast_are_not_followed() {
    let mut world = World::new(by_trial());
    world.run(&RANDOM, 60);
    world.run(&STREAMS, 60);
    let (before, trials) = (world.switches, world.switches_of_trials);
    let start = world.now;
    for _ in 0..60 {
        world.run(&RANDOM, 1);
        world.run(&STREAMS, 1);
    }
    let dwell = by_trial().dwell;
    let others = world.switches - before - (world.switches_of_trials - trials);
    assert!(others <= world.now.since(start).0 / dwell.0 + 1, "{others}");
}

#[test]
fn a_table_that_is_wrong_is_reverted() {
    let settings = Settings { by: By::Model, ..Settings::default() };
    let mut prior = Prior::default();
    // It says that candidate 3 is best for random reads, which is the worst.
    prior.add(Signature::of([0.0, 0.0, 0.25, 0.25]), vec![1.0, 1.0, 1.0, 2.0]);
    let mut world = World { policy: Policy::new(4, 0, settings, prior), ..World::new(settings) };
    let load = Load { rates: [100.0, 90.0, 80.0, 50.0], ..RANDOM };
    world.run(&load, 120);
    assert!(world.history.len() >= 2 && world.history[0].1 == 3 && world.history[1].1 == 0, "{:?}", world.history);
    assert!(world.work_done > 0.85 * world.best_possible, "{}", world.work_done / world.best_possible);
}

#[test]
fn an_unknown_load_keeps_what_is_there_by_model() {
    let mut prior = Prior::default();
    prior.add(Signature::of([1.0, 1.0, 0.9, 0.0]), vec![1.0, 1.0, 1.0, 2.0]);
    let settings = Settings { by: By::Model, ..Settings::default() };
    let mut world = World { policy: Policy::new(4, 0, settings, prior), ..World::new(settings) };
    world.run(&RANDOM, 30);
    assert_eq!(world.switches, 0);
}

#[test]
fn a_candidate_that_the_table_does_not_know_is_tried() {
    for by in [By::Model, By::Both] {
        let settings = Settings { by, ..Settings::default() };
        let mut prior = Prior::default();
        // It knows candidates 0 and 1; the best one is 2.
        prior.add(Signature::of([0.0, 0.0, 0.25, 0.25]), vec![1.0, 0.9, 0.0, 0.0]);
        let mut world = World { policy: Policy::new(4, 0, settings, prior), ..World::new(settings) };
        world.run(&Load { rates: [100.0, 90.0, 200.0, 50.0], ..RANDOM }, 60);
        assert_eq!(world.in_force, 2, "{by:?}: {:?}", world.history);
    }
}

#[test]
fn a_table_proposes_and_the_trial_decides() {
    let settings = Settings { by: By::Both, ..Settings::default() };
    let mut prior = Prior::default();
    // It rules out candidates 2 and 3 for streams.
    prior.add(Signature::of([1.0, 0.0, 0.25, 0.215]), vec![1.0, 1.2, 0.2, 0.2]);
    let mut world = World { policy: Policy::new(4, 0, settings, prior), ..World::new(settings) };
    world.run(&STREAMS, 30);
    assert_eq!(world.in_force, 1);
    assert!(world.history.iter().all(|(_, candidate)| *candidate < 2), "{:?}", world.history);
}

#[test]
fn a_proposal_that_loses_is_undone_and_trials_decide_then() {
    let settings = Settings { by: By::Both, ..Settings::default() };
    let mut prior = Prior::default();
    // It rules out all but candidate 3, which is the worst; candidate 1 is the best.
    prior.add(Signature::of([0.0, 0.0, 0.25, 0.25]), vec![0.1, 0.1, 0.1, 2.0]);
    let mut world = World { policy: Policy::new(4, 0, settings, prior), ..World::new(settings) };
    world.run(&Load { rates: [100.0, 140.0, 80.0, 50.0], ..RANDOM }, 120);
    let first: Vec<usize> = world.history.iter().map(|(_, candidate)| *candidate).take(2).collect();
    assert_eq!((first, world.in_force), (vec![3, 0], 1), "{:?}", world.history);
}

#[test]
fn a_load_of_the_table_gets_its_scheduler_within_half_a_second() {
    for by in [By::Model, By::Both] {
        let settings = Settings { by, ..Settings::default() };
        let mut prior = Prior::default();
        prior.add(Signature::of([0.0, 0.0, 0.25, 0.25]), vec![1.0, 0.4, 0.4, 0.4]);
        prior.add(Signature::of([1.0, 0.0, 0.25, 0.215]), vec![0.1, 1.0, 0.1, 0.1]);
        let mut world = World { policy: Policy::new(4, 0, settings, prior), ..World::new(settings) };
        world.run(&RANDOM, 20);
        let changed = world.now;
        world.run(&STREAMS, 20);
        let found = world.history.iter().find(|(at, candidate)| *at > changed && *candidate == 1);
        // Each of the tasks has submitted about six I/Os by then.
        let limit = changed + Nanos::from_ms(500);
        assert!(found.is_some_and(|(at, _)| *at <= limit), "{by:?}: {:?}", world.history);
        assert_eq!(world.switches, 1, "{by:?}: {:?}", world.history);
    }
}

#[test]
fn a_tables_own_interval_counts_where_it_is_wider_than_the_hysteresis() {
    let settings = Settings { by: By::Model, ..Settings::default() };
    for (spread, switches) in [(0.0, 1), (0.1, 0)] {
        let mut prior = Prior::default();
        let load = Signature::of([0.0, 0.0, 0.25, 0.25]);
        let scores = vec![1.0, 1.05, 1.0, 1.0];
        prior.add_row(Row { load, scores, spreads: vec![spread; 4], ..Row::default() });
        let mut world = World { policy: Policy::new(4, 0, settings, prior), ..World::new(settings) };
        world.run(&Load { rates: [100.0; 4], ..RANDOM }, 20);
        assert_eq!(world.switches, switches, "{spread}: {:?}", world.history);
    }
}

#[test]
fn what_was_learned_outlives_the_policy_as_far_as_its_candidates_are_there() {
    let names = ["a", "b", "c", "d"].map(str::to_owned);
    let mut world = World::new(by_trial());
    world.run(&RANDOM, 40);
    world.run(&STREAMS, 40);
    let memory = world.policy.memory(&names);
    let text = serde_json::to_string(&memory).unwrap();
    let memory: Memory = serde_json::from_str(&text).unwrap();
    assert!(memory.is_sound() && memory.workloads.len() >= 2, "{text}");
    let remembering = |names: &[String]| {
        let mut policy = Policy::new(names.len(), 0, by_trial(), Prior::default());
        policy.remember(&memory, names);
        policy
    };
    let policy = remembering(&names);
    assert_eq!(policy.memory(&names), memory);
    let mut again = World { policy, ..World::new(by_trial()) };
    again.run(&STREAMS, 10);
    assert_eq!(again.history.iter().map(|(_, to)| *to).collect::<Vec<_>>(), [1], "no trial");
    let without = remembering(&[names[0].clone(), names[2].clone(), names[3].clone()]);
    assert!(without.scores().len() < memory.workloads.len(), "the best candidate for streams is gone");
    let more = remembering(&[&names[..], &["e".to_owned()]].concat());
    assert!(more.scores().iter().all(|scores| scores.winner().is_none()), "a new candidate is tried");
    let mut broken = memory.clone();
    broken.workloads[0].weight = 0.0;
    let mut policy = Policy::new(4, 0, by_trial(), Prior::default());
    policy.remember(&broken, &names);
    assert!(policy.scores().is_empty());
}

#[test]
fn a_lead_too_small_for_two_samples_gets_more() {
    let mut world = World::new(by_trial());
    let rates = [63.390824760919855, 455.98278760629705, 1084.01352280036, 1310.9347987679055];
    world.run(&Load { tasks: 4, rates, ..RANDOM }, 300);
    assert_eq!(world.in_force, 3, "{:?}", world.history);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Whatever the rates: no panic, the next tick is later, and the end is close to the best of a long run.
    #[test]
    fn any_rates_end_near_the_best(rates in prop::array::uniform4(30.0f64..2000.0), sequential in any::<bool>()) {
        let mut world = World::new(by_trial());
        let load = Load { tasks: 4, sequential, write: sequential, rates, ..RANDOM };
        world.run(&load, 300);
        let best = rates.iter().copied().fold(0.0, f64::max);
        prop_assert!(rates[world.in_force] >= 0.85 * best, "{:?}: {}", rates, world.in_force);
    }
}
