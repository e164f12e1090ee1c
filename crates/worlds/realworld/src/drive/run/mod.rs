//! One run: the threads of a load on a disk.
//!
//! One turn of the loop: what is due happens, threads submit, the disk sends what the scheduler chooses, what completed in the
//! turn before is measured while the device works, and the disk waits. Nothing is allocated per I/O.

mod events;
pub(crate) mod group;
mod ring_group;
mod slot;
mod threads;
mod turns;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use dumbwaiter_block::{Config, Ledger, Nanos, Stack, Switches, TaskId, TenantId, Tenants};
use dumbwaiter_controllers::{KernelControls, TenantControls};
use dumbwaiter_experiment::Control;
use dumbwaiter_measure::{Completed, Recorder, TaskSpec};
use dumbwaiter_path::{CompletionSupport, Disk, DiskOptions, Event};
use dumbwaiter_scenario::load::{Change, RunLimit, RunningLoad, Slots, Thread, WakeQueue};

use crate::drive::usage::Usage;
use crate::drive::verify::{Verifier, Watch};
use crate::drive::{Error, Target};

pub(crate) use self::ring_group::RingGroup;
use self::slot::Slot;

/// Parts of a run.
pub(crate) struct Parts<'a> {
    /// See [`DiskOptions::spins`].
    pub(crate) spins: bool,
    pub(crate) target: &'a Target,
    pub(crate) support: CompletionSupport,
    pub(crate) config: Config,
    pub(crate) stack: Stack,
    pub(crate) tenants: Tenants,
    pub(crate) task_specs: Vec<TaskSpec>,
    pub(crate) controls: Vec<(TenantId, TenantControls)>,
    /// What the kernel would put before the scheduler.
    pub(crate) kernel: KernelControls,
    pub(crate) threads: Vec<Thread>,
    pub(crate) changes: Vec<(Nanos, Change)>,
    /// The schedulers of the scenario's changes, in order.
    pub(crate) schedulers: Vec<Vec<Stack>>,
    pub(crate) recorder: Recorder,
    pub(crate) verifier: Option<Verifier>,
    pub(crate) limit: RunLimit,
    pub(crate) seed: u64,
    pub(crate) control: &'a Control,
    /// All rings of this run.
    pub(crate) group: &'a RingGroup,
}

/// The figures of a run.
pub(crate) struct Outcome {
    pub(crate) recorder: Recorder,
    pub(crate) ledger: Ledger,
    /// Exchanges of the scheduler.
    pub(crate) switches: Switches,
    /// The scheduler's counters.
    pub(crate) counters: BTreeMap<String, f64>,
    pub(crate) closed: Closed,
    pub(crate) issued_late: u64,
    pub(crate) rounded: u64,
    pub(crate) cancelled: bool,
    /// The first failed I/O, in words.
    pub(crate) failure: Option<String>,
    /// Failed requests by error.
    pub(crate) failures: BTreeMap<String, u64>,
    pub(crate) verifier: Option<Verifier>,
    pub(crate) notes: Vec<String>,
    /// Waits for completions.
    pub(crate) waits: u64,
    /// Number of rings.
    pub(crate) rings: usize,
    /// How applications fared, by their first tasks.
    pub(crate) applications: Vec<(TaskId, dumbwaiter_workloads::ApplicationOutcome)>,
}

/// The end of the measured time.
#[derive(Clone, Copy)]
pub(crate) struct Closed {
    pub(crate) end: Nanos,
    /// CPU time of the measured time.
    pub(crate) usage: Usage,
}

pub(crate) struct Run<'a> {
    target: &'a Target,
    disk: Disk,
    recorder: Recorder,
    load: RunningLoad,
    wakes: WakeQueue,
    task_specs: Vec<TaskSpec>,
    slots: Slots<Slot>,
    now: Nanos,
    events: Vec<Event>,
    /// Completed in this turn and to be measured, with the task's number in its thread.
    unmeasured: Vec<(Completed, u16)>,
    limit: RunLimit,
    /// A failure ends the run.
    stopping: bool,
    schedulers: Vec<Vec<Stack>>,
    rounded: u64,
    failure: Option<String>,
    failures: BTreeMap<String, u64>,
    verifier: Option<Rc<RefCell<Verifier>>>,
    notes: Vec<String>,
    begin: Option<std::time::Instant>,
    /// The log of completed I/Os.
    records: Option<Box<dyn std::io::Write>>,
    control: &'a Control,
    group: &'a RingGroup,
}

/// How often a run reports its progress and looks whether it was cancelled; also the longest sleep with an idle device.
const CONTROL_POLL_INTERVAL: Nanos = Nanos::from_ms(50);
/// A timer for the end of a run is set only when it is this near.
const END_NEAR: Nanos = Nanos::from_ms(20);
/// Keeps the bytes that writes carry apart from the load's random numbers.
const SCRATCH_SEED: u64 = 0x9e37_79b9_7f4a_7c15;

impl<'a> Run<'a> {
    /// Sets up the disk; nothing is submitted yet.
    pub(crate) fn new(parts: Parts<'a>) -> Result<Run<'a>, Error> {
        let options = parts.target.options();
        let depth = parts.config.setup.device_depth.max(1) as usize;
        let verifier = parts.verifier.map(|verifier| Rc::new(RefCell::new(verifier)));
        let disk_options = DiskOptions {
            completion: parts.support,
            sqpoll: options.sqpoll,
            batching: options.batching,
            scratch: true,
            scratch_seed: options.allow_writes.then_some(parts.seed ^ SCRATCH_SEED),
            observer: verifier.clone().map(|verifier| Box::new(Watch(verifier)) as _),
            bypass_workers: false,
            spins: parts.spins,
            ..DiskOptions::default()
        };
        let mut disk =
            Disk::new(Arc::clone(parts.target.disk()), parts.config, parts.stack, parts.tenants, disk_options)?;
        let outstanding = parts.threads.iter().map(|t| t.depth.min(1024) as usize).sum::<usize>();
        let load = RunningLoad::new(parts.threads, parts.changes, parts.limit.ios);
        load.set_controllers(disk.layer_mut(), parts.kernel, &parts.controls);
        Ok(Run {
            notes: disk.notes().to_vec(),
            disk,
            target: parts.target,
            recorder: parts.recorder,
            load,
            wakes: WakeQueue::default(),
            task_specs: parts.task_specs,
            slots: Slots::with_capacity(outstanding),
            now: Nanos::ZERO,
            events: Vec::with_capacity(2 * depth),
            unmeasured: Vec::with_capacity(2 * depth),
            limit: parts.limit,
            stopping: false,
            schedulers: parts.schedulers,
            rounded: 0,
            failure: None,
            failures: BTreeMap::new(),
            verifier,
            begin: None,
            records: None,
            control: parts.control,
            group: parts.group,
        })
    }

    /// Begins at this moment, not at once.
    pub(crate) fn begin_at(&mut self, begin: std::time::Instant) {
        self.begin = Some(begin);
    }

    /// Logs every I/O that completes until the end, then those that are unfinished.
    pub(crate) fn log_to(&mut self, records: Box<dyn std::io::Write>) {
        self.records = Some(records);
    }
}
