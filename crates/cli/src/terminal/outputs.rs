//! Outputs of results: files, and stdout as `-`.

use std::io::{Error, ErrorKind, Result, Write};
use std::path::Path;

use dumbwaiter_text::check_distinct;
use serde::Serialize;

use crate::terminal::messages::print;

/// Version of JSON objects that have none of their own.
const SCHEMA: u64 = 1;

/// Does this path stand for stdout?
pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Writes text to a file, whole or not at all, or to stdout.
///
/// # Errors
/// If the file or stdout cannot be written.
pub fn write_text(path: &Path, text: &str) -> Result<()> {
    if is_stdout(path) {
        return print(text);
    }
    dumbwaiter_text::write(path, |out| out.write_all(text.as_bytes())).map_err(|e| not_written(path, &e))
}

/// An object with its version first.
#[derive(Serialize)]
struct Versioned<'a, T> {
    schema: u64,
    #[serde(flatten)]
    value: &'a T,
}

/// Writes a value as JSON to a file or to stdout; an object has its `schema` at the top.
///
/// # Errors
/// If the file or stdout cannot be written.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let shape = serde_json::to_value(value)?;
    let text = match shape.as_object() {
        Some(object) if !object.contains_key("schema") => pretty(&Versioned { schema: SCHEMA, value }),
        _ => pretty(value),
    };
    write_text(path, &text?)
}

/// A value as indented JSON.
///
/// # Errors
/// If the value cannot be written as JSON.
pub fn pretty(value: &impl Serialize) -> Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Prints text, or writes a value as JSON where a file for it was asked for.
///
/// # Errors
/// If the file or stdout cannot be written.
pub fn print_or_json(json: Option<&Path>, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<()> {
    match json {
        Some(path) => write_json(path, value),
        None => print(&text()),
    }
}

/// Refuses JSON and report files that cannot be written, are an input or each other, before long work starts.
///
/// # Errors
/// The first such file, and what is expected.
pub fn check_files(json: Option<&Path>, html: Option<&Path>, inputs: &[&Path]) -> Result<()> {
    if html.is_some_and(is_stdout) {
        return Err(refused("--html -: a report cannot go to stdout; expected the name of a file"));
    }
    let files: Vec<&Path> = json.into_iter().chain(html).collect();
    for path in &files {
        check_writable(path)?;
    }
    check_distinct(&files, inputs).map_err(|why| refused(&why))
}

/// Refuses an output path that cannot be written, before long work starts.
///
/// # Errors
/// Why it cannot.
pub fn check_writable(path: &Path) -> Result<()> {
    if is_stdout(path) {
        return Ok(());
    }
    dumbwaiter_text::check(path).map_err(|e| not_written(path, &e))
}

/// Refuses a folder for output that cannot be made or written, before long work starts.
///
/// # Errors
/// Why it cannot.
pub fn check_folder(dir: &Path) -> Result<()> {
    if std::fs::symlink_metadata(dir).is_err() {
        return check_writable(dir);
    }
    if !dir.is_dir() {
        return Err(refused(&format!("cannot write to {}: it is a file; expected a folder", dir.display())));
    }
    check_writable(&dir.join("runs.parquet"))
}

fn refused(why: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, why)
}

fn not_written(path: &Path, cause: &Error) -> Error {
    Error::new(cause.kind(), format!("cannot write {}: {cause}", path.display()))
}
