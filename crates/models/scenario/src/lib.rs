//! Scenarios: the description of an experiment with its devices, schedulers, tenants and tasks.
//!
//! A scenario comes from a TOML file, a fio job file, a trace or flags, and every result contains it. It names devices,
//! schedulers and traces but opens none of them. [`load`] makes its tenants and tasks threads of I/O.
#![forbid(unsafe_code)]

mod change;
mod completion;
mod file;
pub mod fio;
mod host;
mod kernel;
pub mod library;
pub mod load;
mod names;
mod read;
mod rows;
mod scheduler;
mod task;
mod validate;
mod value;
mod write;

use std::path::Path;

use dumbwaiter_block::{Ioprio, Nanos};
pub use dumbwaiter_controllers::io_max::Rates;
pub use dumbwaiter_controllers::{KernelControls, TenantControls, WbtTarget, io_cost::Settings as IoCostSettings};
use dumbwaiter_workloads::generate::Mix;

pub use change::{IoCostChange, SchedulerChange, TaskChange, TenantChange};
pub use completion::Completion;
pub use file::{TEXT_BYTES_MAX, read_text};
pub use host::{Affinity, CacheSize, Cooling, CpuScheduler, Host, HostCosts, LockCost, Profile, SchedulerNs};
pub use kernel::Kernel;
pub use rows::Rows;
pub use scheduler::SchedulerSpec;
pub use task::{Task, TraceOptions, TraceSpec, Work};
pub use validate::{DRIVES_MAX, NameCheck};

/// Why a scenario is invalid.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The file is not TOML, or has an unknown key or a wrong value. The message shows the line.
    #[error("{path}: {message}")]
    Toml {
        /// The file.
        path: String,
        /// Line, column, text of the line and the expected value.
        message: String,
    },
    /// A fio job file was refused.
    #[error(transparent)]
    Fio(#[from] dumbwaiter_workloads::fio::FioError),
    /// Values contradict each other.
    #[error("{place}: {reason}")]
    Invalid {
        /// The key, tenant or task that is wrong.
        place: String,
        /// The reason, and the expected value.
        reason: String,
    },
}

impl Error {
    fn invalid(place: impl Into<String>, reason: impl Into<String>) -> Error {
        Error::Invalid { place: place.into(), reason: reason.into() }
    }
}

/// The description of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Short name.
    pub name: String,
    /// A description in one or two sentences.
    pub description: String,
    /// Devices: a kind and a parameter set (`hdd:st1000dm003?ncq_depth=1`) or the path of a parameter file.
    pub devices: Vec<String>,
    /// Schedulers to compare.
    pub schedulers: Vec<SchedulerSpec>,
    /// Completion methods to compare.
    pub completion: Vec<Completion>,
    /// Drives of this model behind the host, each with a scheduler and tags of its own, from 1 to [`DRIVES_MAX`]. Their sectors
    /// follow each other in one space.
    pub drives: u8,
    /// Queue depth of the driver; `None` for the device's own limit.
    pub queue_depth: Option<u32>,
    /// Scheduler depth (sysfs `nr_requests`); `None` for the kernel's default.
    pub nr_requests: Option<u32>,
    /// Measured time after the warm-up; `None` until every task has ended.
    pub duration: Option<Nanos>,
    /// Length of the warm-up, in which nothing is measured.
    pub warmup: Nanos,
    /// Replicates of each combination, each with its own seed.
    pub replicates: u32,
    /// Seed of the first replicate.
    pub seed: u64,
    /// Number of requests after which a run ends.
    pub limit: Option<u64>,
    /// The host.
    pub host: Host,
    /// Its kernel, as far as it stands before schedulers.
    pub kernel: Kernel,
    /// As sysfs `nomerges`: 0 all merges, 1 simple merges only, 2 none.
    pub nomerges: u8,
    /// Interval of the time series.
    pub series: Nanos,
    /// Scheduled replacements of the scheduler during each run.
    pub changes: Vec<SchedulerChange>,
    /// The tenants that share the device.
    pub tenants: Vec<Tenant>,
}

/// A weighted group of tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// Unique in the scenario; [`Tenant::ROOT`] for the root group.
    pub name: String,
    /// Weight relative to its siblings, 1 to 10000. Of the root group unused: its tasks have theirs from their priorities.
    pub weight: u32,
    /// The tenant that contains it.
    pub parent: Option<String>,
    /// I/O priority of tasks that set none.
    pub ioprio: Option<Ioprio>,
    /// An I/O of its tasks whose predicted wait is longer is refused.
    pub deadline: Option<Nanos>,
    /// Its limits, the service reserved for it whatever others do, and its priority class.
    pub controls: TenantControls,
    /// Whether it is the focus of latency metrics, such as an interactive user; recommendations look at its latency.
    pub focus: bool,
    /// Its tasks.
    pub tasks: Vec<Task>,
    /// Scheduled changes of its weight.
    pub changes: Vec<TenantChange>,
}

impl Tenant {
    /// The default weight.
    pub const DEFAULT_WEIGHT: u32 = 100;

    /// A tenant of the default weight without tasks.
    pub fn new(name: impl Into<String>) -> Tenant {
        Tenant {
            name: name.into(),
            weight: Tenant::DEFAULT_WEIGHT,
            parent: None,
            ioprio: None,
            deadline: None,
            controls: TenantControls::default(),
            focus: false,
            tasks: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// The priority of requests of one of its tasks: the task's, its job's, the tenant's, or that of a task at nice 0.
    pub fn ioprio_of(&self, task: &Task) -> Ioprio {
        let job = match &task.work {
            Work::Job(job) => job.ioprio(),
            Work::App(_) | Work::Trace(_) | Work::Fio(_) => None,
        };
        task.ioprio.or(job).or(self.ioprio).unwrap_or(Ioprio::DEFAULT)
    }
}

impl Default for Scenario {
    /// A scenario without tenants, with the devices and schedulers of the built-in one.
    fn default() -> Self {
        let strings = |list: &[&str]| list.iter().map(|s| s.to_string()).collect();
        Scenario {
            name: String::new(),
            description: String::new(),
            devices: strings(&["hdd:st1000dm003", "ssd:850pro-256"]),
            // The schedulers of a current kernel, and ours.
            schedulers: ["none", "mq-deadline", "kyber", "bfq", "headway"].map(SchedulerSpec::named).to_vec(),
            completion: vec![Completion::Interrupt],
            drives: 1,
            queue_depth: None,
            nr_requests: None,
            duration: None,
            warmup: Nanos::ZERO,
            replicates: 3,
            seed: 1,
            limit: None,
            host: Host::default(),
            kernel: Kernel::default(),
            nomerges: 0,
            series: Nanos::from_secs(1),
            changes: Vec::new(),
            tenants: Vec::new(),
        }
    }
}

impl Scenario {
    /// The TOML text of the built-in scenario; a template for others.
    pub const BUILTIN: &'static str = include_str!("../builtin/shared-disk.toml");

    /// The file of [`Scenario::builtin_real`].
    pub const BUILTIN_REAL: &'static str = include_str!("../builtin/real-drive.toml");

    /// The built-in scenario: a shared disk with sequential readers, random readers, writers and an interactive user.
    pub fn builtin() -> Scenario {
        Scenario::from_toml(Scenario::BUILTIN, "built-in scenario").expect("a test reads the built-in scenario")
    }

    /// The default scenario for real files and devices, which only reads.
    pub fn builtin_real() -> Scenario {
        Scenario::from_toml(Scenario::BUILTIN_REAL, "built-in scenario").expect("a test reads the built-in scenario")
    }

    /// Loads a scenario file and the fio job files of its tasks (relative to the scenario file). Returns the warnings
    /// of the job files.
    ///
    /// # Errors
    /// A file that cannot be read or parsed.
    pub fn load(path: &Path) -> Result<(Scenario, Vec<String>), Error> {
        let mut scenario = Scenario::from_toml(&read_text(path)?, &path.display().to_string())?;
        let beside = path.parent().unwrap_or(Path::new(""));
        let warnings = scenario.resolve(&|name| read_text(&beside.join(name)), &|name| std::env::var(name).ok())?;
        Ok((scenario, warnings))
    }

    /// A scenario of one tenant that replays trace files, one task each.
    pub fn from_trace(paths: &[String], options: TraceOptions) -> Scenario {
        let mut tenant = Tenant::new(Tenant::DEFAULT);
        let mut names = names::DistinctNames::default();
        for path in paths {
            let name = Path::new(path).file_name().map_or(path.clone(), |name| name.to_string_lossy().into_owned());
            let name = names.distinct(name);
            let work = Work::Trace(TraceSpec { path: path.clone(), options: options.clone(), rows: None });
            tenant.tasks.push(Task::new(name, work));
        }
        let name = tenant.tasks.first().map_or_else(String::new, |task| task.name.clone());
        Scenario { name, tenants: vec![tenant], ..Scenario::default() }
    }

    /// A scenario of one tenant that replays traces which are in memory, one task each. Their names must differ: they stand
    /// where the path of a file would.
    pub fn from_rows(traces: Vec<(String, Rows)>, options: TraceOptions) -> Scenario {
        let names: Vec<String> = traces.iter().map(|(name, _)| name.clone()).collect();
        let mut scenario = Scenario::from_trace(&names, options);
        let tasks = scenario.tenants.iter_mut().flat_map(|tenant| &mut tenant.tasks);
        for (task, (_, rows)) in tasks.zip(traces) {
            if let Work::Trace(spec) = &mut task.work {
                spec.rows = Some(rows);
            }
        }
        scenario
    }

    /// Every task with its tenant, in order.
    pub fn tasks(&self) -> impl Iterator<Item = (&Tenant, &Task)> {
        self.tenants.iter().flat_map(|tenant| tenant.tasks.iter().map(move |task| (tenant, task)))
    }

    /// Whether each tenant's dirty pages are written back in its own group.
    pub fn has_cgroup_writeback(&self) -> bool {
        let in_cgroup_v2 = |tenant: &Tenant| {
            let controls = &tenant.controls;
            controls.io_max.iter().any(|rates| *rates != Rates::default())
                || controls.io_latency.is_some()
                || controls.io_weight.is_some()
        };
        let io_cost = self.kernel.controls.io_cost.is_some_and(|settings| settings.enabled);
        self.host.cgroup_writeback.unwrap_or_else(|| io_cost || self.tenants.iter().any(in_cgroup_v2))
    }

    /// Has any tenant a limit, a reservation or a priority class?
    pub fn has_controls(&self) -> bool {
        let later = |tenant: &Tenant| tenant.changes.iter().any(|change| change.io_max.is_some());
        self.tenants.iter().any(|tenant| tenant.controls != TenantControls::default() || later(tenant))
    }

    /// Has any task a deadline?
    pub fn has_deadlines(&self) -> bool {
        self.tasks().any(|(tenant, task)| task.deadline.or(tenant.deadline).is_some())
    }

    /// The first task that writes, if the scenario shows it; traces are unknown until they are read.
    pub fn writer(&self) -> Option<&str> {
        let writes = |task: &Task| matches!(&task.work, Work::Job(job) if job.rw.mix != Mix::Read);
        self.tasks().find(|(_, task)| writes(task)).map(|(_, task)| task.name.as_str())
    }

    /// Whether every task ends by itself; only then the duration is optional.
    pub fn ends(&self) -> bool {
        self.tasks().all(|(_, task)| task.ends())
    }
}

impl Tenant {
    /// Name of the tenant of tasks that name none.
    pub const DEFAULT: &'static str = "default";
    /// Name of the root group, whose tasks are in no tenant and compete with the outermost tenants.
    pub const ROOT: &'static str = "/";

    /// Is this the root group?
    pub fn is_root(&self) -> bool {
        self.name == Tenant::ROOT
    }
}

#[cfg(test)]
mod tests;
