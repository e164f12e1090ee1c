//! Every scheduler is exchanged for every other while requests are in it, in both ways, and back again.

use dumbwaiter_block::{Handover, Nanos};
use dumbwaiter_schedulers::REGISTRY;
use dumbwaiter_testkit::Harness;
use dumbwaiter_testkit::storm::plan::{self, Plan};
use dumbwaiter_testkit::storm::{Checked, audit, take};
use proptest::prelude::*;

use super::{cases, make};

/// The way there, and the way back.
const WAYS: [(Handover, Handover); 3] =
    [(Handover::Live, Handover::Live), (Handover::Freeze, Handover::Live), (Handover::Live, Handover::Freeze)];

fn run(names: [&str; 2], ways: (Handover, Handover), plan: &Plan) -> Harness {
    // Default settings: with some of the greatest a scheduler idles for years.
    let scheduler = |name: &str, setup| Checked::around(make(name, &[15], setup), setup);
    let mut harness = Harness::new(plan.config(), |setup| scheduler(names[0], setup));
    harness.hold();
    let third = plan.steps.len().div_ceil(3);
    for (i, step) in plan.steps.iter().enumerate() {
        if i == third {
            harness.replace(|setup| scheduler(names[1], setup), ways.0);
        } else if i == 2 * third {
            harness.replace(|setup| scheduler(names[0], setup), ways.1);
        }
        take(&mut harness, step);
        audit::depths(&harness);
    }
    harness.unplug_all();
    harness.release();
    harness
}

proptest! {
    #![proptest_config(cases(16))]

    /// Nothing is lost, doubled, mixed up or sent before the flush that it asked for, and the device is never overfull.
    #[test]
    fn every_scheduler_replaces_every_other_in_mid_storm(plan in plan::everything()) {
        for from in REGISTRY {
            for to in REGISTRY {
                for ways in WAYS {
                    let told = format!("{} for {}, {ways:?}", to.name, from.name);
                    let harness = std::panic::catch_unwind(|| run([from.name, to.name], ways, &plan)).map_err(|why| {
                        let text = why.downcast_ref::<String>().map_or("panicked", String::as_str);
                        TestCaseError::fail(format!("{told}: {text}"))
                    })?;
                    audit::conservation(&harness, &plan).map_err(|why| TestCaseError::fail(format!("{told}: {why}")))?;
                    let switches = harness.layer().switches();
                    let asked = (plan.steps.len() > plan.steps.len().div_ceil(3)) as u64
                        + (plan.steps.len() > 2 * plan.steps.len().div_ceil(3)) as u64;
                    // A freeze that is still under way when the next exchange is asked for gives way to it.
                    let least = if ways.0 == Handover::Freeze { asked.min(1) } else { asked };
                    prop_assert!((least..=asked).contains(&switches.count), "{}: {:?}", told, switches);
                    if ways == (Handover::Live, Handover::Live) {
                        prop_assert_eq!(switches.pause, Nanos::ZERO, "{}", told);
                    }
                }
            }
        }
    }
}
