//! Search space: schedulers, their settings, and limits of the queue.

use dumbwaiter_advise::tune::{Range, Setting, Space};
use dumbwaiter_scenario::{Scenario, SchedulerSpec};
use dumbwaiter_schedulers::{Choice, find};

use super::TuneOptions;
use crate::Failure;

/// A scheduler depth is searched at these values.
const NR_REQUESTS: &[i128] = &[16, 32, 128, 256, 512];
/// The depth of a SATA drive at these.
const QUEUE_DEPTHS: &[i128] = &[1, 2, 4, 8, 16];

/// The schedulers of a search.
pub(super) fn schedulers(
    options: &TuneOptions,
    scenario: &Scenario,
    offered: &[String],
) -> Result<Vec<SchedulerSpec>, Failure> {
    let given = if options.schedulers.is_empty() { &scenario.schedulers } else { &options.schedulers };
    let wanted: Vec<SchedulerSpec> = match options.schedulers.is_empty() {
        // A scheduler that is listed with other settings too is searched once.
        true => given.iter().filter(|s| offered.contains(&s.name)).map(|s| SchedulerSpec::named(&s.name)).collect(),
        false => given.clone(),
    };
    let mut different: Vec<SchedulerSpec> = Vec::new();
    for spec in wanted {
        if !different.contains(&spec) {
            different.push(spec);
        }
    }
    for spec in &different {
        Choice::parse_stack(&spec.to_string()).map_err(|e| Failure::refused(format!("--scheduler: {e}")))?;
    }
    if different.is_empty() {
        let names = given.iter().map(|s| s.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(Failure::refused(format!(
            "the scenario has no scheduler that a kernel offers, only {names}; name one with --scheduler"
        )));
    }
    Ok(different)
}

/// The search space of a scheduler: its settings that matter, and limits of the queue that can be set.
pub(super) fn space(spec: &SchedulerSpec, scenario: &Scenario, sata_depth: Option<u32>) -> Space {
    let searched = find(&spec.name).map_or(&[][..], |entry| entry.searched());
    let free = searched.iter().filter(|s| !spec.tunables.contains_key(s.name));
    let mut ranges: Vec<Range> =
        free.map(|s| Range { setting: Setting::Tunable(s.name.to_owned()), values: s.values.to_vec() }).collect();
    // Without a scheduler the kernel has no depth of its own.
    if spec.name != "none" && scenario.nr_requests.is_none() {
        ranges.push(Range { setting: Setting::NrRequests, values: NR_REQUESTS.to_vec() });
    }
    if let Some(depth) = sata_depth.filter(|_| scenario.queue_depth.is_none()) {
        let values = QUEUE_DEPTHS.iter().copied().filter(|d| *d < i128::from(depth)).collect();
        ranges.push(Range { setting: Setting::QueueDepth, values });
    }
    Space { scheduler: spec.clone(), ranges }
}
