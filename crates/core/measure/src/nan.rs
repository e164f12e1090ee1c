//! Serde helpers for undefined figures: NaN in a result, `null` in its JSON.

use serde::{Deserialize, Deserializer};

/// Reads `null` as NaN; serde_json writes NaN as `null`.
pub(crate) fn nan<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(d)?.unwrap_or(f64::NAN))
}

/// Reads a list in which `null` is NaN.
pub(crate) fn nans<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<f64>, D::Error> {
    Ok(Vec::<Option<f64>>::deserialize(d)?.into_iter().map(|v| v.unwrap_or(f64::NAN)).collect())
}

/// The default of figures that older results lack.
pub(crate) fn not_known() -> f64 {
    f64::NAN
}
