//! A disk's queue: the attributes in `/sys/block/NAME/queue`, and a guard that puts them back.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::file::{read, read_some, write};
use crate::lock::Lock;
use crate::target::disk_of;
use crate::undo::{self, Action, Guard};
use crate::{Error, Roots};

/// The queue of a whole disk.
#[derive(Clone, Debug)]
pub struct Queue {
    name: String,
    /// `/sys/block/NAME`.
    disk: PathBuf,
}

/// Linux's own, which may be in modules.
pub const SCHEDULERS: [&str; 3] = ["mq-deadline", "kyber", "bfq"];

/// Names that a scheduler had before the kernel's multi-queue block layer.
const GONE: [(&str, &str); 3] = [("noop", "none"), ("deadline", "mq-deadline"), ("cfq", "bfq")];

impl Queue {
    /// The queue of the disk that `path` is or is a partition of; `None` for a regular file.
    pub fn of(path: &Path) -> Result<Option<Queue>, Error> {
        Ok(disk_of(path, &Roots::default())?.map(|disk| Queue::at(&disk)))
    }

    /// The queue of the disk whose folder in sysfs is given (`/sys/block/sda`).
    pub fn at(disk: &Path) -> Queue {
        let name = disk.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        Queue { name, disk: disk.into() }
    }

    /// Name of the disk, such as `sda`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kernel gives each disk another number, even under the same name.
    pub(crate) fn sequence(&self) -> Option<String> {
        read_some(&self.disk.join("diskseq"))
    }

    fn file(&self, attribute: &str) -> PathBuf {
        self.disk.join("queue").join(attribute)
    }

    /// Value of an attribute as the kernel tells it; those of the scheduler are named `iosched/...`.
    pub fn get(&self, attribute: &str) -> Result<String, Error> {
        self.known(attribute)?;
        read(&self.file(attribute))
    }

    fn known(&self, attribute: &str) -> Result<(), Error> {
        let plain = attribute.strip_prefix("iosched/").unwrap_or(attribute);
        let sane = !plain.is_empty() && !plain.contains('/') && !plain.starts_with('.');
        if sane && self.file(attribute).is_file() {
            return Ok(());
        }
        let all: Vec<String> = self.attributes().into_keys().collect();
        let all = all.join(", ");
        Err(Error::Refused(format!("{} has no queue attribute \"{attribute}\"; it has {all}", self.name)))
    }

    /// Every attribute that can be read, `iosched/...` included.
    pub fn attributes(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for (folder, prefix) in [("", ""), ("iosched", "iosched/")] {
            for file in std::fs::read_dir(self.file(folder)).into_iter().flatten().flatten() {
                let path = file.path();
                if path.is_file()
                    && let (Some(name), Some(value)) = (file.file_name().to_str(), read_some(&path))
                {
                    found.insert(format!("{prefix}{name}"), value);
                }
            }
        }
        found
    }

    /// Has it a scheduler at all? Devices made of others (device-mapper, md) hand their I/O on to those, which have.
    pub fn schedules(&self) -> bool {
        self.file("scheduler").is_file()
    }

    /// The scheduler in use, and all that can be chosen (those in modules not yet loaded are missing).
    pub fn schedulers(&self) -> Result<(String, Vec<String>), Error> {
        let text = self.get("scheduler")?;
        let current = chosen(&text);
        let all = text.split_whitespace().map(|w| w.trim_matches(['[', ']']).to_owned()).collect();
        Ok((current, all))
    }

    /// Gives the driver all of its tags back, under the scheduler `none`, which stays.
    ///
    /// `nr_requests` is how many tags the driver has under `none`, and how many the scheduler has under any other. What was
    /// taken from the driver under `none` stays taken under the others and after, though `nr_requests` then says otherwise;
    /// and a value that it says already is not written through (Linux 6.12, 6.18).
    pub fn release_tags(&self) -> Result<(), Error> {
        // Coming from a scheduler, `none` says how many the driver has at most.
        let (current, all) = self.schedulers()?;
        let by_way_of = all.iter().find(|name| *name != "none");
        if let Some(other) = by_way_of.filter(|_| current == "none") {
            write(&self.file("scheduler"), other)?;
        }
        write(&self.file("scheduler"), "none")?;
        let most = read(&self.file("nr_requests"))?;
        if let Some(less) = most.parse::<u32>().ok().filter(|most| *most > 1).map(|most| most - 1) {
            write(&self.file("nr_requests"), &less.to_string())?;
            write(&self.file("nr_requests"), &most)?;
        }
        Ok(())
    }

    /// What of the settings makes figures of this disk others than the kernel's defaults would, one remark each. That the
    /// driver lacks tags is seen in debugfs only, where that is mounted.
    pub fn remarks(&self, roots: &Roots) -> Vec<String> {
        let mut remarks = Vec::new();
        for (attribute, default) in [("nomerges", "0"), ("rq_affinity", "1")] {
            match read_some(&self.file(attribute)) {
                Some(value) if value != default => {
                    remarks.push(format!("{} has {attribute} = {value}; the kernel's default is {default}", self.name));
                }
                _ => {}
            }
        }
        let tags = roots.sys.join("kernel/debug/block").join(&self.name).join("hctx0/tags");
        let told = read_some(&tags).unwrap_or_default();
        let number = |key: &str| told.lines().find_map(|line| line.strip_prefix(key)?.parse::<u32>().ok());
        if let (Some(all), Some(free)) = (number("nr_tags="), number("depth="))
            && free < all
        {
            remarks.push(format!(
                "{} has {free} of its driver's {all} tags: nr_requests was lowered under none; to have them all, set none and write {} and then {all} to nr_requests",
                self.name,
                all - 1
            ));
        }
        remarks
    }

    /// What is there now and can be written.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let writable = |name: &str| {
            let mode = std::fs::metadata(self.file(name)).map(|m| m.permissions().mode());
            mode.is_ok_and(|m| m & 0o222 != 0)
        };
        let mut values: Vec<(String, String)> =
            self.attributes().into_iter().filter(|(name, _)| name != "scheduler" && writable(name)).collect();
        // nr_requests resets async_depth; the scheduler's own come last.
        values.sort_by_key(|(name, _)| (name.starts_with("iosched/"), name != "nr_requests"));
        Snapshot {
            disk: self.disk.clone(),
            sequence: self.sequence(),
            scheduler: self.schedulers().map(|(current, _)| current).ok(),
            values,
        }
    }
}

/// The word in brackets; all of the text where there is none.
fn chosen(text: &str) -> String {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text, |(word, _)| word).to_owned()
}

/// A queue's values at one moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    disk: PathBuf,
    sequence: Option<String>,
    scheduler: Option<String>,
    values: Vec<(String, String)>,
}

impl Snapshot {
    pub(crate) fn queue(&self) -> Queue {
        Queue::at(&self.disk)
    }

    /// No more than what is not as it was.
    pub(crate) fn unsettled(&self) -> Snapshot {
        let queue = self.queue();
        let current = queue.schedulers().map(|(current, _)| current).ok();
        let mut left = self.clone();
        left.scheduler = left.scheduler.filter(|was| Some(was) != current.as_ref());
        left.values.retain(|(name, was)| read_some(&queue.file(name)).as_ref() != Some(was));
        left
    }

    /// Writes back whatever differs: the scheduler, then what it reset. Says what still differs.
    pub(crate) fn restore(&self) -> Vec<String> {
        let queue = self.queue();
        if !queue.file("").is_dir() || queue.sequence() != self.sequence {
            // The disk went away, and its settings with it.
            return Vec::new();
        }
        let mut problems = Vec::new();
        let current = queue.schedulers().map(|(current, _)| current).ok();
        if let Some(scheduler) = &self.scheduler
            && current.as_ref() != Some(scheduler)
        {
            // Whoever leaves `none` cannot tell any more whether it took tags from the driver.
            let released = if current.as_deref() == Some("none") { queue.release_tags() } else { Ok(()) };
            problems.extend(
                released.and_then(|()| write(&queue.file("scheduler"), scheduler)).err().map(|e| e.to_string()),
            );
        }
        // Twice, because an attribute may have reset one that was written before it.
        for last in [false, true] {
            for (name, value) in &self.values {
                let file = queue.file(name);
                if read_some(&file).as_ref() == Some(value) {
                    continue;
                }
                if let Err(e) = write(&file, value)
                    && last
                {
                    problems.push(e.to_string());
                }
            }
        }
        for (name, value) in &self.values {
            let now = read_some(&queue.file(name));
            if now.as_ref() != Some(value) {
                problems.push(format!("{name} was {value} and is {}", now.as_deref().unwrap_or("gone")));
            }
        }
        problems
    }
}

/// Changes a queue's attributes and puts every one back when dropped, on a signal, or after a crash (see [`crate::undo`]).
#[derive(Debug)]
pub struct Settings {
    queue: Queue,
    guard: Guard,
    /// What `nr_requests` was under `none` before it was changed there.
    driver_tags: Option<String>,
    /// Goes last, when all is put back.
    _lock: Option<Lock>,
}

impl Settings {
    /// Notes every value of the queue, before anything is changed. A disk has one `Settings` at a time: where another is
    /// there, of whatever process, this is refused.
    pub fn new(queue: &Queue) -> Result<Settings, Error> {
        let lock = undo::lock(queue)?;
        let guard = Guard::of(Action::Queue(queue.snapshot()), || Ok(()))?;
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
                    let name = &self.queue.name;
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
            let (name, now) = (&self.queue.name, self.queue.get(attribute));
            let now = now.map(|now| format!("; it is {now}")).unwrap_or_default();
            return Error::Refused(format!("{name}: the kernel refuses {attribute} = \"{value}\"{now}"));
        }
        let all = self.queue.schedulers().map(|(_, all)| all.join(", ")).unwrap_or_default();
        let hint = GONE.iter().find(|(old, _)| *old == value);
        let hint = hint.map(|(_, new)| format!("; its successor is {new}")).unwrap_or_default();
        Error::Refused(format!("{}: no scheduler \"{value}\" in this kernel, it has {all}{hint}", self.queue.name))
    }

    /// Puts everything back now, and says what could not be. Can be called again; changes after it are put back too.
    pub fn restore(&mut self) -> Vec<String> {
        self.guard.restore()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(dir: &Path) -> PathBuf {
        // Not the name of a real one, which somebody may be measuring.
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
