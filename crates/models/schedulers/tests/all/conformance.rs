//! Duties of every scheduler, whatever its policy. Driven by the registry: a new entry is tested by being there.
//!
//! Random workloads (CPUs, hardware queues, tasks, tenants, priorities, operations, plugs, flushes, merges, splits,
//! refusals, requeues, failures, settings) run against a device that finishes in random order. See
//! [`audit`] for what must then hold.

mod abandon;
mod bounds;
mod replace;
mod wrapped;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dumbwaiter_block::{Nanos, RequestId, Setup, Stack, State};
use dumbwaiter_schedulers::{Choice, REGISTRY};
use dumbwaiter_testkit::Harness;
use dumbwaiter_testkit::storm::plan::{self, Plan, Step};
use dumbwaiter_testkit::storm::{self, Checked, audit};
use proptest::prelude::*;

/// Every entry of the registry, and every kernel it can follow.
fn subjects() -> Vec<String> {
    REGISTRY
        .iter()
        .flat_map(|e| {
            let versions = e.versions().iter().skip(1).map(|v| format!("{}:{v}", e.name));
            std::iter::once(e.name.to_owned()).chain(versions)
        })
        .collect()
}

/// The scheduler with settings drawn from their ranges.
fn make(subject: &str, draws: &[u64], setup: Setup) -> Stack {
    let mut choice = Choice::parse(subject).unwrap();
    for (tunable, draw) in choice.entry().tunables.iter().zip(draws.iter().cycle()) {
        let small = (i128::from(*draw) / 4 % 40).clamp(tunable.min, tunable.max);
        let value = match draw % 16 {
            0 => tunable.min,
            1 => tunable.max,
            2..7 => small,
            _ => tunable.default,
        };
        choice.with(tunable.name, &value.to_string()).unwrap();
    }
    choice.build(setup)
}

/// Runs a plan to its end and checks the harness on the way; a panic is an error that names the scheduler.
fn run(subject: &str, plan: &Plan, checked: bool) -> Result<Harness, TestCaseError> {
    let scheduler = |draws: &[u64], setup| make(subject, draws, setup);
    std::panic::catch_unwind(|| storm::run(&scheduler, plan, checked)).map_err(|why| {
        let text = why.downcast_ref::<String>().map_or("panicked", String::as_str);
        TestCaseError::fail(format!("{subject}: {text}"))
    })
}

pub(crate) fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, max_shrink_iters: 1000, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(400))]

    /// Conservation, drain, depths, merge correctness and the contract, for every scheduler. The same plan gives the same
    /// order, and so does a copy that takes over in mid-run. One test, as the second run of a plan serves both.
    #[test]
    fn every_scheduler_conserves_and_repeats_itself(plan in plan::everything()) {
        for subject in subjects() {
            let first = run(&subject, &plan, false)?;
            let again = run(&subject, &plan, true)?;
            audit::conservation(&again, &plan).map_err(|why| TestCaseError::fail(format!("{subject}: {why}")))?;
            prop_assert_eq!(first.all_issued(), again.all_issued(), "{}", subject);
        }
    }

    /// With room in the device and something queued, something is issued within 3 ms and a tick, unless the scheduler
    /// says that it waits.
    #[test]
    fn no_scheduler_wastes_the_device(plan in plan::plain()) {
        for subject in subjects() {
            work_is_conserved(&subject, &plan)?;
        }
    }
}

/// Reads and writes of one priority, no plugs, time enough after each step for a scheduler that was unwilling.
fn work_is_conserved(subject: &str, plan: &Plan) -> Result<(), TestCaseError> {
    let mut config = plan.config();
    config.setup.hw_queues = 1;
    let waits = Arc::new(AtomicBool::new(false));
    let mut harness = Harness::new(config, |setup| {
        let stack = make(subject, &[3], setup);
        let checked = Checked::new(stack.scheduler, setup).telling(Arc::clone(&waits));
        Stack { scheduler: Box::new(checked), controllers: stack.controllers }
    });
    harness.hold();
    for step in &plan.steps {
        match *step {
            Step::Submit(io, _) => harness.submit_io(io),
            Step::Refuse(n) => _ = harness.answers(&"n".repeat(n)),
            Step::Complete(n) => {
                let held = harness.in_device().len();
                if held > 0 {
                    harness.complete_nth(n % held, false);
                }
            }
            _ => {}
        }
        harness.issue_all();
        let room = harness.in_device().len() < config.setup.commands() as usize;
        let requests = harness.layer().requests();
        let queued = (0..requests.capacity() as u32)
            .map(|i| requests[RequestId(i)].state)
            .filter(|s| matches!(s, State::Queued | State::Dispatched))
            .count();
        if room && queued > 0 {
            let (before, now) = (harness.all_issued().len(), harness.now());
            harness.accept();
            harness.until(now + Nanos::from_ms(3 + 4));
            let issued = harness.all_issued().len();
            let says_so = waits.load(Ordering::Relaxed);
            prop_assert!(
                issued > before || says_so,
                "{subject}: {queued} queued at {now}, room in the device, nothing issued"
            );
        }
    }
    harness.release();
    prop_assert_eq!(harness.layer().ledger().imbalance(), None);
    Ok(())
}

/// A new scheduler has the settings that the registry says.
#[test]
fn defaults_are_those_of_the_registry() {
    for entry in REGISTRY {
        let scheduler = Choice::parse(entry.name).unwrap().build(Setup::default());
        assert_eq!(scheduler.tunables(), entry.tunables);
        for tunable in entry.tunables.iter().filter(|t| t.name != "async_depth") {
            assert_eq!(scheduler.get(tunable.name), Some(tunable.default), "{} {}", entry.name, tunable.name);
        }
        assert_eq!(scheduler.get("no such setting"), None);
    }
}

/// The manual has all its chapters and names every setting.
#[test]
fn manuals_are_complete() {
    for entry in REGISTRY {
        let mut from = 0;
        for heading in
            ["What it does", "When to use it", "When not", "Tunables", "Differences from the source", "How sure are we"]
        {
            let at = entry.manual[from..].find(&format!("\n## {heading}\n"));
            from += at.unwrap_or_else(|| panic!("{}.md: no heading `{heading}` in its place", entry.name));
        }
        for tunable in entry.tunables {
            assert!(entry.manual.contains(&format!("`{}`", tunable.name)), "{}.md: `{}`", entry.name, tunable.name);
        }
    }
}
