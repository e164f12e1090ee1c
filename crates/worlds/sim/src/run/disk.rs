//! The drives of a run: each is a block layer with its scheduler and the device below it.
//!
//! Several drives follow each other in one space of sectors, which the load sees.

use dumbwaiter_block::{BlockLayer, Fault, Finished, Flags, Io, Nanos, Op, Plug, Stack};
use dumbwaiter_devices::{Command, Completion, Counters, Device, Submitted};

use super::stages::Stages;
use crate::host::SchedulerCost;

/// Block layers and devices.
pub(super) struct Disks {
    pub(super) layers: Vec<BlockLayer>,
    pub(super) drives: Vec<Drive>,
    /// Sectors of one drive.
    sectors: u64,
}

/// A device, and what of it is not with the block layer.
pub(super) struct Drive {
    pub(super) device: Box<dyn Device>,
    pub(super) plug: Plug,
    /// Completed by the device, and not by the block layer.
    pub(super) completions: Vec<Completion>,
    /// Completed by the block layer, and not delivered.
    pub(super) finished: Vec<Finished>,
    /// When the device acts next by itself.
    next_event: Option<Nanos>,
    /// Time of the next `Timer` event.
    pub(super) timer_at: Nanos,
    /// A `Send` event is pending.
    pub(super) sends: bool,
    /// Writes in the device.
    pub(super) writes: u64,
    /// Where the time of its I/Os goes.
    pub(super) stages: Stages,
    /// Exchanges of the scheduler that the device has heard of.
    switches: u64,
}

impl Disks {
    /// `sectors`: those of one drive.
    pub(super) fn new(layers: Vec<BlockLayer>, devices: Vec<Box<dyn Device>>, sectors: u64) -> Disks {
        let drives = layers.iter().zip(devices).map(|(layer, device)| Drive::new(layer, device)).collect();
        Disks { layers, drives, sectors: sectors.max(1) }
    }

    /// The numbers of the drives.
    pub(super) fn numbers(&self) -> std::ops::Range<u8> {
        0..self.drives.len() as u8
    }

    /// Which drive an I/O goes to, where there are several, as what it is to that one. What crosses the end of a drive is moved before
    /// it. `last`: the drive of its thread's I/O before, which a flush is for.
    #[inline]
    pub(super) fn route(&self, io: Io, last: u8) -> (u8, Io) {
        if self.drives.len() == 1 {
            return (0, io);
        }
        if io.op == Op::Flush && io.sectors == 0 {
            return (last, io);
        }
        let drive = (io.sector / self.sectors).min(self.drives.len() as u64 - 1);
        let sector = (io.sector - drive * self.sectors).min(self.sectors.saturating_sub(u64::from(io.sectors)));
        (drive as u8, Io { sector, ..io })
    }

    /// Dispatches requests to the device of a drive while it accepts them.
    pub(super) fn dispatch(&mut self, drive: u8, now: Nanos) {
        let (layer, drive) = (&mut self.layers[usize::from(drive)], &mut self.drives[usize::from(drive)]);
        drive.dispatch(layer, now);
    }

    /// The drive whose device acts next, and when.
    #[inline]
    pub(super) fn next_event(&self) -> Option<(Nanos, u8)> {
        let next = |(number, drive): (usize, &Drive)| Some((drive.next_event?, number as u8));
        self.drives.iter().enumerate().filter_map(next).min()
    }

    /// Requests in the schedulers, and in the devices.
    #[inline]
    pub(super) fn depth(&self) -> (u64, u64) {
        self.layers.iter().fold((0, 0), |(queued, sent), layer| (queued + layer.queued(), sent + layer.in_device()))
    }

    /// Why a block layer sends nothing any more.
    pub(super) fn fault(&self) -> Option<&Fault> {
        self.layers.iter().find_map(BlockLayer::fault)
    }

    /// Do any schedulers change?
    pub(super) fn freezing(&self) -> bool {
        self.layers.iter().any(BlockLayer::freezing)
    }

    /// Counters of each device.
    pub(super) fn counters(&self) -> Vec<Counters> {
        self.drives.iter().map(|drive| drive.device.counters()).collect()
    }
}

impl Drive {
    fn new(layer: &BlockLayer, mut device: Box<dyn Device>) -> Drive {
        device.set_class_weights(layer.scheduler().class_weights());
        Drive {
            switches: layer.switches().count,
            next_event: device.next_event(),
            device,
            plug: Plug::default(),
            completions: Vec::new(),
            finished: Vec::new(),
            timer_at: Nanos::MAX,
            sends: false,
            writes: 0,
            stages: Stages::default(),
        }
    }

    fn dispatch(&mut self, layer: &mut BlockLayer, now: Nanos) {
        if self.switches != layer.switches().count {
            self.switches = layer.switches().count;
            self.device.set_class_weights(layer.scheduler().class_weights());
        }
        let mut sent = false;
        while let Some(id) = layer.poll(now) {
            sent = true;
            let request = layer.request(id);
            let command = Command {
                tag: id.0,
                op: request.io.op,
                fua: request.io.flags.any(Flags::FUA),
                sector: request.sector,
                sectors: request.sectors,
                queue: layer.hw_queue(id),
                tenant: request.io.tenant,
            };
            let class = layer.scheduler().device_class(id);
            if self.device.submit_in_class(now, &command, class) == Submitted::Busy {
                layer.refused(now, id);
            } else if command.op == Op::Write {
                self.writes += 1;
            }
        }
        if sent {
            self.next_event = self.device.next_event();
        }
        layer.finish_idle(now, &mut self.finished);
    }

    /// What the device has completed by `now`.
    pub(super) fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.device.advance(now, completions);
        self.next_event = self.device.next_event();
    }
}

/// A scheduler that replaces another during a run, once for each drive, with its CPU cost.
pub type Replacement = (Vec<Stack>, SchedulerCost);

/// The scenario's exchanges of the scheduler.
pub(super) struct Exchanges {
    /// In order, for each drive, until each is made.
    pub(super) schedulers: Vec<Vec<Stack>>,
    /// CPU time that each of these takes.
    pub(super) costs: Vec<SchedulerCost>,
    /// The scheduler's cost from when a freeze has ended.
    pub(super) next_cost: Option<SchedulerCost>,
}

impl Exchanges {
    pub(super) fn new(replacements: Vec<Replacement>) -> Exchanges {
        let (schedulers, costs) = replacements.into_iter().unzip();
        Exchanges { schedulers, costs, next_cost: None }
    }
}
