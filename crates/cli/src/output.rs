//! Where results go: stdout and files.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use dumbwaiter_output::check_distinct;
pub(crate) use dumbwaiter_terminal::{screen, style};
use serde::Serialize;

/// Does this path stand for stdout?
pub(crate) fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Prints results. A reader that went away is an error that ends the program quietly.
pub(crate) fn print(text: &str) -> Result<()> {
    dumbwaiter_terminal::print(text).context("cannot print the results")
}

/// Is this what happens when the reader of a pipe is gone?
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Writes text to a file, whole or not at all, or to stdout.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<()> {
    if is_stdout(path) {
        return print(text);
    }
    dumbwaiter_output::write(path, |out| out.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Version of JSON objects that have none of their own.
const SCHEMA: u64 = 1;

/// An object with its version first.
#[derive(Serialize)]
struct Versioned<'a, T> {
    schema: u64,
    #[serde(flatten)]
    value: &'a T,
}

/// Writes a value as JSON to a file or to stdout; an object has its `schema` at the top.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let shape = serde_json::to_value(value).context("cannot be written as JSON")?;
    let text = match shape.as_object() {
        Some(object) if !object.contains_key("schema") => {
            serde_json::to_string_pretty(&Versioned { schema: SCHEMA, value })
        }
        _ => serde_json::to_string_pretty(value),
    };
    let mut text = text.context("cannot be written as JSON")?;
    text.push('\n');
    write_text(path, &text)
}

/// Can JSON and a report be written that were asked for, beside what is read?
pub(crate) fn check_files(json: Option<&Path>, html: Option<&Path>, inputs: &[&Path]) -> Result<()> {
    if html.is_some_and(is_stdout) {
        bail!("--html -: a report cannot go to stdout; expected the name of a file");
    }
    let files: Vec<&Path> = json.into_iter().chain(html).collect();
    for path in &files {
        check_writable(path)?;
    }
    check_distinct(&files, inputs).map_err(|why| anyhow!(why))
}

/// Refuses an output path that cannot be written before long work starts.
pub(crate) fn check_writable(path: &Path) -> Result<()> {
    if is_stdout(path) {
        return Ok(());
    }
    dumbwaiter_output::check(path).with_context(|| format!("cannot write {}", path.display()))
}

/// Refuses a folder for output that cannot be made or written, before long work starts.
pub(crate) fn check_folder(dir: &Path) -> Result<()> {
    if std::fs::symlink_metadata(dir).is_err() {
        return check_writable(dir);
    }
    if !dir.is_dir() {
        bail!("cannot write to {}: it is a file; expected a folder", dir.display());
    }
    check_writable(&dir.join("runs.parquet"))
}

/// Prints text, or writes a value as JSON where a file for it was asked for.
pub(crate) fn print_or_json(json: Option<&Path>, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<()> {
    match json {
        Some(path) => write_json(path, value),
        None => print(&text()),
    }
}

/// A value as indented JSON.
pub(crate) fn pretty(value: &impl Serialize) -> Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(value)?))
}
