//! Why a drive could not be surveyed or fitted.

/// Why there is no fit.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The target cannot be surveyed at all: it does not open, is too small or lacks what is needed.
    #[error("{0}")]
    Refused(String),
    /// The device or the kernel failed during the survey.
    #[error("{0}")]
    Device(String),
    /// The survey was stopped before its end.
    #[error("interrupted: a part of a survey cannot be fitted, so nothing was written")]
    Interrupted,
    /// The points of the survey fit no model.
    #[error("no model fits: {0}")]
    NoFit(String),
}
