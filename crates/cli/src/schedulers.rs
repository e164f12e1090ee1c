//! `schedulers`: the list, and each one's manual.

use crate::terminal::{scheduler_json, scheduler_text, schedulers_text};
use anyhow::Result;
use dumbwaiter_schedulers::{Choice, Entry, REGISTRY};

use crate::args::Schedulers;
use crate::{Ended, output};

/// Prints the list or a manual.
pub(crate) fn run(args: &Schedulers) -> Result<Ended> {
    let entries: Vec<&Entry> = match &args.name {
        Some(name) => vec![Choice::parse(name)?.entry()],
        None => REGISTRY.iter().collect(),
    };
    if let Some(path) = &args.json {
        output::write_json(path, &entries.iter().map(|e| scheduler_json(e)).collect::<Vec<_>>())?;
        return Ok(Ended::Done);
    }
    output::print(&match &args.name {
        Some(_) => scheduler_text(entries[0], output::style()),
        None => schedulers_text(&entries, output::style()),
    })?;
    Ok(Ended::Done)
}
