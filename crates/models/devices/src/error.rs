//! Errors of device descriptions.

use std::path::PathBuf;

/// Why a device could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No built-in device has that name.
    #[error("unknown device `{name}`{hint}")]
    UnknownModel {
        /// The value given.
        name: String,
        /// Similar names, or all names: "; did you mean `ssd:sata-mlc`?".
        hint: String,
    },
    /// The name matches several built-in devices.
    #[error("device '{name}' is ambiguous: expected one of {choices}")]
    Ambiguous {
        /// The value given.
        name: String,
        /// The matching devices.
        choices: String,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A parameter file is not TOML.
    #[error("{origin}: not a device file: {message}")]
    Syntax {
        /// File or built-in name.
        origin: String,
        /// Line, column and what was expected.
        message: String,
    },
    /// A parameter that this kind of device does not have.
    #[error("{origin}: unknown parameter `{key}`{hint}")]
    UnknownKey {
        /// File or device name.
        origin: String,
        /// The value given.
        key: String,
        /// Similar names, or all names.
        hint: String,
    },
    /// A parameter is missing.
    #[error("{origin}: parameter '{key}' is missing: expected {expected}")]
    Missing {
        /// File or device name.
        origin: String,
        /// The parameter.
        key: &'static str,
        /// Type and range.
        expected: String,
    },
    /// A parameter has a wrong type or lies outside its range.
    #[error("{origin}: {key} = {value}: expected {expected}")]
    Invalid {
        /// File or device name.
        origin: String,
        /// The parameter.
        key: String,
        /// The value given.
        value: String,
        /// Type and range, or the relation that must hold.
        expected: String,
    },
}
