//! Changing the attributes of a disk's queue, with a guard that puts them back.

use crate::Error;
use crate::file::{read, write};
use crate::lock::Lock;
use crate::queue::{Queue, chosen};
use crate::undo::{self, Action, Guard};

/// The kernel's schedulers other than `none`, which may be in modules.
pub const SCHEDULERS: [&str; 3] = ["mq-deadline", "kyber", "bfq"];

/// Schedulers that were removed with the single-queue block layer, and their successors in the kernel's multi-queue block layer.
const REMOVED: [(&str, &str); 3] = [("noop", "none"), ("deadline", "mq-deadline"), ("cfq", "bfq")];

/// Changes a queue's attributes and puts every one back when dropped, on a signal, or after a crash (see [`crate::undo`]).
#[derive(Debug)]
pub struct Settings {
    queue: Queue,
    guard: Guard,
    /// `nr_requests` under `none`, before it was changed there.
    driver_tags: Option<String>,
    /// Released last, when all is put back.
    _lock: Option<Lock>,
}

impl Settings {
    /// Saves every value of the queue before anything is changed. A disk has one `Settings` at a time: a second one is
    /// refused, in this process and in any other.
    pub fn new(queue: &Queue) -> Result<Settings, Error> {
        let lock = undo::lock(queue)?;
        let guard = Guard::new(Action::restore_attributes(queue.snapshot()), || Ok(()))?;
        Ok(Settings { queue: queue.clone(), guard, driver_tags: None, _lock: lock })
    }

    /// The queue.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Sets an attribute and returns the value that is in force then, which the kernel may have rounded. Set `scheduler`
    /// first: it resets `nr_requests` and all of `iosched/...`, also where it is `none` and stays so.
    pub fn set(&mut self, attribute: &str, value: &str) -> Result<String, Error> {
        let under_none = self.queue.schedulers().is_ok_and(|(current, _)| current == "none");
        let mut tags = self.driver_tags.take();
        let done = self.guard.change(|| {
            self.queue.known(attribute)?;
            match attribute {
                "nr_requests" if under_none && tags.is_none() => tags = Some(read(&self.queue.file(attribute))?),
                "scheduler" if under_none => {
                    if let Some(tags) = tags.take() {
                        write(&self.queue.file("nr_requests"), &tags)?;
                    }
                }
                _ => {}
            }
            write(&self.queue.file(attribute), value).map_err(|e| self.explain(attribute, value, e))?;
            let now = read(&self.queue.file(attribute))?;
            if attribute == "scheduler" {
                let now = chosen(&now);
                if now != value {
                    let name = self.queue.name();
                    return Err(Error::Refused(format!("{name}: asked for scheduler {value}, the kernel uses {now}")));
                }
                return Ok(now);
            }
            Ok(now)
        });
        self.driver_tags = tags;
        done
    }

    /// A scheduler in a module is not listed before it is loaded, which choosing it does: chooses each of [`SCHEDULERS`]
    /// that is `wanted` and not listed, and then again what was in force. One that is nowhere stays unlisted.
    pub fn load_schedulers(&mut self, wanted: impl Fn(&str) -> bool) -> Result<(), Error> {
        let (current, has) = self.queue.schedulers()?;
        let missing = SCHEDULERS.into_iter().filter(|name| wanted(name) && !has.iter().any(|h| h == name));
        let mut changed = false;
        for name in missing {
            changed |= self.set("scheduler", name).is_ok();
        }
        if changed {
            self.set("scheduler", &current)?;
        }
        Ok(())
    }

    fn explain(&self, attribute: &str, value: &str, error: Error) -> Error {
        // A lack of permission is its own reason.
        let refused = match &error {
            Error::File { cause, .. } => matches!(cause.raw_os_error(), Some(libc::EINVAL | libc::ERANGE)),
            Error::Refused(_) => false,
        };
        if !refused {
            return error;
        }
        if attribute != "scheduler" {
            let (name, now) = (&self.queue.name(), self.queue.get(attribute));
            let now = now.map(|now| format!("; it is {now}")).unwrap_or_default();
            return Error::Refused(format!("{name}: the kernel refuses {attribute} = \"{value}\"{now}"));
        }
        let all = self.queue.schedulers().map(|(_, all)| all.join(", ")).unwrap_or_default();
        let hint = REMOVED.iter().find(|(old, _)| *old == value);
        let hint = hint.map(|(_, new)| format!("; its successor is {new}")).unwrap_or_default();
        Error::Refused(format!("{}: no scheduler \"{value}\" in this kernel, it has {all}{hint}", self.queue.name()))
    }

    /// Puts everything back now; what could not be, one line each. Can be called again; later changes are put back too.
    pub fn restore(&mut self) -> Vec<String> {
        self.guard.restore()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};

    use super::*;

    fn disk(dir: &Path) -> PathBuf {
        // Not the name of a real one, which may be being measured.
        let disk = dir.join(format!("fake-{}", dir.file_name().unwrap().display()));
        std::fs::create_dir_all(disk.join("queue/iosched")).unwrap();
        for (name, value) in [
            ("diskseq", "7"),
            ("queue/scheduler", "none [mq-deadline] kyber"),
            ("queue/nr_requests", "256"),
            ("queue/nomerges", "0"),
            ("queue/logical_block_size", "512"),
            ("queue/iosched/fifo_batch", "16"),
        ] {
            std::fs::write(disk.join(name), format!("{value}\n")).unwrap();
        }
        let read_only = PermissionsExt::from_mode(0o444);
        std::fs::set_permissions(disk.join("queue/logical_block_size"), read_only).unwrap();
        disk
    }

    #[test]
    fn values_come_back_after_a_drop_and_read_only_ones_are_left() {
        let dir = tempfile::tempdir().unwrap();
        let queue = Queue::at(&disk(dir.path()));
        let mut settings = Settings::new(&queue).unwrap();
        // A plain file does not truncate itself: what is written is as long as what was there.
        assert_eq!(settings.set("nr_requests", "128").unwrap(), "128");
        assert_eq!(settings.set("iosched/fifo_batch", "32").unwrap(), "32");
        assert_eq!(queue.get("nr_requests").unwrap(), "128");
        assert_eq!(settings.restore(), Vec::<String>::new());
        assert_eq!(queue.get("nr_requests").unwrap(), "256");
        settings.set("nomerges", "2").unwrap();
        drop(settings);
        assert_eq!(queue.get("nomerges").unwrap(), "0");
        assert_eq!(queue.get("iosched/fifo_batch").unwrap(), "16");
        assert_eq!(queue.get("logical_block_size").unwrap(), "512");
    }

    #[test]
    fn another_disk_under_the_same_name_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = disk(dir.path());
        let queue = Queue::at(&path);
        let mut settings = Settings::new(&queue).unwrap();
        settings.set("nomerges", "1").unwrap();
        std::fs::write(path.join("diskseq"), "8\n").unwrap();
        drop(settings);
        assert_eq!(queue.get("nomerges").unwrap(), "1");
    }

    #[test]
    fn only_schedulers_that_are_wanted_and_not_listed_are_tried() {
        let dir = tempfile::tempdir().unwrap();
        let queue = Queue::at(&disk(dir.path()));
        let mut settings = Settings::new(&queue).unwrap();
        // Nothing that is wanted is missing: nothing is written.
        settings.load_schedulers(|name| name != "bfq").unwrap();
        assert_eq!(queue.get("scheduler").unwrap(), "none [mq-deadline] kyber");
        // The one that is missing is tried, and that it is not there is no error.
        settings.load_schedulers(|_| true).unwrap();
        assert_eq!(queue.get("scheduler").unwrap(), "bfqe [mq-deadline] kyber");
    }

    #[test]
    fn unknown_attributes_are_named_with_those_that_exist() {
        let dir = tempfile::tempdir().unwrap();
        let queue = Queue::at(&disk(dir.path()));
        let mut settings = Settings::new(&queue).unwrap();
        for bad in ["nonsense", "../diskseq", "iosched/../nomerges", "", "iosched"] {
            let said = settings.set(bad, "1").unwrap_err().to_string();
            assert!(said.contains("nr_requests") && said.contains("iosched/fifo_batch"), "{bad}: {said}");
        }
        assert!(queue.schedules());
        assert_eq!(queue.schedulers().unwrap().0, "mq-deadline");
        assert_eq!(queue.schedulers().unwrap().1, ["none", "mq-deadline", "kyber"]);
    }
}
