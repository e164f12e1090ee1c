//! Errors of building a load.

use dumbwaiter_traces as traces;
use dumbwaiter_workloads::generate::BuildError;

/// Why the threads of a scenario could not be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The job of a task does not fit the device or contradicts itself.
    #[error("task `{task}`: {cause}")]
    Job {
        /// The task.
        task: String,
        /// The defect.
        cause: BuildError,
    },
    /// Applications and tasks make too many threads.
    #[error("task `{task}`: with it there are over {most} threads; expected at most {most}")]
    Threads {
        /// The task.
        task: String,
        /// The most.
        most: u32,
    },
    /// A trace cannot be read.
    #[error("{0}")]
    Trace(std::sync::Arc<traces::Error>),
    /// The caller asked to stop.
    #[error("interrupted while the scenario was prepared")]
    Interrupted,
    /// An unknown value of a trace setting.
    #[error("{key}: `{value}` is not known; expected {expected}")]
    Setting {
        /// The key.
        key: &'static str,
        /// The value found.
        value: String,
        /// The values accepted.
        expected: String,
    },
}

impl From<traces::Error> for Error {
    fn from(error: traces::Error) -> Error {
        match error {
            traces::Error::Interrupted => Error::Interrupted,
            error => Error::Trace(error.into()),
        }
    }
}
