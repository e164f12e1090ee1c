//! `schedulers`: the list, and each one's manual.

use anyhow::Result;
use dumbwaiter_schedulers::{Choice, Entry, REGISTRY};
use dumbwaiter_terminal::{scheduler_text, schedulers_text, style};
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
    output::print(&match &args.name {
        Some(_) => scheduler_text(entries[0], style()),
        None => schedulers_text(&entries, style()),
    })?;
    Ok(Ended::Done)
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
