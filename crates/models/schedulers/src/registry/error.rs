//! Errors of choosing a scheduler.

use std::path::PathBuf;

use dumbwaiter_block::hint::did_you_mean_of;

/// Why a scheduler or one of its settings was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// No scheduler of this name.
    #[error("unknown scheduler `{name}`{}", did_you_mean_of(.name, .known))]
    Unknown {
        /// The name given.
        name: String,
        /// Names of all schedulers.
        known: Vec<&'static str>,
    },
    /// A setting that is not `name=value`.
    #[error("scheduler `{scheduler}`: `{text}` is not a setting; expected name=value, such as fifo_batch=8")]
    Malformed {
        /// The scheduler.
        scheduler: String,
        /// The text found.
        text: String,
    },
    /// The scheduler has no setting of this name.
    #[error("scheduler `{scheduler}`: unknown setting `{key}`{}", known_settings(.key, .known))]
    UnknownSetting {
        /// The scheduler.
        scheduler: String,
        /// The name given.
        key: String,
        /// Names of all its settings.
        known: Vec<&'static str>,
    },
    /// Controllers before the scheduler that are unknown, or a value that one does not take.
    #[error("{0}")]
    Controls(String),
    /// A value of the wrong type, out of range or unknown.
    #[error("scheduler `{scheduler}`: {key} = `{value}` is refused; expected {expected}")]
    Value {
        /// The scheduler.
        scheduler: String,
        /// The setting.
        key: String,
        /// The value given.
        value: String,
        /// Values that it takes.
        expected: String,
    },
    /// A setting without a default was not given.
    #[error("scheduler `{scheduler}`: {key} is required; expected {key}={expected}")]
    Missing {
        /// The scheduler.
        scheduler: String,
        /// The setting.
        key: String,
        /// Values that it takes.
        expected: String,
    },
    /// The file that a setting names cannot be read.
    #[error("scheduler `{scheduler}`: {key}: cannot read {}: {why}", .path.display())]
    File {
        /// The scheduler.
        scheduler: String,
        /// The setting.
        key: String,
        /// The file.
        path: PathBuf,
        /// The system's message.
        why: String,
    },
}

fn known_settings(key: &str, known: &[&str]) -> String {
    if known.is_empty() { "; it has no settings".to_owned() } else { did_you_mean_of(key, known) }
}
