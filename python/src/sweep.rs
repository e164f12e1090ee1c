//! Sweeps: the grid, the cells of a batch, and the folder.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use dumbwaiter_experiment::Control;
use dumbwaiter_sim::Simulator;
use dumbwaiter_sweep::{self as sweeps, Done, Error, Folder, Progress, Sweep};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;
use crate::own_cells::OwnCells;
use crate::stop::Stop;

fn failed(error: Error) -> PyErr {
    match &error {
        Error::File { .. } => PyOSError::new_err(error.to_string()),
        Error::Base(read) => Python::attach(|py| errors::of_reading(py, read)),
        Error::Folder { folder, .. } => {
            Python::attach(|py| errors::input(py, error.to_string(), Some(folder), None, None))
        }
        Error::Part { path, .. } => Python::attach(|py| errors::input(py, error.to_string(), Some(path), None, None)),
        Error::Input(_) | Error::Cell { .. } | Error::Interrupted => errors::plain(error),
    }
}

fn json(name: &str, text: &str) -> PyResult<serde_json::Value> {
    serde_json::from_str(text).map_err(|e| errors::plain(format!("{name}: {e}")))
}

/// A sweep: a scenario and the axes of a grid.
#[pyclass(frozen, module = "dumbwaiter._native")]
pub(crate) struct SweepPlan {
    sweep: Arc<Sweep>,
    cells: u64,
}

impl SweepPlan {
    /// `make` may read traces, and counts cells.
    fn of(py: Python<'_>, make: impl FnOnce(&Control) -> Result<Sweep, Error> + Send + 'static) -> PyResult<SweepPlan> {
        let made = Stop::new().run(py, move |control| make(control).map(|sweep| (sweep.len(), sweep)))?;
        let (cells, sweep) = made.map_err(failed)?;
        Ok(SweepPlan { cells, sweep: Arc::new(sweep) })
    }
}

/// The scenario of a sweep.
#[derive(FromPyObject)]
enum Base {
    Json(String),
    File(PathBuf),
}

/// Result of a batch: the name of its part, the part, cells, failed cells, the first failure, and seconds.
type BatchOutcome<'py> = (String, Bound<'py, PyBytes>, u64, u64, Option<String>, f64);

#[pymethods]
impl SweepPlan {
    /// Reads a sweep's file.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<SweepPlan> {
        SweepPlan::of(py, move |control| Sweep::read(&path, control))
    }

    /// A sweep over a scenario: the path of a file, or JSON with the keys of one. `versions` are those of schedulers that are written
    /// in Python, by name.
    #[staticmethod]
    fn new(
        py: Python<'_>,
        base: Base,
        axes: &str,
        replicates: Option<u32>,
        leave_out: &str,
        versions: BTreeMap<String, String>,
    ) -> PyResult<SweepPlan> {
        let base = match base {
            Base::Json(text) => json("base", &text)?,
            Base::File(path) => sweeps::read_base(&path).map_err(failed)?,
        };
        let axes = json("axes", axes)?.as_object().cloned().ok_or_else(|| errors::plain("axes: expected a dict"))?;
        let rules = json("leave_out", leave_out)?;
        let not = rules.as_array().into_iter().flatten().map(|rule| rule.as_object().cloned()).collect::<Option<_>>();
        let not = not.ok_or_else(|| errors::plain("leave_out: expected a list of dicts"))?;
        let make = move |control: &Control| Sweep::new(base, axes, replicates, not, control);
        SweepPlan::of(py, move |control| make(control).map(|sweep| sweep.with_versions(versions)))
    }

    /// Reads what `to_json` gave.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: String) -> PyResult<SweepPlan> {
        SweepPlan::of(py, move |_| Sweep::from_json(&text))
    }

    /// The whole sweep as text, for other processes.
    fn to_json(&self) -> String {
        self.sweep.to_json()
    }

    /// Pickles as its text.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((py.get_type::<SweepPlan>().getattr("from_json")?, (self.to_json(),)))
    }

    /// Number of cells.
    #[getter]
    fn cells(&self) -> u64 {
        self.cells
    }

    /// How many cells, and why.
    fn extent(&self) -> String {
        self.sweep.extent()
    }

    /// Raises InputError where the axis of schedulers has settings that these classes do not take.
    fn check_own(&self, own: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        OwnCells::new(&own, self.sweep.axes()).map(drop)
    }

    /// Names of the axes.
    #[getter]
    fn axes(&self) -> Vec<String> {
        self.sweep.axes().iter().map(|axis| axis.name.clone()).collect()
    }

    /// The text of `_sweep.json` in the folder of its results.
    fn manifest(&self) -> String {
        sweeps::manifest(&self.sweep)
    }

    /// Raises InputError where a folder with this `_sweep.json` has the results of another sweep.
    fn check_manifest(&self, folder: &str, text: &str) -> PyResult<()> {
        sweeps::check_manifest(&self.sweep, folder, text).map_err(failed)
    }

    /// Numbers of up to `n` cells from `position` on that are not done, and the position after them.
    fn next_cells(&self, py: Python<'_>, done: &SweepDone, position: u64, n: usize) -> PyResult<(Vec<u64>, u64)> {
        let (sweep, done) = (Arc::clone(&self.sweep), Arc::clone(&done.done));
        let next = move |control: &Control| {
            let mut pending = sweep.pending(&done, position, control)?;
            let cells = pending.by_ref().take(n).collect();
            Ok((cells, pending.position()))
        };
        Stop::new().run(py, next)?.map_err(failed)
    }

    /// Runs cells one after the other, without the interpreter's lock where it needs none, until `stop` ends it. `own` are the
    /// schedulers of the sweep that are written in Python.
    fn run_batch<'py>(
        &self,
        py: Python<'py>,
        cells: Vec<u64>,
        stop: &Stop,
        own: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<BatchOutcome<'py>> {
        let (started, sweep) = (Instant::now(), Arc::clone(&self.sweep));
        let world = OwnCells::new(&own, self.sweep.axes())?;
        let run = move |control: &Control| sweeps::run_cells(&sweep, &cells, &world, control);
        let batch = stop.run(py, run)?.map_err(failed)?;
        let first = batch.errors.first().map(|(cell, why)| format!("cell {cell}: {why}"));
        let (cells, errors) = (batch.keys.len() as u64, batch.errors.len() as u64);
        let parquet = PyBytes::new(py, &batch.parquet);
        Ok((batch.name(), parquet, cells, errors, first, started.elapsed().as_secs_f64()))
    }

    /// Runs all cells that a folder lacks, on this machine. Returns cells, found, ran, failed.
    fn run_local(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        jobs: Option<usize>,
        fail_fast: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(u64, u64, u64, u64)> {
        let jobs = jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let (control, counted) = (Arc::new(Control::default()), Arc::new(Progress::default()));
        let (sweep, running, counts) = (Arc::clone(&self.sweep), Arc::clone(&control), Arc::clone(&counted));
        let work = move || sweeps::run(&sweep, &folder, jobs, fail_fast, &Simulator::new(1), &running, &counts);
        let started = Instant::now();
        let beat = |py: Python<'_>| {
            let Some(progress) = &progress else { return Ok(()) };
            let [all, found, ran] = [&counted.cells, &counted.found, &counted.ran].map(|n| n.load(Ordering::Relaxed));
            let left = all.saturating_sub(found + ran) as f64;
            let eta = (ran > 0).then(|| started.elapsed().as_secs_f64() / ran as f64 * left);
            progress.call1(py, (found + ran, all, eta)).map(drop)
        };
        let cancel = |_: Python<'_>| control.cancel.store(true, Ordering::Relaxed);
        let (ran, told) = crate::compare::wait(py, work, beat, cancel)?;
        let interrupted = match told {
            Some(error) if !error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py) => return Err(error),
            told => told.is_some(),
        };
        let ran = ran.map_err(failed)?;
        let counts = (ran.cells, ran.found, ran.ran, ran.failed);
        if interrupted {
            return Err(errors::interrupted(py, Some(counts.into_pyobject(py)?.into_any().unbind())));
        }
        beat(py)?;
        Ok(counts)
    }

    /// Estimates the whole from a sample: cells, seconds of one, bytes.
    fn estimate(&self, py: Python<'_>) -> PyResult<(u64, Option<f64>, Option<u64>)> {
        let sweep = Arc::clone(&self.sweep);
        let estimate = move |control: &Control| sweeps::estimate(&sweep, &Simulator::new(1), control);
        let estimate = Stop::new().run(py, estimate)?.map_err(failed)?;
        Ok((estimate.cells, estimate.each.map(|each| each.as_secs_f64()), estimate.bytes))
    }
}

/// Cells that have their rows.
#[pyclass(frozen, module = "dumbwaiter._native")]
pub(crate) struct SweepDone {
    done: Arc<Done>,
}

#[pymethods]
impl SweepDone {
    /// Of parts, as pairs of a name for errors and the content.
    #[staticmethod]
    fn of_parts(parts: &Bound<'_, PyAny>) -> PyResult<SweepDone> {
        let mut keys = Vec::new();
        for part in parts.try_iter()? {
            let (name, content): (String, Vec<u8>) = part?.extract()?;
            keys.extend(sweeps::part_keys(&name, content).map_err(failed)?);
        }
        Ok(SweepDone { done: Arc::new(Done::new(keys)) })
    }

    fn __len__(&self) -> usize {
        self.done.len()
    }
}

/// A folder of results on this machine.
#[pyclass(frozen, module = "dumbwaiter._native")]
pub(crate) struct SweepFolder {
    folder: Folder,
}

#[pymethods]
impl SweepFolder {
    /// Opens the folder, or makes it. Raises InputError where it has something else in it.
    #[staticmethod]
    fn open(path: PathBuf, plan: &SweepPlan) -> PyResult<SweepFolder> {
        Folder::open(&path, &plan.sweep).map(|folder| SweepFolder { folder }).map_err(failed)
    }

    /// The cells that have their rows.
    fn done(&self, py: Python<'_>) -> PyResult<SweepDone> {
        let folder = self.folder.clone();
        let done = Stop::new().run(py, move |control| folder.done(control))?.map_err(failed)?;
        Ok(SweepDone { done: Arc::new(done) })
    }

    /// Writes a part, whole or not at all.
    fn add(&self, py: Python<'_>, name: &str, parquet: &[u8]) -> PyResult<()> {
        py.detach(|| self.folder.write(name, parquet)).map_err(failed)
    }
}

/// A point of a plot: facet, line, place, mean, ends of its confidence interval, runs.
type Point = (String, String, String, f64, Option<(f64, f64)>, usize);

/// The columns of x, y, line and facet.
type PlotColumns = (String, String, Option<String>, Option<String>);

fn names(columns: &PlotColumns) -> [Option<&str>; 4] {
    let (x, y, by, facet) = columns;
    [Some(x), Some(y), by.as_deref(), facet.as_deref()]
}

/// Means of a column of a sweep's results by others.
#[pyfunction]
pub(crate) fn sweep_points(py: Python<'_>, folder: PathBuf, columns: PlotColumns) -> PyResult<Vec<Point>> {
    let read = move |control: &Control| sweeps::plotted(&folder, names(&columns), control);
    Stop::new().run(py, read)?.map(points).map_err(failed)
}

fn points(points: Vec<sweeps::Plotted>) -> Vec<Point> {
    let of = |p: sweeps::Plotted| (p.facet, p.by, p.x, p.mean, p.ci95.map(|[low, high]| (low, high)), p.n);
    points.into_iter().map(of).collect()
}

/// As [`sweep_points`], of parts that are not in a folder of this machine: pairs of a name for errors and the content.
#[pyfunction]
pub(crate) fn sweep_points_of_parts(
    place: String,
    parts: &Bound<'_, PyAny>,
    columns: PlotColumns,
) -> PyResult<Vec<Point>> {
    let py = parts.py();
    let parts: Vec<(String, Vec<u8>)> = parts.try_iter()?.map(|part| part?.extract()).collect::<PyResult<_>>()?;
    let join =
        move |control: &Control| sweeps::plotted_parts(&place, parts.into_iter().map(Ok), names(&columns), control);
    Stop::new().run(py, join)?.map(points).map_err(failed)
}

/// The name of a column as the label of an axis: `p99_us` is `p99, us`.
#[pyfunction]
pub(crate) fn axis_label(column: &str) -> String {
    sweeps::axis_label(column)
}

/// Different values in the order of an axis.
#[pyfunction]
pub(crate) fn in_order(values: Vec<String>) -> Vec<String> {
    sweeps::in_order(values.iter().map(String::as_str))
}
