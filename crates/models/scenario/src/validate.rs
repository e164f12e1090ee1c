//! Validation of scenarios: names, nesting, and contradictory values.

use std::collections::{BTreeMap, BTreeSet};

use dumbwaiter_block::Nanos;
use dumbwaiter_block::hint::did_you_mean;
use dumbwaiter_controllers::{KernelControls, TenantControls};
use dumbwaiter_text::units::format_time;

use crate::{Error, Scenario, Task, Tenant, Work};

/// Checks whether a name is known; the error lists known names.
pub type NameCheck<'a> = &'a dyn Fn(&str) -> Result<(), String>;

/// Most replicates: more are a typing error, and all of them are kept until the end.
const REPLICATES_MAX: u32 = 10_000;
/// Most instances of all tasks: a small Linux has no more processes by default. Each has state of some kilobytes.
pub(crate) const INSTANCES_MAX: u32 = 32_768;
/// Most tenants: each has state of some 20 kB, with its latencies.
const TENANTS_MAX: usize = 4_096;
/// Most drives of a scenario.
pub const DRIVES_MAX: u8 = 32;
/// Most pairs of a CPU and a hardware queue: state is kept for each.
const CPU_QUEUES_MAX: u32 = 65_536;

impl Scenario {
    /// Checks the scenario. `known_scheduler` checks each scheduler with its tunables as text, `known_device` each
    /// device.
    ///
    /// # Errors
    /// The first contradiction, with the key, tenant or task and the expected value.
    pub fn validate(&self, known_scheduler: NameCheck<'_>, known_device: NameCheck<'_>) -> Result<(), Error> {
        self.validate_lists(known_scheduler, known_device)?;
        self.validate_numbers()?;
        for change in &self.changes {
            let place = format!("change at {}", format_time(change.at));
            known_scheduler(&change.scheduler.to_string()).map_err(|reason| Error::invalid(place.as_str(), reason))?;
            if change.scheduler.controls != KernelControls::default() {
                let reason = "the kernel's controllers stay when a scheduler is exchanged; name the scheduler alone";
                return Err(Error::invalid(place.as_str(), reason));
            }
            self.within(&place, "a change", change.at)?;
        }
        for change in &self.kernel.io_cost_changes {
            self.within("io.cost.change", "a change", change.at)?;
        }
        twice("change", self.changes.iter().map(|change| format_time(change.at)))?;
        self.validate_tenants()?;
        if self.duration.is_none() && self.limit.is_none() && !self.ends() {
            let endless = self.tasks().find(|(_, task)| !task.ends());
            let name = endless.map_or("", |(_, task)| task.name.as_str());
            let reason = format!("not given, and task {name:?} does not end by itself; give a time such as \"10s\"");
            return Err(Error::invalid("duration", reason));
        }
        Ok(())
    }

    /// Checks the lists to compare: devices, schedulers and completion methods.
    fn validate_lists(&self, known_scheduler: NameCheck<'_>, known_device: NameCheck<'_>) -> Result<(), Error> {
        let fail = |place: &str, reason: &str| Err(Error::invalid(place, reason));
        if self.devices.is_empty() {
            return fail("devices", "none is given; name at least one, such as \"hdd:st1000dm003\"");
        }
        if self.schedulers.is_empty() {
            return fail("schedulers", "none is given; name at least one, such as \"mq-deadline\"");
        }
        if self.completion.is_empty() {
            return fail("completion", "no method is given; name at least one, such as \"interrupt\"");
        }
        for device in &self.devices {
            known_device(device).map_err(|reason| Error::invalid("devices", reason))?;
        }
        for scheduler in &self.schedulers {
            known_scheduler(&scheduler.to_string()).map_err(|reason| Error::invalid("schedulers", reason))?;
        }
        twice("devices", self.devices.iter().cloned())?;
        twice("schedulers", self.schedulers.iter().map(|s| s.to_string()))?;
        twice("completion", self.completion.iter().map(|c| c.to_string()))
    }

    /// Numbers and times of the whole scenario.
    fn validate_numbers(&self) -> Result<(), Error> {
        let fail = |place: &str, reason: &str| Err(Error::invalid(place, reason));
        let at_least_one = [
            ("queue_depth", self.queue_depth.map(u64::from)),
            ("nr_requests", self.nr_requests.map(u64::from)),
            ("replicates", Some(u64::from(self.replicates))),
            ("limit", self.limit),
            ("host.cpus", Some(u64::from(self.host.cpus))),
            ("host.hw_queues", self.host.hw_queues.map(u64::from)),
            ("host.nr_requests_at_attach", self.host.nr_requests_at_attach.map(u64::from)),
        ];
        for (key, value) in at_least_one {
            if value == Some(0) {
                return fail(key, "0 is not a number from 1");
            }
        }
        if self.drives == 0 || self.drives > DRIVES_MAX {
            return fail("drives", &format!("{} is not a number from 1 to {DRIVES_MAX}", self.drives));
        }
        let (cpus, queues) = (u32::from(self.host.cpus), u32::from(self.host.hw_queues.unwrap_or(1)));
        if cpus * queues > CPU_QUEUES_MAX {
            let reason = format!("{cpus} CPUs with {queues} queues are more than {CPU_QUEUES_MAX} pairs");
            return fail("host.hw_queues", &reason);
        }
        if self.replicates > REPLICATES_MAX {
            let reason = format!("{} is not a number from 1 to {REPLICATES_MAX}", self.replicates);
            return Err(Error::invalid("replicates", reason));
        }
        if !(1..=10_000).contains(&self.host.hz) {
            return Err(Error::invalid(
                "host.hz",
                format!("{} is not from 1 to 10000 (Linux has 100, 250, 300 or 1000)", self.host.hz),
            ));
        }
        if let Some(mhz) = self.host.cpu_mhz.filter(|mhz| !(100..=10_000).contains(mhz)) {
            return Err(Error::invalid("host.cpu_mhz", format!("{mhz} is not from 100 to 10000 (MHz)")));
        }
        self.host.validate_cache()?;
        if self.nomerges > 2 {
            return Err(Error::invalid(
                "nomerges",
                format!("{} is not 0 (merge), 1 (simple merges) or 2 (none)", self.nomerges),
            ));
        }
        if self.duration == Some(Nanos::ZERO) {
            return fail("duration", "0 leaves no time to measure; give a time such as \"10s\"");
        }
        if self.series == Nanos::ZERO {
            return fail("series", "0 is not the length of a point; give a time such as \"1s\"");
        }
        Ok(())
    }

    /// Each task's count is checked by itself; together they must not be too many either.
    fn validate_instances(&self) -> Result<(), Error> {
        let mut instances = 0u64;
        for (_, task) in self.tasks() {
            instances += u64::from(task.count);
            if instances > u64::from(INSTANCES_MAX) {
                let reason = format!(
                    "count {} makes {instances} instances with the tasks before it; expected at most {INSTANCES_MAX} in all",
                    task.count
                );
                return Err(Error::invalid(format!("task {:?}", task.name), reason));
            }
        }
        Ok(())
    }

    fn validate_tenant_changes(&self, place: &str, tenant: &Tenant) -> Result<(), Error> {
        let fail = |reason: String| Err(Error::invalid(place.to_owned(), reason));
        for change in &tenant.changes {
            match change.weight {
                Some(weight) if !(1..=10_000).contains(&weight) => {
                    return fail(format!("weight {weight} is not from 1 to 10000"));
                }
                None if change.io_max.is_none() => {
                    return fail("a change changes nothing; give it a weight or an io_max".to_owned());
                }
                _ => {}
            }
            self.within(place, "a change", change.at)?;
        }
        Ok(())
    }

    fn validate_tenants(&self) -> Result<(), Error> {
        if self.tenants.is_empty() {
            return Err(Error::invalid("scenario", "it has no tasks; give at least one [[task]] or [[tenant]]"));
        }
        if self.tenants.len() > TENANTS_MAX {
            let reason = format!("{} tenants; expected at most {TENANTS_MAX}", self.tenants.len());
            return Err(Error::invalid("tenant", reason));
        }
        self.validate_instances()?;
        let names: BTreeSet<&str> = self.tenants.iter().map(|t| t.name.as_str()).collect();
        let in_circle = self.tenants_in_circles();
        let parents: BTreeSet<&str> = self.tenants.iter().filter_map(|t| t.parent.as_deref()).collect();
        let moves = self.tasks().flat_map(|(_, task)| &task.changes);
        let receivers: BTreeSet<&str> = moves.filter_map(|change| change.tenant.as_deref()).collect();
        let mut stacks = self.schedulers.iter().map(|scheduler| scheduler.controls).chain([self.kernel.controls]);
        let io_cost = stacks.any(|controls| controls.io_cost.is_some_and(|settings| settings.enabled));
        twice("tenants", self.tenants.iter().map(|t| t.name.clone()))?;
        let of_focus = (self.tenants.iter().find(|t| t.focus), self.tasks().find(|(_, task)| task.focus));
        if let (Some(tenant), Some((_, task))) = of_focus {
            let reason = format!("focus = true, and task {:?} too; mark either tenants or tasks", task.name);
            return Err(Error::invalid(format!("tenant {:?}", tenant.name), reason));
        }
        for tenant in &self.tenants {
            let place = format!("tenant {:?}", tenant.name);
            let fail = |reason: String| Err(Error::invalid(place.clone(), reason));
            if tenant.name.trim().is_empty() {
                return fail("a tenant needs a name".to_string());
            }
            if !(1..=10_000).contains(&tenant.weight) {
                return fail(format!("weight {} is not from 1 to 10000", tenant.weight));
            }
            if tenant.deadline == Some(Nanos::ZERO) {
                return fail("a deadline of 0 refuses every I/O that waits; give a time such as \"10ms\"".to_string());
            }
            if let Some(reason) = wrong_controls(&tenant.controls) {
                return fail(reason);
            }
            if io_cost && !tenant.tasks.is_empty() && parents.contains(tenant.name.as_str()) {
                return fail(
                    "it has tasks and tenants in it: io.cost controls only the innermost groups; give its tasks a tenant of their own"
                        .to_owned(),
                );
            }
            if tenant.is_root() && tenant.controls != TenantControls::default() {
                return fail(
                    "the root group has no limits, no reservation, no priority class and no io_latency; leave these out"
                        .to_string(),
                );
            }
            if tenant.is_root() && (tenant.parent.is_some() || !tenant.changes.is_empty()) {
                return fail("the root group has neither a parent nor a weight to change; leave these out".to_string());
            }
            if tenant.parent.as_deref() == Some(Tenant::ROOT) {
                return fail("its parent \"/\" is the root group, in which every tenant is; leave it out".to_string());
            }
            if let Some(parent) = &tenant.parent {
                if !names.contains(parent.as_str()) {
                    let hint = did_you_mean(parent, names.iter().copied());
                    return fail(format!("its parent {parent:?} is not a tenant of this scenario{hint}"));
                }
                if in_circle.contains(tenant.name.as_str()) {
                    return fail(format!("it contains itself (parent {parent:?})"));
                }
            }
            self.validate_tenant_changes(&place, tenant)?;
            let used = |by: &BTreeSet<&str>| by.contains(tenant.name.as_str());
            if tenant.tasks.is_empty() && !used(&parents) && !used(&receivers) {
                return fail("it has neither tasks nor tenants in it".to_string());
            }
            twice(&format!("tasks of {place}"), tenant.tasks.iter().map(|t| t.name.clone()))?;
            self.validate_tasks(&place, tenant, &names)?;
        }
        Ok(())
    }

    /// The tenants whose ancestors never end.
    fn tenants_in_circles(&self) -> BTreeSet<&str> {
        let parent_of: BTreeMap<&str, &str> =
            self.tenants.iter().filter_map(|t| Some((t.name.as_str(), t.parent.as_deref()?))).collect();
        // Each tenant is walked over once: a walk ends where an earlier one has been.
        let mut ends: BTreeMap<&str, bool> = BTreeMap::new();
        for tenant in &self.tenants {
            let mut walk = Vec::new();
            let mut at = tenant.name.as_str();
            let end = loop {
                match ends.get(at) {
                    // Known; or of this walk, which is a circle then.
                    Some(ends) => break *ends,
                    None => ends.insert(at, false),
                };
                walk.push(at);
                match parent_of.get(at) {
                    Some(parent) => at = parent,
                    None => break true,
                }
            };
            walk.into_iter().for_each(|name| _ = ends.insert(name, end));
        }
        ends.into_iter().filter(|(_, ends)| !ends).map(|(name, _)| name).collect()
    }

    fn validate_tasks(&self, place: &str, tenant: &Tenant, names: &BTreeSet<&str>) -> Result<(), Error> {
        for task in &tenant.tasks {
            let place = format!("task {:?} of {place}", task.name);
            let fail = |reason: String| Err(Error::invalid(place.clone(), reason));
            if task.name.trim().is_empty() {
                return fail("a task needs a name".to_string());
            }
            if !(1..=INSTANCES_MAX).contains(&task.count) {
                return fail(format!("count {} is not a number of instances from 1 to {INSTANCES_MAX}", task.count));
            }
            if let Some(cpu) = task.cpu.iter().find(|cpu| **cpu >= self.host.cpus) {
                return fail(format!("cpu {cpu} is not one of the host's {} (numbered from 0)", self.host.cpus));
            }
            self.validate_lifetime(&place, task, names)?;
            match &task.work {
                Work::Job(job) => {
                    if let Some(drive) = job.drive.filter(|drive| *drive > u32::from(self.drives)) {
                        return fail(format!("drive {drive} is not one of the {} of `drives`", self.drives));
                    }
                    job.validate().map_err(|e| Error::invalid(place, e.to_string()))?;
                }
                Work::App(app) => app.validate().map_err(|e| Error::invalid(place, e.to_string()))?,
                Work::Trace(trace) if trace.path.is_empty() => return fail("trace: the path is empty".to_string()),
                Work::Trace(trace) if trace.options.depth == Some(0) => {
                    return fail("depth: 0 is not a depth from 1".to_string());
                }
                Work::Trace(_) => {}
                Work::Fio(path) => return fail(format!("its fio file {path:?} was not read")),
            }
        }
        Ok(())
    }
}

impl Scenario {
    /// Checks start, stop and changes of a task.
    fn validate_lifetime(&self, place: &str, task: &Task, tenants: &BTreeSet<&str>) -> Result<(), Error> {
        let fail = |reason: String| Err(Error::invalid(place, reason));
        if task.deadline == Some(Nanos::ZERO) {
            return fail("a deadline of 0 refuses every I/O that waits; give a time such as \"10ms\"".to_string());
        }
        self.within(place, "start", task.start)?;
        if let Some(stop) = task.stop {
            if stop <= task.start {
                let (start, stop) = (format_time(task.start), format_time(stop));
                return fail(format!("stop {stop} is not after its start at {start}"));
            }
            if let Some(end) = self.end().filter(|end| stop > *end) {
                return fail(format!("stop {} is after the end of the run at {}", format_time(stop), format_time(end)));
            }
        }
        for change in &task.changes {
            let at = format_time(change.at);
            if change.ioprio.is_none() && change.tenant.is_none() {
                return fail(format!("the change at {at} changes nothing; give ioprio or tenant"));
            }
            self.within(place, "a change", change.at)?;
            if change.at < task.start || task.stop.is_some_and(|stop| change.at >= stop) {
                let until = task.stop.map_or_else(String::new, |stop| format!(" to {}", format_time(stop)));
                let life = format!("{}{until}", format_time(task.start));
                return fail(format!("the change at {at} is outside of its life, from {life}"));
            }
            if let Some(tenant) = change.tenant.as_deref().filter(|t| !tenants.contains(*t)) {
                let hint = did_you_mean(tenant, tenants.iter().copied());
                return fail(format!("the change at {at}: {tenant:?} is not a tenant of this scenario{hint}"));
            }
        }
        Ok(())
    }

    /// End of the run, if the duration is set.
    fn end(&self) -> Option<Nanos> {
        self.duration.map(|duration| self.warmup + duration)
    }

    /// Checks that `what` happens before the end of the run.
    fn within(&self, place: &str, what: &str, at: Nanos) -> Result<(), Error> {
        match self.end() {
            Some(end) if at >= end => {
                let (at, end) = (format_time(at), format_time(end));
                let reason = format!("{what} at {at} is not before the end of the run at {end} (warm-up included)");
                Err(Error::invalid(place, reason))
            }
            _ => Ok(()),
        }
    }
}

fn twice(place: &str, names: impl Iterator<Item = String>) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for name in names {
        if let Some(name) = seen.replace(name) {
            return Err(Error::invalid(place, format!("{name:?} is there twice")));
        }
    }
    Ok(())
}

/// Why a tenant cannot have these controls, if so.
fn wrong_controls(controls: &TenantControls) -> Option<String> {
    let TenantControls { limit_iops, limit_bytes, burst_iops, burst_bytes, reservation_iops, .. } = *controls;
    let limits = [
        ("limit_iops", limit_iops),
        ("limit_bytes", limit_bytes),
        ("burst_iops", burst_iops),
        ("burst_bytes", burst_bytes),
        ("reservation_iops", reservation_iops),
    ];
    if let Some((key, _)) = limits.into_iter().find(|(_, value)| *value == Some(0)) {
        return Some(format!("{key} of 0 lets nothing through; give a number from 1, or leave it out"));
    }
    for (burst, limit, of) in [
        ("burst_iops", "limit_iops", [burst_iops, limit_iops]),
        ("burst_bytes", "limit_bytes", [burst_bytes, limit_bytes]),
    ] {
        if of[0].is_some() && of[1].is_none() {
            return Some(format!("{burst} is a part of a limit; give {limit} too"));
        }
    }
    if controls.io_latency.is_some_and(|target| target < Nanos::from_us(1)) {
        return Some("an io_latency below 1 us is none; give a time such as \"5ms\", or leave it out".to_string());
    }
    if let (Some(limit), Some(reservation)) = (limit_iops, reservation_iops)
        && reservation > limit
    {
        return Some(format!("reservation_iops {reservation} is more than its limit_iops of {limit}"));
    }
    if controls.io_weight.is_some_and(|weight| !(1..=10_000).contains(&weight)) {
        return Some("io_weight is not from 1 to 10000".to_owned());
    }
    None
}
