//! A device model fitted to published results.
//!
//! The parameters of a model of the drive's class are moved, one after another, until the simulator's figures are closest to
//! the measured ones. A parameter that these loads do not determine stays that of the class, and the file says so.

use std::fmt::Write as _;

use dumbwaiter_devices::{DeviceModel, load};
use dumbwaiter_experiment::{Control, World};
use dumbwaiter_scenario::Host;
use serde::Serialize;
use serde_json::Value;

use super::parameter::{FittedParameter, is_number};
use super::search::{Parameter, Search, Space};
use super::{EFFORT, remarks, split, wanted};
use crate::measured::answer::MeasuredAgainst;
use crate::measured::case::Case;
use crate::measured::summary::{Group, MeasuredSummary, summary};
use crate::measured::{MeasuredError, MeasuredOptions, answer};

/// Parameters of size or of bookkeeping, which the search moves only where they are named.
const NOT_BY_ITSELF: [&str; 8] =
    ["capacity_sectors", "max_sectors", "queues", "ncq_depth", "ftl_gib", "t_err_us", "gc_hard", "page_bytes"];

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

/// Fits a device to measurements: tables or results of fio, each as [`crate::measured::measured`] takes them.
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
    let (fitted, kept_back) = split(wanted(sources, &options.figures, &options.scheduler)?);
    let space = space(&class, &options.parameters)?;
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
    let evaluate = |values: &[Parameter]| run(&fitted, &spec(&options.like, values), EFFORT);
    let found = Search::new(space, &evaluate, control).run();
    if control.cancelled() {
        return Err(nothing("interrupted: nothing was fitted".to_owned()));
    }
    let spec = spec(&options.like, &found.values);
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
    device.device_file = device_file(&device, &whole, sources, &options.figures);
    Ok(device)
}

/// The parameters of a model that may move: those named, or all numbers.
fn space(class: &DeviceModel, named: &[String]) -> Result<Space, MeasuredError> {
    let values = serde_json::to_value(class).unwrap_or_default();
    let keys = class.kind().keys();
    if let Some(unknown) = named.iter().find(|name| !keys.iter().any(|key| key.name == **name)) {
        let names: Vec<&str> = keys.iter().filter(|key| is_number(key.expect).is_some()).map(|key| key.name).collect();
        let what = format!("--parameters {unknown}: expected some of {}", names.join(", "));
        return Err(MeasuredError::Nothing(what));
    }
    let wanted = |name: &str, whole: bool| match named {
        [] => !whole && !NOT_BY_ITSELF.contains(&name),
        _ => named.iter().any(|own| own == name),
    };
    let one = |key: &dumbwaiter_devices::Key| {
        let (low, high, whole) = is_number(key.expect)?;
        let value = values.get(key.name)?.as_f64()?;
        wanted(key.name, whole).then(|| Parameter { name: key.name.to_owned(), low, high, whole, class: value, value })
    };
    let parameters = keys.iter().filter_map(one).collect();
    Ok(Space { parameters, named: !named.is_empty(), with_cpu: false })
}

/// The model as `load` takes it.
fn spec(like: &str, values: &[Parameter]) -> String {
    let pairs: Vec<String> = values.iter().filter(|p| p.moved()).map(|p| format!("{}={}", p.name, p.value)).collect();
    let separator = if like.contains('?') { '&' } else { '?' };
    if pairs.is_empty() { like.to_owned() } else { format!("{like}{separator}{}", pairs.join("&")) }
}

/// The file: what it was fitted to, each residual, and all parameters with where they are from.
fn device_file(found: &FittedDevice, model: &DeviceModel, sources: &[String], figures: &[String]) -> String {
    let names: Vec<&str> = sources.iter().map(|source| source.rsplit('/').next().unwrap_or(source)).collect();
    let of = if figures.is_empty() { String::new() } else { format!(", figure {}", figures.join(", ")) };
    let mut text =
        format!("# Fitted to published results by `dumbwaiter devices fit --from`: {}{of}\n", names.join(" "));
    let _ = writeln!(
        text,
        "# Mean error |ln(predicted / measured)|: {:.3} with {}, {:.3} fitted",
        found.error_of_class, found.like, found.error_fitted
    );
    remarks::groups(&mut text, "fitted", &found.fitted_errors);
    remarks::groups(&mut text, "kept back, and predicted", &found.kept_back_errors);
    let _ = writeln!(text, "#\n# Predicted by measured: IOPS, mean, p50, p95, p99");
    remarks::rows(&mut text, "fitted", &found.fitted, false);
    remarks::rows(&mut text, "kept back", &found.kept_back, false);
    let list = if found.undetermined.is_empty() { "none".to_owned() } else { found.undetermined.join(", ") };
    let _ = writeln!(text, "#\n# Not determined by these loads: {list}\n");
    let description =
        format!("Fitted to {}{of}; what that does not determine is as in {}", names.join(" "), found.like);
    let _ = writeln!(text, "kind = {}\ndescription = {}", quoted(model.kind().name()), quoted(&description));
    let values = serde_json::to_value(model).unwrap_or_default();
    for key in model.kind().keys() {
        let value = match values.get(key.name) {
            None | Some(Value::Null) => continue,
            Some(Value::String(word)) => quoted(word),
            Some(other) => other.to_string(),
        };
        let origin = match found.parameters.iter().find(|p| p.name == key.name) {
            Some(p) => {
                format!("fitted; {} in the class, 10 % off: errors {:.1} % larger", p.class, p.determined * 100.0)
            }
            None => format!("as in {}", found.like),
        };
        let _ = writeln!(text, "{} = {value}  # {origin}", key.name);
    }
    text
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace(['"', '\\'], "'"))
}
