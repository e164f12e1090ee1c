//! What a measurement says of a drive or of a host: parameters for which the simulator's figures are closest to it.
//!
//! Part of the conditions is kept from the fit and predicted afterwards.

mod device;
mod host;
mod parameter;
mod remarks;
mod search;

pub use device::{FitOptions, FittedDevice, fit};
pub use host::{FittedHost, HostFitOptions, KEPT_BACK, fit_host, fit_host_to_table};
pub use parameter::FittedParameter;

use super::case::Case;
use super::{MeasuredError, is_of, read};

/// Conditions that are fitted at most: the search runs all of them again for each value that it tries.
const CONDITIONS_MAX: usize = 32;
/// Of this many conditions in a row one is kept back.
const KEPT_BACK_EACH: usize = 4;
/// Part of the usual number of I/Os in a run of the search.
const EFFORT: f64 = 0.15;

/// The conditions of these sources and figures that can be run.
fn wanted(sources: &[String], figures: &[String], scheduler: &str) -> Result<Vec<Case>, MeasuredError> {
    let mut cases = Vec::new();
    for source in sources {
        cases.extend(read(source, scheduler)?);
    }
    usable(cases, figures, &sources.join(" "))
}

/// Those of the figures that can be run; without any, `origin` is named.
fn usable(mut cases: Vec<Case>, figures: &[String], origin: &str) -> Result<Vec<Case>, MeasuredError> {
    if !figures.is_empty() {
        cases.retain(|case| figures.iter().any(|name| is_of(case, name)));
    }
    cases.retain(|case| case.stack.is_ok());
    if cases.is_empty() {
        let what = format!("{origin}: no condition can be run; expected some of the figures given");
        return Err(MeasuredError::Nothing(what));
    }
    Ok(cases)
}

/// The conditions to fit and those to keep back: evenly spread over the table.
fn split(cases: Vec<Case>) -> (Vec<Case>, Vec<Case>) {
    let kept = |i: &usize| i % KEPT_BACK_EACH == KEPT_BACK_EACH - 1;
    let candidates = (0..cases.len()).filter(|i| !kept(i)).count();
    let each = candidates.div_ceil(CONDITIONS_MAX).max(1);
    let (mut fitted, mut rest, mut seen) = (Vec::new(), Vec::new(), 0);
    for (i, case) in cases.into_iter().enumerate() {
        if kept(&i) {
            rest.push(case);
            continue;
        }
        let own: &mut Vec<Case> = if seen % each == 0 { &mut fitted } else { &mut rest };
        own.push(case);
        seen += 1;
    }
    (fitted, rest)
}
