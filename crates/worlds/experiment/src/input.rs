//! Reading an experiment: a scenario, a fio job file or traces, and the settings that override them.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use dumbwaiter_advise::Goal;
use dumbwaiter_block::Nanos;
use dumbwaiter_block::hint::{nearest, suggest};
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::fio::{FioScenario, OF_MODEL, PARTS};
use dumbwaiter_scenario::{Completion, Profile, Rows, Scenario, SchedulerSpec, TraceOptions, library, read_text};
use dumbwaiter_schedulers::{Choice, REGISTRY};
use dumbwaiter_traces as traces;
use dumbwaiter_workloads::fio;

use crate::classes;
use crate::quoted::quoted;
use crate::until::Until;

/// A comparison to run: a scenario, and the goal of the recommendation.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The load, the devices and the schedulers.
    pub scenario: Scenario,
    /// The goal of the recommendation.
    pub goal: Goal,
    /// Remarks on the files it was read from.
    pub notes: Vec<String>,
    /// Drives that a fio job names. A simulation does not touch them.
    pub drives: Vec<String>,
    /// Runs that were made before and are not made again; see [`crate::Input::resume`].
    pub finished: Vec<RunResult>,
    /// A command that makes the same comparison; empty where it was not read from files.
    pub command: String,
    /// Add replicates until the decision is settled; `None` for the scenario's number.
    pub until: Option<Until>,
    /// What was asked for beside the goal.
    pub asked: Asked,
}

/// How the answer is to be found, beside the goal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// Part of the throughput that half the latency is worth; `None`: the goal's.
    pub rate: Option<f64>,
    /// The scheduler that is set; `None`: the drive's, or the kernel's default.
    pub incumbent: Option<String>,
    /// Classes of drives, and the models that stand for each.
    pub classes: BTreeMap<String, Vec<String>>,
}

/// Why an experiment cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file cannot be read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file is not what is expected; the text names it and says what is.
    #[error("{0}")]
    Input(String),
    /// The scenario is not valid.
    #[error(transparent)]
    Scenario(#[from] dumbwaiter_scenario::Error),
}

/// Kind of an input file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// A scenario in TOML.
    Scenario,
    /// A fio job file, or a command line of fio.
    FioJob,
    /// A block trace.
    Trace,
}

/// The schedulers that only older kernels and papers have.
fn historical() -> Vec<SchedulerSpec> {
    let current = Scenario::default().schedulers;
    let all = REGISTRY.iter().map(|entry| SchedulerSpec::named(entry.name));
    all.filter(|spec| !current.contains(spec)).collect()
}

/// Settings that override a scenario's; `None` and empty lists leave the scenario's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// Devices, as `--device` takes them.
    pub devices: Vec<String>,
    /// Schedulers with settings, separated by commas; `historical` or `all`.
    pub schedulers: Option<String>,
    /// Completion methods.
    pub completion: Vec<String>,
    /// Commands that the driver gives the device at once.
    pub queue_depth: Option<u32>,
    /// Requests that the scheduler may hold.
    pub nr_requests: Option<u32>,
    /// KiB that the page cache reads ahead.
    pub read_ahead_kb: Option<u32>,
    /// The profile of the host: a shipped one or a file.
    pub host: Option<String>,
    /// CPUs of the host.
    pub cpus: Option<u16>,
    /// The deadline of tasks whose scenario gives none.
    pub deadline: Option<Nanos>,
    /// Measured time.
    pub duration: Option<Nanos>,
    /// Time before it.
    pub warmup: Option<Nanos>,
    /// End a run after this many I/Os.
    pub limit: Option<u64>,
    /// Runs of each combination.
    pub replicates: Option<u32>,
    /// Seed of the first replicate.
    pub seed: Option<u64>,
    /// How traces are read and replayed.
    pub trace: TraceOptions,
    /// Names of schedulers that only the world has which will run the experiment, such as those written in Python.
    pub own_schedulers: Vec<String>,
    /// Add replicates until the decision is settled.
    pub until: Option<Until>,
    /// Part of the throughput that half the latency is worth, between 0 and 1.
    pub rate: Option<f64>,
    /// The scheduler to take as the one that is set.
    pub incumbent: Option<String>,
    /// It runs on a real drive: a suite then has that drive alone, as full as it is.
    pub real_drive: bool,
    /// Options of the command that choose where it runs, such as `--via` with `serve`; the value of a switch is empty. They change
    /// nothing but the command that makes the comparison again.
    pub world_options: Vec<(&'static str, String)>,
}

/// Files of a folder that a misspelt name is compared with.
const FILES_COMPARED: usize = 4096;
/// Bytes of a file that decide its kind.
const HEAD_BYTES: usize = 64 * 1024;

/// Kind of a file, by its content. A folder, a pipe, a missing and an empty file are refused.
pub fn input_kind(path: &Path) -> Result<InputKind, ReadError> {
    let named = || path.display().to_string();
    let failed = |source: std::io::Error| match similar_file(path).or_else(|| similar_builtin(path)) {
        Some(similar) if source.kind() == std::io::ErrorKind::NotFound => {
            ReadError::Input(format!("{}: no such file{}", named(), suggest(similar.to_str())))
        }
        _ => ReadError::File { path: named(), source },
    };
    // Before it is opened: opening a pipe may block for ever.
    let facts = std::fs::metadata(path).map_err(failed)?;
    if facts.is_dir() {
        return Err(ReadError::Input(format!(
            "{}: is a folder; expected a scenario, a fio job file or a trace",
            named()
        )));
    }
    if facts.file_type().is_block_device() {
        return Err(ReadError::Input(format!(
            "{0} is a drive; to measure it: dumbwaiter compare --on {0} (it only reads)",
            named()
        )));
    }
    if !facts.is_file() {
        return Err(ReadError::Input(format!(
            "{}: is not a regular file; expected one, since it is read twice",
            named()
        )));
    }
    let mut head = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(HEAD_BYTES as u64).read_to_end(&mut head).map_err(failed)?;
    if head.is_empty() {
        return Err(ReadError::Input(format!("{}: is empty; expected a scenario, a fio job file or a trace", named())));
    }
    if is_result(&head) {
        return Err(ReadError::Input(format!(
            "{0} is a result, not a workload; to print it again: dumbwaiter report {0}",
            named()
        )));
    }
    Ok(kind_of_content(path, &head))
}

/// The file of the same folder with the most similar name.
fn similar_file(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).ok()?.flatten().take(FILES_COMPARED);
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    let found = nearest(path.file_name()?.to_str()?, names.iter().map(String::as_str))?;
    Some(path.with_file_name(found))
}

/// The scenario inside the program with the most similar name.
fn similar_builtin(path: &Path) -> Option<PathBuf> {
    let suites = library::SUITES.iter().flat_map(|suite| suite.scenarios);
    let names = library::SCENARIOS.iter().chain(suites).map(|scenario| scenario.name);
    nearest(path.to_str()?, names).map(PathBuf::from)
}

/// A JSON object with the keys of our results.
fn is_result(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    text.trim_start().starts_with('{')
        && ["\"schema\"", "\"scenario\"", "\"runs\""].iter().any(|key| text.contains(key))
}

fn kind_of_content(path: &Path, head: &[u8]) -> InputKind {
    let extension = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    if extension == "toml" {
        return InputKind::Scenario;
    }
    if head.contains(&0) {
        return InputKind::Trace;
    }
    let text = String::from_utf8_lossy(head);
    if fio::is_command_line(&text) {
        return InputKind::FioJob;
    }
    let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with(['#', ';']));
    let first = lines.next().unwrap_or_default();
    // A section of a fio job has one bracket; a TOML table array has two, and its keys are quoted or numbers.
    let key = first.split_once(" = ").filter(|_| !first.contains(','));
    if first.starts_with("[[") || key.is_some_and(|(key, _)| !key.trim().contains(' ')) {
        return InputKind::Scenario;
    }
    let section = first.starts_with('[') && first.ends_with(']') && !first.contains("] [");
    if section || extension == "fio" || text.lines().any(|line| line.trim() == "[global]") {
        return InputKind::FioJob;
    }
    InputKind::Trace
}

/// A scenario inside the program whose name is given instead of a file.
fn builtin_of(path: &Path) -> Option<library::Named> {
    path.to_str().filter(|_| !path.exists()).and_then(library::named)
}

/// The name of fio's command line in messages.
const COMMAND: &str = "fio command";

/// The command line of fio that is given instead of a file.
fn command_line_of(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| text.contains(' ') && !path.exists() && fio::is_command_line(text))
}

/// Words with those of a command line of fio as one: what follows `--` is often pasted.
pub(crate) fn joined(words: &[PathBuf]) -> Vec<PathBuf> {
    let text: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    let line = text.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    match text.len() == words.len() && words.len() > 1 && fio::is_command_line(&line) {
        true => vec![PathBuf::from(line)],
        false => words.to_vec(),
    }
}

/// Kind of an argument: a scenario inside the program, a command line of fio, or a file.
pub(crate) fn kind_of(path: &Path) -> Result<InputKind, ReadError> {
    match builtin_of(path) {
        Some(_) => Ok(InputKind::Scenario),
        None if command_line_of(path).is_some() => Ok(InputKind::FioJob),
        None => input_kind(path),
    }
}

/// Refuses a mixture: one scenario or job file, or one or more traces.
fn kind_of_all(paths: &[PathBuf]) -> Result<Option<InputKind>, ReadError> {
    let kinds = paths.iter().map(|path| kind_of(path)).collect::<Result<Vec<_>, _>>()?;
    match kinds.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(*one)),
        all if all.iter().all(|k| *k == InputKind::Trace) => Ok(Some(InputKind::Trace)),
        _ => Err(ReadError::Input(format!(
            "{} files given: expected one scenario, one fio job file, or traces only",
            paths.len()
        ))),
    }
}

impl Experiment {
    /// Reads `paths` (a scenario, a fio job file or command line, or traces; the `builtin` scenario where there are none), applies
    /// `overrides` and checks the whole.
    pub fn read(
        paths: &[PathBuf],
        builtin: fn() -> Scenario,
        overrides: &Overrides,
        goal: Goal,
    ) -> Result<Experiment, ReadError> {
        let paths: &[PathBuf] = &joined(paths);
        let kind = kind_of_all(paths)?;
        if kind != Some(InputKind::Trace)
            && let Some(option) = overrides.trace_option()
        {
            if let ("--format", Some(name)) = (option, &overrides.trace.format) {
                return Err(ReadError::Input(format!(
                    "--format: `{name}` is not a format of results: table, csv, markdown, json, udev, nixos, tuned, ansible or systemd; the name of a format of traces \
                     applies only to traces"
                )));
            }
            return Err(ReadError::Input(format!("{option}: applies only to traces; give a trace, or leave it out")));
        }
        let mut drives = Vec::new();
        let (mut scenario, notes) = match kind {
            None => (builtin(), Vec::new()),
            Some(InputKind::Scenario) => match builtin_of(&paths[0]) {
                Some(named) => (named.scenario()?, Vec::new()),
                None => Scenario::load(&paths[0])?,
            },
            Some(InputKind::FioJob) => {
                let read = fio_scenario(&paths[0], overrides)?;
                drives = read.drives;
                (read.whole, read.notes)
            }
            Some(InputKind::Trace) => (of_traces(paths, &overrides.trace)?, Vec::new()),
        };
        let command = overrides.command(paths, goal);
        let asked = scenario_checked(&mut scenario, overrides)?;
        Ok(Experiment { scenario, goal, notes, drives, finished: Vec::new(), command, until: overrides.until, asked })
    }

    /// The stages of a fio job file or command line, each an experiment of its own; empty where it has one only.
    ///
    /// # Errors
    /// As [`Experiment::read`].
    pub(crate) fn stages(path: &Path, overrides: &Overrides, goal: Goal) -> Result<Vec<Experiment>, ReadError> {
        let read = fio_scenario(path, overrides)?;
        let command = overrides.command(&[path.to_owned()], goal);
        let one =
            |stage: Scenario| Ok(Experiment { command: command.clone(), ..Experiment::of(stage, overrides, goal)? });
        let mut stages = read.stages.into_iter().map(one).collect::<Result<Vec<_>, ReadError>>()?;
        // What there is to say of the file is said once.
        if let Some(first) = stages.first_mut() {
            (first.notes, first.drives) = (read.notes, read.drives);
        }
        Ok(stages)
    }

    /// Traces that are in memory, each with a name of its own. `overrides.trace.columns` names their columns.
    ///
    /// # Errors
    /// Overrides that make it invalid.
    pub fn of_rows(traces: Vec<(String, Rows)>, overrides: &Overrides, goal: Goal) -> Result<Experiment, ReadError> {
        let scenario = Scenario::from_rows(traces, overrides.trace.clone());
        Experiment::of(Scenario { replicates: 1, ..scenario }, overrides, goal)
    }

    /// The experiment of a scenario that is not in a file, with `overrides`.
    ///
    /// # Errors
    /// A scenario that is not valid with them.
    pub fn of(mut scenario: Scenario, overrides: &Overrides, goal: Goal) -> Result<Experiment, ReadError> {
        let asked = scenario_checked(&mut scenario, overrides)?;
        let (notes, drives, command) = (Vec::new(), Vec::new(), String::new());
        Ok(Experiment { scenario, goal, notes, drives, finished: Vec::new(), command, until: overrides.until, asked })
    }
}

/// What a fio job file or command line describes. On a real drive it has that one alone.
fn fio_scenario(input: &Path, overrides: &Overrides) -> Result<FioScenario, ReadError> {
    let (path, text) = match command_line_of(input) {
        Some(line) => (COMMAND.to_owned(), line.to_owned()),
        None => (input.display().to_string(), read_text(input)?),
    };
    let mut read = FioScenario::read(&text, &path, &|name| std::env::var(name).ok())?;
    if overrides.real_drive && read.whole.drives > 1 {
        read.stages.iter_mut().chain([&mut read.whole]).for_each(Scenario::stand_for_all_drives);
        read.notes.retain(|note| !note.ends_with(OF_MODEL));
        read.notes.push(format!("{path}: {PARTS}"));
    }
    Ok(read)
}

/// Applies overrides and checks the whole.
fn scenario_checked(scenario: &mut Scenario, overrides: &Overrides) -> Result<Asked, ReadError> {
    overrides.apply(scenario)?;
    let classes = classes::expand(&mut scenario.devices);
    check(scenario, &overrides.own_schedulers)?;
    let incumbent = match &overrides.incumbent {
        Some(name) => {
            let spec = SchedulerSpec::parse(name).map_err(|e| ReadError::Input(format!("--incumbent: {e}")))?;
            if !overrides.own_schedulers.contains(&spec.name) {
                Choice::parse_stack(name).map_err(|e| ReadError::Input(format!("--incumbent: {e}")))?;
            }
            Some(spec.to_string())
        }
        None => None,
    };
    if let Some(rate) = overrides.rate.filter(|rate| !(*rate > 0.0 && *rate < 1.0)) {
        return Err(ReadError::Input(format!(
            "--rate: {} % is not a part of the throughput; expected above 0 % and below 100 %",
            rate * 100.0
        )));
    }
    Ok(Asked { rate: overrides.rate, incumbent, classes })
}

/// Checks a scenario with the schedulers and devices that exist.
fn check(scenario: &Scenario, own_schedulers: &[String]) -> Result<(), ReadError> {
    let known_scheduler = |name: &str| match own_schedulers.iter().any(|own| own == name) {
        true => Ok(()),
        false => Choice::parse_stack(name).map(|_| ()).map_err(|e| e.to_string()),
    };
    let known_device = |name: &str| match name.starts_with("/dev/") {
        true => Err(format!("{name} is a drive, not a model of one; to measure it: --on {name}")),
        false => dumbwaiter_devices::load(name).map(|_| ()).map_err(|e| e.to_string()),
    };
    scenario.validate(&known_scheduler, &known_device)?;
    Ok(())
}

/// The files of a blktrace capture, one a CPU, are one trace; others are traces of their own.
fn of_traces(paths: &[PathBuf], options: &TraceOptions) -> Result<Scenario, ReadError> {
    let one_capture = paths.len() > 1 && paths.iter().all(is_blktrace);
    let name = |p: &PathBuf| {
        let text = p.to_str().map(str::to_owned);
        text.ok_or_else(|| {
            ReadError::Input(format!(
                "{}: the name is not UTF-8, as a scenario requires; give a link with a UTF-8 name",
                p.display()
            ))
        })
    };
    let mut names = paths.iter().map(name).collect::<Result<Vec<String>, _>>()?;
    let parts = if one_capture { names.split_off(1) } else { Vec::new() };
    let mut scenario = Scenario::from_trace(&names, TraceOptions { parts, ..options.clone() });
    scenario.replicates = 1;
    Ok(scenario)
}

fn is_blktrace(path: &PathBuf) -> bool {
    let opened = traces::open(&[path], &traces::Options::default());
    opened.is_ok_and(|reader| reader.format() == traces::Format::Blktrace)
}

impl Overrides {
    /// The first setting given that only a trace can use, as the command spells it.
    pub fn trace_option(&self) -> Option<&'static str> {
        let trace = &self.trace;
        let given = [
            (trace.speed.is_some(), "--speed"),
            (trace.depth.is_some(), "--depth"),
            (trace.closed_per_task, "--closed-per-task"),
            (trace.fit.is_some(), "--fit"),
            (trace.format.is_some(), "--format"),
            (trace.columns.is_some(), "--columns"),
            (trace.arrival.is_some(), "--arrival"),
            (trace.assume_bytes.is_some(), "--assume-bytes"),
        ];
        given.into_iter().find(|(is, _)| *is).map(|(_, name)| name)
    }

    fn apply(&self, scenario: &mut Scenario) -> Result<(), ReadError> {
        if !self.devices.is_empty() {
            scenario.devices.clone_from(&self.devices);
        }
        match self.schedulers.as_deref() {
            None => {}
            Some("all") => scenario.schedulers = REGISTRY.iter().map(|e| SchedulerSpec::named(e.name)).collect(),
            Some("historical") => scenario.schedulers = historical(),
            Some(list) => {
                scenario.schedulers =
                    SchedulerSpec::parse_list(list).map_err(|e| ReadError::Input(format!("--schedulers: {e}")))?;
            }
        }
        if !self.completion.is_empty() {
            let methods = self.completion.iter().map(|m| m.parse::<Completion>());
            scenario.completion =
                methods.collect::<Result<_, _>>().map_err(|e| ReadError::Input(format!("--completion: {e}")))?;
        }
        scenario.queue_depth = self.queue_depth.or(scenario.queue_depth);
        scenario.nr_requests = self.nr_requests.or(scenario.nr_requests);
        scenario.host.read_ahead_kb = self.read_ahead_kb.or(scenario.host.read_ahead_kb);
        if let Some(text) = &self.host {
            scenario.host.profile = Profile::read(text)?;
        }
        scenario.host.cpus = self.cpus.unwrap_or(scenario.host.cpus);
        for tenant in &mut scenario.tenants {
            tenant.deadline = tenant.deadline.or(self.deadline);
        }
        scenario.duration = self.duration.or(scenario.duration);
        scenario.warmup = self.warmup.unwrap_or(scenario.warmup);
        scenario.limit = self.limit.or(scenario.limit);
        scenario.replicates = self.replicates.unwrap_or(scenario.replicates);
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_can_be_read_only_once_are_refused() {
        for path in ["/dev/null", "/dev/zero"] {
            let said = input_kind(Path::new(path)).unwrap_err().to_string();
            assert!(said.contains(path) && said.contains("not a regular file"), "{said}");
        }
    }

    #[test]
    fn words_of_a_fio_command_are_one_input() {
        let words = ["fio", "--name=a", "--filename=/dev/sd x"].map(PathBuf::from);
        assert_eq!(joined(&words), [PathBuf::from("fio --name=a '--filename=/dev/sd x'")]);
        assert_eq!(kind_of(&joined(&words)[0]).unwrap(), InputKind::FioJob);
        let files = ["fio", "a.csv"].map(PathBuf::from);
        assert_eq!(joined(&files), files);
    }

    #[test]
    fn content_decides() {
        let kind = |name: &str, text: &str| kind_of_content(Path::new(name), text.as_bytes());
        assert_eq!(kind("a.toml", "garbage"), InputKind::Scenario);
        assert_eq!(kind("a", "# note\nname = \"x\"\n"), InputKind::Scenario);
        assert_eq!(kind("a", "; job\n[global]\nrw=read\n"), InputKind::FioJob);
        assert_eq!(kind("a", "[[task]]\n"), InputKind::Scenario);
        assert_eq!(kind("job.fio", "rw=read"), InputKind::FioJob);
        assert_eq!(kind("a", "8,0 3 1 0.000000000 697 G W 223490 + 8 [kjournald]\n"), InputKind::Trace);
        assert_eq!(kind("a", "# fio --rw=read\n"), InputKind::FioJob);
        assert_eq!(kind("a", "[root@host ~]# sudo fio \\\n  --rw=read --name=a\n"), InputKind::FioJob);
        assert_eq!(kind("a", "# fio --rw=read\n[a]\nrw=write\n"), InputKind::FioJob);
        assert_eq!(kind("a", "$ cat j.fio\n[global]\nrw=read\n"), InputKind::FioJob);
        assert_eq!(kind("a", "[ts in ns] [pid] [process]\n1 2 x\n"), InputKind::Trace);
        assert_eq!(kind("a", "Process Name = 'dd'\n     Kbytes : count\n"), InputKind::Trace);
        assert_eq!(kind("a", "fio 1234 R 8,0 9096 4096 2.5\n"), InputKind::Trace);
        assert_eq!(kind("a.fio", "\0\x01"), InputKind::Trace);
        assert_eq!(kind("a.csv", "128166372003061629,hm,1,Read,383496192,32768,413\n"), InputKind::Trace);
    }
}
