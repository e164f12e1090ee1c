//! Predictions beside what was measured, and models of drives and hosts that are fitted to measurements.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dumbwaiter_experiment::{Control, Failure};
use dumbwaiter_fidelity::measured::{
    self as fitting, FitOptions, FittedHost, HostFitOptions, MeasuredError, MeasuredOptions, device_of,
    fit_host_to_table, host,
};
use dumbwaiter_realworld::fit::{DriveOptions, Error, Opened, Options, document, fit as fit_survey, open};
use dumbwaiter_realworld::{HostRunOptions, host_runs};
use dumbwaiter_scenario::{Host, Profile};
use dumbwaiter_sim::Simulator;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;
use serde_json::{Value, json};

use crate::catalogue::python;
use crate::compare::{Keywords, time};
use crate::errors::{self, plain};
use crate::stop::Stop;
use crate::tune::simulator;

/// Keyword arguments of these functions, each used once.
struct Given<'py>(Keywords<'py>);

impl Given<'_> {
    fn text(&self, name: &str) -> PyResult<Option<String>> {
        self.0.get(name, "a text")
    }

    fn text_or(&self, name: &str, default: &str) -> PyResult<String> {
        Ok(self.text(name)?.unwrap_or_else(|| default.to_owned()))
    }

    fn texts(&self, name: &str) -> PyResult<Vec<String>> {
        Ok(self.0.get(name, "a list of texts")?.unwrap_or_default())
    }

    /// A time above 0, s.
    fn seconds(&self, name: &str) -> PyResult<Option<f64>> {
        match time(name, self.0.any(name)?)? {
            Some(time) if time.0 == 0 => Err(plain(format!("{name} = 0: expected a time above 0"))),
            time => Ok(time.map(|time| time.as_secs_f64())),
        }
    }

    fn length(&self, default: Duration) -> PyResult<Duration> {
        Ok(self.seconds("length")?.map_or(default, Duration::from_secs_f64))
    }

    fn count(&self, name: &str, most: u32) -> PyResult<Option<u32>> {
        let expected = format!("a number from 1 to {most}");
        let Some(number) = self.0.get::<u32>(name, &expected)? else { return Ok(None) };
        if !(1..=most).contains(&number) {
            return Err(plain(format!("{name} = {number}: expected {expected}")));
        }
        Ok(Some(number))
    }

    fn devices(&self) -> PyResult<Vec<(Option<String>, String)>> {
        self.texts("devices")?.iter().map(|text| device_of(text).map_err(plain)).collect()
    }

    fn host(&self, name: &str) -> PyResult<Host> {
        let cpus = self.count("cpus", u16::MAX.into())?.map(|cpus| cpus as u16);
        host(self.text(name)?.as_deref(), cpus).map_err(plain)
    }

    fn simulator(&self) -> PyResult<Simulator> {
        simulator(self.0.get("jobs", "a number of runs")?)
    }
}

/// Runs `work` and hands its document over as Python's objects.
fn fitted<'py, T: Serialize + Send + 'static>(
    py: Python<'py>,
    work: impl FnOnce(&Control) -> Result<T, MeasuredError> + Send + 'static,
) -> PyResult<Bound<'py, PyAny>> {
    let found = Stop::new().run(py, work)?.map_err(plain)?;
    python(py, &serde_json::to_value(&found).map_err(plain)?)
}

/// What `fidelity --measured` writes as JSON.
#[pyfunction]
pub(crate) fn measured<'py>(
    py: Python<'py>,
    source: String,
    keywords: Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let given = Given(Keywords(keywords));
    let verdicts = given.0.get("verdicts", "True or False")?.unwrap_or(false);
    let options = MeasuredOptions {
        devices: given.devices()?,
        host: given.host("host")?,
        seconds: given.seconds("seconds")?,
        warmup: given.seconds("warmup")?,
        effort: 1.0,
        replicates: given.count("replicates", 1000)?.unwrap_or(if verdicts { 3 } else { 1 }),
        figures: given.texts("figures")?,
        verdicts,
        scheduler: given.text_or("scheduler", "none")?,
    };
    let world = given.simulator()?;
    given.0.rest()?;
    fitted(py, move |control| {
        let found = fitting::measured(&source, &options, &world, control)?;
        serde_json::to_value(found.entries()).map_err(|error| MeasuredError::Nothing(error.to_string()))
    })
}

/// What `devices fit --from` writes as JSON.
#[pyfunction]
pub(crate) fn fit_device<'py>(
    py: Python<'py>,
    sources: Vec<String>,
    keywords: Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let given = Given(Keywords(keywords));
    let options = FitOptions {
        like: given.text_or("like", "ssd:nvme-tlc")?,
        host: given.host("host")?,
        figures: given.texts("figures")?,
        parameters: given.texts("parameters")?,
        scheduler: given.text_or("scheduler", "none")?,
    };
    let world = given.simulator()?;
    given.0.rest()?;
    fitted(py, move |control| fitting::fit(&sources, &options, &world, control))
}

/// What `devices fit PATH` writes as JSON.
#[pyfunction]
pub(crate) fn survey<'py>(
    py: Python<'py>,
    subject: PathBuf,
    keywords: Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let given = Given(Keywords(keywords));
    let length = given.length(Duration::from_secs(120))?;
    let confirmed: Option<PathBuf> = given.0.get("destroy", "a path")?;
    given.0.rest()?;
    if let Some(named) = confirmed.as_deref().filter(|named| named.as_os_str() != subject.as_os_str()) {
        return Err(plain(format!("destroy names {}, but the drive is {}", named.display(), subject.display())));
    }
    let allow_writes = confirmed.is_some();
    let work = move |control: &Control| {
        let began = Instant::now();
        let Opened { mut subject, virtual_time } = open(&subject, &DriveOptions { allow_writes, confirmed })?;
        let time = dumbwaiter_block::Nanos(length.as_nanos() as u64);
        let options = Options { time, allow_writes, virtual_time };
        let found = dumbwaiter_realworld::fit::survey(&mut *subject, &options, &control.cancel, &mut |_| {})?;
        Ok(document(fit_survey(&found)?, began.elapsed().as_secs_f64()))
    };
    let found = Stop::new().run(py, work)?.map_err(|error: Error| {
        let text = error.to_string();
        match error {
            Error::Refused(_) | Error::NoFit(_) => plain(text),
            Error::Device(_) => errors::DeviceError::new_err(text),
            Error::Interrupted => errors::interrupted(py, None),
        }
    })?;
    python(py, &serde_json::to_value(&found).map_err(plain)?)
}

/// What `host fit --from` writes as JSON.
#[pyfunction]
pub(crate) fn fit_host<'py>(
    py: Python<'py>,
    sources: Vec<String>,
    keywords: Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let given = Given(Keywords(keywords));
    let names =
        sources.iter().map(|path| Path::new(path).file_name().map_or(path.into(), |name| name.to_string_lossy()));
    let options = HostFitOptions {
        host: given.host("like")?,
        devices: given.devices()?,
        figures: given.texts("figures")?,
        parameters: given.texts("parameters")?,
        scheduler: given.text_or("scheduler", "none")?,
        name: given.text_or("name", "fitted")?,
        notes: vec![format!("from {}", names.collect::<Vec<_>>().join(" "))],
    };
    let world = given.simulator()?;
    given.0.rest()?;
    fitted(py, move |control| fitting::fit_host(&sources, &options, &world, control))
}

/// What `host fit` writes as JSON: this machine measured, and a profile fitted to it.
#[pyfunction]
pub(crate) fn fit_this_host<'py>(py: Python<'py>, keywords: Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
    let given = Given(Keywords(keywords));
    let length = given.length(Duration::from_secs(1))?;
    if length < Duration::from_millis(100) {
        return Err(plain(format!("length = {} s: expected at least 100ms", length.as_secs_f64())));
    }
    let rounds = given.count("rounds", 100)?.unwrap_or(3);
    let base = given.host("like")?.profile.costs().map_err(plain)?;
    let (parameters, name) = (given.texts("parameters")?, given.text_or("name", "fitted")?);
    let world = given.simulator()?;
    given.0.rest()?;
    let work = move |control: &Control| -> Result<Result<FittedHost, MeasuredError>, Failure> {
        let runs = host_runs(&HostRunOptions { length, rounds }, &control.cancel, &mut |_, _| {})?;
        let options = HostFitOptions {
            host: runs.host(&base),
            devices: runs.devices,
            figures: Vec::new(),
            parameters,
            scheduler: "none".to_owned(),
            name,
            notes: runs.notes,
        };
        Ok(fit_host_to_table(&runs.table, "this machine", &options, &world, control))
    };
    let found = Stop::new().run(py, work)?.map_err(|failure| errors::of_failure(py, &failure, None))?;
    python(py, &serde_json::to_value(&found.map_err(plain)?).map_err(plain)?)
}

/// The shipped profiles of hosts: a list of dicts with `name`, `mhz`, `about` and `file`, the text of its file.
///
/// >>> import dumbwaiter as dw
/// >>> [host["name"] for host in dw.hosts()][:2]
/// ['r230-5.18', 'r230-5.15']
#[pyfunction]
pub(crate) fn hosts(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let of = |name: &'static str| -> PyResult<Value> {
        let costs = Profile::Named(name.to_owned()).costs().map_err(plain)?;
        let file = Profile::shipped(name).unwrap_or_default();
        let about = file.lines().next().unwrap_or_default().trim_start_matches("# ");
        Ok(json!({"name": name, "mhz": costs.mhz, "about": about, "file": file}))
    };
    python(py, &Profile::names().map(of).collect::<PyResult<Value>>()?)
}
