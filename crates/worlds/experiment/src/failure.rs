//! Why a cell does not run, or ended early.

use std::fmt;

/// Why a world does not run a cell, and what would allow it, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// Kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The experiment asks for something that cannot be (exit code 2).
    Refused,
    /// A device or an I/O failed, or data was lost (exit code 3).
    Device,
    /// [`crate::Control::cancel`] was set before there was anything to report (exit code 130).
    Interrupted,
}

/// Why a run, or the whole experiment, ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its kind.
    pub kind: FailureKind,
    /// The reason in one line.
    pub reason: String,
}

impl Failure {
    /// The experiment asks for something that cannot be.
    pub fn refused(reason: impl fmt::Display) -> Failure {
        Failure { kind: FailureKind::Refused, reason: reason.to_string() }
    }

    /// A device or an I/O failed.
    pub fn device(reason: impl fmt::Display) -> Failure {
        Failure { kind: FailureKind::Device, reason: reason.to_string() }
    }

    /// Ended from outside before there was anything to report.
    pub fn interrupted(reason: impl fmt::Display) -> Failure {
        Failure { kind: FailureKind::Interrupted, reason: reason.to_string() }
    }

    /// The same failure with `what` before its reason.
    #[must_use]
    pub fn of(self, what: impl fmt::Display) -> Failure {
        Failure { reason: format!("{what}: {}", self.reason), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Failure {}

impl From<dumbwaiter_scenario::load::Error> for Failure {
    fn from(error: dumbwaiter_scenario::load::Error) -> Failure {
        match error {
            dumbwaiter_scenario::load::Error::Interrupted => Failure::interrupted(error),
            error => Failure::refused(error),
        }
    }
}
