//! Our schedulers in a served disk: a server in this process, and NBD clients with the load of a scenario.
//!
//! A tenant of the scenario is an export of the whole disk with the tenant's weight; a task is a connection to it.

mod client_load;
mod export_name;

use std::sync::Arc;

use dumbwaiter_block::{Ioprio, SECTOR_BYTES};
use dumbwaiter_controllers::PrioClass;
use dumbwaiter_controllers::io_max::Rates;
use dumbwaiter_experiment::{About, Cell, CellResult, Concurrency, Control, Failure, Refusal, Stack, Work, World};
use dumbwaiter_measure::{RunResult, grouped};
use dumbwaiter_scenario::load::Prepared;
use dumbwaiter_scenario::{Completion, Scenario};
use dumbwaiter_schedulers::Choice;
use dumbwaiter_serve::{Cache, DeviceDepth, ExportSettings, ServeSettings, Server, TargetSettings};

use self::client_load::{ClientLoad, Ended};
use self::export_name::export_name;
use crate::DeviceUnderTest;
use crate::device::machine;
use crate::error::Error;
use crate::time::{stamp, unix_ns};

/// Memory for requests under way, bytes, at most.
const MEMORY_BYTES: u64 = 2 << 30;
/// Connections at most: one for each task.
const MAX_CONNECTIONS: u32 = 1 << 16;
/// Requests that a connection may have under way at least.
const MIN_REQUESTS: u32 = 64;

/// The target of a served disk.
enum ServedTarget<'a> {
    /// The device model that a cell names, in real time.
    Models,
    /// A target of the server's own: `emulate:MODEL`, `null`.
    Named(String),
    /// A file or block device.
    Device(&'a DeviceUnderTest),
}

/// A served disk as a world: each run starts a server in this process and puts a scenario's load on it through its NBD socket, in real time.
pub struct Served<'a> {
    target: ServedTarget<'a>,
    notes: Vec<String>,
}

impl Served<'_> {
    /// Serves the device models that cells name, in real time. They keep no data.
    pub fn models() -> Served<'static> {
        Served { target: ServedTarget::Models, notes: Vec::new() }
    }

    /// Is this a target of the server's own, and no path: `null`, `null:SIZE` or `emulate:MODEL`?
    pub fn is_named(target: &str) -> bool {
        target == "null" || target.starts_with("null:") || target.starts_with("emulate:")
    }

    /// Serves `emulate:MODEL` or `null`, whatever device a cell names.
    pub fn named(target: &str) -> Result<Served<'static>, Failure> {
        if !Served::is_named(target) {
            let expected = "expected emulate:MODEL, null, a file or a block device";
            return Err(Failure::refused(format!("{target}: {expected}")));
        }
        if let Some(model) = target.strip_prefix("emulate:") {
            dumbwaiter_devices::load(model).map_err(|e| Failure::refused(format!("{target}: {e}")))?;
        }
        Ok(Served { target: ServedTarget::Named(target.to_owned()), notes: Vec::new() })
    }

    /// Serves a file or block device. The kernel's scheduler below it is set to `none` for the runs, where that is possible.
    pub fn device(device: &DeviceUnderTest) -> Result<Served<'_>, Failure> {
        if device.options().verify.is_some() {
            return Err(Failure::refused("--verify: only our engine checks what it wrote; leave out --via serve"));
        }
        Ok(Served { target: ServedTarget::Device(device), notes: device.own_stack_notes()? })
    }

    fn run_load(&self, load: &Prepared, cell: &Cell, control: &Control) -> Result<CellResult, Error> {
        let ServedTarget::Device(device) = &self.target else { return self.serve(load, cell, control) };
        if let Some(settings) = device.settings().as_mut() {
            settings.set("scheduler", "none")?;
        }
        device.metered(|| self.serve(load, cell, control))
    }

    fn serve(&self, prepared: &Prepared, cell: &Cell, control: &Control) -> Result<CellResult, Error> {
        let scenario = prepared.scenario();
        let seed = scenario.seed.wrapping_add(u64::from(cell.replicate));
        let folder = tempfile::tempdir()?;
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get().min(1024) as u16);
        let sectors =
            self.sectors(&cell.device).ok_or_else(|| Error::refused("the size of the device is not known"))?;
        let mut load = prepared.load_uncached(seed, sectors, cpus)?;
        let mut notes = std::mem::take(&mut load.notes);
        if let Some(thread) = load.threads.iter().find(|thread| thread.ioprio != Ioprio::DEFAULT) {
            let name = load.task_specs.get(thread.task.0 as usize).map_or("", |spec| spec.name.as_str());
            return Err(Error::refused(no_priorities(name)));
        }
        if load.tenants.tenants().any(|(id, _)| load.tenants.is_root(id)) {
            return Err(Error::refused(
                "write-back of several tenants belongs to the root group, and a served disk has no export for it",
            ));
        }
        let settings = ServeSettings {
            targets: vec![self.target_settings(scenario, cell, load.tenant_specs.len())],
            unix: Some(folder.path().to_owned()),
            max_connections: MAX_CONNECTIONS,
            connection_requests: load.threads.iter().map(|t| t.depth).max().unwrap_or(1).clamp(MIN_REQUESTS, 4096),
            memory: MEMORY_BYTES,
            forget_writes: true,
            grace_s: 1,
            ..ServeSettings::default()
        };
        let said = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let lines = said.clone();
        let log = move |line: &str| crate::lock::lock(&lines).push(line.to_owned());
        let server = Server::start(settings, log).map_err(|e| Error::Refused(e.to_string()))?;
        let before = unix_ns();
        let socket = folder.path().join("nbd.sock");
        let ended = ClientLoad::new(prepared, load, server.inspector(), socket, control)
            .and_then(|load| load.run(self.keep_going()));
        let stats = server.inspector().stats();
        let safe = server.shut_down(|| true);
        let mut ended = ended?;
        let disk = stats.map_err(Error::failed)?.pop().ok_or_else(|| Error::failed("the server has no disk"))?;
        if disk.submitted != disk.completed {
            return Err(Error::failed(format!("{} I/Os were submitted, {} completed", disk.submitted, disk.completed)));
        }
        if !safe.map_err(Error::failed)? {
            return Err(Error::failed("a flush failed: what was written before may be lost"));
        }
        let device = self.device_name(&cell.device);
        let mut result = ended.result(device, cell, seed, prepared.is_recorded(), &disk)?;
        let measured = (result.duration_s * 1e9) as u64;
        stamp(&mut result, unix_ns().saturating_sub(measured).max(before));
        notes.append(&mut crate::lock::lock(&said));
        notes.extend(ended.failures.iter().map(|(error, n)| format!("{} I/Os failed: {error}", grouped(*n))));
        let Ended { skipped, cancelled, failure, .. } = ended;
        let failure = failure.filter(|_| !self.keep_going() && !cancelled).map(Failure::device);
        Ok(CellResult { notes, skipped, cancelled, failure, ..CellResult::of(result) })
    }

    fn keep_going(&self) -> bool {
        matches!(&self.target, ServedTarget::Device(device) if device.options().keep_going)
    }

    fn target_settings(&self, scenario: &Scenario, cell: &Cell, tenants: usize) -> TargetSettings {
        let text = match &self.target {
            ServedTarget::Models => format!("emulate:{}", cell.device),
            ServedTarget::Named(name) => name.clone(),
            ServedTarget::Device(device) => device.path().display().to_string(),
        };
        let (buffered, writable) = match &self.target {
            ServedTarget::Device(device) => (device.options().buffered, device.options().allow_writes),
            _ => (false, true),
        };
        let exports = (0..tenants).map(|number| {
            let tenant = scenario.tenants.get(number);
            let limits = tenant.map_or_else(Default::default, |tenant| tenant.controls);
            ExportSettings {
                weight: tenant.map_or(100, |tenant| tenant.weight),
                readonly: !writable,
                limit_iops: limits.limit_iops,
                limit_bytes: limits.limit_bytes,
                reservation_iops: limits.reservation_iops,
                shared: true,
                ..ExportSettings::whole(&export_name(number))
            }
        });
        TargetSettings {
            scheduler: cell.scheduler.to_string(),
            device_depth: scenario.queue_depth.map_or(DeviceDepth::default(), DeviceDepth::Fixed),
            cache: if buffered { Cache::Writeback } else { Cache::None },
            exports: exports.map(Arc::new).collect(),
            ..TargetSettings::new(&text)
        }
    }

    fn device_name(&self, of_cell: &str) -> String {
        match &self.target {
            ServedTarget::Models => of_cell.to_owned(),
            ServedTarget::Named(name) => name.clone(),
            ServedTarget::Device(device) => device.path().display().to_string(),
        }
    }

    /// Size of the device, 512-byte sectors.
    fn sectors(&self, of_cell: &str) -> Option<u64> {
        let of_model = |model: &str| Some(dumbwaiter_devices::load(model).ok()?.build(1).facts().capacity_sectors);
        match &self.target {
            ServedTarget::Models => of_model(of_cell),
            ServedTarget::Named(name) => match name.strip_prefix("emulate:") {
                Some(model) => of_model(model),
                None => dumbwaiter_serve::null_bytes(name).map(|bytes| bytes / SECTOR_BYTES),
            },
            ServedTarget::Device(device) => Some(device.facts().bytes / SECTOR_BYTES),
        }
    }
}

fn no_priorities(task: &str) -> String {
    format!("task `{task}` has an I/O priority, and NBD carries none; leave out --via serve, or the priority")
}

/// Why clients of a served disk cannot run a scenario.
fn objection(scenario: &Scenario, completion: Completion) -> Option<String> {
    if completion != Completion::Interrupt {
        return Some(format!("completion {completion}: a server sleeps until its sockets or its device wake it"));
    }
    if scenario.drives > 1 {
        return Some(format!("{} drives: a server has one below it", scenario.drives));
    }
    if let Some(tenant) = scenario.tenants.iter().find(|tenant| tenant.parent.is_some()) {
        return Some(format!("tenant `{}` lies within another, and exports have no parents", tenant.name));
    }
    if scenario.tenants.iter().any(|tenant| tenant.is_root()) {
        return Some("tasks of the root group have no tenant, and a served disk has no export for them".into());
    }
    if let Some(tenant) = scenario.tenants.iter().find(|tenant| tenant.controls.prio_class != PrioClass::NoChange) {
        let why = "a served disk has no priority classes; expected our engine (--via engine), or no prio_class";
        return Some(format!("tenant {:?}: {why}", tenant.name));
    }
    if let Some(tenant) = scenario.tenants.iter().find(|tenant| {
        tenant.controls.io_max != [Rates::default(); 2] || tenant.changes.iter().any(|change| change.io_max.is_some())
    }) {
        let why = "a served disk has no io.max; expected our engine (--via engine), or limit_iops and limit_bytes";
        return Some(format!("tenant {:?}: {why}", tenant.name));
    }
    if let Some(tenant) = scenario.tenants.iter().find(|tenant| tenant.controls.io_latency.is_some()) {
        let why = "a served disk has no io.latency; expected our engine (--via engine), or no io_latency";
        return Some(format!("tenant {:?}: {why}", tenant.name));
    }
    if scenario.nr_requests.is_some() {
        return Some("nr_requests: a served disk takes what its clients send; leave it out".into());
    }
    scenario.tasks().find_map(|(tenant, task)| {
        if tenant.ioprio_of(task) != Ioprio::DEFAULT || task.changes.iter().any(|change| change.ioprio.is_some()) {
            return Some(no_priorities(&task.name));
        }
        if task.changes.iter().any(|change| change.tenant.is_some()) {
            return Some(format!(
                "task `{}` moves to another tenant, and a connection stays with its export",
                task.name
            ));
        }
        let deadline = task.deadline.or(tenant.deadline).is_some();
        deadline.then(|| format!("task `{}` has a deadline, and NBD carries none", task.name))
    })
}

impl World for Served<'_> {
    fn about(&self) -> About {
        let stacks = vec![Stack::Served];
        let unmeasured = About {
            stacks: stacks.clone(),
            real: true,
            no_energy: Some("the energy of emulated devices is not measured".to_owned()),
            machine: Some(machine()),
            ..About::default()
        };
        match &self.target {
            ServedTarget::Models => About { name: "served models".to_owned(), ..unmeasured },
            ServedTarget::Named(name) => About { name: name.clone(), device: Some(name.clone()), ..unmeasured },
            ServedTarget::Device(device) => About { stacks, notes: self.notes.clone(), ..device.about() },
        }
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::Rotation
    }

    fn capacity_sectors(&self, device: &str) -> Option<u64> {
        self.sectors(device)
    }

    fn supports(&self, cell: &Cell) -> Result<(), Refusal> {
        let Some(scenario) = cell.scenario() else {
            return Err(Refusal("a database runs under the kernel's schedulers only".into()));
        };
        Choice::parse(&cell.scheduler.to_string()).map_err(|e| Refusal(e.to_string()))?;
        if let Some(why) = objection(scenario, cell.completion) {
            return Err(Refusal(format!("through a served disk: {why}")));
        }
        match &self.target {
            ServedTarget::Models => {
                dumbwaiter_devices::load(&cell.device).map(drop).map_err(|e| Refusal(e.to_string()))
            }
            ServedTarget::Named(_) => Ok(()),
            ServedTarget::Device(device) => device.supports(scenario, cell.completion),
        }
    }

    fn run(&self, cell: &Cell, control: &Control) -> Result<CellResult, Failure> {
        let Work::Scenario(load) = &cell.work else {
            return Err(Failure::refused("a database runs under the kernel's schedulers only"));
        };
        let ServedTarget::Device(device) = &self.target else { return Ok(self.run_load(load, cell, control)?) };
        device.begin(control);
        device.finished(self.run_load(load, cell, control))
    }

    fn conclude(&self, runs: &mut [RunResult], control: &Control) -> Result<Vec<String>, Failure> {
        match &self.target {
            ServedTarget::Device(device) => device.conclude(runs, control),
            _ => Ok(Vec::new()),
        }
    }
}
