//! `completions` and `man`: made from the same definitions as the parser.

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::args::{Args, Completions, Man};
use crate::{Ended, output};

/// Prints a completion script.
pub(crate) fn completions(args: &Completions) -> Result<Ended> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "dumbwaiter", &mut text);
    output::print(&String::from_utf8_lossy(&text))?;
    Ok(Ended::Done)
}

/// Prints the manual page, or writes a page a command.
pub(crate) fn man(args: &Man) -> Result<Ended> {
    match &args.dir {
        None => {
            let mut text = Vec::new();
            clap_mangen::Man::new(Args::command()).render(&mut text)?;
            output::print(&String::from_utf8_lossy(&text))?;
        }
        Some(dir) => {
            clap_mangen::generate_to(Args::command(), dir)
                .with_context(|| format!("cannot write to {}", dir.display()))?;
        }
    }
    Ok(Ended::Done)
}
