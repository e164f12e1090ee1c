//! `tune`: the library's search, whose runs may be made elsewhere.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dumbwaiter_advise::tune::Tuning;
use dumbwaiter_experiment::{
    Budget, Control, Failure, FailureKind, Step, TuneOptions, Tuner, TunerTrial, run_trial, tune,
};
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::SchedulerSpec;
use dumbwaiter_sim::Simulator;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::compare::{Counted, Settings, experiment, report, time, wait};
use crate::errors;
use crate::failed::Failed;
use crate::rows::TraceTable;
use crate::stop::Stop;

fn failure(failure: &Failure) -> PyErr {
    Python::attach(|py| errors::of_failure(py, failure, None))
}

fn text_of(tuning: &Tuning) -> PyResult<String> {
    serde_json::to_string(tuning).map_err(errors::plain)
}

/// A search: what it varies, and how much it may do.
#[pyclass(frozen, module = "dumbwaiter._native")]
pub(crate) struct TunePlan {
    experiment: dumbwaiter_experiment::Experiment,
    options: TuneOptions,
    tuner: Mutex<Tuner>,
    /// The trials that [`TunePlan::next`] named last, by their place in its list.
    named: Mutex<Vec<TunerTrial>>,
}

/// The simulator with `jobs` runs at a time; without a number, one for each CPU.
pub(crate) fn simulator(jobs: Option<usize>) -> PyResult<Simulator> {
    match jobs {
        Some(0) => Err(errors::plain("jobs = 0: expected at least 1")),
        Some(jobs) => Ok(Simulator::new(jobs)),
        None => Ok(Simulator::on_all_cpus()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[pymethods]
impl TunePlan {
    /// Reads the experiment. `schedulers`: those to search, as text; `times`: the budget and the limit.
    #[new]
    fn new(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        scenario: Option<String>,
        tables: Vec<(String, Py<TraceTable>)>,
        keywords: Bound<'_, PyDict>,
        schedulers: Vec<String>,
        times: (Option<Bound<'_, PyAny>>, Option<Bound<'_, PyAny>>),
    ) -> PyResult<TunePlan> {
        let (budget, limit) = times;
        // No scheduler of Python's is searched.
        let mut settings = Settings::of(&keywords, &Failed::new(|| {}))?;
        let experiment = experiment(py, &paths, scenario.as_deref(), &tables, &mut settings)?;
        let lists = schedulers.iter().map(|list| SchedulerSpec::parse_list(list));
        let lists = lists.collect::<Result<Vec<_>, _>>().map_err(|e| errors::plain(format!("schedulers: {e}")))?;
        let clock = time("limit", limit)?.map(|limit| Duration::from_nanos(limit.0));
        let options = TuneOptions {
            schedulers: lists.concat(),
            budget: Budget { runs: time("budget", budget)?, clock },
            ..TuneOptions::default()
        };
        // It reads through traces.
        let control = Arc::new(Control::default());
        let (running, of, with) = (Arc::clone(&control), experiment.clone(), options.clone());
        let prepare = move || Tuner::new(&of, &with, &Simulator::new(1), &running);
        let (tuner, told) = wait(py, prepare, |_| Ok(()), |_| control.cancel.store(true, Ordering::Relaxed))?;
        if told.is_some() {
            return Err(errors::interrupted(py, None));
        }
        let tuner = tuner.map_err(|e| failure(&e))?;
        Ok(TunePlan { experiment, options, tuner: Mutex::new(tuner), named: Mutex::default() })
    }

    /// Time on the clock after which the search ends, in seconds.
    #[getter]
    fn limit_s(&self) -> Option<f64> {
        self.options.budget.clock.map(|limit| limit.as_secs_f64())
    }

    /// The runs to make next, as text for `tune_trial`, in any order and at the same time; none when the search is over.
    fn next(&self) -> PyResult<Vec<String>> {
        let mut tuner = lock(&self.tuner);
        let trials = tuner.next_trials();
        let texts = trials.iter().map(|trial| tuner.remote(trial).map_err(|e| failure(&e))).collect();
        *lock(&self.named) = trials;
        texts
    }

    /// Stores what `tune_trial` gave for the trial at `place` of the last list.
    fn record(&self, place: usize, run: &str) -> PyResult<()> {
        let run: RunResult = serde_json::from_str(run).map_err(|e| errors::plain(format!("not a result: {e}")))?;
        let trial = lock(&self.named).get(place).copied();
        let trial = trial.ok_or_else(|| errors::plain(format!("there is no trial {place}")))?;
        lock(&self.tuner).record(&trial, run);
        Ok(())
    }

    /// Runs with a result, and all runs of the search.
    fn progress(&self) -> (usize, usize) {
        lock(&self.tuner).progress()
    }

    /// The result as JSON. `ended_early`: why it ended before its time.
    fn finish(&self, ended_early: Option<&str>) -> PyResult<String> {
        let tuning = lock(&self.tuner).finish(ended_early, Vec::new()).map_err(|e| failure(&e))?;
        text_of(&tuning)
    }

    /// The whole search on this machine: the result as JSON, and whether Ctrl-C ended it.
    fn run_local(&self, py: Python<'_>, jobs: Option<usize>, progress: Option<Py<PyAny>>) -> PyResult<(String, bool)> {
        let simulator = simulator(jobs)?;
        let counted = Arc::new(Counted::default());
        let counts = Arc::clone(&counted);
        counted.planned.store(lock(&self.tuner).progress().1 as u64, Ordering::Relaxed);
        let control = Arc::new(Control::observed(move |step| {
            if let Step::Finished(..) = step {
                counts.done.fetch_add(1, Ordering::Relaxed);
            }
        }));
        let (running, experiment, options) = (Arc::clone(&control), self.experiment.clone(), self.options.clone());
        let work = move || tune(&experiment, &options, &simulator, &running);
        let started = Instant::now();
        let beat = |py: Python<'_>| report(py, progress.as_ref(), &counted, started);
        let (found, told) = wait(py, work, beat, |_| control.cancel.store(true, Ordering::Relaxed))?;
        let interrupted = match told {
            Some(error) if !error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py) => return Err(error),
            told => told.is_some(),
        };
        match found {
            Ok(found) => match found.failure {
                Some(why) => Err(failure(&why)),
                None => Ok((text_of(&found.tuning)?, interrupted)),
            },
            Err(_) if interrupted => Err(errors::interrupted(py, None)),
            Err(why) => Err(failure(&why)),
        }
    }
}

/// Runs a trial that [`TunePlan::next`] named; the result as JSON. `None` where `stop` ended it.
#[pyfunction]
pub(crate) fn tune_trial(py: Python<'_>, text: String, stop: &Stop) -> PyResult<Option<String>> {
    let run = stop.run(py, move |control| run_trial(&text, &Simulator::new(1), control))?;
    match run {
        Ok(run) => serde_json::to_string(&run).map(Some).map_err(errors::plain),
        Err(why) if why.kind == FailureKind::Interrupted => Ok(None),
        Err(why) => Err(failure(&why)),
    }
}
