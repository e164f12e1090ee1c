//! Schedulers, devices, traces and recordings: what the command lists and reads.

use std::path::PathBuf;
use std::sync::Arc;

use dumbwaiter_devices::{DeviceModel, load, models, validate};
use dumbwaiter_experiment::Control;
use dumbwaiter_report::columns::Columns;
use dumbwaiter_schedulers::REGISTRY;
use dumbwaiter_traces::{self as traces, Format, Options, Record, StatOptions, TraceReader, TraceStat};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Value, json};

use crate::arrow::Layout;
use crate::compare::wait_or_leave;
use crate::errors::plain;
use crate::rows::TraceTable;
use crate::stop::Stop;
use crate::table::Stream;

/// JSON as Python's own objects.
pub(crate) fn python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (value.to_string(),))
}

/// The built-in schedulers: a list of dicts with `name`, `summary`, `source`, `versions` and `settings`, which is a list of dicts
/// with `name`, `unit`, `min`, `max`, `default` and `help`.
///
/// >>> import dumbwaiter as dw
/// >>> [scheduler["name"] for scheduler in dw.schedulers()][:4]
/// ['none', 'noop', 'deadline', 'mq-deadline']
#[pyfunction]
pub(crate) fn schedulers(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let settings = |e: &dumbwaiter_schedulers::Entry| -> Vec<Value> {
        let number = |n: i128| i64::try_from(n).map_or(Value::Null, Value::from);
        let of = |t: &dumbwaiter_block::Tunable| {
            json!({"name": t.name, "unit": t.unit, "min": number(t.min), "max": number(t.max),
                   "default": number(t.default), "help": t.help})
        };
        e.tunables.iter().map(of).collect()
    };
    let list: Vec<Value> = REGISTRY
        .iter()
        .map(|e| {
            json!({"name": e.name, "summary": e.summary, "source": e.source, "versions": e.versions(),
                   "settings": settings(e)})
        })
        .collect();
    python(py, &Value::from(list))
}

/// The built-in device models: a list of dicts with `name`, `about`, `capacity_bytes`, `depth` (commands that the device takes at a
/// time), `queues` and `rotational`.
///
/// >>> import dumbwaiter as dw
/// >>> next(device["depth"] for device in dw.devices() if device["name"] == "ssd:850pro-256")
/// 32
#[pyfunction]
pub(crate) fn devices(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let of = |m: &dumbwaiter_devices::ModelInfo| -> PyResult<Value> {
        let facts = load(m.name).map_err(plain)?.facts();
        Ok(json!({"name": m.name, "about": m.about, "capacity_bytes": facts.capacity_sectors * 512,
                  "depth": facts.depth, "queues": facts.queues, "rotational": facts.rotational}))
    };
    let list = models().iter().map(of).collect::<PyResult<Vec<_>>>()?;
    python(py, &Value::from(list))
}

/// A model of a device; `devices=` takes it.
///
/// >>> import dumbwaiter as dw
/// >>> device = dw.Device.load("ssd:850pro-256").replace(ncq_depth=8)
/// >>> device.name
/// 'ssd:850pro-256?ncq_depth=8'
#[pyclass(frozen, module = "dumbwaiter")]
pub(crate) struct Device {
    model: DeviceModel,
}

#[pymethods]
impl Device {
    /// Loads a model by `kind:name`, a name, or the path of a parameter file. Raises InputError where there is none.
    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<Device> {
        load(&path.to_string_lossy()).map(|model| Device { model }).map_err(plain)
    }

    /// The name, with what was replaced: `devices=` takes it.
    #[getter]
    fn name(&self) -> &str {
        self.model.name()
    }

    /// One line.
    #[getter]
    fn description(&self) -> &str {
        self.model.description()
    }

    /// The same model with other values of parameters. Raises InputError for a parameter that it lacks, or an impossible value.
    #[pyo3(signature = (**parameters))]
    fn replace(&self, parameters: Option<Bound<'_, PyDict>>) -> PyResult<Device> {
        let mut pairs = Vec::new();
        for (key, value) in parameters.iter().flatten() {
            pairs.push(format!("{key}={value}"));
        }
        if pairs.is_empty() {
            return Ok(Device { model: self.model.clone() });
        }
        self.model.with(&pairs.join("&")).map(|model| Device { model }).map_err(plain)
    }

    /// Measures the model and checks it against its data sheet, which takes seconds: a list of dicts with `measurement`, `target`,
    /// `model` (the value measured), `unit`, `tolerance`, `ok`, `source` and `grade`.
    fn validate<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let model = self.model.clone();
        let checks = wait_or_leave(py, move || validate::run(&model))?;
        python(py, &serde_json::to_value(checks).map_err(plain)?)
    }

    /// Pickles as its name: who reads it loads it again.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((py.get_type::<Device>().getattr("load")?, (self.model.name().to_owned(),)))
    }

    fn __str__(&self) -> &str {
        self.model.name()
    }

    fn __repr__(&self) -> String {
        format!("<dumbwaiter.Device {}>", self.model.name())
    }
}

fn options(format: Option<&str>, columns: Option<&str>) -> PyResult<Options> {
    Ok(Options {
        format: format.map(Format::parse).transpose().map_err(plain)?,
        columns: columns.map(traces::Columns::parse).transpose().map_err(plain)?,
        ..Options::default()
    })
}

fn open(path: &PathBuf, format: Option<&str>, columns: Option<&str>) -> PyResult<TraceReader> {
    traces::open(&[path], &options(format, columns)?).map_err(plain)
}

/// Statistics of a trace, as `dumbwaiter trace stat --json` writes them.
#[pyfunction]
#[pyo3(signature = (path, *, format = None, columns = None))]
pub(crate) fn trace_stat<'py>(
    py: Python<'py>,
    path: PathBuf,
    format: Option<&str>,
    columns: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut reader = open(&path, format, columns)?;
    let stat =
        move |control: &Control| TraceStat::unless(&mut reader, &StatOptions::default(), &|| control.cancelled());
    let stat = Stop::new().run(py, stat)?.map_err(plain)?;
    python(py, &serde_json::to_value(stat).map_err(plain)?)
}

/// Rows of one batch of a trace.
const BATCH_ROWS: usize = 65_536;

fn records(records: &[Record]) -> Columns {
    let mut c = Columns::default();
    c.real("time_us", records.iter().map(|r| r.time.as_us_f64()))
        .text("op", records.iter().map(|r| r.op.name().to_owned()))
        .whole("offset_bytes", records.iter().map(|r| r.sector * 512))
        .whole("size_bytes", records.iter().map(|r| r.bytes()))
        .whole("device", records.iter().map(|r| u64::from(r.device)))
        .whole("task", records.iter().map(|r| u64::from(r.task)))
        .real("latency_us", records.iter().map(|r| r.latency.map_or(f64::NAN, |l| l.as_us_f64())));
    c
}

/// The records of a trace, in batches: a trace larger than memory works.
#[pyfunction]
#[pyo3(signature = (path, *, format = None, columns = None))]
pub(crate) fn trace_read(path: PathBuf, format: Option<&str>, columns: Option<&str>) -> PyResult<Stream> {
    let mut reader = open(&path, format, columns)?;
    let batches = move || {
        let mut batch = Vec::with_capacity(BATCH_ROWS);
        while batch.len() < BATCH_ROWS
            && let Some(record) = reader.next_record().map_err(|e| e.to_string())?
        {
            batch.push(record);
        }
        Ok((!batch.is_empty()).then(|| Arc::new(Layout::new(records(&batch)))))
    };
    Ok(Stream::new(records(&[]), Box::new(batches)))
}

/// Writes a table as a trace. Returns the number of records.
#[pyfunction]
#[pyo3(signature = (table, path, format, *, columns = None))]
pub(crate) fn trace_write(
    py: Python<'_>,
    table: &TraceTable,
    path: PathBuf,
    format: &str,
    columns: Option<&str>,
) -> PyResult<u64> {
    let rows = table.rows();
    let read = options(None, Some(table.column_names()))?;
    let format = Format::parse(format).map_err(plain)?;
    let columns = columns.map(traces::Columns::parse).transpose().map_err(plain)?;
    let write = move |control: &Control| {
        let mut reader = traces::open_reader("table", rows.open(), &read)?;
        traces::convert(&mut reader, &path, format, columns.as_ref(), &traces::Filter::default(), &|| {
            control.cancelled()
        })
    };
    Stop::new().run(py, write)?.map(|written| written.records).map_err(plain)
}

/// A path, or a list of them.
#[derive(FromPyObject)]
pub(crate) enum Paths {
    One(PathBuf),
    Several(Vec<PathBuf>),
}

/// Agreement of our schedulers with recordings of the kernel's, as `dumbwaiter fidelity --json` writes it: a dict of `files`, with a
/// dict for each recording, and `summary`, with one for each scheduler. Raises InputError for a recording that cannot be read.
#[pyfunction]
pub(crate) fn fidelity<'py>(py: Python<'py>, paths: Paths) -> PyResult<Bound<'py, PyAny>> {
    let paths = match paths {
        Paths::One(path) => vec![path],
        Paths::Several(paths) => paths,
    };
    let scores = wait_or_leave(py, move || dumbwaiter_fidelity::scores(&paths, None, None))?.map_err(plain)?;
    python(py, &serde_json::to_value(&scores).map_err(plain)?)
}

/// Runs the command with these arguments, the first of which is its name. Returns the exit code.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, args: Vec<String>) -> u8 {
    py.detach(|| dumbwaiter::run(args.into_iter().map(Into::into)))
}
