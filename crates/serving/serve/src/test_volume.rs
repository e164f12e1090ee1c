//! Volumes for tests of one client.

use dumbwaiter_path::{Disk, DiskOptions, VirtualDevice};
use dumbwaiter_schedulers::Choice;

use crate::memory_store::MemoryStore;
use crate::open_target;
use crate::settings::TargetSettings;
use crate::volume::Volume;

/// A volume of 1 MiB that does nothing, in virtual time.
pub(crate) fn null_volume() -> Volume {
    volume_of(TargetSettings::new("null:1M"))
}

/// A volume on a target; in virtual time, unless the target is real.
pub(crate) fn volume_of(settings: TargetSettings) -> Volume {
    let open = open_target::open(&settings, true, MemoryStore::new(0)).unwrap();
    let config = open.layer_config(&settings);
    let scheduler = Choice::parse("none").unwrap().build(config.setup);
    let manual_clock = open.device.is_some();
    let device = open.device.map(|device| device as Box<dyn VirtualDevice>);
    let options = DiskOptions { scratch: true, device, manual_clock, ..DiskOptions::default() };
    let disk = Disk::new(open.target, config, scheduler, dumbwaiter_block::Tenants::default(), options).unwrap();
    Volume::new(disk, 1 << 20, open.trims, 1)
}
