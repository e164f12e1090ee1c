//! `reproduce --on`: the figures' cases on a real file or device, under the kernel's own schedulers or in our engine.

use anyhow::{Result, bail};
use dumbwaiter_experiment::{Cached, Control, Failure, Stack, World};
use dumbwaiter_linux::filesystem;
use dumbwaiter_realworld::{DatabaseOptions, DeviceOptions, DeviceUnderTest, Engine, Kernel, KernelOptions};

use super::{announce, worker_program};
use crate::args::Reproduce;

/// The device that the flags name.
pub(crate) fn device(args: &Reproduce) -> Result<DeviceUnderTest> {
    let (path, folder) = match (&args.on, &args.dir) {
        (Some(path), _) => (path.clone(), None),
        (None, Some(dir)) => (filesystem::device_of(dir)?, Some(dir.clone())),
        (None, None) => bail!("expected --on PATH or --dir FOLDER"),
    };
    let bytes_max = if args.quick { DatabaseOptions::BYTES_QUICK } else { DatabaseOptions::BYTES };
    let options = DeviceOptions {
        allow_writes: args.destroy.allows_writes(),
        confirmed: args.destroy.confirmed(),
        // The papers' SQPOLL polls.
        sqpoll_by_interrupts: false,
        database: DatabaseOptions { folder, bytes_max },
        announce: Some(announce()),
        ..DeviceOptions::default()
    };
    Ok(DeviceUnderTest::open(&path, options)?)
}

/// Runs `work` with the device as the world. Runs are made once, whichever figures show them.
pub(crate) fn through<T>(
    stack: Stack,
    args: &Reproduce,
    device: &DeviceUnderTest,
    control: &Control,
    work: impl FnOnce(&Cached<'_>, &Control) -> T,
) -> Result<T, Failure> {
    let world: Box<dyn World + '_> = match stack {
        Stack::Engine => Box::new(Engine::new(device)?),
        _ => Box::new(Kernel::new(device, KernelOptions::new(worker_program()))?),
    };
    crate::tell!("{}: {}, {}", device.path().display(), device.facts().kind, how_written(args));
    Ok(work(&Cached::new(&*world), control))
}

fn how_written(args: &Reproduce) -> &'static str {
    match (args.destroy.allows_writes(), &args.dir) {
        (true, _) => "WRITES TO IT",
        (false, Some(_)) => "only reads, except for a database in a new folder, which is removed at the end",
        (false, None) => "only reads",
    }
}
