//! `reproduce --on`: the figures' cases on a real block device, under the kernel's own schedulers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use dumbwaiter_drive::{CompletionMode as Completion, Options, Sleep, Target};
use dumbwaiter_experiment::Control;
use dumbwaiter_experiment::{About, Cell, CellResult, Concurrency, Failure, Refusal, Stack, Work, World};
use dumbwaiter_linux::queue::Settings;
use dumbwaiter_linux::{place, target, undo};
use dumbwaiter_load::Prepared;
use dumbwaiter_measure::RunResult;
use dumbwaiter_meters::{self as meters, Meter};
use dumbwaiter_scenario::{Completion as Asked, Scenario, SchedulerSpec};
use dumbwaiter_workloads::generate::BlockSize;

use super::rocksdb::Rocksdb;
use super::{Bench, Way, cancel_with, one};
use crate::args::Reproduce;

/// The schedulers that a figure may ask for.
const SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];

/// Each method with how it is done, and whether with a thread in the kernel, or why it cannot be.
type Methods = Vec<(Asked, Result<(Completion, bool), String>)>;

/// The device with all that is needed to run on it.
pub(crate) struct Bed {
    path: PathBuf,
    facts: target::Target,
    options: Options,
    control: Arc<Control>,
    stop: Arc<AtomicBool>,
    settings: Mutex<Settings>,
    meter: Mutex<Option<Meter>>,
    about_meter: String,
    /// The schedulers that the kernel does not have for it, and what it says.
    missing: BTreeMap<&'static str, String>,
    methods: Methods,
    /// What hybrid polling is here.
    hybrid: &'static str,
    rocksdb: Rocksdb,
    /// Runs are made once, whichever figures show them.
    made: Mutex<BTreeMap<String, RunResult>>,
    notes: Mutex<Vec<String>>,
}

impl Bed {
    /// Looks at the device that `args` name, and finds out what it can do. Changes nothing but, for a moment, its scheduler.
    pub(crate) fn new(args: &Reproduce) -> Result<Bed> {
        let (path, folder) = match (&args.on, &args.dir) {
            (Some(path), _) => (path.clone(), None),
            (None, Some(dir)) => (place::device_of(dir)?, Some(dir.clone())),
            (None, None) => bail!("expected --on PATH or --dir FOLDER"),
        };
        let facts = target::Target::of(&path)?;
        let Some(queue) = facts.queue() else {
            bail!(
                "{} is a file: the kernel's schedulers and completion methods belong to block devices; give the device (a loop \
                 device over the file will do)",
                path.display()
            )
        };
        if args.allow_writes {
            facts.check_writes(true, args.i_know_this_destroys.as_deref())?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        undo::on_signals(Some(Arc::clone(&stop)))?;
        let control = Arc::new(Control::default());
        cancel_with(&stop, &control);
        let (now, _) = queue.schedulers()?;
        let mut settings = Settings::new(&queue)?;
        settings.set("scheduler", &now).context("the kernel's scheduler cannot be set; run as root")?;
        let mut missing = BTreeMap::new();
        for name in SCHEDULERS {
            // Asking loads its module, where there is one.
            if let Err(e) = settings.set("scheduler", name) {
                missing.insert(name, e.to_string());
            }
        }
        settings.set("scheduler", "none").or_else(|_| settings.set("scheduler", &now))?;
        let options = Options { allow_writes: args.allow_writes, ..Options::default() };
        let mut notes = Vec::new();
        let (methods, hybrid) = methods(&path, &mut notes)?;
        settings.restore();
        let (meter, about_meter) = meters::open_best();
        let rocksdb = Rocksdb::new(&path, &facts, folder, args.allow_writes, args.quick);
        crate::tell!("{}: {}, {}", path.display(), facts.kind, how_written(args));
        Ok(Bed {
            path,
            facts,
            options,
            control,
            stop,
            settings: Mutex::new(settings),
            meter: Mutex::new(meter),
            about_meter,
            missing,
            methods,
            hybrid,
            rocksdb,
            made: Mutex::default(),
            notes: Mutex::new(notes),
        })
    }

    /// Device and machine in a line.
    pub(crate) fn about(&self) -> String {
        let model = self.facts.model.as_ref().map_or(String::new(), |m| format!(" {m},"));
        let size = self.facts.bytes as f64 / 1e9;
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        format!(
            "{} ({},{model} {size:.1} GB), Linux {}, {cpus} CPUs; {}",
            self.path.display(),
            self.facts.kind,
            release.trim(),
            self.about_meter
        )
    }

    /// Ends what is under way when a signal comes.
    pub(crate) fn control(&self) -> &Control {
        &self.control
    }

    pub(crate) fn interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn note(&self, text: String) {
        let mut notes = lock(&self.notes);
        if !notes.contains(&text) {
            notes.push(text);
        }
    }

    fn case(&self, prepared: &Prepared, spec: &SchedulerSpec, replicate: u32) -> Result<Option<RunResult>> {
        let key = format!("{} {replicate} {}", spec, prepared.scenario().to_toml());
        if let Some(run) = lock(&self.made).get(&key) {
            return Ok(Some(run.clone()));
        }
        let (completion, sqpoll) = self.way_of(prepared.scenario()).map_err(anyhow::Error::msg)?;
        if prepared.scenario().completion.contains(&Asked::Hybrid) {
            self.note(format!("hybrid polling here: {}", self.hybrid));
        }
        let bench = Bench { path: &self.path, prepared, options: &self.options, control: &self.control };
        let way = Way::Kernel(spec);
        let mut settings = lock(&self.settings);
        let mut meter = lock(&self.meter);
        let cell = one(&bench, &way, completion, sqpoll, replicate, Some(&mut settings), meter.as_mut())?;
        if cell.cancelled || self.interrupted() {
            return Ok(None);
        }
        if let Some(failure) = cell.failure {
            bail!(failure);
        }
        for note in cell.notes {
            self.note(note);
        }
        lock(&self.made).insert(key, cell.result.clone());
        Ok(Some(cell.result))
    }

    fn readrandom(&self, scheduler: &str, threads: u32, seconds: u32, replicate: u32) -> Result<Option<RunResult>> {
        if !self.rocksdb.filled() {
            // Filled under the scheduler that the device has.
            lock(&self.settings).restore();
            crate::tell!("{}: filling a data base of {}", self.path.display(), self.rocksdb.size());
            if !self.rocksdb.fill(&self.stop)? {
                return Ok(None);
            }
            for note in self.rocksdb.notes() {
                self.note(note);
            }
        }
        let mut settings = lock(&self.settings);
        settings.set("scheduler", scheduler)?;
        // Without it the device does not count.
        settings.set("iostats", "1")?;
        let mut meter = lock(&self.meter);
        let run = self.rocksdb.readrandom(threads, seconds, replicate, meter.as_mut(), &self.stop)?;
        Ok(run.map(|run| RunResult { scheduler: scheduler.to_owned(), ..run }))
    }

    fn way_of(&self, scenario: &Scenario) -> Result<(Completion, bool), String> {
        let asked = scenario.completion.first().copied().unwrap_or(Asked::Interrupt);
        let found = self.methods.iter().find(|(method, _)| *method == asked);
        found.map_or_else(|| Err(format!("{asked} is not known here")), |(_, way)| way.clone())
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn how_written(args: &Reproduce) -> &'static str {
    match (args.allow_writes, &args.dir) {
        (true, _) => "WRITING to it",
        (false, Some(_)) => "only reading, but for a data base in a folder of its own, which is removed",
        (false, None) => "only reading",
    }
}

/// What each method of the papers is on this device, and hybrid polling in words.
fn methods(path: &std::path::Path, notes: &mut Vec<String>) -> Result<(Methods, &'static str)> {
    let target = Target::open(path, &Options::default())?;
    notes.extend(target.notes().iter().cloned());
    let all = [
        (Asked::Interrupt, Completion::Interrupt, false),
        (Asked::Poll, Completion::Poll, false),
        (Asked::Hybrid, Completion::Hybrid(Sleep::Auto), false),
        (Asked::Sqpoll, Completion::Poll, true),
    ];
    let mut hybrid = "";
    let found = all.into_iter().map(|(asked, completion, sqpoll)| {
        let way = target.check(completion);
        if let (Asked::Hybrid, Ok(way)) = (asked, &way) {
            hybrid = way.describe();
        }
        (asked, way.map(|_| (completion, sqpoll)).map_err(|e| format!("left out: {e}")))
    });
    let found = found.collect();
    Ok((found, hybrid))
}

impl World for Bed {
    fn about(&self) -> About {
        let why = self.about_meter.strip_prefix("no energy meter: ").unwrap_or(&self.about_meter);
        About {
            name: self.path.display().to_string(),
            real: true,
            stacks: vec![Stack::Kernel],
            device: Some(self.path.display().to_string()),
            no_energy: lock(&self.meter).is_none().then(|| why.to_owned()),
            notes: Vec::new(),
        }
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::Rotation
    }

    fn supports(&self, cell: &Cell) -> Result<(), Refusal> {
        if let Some(why) = self.missing.get(cell.scheduler.name.as_str()) {
            return Err(Refusal(format!("left out: {why}")));
        }
        let Some(scenario) = cell.scenario() else { return self.rocksdb.refuses().map_or(Ok(()), |w| Err(Refusal(w))) };
        if !self.options.allow_writes && dumbwaiter_drive::writes(scenario).is_some() {
            return Err(Refusal(
                "left out: loads that write; --allow-writes runs them, and destroys what is on the device".into(),
            ));
        }
        let block = u64::from(self.facts.logical_block);
        if smallest(scenario) < block {
            return Err(Refusal(format!("left out: I/Os smaller than the device's blocks of {block} bytes")));
        }
        self.way_of(scenario).map(drop).map_err(Refusal)
    }

    fn run(&self, cell: &Cell, _control: &dumbwaiter_experiment::Control) -> Result<CellResult, Failure> {
        let done = match &cell.work {
            Work::Scenario(load) => self.case(load, &cell.scheduler, cell.replicate),
            Work::DbBench(bench) => self.readrandom(&cell.scheduler.name, bench.threads, bench.seconds, cell.replicate),
        };
        match done {
            Ok(Some(run)) => {
                let mut result = CellResult::of(run);
                result.notes = std::mem::take(&mut *lock(&self.notes));
                Ok(result)
            }
            Ok(None) => Err(Failure::interrupted("ended before its end")),
            Err(e) => Err(Failure::device(format!("{e:#}"))),
        }
    }

    /// A figure is over: what only it needed goes, and the queue is as before.
    fn conclude(&self, _runs: &mut [RunResult]) -> Result<Vec<String>, Failure> {
        self.rocksdb.leave();
        for problem in lock(&self.settings).restore() {
            crate::tell!("dumbwaiter: not put back: {problem}");
        }
        Ok(std::mem::take(&mut *lock(&self.notes)))
    }
}

/// The smallest I/O that the tasks make, bytes.
fn smallest(scenario: &Scenario) -> u64 {
    use dumbwaiter_scenario::Work;
    let sizes = scenario.tasks().filter_map(|(_, task)| match &task.work {
        Work::Job(job) => match &job.bs.read {
            BlockSize::Fixed(bytes) => Some(*bytes),
            _ => None,
        },
        _ => None,
    });
    sizes.min().unwrap_or(u64::MAX)
}
