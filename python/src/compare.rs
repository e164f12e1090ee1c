//! `compare`: the library's, waited for in a way that Ctrl-C ends.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dumbwaiter_advise::{Document, Goal};
use dumbwaiter_block::Nanos;
use dumbwaiter_experiment::{
    Comparison, Control, Ending, Experiment, Failure, Input, Overrides, Step, Until, World, compare as compare_one,
    compare_all, scenario_of_value,
};
use dumbwaiter_scenario::{Scenario, TraceOptions};
use dumbwaiter_schedulers::{Entry, Factory};
use dumbwaiter_sim::Simulator;
use dumbwaiter_text::units::{self, BareTime};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;
use crate::failed::Failed;
use crate::own_class::OwnClass;
use crate::own_runs::{Attached, OwnRuns, start_workers};
use crate::result::ResultDocument;
use crate::rows::TraceTable;
use crate::served::take_served;

/// How often Ctrl-C and progress are looked at while the library works.
const BEAT: Duration = Duration::from_millis(20);

/// Runs `work` on a thread of its own without the interpreter's lock. `beat` is called now and then with it; after an error of
/// `beat`, or a Ctrl-C, `stop` is called, and the error is returned beside what `work` gave.
pub(crate) fn wait<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
    beat: impl FnMut(Python<'_>) -> PyResult<()>,
    stop: impl Fn(Python<'_>),
) -> PyResult<(T, Option<PyErr>)> {
    wait_named(py, "dumbwaiter", work, beat, stop)
}

/// As [`wait`], on a thread of this name.
pub(crate) fn wait_named<T: Send + 'static>(
    py: Python<'_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
    mut beat: impl FnMut(Python<'_>) -> PyResult<()>,
    stop: impl Fn(Python<'_>),
) -> PyResult<(T, Option<PyErr>)> {
    let (done, waiting) = std::sync::mpsc::channel();
    let worker = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let value = work();
        let _ = done.send(());
        value
    })?;
    // Only a thread that may use it without the interpreter's lock can wait for it.
    let waiting = std::sync::Mutex::new(waiting);
    let mut told = None;
    loop {
        // An error of the channel other than a timeout: the worker panicked, and `join` says so.
        let timed_out = py.detach(|| {
            let waiting = waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            waiting.recv_timeout(BEAT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
        });
        if !timed_out {
            break;
        }
        if told.is_none()
            && let Err(error) = py.check_signals().and_then(|()| beat(py))
        {
            told = Some(error);
            stop(py);
        }
    }
    match py.detach(|| worker.join()) {
        Ok(value) => Ok((value, told)),
        Err(why) => Err(errors::of_panic(&*why)),
    }
}

/// Runs `work`, which changes nothing and cannot be ended, without the interpreter's lock. Ctrl-C leaves it to its end.
pub(crate) fn wait_or_leave<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (done, waiting) = std::sync::mpsc::channel();
    let worker = std::thread::Builder::new().name("dumbwaiter".into()).spawn(move || done.send(work()))?;
    // Only a thread that may use it without the interpreter's lock can wait for it.
    let waiting = std::sync::Mutex::new(waiting);
    loop {
        let received = py.detach(|| {
            let waiting = waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            waiting.recv_timeout(BEAT)
        });
        match received {
            Ok(value) => return Ok(value),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                py.check_signals().map_err(|_| errors::interrupted(py, None))?;
            }
            // It panicked.
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
                return match py.detach(|| worker.join()) {
                    Ok(_) => Err(errors::of_panic(&"ended without a result")),
                    Err(why) => Err(errors::of_panic(&*why)),
                };
            }
        }
    }
}

/// Keyword arguments of `dw.compare`.
pub(crate) struct Settings {
    pub(crate) overrides: Overrides,
    pub(crate) goal: Goal,
    own: Vec<Own>,
}

/// A scheduler that is written in Python: its name in results, whose CPU time a simulation charges it, and its factory.
type Own = (String, &'static Entry, Factory);

pub(crate) fn time(name: &str, value: Option<Bound<'_, PyAny>>) -> PyResult<Option<Nanos>> {
    let Some(value) = value.filter(|v| !v.is_none()) else { return Ok(None) };
    let text = match value.extract::<f64>() {
        Ok(seconds) => format!("{seconds}"),
        Err(_) => value.extract::<String>().map_err(|_| {
            let found = value.repr().map_or_else(|_| "this".into(), |text| text.to_string());
            let why = format!("{name}: {found} was found; expected a time such as \"200ms\", or seconds");
            errors::input(value.py(), why, None, None, Some(name))
        })?,
    };
    units::time(&text, BareTime::Seconds).map(Some).map_err(|e| errors::plain(format!("{name}: {e}")))
}

fn goal(name: Option<String>) -> PyResult<Goal> {
    Ok(match name.as_deref() {
        None | Some("balanced") => Goal::Balanced,
        Some("latency") => Goal::Latency,
        Some("throughput") => Goal::Throughput,
        Some("fairness") => Goal::Fairness,
        Some(other) => {
            let why = format!("goal: {other:?} is not known; expected balanced, latency, throughput or fairness");
            return Err(errors::plain(why));
        }
    })
}

/// Keyword arguments, each used once.
pub(crate) struct Keywords<'py>(pub(crate) Bound<'py, PyDict>);

impl<'py> Keywords<'py> {
    pub(crate) fn any(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.0.get_item(name)?;
        if value.is_some() {
            self.0.del_item(name)?;
        }
        Ok(value.filter(|v| !v.is_none()))
    }

    pub(crate) fn get<T>(&self, name: &str, expected: &str) -> PyResult<Option<T>>
    where
        T: for<'a> FromPyObject<'a, 'py>,
    {
        let Some(value) = self.any(name)? else { return Ok(None) };
        value.extract().map(Some).map_err(|_| {
            let found = value.repr().map_or_else(|_| "this".into(), |text| text.to_string());
            errors::input(value.py(), format!("{name}: {found} was found; expected {expected}"), None, None, Some(name))
        })
    }

    pub(crate) fn rest(&self) -> PyResult<()> {
        match self.0.keys().get_item(0) {
            Ok(key) => Err(pyo3::exceptions::PyTypeError::new_err(format!("unexpected keyword argument {key}"))),
            Err(_) => Ok(()),
        }
    }
}

impl Settings {
    /// Reads the keyword arguments. `schedulers` are texts and classes.
    pub(crate) fn of(keywords: &Bound<'_, PyDict>, failed: &Failed) -> PyResult<Settings> {
        let keys = Keywords(keywords.copy()?);
        let (schedulers, own) = schedulers(keys.any("schedulers")?, failed)?;
        let overrides = Overrides {
            devices: keys.get("devices", "a list of names")?.unwrap_or_default(),
            schedulers,
            completion: keys.get("completion", "a list of names")?.unwrap_or_default(),
            queue_depth: keys.get("queue_depth", "a whole number")?,
            nr_requests: keys.get("nr_requests", "a whole number")?,
            read_ahead_kb: keys.get("read_ahead_kb", "a whole number")?,
            host: keys.get("host", "a profile or its file")?,
            cpus: keys.get("cpus", "a whole number")?,
            deadline: time("deadline", keys.any("deadline")?)?,
            duration: time("duration", keys.any("duration")?)?,
            warmup: time("warmup", keys.any("warmup")?)?,
            limit: keys.get("limit", "a whole number")?,
            replicates: keys.get("replicates", "a whole number")?,
            seed: keys.get("seed", "a whole number from 0")?,
            rate: keys.get("rate", "a part of the throughput between 0 and 1")?,
            incumbent: keys.get("incumbent", "the name of a scheduler")?,
            trace: TraceOptions {
                format: keys.get("format", "the name of a trace format")?,
                columns: keys.get("columns", "a list of columns as text")?,
                speed: keys.get("speed", "a number")?,
                depth: keys.get("depth", "a whole number")?,
                closed_per_task: keys.get("closed_per_task", "True or False")?.unwrap_or(false),
                limit: None,
                fit: keys.get("fit", "skip, wrap or scale")?,
                arrival: keys.get("arrival", "Q, I, D or C")?,
                assume_bytes: keys.get("assume_bytes", "a whole number")?,
                parts: Vec::new(),
            },
            until: None,
            own_schedulers: own.iter().map(|(name, ..)| name.clone()).collect(),
            real_drive: false,
            world_options: Vec::new(),
        };
        let goal = goal(keys.get("goal", "balanced, latency, throughput or fairness")?)?;
        keys.rest()?;
        Ok(Settings { overrides, goal, own })
    }

    /// A simulator of `jobs` concurrent runs, with the schedulers that are written in Python.
    fn simulator(&self, jobs: Option<usize>) -> Simulator {
        let simulator = jobs.map_or_else(Simulator::on_all_cpus, Simulator::new);
        let with = |sim: Simulator, (name, like, factory): &Own| sim.with_scheduler(name, like, Arc::clone(factory));
        self.own.iter().fold(simulator, with)
    }

    /// The world of these jobs. Hooks of two runs in one process would only wait for each other's turn with the interpreter:
    /// schedulers that are written in Python run one by one, or each in a process of its own where there are several jobs.
    /// A process has the load of one scenario.
    fn world(&self, py: Python<'_>, jobs: Option<usize>, input: &Input, failed: &Failed) -> PyResult<Attached> {
        let own = self.overrides.own_schedulers.clone();
        let several = jobs.filter(|jobs| *jobs > 1 && !own.is_empty());
        let (workers, several) = match (several, input) {
            (Some(jobs), Input::One(experiment)) => {
                let runs = OwnRuns::new(experiment.scenario.clone(), self.simulator(Some(1)), failed.clone());
                (Some(start_workers(py, jobs, runs)?), Some(jobs))
            }
            _ => (None, None),
        };
        let jobs = if own.is_empty() { jobs } else { several.or(Some(1)) };
        Ok(Attached { simulator: self.simulator(jobs), own, failed: failed.clone(), workers })
    }
}

/// The list as the command takes it, and the classes in it.
fn schedulers(list: Option<Bound<'_, PyAny>>, failed: &Failed) -> PyResult<(Option<String>, Vec<Own>)> {
    let Some(list) = list else { return Ok((None, Vec::new())) };
    if let Ok(text) = list.extract::<String>() {
        return Ok((Some(text), Vec::new()));
    }
    let found = || list.repr().map_or_else(|_| "this".into(), |text| text.to_string());
    let wrong = |what: String| errors::plain(format!("schedulers: {what}; expected a list of names and classes"));
    let items = list.try_iter().map_err(|_| wrong(format!("{} was found", found())))?;
    let (mut names, mut own): (Vec<String>, Vec<Own>) = (Vec::new(), Vec::new());
    let (mut classes, mut with_settings) = (Vec::new(), Vec::new());
    for item in items {
        let item = item?;
        match item.extract::<String>() {
            Ok(name) => {
                names.push(name.clone());
                with_settings.push(name);
            }
            Err(_) => {
                let class = OwnClass::of(&item, failed)?;
                if own.iter().any(|(name, ..)| *name == class.name) {
                    return Err(errors::plain(format!(
                        "schedulers: two classes are called {}; give one another `name`",
                        class.name
                    )));
                }
                names.push(class.name.clone());
                own.push((class.name.clone(), class.like, Arc::clone(&class.factory)));
                classes.push(class);
            }
        }
    }
    for text in with_settings {
        let (name, settings) = text.split_once(':').unwrap_or((&text, ""));
        if let Some(class) = classes.iter().find(|class| class.name == name.trim() && !settings.is_empty()) {
            own.push(class.with(&text)?);
        }
    }
    if names.is_empty() {
        return Err(errors::plain("schedulers: the list is empty; expected at least one"));
    }
    Ok((Some(names.join(",")), own))
}

/// Reads one load: paths, a scenario as JSON text, or tables with their names.
pub(crate) fn experiment(
    py: Python<'_>,
    paths: &[PathBuf],
    scenario: Option<&str>,
    tables: &[(String, Py<TraceTable>)],
    settings: &mut Settings,
) -> PyResult<Experiment> {
    if let Some(text) = scenario {
        if let Some(option) = settings.overrides.trace_option() {
            return Err(errors::plain(format!("{option}: applies only to traces; give a trace, or leave it out")));
        }
        let value = serde_json::from_str(text).map_err(errors::plain)?;
        let scenario = scenario_of_value(&value).map_err(|(key, reason)| match key.as_str() {
            "" => errors::plain(format!("scenario: {reason}")),
            key => errors::input(py, format!("scenario, {key}: {reason}"), None, None, Some(key)),
        })?;
        let (scenario, notes) = resolved(scenario).map_err(|e| errors::of_reading(py, &e.into()))?;
        let read = Experiment::of(scenario, &settings.overrides, settings.goal);
        let mut experiment = read.map_err(|e| errors::of_reading(py, &e))?;
        experiment.notes = notes;
        return Ok(experiment);
    }
    let read = if tables.is_empty() {
        Experiment::read(paths, Scenario::builtin, &settings.overrides, settings.goal)
    } else {
        settings.overrides.trace.columns = Some(tables[0].1.get().column_names().to_owned());
        let rows = tables.iter().map(|(name, table)| (name.clone(), table.get().rows())).collect();
        Experiment::of_rows(rows, &settings.overrides, settings.goal)
    };
    read.map_err(|e| errors::of_reading(py, &e))
}

/// A scenario with the fio jobs that it names, which are read from the current folder.
fn resolved(mut scenario: Scenario) -> Result<(Scenario, Vec<String>), dumbwaiter_scenario::Error> {
    let notes =
        scenario.resolve(&|name| dumbwaiter_scenario::read_text(name.as_ref()), &|name| std::env::var(name).ok())?;
    Ok((scenario, notes))
}

/// How far the runs are.
#[derive(Default)]
pub(crate) struct Counted {
    pub(crate) planned: AtomicU64,
    pub(crate) done: AtomicU64,
    /// Scenarios whose runs are not planned yet.
    waiting: AtomicU64,
    /// Runs of the scenario that was planned last.
    each: AtomicU64,
}

impl Counted {
    fn plan(&self, cells: u64) {
        self.planned.fetch_add(cells, Ordering::Relaxed);
        self.each.store(cells, Ordering::Relaxed);
        let _ = self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| waiting.checked_sub(1));
    }

    /// All runs; scenarios that are not planned yet are taken to have as many as the last one.
    fn all(&self) -> u64 {
        let [planned, waiting, each] = [&self.planned, &self.waiting, &self.each].map(|n| n.load(Ordering::Relaxed));
        planned + waiting * each
    }
}

/// A result that is gone on with, or until when replicates are added.
#[derive(Default)]
struct Extent {
    until: Option<Until>,
    resume: Option<Py<ResultDocument>>,
}

impl Extent {
    /// Takes them out of the keyword arguments.
    fn take(keywords: &Bound<'_, PyDict>) -> PyResult<Extent> {
        let keys = Keywords(keywords.clone());
        let resume = keys.get("resume", "a Result")?;
        let time = keys.any("until_time")?;
        let Some(within) = keys.any("until")? else {
            return match time {
                Some(_) => Err(errors::plain("until_time: expected `until` beside it")),
                None => Ok(Extent { until: None, resume }),
            };
        };
        let text = within.extract::<f64>().map(|within| within.to_string()).or_else(|_| within.extract::<String>());
        let text =
            text.map_err(|_| errors::plain(format!("until: {within} was found; expected a part such as \"5%\"")))?;
        let time = self::time("until_time", time)?.map_or(UNTIL_TIME, |time| Duration::from_nanos(time.0));
        let until = Until::parse(&text, time).map_err(|e| errors::plain(format!("until: {e}")))?;
        Ok(Extent { until: Some(until), resume })
    }
}

/// The command's own default of `--until-time`.
const UNTIL_TIME: Duration = Duration::from_secs(600);

/// Compares schedulers; see `dumbwaiter.compare`.
#[pyfunction]
#[pyo3(signature = (paths, scenario, tables, keywords, jobs, progress))]
pub(crate) fn compare(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    scenario: Option<String>,
    tables: Vec<(String, Py<TraceTable>)>,
    keywords: Bound<'_, PyDict>,
    jobs: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<ResultDocument> {
    let counted = Arc::new(Counted::default());
    let counts = Arc::clone(&counted);
    let control = Arc::new(Control::observed(move |step| match step {
        Step::Planned { cells, .. } => counts.plan(*cells),
        Step::Began(_) => {}
        Step::Finished(..) => _ = counts.done.fetch_add(1, Ordering::Relaxed),
    }));
    let cancelling = Arc::clone(&control);
    let failed = Failed::new(move || cancelling.cancel.store(true, Ordering::Relaxed));
    let served = take_served(&keywords)?;
    let extent = Extent::take(&keywords)?;
    let mut settings = Settings::of(&keywords, &failed)?;
    settings.overrides.until = extent.until;
    if let Some(served) = &served {
        settings.overrides.world_options.clone_from(&served.options);
    }
    let mut input = if scenario.is_none() && tables.is_empty() {
        Input::read(&paths, Scenario::builtin, &settings.overrides, settings.goal)
            .map_err(|e| errors::of_reading(py, &e))?
    } else {
        Input::One(Box::new(experiment(py, &paths, scenario.as_deref(), &tables, &mut settings)?))
    };
    if let Some(result) = &extent.resume {
        input.resume(result.get().document()).map_err(|e| errors::of_reading(py, &e))?;
    }
    if let Input::Several { cases, .. } = &input {
        counted.waiting.store(cases.len() as u64, Ordering::Relaxed);
    }
    let world: Box<dyn World + Send>;
    let mut workers = None;
    match served {
        Some(served) => world = Box::new(served.world),
        None => {
            let simulated = settings.world(py, jobs, &input, &failed)?;
            workers = simulated.workers.as_ref().map(|workers| workers.clone_ref(py));
            world = Box::new(simulated);
        }
    }
    let kill = |py: Python<'_>| workers.as_ref().map_or(Ok(()), |workers| workers.call_method0(py, "kill").map(drop));
    let running = Arc::clone(&control);
    let started = Instant::now();
    let beat = |py: Python<'_>| report(py, progress.as_ref(), &counted, started);
    let stop = |py: Python<'_>| {
        control.cancel.store(true, Ordering::Relaxed);
        failed.interrupt(py);
        // They are ended below in any case.
        let _ = kill(py);
    };
    let compare = move || match &input {
        Input::One(experiment) => compare_one(experiment, &*world, &running),
        Input::Several { name, cases } => compare_all(name, cases, &*world, &running),
    };
    let waited = wait(py, compare, beat, stop);
    kill(py)?;
    let (compared, told) = waited?;
    ended(py, compared, told, &failed, || report(py, progress.as_ref(), &counted, started))
}

pub(crate) fn report(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    counted: &Counted,
    started: Instant,
) -> PyResult<()> {
    let Some(progress) = progress else { return Ok(()) };
    let (done, planned) = (counted.done.load(Ordering::Relaxed), counted.all());
    let left = planned.saturating_sub(done) as f64;
    let eta = (done > 0).then(|| started.elapsed().as_secs_f64() / done as f64 * left);
    progress.call1(py, (done, planned, eta)).map(drop)
}

/// The result, or the exception that ended the runs.
fn ended(
    py: Python<'_>,
    compared: Result<Comparison, Failure>,
    told: Option<PyErr>,
    failed: &Failed,
    last: impl FnOnce() -> PyResult<()>,
) -> PyResult<ResultDocument> {
    let result = |mut document: Document| {
        document.provenance.commit = dumbwaiter::version::commit();
        ResultDocument::new(document)
    };
    let interrupted = |finished: Option<Document>| {
        let finished = finished.map(|document| Py::new(py, result(document))).transpose()?;
        Err(errors::interrupted(py, finished.map(Py::into_any)))
    };
    match told {
        Some(error) if error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py) => {
            return interrupted(compared.ok().map(|compared| compared.document));
        }
        Some(error) => return Err(error),
        None => {}
    }
    if let Some(error) = failed.take() {
        return Err(error);
    }
    match compared {
        Ok(Comparison { document, ending: Ending::Complete }) => {
            last()?;
            Ok(result(document))
        }
        Ok(Comparison { document, ending: Ending::Interrupted }) => interrupted(Some(document)),
        Ok(Comparison { ending: Ending::Failed(failure), .. }) | Err(failure) => {
            Err(errors::of_failure(py, &failure, failed.held()))
        }
    }
}
