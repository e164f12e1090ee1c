//! Published experiments that were run again.

use std::io::Error;
use std::path::Path;

use dumbwaiter_reproduce::show::{self, Finished};
use dumbwaiter_reproduce::{Causes, statements};

use crate::terminal::outputs::{is_stdout, write_json};
use crate::terminal::{print, style};

/// Where the figures of a reproduction go.
#[derive(Clone, Copy, Debug)]
pub struct ReproducedOutputs<'a> {
    /// File of the statements; `-` is stdout, which then has no tables.
    pub json: Option<&'a Path>,
    /// File of the page.
    pub html: Option<&'a Path>,
    /// Were the runs short?
    pub quick: bool,
}

impl ReproducedOutputs<'_> {
    /// Prints the list of papers and writes the counts of their statements.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write_list(&self) -> Result<(), Error> {
        if !self.json.is_some_and(is_stdout) {
            print(&show::list(style()))?;
        }
        let Some(path) = self.json else { return Ok(()) };
        write_json(path, &statements::counts())
    }

    /// Prints tables and writes files. `device`: what it was run on, where that is a real one.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&self, device: Option<&str>, finished: &[Finished]) -> Result<(), Error> {
        if !self.json.is_some_and(is_stdout) {
            print(&show::text(device, finished, style()))?;
        }
        if let Some(path) = self.json {
            write_json(path, &show::listed(finished))?;
            if !is_stdout(path) {
                crate::tell!("JSON written to {}", path.display());
            }
        }
        if let Some(path) = self.html {
            let data = show::data(self.quick, device, finished);
            show::page(device, finished).write(&data, path).map_err(Error::other)?;
            crate::tell!("page written to {}", path.display());
        }
        Ok(())
    }
}

/// For people: each failing statement, and the changes that make it hold.
pub fn causes_text(found: &[Causes]) -> String {
    let list = |changes: &std::collections::BTreeMap<String, f64>| {
        let each = changes.iter().map(|(change, ours)| format!("{change} ({ours:.4})"));
        if changes.is_empty() { "none of these changes".to_owned() } else { each.collect::<Vec<_>>().join(", ") }
    };
    let one = |causes: &Causes| {
        let Causes { statement, metric, case, ours, holds_with, moved_by } = causes;
        let head = format!("{statement}  {metric}; {case}: {ours:.4}\n  holds with: {}\n", list(holds_with));
        if moved_by.is_empty() { head } else { format!("{head}  moved, and fails: {}\n", list(moved_by)) }
    };
    let held = found.iter().filter(|causes| !causes.holds_with.is_empty()).count();
    let each: String = found.iter().map(one).collect();
    format!("{each}{} failing statements; {held} hold with one of the changes\n", found.len())
}
