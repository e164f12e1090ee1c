//! The block layer of a run, as its scenario says, on the device of a world.

use dumbwaiter_block::{AtAttach, Config, Limits, Nanos, Setup, Stack, TickClock};
use dumbwaiter_scenario::{Scenario, SchedulerChange};
use dumbwaiter_schedulers::{Choice, ChoiceError};

/// Properties of a world's device and its host, where the scenario does not set them.
#[derive(Clone, Copy, Debug)]
pub struct BlockDevice {
    /// Requests that the device takes.
    pub depth: u32,
    /// Those of them that are used, unless the scenario says otherwise.
    pub used_depth: u32,
    /// CPUs of the host.
    pub cpus: u16,
    /// Hardware queues.
    pub hw_queues: u16,
    /// Longest request in sectors of 512 bytes.
    pub max_sectors: u32,
    /// Whether it is rotational.
    pub rotational: bool,
    /// Whether it has a volatile write cache.
    pub volatile_cache: bool,
    /// Whether it takes writes with FUA.
    pub fua: bool,
    /// See [`Config::tasks_sleep`].
    pub tasks_sleep: bool,
}

impl BlockDevice {
    /// The settings of a block layer on this device.
    pub fn config(&self, s: &Scenario) -> Config {
        let BlockDevice { depth, cpus, hw_queues, rotational, volatile_cache, fua, tasks_sleep, .. } = *self;
        let clock = TickClock { period: Nanos(1_000_000_000 / u64::from(s.host.hz.max(1))), step_at: Nanos::ZERO };
        Config {
            setup: Setup {
                clock,
                cpus,
                hw_queues,
                // As of the device's own depth: using less of that leaves more for the scheduler to choose from.
                nr_requests: s.nr_requests.unwrap_or_else(|| Setup::default_nr_requests(self.used_depth)),
                device_depth: s.queue_depth.unwrap_or(self.used_depth).min(depth).max(1),
                rotational: s.host.rotational.unwrap_or(rotational),
                at_attach: AtAttach { nr_requests: s.host.nr_requests_at_attach, rotational: Some(rotational) },
            },
            limits: Limits { max_sectors: self.max_sectors, ..Limits::default() },
            nomerges: s.nomerges,
            volatile_cache,
            fua,
            tasks_sleep,
        }
    }
}

/// The schedulers of a scenario's changes, in order.
///
/// # Errors
/// The change whose scheduler or setting is not known, and why.
pub fn replacements(s: &Scenario, setup: Setup) -> Result<Vec<(Choice, Stack)>, (&SchedulerChange, ChoiceError)> {
    // `rotational` has been written by then.
    let setup = Setup { at_attach: AtAttach { rotational: None, ..setup.at_attach }, ..setup };
    let all = s.changes.iter().map(|change| {
        let choice = Choice::parse(&change.scheduler.to_string()).map_err(|why| (change, why))?;
        let scheduler = choice.build(setup);
        Ok((choice, scheduler))
    });
    all.collect()
}
