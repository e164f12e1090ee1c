//! The disk of a run: the block layer with the device below it.

use dumbwaiter_block::{BlockLayer, Finished, Flags, Nanos, Op, Plug, Stack};
use dumbwaiter_devices::{Command, Completion, Device, Submitted};

use crate::host::SchedulerCost;

/// Block layer and device.
pub(super) struct Disk {
    pub(super) layer: BlockLayer,
    pub(super) device: Box<dyn Device>,
    pub(super) plug: Plug,
    /// Completed by the device, and not by the block layer.
    pub(super) completions: Vec<Completion>,
    /// Completed by the block layer, and not delivered.
    pub(super) finished: Vec<Finished>,
    /// Time of the next `Timer` event.
    pub(super) timer_at: Nanos,
    /// A `Send` event is pending.
    pub(super) sends: bool,
    /// Writes in the device.
    pub(super) writes: u64,
    /// Exchanges of the scheduler that the device has heard of.
    switches: u64,
}

impl Disk {
    pub(super) fn new(layer: BlockLayer, device: Box<dyn Device>) -> Disk {
        let mut device = device;
        device.set_class_weights(layer.scheduler().class_weights());
        Disk {
            switches: layer.switches().count,
            layer,
            device,
            plug: Plug::default(),
            completions: Vec::new(),
            finished: Vec::new(),
            timer_at: Nanos::MAX,
            sends: false,
            writes: 0,
        }
    }

    /// Dispatches requests to the device while it accepts them.
    pub(super) fn dispatch(&mut self, now: Nanos) {
        if self.switches != self.layer.switches().count {
            self.switches = self.layer.switches().count;
            self.device.set_class_weights(self.layer.scheduler().class_weights());
        }
        while let Some(id) = self.layer.poll(now) {
            let request = self.layer.request(id);
            let command = Command {
                tag: id.0,
                op: request.io.op,
                fua: request.io.flags.any(Flags::FUA),
                sector: request.sector,
                sectors: request.sectors,
                queue: self.layer.hw_queue(id),
                tenant: request.io.tenant,
            };
            let class = self.layer.scheduler().device_class(id);
            if self.device.submit_in_class(now, &command, class) == Submitted::Busy {
                self.layer.refused(now, id);
            } else if command.op == Op::Write {
                self.writes += 1;
            }
        }
        self.layer.finish_idle(now, &mut self.finished);
    }
}

/// A scheduler that replaces another during a run, with its CPU cost.
pub type Replacement = (Stack, SchedulerCost);

/// The scenario's exchanges of the scheduler.
pub(super) struct Exchanges {
    /// In order, until each is made.
    pub(super) schedulers: Vec<Option<Stack>>,
    /// CPU time that each of these takes.
    pub(super) costs: Vec<SchedulerCost>,
    /// The scheduler's cost from when a freeze has ended.
    pub(super) next_cost: Option<SchedulerCost>,
}

impl Exchanges {
    pub(super) fn new(replacements: Vec<Replacement>) -> Exchanges {
        let (schedulers, costs) = replacements.into_iter().map(|(scheduler, cost)| (Some(scheduler), cost)).unzip();
        Exchanges { schedulers, costs, next_cost: None }
    }
}
