//! A file or block device that an experiment runs on: opened with every check, its queue's settings guarded, its energy
//! measured.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::drive::{Options, Target, verify};
use dumbwaiter_advise::{Drive, Machine};
use dumbwaiter_experiment::{About, CellResult, Control, Failure, Refusal};
use dumbwaiter_linux::Roots;
use dumbwaiter_linux::meters::{self as meters, Meter};
use dumbwaiter_linux::queue::Queue;
use dumbwaiter_linux::settings::Settings;
use dumbwaiter_linux::{target, udev};
use dumbwaiter_measure::{Energy, RunResult};
use dumbwaiter_scenario::{Completion, Scenario, Task, Work};
use dumbwaiter_workloads::generate::BlockSize;

use crate::completion::{Method, Methods};
use crate::error::{Doing, Error};
use crate::load_pattern;
use crate::lock::lock;
use crate::options::{DeviceOptions, EnergySource};

/// A file or block device that is open for an experiment. [`crate::Engine`] and [`crate::Kernel`] run cells on it, one at a
/// time.
///
/// The queue's settings are put back by [`dumbwaiter_experiment::World::conclude`] and when this is dropped; a program that
/// must put them back on a signal too calls [`dumbwaiter_linux::undo::on_signals`] before [`DeviceUnderTest::open`].
pub struct DeviceUnderTest {
    path: PathBuf,
    facts: target::PathFacts,
    options: DeviceOptions,
    disk_options: Options,
    /// Size, 512-byte sectors.
    sectors: u64,
    /// Unit of direct I/O, bytes.
    logical_block: u32,
    /// `None` for a file, and for a device that has no scheduler of its own.
    queue: Option<Queue>,
    notes: Vec<String>,
    no_energy: Option<String>,
    energy_note: Option<String>,
    methods: Methods,
    settings: Mutex<Option<Settings>>,
    meter: Mutex<Option<Meter>>,
    /// When load patterns began, in seconds since 1970.
    load_patterns: Mutex<Vec<f64>>,
    /// Runs were made since [`DeviceUnderTest::conclude`].
    in_use: AtomicBool,
    failed: AtomicBool,
}

/// This machine, with its load now.
pub(crate) fn machine() -> Machine {
    let dumbwaiter_linux::machine::Machine { kernel, cpu, cpus, memory_bytes, load } =
        dumbwaiter_linux::machine::Machine::now();
    Machine { kernel, cpu, cpus, memory_bytes, load_before: load, load_after: load }
}

impl DeviceUnderTest {
    /// Opens `path` and finds out what it can do. Writes nothing and changes no setting.
    ///
    /// Refuses a path that is neither a file nor a block device, writes to a device that is in use (unless confirmed), and a
    /// journal that is no journal. Fails where a journal of an earlier run shows writes that are lost.
    pub fn open(path: &Path, options: DeviceOptions) -> Result<DeviceUnderTest, Failure> {
        let facts = target::PathFacts::of(path).map_err(Failure::refused)?;
        if options.allow_writes {
            facts.check_writes(true, options.confirmed.as_deref()).map_err(Failure::refused)?;
        }
        let disk_options = Options {
            direct: !options.buffered,
            allow_writes: options.allow_writes,
            exclusive: facts.uses.is_empty() || options.confirmed.is_none(),
            verify: options.verify.clone(),
            keep_going: options.keep_going,
            round_out: options.round_out,
            rings: options.rings,
            ..Options::default()
        };
        let mut notes = Vec::new();
        let journal = options.verify.as_ref().and_then(|verify| verify.journal.as_deref());
        notes.extend(journal.map(|journal| check_earlier_run(path, journal)).transpose()?.flatten());
        let target = Target::open(path, &disk_options).map_err(Failure::refused)?;
        notes.extend(target.notes().iter().cloned());
        let queue = facts.queue().filter(Queue::schedules);
        notes.extend(queue.iter().flat_map(|queue| queue.remarks(&Roots::default())));
        let mut energy_note = None;
        let (meter, no_energy) = match &options.energy {
            EnergySource::Meter => {
                let (meter, about) = meters::open_best();
                let why = meter.is_none().then(|| about.strip_prefix("no energy meter: ").unwrap_or(&about).to_owned());
                energy_note = Some(about);
                (meter, why)
            }
            EnergySource::None => (None, Some("energy is not measured".to_owned())),
            EnergySource::Log(_) => (None, None),
        };
        Ok(DeviceUnderTest {
            path: path.to_owned(),
            sectors: target.sectors(),
            logical_block: target.facts().logical_block,
            methods: Methods::new(path, &disk_options, options.sqpoll_by_interrupts),
            facts,
            options,
            disk_options,
            queue,
            notes,
            no_energy,
            energy_note,
            settings: Mutex::default(),
            meter: Mutex::new(meter),
            load_patterns: Mutex::default(),
            in_use: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        })
    }

    /// As it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Facts of its path: kind, size, model and users.
    pub fn facts(&self) -> &target::PathFacts {
        &self.facts
    }

    /// Its queue; `None` for a file, and for a device that hands its I/O on to others, which have the schedulers.
    pub fn queue(&self) -> Option<&Queue> {
        self.queue.as_ref()
    }

    /// How it may be used.
    pub fn options(&self) -> &DeviceOptions {
        &self.options
    }

    /// Remarks that hold for every run.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Which meter gives the energy, or why there is none, in one line; `None` where it comes from no meter.
    pub fn energy_note(&self) -> Option<&str> {
        self.energy_note.as_deref()
    }

    /// When load patterns for a power logger began, in seconds since 1970.
    pub fn load_patterns_unix_s(&self) -> Vec<f64> {
        lock(&self.load_patterns).clone()
    }

    /// Device and machine in one line.
    pub fn describe(&self) -> String {
        let model = self.facts.model.as_ref().map_or(String::new(), |m| format!(" {m},"));
        let size = self.facts.bytes as f64 / 1e9;
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let energy = self.energy_note.as_ref().map_or(String::new(), |note| format!("; {note}"));
        format!(
            "{} ({},{model} {size:.1} GB), Linux {}, {cpus} CPUs{energy}",
            self.path.display(),
            self.facts.kind,
            release.trim(),
        )
    }

    /// Refuses a scenario that writes where that is not allowed, or whose I/Os are smaller than the device's blocks.
    pub fn check_scenario(&self, scenario: &Scenario) -> Result<(), Failure> {
        let path = self.path.display();
        if let Some(task) = self.forbidden_writer(scenario) {
            return Err(Failure::refused(format!(
                "task `{task}` writes, and {path} is opened for reading only; --destroy {path} allows it and destroys the data on it; \
                 expected a load that only reads, such as scenarios/real-drive.toml"
            )));
        }
        if let Some((task, bytes)) = self.too_small(scenario) {
            return Err(Failure::refused(format!(
                "task `{task}`: I/Os of {bytes} bytes: {path} takes multiples of {} bytes only; choose such a size, or let \
                 I/Os be rounded out to blocks (--round-out)",
                self.logical_block
            )));
        }
        Ok(())
    }

    /// Checks that all worlds of the device share.
    pub(crate) fn supports(&self, scenario: &Scenario, completion: Completion) -> Result<(), Refusal> {
        if self.forbidden_writer(scenario).is_some() {
            let text = "loads that write; --destroy PATH runs them, and destroys what is on the device";
            return Err(Refusal(text.into()));
        }
        if self.too_small(scenario).is_some() {
            let block = self.logical_block;
            return Err(Refusal(format!("I/Os smaller than the device's blocks of {block} bytes")));
        }
        if scenario.drives > 1 {
            return Err(Refusal(format!("{} drives: only the simulator has several; name one drive", scenario.drives)));
        }
        self.method(completion).map(drop).map_err(Refusal)
    }

    /// The worlds of the device, without stacks.
    pub(crate) fn about(&self) -> About {
        About {
            name: self.path.display().to_string(),
            real: true,
            stacks: Vec::new(),
            device: Some(self.path.display().to_string()),
            no_energy: self.no_energy.clone(),
            notes: self.notes.clone(),
            machine: Some(machine()),
            drive: Some(self.drive()),
        }
    }

    /// The drive as it is set now.
    fn drive(&self) -> Drive {
        let facts = &self.facts;
        let queue = self.queue.as_ref();
        let set = queue.and_then(|queue| queue.schedulers().ok());
        let (scheduler, offered) = set.unwrap_or_default();
        Drive {
            path: self.path.display().to_string(),
            disk: queue.map_or(String::new(), |queue| queue.name().to_owned()),
            model: facts.model.clone().unwrap_or_default(),
            firmware: facts.firmware.clone().unwrap_or_default(),
            bytes: facts.bytes,
            udev_match: queue.map_or(String::new(), |queue| udev::matching(queue.name())),
            offered,
            scheduler,
            queue: queue.map(Queue::attributes).unwrap_or_default(),
        }
    }

    /// The first task whose I/Os are smaller than the device's blocks and are not rounded out, and their size in bytes.
    fn too_small<'s>(&self, scenario: &'s Scenario) -> Option<(&'s str, u64)> {
        let small = |task: &'s Task| match &task.work {
            Work::Job(job) => match job.bs.read {
                BlockSize::Fixed(bytes) if bytes < u64::from(self.logical_block) => Some((task.name.as_str(), bytes)),
                _ => None,
            },
            _ => None,
        };
        scenario.tasks().filter(|_| !self.options.round_out).find_map(|(_, task)| small(task))
    }

    /// The first task that writes, where that is not allowed. What traces hold is known only in the run.
    pub(crate) fn forbidden_writer(&self, scenario: &Scenario) -> Option<String> {
        crate::drive::writes(scenario).filter(|_| !self.options.allow_writes)
    }

    /// Why this program may not set the kernel's scheduler; `None` if it may.
    pub fn scheduler_is_fixed(&self) -> Option<String> {
        let file = format!("/sys/block/{}/queue/scheduler", self.queue.as_ref()?.name());
        let opened = std::fs::OpenOptions::new().write(true).open(&file);
        opened.err().map(|e| format!("the kernel's scheduler cannot be set; run as root ({file}: {e})"))
    }

    pub(crate) fn disk_options(&self) -> &Options {
        &self.disk_options
    }

    pub(crate) fn sectors(&self) -> u64 {
        self.sectors
    }

    /// How the device completes by `asked`, or why it cannot.
    pub(crate) fn method(&self, asked: Completion) -> Result<Method, String> {
        self.methods.get(asked)
    }

    pub(crate) fn announce(&self, text: &str) {
        if let Some(announce) = &self.options.announce {
            announce(text);
        }
    }

    /// Guards the queue's settings, so that they can be changed. `Some`: why they cannot be. An error where another process
    /// measures the device.
    pub(crate) fn guard(&self) -> Result<Option<String>, Error> {
        let mut held = lock(&self.settings);
        let Some(queue) = self.queue.as_ref().filter(|_| held.is_none()) else { return Ok(None) };
        if let Some(why) = self.scheduler_is_fixed() {
            return Ok(Some(why));
        }
        let (current, listed) = queue.schedulers()?;
        let mut settings = Settings::new(queue)?;
        // Where there is no other, some drivers take none at all.
        if listed.len() > 1
            && let Err(e) = settings.set("scheduler", &current)
        {
            return Ok(Some(format!("the kernel's scheduler cannot be set; run as root: {e}")));
        }
        *held = Some(settings);
        Ok(None)
    }

    /// Guards the queue's settings for runs of our own schedulers, and says what the kernel does below them. An error where another process
    /// measures the device.
    pub(crate) fn own_stack_notes(&self) -> Result<Vec<String>, Failure> {
        let mut notes = self.notes.clone();
        if let (Some(why), Some(queue)) = (self.guard().map_err(Failure::refused)?, self.queue()) {
            let (current, _) = queue.schedulers().map_err(Failure::refused)?;
            if current != "none" {
                notes.push(format!("the kernel's scheduler stays `{current}` below ours: {why}"));
            }
        }
        Ok(notes)
    }

    /// The guarded settings of the queue, if [`DeviceUnderTest::guard`] could take them.
    pub(crate) fn settings(&self) -> MutexGuard<'_, Option<Settings>> {
        lock(&self.settings)
    }

    /// Puts the queue's settings back; says what could not be.
    pub(crate) fn restore(&self) -> Vec<String> {
        let problems = lock(&self.settings).as_mut().map_or_else(Vec::new, Settings::restore);
        problems.into_iter().map(|problem| format!("not restored: {problem}")).collect()
    }

    /// Before the first run: the load pattern for a power logger.
    pub(crate) fn begin(&self, control: &Control) {
        if !self.in_use.swap(true, Ordering::Relaxed) && self.options.power_sync {
            self.run_load_pattern(control);
        }
    }

    fn run_load_pattern(&self, control: &Control) {
        self.announce(&load_pattern::description());
        let began = load_pattern::run(&control.cancel);
        lock(&self.load_patterns).extend(began);
    }

    /// Makes a run with the meter on, and gives it the energy of its measured time.
    pub(crate) fn metered(&self, run: impl FnOnce() -> Result<CellResult, Error>) -> Result<CellResult, Error> {
        let mut meter = lock(&self.meter);
        let Some(meter) = meter.as_mut() else { return run() };
        meter.start()?;
        let result = run();
        // Stopped in any case, so that it can start again.
        let drawn = meter.stop();
        let (mut result, drawn) = (result?, drawn?);
        // The meter ran over the warm-up too.
        if let (Some(from), Some(to)) = (result.run.started_unix_ns, result.run.ended_unix_ns) {
            result.run.energy = Some(Energy::of_run(&result.run, drawn.between(from, to), meter.about()));
        }
        result.notes.extend(drawn.energy.warning);
        Ok(result)
    }

    /// Turns the outcome of a run into that of a world.
    pub(crate) fn finished(&self, result: Result<CellResult, Error>) -> Result<CellResult, Failure> {
        let failed = result.as_ref().map_or(true, |result| result.failure.is_some());
        self.failed.fetch_or(failed, Ordering::Relaxed);
        Ok(result?)
    }

    /// After the last run: puts settings back, runs the load pattern again and reads the power log. Does nothing a second
    /// time, so that each world of the device may call it.
    pub(crate) fn conclude(&self, runs: &mut [RunResult], control: &Control) -> Result<Vec<String>, Failure> {
        let mut notes = self.restore();
        if !self.in_use.swap(false, Ordering::Relaxed) {
            return Ok(notes);
        }
        if self.options.power_sync && !self.failed.load(Ordering::Relaxed) && !control.cancelled() {
            self.run_load_pattern(control);
        }
        if let EnergySource::Log(log) = &self.options.energy
            && !runs.is_empty()
        {
            let joined = log.fill_when_complete(runs, &self.load_patterns_unix_s());
            match joined {
                Ok(more) => notes.extend(more),
                Err(failure) => {
                    // There is no result that could carry them.
                    notes.iter().for_each(|note| self.announce(note));
                    let what = "the runs have no energy; `dumbwaiter report energy` can add it to their JSON later";
                    return Err(failure.of(what));
                }
            }
        }
        Ok(notes)
    }
}

/// Checks the writes of a journal that exists already, so that nothing in it is lost unseen.
fn check_earlier_run(path: &Path, journal: &Path) -> Result<Option<String>, Failure> {
    if !std::fs::metadata(journal).is_ok_and(|meta| meta.is_file() && meta.len() > 0) {
        return Ok(None);
    }
    let check = || {
        let target = Target::open(path, &Options::default())?;
        verify::check(&target, journal).doing("--verify-journal: that file is there; remove it or give another")
    };
    let found = check().map_err(|e: Error| Failure::refused(e))?;
    if !found.clean() {
        return Err(Failure::device(format!(
            "{}: what an earlier run wrote is not there: {found}; remove the journal to begin anew",
            journal.display()
        )));
    }
    Ok(Some(format!("{}, of an earlier run: {found}", journal.display())))
}
