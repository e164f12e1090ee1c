//! The result of a fit as one document.

use serde::Serialize;

use crate::fit::{Fitted, device_file};

/// Version of the document's fields.
const SCHEMA: u32 = 1;

/// Everything that a survey and its fit found.
#[derive(Debug, Serialize)]
pub struct Document {
    /// Version of these fields.
    pub schema: u32,
    /// The fit.
    #[serde(flatten)]
    pub fitted: Fitted,
    /// Names of the parameters that the survey could not determine.
    pub undetermined: Vec<&'static str>,
    /// Time of the survey, s.
    pub seconds: f64,
    /// The parameter file.
    pub device_file: String,
}

/// The document of a fit whose survey took `seconds`.
pub fn document(fitted: Fitted, seconds: f64) -> Document {
    Document {
        schema: SCHEMA,
        undetermined: fitted.undetermined().map(|p| p.name).collect(),
        device_file: device_file(&fitted),
        fitted,
        seconds,
    }
}
