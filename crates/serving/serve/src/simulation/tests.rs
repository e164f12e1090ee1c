//! Properties of every simulation.

use dumbwaiter_block::Nanos;
use dumbwaiter_schedulers::REGISTRY;

use super::drive::Faults;
use super::{Plan, Simulation};

/// Seeds that are tried: `DUMBWAITER_SIMULATIONS`, 6 if it is not set.
fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("DUMBWAITER_SIMULATIONS").ok().and_then(|text| text.parse().ok());
    let first = std::env::var("DUMBWAITER_SIMULATION_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    first..first + count.unwrap_or(6u64)
}

fn run(plan: &Plan) -> super::Outcome {
    let mut simulation = Simulation::new(plan.clone());
    simulation.run();
    simulation.shut_down()
}

#[test]
fn the_ledger_balances_and_reads_see_what_was_written_whatever_happens() {
    let (mut answers, mut merged, mut switches, mut violations, mut failed) = (0, 0, 0, 0, 0);
    let (mut machines, mut restarts, mut refused) = (0, 0, 0);
    for seed in seeds() {
        let outcome = run(&Plan::new(seed, "headway"));
        answers += outcome.answers;
        merged += outcome.merged;
        switches += outcome.switches;
        violations += outcome.violations;
        failed += outcome.failed;
        (machines, restarts) = (machines + outcome.machine_answers, restarts + outcome.restarts);
        refused += outcome.refused;
    }
    // The runs tried everything that they are to try.
    assert!(answers > 2_000, "{answers} answers");
    assert!(merged > 0 && switches > 0 && violations > 0 && failed > 0, "{merged} {switches} {violations} {failed}");
    assert!(machines > 1_000 && restarts > 0 && refused > 0, "{machines} {restarts} {refused}");
}

#[test]
fn one_seed_gives_one_result() {
    let outcome = run(&Plan::new(1, "headway"));
    assert_eq!(outcome, run(&Plan::new(1, "headway")));
    assert_ne!(outcome.digest, run(&Plan::new(2, "headway")).digest);
}

#[test]
fn what_was_flushed_or_written_through_survives_the_loss_of_power() {
    let mut promised = 0;
    for seed in seeds() {
        // Cut off at any moment, with requests in flight.
        let length = Nanos::from_ms(20 + 37 * (seed % 10));
        let mut simulation = Simulation::new(Plan { length, ..Plan::new(seed, "headway") });
        simulation.run();
        let counts = simulation.lose_power();
        promised += counts.get("by FUA").unwrap_or(&0) + counts.get("by a flush").unwrap_or(&0);
    }
    assert!(promised > 200, "{promised} sectors were promised");
}

#[test]
fn every_scheduler_serves_every_request_once() {
    let only = std::env::var("DUMBWAITER_SIMULATION_SCHEDULER").ok();
    for (at, entry) in REGISTRY.iter().enumerate() {
        if only.as_ref().is_some_and(|name| name != entry.name) {
            continue;
        }
        let faults = Faults { error_one_in: 300, busy_one_in: 20 };
        let length = Nanos::from_ms(80);
        let plan = Plan { length, changes: false, faults, ..Plan::new(11 + at as u64, entry.name) };
        let outcome = run(&plan);
        // Those that wait for the next request of a task do little in this time.
        assert!(outcome.answers > 20, "{}: {} answers", entry.name, outcome.answers);
    }
}

#[test]
fn clients_that_behave_get_an_answer_to_everything() {
    let mut machine_answers = 0;
    for seed in seeds().take(4) {
        let faults = Faults::default();
        let mut simulation =
            Simulation::new(Plan { hostile: false, changes: false, faults, ..Plan::new(seed, "headway") });
        simulation.run();
        simulation.settle();
        let outcome = simulation.shut_down();
        assert_eq!(outcome.violations, 0);
        assert!(simulation.log.lock().unwrap().is_empty(), "{:?}", simulation.log.lock().unwrap());
        machine_answers += outcome.machine_answers;
    }
    // Of all seeds together: on a disk with slow seeks a machine may give up before its first turn.
    assert!(machine_answers > 100, "{machine_answers} answers");
}
