//! Opening what is served: a file, a device, a model in real time, or nothing.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dumbwaiter_block::{Config, Limits, SECTOR_BYTES, Setup};
use dumbwaiter_path::{Buffer, Facts, Kind, OpenOptions, Target, VirtualDevice};
use dumbwaiter_text::units::{Prefixes, size};
use rustix::fs::FlockOperation;

use crate::Error;
use crate::memory_store::MemoryStore;
use crate::settings::{Cache, DEVICE_DEPTH, DeviceDepth, TargetSettings, is_null};
use crate::virtual_devices::{EmulatedDevice, NullDevice};
use dumbwaiter_controllers::depth_search;

/// Requests that a scheduler may hold: more than clients may have under way.
const NR_REQUESTS: u32 = 1 << 16;
/// Size of `null` where none is given: 1 TiB.
const NULL_BYTES: u64 = 1 << 40;
/// Largest request that merging may make, bytes.
const MAX_REQUEST_BYTES: u32 = 1 << 20;

/// Reads that tell whether seeks are slow, and how long one takes at most where they are not.
const PROBES: u64 = 16;
const SEEK: Duration = Duration::from_millis(1);
/// How long a lock is waited for, and how often it is tried.
const LOCK_PATIENCE: Duration = Duration::from_secs(3);
const LOCK_LOOK: Duration = Duration::from_millis(20);

/// An opened target.
pub(crate) struct OpenTarget {
    pub(crate) target: Arc<Target>,
    /// In place of a file.
    pub(crate) device: Option<Box<dyn VirtualDevice + Send>>,
    /// Requests that the device holds, where it says so.
    pub(crate) depth: Option<u32>,
    /// Seeks are slow.
    pub(crate) rotational: bool,
    /// Can it give space back, and write zeroes without data?
    pub(crate) trims: bool,
    /// Time passes only by what the device does: for simulations.
    pub(crate) manual_clock: bool,
}

impl OpenTarget {
    /// The block layer's configuration for it.
    pub(crate) fn layer_config(&self, settings: &TargetSettings) -> Config {
        let facts = self.target.facts();
        let wanted = match settings.device_depth {
            DeviceDepth::Default => DEVICE_DEPTH,
            DeviceDepth::Fixed(depth) => depth,
            DeviceDepth::Auto => depth_search::LARGEST,
        };
        let device_depth = wanted.min(self.depth.unwrap_or(4096).max(1));
        let max_sectors = (u64::from(facts.max_request_bytes) / SECTOR_BYTES) as u32;
        Config {
            setup: Setup { nr_requests: NR_REQUESTS, device_depth, rotational: self.rotational, ..Setup::default() },
            limits: Limits { max_sectors, max_discard_sectors: 1 << 21, ..Limits::default() },
            // Merging costs more than it saves where seeks cost nothing.
            nomerges: if self.rotational { 0 } else { 2 },
            volatile_cache: facts.write_back,
            fua: facts.fua,
            tasks_sleep: false,
        }
    }
}

/// Opens `settings.target`, for writing if `writable`; `store` keeps the data of an emulated device.
pub(crate) fn open(settings: &TargetSettings, writable: bool, store: MemoryStore) -> Result<OpenTarget, Error> {
    let text = settings.target.as_str();
    if let Some(model) = text.strip_prefix("emulate:").or_else(|| text.strip_prefix("emulated:")) {
        return emulate(text, model, store);
    }
    if is_null(text) {
        return null(text);
    }
    let options = OpenOptions {
        direct: settings.cache == Cache::None,
        allow_writes: writable,
        exclusive: true,
        max_request_bytes: MAX_REQUEST_BYTES,
    };
    let target = Target::open(Path::new(text), &options)?;
    let operation =
        if writable { FlockOperation::NonBlockingLockExclusive } else { FlockOperation::NonBlockingLockShared };
    lock(text, target.file(), operation)?;
    let depth = target.facts().depth;
    let rotational = target.facts().rotational && seeks_are_slow(&target);
    Ok(OpenTarget { target: Arc::new(target), device: None, depth, rotational, trims: writable, manual_clock: false })
}

/// Reads single blocks all over a target that calls itself rotational, as many virtual disks do whatever is below them. What
/// answers most of them within a millisecond has no arm to move.
fn seeks_are_slow(target: &Target) -> bool {
    let facts = target.facts();
    let blocks = facts.bytes / u64::from(facts.logical_block);
    let mut buffer = Buffer::new(facts.logical_block as usize);
    let mut slow = 0;
    for probe in 0..PROBES {
        // Steps of the golden section reach all parts of the target in no order.
        let block = (probe.wrapping_mul(0x9e37_79b9_7f4a_7c15) % blocks.max(1)) * u64::from(facts.logical_block);
        let begun = Instant::now();
        if target.file().read_at(&mut buffer, block).is_err() {
            return true;
        }
        slow += u64::from(begun.elapsed() > SEEK);
    }
    2 * slow > PROBES
}

/// Locks a target against other servers. One that was killed keeps its lock until the kernel has taken its ring apart.
fn lock(text: &str, file: &std::fs::File, operation: FlockOperation) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        match rustix::fs::flock(file, operation) {
            Err(rustix::io::Errno::AGAIN) if begun.elapsed() < LOCK_PATIENCE => std::thread::sleep(LOCK_LOOK),
            Err(rustix::io::Errno::AGAIN) => {
                return Err(Error::Settings(format!(
                    "{text}: another server or program has locked it; stop that first"
                )));
            }
            Err(e) => return Err(Error::Io { what: format!("{text}: cannot lock it"), source: e.into() }),
            Ok(()) => return Ok(()),
        }
    }
}

fn emulate(name: &str, model: &str, store: MemoryStore) -> Result<OpenTarget, Error> {
    let model = dumbwaiter_devices::load(model).map_err(|e| Error::Model(format!("{name}: {e}")))?;
    let device = model.build(1);
    let own = device.facts();
    let facts = Facts {
        kind: Kind::Device,
        bytes: own.capacity_sectors * SECTOR_BYTES,
        logical_block: SECTOR_BYTES as u32,
        rotational: own.rotational,
        write_back: own.volatile_cache,
        fua: own.fua,
        max_request_bytes: own.max_sectors.saturating_mul(SECTOR_BYTES as u32).min(MAX_REQUEST_BYTES),
        depth: Some(own.depth),
        kernel_scheduler: String::new(),
        direct: true,
    };
    Ok(OpenTarget {
        target: Arc::new(Target::virtual_device(name, facts)?),
        device: Some(Box::new(EmulatedDevice::new(device, store))),
        depth: Some(own.depth),
        rotational: own.rotational,
        trims: true,
        manual_clock: false,
    })
}

/// Size of a target without a medium, `null` or `null:SIZE`; `None` for another target.
pub fn null_bytes(text: &str) -> Option<u64> {
    match text.strip_prefix("null:") {
        Some(bytes) => size(bytes, Prefixes::Plain).ok(),
        None => (text == "null").then_some(NULL_BYTES),
    }
}

fn null(text: &str) -> Result<OpenTarget, Error> {
    let bytes = match text.strip_prefix("null:") {
        Some(bytes) => size(bytes, Prefixes::Plain).map_err(|e| Error::Model(format!("{text}: {e}")))?,
        None => NULL_BYTES,
    };
    if bytes < SECTOR_BYTES {
        return Err(Error::Model(format!("{text}: smaller than a sector of {SECTOR_BYTES} bytes")));
    }
    let facts = Facts {
        kind: Kind::Device,
        bytes: bytes / SECTOR_BYTES * SECTOR_BYTES,
        logical_block: SECTOR_BYTES as u32,
        rotational: false,
        write_back: false,
        fua: true,
        max_request_bytes: MAX_REQUEST_BYTES,
        depth: None,
        kernel_scheduler: String::new(),
        direct: true,
    };
    Ok(OpenTarget {
        target: Arc::new(Target::virtual_device(text, facts)?),
        device: Some(Box::<NullDevice>::default()),
        depth: None,
        rotational: false,
        trims: true,
        manual_clock: false,
    })
}
