//! Reads scenarios from TOML, or from JSON with the same keys.

use std::collections::BTreeMap;

use dumbwaiter_block::hint::{nearest, suggest};
use dumbwaiter_controllers::{PrioClass, TenantControls};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::file::check_text;
use crate::kernel::{FileIo, FileKernel};
use crate::task::Entry;
use crate::value::{Bytes, IoMax, Priority, Seed, Time, Weight};
use crate::{Completion, Error, Host, Kernel, Scenario, SchedulerChange, SchedulerSpec, Task, Tenant, TenantChange};

/// The file form of a scenario. Its fields are optional, so that [`Scenario::default`] has all defaults.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    description: Option<String>,
    devices: Option<Vec<String>>,
    schedulers: Option<Vec<SchedulerSpec>>,
    completion: Option<Vec<Completion>>,
    drives: Option<u8>,
    queue_depth: Option<u32>,
    nr_requests: Option<u32>,
    duration: Option<Time>,
    warmup: Option<Time>,
    replicates: Option<u32>,
    seed: Option<Seed>,
    limit: Option<u64>,
    host: Option<Host>,
    kernel: Option<FileKernel>,
    io: Option<FileIo>,
    nomerges: Option<u8>,
    series: Option<Time>,
    #[serde(default)]
    change: Vec<SchedulerChange>,
    #[serde(default)]
    tenant: Vec<FileTenant>,
    #[serde(default)]
    task: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTenant {
    name: String,
    weight: Option<Weight>,
    parent: Option<String>,
    ioprio: Option<Priority>,
    deadline: Option<Time>,
    limit_iops: Option<u64>,
    limit_bytes: Option<Bytes>,
    burst_iops: Option<u64>,
    burst_bytes: Option<Bytes>,
    reservation_iops: Option<u64>,
    io_weight: Option<Weight>,
    prio_class: Option<Class>,
    io_max: Option<IoMax>,
    io_latency: Option<Time>,
    #[serde(default)]
    focus: bool,
    #[serde(default)]
    task: Vec<Entry>,
    #[serde(default)]
    change: Vec<TenantChange>,
}

impl Scenario {
    /// Parses a scenario from TOML text; errors name `path`. [`Scenario::resolve`] reads the fio files of its tasks.
    ///
    /// # Errors
    /// The line, and the expected key or value.
    pub fn from_toml(text: &str, path: &str) -> Result<Scenario, Error> {
        check_text(text, path)?;
        let file: File =
            toml::from_str(text).map_err(|e| Error::Toml { path: path.to_string(), message: message(&e) })?;
        file.scenario()
    }
}

impl<'de> Deserialize<'de> for Scenario {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scenario, D::Error> {
        File::deserialize(deserializer)?.scenario().map_err(D::Error::custom)
    }
}

/// The word of a priority class.
struct Class(PrioClass);

impl<'de> Deserialize<'de> for Class {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Class, D::Error> {
        let word = String::deserialize(deserializer)?;
        PrioClass::parse(&word).map(Class).ok_or_else(|| {
            let words = PrioClass::ALL.map(PrioClass::name).join(", ");
            D::Error::custom(format!("{word:?} is no priority class; expected one of {words}"))
        })
    }
}

impl FileTenant {
    fn tenant(self) -> Result<Tenant, Error> {
        if self.name == Tenant::ROOT && self.weight.is_some() {
            let reason = "the root group has no weight: its tasks have their own, by ioprio; leave it out";
            return Err(Error::invalid(format!("tenant {:?}", self.name), reason));
        }
        let mut tenant = Tenant {
            weight: self.weight.map_or(Tenant::DEFAULT_WEIGHT, |w| w.0),
            parent: self.parent,
            ioprio: self.ioprio.map(|p| p.0),
            deadline: self.deadline.map(|t| t.0),
            controls: TenantControls {
                limit_iops: self.limit_iops,
                limit_bytes: self.limit_bytes.map(|bytes| bytes.0),
                burst_iops: self.burst_iops,
                burst_bytes: self.burst_bytes.map(|bytes| bytes.0),
                reservation_iops: self.reservation_iops,
                io_weight: self.io_weight.map(|weight| weight.0),
                prio_class: self.prio_class.map_or(PrioClass::NoChange, |class| class.0),
                io_max: self.io_max.map_or(Default::default(), |limits| limits.0),
                io_latency: self.io_latency.map(|target| target.0),
            },
            focus: self.focus,
            changes: self.change,
            ..Tenant::new(self.name)
        };
        for entry in self.task {
            if let Some(other) = entry.tenant.filter(|other| *other != tenant.name) {
                let place = format!("task {:?} of tenant {:?}", entry.task.name, tenant.name);
                return Err(Error::invalid(place, format!("says tenant = {other:?}; leave that out")));
            }
            tenant.tasks.push(entry.task);
        }
        Ok(tenant)
    }
}

impl File {
    fn scenario(self) -> Result<Scenario, Error> {
        let default = Scenario::default();
        let mut tenants = Vec::new();
        for file in self.tenant {
            tenants.push(file.tenant()?);
        }
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for (place, tenant) in tenants.iter().enumerate() {
            places.entry(tenant.name.clone()).or_insert(place);
        }
        for entry in self.task {
            let name = entry.tenant.as_deref().unwrap_or(Tenant::DEFAULT);
            match places.get(name) {
                Some(place) => tenants[*place].tasks.push(entry.task),
                None if entry.tenant.as_deref().is_some_and(|name| name != Tenant::ROOT) => {
                    let known: Vec<String> = tenants.iter().map(|t| format!("{:?}", t.name)).collect();
                    let reason = format!("tenant {name:?} is not in this scenario; it has {}", list(&known));
                    return Err(Error::invalid(format!("task {:?}", entry.task.name), reason));
                }
                None => {
                    places.insert(name.to_owned(), tenants.len());
                    tenants.push(Tenant { tasks: vec![entry.task], ..Tenant::new(name) });
                }
            }
        }
        let moves_to_root = |task: &Task| task.changes.iter().any(|c| c.tenant.as_deref() == Some(Tenant::ROOT));
        let has_root = tenants.iter().any(Tenant::is_root);
        if !has_root && tenants.iter().flat_map(|t| &t.tasks).any(moves_to_root) {
            tenants.push(Tenant::new(Tenant::ROOT));
        }
        Ok(Scenario {
            name: self.name.unwrap_or_default(),
            description: self.description.unwrap_or_default(),
            devices: self.devices.unwrap_or(default.devices),
            schedulers: self.schedulers.unwrap_or(default.schedulers),
            completion: self.completion.unwrap_or(default.completion),
            drives: self.drives.unwrap_or(1),
            queue_depth: self.queue_depth,
            nr_requests: self.nr_requests,
            duration: self.duration.map(|t| t.0),
            warmup: self.warmup.map_or(default.warmup, |t| t.0),
            replicates: self.replicates.unwrap_or(default.replicates),
            seed: self.seed.map_or(default.seed, |s| s.0),
            limit: self.limit,
            host: self.host.unwrap_or(default.host),
            kernel: Kernel::of_file(self.kernel, self.io)?,
            nomerges: self.nomerges.unwrap_or(default.nomerges),
            series: self.series.map_or(default.series, |t| t.0),
            changes: self.change,
            tenants,
        })
    }
}

/// Other names of a scenario's keys.
const SYNONYMS: [(&str, &str); 14] = [
    ("drive", "devices"),
    ("disk", "devices"),
    ("elevator", "schedulers"),
    ("runtime", "duration"),
    ("time", "duration"),
    ("ramp_time", "warmup"),
    ("repeat", "replicates"),
    ("repetitions", "replicates"),
    ("runs", "replicates"),
    ("iodepth", "queue_depth"),
    ("depth", "queue_depth"),
    ("job", "task"),
    ("readahead", "read_ahead_kb"),
    ("writeback_delay", "dirty_expire_centisecs"),
];

/// The parser's error, with the nearest name for an unknown one.
fn message(error: &toml::de::Error) -> String {
    let text = error.to_string().trim_end().to_string();
    let said = error.message();
    // "unknown field `a`, expected `b`" or "…, expected one of `b`, `c`".
    let words: Vec<&str> = said.split('`').skip(1).step_by(2).collect();
    match (words.as_slice(), text.strip_suffix(said)) {
        ([unknown, known @ ..], Some(place)) if said.starts_with("unknown field ") && !known.is_empty() => {
            let synonym = SYNONYMS.iter().find(|(word, key)| word == unknown && known.contains(key));
            let meant = synonym.map(|(_, key)| *key).or_else(|| nearest(unknown, known.iter().copied()));
            let hint = Some(suggest(meant)).filter(|hint| !hint.is_empty()).unwrap_or(";".to_owned());
            format!("{place}unknown key `{unknown}`{hint} known: {}", known.join(", "))
        }
        _ => text,
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_string() } else { names.join(", ") }
}
