//! Runs in periods, for environments that choose a scheduler for each.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dumbwaiter_devices::DeviceModel;
use dumbwaiter_experiment::Control;
use dumbwaiter_scenario::load::Prepared;
use dumbwaiter_schedulers::Choice;
use dumbwaiter_sim::{Episode, Period, PeriodEnd};
use dumbwaiter_text::units::{self, BareTime};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::compare::{Settings, experiment, wait};
use crate::errors::{self, SchedulerError, plain};
use crate::failed::Failed;
use crate::rows::TraceTable;

/// Of all episodes: Ctrl-C ends what runs.
static CONTROL: LazyLock<Control> = LazyLock::new(Control::default);
/// A step that takes longer is made on a thread of its own, while this one looks for Ctrl-C.
const SHORT: Duration = Duration::from_millis(20);
/// Requests of a first step that takes longer, probably.
const SHORT_REQUESTS: u64 = 10_000;

/// A load, a device, and the schedulers to choose from.
#[pyclass(frozen, module = "dumbwaiter._native")]
pub(crate) struct SwitchLoad {
    prepared: Prepared,
    model: DeviceModel,
    choices: Arc<[Choice]>,
    end: PeriodEnd,
}

/// Figures of a period: requests, reads, bytes, requests by size, sequential ones, mean and p99 latency in us, mean numbers in the
/// scheduler and in the device, length in s; and whether the run goes on.
type Figures = (u64, u64, u64, [u64; 3], u64, f64, f64, f64, f64, f64, bool);

fn figures(period: &Period, goes_on: bool) -> Figures {
    let each = |sum: f64| if period.requests == 0 { 0.0 } else { sum / period.requests as f64 };
    (
        period.requests,
        period.reads,
        period.bytes,
        period.sizes,
        period.sequential,
        each(period.latency.as_us_f64()),
        period.p99().as_us_f64(),
        each(period.in_scheduler as f64),
        each(period.in_device as f64),
        period.to.since(period.from).as_secs_f64(),
        goes_on,
    )
}

#[pymethods]
impl SwitchLoad {
    /// Reads a load as `compare` does. `period`: a number of requests, or a time as text.
    #[staticmethod]
    fn read(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        scenario: Option<String>,
        tables: Vec<(String, Py<TraceTable>)>,
        keywords: Bound<'_, PyDict>,
        period: Bound<'_, PyAny>,
    ) -> PyResult<SwitchLoad> {
        let mut settings = Settings::of(&keywords, &Failed::new(|| {}))?;
        let experiment = experiment(py, &paths, scenario.as_deref(), &tables, &mut settings)?;
        let scenario = experiment.scenario;
        let model = dumbwaiter_devices::load(&scenario.devices[0]).map_err(plain)?;
        let choices = scenario.schedulers.iter().map(|s| Choice::parse(&s.to_string()));
        let choices = choices.collect::<Result<Vec<_>, _>>().map_err(plain)?.into();
        let end = match period.extract::<u64>() {
            Ok(requests) if requests > 0 => PeriodEnd::Requests(requests),
            Ok(_) => return Err(plain("period = 0: expected at least one request")),
            Err(_) => {
                let time = units::time(&period.extract::<String>()?, BareTime::Seconds);
                PeriodEnd::Time(time.map_err(|e| plain(format!("period: {e}")))?)
            }
        };
        // It reads through traces.
        let over = Arc::new(AtomicBool::new(false));
        let cancelled = Arc::clone(&over);
        let prepare = move || Prepared::unless(&scenario, &|| cancelled.load(Ordering::Relaxed));
        let (prepared, told) = wait(py, prepare, |_| Ok(()), |_| over.store(true, Ordering::Relaxed))?;
        match told {
            Some(_) => Err(errors::interrupted(py, None)),
            None => Ok(SwitchLoad { prepared: prepared.map_err(plain)?, model, choices, end }),
        }
    }

    /// Names of the schedulers.
    #[getter]
    fn schedulers(&self) -> Vec<String> {
        self.choices.iter().map(|choice| choice.label().to_owned()).collect()
    }

    /// Starts a run under the scheduler of this number; `replicate` is added to the seed of the load.
    fn start(&self, replicate: u32, first: usize) -> PyResult<SwitchEpisode> {
        let episode = Episode::start(&self.prepared, &self.model, &self.choices, first, replicate, self.end, &CONTROL);
        let slow = !matches!(self.end, PeriodEnd::Requests(requests) if requests <= SHORT_REQUESTS);
        Ok(SwitchEpisode {
            episode: Arc::new(Mutex::new(episode.map_err(plain)?)),
            choices: self.choices.len(),
            slow: AtomicBool::new(slow),
        })
    }
}

/// A run in progress.
#[pyclass(frozen, module = "dumbwaiter._native")]
pub(crate) struct SwitchEpisode {
    episode: Arc<Mutex<Episode<'static>>>,
    choices: usize,
    /// Did the last step take long?
    slow: AtomicBool,
}

#[pymethods]
impl SwitchEpisode {
    /// Runs one period under the scheduler of this number.
    fn step(&self, py: Python<'_>, scheduler: usize) -> PyResult<Figures> {
        if scheduler >= self.choices {
            return Err(plain(format!("scheduler {scheduler}: expected 0 to {}", self.choices - 1)));
        }
        let (episode, started) = (Arc::clone(&self.episode), Instant::now());
        let step = move || {
            let mut episode = episode.lock().unwrap_or_else(PoisonError::into_inner);
            episode.period(scheduler).map(|(period, goes_on)| figures(period, goes_on))
        };
        let figures = if self.slow.load(Ordering::Relaxed) {
            let (figures, told) = wait(py, step, |_| Ok(()), |_| CONTROL.cancel.store(true, Ordering::Relaxed))?;
            if told.is_some() {
                CONTROL.cancel.store(false, Ordering::Relaxed);
                return Err(errors::interrupted(py, None));
            }
            figures
        } else {
            py.detach(step)
        };
        self.slow.store(started.elapsed() > SHORT, Ordering::Relaxed);
        figures.map_err(|fault| SchedulerError::new_err(fault.to_string()))
    }
}
