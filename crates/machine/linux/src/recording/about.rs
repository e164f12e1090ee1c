//! The device, its queue and the system that a recording is made of.

use std::collections::BTreeMap;
use std::path::Path;

use crate::file::{names, read, read_some};
use crate::queue::Queue;
use crate::target::{Kind as TargetKind, PathFacts};
use crate::{Error, Roots};

use crate::recording::event::{Event, Kind};

/// The device, its queue and the system at the start.
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) dev: (u32, u32),
    /// Device numbers of the disk and its partitions, as in the kernel's events.
    numbers: Vec<u32>,
    /// Sectors that are recorded, where the target is a partition.
    range: Option<(u64, u64)>,
    pub(crate) scheduler: String,
    pub(crate) queue: BTreeMap<String, String>,
    pub(crate) depth: u32,
    /// The depth that the driver reports (SCSI), which wbt then takes.
    pub(crate) reported_depth: Option<u32>,
    pub(crate) hw_queues: u32,
    pub(crate) kernel: String,
    pub(crate) cpus: u32,
}

fn number_of(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

impl About {
    pub(crate) fn of(target: &PathFacts, disk: &Path, roots: &Roots) -> Result<About, Error> {
        let queue = Queue::at(disk);
        let dev_file = disk.join("dev");
        let dev = number_of(&read(&dev_file)?)
            .ok_or_else(|| Error::Refused(format!("{}: no device number", dev_file.display())))?;
        let mut all = vec![dev];
        for name in names(disk)? {
            let inside = disk.join(name);
            if inside.join("partition").exists() {
                all.extend(read_some(&inside.join("dev")).as_deref().and_then(number_of));
            }
        }
        let hardware: Vec<String> =
            names(&disk.join("mq")).unwrap_or_default().into_iter().filter(|n| n.parse::<u32>().is_ok()).collect();
        let depth = hardware.first().and_then(|h| read_some(&disk.join("mq").join(h).join("nr_tags"))?.parse().ok());
        let online = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        Ok(About {
            name: queue.name().to_owned(),
            dev,
            numbers: all.into_iter().map(|(major, minor)| major << 20 | minor).collect(),
            range: (target.kind == TargetKind::Partition)
                .then(|| (target.start, target.start + target.bytes / dumbwaiter_block::SECTOR_BYTES)),
            scheduler: queue.schedulers()?.0,
            queue: queue.attributes(),
            depth: depth.unwrap_or(128),
            reported_depth: read_some(&disk.join("device/queue_depth")).and_then(|text| text.parse().ok()),
            hw_queues: hardware.len().max(1) as u32,
            kernel: read_some(&roots.proc.join("sys/kernel/osrelease")).unwrap_or_default(),
            cpus: online,
        })
    }

    /// The filter for events that name their device.
    pub(crate) fn filter(&self) -> String {
        let each: Vec<String> = self.numbers.iter().map(|n| format!("dev == {n}")).collect();
        each.join(" || ")
    }

    pub(crate) fn is_partition(&self) -> bool {
        self.range.is_some()
    }

    /// Does an event belong to this target? One without a device (plugs, probes) may belong to another.
    pub(crate) fn concerns(&self, e: &Event) -> bool {
        if !e.kind.has_device() {
            return true;
        }
        let inside = self.range.is_none_or(|(start, end)| {
            let placeless = matches!(e.kind, Kind::KyberAdjust | Kind::KyberThrottled);
            placeless || (start..end).contains(&e.sector)
        });
        inside && self.numbers.contains(&e.dev)
    }
}
