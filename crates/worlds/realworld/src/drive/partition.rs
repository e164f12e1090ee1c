//! How many rings a run has, and which threads submit through which.

use std::collections::BTreeSet;

use dumbwaiter_block::Setup;
use dumbwaiter_scenario::load::Load;
use dumbwaiter_scenario::{Scenario, Work};
use dumbwaiter_schedulers::Choice;

use crate::drive::cpus;
use crate::drive::options::{Options, Rings};

/// The part of a run that one ring serves.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RingAssignment {
    /// The CPU that it is pinned to; a single ring is not.
    pub(crate) cpu: Option<usize>,
    /// Threads of the load, by their numbers.
    pub(crate) threads: Vec<usize>,
    /// Its part of the device depth.
    pub(crate) depth: u32,
}

/// The rings of a run, and a note where they are fewer than were asked for.
pub(crate) fn partition(
    s: &Scenario,
    options: &Options,
    choice: &Choice,
    setup: Setup,
    load: &Load,
) -> (Vec<RingAssignment>, Option<String>) {
    let of_threads: Vec<u16> = load.threads.iter().map(|t| t.cpu).collect();
    let cpus: Vec<u16> = of_threads.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let possible = cpus.len().min(setup.device_depth.max(1) as usize).max(1);
    let (rings, note) = match (options.rings, obstacle(s, options, choice, load)) {
        (Rings::Number(1), _) | (Rings::Auto, Some(_)) => (1, None),
        (_, Some(why)) => (1, Some(format!("{}: one ring for all: {why}", choice.label()))),
        (Rings::Auto | Rings::PerCore, None) => (possible, None),
        (Rings::Number(asked), None) => {
            let rings = possible.min(asked.max(1) as usize);
            let fewer = format!(
                "{}: rings: {rings}, not {asked}; CPUs that tasks run on: {}, requests in the device: {}",
                choice.label(),
                cpus.len(),
                setup.device_depth
            );
            (rings, (rings < asked as usize).then_some(fewer))
        }
    };
    (assign(&of_threads, &cpus, rings, setup.device_depth, &cpus::allowed()), note)
}

/// Why all I/O has to go through one ring.
fn obstacle(s: &Scenario, options: &Options, choice: &Choice, load: &Load) -> Option<&'static str> {
    let stack = choice.build(Setup::default());
    let traits = stack.scheduler.traits();
    let common = |work: &Work| match work {
        Work::App(_) => true,
        Work::Job(job) => !job.direct,
        Work::Trace(_) | Work::Fio(_) => false,
    };
    // Kyber too has queues for each CPU, but what it counts and limits is the device's.
    if !(traits.per_queue && traits.direct) {
        Some("the scheduler has to see every request")
    } else if !stack.controllers.is_empty() || s.has_controls() || !s.kernel_controls(choice.controls()).is_empty() {
        Some("a controller has to see every request")
    } else if options.verify.is_some() {
        Some("there is one table of what was written, to verify it")
    } else if s.limit.is_some() {
        Some("the I/Os up to the limit are counted in one place")
    } else if load.threads.iter().any(|t| t.stage != load.threads[0].stage) {
        Some("a stage begins when all of the one before has ended")
    } else if !load.changes.is_empty() {
        Some("tasks or weights change while it runs")
    } else if s.tasks().any(|(_, task)| common(&task.work)) {
        Some("tasks of applications and of a page cache wait for each other")
    } else {
        None
    }
}

/// Assigns CPUs to rings in turns, as hardware queues are, with the threads on them, and divides the depth evenly.
fn assign(of_threads: &[u16], cpus: &[u16], rings: usize, depth: u32, allowed: &[usize]) -> Vec<RingAssignment> {
    let ring_of = |cpu: u16| cpus.iter().position(|c| *c == cpu).unwrap_or(0) % rings;
    let one = |ring: usize| RingAssignment {
        cpu: (rings > 1 && !allowed.is_empty()).then(|| allowed[usize::from(cpus[ring]) % allowed.len()]),
        threads: (0..of_threads.len()).filter(|thread| ring_of(of_threads[*thread]) == ring).collect(),
        depth: depth / rings as u32 + u32::from((ring as u32) < depth % rings as u32),
    };
    (0..rings).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn threads_of_one_cpu_stay_together() {
        let of_threads = [0, 1, 2, 0, 5];
        let two = assign(&of_threads, &[0, 1, 2, 5], 2, 7, &[4, 5, 6, 7, 8, 9]);
        let share = |cpu, threads: &[usize], depth| RingAssignment { cpu: Some(cpu), threads: threads.to_vec(), depth };
        assert_eq!(two, [share(4, &[0, 2, 3], 4), share(5, &[1, 4], 3)]);
        let one = assign(&of_threads, &[0, 1, 2, 5], 1, 7, &[4, 5]);
        assert_eq!(one, [RingAssignment { cpu: None, threads: vec![0, 1, 2, 3, 4], depth: 7 }]);
    }

    proptest! {
        #[test]
        fn every_thread_and_all_of_the_depth_is_assigned_once(
            of_threads in prop::collection::vec(0u16..9, 1..20), more in 0u32..300, part in 1usize..9,
        ) {
            let cpus: Vec<u16> = of_threads.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
            let rings = part.min(cpus.len());
            let depth = rings as u32 + more;
            let assigned = assign(&of_threads, &cpus, rings, depth, &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
            let mut threads: Vec<usize> = assigned.iter().flat_map(|s| s.threads.clone()).collect();
            threads.sort_unstable();
            prop_assert_eq!(threads, (0..of_threads.len()).collect::<Vec<_>>());
            prop_assert_eq!(assigned.iter().map(|s| s.depth).sum::<u32>(), depth);
            prop_assert!(assigned.iter().all(|s| s.depth > 0 && !s.threads.is_empty()));
            let places: BTreeSet<_> = assigned.iter().map(|s| s.cpu).collect();
            prop_assert_eq!(places.len(), rings);
        }
    }
}
