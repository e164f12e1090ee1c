//! The block layer of a run, as its scenario says, on the device of a world.

use dumbwaiter_block::{AtAttach, Config, Limits, Nanos, Setup, Stack, TickClock};
use dumbwaiter_scenario::{Scenario, SchedulerChange};
use dumbwaiter_schedulers::{Choice, ChoiceError};

/// Requests of the single-queue layer, whatever the device takes (Linux: BLKDEV_MAX_RQ).
const SINGLE_QUEUE_NR_REQUESTS: u32 = 128;

/// Properties of a world's device and its host, where the scenario does not set them.
#[derive(Clone, Copy, Debug)]
pub struct BlockDevice {
    /// Requests that the device takes, all hardware queues together.
    pub depth: u32,
    /// Those of them that are used, unless the scenario says otherwise.
    pub used_depth: u32,
    /// Tags of its host, where that is one of SCSI or SATA: they stay as many if the device takes fewer commands.
    pub host_tags: Option<u32>,
    /// The scheduler is one of the single-queue layer, whose depth is a number of its own.
    pub single_queue: bool,
    /// Two CPUs share a core.
    pub smt: bool,
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
        let BlockDevice { cpus, hw_queues, rotational, volatile_cache, fua, tasks_sleep, .. } = *self;
        let commands = s.queue_depth.unwrap_or(self.used_depth).min(self.depth).max(1);
        // The single-queue layer asks its scheduler for one more than the device has a place for.
        let host_tags = self.host_tags.filter(|_| !self.single_queue);
        let queue_depth = host_tags.unwrap_or(self.used_depth / u32::from(hw_queues.max(1)));
        let nr_requests = match self.single_queue {
            true => SINGLE_QUEUE_NR_REQUESTS,
            // As of the device's own depth: using less of that leaves more for the scheduler to choose from.
            false => Setup::default_nr_requests(queue_depth),
        };
        let clock = TickClock { period: Nanos(1_000_000_000 / u64::from(s.host.hz.max(1))), step_at: Nanos::ZERO };
        Config {
            setup: Setup {
                clock,
                cpus,
                smt: self.smt,
                hw_queues,
                nr_requests: s.nr_requests.unwrap_or(nr_requests),
                device_depth: host_tags.unwrap_or(commands),
                shared_tags: false,
                lun_depth: host_tags.map(|_| commands),
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

/// A scheduler that takes over, and one of it for each drive.
pub type Successor = (Choice, Vec<Stack>);

/// The schedulers of a scenario's changes, in order.
///
/// # Errors
/// The change whose scheduler or setting is not known, and why.
pub fn replacements(s: &Scenario, setup: Setup) -> Result<Vec<Successor>, (&SchedulerChange, ChoiceError)> {
    // `rotational` has been written by then.
    let setup = Setup { at_attach: AtAttach { rotational: None, ..setup.at_attach }, ..setup };
    let all = s.changes.iter().map(|change| {
        let choice = Choice::parse(&change.scheduler.to_string()).map_err(|why| (change, why))?;
        let schedulers = (0..s.drives).map(|_| choice.build(setup)).collect();
        Ok((choice, schedulers))
    });
    all.collect()
}
