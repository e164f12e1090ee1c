//! The fitted model as a parameter file.

use std::fmt::Write as _;

use dumbwaiter_devices::DeviceModel;
use serde_json::Value;

use super::device::FittedDevice;
use crate::measured::answer::MeasuredAgainst;
use crate::measured::summary::Group;

/// The file: what it was fitted to, each residual, and all parameters with where they are from.
pub(super) fn device_file(found: &FittedDevice, model: &DeviceModel, sources: &[String], figures: &[String]) -> String {
    let names: Vec<&str> = sources.iter().map(|source| source.rsplit('/').next().unwrap_or(source)).collect();
    let of = if figures.is_empty() { String::new() } else { format!(", figure {}", figures.join(", ")) };
    let mut text =
        format!("# Fitted to published results by `dumbwaiter devices fit --from`: {}{of}\n", names.join(" "));
    let _ = writeln!(
        text,
        "# Mean error |ln(predicted / measured)|: {:.3} with {}, {:.3} fitted",
        found.error_of_class, found.like, found.error_fitted
    );
    groups(&mut text, "fitted", &found.fitted_errors);
    groups(&mut text, "kept back, and predicted", &found.kept_back_errors);
    let _ = writeln!(text, "#\n# Predicted by measured: IOPS, mean, p50, p95, p99");
    rows(&mut text, "fitted", &found.fitted, false);
    rows(&mut text, "kept back", &found.kept_back, false);
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

pub(super) fn groups(text: &mut String, title: &str, groups: &[Group]) {
    for group in groups {
        let errors: Vec<String> =
            group.errors.iter().map(|(name, e)| format!("{name} {:.0} %", e.median * 100.0)).collect();
        let _ =
            writeln!(text, "# {title}: {} rows of {}, median errors: {}", group.rows, group.name, errors.join(", "));
    }
}

/// A line for each row; with `cpu` also processor time.
pub(super) fn rows(text: &mut String, title: &str, rows: &[MeasuredAgainst], cpu: bool) {
    for row in rows.iter().filter(|row| row.was_run() && !row.total) {
        let f = &row.figures;
        let mut ratios = vec![f.iops_ratio, f.mean_ratio, f.p50_ratio, f.p95_ratio, f.p99_ratio];
        ratios.extend(cpu.then_some(f.cpu_ratio));
        let ratios =
            ratios.into_iter().map(|ratio| ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")));
        let ratios: Vec<String> = ratios.collect();
        let place = [&row.figure, &row.condition, &row.scheduler, &row.role].map(String::as_str).join(" ");
        let _ = writeln!(text, "# {title}  {}: {}", place.trim(), ratios.join(" "));
    }
}
