//! A recording's load as a scenario, on a model of the recorded device.

use std::collections::BTreeMap;

use dumbwaiter_block::{Nanos, Setup};
use dumbwaiter_scenario::{Host, Scenario, Task, Tenant, TenantChange, Work};
use dumbwaiter_workloads::generate::Extent;

use super::conditions::{Conditions, Group, WeightChange};
use crate::recording::{Recording, RowKind};
use crate::settings::scheduler_of;

/// Sectors of 512 bytes in a MiB.
const SECTORS_PER_MIB: u64 = 2048;
/// What a loop device adds to a request, ns: a read alone took 1.04 ms in recordings of a device of 1 ms.
const LOOP_NS: u64 = 40_000;
/// For how long preparing 4 KiB of a write, a bio of its own on a raw block device, keeps the loop device's worker from the guest's
/// one CPU, us. Chosen after the gaps between completions in recordings were seen: 0.15 ms for each write of 64 KiB.
const LOOP_PAGE_US: f64 = 10.5;
/// What null_blk's timer and interrupt add, ns: reads of 1 and 2 ms took 2 to 3 us longer in recordings.
const NULL_BLK_NS: u64 = 2_000;
/// Requests that a loop device takes.
const LOOP_DEPTH: u32 = 128;
/// null_blk's largest request, in KiB, where the recording does not say it.
const MAX_SECTORS_KB: u64 = 127;

/// Sectors of the recorded device.
pub(super) fn capacity_sectors(about: &Conditions) -> Result<u64, String> {
    let size_mib = about.attribute("size").ok_or("it does not have the device's size")?;
    Ok(size_mib.saturating_mul(SECTORS_PER_MIB))
}

/// Requests that the recorded device takes: a loop device more than the one below it serves.
pub(super) fn depth(about: &Conditions, recording: &Recording) -> u32 {
    let served = recording.setup.device_depth;
    if about.device.kind == "loop" { LOOP_DEPTH.max(served) } else { served }
}

/// The model of the recorded device, as `--device` takes it.
fn device(about: &Conditions, recording: &Recording) -> Result<String, String> {
    let latency = about.attribute("completion_nsec").ok_or("it does not have the device's completion_nsec")?;
    let served = recording.setup.device_depth;
    let added = if about.device.kind == "loop" { LOOP_NS } else { NULL_BLK_NS };
    let page_cpu = if about.device.kind == "loop" { LOOP_PAGE_US } else { 0.0 };
    let overrides = [
        ("latency_ns", latency.saturating_add(added)),
        ("t_err_ns", 0),
        ("depth", u64::from(depth(about, recording))),
        ("channels", u64::from(served)),
        ("write_cache", u64::from(about.write_cache())),
        ("queues", 1),
        ("capacity_sectors", capacity_sectors(about)?),
        ("max_sectors", 2 * about.max_sectors_kb().unwrap_or(MAX_SECTORS_KB)),
    ];
    Ok(format!("null:0us?page_cpu_us={page_cpu}&{}", overrides.map(|(key, value)| format!("{key}={value}")).join("&")))
}

/// The recorded load, under the recorded scheduler.
pub(super) fn scenario(about: &Conditions, recording: &Recording) -> Result<Scenario, String> {
    let scheduler =
        scheduler_of(recording).ok_or_else(|| format!("Dumbwaiter has no scheduler {}", recording.scheduler))?;
    let setup = &recording.setup;
    let at_attach = Setup::default_nr_requests(depth(about, recording));
    let mut scenario = Scenario {
        name: "closed loop".to_owned(),
        devices: vec![device(about, recording)?],
        schedulers: vec![scheduler],
        nr_requests: Some(setup.nr_requests),
        replicates: 1,
        host: Host {
            // A recording does not say who ran where on several CPUs, nor when a process moved.
            cpus: 1,
            kernel_latency: true,
            hz: u32::try_from(1_000_000_000 / setup.clock.period.0.max(1)).unwrap_or(u32::MAX),
            rotational: Some(setup.rotational),
            nr_requests_at_attach: recording.kernel.starts_with("6.12").then_some(at_attach),
            ..Host::default()
        },
        tenants: tenants(about, recording),
        ..Scenario::default()
    };
    resolve(&mut scenario, about)?;
    scenario.validate(&|_| Ok(()), &|_| Ok(())).map_err(|e| e.to_string())?;
    Ok(scenario)
}

/// Reads the jobs of a scenario's tasks.
fn resolve(scenario: &mut Scenario, about: &Conditions) -> Result<(), String> {
    let files: BTreeMap<String, &str> = (0..).map(job_name).zip(about.jobs()).collect();
    let read = |name: &str| Ok(files.get(name).copied().unwrap_or_default().to_owned());
    scenario.resolve(&read, &|_| None).map_err(|e| e.to_string()).map(drop)
}

/// The byte at which each job of a recording begins, whatever its device.
pub(super) fn job_offsets(about: &Conditions, recording: &Recording) -> Result<Vec<u64>, String> {
    if about.jobs().all(|job| job.trim().is_empty()) {
        return Err("it does not have the job that ran".to_owned());
    }
    let mut scenario = Scenario { tenants: tenants(about, recording), ..Scenario::default() };
    resolve(&mut scenario, about)?;
    Ok(offsets(&scenario))
}

/// The name of the n-th job file.
fn job_name(n: usize) -> String {
    format!("job {n}")
}

/// The tenant of a group: the root group, or a tenant with the group's weight.
pub(super) fn tenant_name(path: &str) -> &str {
    if path.is_empty() { Tenant::ROOT } else { path }
}

fn tenants(about: &Conditions, recording: &Recording) -> Vec<Tenant> {
    let Some(groups) = &about.groups else {
        return vec![Tenant { tasks: vec![task(0)], ..Tenant::new(Tenant::DEFAULT) }];
    };
    let mut job = 0;
    let of = |group: &Group| {
        let tasks = group.job.iter().map(|_| {
            job += 1;
            task(job - 1)
        });
        let tasks = tasks.collect();
        let mut tenant = Tenant { tasks, ..Tenant::new(tenant_name(&group.path)) };
        if !tenant.is_root() {
            tenant.weight = group.weight;
            tenant.parent = group.path.rsplit_once('/').map(|(above, _)| above.to_owned());
            tenant.changes = changes(about, recording, &group.path);
        }
        tenant
    };
    let mut tenants: Vec<Tenant> = groups.iter().map(of).collect();
    tenants.retain(|tenant| !tenant.is_root() || !tenant.tasks.is_empty());
    tenants
}

/// The changes of a group's weight: at the times at which they were made, if the rows say so, or as they were planned.
fn changes(about: &Conditions, recording: &Recording, path: &str) -> Vec<TenantChange> {
    let number = recording.groups.iter().position(|group| group.path == path);
    let made = recording.rows.iter().filter_map(|row| match row.kind {
        RowKind::GroupWeight { group, weight } if number == Some(group as usize) => {
            Some(TenantChange { at: row.at, weight: Some(weight), io_max: None })
        }
        _ => None,
    });
    let made: Vec<TenantChange> = made.collect();
    if !made.is_empty() {
        return made;
    }
    let planned = about.changes.iter().flatten().filter(|change| change.group == path);
    let change = |c: &WeightChange| {
        let at = Nanos((c.after_s.max(0.0) * 1e9) as u64);
        Some(TenantChange { at, weight: Some(c.weight?), io_max: None })
    };
    planned.filter_map(change).collect()
}

fn task(job: usize) -> Task {
    Task::new(format!("t{job}"), Work::Fio(job_name(job)))
}

/// The byte at which each instance of each task begins, in the order of the results.
pub(super) fn offsets(scenario: &Scenario) -> Vec<u64> {
    let bytes = |extent: Extent| if let Extent::Bytes(bytes) = extent { bytes } else { 0 };
    let of = |task: &Task| {
        let (first, step) = match &task.work {
            Work::Job(job) => (bytes(job.offset), bytes(job.offset_increment)),
            _ => (0, 0),
        };
        (0..u64::from(task.count)).map(move |i| first.saturating_add(step.saturating_mul(i))).collect::<Vec<_>>()
    };
    scenario.tasks().flat_map(|(_, task)| of(task)).collect()
}
