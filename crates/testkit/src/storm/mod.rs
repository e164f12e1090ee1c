//! Storms: random workloads under a scheduler, and what must hold of it whatever its policy.
//!
//! CPUs, hardware queues, tasks, tenants, priorities, operations, plugs, flushes, merges, splits, refusals, requeues, failures and
//! settings are drawn at random, and the device finishes in random order. See [`audit`] for what must then hold.

pub mod audit;
mod checked;
pub mod plan;

use std::panic::{AssertUnwindSafe, catch_unwind};

use dumbwaiter_block::{Op, Setup, Stack};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

pub use self::checked::Checked;
use self::plan::{Plan, Step};
use crate::Harness;

/// Builds a scheduler with its controllers; the numbers are for settings that are drawn at random.
pub type Make<'a> = &'a dyn Fn(&[u64], Setup) -> Stack;

/// Runs a plan to its end. With `checked` each call is checked from both sides, and copies of the scheduler take over.
///
/// # Panics
/// If the scheduler breaks its contract.
pub fn run(make: Make<'_>, plan: &Plan, checked: bool) -> Harness {
    let mut harness = Harness::new(plan.config(), |setup| {
        let stack = make(&plan.draws, setup);
        if checked { Checked::around(stack, setup) } else { stack }
    });
    harness.hold();
    for step in &plan.steps {
        take(&mut harness, step);
        if checked {
            audit::depths(&harness);
            audit::tags(&harness);
        }
    }
    harness.unplug_all();
    harness.release();
    harness
}

/// Takes one step of a plan.
pub fn take(harness: &mut Harness, step: &Step) {
    match *step {
        Step::Submit(io, false) => harness.submit_io(io),
        Step::Submit(io, true) => harness.submit_plugged(io),
        Step::Unplug(task) => harness.unplug(task),
        Step::Refuse(n) => _ = harness.answers(&"n".repeat(n)),
        Step::Wait(ms) => {
            let now = harness.now();
            harness.until(now + ms);
        }
        Step::Complete(n) | Step::Fail(n) | Step::Requeue(n) => {
            let len = harness.in_device().len();
            let flush = harness.in_device().nth(n % len.max(1)).map(|i| i.io.op == Op::Flush);
            if let Some(flush) = flush {
                let n = n % len;
                match step {
                    Step::Requeue(_) => harness.requeue_nth(n),
                    _ => harness.complete_nth(n, matches!(step, Step::Fail(_)) && !flush),
                }
            }
        }
    }
    harness.issue_all();
}

/// A storm's violation of an invariant.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The violated invariant.
    pub reason: String,
    /// The shortest workload found that shows it.
    pub plan: Plan,
}

/// Time for finding a shorter workload. A scheduler that stalls takes long to be found out.
const SHRINK_MS: u32 = 10_000;

/// Runs `cases` storms on a scheduler, the same for the same seed. Stops at the first that breaks it, with the shortest workload
/// that does.
pub fn check(make: Make<'_>, cases: u32, seed: u64) -> Result<(), Broken> {
    check_unless(make, cases, seed, &|| false)
}

/// As [`check`]; no other storm is begun once `cancelled` says so, and the answer then means nothing.
pub fn check_unless(make: Make<'_>, cases: u32, seed: u64, cancelled: &dyn Fn() -> bool) -> Result<(), Broken> {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 2000,
        max_shrink_time: SHRINK_MS,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    // The first that is not run fails, so that no other is drawn; shorter forms of it pass, so that none is tried.
    let ended = std::cell::Cell::new(false);
    let one = |plan: Plan| {
        if cancelled() {
            return if ended.replace(true) { Ok(()) } else { Err(TestCaseError::fail("cancelled")) };
        }
        let ran = catch_unwind(AssertUnwindSafe(|| run(make, &plan, true)));
        let harness = ran.map_err(|why| TestCaseError::fail(told(&*why)))?;
        if let Some(fault) = harness.layer().fault() {
            return Err(TestCaseError::fail(fault.to_string()));
        }
        audit::conservation(&harness, &plan).map_err(TestCaseError::fail)
    };
    match runner.run(&plan::everything(), one) {
        Ok(()) => Ok(()),
        Err(TestError::Fail(reason, plan)) => Err(Broken { reason: reason.message().to_owned(), plan }),
        Err(TestError::Abort(reason)) => unreachable!("no case is rejected: {reason}"),
    }
}

fn told(why: &(dyn std::any::Any + Send)) -> String {
    let text = why.downcast_ref::<String>().map(String::as_str).or_else(|| why.downcast_ref::<&str>().copied());
    // The further lines are the state of the whole block layer.
    text.and_then(|text| text.lines().next()).unwrap_or("panicked").to_owned()
}
