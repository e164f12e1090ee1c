//! A device of the kernel's null_blk driver of our own: each I/O takes a fixed time and moves nothing. It is removed when the guard is
//! dropped, on a signal, or by the next process after a crash (see [`crate::undo`]).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::file::{read_some, write};
use crate::undo::{Action, Guard, own_name};
use crate::{Error, process};

/// Where the driver is configured.
const FOLDER: &str = "/sys/kernel/config/nullb";
/// Longest name of a disk.
const NAME_MAX: usize = 31;
/// Devices made so far, for their names.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// A device of our own.
#[derive(Debug)]
pub struct OwnNullBlk {
    device: PathBuf,
    _guard: Guard,
}

/// What a device is like.
#[derive(Clone, Copy, Debug)]
pub struct NullBlkOptions {
    /// Time of each I/O, ns, after which a timer's interrupt ends it.
    pub latency_ns: u64,
    /// Hardware queues.
    pub queues: u32,
    /// Tags of each queue.
    pub depth: u32,
    /// Size, MiB.
    pub mib: u32,
}

impl OwnNullBlk {
    /// Makes a device; loads the driver if the kernel has it as a module.
    ///
    /// # Errors
    /// No such driver, or no permission.
    pub fn new(options: NullBlkOptions) -> Result<OwnNullBlk, Error> {
        let folder = Path::new(FOLDER);
        if !folder.is_dir() {
            let mut load = Command::new("modprobe");
            load.args(["null_blk", "nr_devices=0"]);
            process::run(&mut load, "load the driver", Path::new("null_blk"))?;
        }
        if !folder.is_dir() {
            return Err(Error::Refused(format!("{FOLDER} is not there; expected configfs and the driver null_blk")));
        }
        // The kernel cuts a longer name of a disk.
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name: String = own_name(number)?.chars().take(NAME_MAX - 4).collect();
        let name = format!("{name}-{}", number % 1000);
        let dir = folder.join(&name);
        let make = || std::fs::create_dir(&dir).map_err(|e| Error::file("make", &dir, e));
        let guard = Guard::new(Action::remove_instance(&dir), make)?;
        let NullBlkOptions { latency_ns, queues, depth, mib } = options;
        for (attribute, value) in [
            ("size", u64::from(mib)),
            ("irqmode", 2),
            ("completion_nsec", latency_ns),
            ("submit_queues", u64::from(queues)),
            ("hw_queue_depth", u64::from(depth)),
            ("power", 1),
        ] {
            write(&dir.join(attribute), &value.to_string())?;
        }
        // Newer kernels name the disk as its folder, older ones by a number.
        let index = read_some(&dir.join("index")).unwrap_or_default();
        let named = [name, format!("nullb{index}")].map(|name| Path::new("/dev").join(name));
        let device = named.into_iter().find(|device| device.exists());
        let device = device.ok_or_else(|| Error::Refused(format!("{}: its device is not in /dev", dir.display())))?;
        Ok(OwnNullBlk { device, _guard: guard })
    }

    /// The device, such as `/dev/nullb0`.
    pub fn device(&self) -> &Path {
        &self.device
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_goes_with_its_guard() {
        let options = NullBlkOptions { latency_ns: 10_000, queues: 1, depth: 64, mib: 64 };
        let own = match OwnNullBlk::new(options) {
            Ok(own) => own,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let name = own.device().file_name().unwrap().to_owned();
        let size = Path::new("/sys/block").join(name).join("size");
        assert_eq!(read_some(&size).as_deref(), Some("131072"));
        drop(own);
        assert!(!size.exists());
    }
}
