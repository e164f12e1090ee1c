//! A subject by its path or name.

use std::path::Path;

use dumbwaiter_devices::{Kind, load};

use crate::fit::{Drive, DriveOptions, Error, Model, Subject};

/// Seed of a surveyed model.
const SEED: u64 = 5;

/// A subject that can be surveyed.
pub struct Opened {
    /// The drive or model.
    pub subject: Box<dyn Subject>,
    /// Whether its time is virtual.
    pub virtual_time: bool,
}

/// Opens a block device or file; `kind:name` and a parameter file (`.toml`) are models, in virtual time.
///
/// # Errors
/// As [`Drive::open`], and the errors of a model's name or file.
pub fn open(subject: &Path, options: &DriveOptions) -> Result<Opened, Error> {
    let text = subject.to_string_lossy();
    let name = text.split_once('?').map_or(&*text, |(name, _)| name);
    let kind = name.split_once(':').is_some_and(|(kind, _)| Kind::ALL.iter().any(|k| k.name() == kind));
    if !subject.exists() && kind || name.ends_with(".toml") {
        let model = load(&text).map_err(|e| Error::Refused(e.to_string()))?;
        return Ok(Opened { subject: Box::new(Model::new(model, SEED)), virtual_time: true });
    }
    Ok(Opened { subject: Box::new(Drive::open(subject, options)?), virtual_time: false })
}
