//! Tasks: a job, an application, a trace or a fio job file.

use std::fmt;

use dumbwaiter_block::hint::{nearest, suggest};
use dumbwaiter_block::{Ioprio, Nanos};
use dumbwaiter_text::units::{self, BareTime, Prefixes};
use dumbwaiter_workloads::applications::App;
use dumbwaiter_workloads::generate::{JobSpec, Scalar};
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::TaskChange;

/// A task, or several instances of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Unique in the tenant.
    pub name: String,
    /// Number of instances; each has its own random numbers and its own offset by `offset_increment`, and is a task to
    /// the scheduler.
    pub count: u32,
    /// I/O priority; `None` for that of the job or tenant.
    pub ioprio: Option<Ioprio>,
    /// CPUs: instance i runs on the i-th of these, cyclically; empty for any.
    pub cpu: Vec<u16>,
    /// Stages run after each other: a task starts when all tasks of lower stages have ended (fio: stonewall).
    pub stage: u32,
    /// Time of its start, warm-up included.
    pub start: Nanos,
    /// Time at which it submits nothing more and exits after its outstanding I/O; `None` to run to the end of its work.
    pub stop: Option<Nanos>,
    /// An I/O whose predicted wait is longer is refused; `None` for the tenant's deadline.
    pub deadline: Option<Nanos>,
    /// Whether its latency is the one that decides: recommendations look at it.
    pub focus: bool,
    /// Scheduled changes of priority and tenant.
    pub changes: Vec<TaskChange>,
    /// Its work.
    pub work: Work,
}

/// The work of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Generated I/O.
    Job(Box<JobSpec>),
    /// An application, by its name.
    App(Box<App>),
    /// Recorded I/O.
    Trace(TraceSpec),
    /// The jobs of a fio file, until [`crate::Scenario::resolve`] replaces them.
    Fio(String),
}

/// A trace to replay.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSpec {
    /// The file.
    pub path: String,
    /// Options of reading and replaying it.
    pub options: TraceOptions,
    /// Its records, if they are in memory; `path` is then only their name.
    pub rows: Option<crate::Rows>,
}

/// Options of reading and replaying a trace. The trace readers define the accepted texts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TraceOptions {
    /// Format; `None` detects it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Columns of delimited text, separated by commas (`time_ms,op,offset_bytes,size_bytes`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<String>,
    /// Speed: recorded times are divided by it; `None` for 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
    /// Queue depth of a closed loop, which ignores recorded times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Closed loop by task: each recorded process waits for its own I/O.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub closed_per_task: bool,
    /// Largest number of requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// How to handle requests beyond the end of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fit: Option<String>,
    /// Further files of the same trace, merged by time: the other CPUs' of a blktrace capture.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
    /// Event of blkparse and blktrace that counts as arrival (`Q`, `I`, `D` or `C`); `None` for Q if there are any,
    /// else I.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrival: Option<String>,
    /// Size of each request of traces without sizes, bytes; `None` for 4096.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assume_bytes: Option<u32>,
}

impl Task {
    /// A task with one instance of this work.
    pub fn new(name: impl Into<String>, work: Work) -> Task {
        Task {
            name: name.into(),
            count: 1,
            ioprio: None,
            cpu: Vec::new(),
            stage: 0,
            start: Nanos::ZERO,
            stop: None,
            deadline: None,
            focus: false,
            changes: Vec::new(),
            work,
        }
    }

    /// Whether it ends by itself.
    pub fn ends(&self) -> bool {
        self.stop.is_some()
            || match &self.work {
                Work::Job(job) => !job.endless(),
                Work::App(app) => !app.endless(),
                Work::Trace(_) | Work::Fio(_) => true,
            }
    }

    /// The CPU of an instance, if set.
    pub fn cpu_of(&self, instance: u32) -> Option<u16> {
        (!self.cpu.is_empty()).then(|| self.cpu[instance as usize % self.cpu.len()])
    }
}

const KEYS: [&str; 24] = [
    "name",
    "count",
    "ioprio",
    "cpu",
    "stage",
    "start",
    "stop",
    "deadline",
    "focus",
    "change",
    "app",
    "tenant",
    "trace",
    "fio",
    "format",
    "columns",
    "speed",
    "depth",
    "closed_per_task",
    "limit",
    "parts",
    "arrival",
    "fit",
    "assume_bytes",
];

/// The file form of a task, with the name of its tenant.
pub(crate) struct Entry {
    pub(crate) task: Task,
    pub(crate) tenant: Option<String>,
}

impl Serialize for Task {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.name)?;
        if self.count != 1 {
            map.serialize_entry("count", &self.count)?;
        }
        if let Some(ioprio) = self.ioprio {
            map.serialize_entry("ioprio", &ioprio.to_string())?;
        }
        match self.cpu.as_slice() {
            [] => {}
            [one] => map.serialize_entry("cpu", one)?,
            several => map.serialize_entry("cpu", several)?,
        }
        if self.stage != 0 {
            map.serialize_entry("stage", &self.stage)?;
        }
        if self.start != Nanos::ZERO {
            map.serialize_entry("start", &units::format_time(self.start))?;
        }
        if let Some(stop) = self.stop {
            map.serialize_entry("stop", &units::format_time(stop))?;
        }
        if let Some(deadline) = self.deadline {
            map.serialize_entry("deadline", &units::format_time(deadline))?;
        }
        if self.focus {
            map.serialize_entry("focus", &true)?;
        }
        match &self.work {
            Work::Job(job) => {
                let entries = job.entries();
                if entries.is_empty() {
                    // At least one option marks this task as a job.
                    map.serialize_entry("rw", &job.rw.to_string())?;
                }
                for (key, value) in entries {
                    map.serialize_entry(key, &value)?;
                }
            }
            Work::App(app) => {
                map.serialize_entry("app", app.name())?;
                for (key, value) in app.entries() {
                    map.serialize_entry(key, &value)?;
                }
            }
            Work::Fio(path) => map.serialize_entry("fio", path)?,
            Work::Trace(spec) => serialize_trace(spec, &mut map)?,
        }
        if !self.changes.is_empty() {
            map.serialize_entry("change", &self.changes)?;
        }
        map.end()
    }
}

fn serialize_trace<M: SerializeMap>(spec: &TraceSpec, map: &mut M) -> Result<(), M::Error> {
    let TraceSpec { path, options, .. } = spec;
    map.serialize_entry("trace", path)?;
    let optional = [
        ("format", &options.format),
        ("columns", &options.columns),
        ("arrival", &options.arrival),
        ("fit", &options.fit),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            map.serialize_entry(key, value)?;
        }
    }
    if let Some(speed) = options.speed {
        map.serialize_entry("speed", &speed)?;
    }
    if !options.parts.is_empty() {
        map.serialize_entry("parts", &options.parts)?;
    }
    if let Some(bytes) = options.assume_bytes {
        map.serialize_entry("assume_bytes", &bytes)?;
    }
    if let Some(depth) = options.depth {
        map.serialize_entry("depth", &depth)?;
    }
    if options.closed_per_task {
        map.serialize_entry("closed_per_task", &true)?;
    }
    if let Some(limit) = options.limit {
        map.serialize_entry("limit", &limit)?;
    }
    Ok(())
}

/// A value that is parsed while it is read, so that errors point at its line.
struct Text<F>(F);

impl<'de, T, F: FnOnce(String) -> Result<T, String>> DeserializeSeed<'de> for Text<F> {
    type Value = T;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        (self.0)(Scalar::deserialize(deserializer)?.text()).map_err(D::Error::custom)
    }
}

/// A key of a task; an unknown key is an error at its line.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = String;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        let key = String::deserialize(deserializer)?;
        let of_app = App::KEYS.contains(&key.as_str());
        if KEYS.contains(&key.as_str()) || of_app || JobSpec::is_key(&key) || key == "numjobs" {
            return Ok(key);
        }
        let similar = || nearest(&key, KEYS.iter().chain(&App::KEYS).copied().chain(JobSpec::keys()));
        let hint = suggest(JobSpec::synonym(&key).or_else(similar));
        Err(D::Error::custom(format!("unknown key `{key}` of a task{hint}")))
    }
}

/// One CPU or a list of CPUs.
struct Processors;

impl<'de> DeserializeSeed<'de> for Processors {
    type Value = Vec<u16>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<u16>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Processors {
    type Value = Vec<u16>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number of a processor, from 0, or a list of them")
    }
    fn visit_u64<E: serde::de::Error>(self, n: u64) -> Result<Vec<u16>, E> {
        let n = u16::try_from(n).map_err(|_| E::invalid_value(serde::de::Unexpected::Unsigned(n), &self))?;
        Ok(vec![n])
    }
    fn visit_i64<E: serde::de::Error>(self, n: i64) -> Result<Vec<u16>, E> {
        u64::try_from(n)
            .map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(n), &self))
            .and_then(|n| self.visit_u64(n))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<u16>, A::Error> {
        let mut cpus = Vec::new();
        while let Some(cpu) = seq.next_element()? {
            cpus.push(cpu);
        }
        Ok(cpus)
    }
}

fn whole<T: TryFrom<u64>>(text: String, what: &str) -> Result<T, String> {
    let number = dumbwaiter_text::units::count(&text).ok().filter(|n| *n > 0).and_then(|n| T::try_from(n).ok());
    number.ok_or_else(|| format!("{text:?} is not {what}"))
}

fn truth(text: String) -> Result<bool, String> {
    match text.as_str() {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(format!("{text:?} is not true or false")),
    }
}

fn priority(text: String) -> Result<Ioprio, String> {
    Ioprio::parse(&text).ok_or_else(|| format!("{text:?} is not an I/O priority such as rt/0, be/4 or idle"))
}

fn time(text: String) -> Result<Nanos, String> {
    units::time(&text, BareTime::Seconds).map_err(|e| e.to_string())
}

fn speed(text: String) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|s| s.is_finite() && *s > 0.0);
    number.ok_or_else(|| format!("{text:?} is not a speed above 0, such as 2 or 0.5"))
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entry, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Entry;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a task: a table with a name and options of a job, an app, a trace or a fio file")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entry, A::Error> {
                read_entry(&mut map)
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// The keys of a task that concern its work.
#[derive(Default)]
struct WorkKeys {
    job: JobSpec,
    options: TraceOptions,
    trace: Option<String>,
    fio: Option<String>,
    app: Option<App>,
    /// Options of jobs may also be options of applications; which they are, a later key may decide.
    app_options: Vec<(String, String)>,
    first_job_key: Option<String>,
    first_job_only: Option<String>,
    first_trace_key: Option<String>,
}

impl WorkKeys {
    /// Reads the value of `key` if it is an option of a trace; returns whether it was.
    fn read_trace_option<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        let same = |text: String| Ok::<_, String>(text);
        let options = &mut self.options;
        match key {
            "format" => options.format = Some(map.next_value_seed(Text(same))?),
            "columns" => options.columns = Some(map.next_value_seed(Text(same))?),
            "parts" => options.parts = map.next_value()?,
            "arrival" => options.arrival = Some(map.next_value_seed(Text(same))?),
            "fit" => options.fit = Some(map.next_value_seed(Text(same))?),
            "speed" => options.speed = Some(map.next_value_seed(Text(speed))?),
            "depth" => options.depth = Some(map.next_value_seed(Text(|t| whole(t, "a depth from 1")))?),
            "assume_bytes" => {
                options.assume_bytes = Some(map.next_value_seed(Text(|t| whole(t, "a number of bytes from 1")))?);
            }
            "closed_per_task" => options.closed_per_task = map.next_value_seed(Text(truth))?,
            "limit" => options.limit = Some(map.next_value_seed(Text(|t| whole(t, "a number of requests from 1")))?),
            _ => return Ok(false),
        }
        self.first_trace_key.get_or_insert_with(|| key.to_string());
        Ok(true)
    }

    /// Reads the value of `key`, an option of a job, an application or both.
    fn read_option<'de, A: MapAccess<'de>>(&mut self, key: String, map: &mut A) -> Result<(), A::Error> {
        let of_app = App::KEYS.contains(&key.as_str());
        let set = |text: String| {
            if of_app {
                self.app_options.push((key.clone(), text.clone()));
                App::new(App::NAMES[0])?.set(&key, &text)?;
            }
            match JobSpec::is_key(&key) {
                true => self.job.set(&key, &text, Prefixes::Plain).map_err(|e| e.to_string()),
                false => Ok(()),
            }
        };
        map.next_value_seed(Text(set))?;
        if !of_app {
            self.first_job_only.get_or_insert(key.clone());
        }
        self.first_job_key.get_or_insert(key);
        Ok(())
    }

    /// The work of a task, or which keys exclude each other. `of` names the task in errors.
    fn work(self, of: &str) -> Result<Work, String> {
        let clash = |a: &str, b: &str| {
            Err(format!(
                "{a:?} and {b:?}{of} exclude each other: a task is a job, an application, a trace or a fio file"
            ))
        };
        let only_app = self.app_options.iter().map(|(key, _)| key).find(|key| !JobSpec::is_key(key));
        if let (None, Some(key)) = (&self.app, only_app) {
            return Err(format!("{key:?}{of} is for an application; this task has no app"));
        }
        if let Some(mut app) = self.app {
            let other = [(&self.trace, "trace"), (&self.fio, "fio")].into_iter().find(|(given, _)| given.is_some());
            if let Some((_, key)) = other {
                return clash("app", key);
            }
            if let Some(key) = self.first_job_only {
                return Err(format!("{key:?}{of} is for a job; this task is an application"));
            }
            if let Some(key) = &self.first_trace_key {
                return Err(format!("{key:?}{of} is for a trace; this task is an application"));
            }
            for (key, text) in &self.app_options {
                app.set(key, text)?;
            }
            return Ok(Work::App(Box::new(app)));
        }
        let options = self.options;
        let job_key = self.first_job_key;
        match (self.trace, self.fio, &job_key) {
            (Some(_), Some(_), _) => clash("trace", "fio"),
            (Some(_), None, Some(key)) => clash("trace", key),
            (None, Some(_), Some(key)) => clash("fio", key),
            (Some(_), ..) if options.speed.is_some() && (options.depth.is_some() || options.closed_per_task) => {
                Err(format!(
                    "\"speed\"{of} goes with recorded times, which \"depth\" and \"closed_per_task\" ignore: leave one out"
                ))
            }
            (Some(path), ..) => Ok(Work::Trace(TraceSpec { path, options, rows: None })),
            (None, fio, _) => match (self.first_trace_key, fio, job_key) {
                (Some(key), ..) => Err(format!("{key:?}{of} is for a trace; this task has none")),
                (None, Some(path), _) => Ok(Work::Fio(path)),
                (None, None, Some(_)) => Ok(Work::Job(Box::new(self.job))),
                (None, None, None) => {
                    Err(format!("nothing to do{of}: give rw and other options of a job, an app, a trace or a fio file"))
                }
            },
        }
    }
}

fn read_entry<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Entry, A::Error> {
    let same = |text: String| Ok::<_, String>(text);
    let mut keys = WorkKeys::default();
    let (mut name, mut tenant): (Option<String>, Option<String>) = (None, None);
    let (mut count, mut ioprio, mut cpu, mut stage, mut focus) = (1, None, Vec::new(), 0, false);
    let (mut start, mut stop, mut deadline, mut changes) = (Nanos::ZERO, None, None, Vec::new());
    while let Some(key) = map.next_key_seed(Key)? {
        match key.as_str() {
            "name" => name = Some(map.next_value_seed(Text(same))?),
            "tenant" => tenant = Some(map.next_value_seed(Text(same))?),
            "count" | "numjobs" => count = map.next_value_seed(Text(|t| whole(t, "a number of instances from 1")))?,
            "ioprio" => ioprio = Some(map.next_value_seed(Text(priority))?),
            "cpu" => cpu = map.next_value_seed(Processors)?,
            "stage" => stage = map.next_value()?,
            "start" => start = map.next_value_seed(Text(time))?,
            "stop" => stop = Some(map.next_value_seed(Text(time))?),
            "deadline" => deadline = Some(map.next_value_seed(Text(time))?),
            "focus" => focus = map.next_value_seed(Text(truth))?,
            "change" => changes = map.next_value()?,
            "app" => keys.app = Some(map.next_value_seed(Text(|t: String| App::new(&t)))?),
            "trace" => keys.trace = Some(map.next_value_seed(Text(same))?),
            "fio" => keys.fio = Some(map.next_value_seed(Text(same))?),
            _ if keys.read_trace_option(&key, map)? => {}
            _ => keys.read_option(key, map)?,
        }
    }
    let of = name.as_deref().map_or_else(String::new, |name| format!(" of task {name:?}"));
    let work = keys.work(&of).map_err(A::Error::custom)?;
    let name = name.ok_or_else(|| A::Error::missing_field("name"))?;
    Ok(Entry { task: Task { name, count, ioprio, cpu, stage, start, stop, deadline, focus, changes, work }, tenant })
}
