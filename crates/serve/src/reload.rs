//! A configuration that is read again while the server runs.

use crate::Error;
use crate::inspector::Inspector;
use crate::question::{Answer, DiskStats, Question};
use crate::settings::{ServeSettings, TargetSettings, check_overlap, place};

impl Inspector {
    /// Makes the exports those of `settings`: weights, limits, reservations, sizes, new exports, and exports that go with their last
    /// client. All is checked first; what cannot be changed at run time (targets, slices, rights) refuses the whole.
    pub fn reload(&self, settings: &ServeSettings) -> Result<(), Error> {
        settings.check()?;
        let disks = self.stats()?;
        let names: Vec<&str> = settings.targets.iter().map(|target| target.target.as_str()).collect();
        if names != disks.iter().map(|disk| disk.target.as_str()).collect::<Vec<_>>() {
            return Err(Error::Settings("the targets differ from those that are served: restart for that".into()));
        }
        for (target, disk) in settings.targets.iter().zip(&disks) {
            check(target, disk)?;
        }
        for (number, (target, disk)) in settings.targets.iter().zip(&disks).enumerate() {
            self.apply(number, target, disk)?;
        }
        Ok(())
    }

    fn apply(&self, number: usize, target: &TargetSettings, disk: &DiskStats) -> Result<(), Error> {
        let ask = |question| match self.ask_shard(number, question)? {
            Answer::Refused(error) => Err(error),
            _ => Ok(()),
        };
        let there = disk.exports.iter().filter(|export| !export.leaving);
        for gone in there.filter(|old| target.exports.iter().all(|new| new.name != old.name)) {
            ask(Question::Remove { export: gone.name.clone(), hard: false })?;
        }
        for new in &target.exports {
            let export = new.name.clone();
            let Some(old) = disk.exports.iter().find(|old| old.name == new.name && !old.leaving) else {
                ask(Question::Add { export: Box::new(new.clone()) })?;
                continue;
            };
            if old.weight != new.weight {
                ask(Question::Weight { export: export.clone(), weight: new.weight })?;
            }
            if (old.limit_iops, old.limit_bytes) != (new.limit_iops, new.limit_bytes) {
                let (iops, bytes) = (new.limit_iops, new.limit_bytes);
                ask(Question::Limit { export: export.clone(), iops, bytes })?;
            }
            if old.reservation_iops != new.reservation_iops {
                ask(Question::Reservation { export: export.clone(), iops: new.reservation_iops })?;
            }
            let (_, size) = place(new, disk.bytes, disk.block_bytes)?;
            if old.size != size {
                ask(Question::Resize { export, size })?;
            }
        }
        if disk.scheduler != target.scheduler {
            ask(Question::Scheduler { scheduler: target.scheduler.clone() })?;
        }
        Ok(())
    }
}

/// Can this disk be changed to these settings?
fn check(target: &TargetSettings, disk: &DiskStats) -> Result<(), Error> {
    dumbwaiter_schedulers::Choice::parse(&target.scheduler).map_err(|e| Error::Scheduler(e.to_string()))?;
    let mut placed = Vec::new();
    for new in &target.exports {
        let (offset, size) = place(new, disk.bytes, disk.block_bytes)?;
        let old = disk.exports.iter().find(|old| old.name == new.name && !old.leaving);
        if old.is_some_and(|old| old.offset != offset || old.readonly != new.readonly) {
            let what = "its offset or its rights differ from those that are served: restart for that".into();
            return Err(Error::Export { export: new.name.clone(), what });
        }
        if old.and_then(|old| old.ublk) != new.ublk {
            let what = "its block device differs from the one that is served: restart for that".into();
            return Err(Error::Export { export: new.name.clone(), what });
        }
        placed.push((new, offset, size));
    }
    check_overlap(&target.target, placed.into_iter())
}
