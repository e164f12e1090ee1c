//! A table of results.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dumbwaiter_report::columns::Columns;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

use crate::arrow::{self, Batches, Data, Layout, LayoutColumn};

/// A table: columns with their units in their names. pandas, polars, pyarrow and duckdb read it without a copy.
///
/// >>> import dumbwaiter as dw
/// >>> runs = dw.compare("nvme-random", duration="10ms", replicates=1, progress=None).runs
/// >>> len(runs), runs["scheduler"][:3]
/// (6, ['none', 'mq-deadline', 'kyber'])
#[pyclass(frozen, module = "dumbwaiter")]
pub(crate) struct Table {
    layout: Arc<Layout>,
}

impl Table {
    pub(crate) fn new(columns: Columns) -> Table {
        Table { layout: Arc::new(Layout::new(columns)) }
    }
}

#[pymethods]
impl Table {
    /// The Arrow C stream interface.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        PyCapsule::new_with_value(py, arrow::stream_of(&self.layout), c"arrow_array_stream")
    }

    /// The Arrow C schema interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        PyCapsule::new_with_value(py, arrow::schema(&self.layout), c"arrow_schema")
    }

    /// Names of the columns, in order.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.layout.columns.iter().map(|c| c.name.clone()).collect()
    }

    /// Number of rows.
    fn __len__(&self) -> usize {
        self.layout.rows
    }

    /// The values of a column as a list; None where a row has none.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let column = self.layout.columns.iter().find(|c| c.name == name);
        let column = column.ok_or_else(|| {
            PyKeyError::new_err(format!("{name:?} is no column; expected one of {}", self.columns().join(", ")))
        })?;
        list(py, column, self.layout.rows)
    }

    /// A dict of lists.
    fn to_pydict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for column in &self.layout.columns {
            dict.set_item(&column.name, list(py, column, self.layout.rows)?)?;
        }
        Ok(dict)
    }

    /// A pandas frame. Without a copy of numbers where pyarrow is installed.
    fn to_pandas<'py>(slf: &Bound<'py, Table>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        match py.import("pyarrow") {
            Ok(pyarrow) => pyarrow.call_method1("table", (slf,))?.call_method0("to_pandas"),
            Err(_) => py.import("pandas")?.call_method1("DataFrame", (slf.get().to_pydict(py)?,)),
        }
    }

    /// A polars frame.
    fn to_polars<'py>(slf: &Bound<'py, Table>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("polars")?.call_method1("DataFrame", (slf,))
    }

    fn __repr__(&self) -> String {
        format!("<dumbwaiter.Table: {} rows, {} columns>", self.layout.rows, self.layout.columns.len())
    }
}

fn list<'py>(py: Python<'py>, column: &LayoutColumn, rows: usize) -> PyResult<Bound<'py, PyList>> {
    let value = |row: usize| -> PyResult<Py<PyAny>> {
        if !column.has(row) {
            return Ok(py.None());
        }
        Ok(match &column.data {
            // Signed, as in Parquet and in the Arrow arrays.
            Data::Whole(values) => (values[row] as i64).into_pyobject(py)?.into_any().unbind(),
            Data::Real(values) => values[row].into_pyobject(py)?.into_any().unbind(),
            Data::Text(..) => column.text(row).unwrap_or_default().into_pyobject(py)?.into_any().unbind(),
        })
    };
    let values = (0..rows).map(value).collect::<PyResult<Vec<_>>>()?;
    PyList::new(py, values)
}

/// Tables of one schema one after the other, each made when it is read: for what is larger than memory.
#[pyclass(frozen, module = "dumbwaiter")]
pub(crate) struct Stream {
    shape: Arc<Layout>,
    batches: Mutex<Option<Batches>>,
}

impl Stream {
    pub(crate) fn new(shape: Columns, batches: Batches) -> Stream {
        Stream { shape: Arc::new(Layout::new(shape)), batches: Mutex::new(Some(batches)) }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Batches>> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Stream {
    /// The Arrow C stream interface. It can be read once.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = self.lock().take();
        let batches =
            batches.ok_or_else(|| crate::errors::plain("this stream was read before; open the trace again"))?;
        PyCapsule::new_with_value(py, arrow::stream(Arc::clone(&self.shape), batches), c"arrow_array_stream")
    }

    /// The next batch as a table.
    fn __next__(&self) -> PyResult<Option<Table>> {
        let mut batches = self.lock();
        let Some(batches) = batches.as_mut() else { return Ok(None) };
        let batch = batches().map_err(crate::errors::plain)?;
        Ok(batch.map(|layout| Table { layout }))
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }
}
