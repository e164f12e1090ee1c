//! Errors of the library as exceptions.

use dumbwaiter_experiment::{Failure, FailureKind, ReadError};
use dumbwaiter_scenario::Error as ScenarioError;
use pyo3::create_exception;
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(dumbwaiter, InputError, PyValueError, "Bad input; the text names it and says what is expected.");
create_exception!(dumbwaiter, DeviceError, PyOSError, "A device or an I/O failed, or data was lost.");
create_exception!(dumbwaiter, InternalError, PyRuntimeError, "A defect of Dumbwaiter; please report it.");
create_exception!(dumbwaiter, SchedulerError, PyRuntimeError, "A scheduler broke its contract with the block layer.");
create_exception!(
    dumbwaiter,
    Interrupted,
    PyKeyboardInterrupt,
    "Ctrl-C; `result` has the runs that were finished, or None."
);

/// An [`InputError`] with its place, where that is known.
pub(crate) fn input(
    py: Python<'_>,
    text: impl Into<String>,
    file: Option<&str>,
    line: Option<u32>,
    key: Option<&str>,
) -> PyErr {
    let error = InputError::new_err(dumbwaiter_text::shortened(&text.into()).into_owned());
    let value = error.value(py);
    for set in [value.setattr("file", file), value.setattr("line", line), value.setattr("key", key)] {
        if let Err(failed) = set {
            return failed;
        }
    }
    error
}

/// An [`InputError`] without a place.
pub(crate) fn plain(error: impl std::fmt::Display) -> PyErr {
    Python::attach(|py| input(py, error.to_string(), None, None, None))
}

/// As the command prints it, with its place.
pub(crate) fn of_reading(py: Python<'_>, error: &ReadError) -> PyErr {
    let text = error.to_string();
    match error {
        ReadError::File { path, .. } => input(py, text.clone(), Some(path), None, None),
        ReadError::Scenario(ScenarioError::Toml { path, message }) => {
            input(py, text.clone(), Some(path), line_of(message), None)
        }
        ReadError::Scenario(ScenarioError::Io { path, .. }) => input(py, text.clone(), Some(path), None, None),
        ReadError::Scenario(ScenarioError::Invalid { place, .. }) => input(py, text.clone(), None, None, Some(place)),
        _ => input(py, text, None, None, None),
    }
}

/// The number after the first `line` in a message.
fn line_of(message: &str) -> Option<u32> {
    let (_, after) = message.split_once("line ")?;
    after.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// How the library ends the text of a fault, which it believes to be one of its own schedulers.
const DEFECT: &str = ". This is a defect";

/// Why runs ended. `held` is a request that a scheduler written in Python had not sent.
pub(crate) fn of_failure(py: Python<'_>, failure: &Failure, held: Option<String>) -> PyErr {
    match failure.kind {
        FailureKind::Refused if failure.reason.contains(DEFECT) => match held {
            Some(held) => {
                let what = failure.reason.split(DEFECT).next().unwrap_or_default();
                SchedulerError::new_err(format!("{what}; of those it holds, the oldest is {held}"))
            }
            None => InternalError::new_err(failure.reason.clone()),
        },
        FailureKind::Refused => input(py, failure.reason.clone(), None, None, None),
        FailureKind::Device => DeviceError::new_err(failure.reason.clone()),
        FailureKind::Interrupted => interrupted(py, None),
    }
}

/// Ctrl-C, with what was finished.
pub(crate) fn interrupted(py: Python<'_>, result: Option<Py<PyAny>>) -> PyErr {
    let error = Interrupted::new_err("interrupted");
    match error.value(py).setattr("result", result) {
        Ok(()) => error,
        Err(failed) => failed,
    }
}

/// A panic of the library.
pub(crate) fn of_panic(why: &(dyn std::any::Any + Send)) -> PyErr {
    let text = why.downcast_ref::<String>().map(String::as_str).or_else(|| why.downcast_ref::<&str>().copied());
    InternalError::new_err(format!(
        "{}. This is a defect of Dumbwaiter; please report it with what you called and the seed",
        text.unwrap_or("panicked")
    ))
}

/// Adds the exceptions to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    // Where an exception does not say more.
    for place in ["file", "line", "key"] {
        py.get_type::<InputError>().setattr(place, py.None())?;
    }
    py.get_type::<Interrupted>().setattr("result", py.None())?;
    module.add("InputError", py.get_type::<InputError>())?;
    module.add("DeviceError", py.get_type::<DeviceError>())?;
    module.add("InternalError", py.get_type::<InternalError>())?;
    module.add("SchedulerError", py.get_type::<SchedulerError>())?;
    module.add("Interrupted", py.get_type::<Interrupted>())
}
