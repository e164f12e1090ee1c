//! Measurement of a run.

use dumbwaiter_block::{Nanos, SECTOR_BYTES};
use dumbwaiter_devices::Counters;
use dumbwaiter_measure::{Completed, Recorder};
use dumbwaiter_scenario::load::RunLimit;

use super::disk::Disks;
use super::io::Slot;
use super::period::Period;
use crate::host::{Activity, Host, Spent};

/// The measured time, and what happened in it.
pub(super) struct Measurement {
    pub(super) recorder: Recorder,
    pub(super) limit: RunLimit,
    /// Latency ends where the kernel has completed an I/O.
    pub(super) kernel_latency: bool,
    /// Counts of host and device at the end of the warm-up.
    pub(super) warm: Option<Done>,
    /// Completions of the period, where a controller decides period by period.
    pub(super) period: Option<Box<Period>>,
}

impl Measurement {
    /// Records an I/O that its thread could see complete at `complete`.
    pub(super) fn record(&mut self, slot: &Slot, complete: Nanos, disks: &Disks) {
        let Slot { io, failed, submit, insert, issue, device_done, .. } = *slot;
        if failed {
            return;
        }
        let done = Completed {
            op: io.op,
            task: io.task,
            tenant: io.tenant,
            sector: io.sector,
            bytes: u64::from(io.sectors) * SECTOR_BYTES,
            submit,
            insert,
            issue,
            device_done,
            complete,
        };
        let drive = usize::from(slot.drive);
        let controlled = disks.layers[drive].controllers().next().is_some();
        let parts = disks.drives[drive].stages.parts(slot, controlled);
        if let Some(period) = &mut self.period {
            let (queued, in_device) = disks.depth();
            period.record(&done, queued, in_device);
        }
        self.recorder.record_parts(&done, Some(&parts));
    }
}

/// Counts of host and device over a time.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Activity of the CPUs.
    pub activity: Activity,
    /// CPU time by purpose.
    pub spent: Spent,
    /// Busy time of each CPU, ns.
    pub busy: Vec<u64>,
    /// Counters of each device.
    pub counters: Vec<Counters>,
}

impl Done {
    /// Until `at`.
    pub(super) fn until(at: Nanos, host: &mut Host, counters: Vec<Counters>) -> Done {
        Done { activity: host.activity(at), spent: host.spent(), busy: host.busy().collect(), counters }
    }

    /// Since `earlier`.
    pub(super) fn since(&self, earlier: &Done) -> Done {
        Done {
            activity: self.activity.since(&earlier.activity),
            spent: self.spent.since(&earlier.spent),
            busy: self.busy.iter().zip(&earlier.busy).map(|(now, then)| now - then).collect(),
            counters: self.counters.iter().zip(&earlier.counters).map(|(now, then)| now.since(then)).collect(),
        }
    }
}
