//! The registry of schedulers: the list, and the manual of each.

use dumbwaiter_report::{Align, Style, table};
use dumbwaiter_schedulers::{Entry, ParameterKind};
use serde_json::{Value, json};

/// The schedulers, one row each.
pub fn schedulers_text(entries: &[&Entry], style: Style) -> String {
    let row =
        |e: &&Entry| vec![e.name.to_owned(), e.summary.to_owned(), e.source.to_owned(), e.tunables.len().to_string()];
    let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
    let header = [
        ("scheduler", Align::Left),
        ("what it does", Align::Left),
        ("source", Align::Left),
        ("settings", Align::Right),
    ];
    table(&header, &rows, style) + "\n`dumbwaiter schedulers NAME` shows the manual and the settings of one.\n"
}

/// The manual and the settings of a scheduler.
pub fn scheduler_text(entry: &Entry, style: Style) -> String {
    format!("{}\n{}", entry.manual.trim_end(), settings_text(entry, style))
}

fn settings_text(entry: &Entry, style: Style) -> String {
    let mut text = String::new();
    if !entry.tunables.is_empty() {
        let rows: Vec<Vec<String>> = entry
            .tunables
            .iter()
            .map(|t| {
                vec![
                    t.name.to_owned(),
                    t.default.to_string(),
                    t.unit.to_owned(),
                    format!("{} to {}", t.min, t.max),
                    t.help.to_owned(),
                ]
            })
            .collect();
        let header = [
            ("setting", Align::Left),
            ("default", Align::Right),
            ("unit", Align::Left),
            ("range", Align::Left),
            ("meaning", Align::Left),
        ];
        text += &format!("\n{}", table(&header, &rows, style));
    }
    let names = entry.versions();
    if !entry.kernels().is_empty() {
        text += &format!(
            "\nkernel=RELEASE selects the behaviour of another Linux release; the dispatch order changed in {}.\n",
            names.join(", ")
        );
    } else if let Some(default) = names.first() {
        text += &format!(
            "\ngeneration=NAME, or the NAME alone, selects a generation: {}; by default {default}, whose defaults are listed above.\n",
            names.join(", ")
        );
    }
    for parameter in entry.parameters.iter().filter(|p| p.kind.names().is_empty()) {
        let value = match parameter.kind {
            ParameterKind::Schedulers(_) => "NAME+NAME",
            ParameterKind::PerTenant { .. } => "N+N",
            _ => "FILE",
        };
        text += &format!("\n{}={value}: {}.\n", parameter.name, parameter.help);
    }
    text
}

/// A scheduler and its settings as JSON; numbers that JSON cannot hold are null.
pub fn scheduler_json(entry: &Entry) -> Value {
    let number = |n: i128| -> Value {
        i64::try_from(n).map(Value::from).or_else(|_| u64::try_from(n).map(Value::from)).unwrap_or(Value::Null)
    };
    json!({
        "name": entry.name,
        "summary": entry.summary,
        "source": entry.source,
        "kernels": entry.kernels(),
        "variants": entry.versions(),
        "tunables": entry.tunables.iter().map(|t| json!({
            "name": t.name, "unit": t.unit, "min": number(t.min), "max": number(t.max),
            "default": number(t.default), "help": t.help,
            "searched": entry.searched().iter().find(|s| s.name == t.name).map_or(Vec::new(), |s| {
                s.values.iter().map(|value| number(*value)).collect()
            }),
        })).collect::<Vec<_>>(),
    })
}
