//! `completions` and `man`: made from the same definitions as the parser.

use std::path::Path;

use anyhow::{Context, Result};

use crate::args::{self, Completions, Man};
use crate::{Ended, output};

/// Prints a completion script.
pub(crate) fn completions(args: &Completions) -> Result<Ended> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), "dumbwaiter", &mut text);
    output::print(&String::from_utf8_lossy(&text))?;
    Ok(Ended::Done)
}

/// Prints the manual page, or writes a page a command.
pub(crate) fn man(args: &Man) -> Result<Ended> {
    match &args.dir {
        None => {
            let mut text = Vec::new();
            clap_mangen::Man::new(args::command()).render(&mut text)?;
            output::print(&String::from_utf8_lossy(&text))?;
        }
        Some(dir) => {
            let mut command = args::command().disable_help_subcommand(true);
            command.build();
            write_pages(&command, dir)?;
        }
    }
    Ok(Ended::Done)
}

/// A page for the command, and for each below it that is not hidden.
fn write_pages(command: &clap::Command, dir: &Path) -> Result<()> {
    for below in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        write_pages(below, dir)?;
    }
    let page = clap_mangen::Man::new(command.clone());
    let path = dir.join(page.get_filename());
    dumbwaiter_text::write(&path, |out| page.render(out)).with_context(|| format!("cannot write {}", path.display()))
}
