//! Search space: schedulers, their settings, and limits of the queue.

use dumbwaiter_advise::tune::{Candidate, Range, Setting, Space};
use dumbwaiter_scenario::{Scenario, SchedulerSpec};
use dumbwaiter_schedulers::{Choice, find};

use super::TuneOptions;
use crate::Failure;

/// A scheduler depth is searched at these values.
const NR_REQUESTS: &[i128] = &[16, 32, 128, 256, 512];
/// The depth of a SATA drive at these.
const QUEUE_DEPTHS: &[i128] = &[1, 2, 4, 8, 16];

/// Write-back throttling is searched at these targets, µs; 0 is off.
const WBT_US: &[i128] = &[0, 1_000, 5_000, 20_000, 75_000];
/// The scheduler under which the kernel has none.
const WITHOUT_WBT: &str = "bfq";
/// Read-ahead is searched at these values beside the kernel's 128 KiB.
const READ_AHEAD_KB: &[i128] = &[32, 512, 2048];

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

/// What can be set beside the scheduler.
#[derive(Clone, Copy)]
pub(super) struct Settable<'a> {
    /// Depth of a SATA drive.
    pub(super) sata_depth: Option<u32>,
    /// Read-ahead.
    pub(super) read_ahead: bool,
    /// Whether a stack can run: a kernel may lack a controller.
    pub(super) takes: &'a dyn Fn(SchedulerSpec) -> bool,
}

/// The search space of a scheduler: its settings that matter, limits of the queue that can be set, and what stands before it where
/// the load passes it.
pub(super) fn space(spec: &SchedulerSpec, scenario: &Scenario, settable: Settable<'_>) -> Space {
    let searched = find(&spec.name).map_or(&[][..], |entry| entry.searched());
    let free = searched.iter().filter(|s| !spec.tunables.contains_key(s.name));
    let mut ranges: Vec<Range> =
        free.map(|s| Range { setting: Setting::Tunable(s.name.to_owned()), values: s.values.to_vec() }).collect();
    // Without a scheduler the kernel has no depth of its own.
    if spec.name != "none" && scenario.nr_requests.is_none() {
        ranges.push(Range { setting: Setting::NrRequests, values: NR_REQUESTS.to_vec() });
    }
    let stack = |range: &Range| Candidate::of(spec.clone()).with(&range.setting, range.values[0]).scheduler;
    ranges.extend(before(spec, scenario).into_iter().filter(|range| (settable.takes)(stack(range))));
    if settable.read_ahead && scenario.host.read_ahead_kb.is_none() && scenario.reads_through_cache() {
        ranges.push(Range { setting: Setting::ReadAheadKb, values: READ_AHEAD_KB.to_vec() });
    }
    if let Some(depth) = settable.sata_depth.filter(|_| scenario.queue_depth.is_none()) {
        let values = QUEUE_DEPTHS.iter().copied().filter(|d| *d < i128::from(depth)).collect();
        ranges.push(Range { setting: Setting::QueueDepth, values });
    }
    Space { scheduler: spec.clone(), ranges }
}

/// What stands before a scheduler and is not given: write-back throttling where something passes it, io.cost where weights differ.
fn before(spec: &SchedulerSpec, scenario: &Scenario) -> Vec<Range> {
    let given = spec.controls.or(scenario.kernel.controls);
    let throttles =
        given.wbt.is_none() && given.io_cost.is_none() && spec.name != WITHOUT_WBT && scenario.is_throttled();
    let first = scenario.tenants.first().map_or(0, |tenant| tenant.weight);
    let weighted = scenario.tenants.iter().any(|tenant| tenant.weight != first);
    let shares = given.io_cost.is_none() && weighted && spec.name != WITHOUT_WBT;
    let wbt = throttles.then(|| Range { setting: Setting::WbtUs, values: WBT_US.to_vec() });
    let io_cost = shares.then(|| Range { setting: Setting::IoCost, values: vec![1] });
    wbt.into_iter().chain(io_cost).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = "[[tenant]]\nname = \"a\"\nweight = 300\n[[tenant.task]]\nname = \"w\"\nrw = \"write\"\ndirect = false\n\
                            [[tenant]]\nname = \"b\"\n[[tenant.task]]\nname = \"r\"\nrw = \"read\"\ndirect = false\n";

    /// What is searched of a scheduler, by the names of its settings.
    fn searched(scheduler: &str, kernel: &str, takes: &dyn Fn(SchedulerSpec) -> bool) -> Vec<Setting> {
        let scenario = Scenario::from_toml(&format!("{kernel}{SCENARIO}"), "s.toml").unwrap();
        let settable = Settable { sata_depth: None, read_ahead: true, takes };
        let space = space(&SchedulerSpec::parse(scheduler).unwrap(), &scenario, settable);
        let beside = |setting: &Setting| matches!(setting, Setting::WbtUs | Setting::IoCost | Setting::ReadAheadKb);
        space.ranges.into_iter().map(|range| range.setting).filter(beside).collect()
    }

    #[test]
    fn what_stands_before_a_scheduler_is_searched_where_the_load_passes_it_and_the_kernel_has_it() {
        use Setting::{IoCost, ReadAheadKb, WbtUs};
        assert_eq!(searched("none", "", &|_| true), [WbtUs, IoCost, ReadAheadKb]);
        assert_eq!(searched("bfq", "", &|_| true), [ReadAheadKb], "it switches one off, and has weights of its own");
        assert_eq!(searched("none+wbt=off", "", &|_| true), [IoCost, ReadAheadKb], "what is given stays");
        assert_eq!(searched("none", "[kernel]\nwbt = \"off\"\n", &|_| true), [IoCost, ReadAheadKb]);
        // A kernel without io.cost: the rest is searched all the same.
        assert_eq!(searched("none", "", &|stack| stack.controls.io_cost.is_none()), [WbtUs, ReadAheadKb]);
    }
}
