//! The one description of an experiment: devices, schedulers, tenants and what their tasks do.
//!
//! A scenario comes from a TOML file, a fio job file, a trace or flags, and goes whole into every result. It names devices,
//! schedulers and traces; it opens none of them.
#![forbid(unsafe_code)]

mod cache;
mod change;
mod completion;
mod fio;
mod read;
mod scheduler;
mod task;
mod validate;
mod write;

use std::path::Path;

use dumbwaiter_block::{Ioprio, Nanos};
use dumbwaiter_workloads::generate::Mix;

pub use cache::CacheSize;
pub use change::{SchedulerChange, TaskChange, TenantChange};
pub use completion::Completion;
pub use scheduler::SchedulerSpec;
pub use task::{Task, TraceOptions, TraceSpec, Work};
pub use validate::Known;

/// Why a scenario cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The file is not TOML, or has a key or value that does not belong. The message shows the line.
    #[error("{path}: {message}")]
    Toml {
        /// The file.
        path: String,
        /// Line, column, the line's text and what was expected.
        message: String,
    },
    /// A fio job file was refused.
    #[error(transparent)]
    Fio(#[from] dumbwaiter_workloads::fio::FioError),
    /// Each value is possible, but not together.
    #[error("{place}: {reason}")]
    Invalid {
        /// The key, tenant or task that is wrong.
        place: String,
        /// What is wrong with it and what was expected.
        reason: String,
    },
}

impl Error {
    fn invalid(place: impl Into<String>, reason: impl Into<String>) -> Error {
        Error::Invalid { place: place.into(), reason: reason.into() }
    }
}

/// A whole experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Short name.
    pub name: String,
    /// What it shows, in a sentence or two.
    pub description: String,
    /// Devices to compare on: a kind and a parameter set (`hdd:st1000dm003?ncq_depth=1`) or the path of a parameter file.
    pub devices: Vec<String>,
    /// Schedulers to compare.
    pub schedulers: Vec<SchedulerSpec>,
    /// How completions are found; each method is compared.
    pub completion: Vec<Completion>,
    /// Commands that the driver may give the device at once; `None` is the device's own limit.
    pub queue_depth: Option<u32>,
    /// Requests that the scheduler may hold (sysfs `nr_requests`); `None` is the kernel's default.
    pub nr_requests: Option<u32>,
    /// Counted time, after the warm-up. `None`: until every task has ended.
    pub duration: Option<Nanos>,
    /// Time before, in which everything runs and nothing is counted.
    pub warmup: Nanos,
    /// Runs of each combination, each with a seed of its own.
    pub replicates: u32,
    /// Seed of the first replicate.
    pub seed: u64,
    /// A run ends after so many requests.
    pub limit: Option<u64>,
    /// The computer.
    pub host: Host,
    /// As sysfs `nomerges`: 0 all merges, 1 only simple ones, 2 none.
    pub nomerges: u8,
    /// Length of one point of the time series.
    pub series: Nanos,
    /// Exchanges of the scheduler during each run.
    pub changes: Vec<SchedulerChange>,
    /// Who shares the device.
    pub tenants: Vec<Tenant>,
}

/// The computer that the tasks run on.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Host {
    /// Processors.
    pub cpus: u16,
    /// Name of the cost profile (per-request CPU costs).
    pub profile: String,
    /// Hardware queues; `None` is the device's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hw_queues: Option<u16>,
    /// Ticks per second of the kernel's coarse clock.
    pub hz: u32,
    /// Memory of the page cache that buffered jobs share; `None`: there is none, and their writes go to the device as they
    /// are, many at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache: Option<CacheSize>,
    /// Does the page cache read ahead?
    #[serde(skip_serializing_if = "is_true")]
    pub readahead: bool,
    /// Age at which dirty pages are written; `None` is 30 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writeback_delay: Option<cache::Delay>,
}

fn is_true(value: &bool) -> bool {
    *value
}

impl Default for Host {
    fn default() -> Self {
        Host {
            cpus: 4,
            profile: "default".to_string(),
            hw_queues: None,
            hz: 250,
            page_cache: None,
            readahead: true,
            writeback_delay: None,
        }
    }
}

/// A weighted group of tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// Unique in the scenario.
    pub name: String,
    /// Share relative to its siblings, 1 to 10000.
    pub weight: u32,
    /// The tenant that it is nested in.
    pub parent: Option<String>,
    /// Priority of its tasks, where they state none.
    pub ioprio: Option<Ioprio>,
    /// Is this one whose latency counts most (an interactive user)? Recommendations look at it.
    pub focus: bool,
    /// Its tasks.
    pub tasks: Vec<Task>,
    /// What becomes different of it.
    pub changes: Vec<TenantChange>,
}

impl Tenant {
    /// The weight where none is given.
    pub const DEFAULT_WEIGHT: u32 = 100;

    /// A tenant without tasks, of the default weight.
    pub fn new(name: impl Into<String>) -> Tenant {
        Tenant {
            name: name.into(),
            weight: Tenant::DEFAULT_WEIGHT,
            parent: None,
            ioprio: None,
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
    /// No tenants yet; devices and schedulers of the built-in scenario.
    fn default() -> Self {
        let strings = |list: &[&str]| list.iter().map(|s| s.to_string()).collect();
        Scenario {
            name: String::new(),
            description: String::new(),
            devices: strings(&["hdd:st1000dm003", "ssd:850pro-256"]),
            schedulers: ["none", "noop", "deadline", "mq-deadline", "kyber", "sstf", "c-look"]
                .map(SchedulerSpec::named)
                .to_vec(),
            completion: vec![Completion::Interrupt],
            queue_depth: None,
            nr_requests: None,
            duration: None,
            warmup: Nanos::ZERO,
            replicates: 3,
            seed: 1,
            limit: None,
            host: Host::default(),
            nomerges: 0,
            series: Nanos::from_secs(1),
            changes: Vec::new(),
            tenants: Vec::new(),
        }
    }
}

impl Scenario {
    /// The TOML text of the built-in scenario, a file to copy and change.
    pub const BUILTIN: &'static str = include_str!("../builtin/shared-disk.toml");

    /// The file of [`Scenario::builtin_real`].
    pub const BUILTIN_REAL: &'static str = include_str!("../builtin/real-drive.toml");

    /// A shared disk: sequential readers, random readers, writers and somebody who waits.
    pub fn builtin() -> Scenario {
        Scenario::from_toml(Scenario::BUILTIN, "built-in scenario").expect("a test reads the built-in scenario")
    }

    /// What runs on a real file or device when nothing else is asked for: it only reads.
    pub fn builtin_real() -> Scenario {
        Scenario::from_toml(Scenario::BUILTIN_REAL, "built-in scenario").expect("a test reads the built-in scenario")
    }

    /// Reads a scenario file, and the fio job files that its tasks name (beside it, if their paths are relative). Answers
    /// also with the warnings of those.
    pub fn load(path: &Path) -> Result<(Scenario, Vec<String>), Error> {
        let read = |path: &Path| {
            std::fs::read_to_string(path).map_err(|source| Error::Io { path: path.display().to_string(), source })
        };
        let mut scenario = Scenario::from_toml(&read(path)?, &path.display().to_string())?;
        let beside = path.parent().unwrap_or(Path::new(""));
        let warnings = scenario.resolve(&|name| read(&beside.join(name)), &|name| std::env::var(name).ok())?;
        Ok((scenario, warnings))
    }

    /// One tenant that replays trace files, each as a task.
    pub fn from_trace(paths: &[String], options: TraceOptions) -> Scenario {
        let mut tenant = Tenant::new(Tenant::DEFAULT);
        for path in paths {
            let name = Path::new(path).file_name().map_or(path.clone(), |name| name.to_string_lossy().into_owned());
            let clashes =
                tenant.tasks.iter().filter(|t| t.name == name || t.name.starts_with(&format!("{name} ("))).count();
            let name = if clashes == 0 { name } else { format!("{name} ({})", clashes + 1) };
            let work = Work::Trace(TraceSpec { path: path.clone(), options: options.clone() });
            tenant.tasks.push(Task::new(name, work));
        }
        let name = tenant.tasks.first().map_or_else(String::new, |task| task.name.clone());
        Scenario { name, tenants: vec![tenant], ..Scenario::default() }
    }

    /// Every task with its tenant, in order.
    pub fn tasks(&self) -> impl Iterator<Item = (&Tenant, &Task)> {
        self.tenants.iter().flat_map(|tenant| tenant.tasks.iter().map(move |task| (tenant, task)))
    }

    /// The first task that writes, as far as the scenario tells; what a trace holds is known only when it is read.
    pub fn writer(&self) -> Option<&str> {
        let writes = |task: &Task| matches!(&task.work, Work::Job(job) if job.rw.mix != Mix::Read);
        self.tasks().find(|(_, task)| writes(task)).map(|(_, task)| task.name.as_str())
    }

    /// Does every task end by itself? Only then may the duration be left out.
    pub fn ends(&self) -> bool {
        self.tasks().all(|(_, task)| task.ends())
    }
}

impl Tenant {
    /// The tenant of tasks that name none.
    pub const DEFAULT: &'static str = "default";
}

#[cfg(test)]
mod tests;
