//! Runs in periods, for environments that choose a scheduler for each.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use dumbwaiter_devices::DeviceModel;
use dumbwaiter_experiment::Control;
use dumbwaiter_load::Prepared;
use dumbwaiter_schedulers::Choice;
use dumbwaiter_sim::{Episode, Period, PeriodEnd};
use dumbwaiter_workloads::units::{self, BareTime};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::compare::{Settings, experiment};
use crate::errors::{SchedulerError, plain};
use crate::failed::Failed;
use crate::rows::TraceTable;

/// Episodes are not cancelled: a step is short.
static CONTROL: LazyLock<Control> = LazyLock::new(Control::default);

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
        Ok(SwitchLoad { prepared: Prepared::new(&scenario).map_err(plain)?, model, choices, end })
    }

    /// Names of the schedulers.
    #[getter]
    fn schedulers(&self) -> Vec<String> {
        self.choices.iter().map(|choice| choice.label().to_owned()).collect()
    }

    /// Starts a run under the scheduler of this number; `replicate` is added to the seed of the load.
    fn start(&self, replicate: u32, first: usize) -> PyResult<SwitchEpisode> {
        let episode = Episode::start(&self.prepared, &self.model, &self.choices, first, replicate, self.end, &CONTROL);
        Ok(SwitchEpisode { episode: Mutex::new(episode.map_err(plain)?) })
    }
}

/// A run in progress.
#[pyclass(frozen, module = "dumbwaiter._native")]
pub(crate) struct SwitchEpisode {
    episode: Mutex<Episode<'static>>,
}

#[pymethods]
impl SwitchEpisode {
    /// Runs one period under the scheduler of this number.
    fn step(&self, py: Python<'_>, scheduler: usize) -> PyResult<Figures> {
        let step = || {
            let mut episode = self.episode.lock().unwrap_or_else(PoisonError::into_inner);
            episode.period(scheduler).map(|(period, goes_on)| figures(period, goes_on))
        };
        py.detach(step).map_err(|fault| SchedulerError::new_err(fault.to_string()))
    }
}
