//! A disk of the running kernel: sysfs, the counters of its requests, and a trace instance of our own.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use dumbwaiter_block::{Nanos, SECTOR_BYTES};
use dumbwaiter_controllers::switching::{Kind, Work};
use dumbwaiter_linux::claim::{Claim, Values};
use dumbwaiter_linux::disk::disk_of;
use dumbwaiter_linux::file::{names, read, read_some, write};
use dumbwaiter_linux::queue::{Queue, chosen};
use dumbwaiter_linux::recording::{LiveEvent, LiveEvents};
use dumbwaiter_linux::{Error, Roots};

use crate::port::{Counters, Fault, Note, Port, Reading};

/// The kernel's buffer for each CPU: more than a period's sample.
const BUFFER_KB: u64 = 2048;
/// Attributes outside `iosched` that an exchange of the scheduler resets.
const RESET_BY_EXCHANGE: [&str; 3] = ["nr_requests", "async_depth", "wbt_lat_usec"];
/// Queue depth of a device that does not report one.
const DEPTH_UNKNOWN: u32 = 32;
/// After how many calls a missing tracefs is looked for again.
const TRACE_RETRY: u32 = 10;

/// A disk of the running kernel.
pub struct KernelPort {
    path: PathBuf,
    may_act: bool,
    disk: Option<OpenDisk>,
}

struct OpenDisk {
    queue: Queue,
    /// `/sys/block/NAME`.
    folder: PathBuf,
    number: (u32, u32),
    kind: Kind,
    /// Only where settings may be changed.
    claim: Option<Claim>,
    trace: Result<LiveEvents, String>,
    tries: u32,
    last_write: Option<Nanos>,
}

impl KernelPort {
    /// The disk that `path` is or is a partition of; a bare name such as `sda` is one in `/dev`. It is locked for changes
    /// only if `may_act`.
    pub fn new(path: &Path, may_act: bool) -> KernelPort {
        let bare = path.components().count() == 1 && !path.exists();
        let path = if bare { Path::new("/dev").join(path) } else { path.to_owned() };
        KernelPort { path, may_act, disk: None }
    }

    fn disk(&mut self) -> Result<&mut OpenDisk, Fault> {
        let path = &self.path;
        self.disk.as_mut().ok_or_else(|| Fault::Gone(format!("{}: not found yet", path.display())))
    }
}

/// The kernel's error as a fault. A missing file of a disk that is present does not mean that the disk is missing.
fn fault(error: &Error, folder: &Path) -> Fault {
    let text = error.to_string();
    let Error::File { cause, .. } = error else { return Fault::Failed(text) };
    match cause.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Fault::NotPermitted(text),
        ErrorKind::InvalidInput => Fault::Invalid(text),
        // ENOENT, ENODEV, ENXIO.
        _ if matches!(cause.raw_os_error(), Some(2 | 6 | 19)) && !folder.join("queue/scheduler").exists() => {
            Fault::Gone(text)
        }
        ErrorKind::NotFound => Fault::Invalid(text),
        _ => Fault::Failed(text),
    }
}

impl Port for KernelPort {
    fn open(&mut self) -> Result<(), Fault> {
        self.disk = None;
        let path = self.path.display();
        let folder = match disk_of(&self.path, &Roots::default()) {
            Ok(Some(folder)) => folder,
            Ok(None) => return Err(Fault::Gone(format!("{path} is a regular file; name a block device"))),
            Err(Error::File { cause, .. }) if cause.kind() == ErrorKind::NotFound => {
                return Err(Fault::Gone(format!("{path}: no such device; the pilot will use it when it appears")));
            }
            Err(error) => return Err(Fault::Gone(error.to_string())),
        };
        let queue = Queue::at(&folder);
        if !queue.schedules() {
            let below = names(&folder.join("slaves")).unwrap_or_default().join(", ");
            return Err(Fault::Gone(format!("{path} has no scheduler of its own; name the disks below it: {below}")));
        }
        let number = read_some(&folder.join("dev"))
            .and_then(|text| text.split_once(':').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?))));
        let Some(number) = number else { return Err(Fault::Gone(format!("{path} has no device number"))) };
        let claim =
            if self.may_act { Some(Claim::new(&queue).map_err(|e| Fault::Failed(e.to_string()))?) } else { None };
        let trace = LiveEvents::new(queue.name(), number, BUFFER_KB).map_err(|e| e.to_string());
        let rotational = queue.get("rotational").is_ok_and(|text| text == "1");
        // Of SCSI and SATA, and the driver's tags.
        let depths = ["device/queue_depth", "mq/0/nr_tags"].iter().filter_map(|name| read_some(&folder.join(name)));
        let depth = depths.filter_map(|text| text.parse().ok()).min().unwrap_or(DEPTH_UNKNOWN);
        let kind = Kind { rotational, depth };
        self.disk = Some(OpenDisk { queue, folder, number, kind, claim, trace, tries: 0, last_write: None });
        Ok(())
    }

    fn kind(&self) -> Kind {
        self.disk.as_ref().map_or(Kind { rotational: false, depth: DEPTH_UNKNOWN }, |disk| disk.kind)
    }

    fn identity(&self) -> String {
        let Some(disk) = &self.disk else { return String::new() };
        // The name of the drive, and its size: a loop device has no more than that.
        let parts = ["wwid", "device/wwid", "device/serial", "device/model", "loop/backing_file", "size"];
        let parts = parts.iter().filter_map(|name| read_some(&disk.folder.join(name)));
        parts.map(|text| text.trim().to_owned()).collect::<Vec<_>>().join(" ")
    }

    fn blind(&self) -> Option<String> {
        let disk = self.disk.as_ref()?;
        if read_some(&disk.queue.file("iostats")).is_some_and(|text| text == "0") {
            return Some("queue/iostats is 0, so the kernel counts nothing; write 1 to it".into());
        }
        disk.trace.as_ref().err().cloned()
    }

    fn read(&mut self) -> Result<Reading, Fault> {
        let disk = self.disk()?;
        let text = read(&disk.queue.file("scheduler")).map_err(|e| fault(&e, &disk.folder))?;
        let mut values = Values::from([("scheduler".to_owned(), chosen(&text))]);
        let own = names(&disk.queue.file("iosched")).unwrap_or_default();
        let own = own.into_iter().map(|name| format!("iosched/{name}"));
        for name in RESET_BY_EXCHANGE.into_iter().map(str::to_owned).chain(own) {
            let file = disk.queue.file(&name);
            let writable = std::fs::metadata(&file).is_ok_and(|m| m.permissions().mode() & 0o200 != 0);
            if writable && let Some(value) = read_some(&file) {
                values.insert(name, value);
            }
        }
        let schedulers = text.split_whitespace().map(|word| word.trim_matches(['[', ']']).to_owned()).collect();
        Ok(Reading { sequence: disk.queue.sequence(), schedulers, values })
    }

    fn write(&mut self, attribute: &str, value: &str) -> Result<(), Fault> {
        let disk = self.disk()?;
        let Some(claim) = &disk.claim else {
            return Err(Fault::NotPermitted("the pilot was started without --act".into()));
        };
        let begun = Instant::now();
        let done = claim.change(|| write(&disk.queue.file(attribute), value)).map_err(|e| fault(&e, &disk.folder));
        disk.last_write = Some(Nanos(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)));
        done
    }

    fn last_write(&self) -> Option<Nanos> {
        self.disk.as_ref().and_then(|disk| disk.last_write)
    }

    fn note(&mut self, note: &Note) -> Result<(), Fault> {
        let disk = self.disk()?;
        let Some(claim) = &mut disk.claim else {
            return Err(Fault::NotPermitted("the pilot was started without --act".into()));
        };
        let noted = claim.note(&note.original, &note.schedulers, note.in_force.as_ref());
        noted.map_err(|e| Fault::Failed(e.to_string()))
    }

    fn release(&mut self) {
        if let Some(claim) = self.disk.as_mut().and_then(|disk| disk.claim.as_mut()) {
            claim.release();
        }
    }

    fn counters(&mut self) -> Result<Counters, Fault> {
        let disk = self.disk()?;
        let file = disk.folder.join("stat");
        let text = read(&file).map_err(|e| fault(&e, &disk.folder))?;
        counters(&text).ok_or_else(|| Fault::Failed(format!("{} is not as expected", file.display())))
    }

    fn watch(&mut self, on: bool) {
        if let Some(OpenDisk { trace: Ok(trace), .. }) = &mut self.disk {
            // A missing trace instance is noticed when its events are read.
            let _ = trace.watch(on);
        }
    }

    fn events(&mut self, _now: Nanos, into: &mut Vec<LiveEvent>) -> Result<u64, Fault> {
        let disk = self.disk()?;
        match &mut disk.trace {
            Ok(trace) => match trace.take(into) {
                Ok(lost) => Ok(lost),
                // Another user may have removed the instance.
                Err(error) => {
                    disk.trace = Err(error.to_string());
                    Ok(0)
                }
            },
            Err(_) => {
                disk.tries += 1;
                if disk.tries.is_multiple_of(TRACE_RETRY) {
                    disk.trace = LiveEvents::new(disk.queue.name(), disk.number, BUFFER_KB).map_err(|e| e.to_string());
                    self.watch(true);
                }
                Ok(0)
            }
        }
    }
}

/// Reads `/sys/block/NAME/stat`: reads, merged, sectors, ms; the same of writes; requests in flight.
fn counters(text: &str) -> Option<Counters> {
    let fields: Vec<u64> = text.split_whitespace().map_while(|field| field.parse().ok()).take(9).collect();
    let [reads, _, read_sectors, read_ms, writes, _, written_sectors, write_ms, in_flight] = fields[..] else {
        return None;
    };
    let work = Work {
        ios: reads.wrapping_add(writes),
        bytes: read_sectors.wrapping_add(written_sectors).wrapping_mul(SECTOR_BYTES),
        latency: Nanos::from_ms(read_ms.saturating_add(write_ms)),
    };
    Some(Counters { work, in_flight })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_what_the_kernel_prints() {
        let found = counters("   10  1  80  5  20  2  160  15  3  99  99  0 0 0 0 0 0").unwrap();
        assert_eq!((found.work.ios, found.work.bytes, found.in_flight), (30, 240 * 512, 3));
        assert_eq!(found.work.latency, Nanos::from_ms(20));
        assert_eq!(counters("10 1 80"), None);
        assert_eq!(counters("a b c"), None);
    }

    #[test]
    fn a_disk_that_is_not_there_and_a_file_say_so() {
        let missing = KernelPort::new(Path::new("no-such-disk"), false).open().unwrap_err();
        assert!(
            matches!(&missing, Fault::Gone(text) if text.contains("/dev/no-such-disk: no such device")),
            "{missing:?}"
        );
        let file = tempfile::NamedTempFile::new().unwrap();
        let fault = KernelPort::new(file.path(), false).open().unwrap_err();
        assert!(fault.text().contains("regular file"), "{fault:?}");
    }
}
