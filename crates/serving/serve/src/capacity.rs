//! What a drive has shown that it can do: reservations must fit into it.

use std::time::{Duration, Instant};

use dumbwaiter_block::{Io, SECTOR_BYTES, Task, Tenant};
use dumbwaiter_path::{Data, Event};

use crate::Error;
use crate::settings::ExportSettings;
use crate::shard::Shard;
use crate::volume::Volume;

/// How long a drive is read that has shown nothing yet.
const TRIAL: Duration = Duration::from_millis(100);
/// Bytes of one read of it.
const TRIAL_BYTES: u64 = 4096;
/// Reads at once at most.
const TRIAL_DEPTH: u32 = 64;

/// Reservations that must fit, of these exports.
fn reserved<'a>(exports: impl IntoIterator<Item = &'a ExportSettings>) -> u64 {
    let counted = exports.into_iter().filter(|export| !export.over_commit);
    counted.filter_map(|export| export.reservation_iops).fold(0, u64::saturating_add)
}

impl Shard {
    /// The most I/Os in a second so far; 0 if nothing is known.
    pub(crate) fn shown_iops(&self) -> u64 {
        self.most_iops
    }

    /// Refuses reservations of changed or new exports that do not fit beside those of the others into what the drive has shown. A drive
    /// that is idle is read for a moment first, if that is not known to be enough.
    pub(crate) fn check_reservations<'a>(
        &mut self,
        changed: impl Iterator<Item = &'a ExportSettings> + Clone,
    ) -> Result<(), Error> {
        let before = |new: &ExportSettings| {
            let own = self.volume.tenants().find(|(_, tenant)| tenant.settings.name == new.name);
            own.map_or(0, |(_, tenant)| reserved([&*tenant.settings]))
        };
        let Some(asks) = changed.clone().find(|new| reserved([*new]) > before(new)) else { return Ok(()) };
        if !self.is_real {
            return Ok(());
        }
        let stay = self.volume.tenants().map(|(_, tenant)| &*tenant.settings);
        let stay = stay.filter(|settings| changed.clone().all(|new| new.name != settings.name));
        let all = reserved(stay).saturating_add(reserved(changed));
        if all > self.most_iops && self.volume.is_idle() {
            self.most_iops = self.most_iops.max(self.volume.try_out()?);
        }
        if all <= self.most_iops {
            return Ok(());
        }
        let (own, shown) = (reserved([asks]), self.most_iops);
        let what = match all - own {
            0 => format!("reserves {own} IOPS"),
            others => format!("reserves {own} IOPS beside {others} of other exports"),
        };
        Err(Error::Export {
            export: asks.name.clone(),
            what: format!(
                "{what}; the drive has shown {shown} in a second so far. Reserve less, or allow more than is known to fit with over_commit=yes"
            ),
        })
    }
}

impl Volume {
    /// Reads 4 KiB at random places, as many at once as the device may hold; answers with reads in a second. Nothing else is under way.
    fn try_out(&mut self) -> Result<u64, Error> {
        let now = self.disk.now();
        let failed = |e: dumbwaiter_block::TenantError| Error::Settings(e.to_string());
        let tenant = self.disk.layer_mut().add_tenant(now, Tenant { weight: 100, parent: None }).map_err(failed)?;
        let task = Task { tenant, ioprio: dumbwaiter_block::Ioprio::DEFAULT };
        let task = self.disk.layer_mut().add_task(now, task).map_err(failed)?;
        let facts = self.disk.target().facts();
        if facts.bytes == 0 {
            return Ok(0);
        }
        let bytes = TRIAL_BYTES.max(u64::from(facts.logical_block)).min(facts.bytes);
        let places = facts.bytes / bytes;
        let mut number = 0u64;
        let mut next = || {
            number += 1;
            // Spread over the target, in no order that it could read ahead.
            let place = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % places;
            let (sector, sectors) = (place * bytes / SECTOR_BYTES, (bytes / SECTOR_BYTES) as u32);
            Io { sector, sectors, task, tenant, ..Io::default() }
        };
        let depth = self.disk.layer().config().setup.device_depth.clamp(1, TRIAL_DEPTH);
        for _ in 0..depth {
            self.disk.submit(next(), Data::Scratch)?;
        }
        let (begun, mut under_way, mut done) = (Instant::now(), depth, 0);
        while under_way > 0 {
            let mut events = std::mem::take(&mut self.disk_events);
            self.disk.turn(None, &mut events)?;
            let mut ended = 0;
            events.retain(|event| {
                let own = matches!(event, Event::Completed { finished, .. } if finished.io.tenant == tenant);
                ended += u32::from(own);
                !own
            });
            // Others are for clients, in the next turn.
            self.disk_events = events;
            (under_way, done) = (under_way - ended, done + u64::from(ended));
            for _ in 0..if begun.elapsed() < TRIAL { ended } else { 0 } {
                self.disk.submit(next(), Data::Scratch)?;
                under_way += 1;
            }
        }
        let rate = done as f64 / begun.elapsed().as_secs_f64();
        let now = self.disk.now();
        // They exist, and nothing of them is under way.
        let _ = self.disk.layer_mut().retire_task(now, task);
        let _ = self.disk.layer_mut().retire_tenant(now, tenant);
        Ok(rate as u64)
    }
}
