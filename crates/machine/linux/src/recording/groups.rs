//! The control groups of the processes that are recorded: their weights, and what changes while it is recorded.
//!
//! The kernel has no event for a change of a weight, so the groups' files are read again and again; a change is seen at most
//! one [reading](crate::recording::capture) after it was made.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::Roots;
use crate::cgroup::{Version, detect};
use crate::file::read_some;
use crate::io_cost::{is_enabled, settings_of};
use serde_json::{Value, json};

use crate::recording::about::About;
use crate::recording::rows::Row;

/// A group's name in a recording: its path without the first `/`, "" for the root group.
type Name = String;

/// The default weight, where a group has no file of its own weight.
const DEFAULT_WEIGHT: u32 = 100;

/// The text of a group without limits.
const NO_LIMITS: &str = "rbps=max wbps=max riops=max wiops=max";

/// A change of a group or a process.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    /// A group has this weight now.
    Weight(Name, u32),
    /// A group has these limits now, as `io.max` has them.
    Limits(Name, String),
    /// A process is in this group now.
    Moved(i32, Name),
    /// A process ended.
    Ended(i32),
}

/// Changes that probes tell at the moment when they are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProbedChanges {
    /// Weights of io.cost.
    pub(crate) weights: bool,
    /// Limits of io.max.
    pub(crate) limits: bool,
}

/// All groups, as their files say it at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Reading {
    weights: BTreeMap<Name, u32>,
    /// `io.max` of the disk, where a group has any.
    limits: BTreeMap<Name, String>,
    members: BTreeMap<i32, Name>,
}

/// The groups from the start of a recording on.
pub(crate) struct Groups {
    mount: PathBuf,
    version: Version,
    /// The disk, as `8:0`.
    number: String,
    /// Weights are those of io.cost: it is enabled on the disk.
    by_cost: bool,
    /// Groups by the kernel's number of them.
    paths: BTreeMap<u64, Name>,
    first: Reading,
    last: Reading,
    /// By the time of CLOCK_MONOTONIC, ns.
    changes: Vec<(u64, Change)>,
}

/// CLOCK_MONOTONIC, ns, as in the events.
fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A weight file's value: a number alone, or after `default`.
fn weight_in(text: &str) -> Option<u32> {
    text.lines().find_map(|line| line.strip_prefix("default").unwrap_or(line).trim().parse().ok())
}

impl Groups {
    /// Begins with the groups as they are; `None` where no hierarchy has the I/O controller.
    pub(crate) fn begin(about: &About, roots: &Roots) -> Option<Groups> {
        let hierarchy = detect(roots).0?;
        let number = format!("{}:{}", about.dev.0, about.dev.1);
        let by_cost = is_enabled(&settings_of(&number, roots)[1]);
        let mut groups = Groups::none(hierarchy.mount, hierarchy.version, number, by_cost);
        groups.first = groups.read();
        groups.last = groups.first.clone();
        Some(groups)
    }

    fn none(mount: PathBuf, version: Version, number: String, by_cost: bool) -> Groups {
        let (paths, changes, empty) = (BTreeMap::new(), Vec::new(), Reading::default());
        Groups { mount, version, number, by_cost, paths, first: empty.clone(), last: empty, changes }
    }

    /// Forgets the changes that probes told at the moment when they were made.
    pub(crate) fn leave_to_probes(&mut self, probed: ProbedChanges) {
        let by_cost = self.by_cost;
        self.changes.retain(|(_, change)| match change {
            Change::Weight(..) => !(probed.weights && by_cost),
            Change::Limits(..) => !probed.limits,
            _ => true,
        });
    }

    /// Whether any group has limits on the disk.
    pub(crate) fn are_limited(&self) -> bool {
        !self.first.limits.is_empty()
    }

    /// Groups by the kernel's number of them.
    pub(crate) fn paths(&self) -> BTreeMap<u64, Name> {
        self.paths.clone()
    }

    fn read(&mut self) -> Reading {
        let mut reading = Reading::default();
        self.read_into(&self.mount.clone(), String::new(), &mut reading);
        reading
    }

    fn read_into(&mut self, dir: &Path, name: Name, reading: &mut Reading) {
        let (weights, members): (&[&str], _) = match self.version {
            Version::V2 if self.by_cost => (&["io.weight"], "cgroup.threads"),
            Version::V2 => (&["io.bfq.weight", "io.weight"], "cgroup.threads"),
            Version::V1 => (&["blkio.bfq.weight", "blkio.weight"], "tasks"),
        };
        let weight = weights.iter().find_map(|file| weight_in(&read_some(&dir.join(file))?));
        // A group without a weight of its own is not one for the scheduler: its processes count to the group around it.
        let known = weight.is_some() || name.is_empty();
        let own = if known { name.clone() } else { parent_of(&name).unwrap_or_default().to_owned() };
        if known {
            reading.weights.insert(name.clone(), weight.unwrap_or(DEFAULT_WEIGHT));
        }
        let limits = read_some(&dir.join("io.max")).unwrap_or_default();
        let of_disk = limits.lines().find_map(|line| line.strip_prefix(self.number.as_str())?.strip_prefix(' '));
        reading.limits.extend(of_disk.map(|text| (name.clone(), text.to_owned())));
        if let Ok(facts) = std::fs::metadata(dir) {
            self.paths.entry(facts.ino()).or_insert_with(|| name.clone());
        }
        for pid in read_some(&dir.join(members)).unwrap_or_default().lines().filter_map(|l| l.trim().parse().ok()) {
            reading.members.insert(pid, own.clone());
        }
        let Ok(entries) = std::fs::read_dir(dir) else { return };
        for entry in entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
            // A name that the rows cannot hold is none of a load's.
            let Some(child) = entry.file_name().to_str().map(str::to_owned) else { continue };
            if child.contains([',', ' ', ';', '"']) {
                continue;
            }
            let path = if name.is_empty() { child } else { format!("{name}/{child}") };
            self.read_into(&entry.path(), path, reading);
        }
    }

    /// Reads the groups again.
    pub(crate) fn follow(&mut self) {
        let reading = self.read();
        self.take(now(), reading);
    }

    fn take(&mut self, at: u64, reading: Reading) {
        for (name, weight) in &reading.weights {
            match self.last.weights.get(name) {
                Some(before) if before == weight => {}
                Some(_) => self.changes.push((at, Change::Weight(name.clone(), *weight))),
                // A group made since the start has had its weight from the start.
                None => {
                    self.first.weights.entry(name.clone()).or_insert(*weight);
                }
            }
        }
        let limited: BTreeSet<&Name> = reading.limits.keys().chain(self.last.limits.keys()).collect();
        for name in limited {
            let (before, now) = (self.last.limits.get(name), reading.limits.get(name));
            if before != now {
                let text = now.map_or(NO_LIMITS, String::as_str);
                self.changes.push((at, Change::Limits(name.clone(), text.to_owned())));
            }
        }
        for (pid, name) in &reading.members {
            match self.last.members.get(pid) {
                Some(before) if before == name => {}
                Some(_) => self.changes.push((at, Change::Moved(*pid, name.clone()))),
                None => {
                    self.first.members.entry(*pid).or_insert_with(|| name.clone());
                }
            }
        }
        for pid in self.last.members.keys().filter(|pid| !reading.members.contains_key(pid)) {
            self.changes.push((at, Change::Ended(*pid)));
        }
        self.last = reading;
    }

    /// The groups of these processes and the groups around them, parents first, as the JSON of a recording has them; none
    /// where all are in the root group.
    pub(crate) fn describe(&self, pids: &BTreeSet<i32>, named: &BTreeSet<Name>) -> Vec<Value> {
        let mut names: BTreeSet<&str> = BTreeSet::new();
        let moved_to = self.changes.iter().filter_map(|(_, change)| match change {
            Change::Moved(pid, name) if pids.contains(pid) => Some(name),
            _ => None,
        });
        for name in pids.iter().filter_map(|pid| self.first.members.get(pid)).chain(moved_to).chain(named) {
            let mut at = Some(name.as_str());
            while let Some(name) = at {
                names.insert(name);
                at = parent_of(name);
            }
        }
        if names.iter().all(|name| name.is_empty()) {
            return Vec::new();
        }
        let of = |name: &str| {
            let members = pids.iter().filter(|pid| self.first.members.get(pid).is_some_and(|n| n == name));
            let weight = self.first.weights.get(name).copied().unwrap_or(DEFAULT_WEIGHT);
            let mut group = json!({ "path": name, "weight": weight, "pids": members.collect::<Vec<_>>() });
            if let Some(limits) = self.first.limits.get(name) {
                group["io.max"] = limits.as_str().into();
            }
            group
        };
        names.into_iter().map(of).collect()
    }

    /// Adds rows for the changes of these processes and their groups; `first` is the time of the first event.
    pub(crate) fn add_rows(&self, rows: &mut Vec<Row>, (pids, named): (&BTreeSet<i32>, &BTreeSet<Name>), first: u64) {
        let groups = self.describe(pids, named);
        let known = |name: &str| groups.iter().any(|group| group["path"] == name);
        let end = rows.last().map_or(0, |row| row.at);
        let row = |at: u64, event: &'static str, flags: String, pid: Option<i32>| Row {
            at: at.saturating_sub(first).min(end),
            event,
            req: 0,
            sector: None,
            bytes: None,
            op: String::new(),
            flags,
            pid,
            ioprio: None,
            cpu: 0,
            group: String::new(),
        };
        for (at, change) in &self.changes {
            rows.extend(match change {
                Change::Weight(name, weight) if known(name) => {
                    Some(row(*at, "group_weight", format!("group={name} weight={weight}"), None))
                }
                Change::Limits(name, text) if known(name) => {
                    Some(row(*at, "mark", format!("io.max group={name} {text}"), None))
                }
                Change::Moved(pid, name) if pids.contains(pid) => {
                    Some(row(*at, "task_group", format!("group={name}"), Some(*pid)))
                }
                Change::Ended(pid) if pids.contains(pid) => Some(row(*at, "task_exit", String::new(), Some(*pid))),
                _ => None,
            });
        }
        rows.sort_by_key(|row| row.at);
    }
}

/// The name of the group around a group; `None` for the root.
fn parent_of(name: &str) -> Option<&str> {
    if name.is_empty() { None } else { Some(name.rsplit_once('/').map_or("", |(above, _)| above)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> Groups {
        Groups::none(PathBuf::new(), Version::V2, "8:0".to_owned(), false)
    }

    fn reading(weights: &[(&str, u32)], members: &[(i32, &str)]) -> Reading {
        Reading {
            weights: weights.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect(),
            limits: BTreeMap::new(),
            members: members.iter().map(|(pid, name)| (*pid, (*name).to_owned())).collect(),
        }
    }

    #[test]
    fn a_recording_has_the_groups_around_its_processes_and_what_changed() {
        let first =
            reading(&[("", 100), ("a", 300), ("a/x", 50), ("b", 100), ("c", 7)], &[(1, "a/x"), (2, "b"), (9, "c")]);
        let mut groups = Groups { first: first.clone(), last: first, ..none() };
        let second = [("", 100), ("a", 300), ("a/x", 60), ("b", 100), ("c", 8)];
        groups.take(2_000, reading(&second, &[(1, "a/x"), (2, "a/x"), (3, "b")]));
        groups.take(3_000, reading(&second, &[(2, "a/x"), (3, "b")]));
        let pids = BTreeSet::from([1, 2, 3]);
        let found = groups.describe(&pids, &BTreeSet::new());
        let paths: Vec<&str> = found.iter().map(|g| g["path"].as_str().unwrap()).collect();
        assert_eq!(paths, ["", "a", "a/x", "b"], "parents first; no group of others");
        assert_eq!(found[2], json!({ "path": "a/x", "weight": 50, "pids": [1] }));
        assert_eq!(found[3]["pids"], json!([2, 3]), "3 began in it");
        let mut rows = Vec::new();
        groups.add_rows(&mut rows, (&pids, &BTreeSet::new()), 1_000);
        let told: Vec<(&str, &str, Option<i32>)> = rows.iter().map(|r| (r.event, r.flags.as_str(), r.pid)).collect();
        let expected = [
            ("group_weight", "group=a/x weight=60", None),
            ("task_group", "group=a/x", Some(2)),
            ("task_exit", "", Some(1)),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn limits_are_told_as_they_are_at_first_and_where_they_change() {
        let limited = |text: &str| {
            let mut found = reading(&[("", 100), ("a", 100)], &[(1, "a")]);
            found.limits = [("a".to_owned(), text.to_owned())].into_iter().filter(|_| !text.is_empty()).collect();
            found
        };
        let first = limited("rbps=1000 wbps=max riops=max wiops=max");
        let mut groups = Groups { first: first.clone(), last: first, ..none() };
        assert!(groups.are_limited() && !none().are_limited());
        groups.take(2_000, limited("rbps=5 wbps=max riops=max wiops=max"));
        groups.take(3_000, limited(""));
        let (pids, named) = (BTreeSet::new(), BTreeSet::from(["a".to_owned()]));
        assert_eq!(groups.describe(&pids, &named)[1]["io.max"], "rbps=1000 wbps=max riops=max wiops=max");
        let mut rows = Vec::new();
        groups.add_rows(&mut rows, (&pids, &named), 1_000);
        let told: Vec<&str> = rows.iter().map(|row| row.flags.as_str()).collect();
        let expected = ["io.max group=a rbps=5 wbps=max riops=max wiops=max", &format!("io.max group=a {NO_LIMITS}")];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_load_in_the_root_group_has_no_groups() {
        let first = reading(&[("", 100), ("other", 100)], &[(1, ""), (2, "other")]);
        let groups = Groups { first: first.clone(), last: first, ..none() };
        assert!(groups.describe(&BTreeSet::from([1]), &BTreeSet::new()).is_empty());
    }

    #[test]
    fn a_weight_file_has_a_number_or_a_default() {
        assert_eq!(
            (weight_in("100\n"), weight_in("default 250\n8:0 10\n"), weight_in("")),
            (Some(100), Some(250), None)
        );
    }
}
