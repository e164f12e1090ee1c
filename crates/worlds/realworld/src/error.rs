//! Why a run on a real file or device fails.

use std::fmt;
use std::io;

use dumbwaiter_experiment::Failure;

/// Why a run, or a step of it, fails. Becomes a [`Failure`] where it leaves the crate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The disk or the load on it.
    #[error(transparent)]
    Drive(#[from] crate::drive::Error),
    /// A setting of the kernel.
    #[error(transparent)]
    Linux(#[from] dumbwaiter_linux::Error),
    /// The energy meter.
    #[error(transparent)]
    Meter(#[from] dumbwaiter_linux::meters::MeterError),
    /// A file or a pipe.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The experiment asks for something that cannot be.
    #[error("{0}")]
    Refused(String),
    /// The device, a program or the system failed.
    #[error("{0}")]
    Failed(String),
    /// Another error, with what was being done.
    #[error("{doing}: {cause}")]
    Doing {
        /// The failed operation.
        doing: String,
        /// Why it failed.
        cause: Box<Error>,
    },
}

impl Error {
    pub(crate) fn refused(reason: impl fmt::Display) -> Error {
        Error::Refused(reason.to_string())
    }

    pub(crate) fn failed(reason: impl fmt::Display) -> Error {
        Error::Failed(reason.to_string())
    }

    /// Was something asked for that cannot be? Otherwise the device or the system failed.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Error::Drive(error) => error.is_refusal(),
            Error::Linux(error) => matches!(error, dumbwaiter_linux::Error::Refused(_)),
            Error::Refused(_) => true,
            Error::Doing { cause, .. } => cause.is_refusal(),
            Error::Meter(_) | Error::Io(_) | Error::Failed(_) => false,
        }
    }
}

impl From<dumbwaiter_scenario::load::Error> for Error {
    fn from(error: dumbwaiter_scenario::load::Error) -> Error {
        Error::Drive(error.into())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        if error.is_refusal() { Failure::refused(error) } else { Failure::device(error) }
    }
}

/// Adds what was being done to an error.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl fmt::Display) -> Result<T, Error>;
}

impl<T, E: Into<Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl fmt::Display) -> Result<T, Error> {
        self.map_err(|error| Error::Doing { doing: what.to_string(), cause: Box::new(error.into()) })
    }
}
