//! Ends batches of work before their time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use dumbwaiter_experiment::Control;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::compare::wait;
use crate::errors;

/// Ends the batches that were given it: each stops within some milliseconds, with the cells that it has finished.
#[pyclass(frozen, weakref, module = "dumbwaiter._native")]
pub(crate) struct Stop {
    control: Arc<Control>,
}

#[pymethods]
impl Stop {
    /// One that has ended nothing yet.
    #[new]
    pub(crate) fn new() -> Stop {
        Stop { control: Arc::default() }
    }

    /// Ends them.
    fn set(&self) {
        self.control.cancel.store(true, Ordering::Relaxed);
    }
}

impl Stop {
    /// Runs `work` without the interpreter's lock. A Ctrl-C in the main thread ends it too, and is raised as `Interrupted`.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Control) -> T + Send + 'static,
    ) -> PyResult<T> {
        let control = Arc::clone(&self.control);
        match wait(py, move || work(&control), |_| Ok(()), |_| self.set())? {
            (value, None) => Ok(value),
            (_, Some(error)) if error.is_instance_of::<PyKeyboardInterrupt>(py) => Err(errors::interrupted(py, None)),
            (_, Some(error)) => Err(error),
        }
    }
}
