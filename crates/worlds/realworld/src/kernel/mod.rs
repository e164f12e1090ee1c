//! The kernel's own schedulers on a block device.

mod asked;
mod groups;
mod join;
mod workers;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use dumbwaiter_block::TenantId;
use dumbwaiter_experiment::{
    About, Cell, CellResult, Concurrency, Control, DbBench, Failure, Refusal, Stack, Work, World,
};
use dumbwaiter_linux::Roots;
use dumbwaiter_linux::cgroup::Rule;
use dumbwaiter_linux::io_cost::IoCost;
use dumbwaiter_linux::queue::Queue;
use dumbwaiter_linux::settings::{SCHEDULERS, Settings};
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::load::Prepared;
use dumbwaiter_scenario::{Completion, Scenario, SchedulerSpec, WbtTarget};

use self::asked::Asked;
use crate::DeviceUnderTest;
use crate::database::Database;
use crate::error::{Doing, Error};
use crate::lock::lock;
use crate::worker::WorkerProgram;

/// The target of write-back throttling, µs.
const WBT: &str = "wbt_lat_usec";

/// How the kernel's schedulers are used.
#[derive(Clone, Debug)]
pub struct KernelOptions {
    /// The program of the worker processes.
    pub worker: WorkerProgram,
    /// Schedulers whose modules to load. Others are there only if they are loaded already.
    pub wanted: Vec<String>,
    /// Try the scheduler that is set with the settings that it has, and leave `nomerges` as it is; otherwise every scheduler
    /// begins with its defaults.
    pub keep_current: bool,
}

impl KernelOptions {
    /// All of Linux's schedulers, each with its defaults.
    pub fn new(worker: WorkerProgram) -> KernelOptions {
        KernelOptions {
            worker,
            wanted: SCHEDULERS.iter().map(|name| (*name).to_owned()).collect(),
            keep_current: false,
        }
    }
}

/// A load, and why workers cannot run it.
type CheckedLoad = (Arc<Prepared>, Result<(), String>);

/// The kernel's schedulers on a block device, each set for the runs under it. Each thread of a load is a process, in a cgroup
/// of its tenant and with its priority.
pub struct Kernel<'a> {
    device: &'a DeviceUnderTest,
    queue: Queue,
    options: KernelOptions,
    /// The scheduler that was set at the beginning.
    current: String,
    /// Its settings then, `iosched/...`.
    current_settings: Vec<(String, String)>,
    /// Those that can be set.
    schedulers: Vec<String>,
    database: Database,
    /// A stack changed write-back throttling.
    wbt_set: AtomicBool,
    /// The rules of groups that this system does not offer, with the reasons.
    missing_rules: OnceLock<Vec<(Rule, String)>>,
    /// io.cost, once a stack has set it.
    io_cost: Mutex<Option<IoCost>>,
    /// The load that was checked last, with the result.
    checked: Mutex<Option<CheckedLoad>>,
}

impl Kernel<'_> {
    /// Guards the queue's settings and loads schedulers. Refuses a file, a device without a scheduler of its own, one whose
    /// scheduler this program may not set, and one that another process measures.
    pub fn new(device: &DeviceUnderTest, options: KernelOptions) -> Result<Kernel<'_>, Failure> {
        let path = device.path().display();
        let Some(queue) = device.queue() else {
            return Err(Failure::refused(match device.facts().disk {
                Some(_) => format!(
                    "{path} hands its I/O on to the devices below it, which have the schedulers; give one of those"
                ),
                None => format!(
                    "{path} is a file: the kernel's schedulers and completion methods belong to block devices; give the \
                     device (a loop device over the file will do)"
                ),
            }));
        };
        let (current, listed) = queue.schedulers().map_err(Failure::refused)?;
        let own = queue.attributes().into_iter().filter(|(name, _)| name.starts_with("iosched/")).collect();
        let why = device.guard().map_err(Failure::refused)?;
        // The only scheduler, kept as it is, needs not be set.
        if let Some(why) = why.filter(|_| !options.keep_current || listed.len() > 1) {
            return Err(Failure::refused(why));
        }
        if let Some(settings) = device.settings().as_mut() {
            settings.load_schedulers(|name| options.wanted.iter().any(|w| w == name)).map_err(Failure::refused)?;
        }
        let (_, schedulers) = queue.schedulers().map_err(Failure::refused)?;
        Ok(Kernel {
            device,
            queue: queue.clone(),
            options,
            current,
            current_settings: own,
            schedulers,
            database: Database::new(device),
            wbt_set: AtomicBool::new(false),
            missing_rules: OnceLock::new(),
            io_cost: Mutex::default(),
            checked: Mutex::default(),
        })
    }

    /// The schedulers that the kernel has for the device.
    pub fn schedulers(&self) -> &[String] {
        &self.schedulers
    }

    /// The scheduler that was set at the beginning.
    pub fn current(&self) -> &str {
        &self.current
    }

    pub(crate) fn has(&self, spec: &SchedulerSpec) -> Result<(), Refusal> {
        let (name, has) = (self.queue.name(), self.schedulers.join(", "));
        if !self.schedulers.contains(&spec.name) {
            return Err(Refusal(format!("{name}: no scheduler \"{}\" in this kernel, it has {has}", spec.name)));
        }
        if !spec.variant.is_empty() {
            return Err(Refusal(format!("{name}: `{spec}` is a variant of ours; the kernel has its own version only")));
        }
        if spec.controls.wbt.is_some() && self.queue.get(WBT).is_err() {
            let why = "has no write-back throttling: its kernel lacks it, or it is a stacked device";
            return Err(Refusal(format!("{name} {why}; leave wbt out of `{spec}`")));
        }
        if spec.controls.io_cost.is_some()
            && let Err(why) = IoCost::offered(&Roots::default())
        {
            return Err(Refusal(format!("{name}: `{spec}`: {why}; expected our engine (--via engine), or no io.cost")));
        }
        Ok(())
    }

    /// Can worker processes run the load?
    pub(crate) fn check_load(&self, load: &Arc<Prepared>) -> Result<(), Refusal> {
        let mut checked = lock(&self.checked);
        if let Some((last, result)) = checked.as_ref()
            && Arc::ptr_eq(last, load)
        {
            return result.clone().map_err(Refusal);
        }
        let result = workers::can_run(load, self.device.sectors());
        *checked = Some((Arc::clone(load), result.clone()));
        result.map_err(Refusal)
    }

    /// Gives the queue a scheduler with its settings.
    fn set(&self, settings: &mut Settings, spec: &SchedulerSpec, scenario: &Scenario) -> Result<(), Error> {
        if self.options.keep_current && self.schedulers.len() <= 1 {
            return Ok(());
        }
        settings.set("scheduler", &spec.name)?;
        if let Some(wanted) = scenario.host.nr_requests_at_attach.filter(|_| spec.name != "none") {
            let attached = self.queue.get("nr_requests")?;
            if attached != wanted.to_string() {
                let name = self.queue.name();
                let text = format!("{name}: the kernel attaches {} with nr_requests = {attached}", spec.name);
                return Err(Error::refused(format!("{text}; host.nr_requests_at_attach asks for {wanted}")));
            }
        }
        // Some of the scheduler's own settings follow it.
        if let Some(n) = scenario.nr_requests {
            settings.set("nr_requests", &n.to_string())?;
        }
        if let Some(rotational) = scenario.host.rotational {
            settings.set("rotational", if rotational { "1" } else { "0" })?;
        }
        for (name, value) in &spec.tunables {
            settings.set(&format!("iosched/{name}"), value).doing(format!("scheduler `{spec}`"))?;
        }
        // It switches the default of write-back throttling off, and on again.
        self.set_io_cost(spec, scenario)?;
        self.set_wbt(settings, spec, scenario)?;
        if !self.options.keep_current {
            settings.set("nomerges", &scenario.nomerges.to_string())?;
        } else if spec.to_string() == self.current {
            for (name, value) in &self.current_settings {
                if settings.queue().get(name).is_ok_and(|now| now != *value) {
                    settings.set(name, value)?;
                }
            }
        }
        Ok(())
    }

    /// Sets write-back throttling as a stack or a scenario asks, and as Linux would by itself where another stack before changed it.
    fn set_wbt(&self, settings: &mut Settings, spec: &SchedulerSpec, scenario: &Scenario) -> Result<(), Error> {
        let asked = spec.controls.wbt.or(scenario.kernel.controls.wbt);
        if asked.is_none() && !self.wbt_set.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.wbt_set.store(true, Ordering::Relaxed);
        let value = match asked.unwrap_or_default() {
            // By hand it would stay on under bfq, which Linux's default does not.
            WbtTarget::Default if spec.name == "bfq" => "0".to_owned(),
            WbtTarget::Default => "-1".to_owned(),
            WbtTarget::Off => "0".to_owned(),
            WbtTarget::Us(us) => us.to_string(),
        };
        let now = settings.set(WBT, &value)?;
        if let WbtTarget::Us(us) = asked.unwrap_or_default()
            && now != value
        {
            // A value that is stored already changes nothing, even where bfq keeps it off.
            settings.set(WBT, &(us + 1).to_string())?;
            settings.set(WBT, &value)?;
        }
        Ok(())
    }

    /// Sets io.cost as a stack or a scenario asks, and puts back what was set where another stack before changed it.
    fn set_io_cost(&self, spec: &SchedulerSpec, scenario: &Scenario) -> Result<(), Error> {
        let mut io_cost = lock(&self.io_cost);
        let Some(asked) = scenario.kernel_controls(spec.controls).io_cost else {
            let problems = io_cost.as_mut().map(IoCost::restore).unwrap_or_default();
            return problems.into_iter().next().map_or(Ok(()), |problem| Err(Error::failed(problem)));
        };
        if !asked.enabled && IoCost::offered(&Roots::default()).is_err() {
            return Ok(());
        }
        if io_cost.is_none() {
            *io_cost = Some(IoCost::new(&Roots::default(), &self.queue.number()?)?);
        }
        let model = asked.user_model.then(|| asked.model_text());
        let qos =
            if asked.user_qos { asked.qos_text() } else { format!("enable={} ctrl=auto", u8::from(asked.enabled)) };
        io_cost.as_mut().map_or(Ok(()), |io_cost| io_cost.set(model.as_deref(), &qos))?;
        Ok(())
    }

    fn run_load(&self, load: &Arc<Prepared>, cell: &Cell, control: &Control) -> Result<CellResult, Error> {
        let (scenario, spec) = (load.scenario(), &cell.scheduler);
        let method = self.device.method(cell.completion).map_err(Error::refused)?;
        let mut remark = None;
        if let Some(settings) = self.device.settings().as_mut() {
            self.set(settings, spec, scenario)?;
            let got = self.queue.get("nr_requests")?;
            remark = scenario.nr_requests.filter(|n| n.to_string() != got).map(|n| {
                let name = self.queue.name();
                format!("{n} requests were asked for, {name} has {got} under the kernel's {spec}")
            });
        }
        let run = || workers::run(self.device, &self.options.worker, load, cell, &method, control);
        let mut result = self.device.metered(run)?;
        result.notes.extend(remark);
        result.notes.extend(method.note.map(str::to_owned));
        if method.sqpoll {
            result.run.completion = "sqpoll".into();
        }
        Ok(result)
    }

    fn run_database(&self, bench: DbBench, cell: &Cell, control: &Control) -> Result<CellResult, Error> {
        let mut notes = Vec::new();
        if !self.database.filled() {
            // Filled under the scheduler that the device has.
            notes.extend(self.device.restore());
            let path = self.device.path().display();
            self.device.announce(&format!("{path}: filling a database of {}", self.database.size()));
            if !self.database.fill(control)? {
                return Ok(self.database.cancelled(cell));
            }
            notes.extend(self.database.notes());
        }
        if let Some(settings) = self.device.settings().as_mut() {
            settings.set("scheduler", &cell.scheduler.name)?;
            // Without it the device does not count.
            settings.set("iostats", "1")?;
        }
        let mut result = self.device.metered(|| self.database.readrandom(bench, cell, control))?;
        result.notes.extend(notes);
        Ok(result)
    }
}

impl World for Kernel<'_> {
    fn about(&self) -> About {
        About { stacks: vec![Stack::Kernel], ..self.device.about() }
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::Rotation
    }

    fn capacity_sectors(&self, _device: &str) -> Option<u64> {
        Some(self.device.facts().bytes / dumbwaiter_block::SECTOR_BYTES)
    }

    fn supports(&self, cell: &Cell) -> Result<(), Refusal> {
        self.has(&cell.scheduler)?;
        match &cell.work {
            Work::DbBench(_) if cell.completion != Completion::Interrupt => {
                Err(Refusal(format!("RocksDB waits for interrupts, not by {}", cell.completion)))
            }
            Work::DbBench(_) => self.database.supported().map_err(Refusal),
            Work::Scenario(load) => {
                self.device.supports(load.scenario(), cell.completion)?;
                self.check_load(load)?;
                let scenario = load.scenario();
                let stated = (0..).map(TenantId).zip(scenario.tenants.iter().map(|tenant| tenant.controls)).collect();
                let asked = Asked::of(scenario, cell.scheduler.controls, stated, String::new());
                let name = self.queue.name();
                let refused = |why: String| Refusal(format!("{name}: `{}`: {why}", cell.scheduler));
                if asked.io_cost {
                    IoCost::offered(&Roots::default()).map_err(|why| refused(why.to_string()))?;
                }
                let rules = asked.rules();
                if rules.is_empty() {
                    return Ok(());
                }
                let missing = self.missing_rules.get_or_init(asked::missing_rules);
                let found = rules.iter().find_map(|(_, rule, _)| missing.iter().find(|(of, _)| of == rule));
                found.map_or(Ok(()), |(_, why)| Err(refused(why.clone())))
            }
        }
    }

    fn run(&self, cell: &Cell, control: &Control) -> Result<CellResult, Failure> {
        self.device.begin(control);
        let result = match &cell.work {
            Work::Scenario(load) => self.run_load(load, cell, control),
            Work::DbBench(bench) => self.run_database(*bench, cell, control),
        };
        if let Ok(result) = &result {
            control.elapsed_ns.fetch_add((result.run.duration_s * 1e9) as u64, Ordering::Relaxed);
            control.finished.fetch_add(result.run.completed, Ordering::Relaxed);
        }
        self.device.finished(result)
    }

    fn conclude(&self, runs: &mut [RunResult], control: &Control) -> Result<Vec<String>, Failure> {
        self.database.close();
        // Before the settings of the queue, of which write-back throttling depends on it.
        drop(lock(&self.io_cost).take());
        self.device.conclude(runs, control)
    }
}
