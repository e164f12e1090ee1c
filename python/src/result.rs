//! The result of a comparison.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use dumbwaiter_advise::Document;
use dumbwaiter_report::{Style, columns, compare_text, notebook_html, write_html, write_json, write_parquet};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::errors;
use crate::table::Table;

/// What a comparison found: the runs, the ranking and the recommendation.
#[pyclass(frozen, name = "Result", module = "dumbwaiter")]
pub(crate) struct ResultDocument {
    document: Arc<Document>,
}

impl ResultDocument {
    pub(crate) fn new(document: Document) -> ResultDocument {
        ResultDocument { document: Arc::new(document) }
    }

    pub(crate) fn document(&self) -> &Document {
        &self.document
    }
}

fn failed(error: &dumbwaiter_report::Error) -> PyErr {
    PyOSError::new_err(error.to_string())
}

#[pymethods]
impl ResultDocument {
    /// Reads a result from the text of `to_json`.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<ResultDocument> {
        Document::from_json(text).map(ResultDocument::new).map_err(errors::plain)
    }

    /// Reads a result from a file that `to_json` or `compare --json` wrote.
    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<ResultDocument> {
        dumbwaiter_report::read_json(&path).map(ResultDocument::new).map_err(errors::plain)
    }

    /// One row for each run.
    #[getter]
    fn runs(&self) -> Table {
        Table::new(columns::runs(&self.document))
    }

    /// One row for each run and tenant.
    #[getter]
    fn tenants(&self) -> Table {
        Table::new(columns::tenants(&self.document))
    }

    /// One row for each run and task.
    #[getter]
    fn tasks(&self) -> Table {
        Table::new(columns::tasks(&self.document))
    }

    /// One row for each run, tenant and interval; the tenant "" is the total.
    #[getter]
    fn series(&self) -> Table {
        Table::new(columns::series(&self.document))
    }

    /// One row for each run, kind of operation and percentile, with the number of samples.
    #[getter]
    fn latency(&self) -> Table {
        Table::new(columns::latency(&self.document))
    }

    /// One row for each run, kind of operation and point of the latency distribution.
    #[getter]
    fn latency_cdf(&self) -> Table {
        Table::new(columns::latency_cdf(&self.document))
    }

    /// One row for each device and scheduler, best first, with the mean and the confidence of each metric.
    #[getter]
    fn ranking(&self) -> Table {
        Table::new(columns::ranking(&self.document.ranking))
    }

    /// One sentence for each device.
    #[getter]
    fn recommendation(&self) -> String {
        self.document.recommendation.iter().map(|r| r.sentence.as_str()).collect::<Vec<_>>().join("\n")
    }

    /// The recommended scheduler of each device.
    #[getter]
    fn best(&self) -> BTreeMap<String, String> {
        self.document.recommendation.iter().map(|r| (r.device.clone(), r.scheduler.clone())).collect()
    }

    /// Remarks: skipped records, assumptions, I/Os that starved.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.document.notes.clone()
    }

    /// The table that the command prints.
    fn to_text(&self) -> String {
        compare_text(&self.document, Style { width: None, colour: false })
    }

    /// The document as JSON: as text, or written to a file, the same bytes as `compare --json` writes.
    #[pyo3(signature = (path = None))]
    fn to_json(&self, path: Option<PathBuf>) -> PyResult<Option<String>> {
        match path {
            None => Ok(Some(self.document.to_json())),
            Some(path) => write_json(&self.document, &path).map(|()| None).map_err(|e| failed(&e)),
        }
    }

    /// A report with plots, as one HTML file that works offline.
    fn to_html(&self, path: PathBuf) -> PyResult<()> {
        write_html(&self.document, &path).map_err(|e| failed(&e))
    }

    /// Parquet tables in a folder, which is made if it is missing.
    fn to_parquet(&self, folder: PathBuf) -> PyResult<()> {
        write_parquet(&self.document, &folder).map_err(|e| failed(&e))
    }

    /// This result beside another one: one row for each device, scheduler and metric that both have.
    fn compare_with(&self, other: &ResultDocument) -> Table {
        Table::new(columns::difference(&self.document.ranking, &other.document.ranking))
    }

    /// The verdicts and the rankings: what a notebook shows.
    fn _repr_html_(&self) -> String {
        notebook_html(&self.document)
    }

    /// Pickles as its JSON.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((py.get_type::<ResultDocument>().getattr("from_json")?, (self.document.to_json(),)))
    }

    fn __eq__(&self, other: &ResultDocument) -> bool {
        self.document.to_json() == other.document.to_json()
    }

    fn __repr__(&self) -> String {
        let best = self.best().into_iter().map(|(device, scheduler)| format!("{device}: {scheduler}"));
        format!("<dumbwaiter.Result: {} runs; {}>", self.document.runs.len(), best.collect::<Vec<_>>().join(", "))
    }
}
