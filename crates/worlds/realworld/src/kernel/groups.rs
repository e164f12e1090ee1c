//! The cgroups of a load's tenants with what is asked for them, and the changes of the load during a run under the kernel's
//! schedulers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::drive::worker::monotonic;
use dumbwaiter_block::{Nanos, TenantId};
use dumbwaiter_linux::cgroup::{self, Groups, Rule, Version};
use dumbwaiter_linux::{Roots, ioprio};
use dumbwaiter_scenario::Rates;
use dumbwaiter_scenario::load::{Change, Load};

use super::asked::{Asked, io_max_text};
use crate::error::Error;

/// The largest weight that every kind of cgroup takes.
const WEIGHT_MAX: u64 = 1000;
/// Weight of the tasks of a tenant beside the tenants in it; the kernel's default.
const OWN_TASKS_WEIGHT: u32 = 100;
/// How soon the end of a run is noticed.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A cgroup with its weight for each tenant.
pub(super) struct TenantGroups {
    groups: Groups,
    /// By tenant: its cgroup, and the one of its own processes. The root group has none.
    places: Vec<Option<(usize, usize)>>,
    /// The tenant of the root group's processes.
    root: Option<TenantId>,
    /// The largest weight of any tenant in the run.
    heaviest: u64,
    /// What is asked for the tenants.
    asked: Asked,
}

impl TenantGroups {
    /// Cgroups for the tenants of a load that has several, or of which something is asked. `None`, with a note, where this system
    /// has none; an error where something is asked that it cannot do.
    pub(super) fn new(load: &Load, asked: Asked, notes: &mut Vec<String>) -> Result<Option<TenantGroups>, Error> {
        TenantGroups::under(&Roots::default(), load, asked, notes)
    }

    fn under(roots: &Roots, load: &Load, asked: Asked, notes: &mut Vec<String>) -> Result<Option<TenantGroups>, Error> {
        let rules = asked.rules();
        let limits = load.changes.iter().any(|(_, change)| matches!(change, Change::IoMax { .. }));
        let is_needed = limits || asked.io_cost || !rules.is_empty();
        if load.tenant_specs.len() < 2 && !is_needed {
            return Ok(None);
        }
        let mut by_process = |why: &dyn std::fmt::Display| {
            notes.push(format!("tenants are distinguished by process only, and their weights have no effect: {why}"));
            Ok(None)
        };
        let (hierarchy, about) = cgroup::detect(roots);
        let groups = match hierarchy.map(|found| Groups::new(&found)) {
            Some(Ok(groups)) => groups,
            Some(Err(e)) if is_needed => return Err(e.into()),
            None if is_needed => {
                return Err(Error::refused(format!("what is asked for tenants needs cgroups: {about}")));
            }
            Some(Err(e)) => return by_process(&e),
            None => return by_process(&about),
        };
        let later = load.changes.iter().filter_map(|(_, change)| match change {
            Change::Weight { weight, .. } => Some(*weight),
            _ => None,
        });
        let root = load.tenants.tenants().map(|(id, _)| id).find(|id| load.tenants.is_root(*id));
        let grouped = (0..).zip(&load.tenant_specs).filter(|(i, _)| root != Some(TenantId(*i)));
        let heaviest = grouped.map(|(_, t)| t.weight).chain(later).max().unwrap_or(1);
        let places = vec![None; load.tenant_specs.len()];
        let mut made = TenantGroups { groups, places, root, heaviest: u64::from(heaviest), asked };
        let mut weightless = None;
        for i in 0..load.tenant_specs.len() {
            if root == Some(TenantId(i as u32)) {
                continue;
            }
            // The controller may be there without a scheduler that honours weights: then the file for a weight is missing.
            match made.make(load, i, true) {
                Ok(_) => {}
                Err(e) if !is_needed => return by_process(&e),
                Err(e) => {
                    if load.tenant_specs.len() > 1 {
                        weightless.get_or_insert(format!("weights have no effect: {e}"));
                    }
                    made.make(load, i, false)?;
                }
            }
        }
        notes.extend(weightless);
        made.set_rules(load, &rules)?;
        Ok(Some(made))
    }

    /// Sets what is asked for tenants. Limits of version 1 do not count for groups in groups.
    fn set_rules(&self, load: &Load, rules: &[(TenantId, Rule, String)]) -> Result<(), Error> {
        for (tenant, rule, text) in rules {
            let holds = load.tenant_specs.iter().any(|other| other.parent == Some(*tenant));
            if *rule == Rule::Max && holds && self.groups.version() == Version::V1 {
                return Err(Error::refused(
                    "io.max of a tenant that holds others: cgroup v1 does not apply it to them; expected cgroup v2",
                ));
            }
            if let Some((group, _)) = self.places[tenant.0 as usize] {
                self.groups.set_rule(group, *rule, text)?;
            }
        }
        Ok(())
    }

    /// Makes a tenant's cgroup, after that of its parent; without a weight where weights are not to be had.
    fn make(&mut self, load: &Load, tenant: usize, weighed: bool) -> Result<usize, Error> {
        if let Some((group, _)) = self.places[tenant] {
            return Ok(group);
        }
        let spec = &load.tenant_specs[tenant];
        let within = spec.parent.map(|above| self.make(load, above.0 as usize, weighed)).transpose()?;
        let (weight, own_weight) = (self.scaled(spec.weight), self.scaled(OWN_TASKS_WEIGHT));
        let mut add = |name: &str, weight, within| match weighed {
            true => self.groups.add(name, weight, within),
            false => self.groups.make(name, within),
        };
        let group = add(&format!("t{tenant}"), weight, within)?;
        let nests = load.tenant_specs.iter().any(|t| t.parent == Some(TenantId(tenant as u32)));
        let own = if nests { add("own", own_weight, Some(group))? } else { group };
        self.places[tenant] = Some((group, own));
        self.weigh_for_io_cost(TenantId(tenant as u32), group, load.tenant_specs[tenant].weight)?;
        Ok(group)
    }

    /// Its weight is not scaled: `io.weight` takes every weight.
    fn weigh_for_io_cost(&self, tenant: TenantId, group: usize, weight: u32) -> Result<(), Error> {
        if let Some(weight) = self.asked.io_cost_weight(tenant, weight) {
            self.groups.set_rule(group, Rule::Weight, &weight.to_string())?;
        }
        Ok(())
    }

    /// Only the ratio of weights matters.
    fn scaled(&self, weight: u32) -> u32 {
        let weight = u64::from(weight);
        let fits = if self.heaviest > WEIGHT_MAX { weight * WEIGHT_MAX / self.heaviest } else { weight };
        fits.max(1) as u32
    }

    /// Moves a process into the cgroup of a tenant.
    pub(super) fn admit(&self, tenant: TenantId, pid: u32) -> Result<(), Error> {
        match self.places[tenant.0 as usize] {
            Some((_, own)) => self.groups.move_process(own, pid)?,
            None if self.root == Some(tenant) => self.groups.move_to_root(pid)?,
            None => {}
        }
        Ok(())
    }

    fn set_limits(&self, tenant: TenantId, limits: &[Rates; 2]) -> Result<(), Error> {
        if let Some((group, _)) = self.places[tenant.0 as usize] {
            let text = io_max_text(&self.asked.disk, limits);
            self.groups.set_rule(group, Rule::Max, &text)?;
        }
        Ok(())
    }

    fn set_weight(&self, tenant: TenantId, weight: u32) -> Result<(), Error> {
        if let Some((group, _)) = self.places[tenant.0 as usize] {
            self.groups.weigh(group, self.scaled(weight))?;
            self.weigh_for_io_cost(tenant, group, weight)?;
        }
        Ok(())
    }
}

/// Makes the load's changes at their times after `begin` (CLOCK_MONOTONIC, ns), until the run is `over`.
/// `pids` are the processes of its threads, which stop by themselves. Returns the changes that failed.
pub(super) fn change(
    load: &[(Nanos, Change)],
    begin: u64,
    pids: &[u32],
    groups: Option<&TenantGroups>,
    over: &AtomicBool,
) -> Vec<String> {
    let mut due: Vec<_> = load.iter().filter(|(_, change)| !matches!(change, Change::Stop { .. })).collect();
    due.sort_by_key(|(at, _)| *at);
    let mut notes = Vec::new();
    for (at, change) in due {
        while let Some(left) = begin.saturating_add(at.0).checked_sub(monotonic()).filter(|left| *left > 0) {
            if over.load(Ordering::Relaxed) {
                return notes;
            }
            std::thread::sleep(POLL_INTERVAL.min(Duration::from_nanos(left)));
        }
        let made = match (change, groups) {
            (Change::Ioprio { thread, ioprio }, _) => ioprio::set(pids[*thread as usize], *ioprio).map_err(Error::from),
            (Change::Move { thread, tenant }, Some(groups)) => groups.admit(*tenant, pids[*thread as usize]),
            (Change::Weight { tenant, weight }, Some(groups)) => groups.set_weight(*tenant, *weight),
            // Without cgroups the kernel cannot tell tenants apart: a note says so.
            (Change::Move { .. } | Change::Weight { .. } | Change::IoMax { .. }, None) => Ok(()),
            (Change::IoMax { tenant, limits }, Some(groups)) => groups.set_limits(*tenant, limits),
            // A worker stops by itself; a run that exchanges its scheduler or changes io.cost is refused before.
            (Change::Stop { .. } | Change::Scheduler { .. } | Change::IoCost { .. }, _) => Ok(()),
        };
        notes.extend(made.err().map(|e| format!("not changed after {:.1} s: {e}", at.as_secs_f64())));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_without_a_file_for_a_weight_are_a_note() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots::under(dir.path());
        std::fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        std::fs::create_dir(dir.path().join("blkio")).unwrap();
        let mounts = format!("cgroup {}/blkio cgroup rw,blkio 0 0\n", dir.path().display());
        std::fs::write(dir.path().join("proc/self/mounts"), mounts).unwrap();
        std::fs::write(dir.path().join("proc/self/cgroup"), "4:blkio:/\n").unwrap();
        let text = "duration = \"1s\"\n[[tenant]]\nname = \"a\"\n[[tenant.task]]\nname = \"t\"\nrw = \"randread\"\n[[tenant]]\nname = \"b\"\n[[tenant.task]]\nname = \"t\"\nrw = \"randread\"\n";
        let scenario = dumbwaiter_scenario::Scenario::from_toml(text, "test").unwrap();
        let load = dumbwaiter_scenario::load::Prepared::new(&scenario).unwrap().load(0, 1 << 20, 1).unwrap();
        let mut notes = Vec::new();
        let asked = || Asked { controls: load.controls.clone(), io_cost: false, disk: "7:0".to_owned() };
        assert!(TenantGroups::under(&roots, &load, asked(), &mut notes).unwrap().is_none());
        assert!(notes.len() == 1 && notes[0].contains("no file for a weight"), "{notes:?}");
        assert_eq!(std::fs::read_dir(dir.path().join("blkio")).unwrap().count(), 0);
    }
}
