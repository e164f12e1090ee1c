//! A scheduler around another, and the only candidate of `adaptive`, is to the block layer as it is alone.

use std::collections::BTreeMap;

use dumbwaiter_block::{Context, Setup, Stack, State};
use dumbwaiter_schedulers::{Choice, REGISTRY};
use dumbwaiter_testkit::Harness;
use dumbwaiter_testkit::storm::plan::{self, Plan};
use dumbwaiter_testkit::storm::{Checked, take};
use proptest::prelude::*;

use super::cases;

/// A scheduler's state as the block layer and the device see it at this moment, apart from the order of dispatch.
fn seen(harness: &Harness) -> Vec<String> {
    let layer = harness.layer();
    let (scheduler, requests, setup) = (layer.scheduler(), layer.requests(), &layer.config().setup);
    let ctx = Context { now: harness.now(), requests, tenants: layer.tenants(), busy: false };
    let nr_requests = setup.nr_requests;
    let mut seen = vec![
        format!("{:?}, classes {:?}", scheduler.traits(), scheduler.class_weights()),
        format!("smallest limit {}", scheduler.smallest_limit(nr_requests)),
        format!("work {:?}", (0..setup.hw_queues).map(|hw| scheduler.has_work(hw.into())).collect::<Vec<_>>()),
    ];
    for (id, request) in requests.iter() {
        let io = &request.io;
        seen.push(format!("{} limit {}", id.0, scheduler.limit(io, nr_requests)));
        match request.state {
            State::Queued => seen.push(format!(
                "{} between {:?} and {:?}, merges {}",
                id.0,
                scheduler.former(id),
                scheduler.latter(id),
                scheduler.allow_merge(id, io, &ctx)
            )),
            State::Issued => seen.push(format!("{} class {}", id.0, scheduler.device_class(id))),
            _ => {}
        }
    }
    seen
}

fn counters(harness: &Harness) -> BTreeMap<&'static str, u64> {
    let mut counters = BTreeMap::new();
    harness.layer().scheduler().counters(&mut |name, count| {
        counters.insert(name, count);
    });
    counters
}

fn harness(plan: &Plan, make: impl FnOnce(Setup) -> Stack) -> Harness {
    let mut harness = Harness::new(plan.config(), make);
    harness.hold();
    harness
}

fn wrapped_is_as_bare(name: &str, plan: &Plan) -> Result<(), TestCaseError> {
    let choice = Choice::parse(name).unwrap();
    let mut all = vec![
        harness(plan, |setup| choice.build(setup)),
        harness(plan, |setup| Checked::around(choice.build(setup), setup)),
    ];
    // It is not put around itself. A `+` separates candidates. Each look at the load is a timer, after which all queues are
    // asked: here there is none.
    if name != "adaptive" {
        let candidate = name.trim_end_matches('+');
        let adaptive = Choice::parse(&format!("adaptive:candidates={candidate},period_ms=60000")).unwrap();
        all.push(harness(plan, |setup| adaptive.build(setup)));
    }
    for step in &plan.steps {
        for harness in &mut all {
            take(harness, step);
        }
        let bare = seen(&all[0]);
        for wrapped in &all[1..] {
            prop_assert_eq!(&bare, &seen(wrapped), "{}", name);
        }
    }
    for harness in &mut all {
        harness.unplug_all();
        harness.release();
    }
    for wrapped in &all[1..] {
        prop_assert_eq!(all[0].all_issued(), wrapped.all_issued(), "{}", name);
        prop_assert_eq!(counters(&all[0]), counters(wrapped), "{}", name);
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(16))]

    /// Limits, neighbours, classes, counters and the order of dispatch, for every entry of the registry.
    #[test]
    fn a_scheduler_around_another_is_as_that_one(plan in plan::everything()) {
        for entry in REGISTRY {
            wrapped_is_as_bare(entry.name, &plan)?;
        }
    }
}
