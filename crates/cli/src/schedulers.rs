//! `schedulers`: the list, and each one's manual.

use anyhow::Result;
use dumbwaiter_report::{Align, table};
use dumbwaiter_schedulers::{Choice, Entry, Kind, REGISTRY};
use serde_json::{Value, json};

use crate::args::Schedulers;
use crate::{Ended, output};

/// Prints the list or a manual.
pub(crate) fn run(args: &Schedulers) -> Result<Ended> {
    let entries: Vec<&Entry> = match &args.name {
        Some(name) => vec![Choice::parse(name)?.entry()],
        None => REGISTRY.iter().collect(),
    };
    if let Some(path) = &args.json {
        output::write_json(path, &entries.iter().map(|e| as_json(e)).collect::<Vec<_>>())?;
        return Ok(Ended::Done);
    }
    let style = output::style();
    let text = if args.name.is_some() {
        let entry = entries[0];
        format!("{}\n{}", entry.manual.trim_end(), settings(entry))
    } else {
        let rows: Vec<Vec<String>> = entries
            .iter()
            .map(|e| vec![e.name.to_owned(), e.summary.to_owned(), e.source.to_owned(), e.tunables.len().to_string()])
            .collect();
        let header = [
            ("scheduler", Align::Left),
            ("what it does", Align::Left),
            ("source", Align::Left),
            ("settings", Align::Right),
        ];
        table(&header, &rows, style) + "\n`dumbwaiter schedulers NAME` shows the manual and the settings of one.\n"
    };
    output::print(&text)?;
    Ok(Ended::Done)
}

fn settings(entry: &Entry) -> String {
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
        text += &format!("\n{}", table(&header, &rows, output::style()));
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
            Kind::Schedulers(_) => "NAME+NAME",
            Kind::PerTenant { .. } => "N+N",
            _ => "FILE",
        };
        text += &format!("\n{}={value}: {}.\n", parameter.name, parameter.help);
    }
    text
}

fn as_json(entry: &Entry) -> Value {
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
