//! A disk's queue: the attributes in `/sys/block/NAME/queue`, and restoring them as they were at one moment.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::disk::disk_of;
use crate::file::{read, read_some, write};
use crate::{Error, Roots};

/// The queue of a whole disk.
#[derive(Clone, Debug)]
pub struct Queue {
    name: String,
    /// `/sys/block/NAME`.
    disk: PathBuf,
}

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

    /// The number of the disk, such as `259:0`, by which the files of cgroups name it.
    pub fn number(&self) -> Result<String, Error> {
        read(&self.disk.join("dev"))
    }

    /// A number that the kernel gives to one disk only, even where another has the same name later.
    pub fn sequence(&self) -> Option<String> {
        read_some(&self.disk.join("diskseq"))
    }

    /// The file of an attribute.
    pub fn file(&self, attribute: &str) -> PathBuf {
        self.disk.join("queue").join(attribute)
    }

    /// Value of an attribute as the kernel reports it; those of the scheduler are named `iosched/...`.
    pub fn get(&self, attribute: &str) -> Result<String, Error> {
        self.known(attribute)?;
        read(&self.file(attribute))
    }

    pub(crate) fn known(&self, attribute: &str) -> Result<(), Error> {
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

    /// Does it have a scheduler? Stacked devices (device-mapper, md) pass their I/O on to devices that do.
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

    /// Gives the driver all of its tags back. The scheduler is `none` afterwards.
    ///
    /// `nr_requests` is the number of driver tags under `none`, and of the scheduler's requests under any other. A limit that
    /// was set under `none` stays in force under the others and when `none` comes back, though `nr_requests` then shows
    /// the full number; and writing the number that it shows has no effect (Linux 6.12, 6.18).
    pub fn release_tags(&self) -> Result<(), Error> {
        // After a switch from another scheduler, `none` shows how many tags the driver has at most.
        let (current, all) = self.schedulers()?;
        let other = all.iter().find(|name| *name != "none");
        if let Some(other) = other.filter(|_| current == "none") {
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

    /// Settings that are not the kernel's defaults and change results, one remark each. A limit on driver tags is visible
    /// only where debugfs is mounted.
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
        let state = read_some(&tags).unwrap_or_default();
        let number = |key: &str| state.lines().find_map(|line| line.strip_prefix(key)?.parse::<u32>().ok());
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

    /// These values as what to restore; `scheduler` is the name in force.
    pub(crate) fn snapshot_of(&self, values: &BTreeMap<String, String>) -> Snapshot {
        let scheduler = values.get("scheduler").cloned();
        let others = values.iter().filter(|(name, _)| *name != "scheduler");
        let mut snapshot = Snapshot {
            disk: self.disk.clone(),
            sequence: self.sequence(),
            scheduler,
            values: others.map(|(name, value)| (name.clone(), value.clone())).collect(),
        };
        snapshot.sort();
        snapshot
    }

    /// The writable attributes and their values now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let writable = |name: &str| {
            let mode = std::fs::metadata(self.file(name)).map(|m| m.permissions().mode());
            mode.is_ok_and(|m| m & 0o222 != 0)
        };
        let values = self.attributes().into_iter().filter(|(name, _)| name != "scheduler" && writable(name)).collect();
        let mut snapshot = Snapshot {
            disk: self.disk.clone(),
            sequence: self.sequence(),
            scheduler: self.schedulers().map(|(current, _)| current).ok(),
            values,
        };
        snapshot.sort();
        snapshot
    }
}

/// The word in brackets, such as the scheduler in force; all of the text where there is none.
pub fn chosen(text: &str) -> String {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text, |(word, _)| word).to_owned()
}

/// The writable attributes of a queue at one moment, in the order in which they are restored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    disk: PathBuf,
    sequence: Option<String>,
    scheduler: Option<String>,
    values: Vec<(String, String)>,
}

impl Snapshot {
    /// The order of writing: nr_requests resets async_depth; the scheduler's own come last.
    fn sort(&mut self) {
        self.values.sort_by_key(|(name, _)| (name.starts_with("iosched/"), name != "nr_requests"));
    }

    pub(crate) fn queue(&self) -> Queue {
        Queue::at(&self.disk)
    }

    /// Only the attributes that differ from it now.
    pub(crate) fn unsettled(&self) -> Snapshot {
        let queue = self.queue();
        let current = queue.schedulers().map(|(current, _)| current).ok();
        let mut left = self.clone();
        left.scheduler = left.scheduler.filter(|was| Some(was) != current.as_ref());
        left.values.retain(|(name, was)| read_some(&queue.file(name)).as_ref() != Some(was));
        left
    }

    /// Writes back each attribute that differs: the scheduler, then what it reset. Returns what still differs, one line each.
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
            // Under another scheduler the kernel does not show any more how many tags the driver was left.
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
