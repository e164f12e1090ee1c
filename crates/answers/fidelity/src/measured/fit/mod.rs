//! A device model fitted to published results.
//!
//! The parameters of a model of the drive's class are moved, one after another, until the simulator's figures are closest to
//! the measured ones. Part of the conditions is kept from the fit and predicted afterwards. A parameter that these loads do not
//! determine stays that of the class, and the file says so.

mod file;
mod parameter;
mod search;

use dumbwaiter_devices::load;
use dumbwaiter_experiment::{Control, World};
use dumbwaiter_scenario::Host;
use serde::Serialize;

use super::answer::MeasuredAgainst;
use super::case::Case;
use super::summary::{Group, MeasuredSummary, summary};
use super::{MeasuredError, MeasuredOptions, answer, is_of, read};
pub use parameter::FittedParameter;
use search::{Model, Search};

/// Conditions that are fitted at most: the search runs all of them again for each value that it tries.
const CONDITIONS_MAX: usize = 32;
/// Of this many conditions in a row one is kept back.
const KEPT_BACK_EACH: usize = 4;
/// Part of the usual number of I/Os in a run of the search.
const EFFORT: f64 = 0.15;

/// How to fit.
#[derive(Clone, Debug)]
pub struct FitOptions {
    /// The model of the class: a built-in one or a file.
    pub like: String,
    /// The host of the measurement.
    pub host: Host,
    /// The figures to use, for the fit and for what is kept back; empty for all.
    pub figures: Vec<String>,
    /// The parameters to move; empty for those that matter.
    pub parameters: Vec<String>,
    /// The scheduler of fio's results.
    pub scheduler: String,
}

/// A fitted model.
#[derive(Clone, Debug, Serialize)]
pub struct FittedDevice {
    /// The model of the class.
    pub like: String,
    /// What was fitted.
    pub parameters: Vec<FittedParameter>,
    /// Parameters that these loads do not determine.
    pub undetermined: Vec<String>,
    /// Mean error of the class model and of the fitted one, over the conditions that were fitted, as |ln(predicted / measured)|.
    pub error_of_class: f64,
    /// See [`FittedDevice::error_of_class`].
    pub error_fitted: f64,
    /// Rows that were fitted, with the fitted model.
    pub fitted: Vec<MeasuredAgainst>,
    /// Rows that were kept back, predicted.
    pub kept_back: Vec<MeasuredAgainst>,
    /// Errors over both, by kind of load.
    pub fitted_errors: Vec<Group>,
    /// See [`FittedDevice::fitted_errors`].
    pub kept_back_errors: Vec<Group>,
    /// The model as a parameter file.
    pub device_file: String,
}

/// Fits a device to measurements: tables or results of fio, each as [`super::measured`] takes them.
///
/// # Errors
/// A file that cannot be read, or an unknown parameter, model or figure.
pub fn fit(
    sources: &[String],
    options: &FitOptions,
    world: &dyn World,
    control: &Control,
) -> Result<FittedDevice, MeasuredError> {
    let nothing = |what: String| MeasuredError::Nothing(what);
    let class = load(&options.like).map_err(|error| nothing(error.to_string()))?;
    let mut cases = Vec::new();
    for source in sources {
        cases.extend(read(source, &options.scheduler)?);
    }
    if !options.figures.is_empty() {
        cases.retain(|case| options.figures.iter().any(|name| is_of(case, name)));
    }
    cases.retain(|case| case.stack.is_ok());
    let (fitted, kept_back) = split(cases);
    if fitted.is_empty() {
        return Err(nothing(format!(
            "{}: no condition can be run; expected some of the figures given",
            sources.join(" ")
        )));
    }
    let model = Model::of(&class, &options.parameters)?;
    let run = |cases: &[Case], spec: &str, effort: f64| {
        let options = MeasuredOptions {
            devices: vec![(None, spec.to_owned())],
            host: options.host.clone(),
            seconds: None,
            warmup: None,
            effort,
            replicates: 1,
            figures: Vec::new(),
            verdicts: false,
            scheduler: options.scheduler.clone(),
        };
        answer(cases, &options, world, control).rows
    };
    let evaluate = |spec: &str| run(&fitted, spec, EFFORT);
    let mut search = Search::new(&options.like, model, &evaluate, control);
    let found = search.run();
    if control.cancelled() {
        return Err(nothing("interrupted: nothing was fitted".to_owned()));
    }
    let spec = found.spec.clone();
    let (of_fit, of_rest) = (run(&fitted, &spec, 1.0), run(&kept_back, &spec, 1.0));
    let errors = |rows: &[MeasuredAgainst]| -> Vec<Group> {
        let MeasuredSummary { loads, .. } = summary(rows);
        loads
    };
    let mut device = FittedDevice {
        like: options.like.clone(),
        parameters: found.parameters,
        undetermined: found.undetermined,
        error_of_class: found.error_of_class,
        error_fitted: found.error_fitted,
        fitted_errors: errors(&of_fit),
        kept_back_errors: errors(&of_rest),
        fitted: of_fit,
        kept_back: of_rest,
        device_file: String::new(),
    };
    let whole = load(&spec).map_err(|error| nothing(error.to_string()))?;
    device.device_file = file::device_file(&device, &whole, sources, &options.figures);
    Ok(device)
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
