//! Where results go: stdout, files, terminals.

use std::io::{IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use dumbwaiter_output::{escape, escape_styled};
use dumbwaiter_report::Style;
use serde::Serialize;

/// Does this path stand for stdout?
pub(crate) fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Prints results, control characters escaped but those of our own styles. A reader that went away is an error that ends
/// the program quietly.
pub(crate) fn print(text: &str) -> Result<()> {
    let text = if style().colour { escape_styled(text) } else { escape(text) };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot print the results")
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

/// Prints a line on stderr, control characters escaped. A terminal that was closed ends no work.
#[macro_export]
macro_rules! tell {
    ($($what:tt)*) => { $crate::output::tell(format_args!($($what)*)) };
}

/// See [`tell!`](crate::tell).
pub(crate) fn tell(what: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{}", escape(&what.to_string()));
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Are they names of one file, whether it is there or not?
pub(crate) fn same_file(a: &Path, b: &Path) -> bool {
    let id = |path: &Path| std::fs::metadata(path).map(|m| (m.dev(), m.ino())).ok();
    let place = |path: &Path| Some((std::fs::canonicalize(folder_of(path)).ok()?, path.file_name()?.to_owned()));
    match (id(a), id(b)) {
        (Some(a), Some(b)) => a == b,
        (None, None) => place(a).is_some() && place(a) == place(b),
        _ => false,
    }
}

/// Refuses to write over what is read or measured, and to write two things into one file.
pub(crate) fn check_distinct(outputs: &[&Path], inputs: &[&Path]) -> Result<()> {
    for (i, output) in outputs.iter().enumerate() {
        if let Some(input) = inputs.iter().find(|input| same_file(output, input)) {
            bail!("cannot write {}: it is the input {}; expected another file", output.display(), input.display());
        }
        let regular = std::fs::metadata(output).map_or(true, |m| m.is_file());
        if regular && outputs[..i].iter().any(|other| same_file(output, other)) {
            bail!("cannot write two outputs to {}; expected a different file for each", output.display());
        }
    }
    Ok(())
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
    check_distinct(&files, inputs)
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

/// How tables look on this terminal.
pub(crate) fn style() -> Style {
    let terminal = std::io::stdout().is_terminal();
    let forced = std::env::var_os("CLICOLOR_FORCE").is_some_and(|v| v != "0");
    let colour = (terminal || forced) && std::env::var_os("NO_COLOR").is_none();
    let width = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok()).filter(|_| terminal);
    Style { width, colour }
}

/// How the first screen looks: 80 columns, or those of the terminal; `wide`: without a limit.
pub(crate) fn screen(wide: bool) -> Style {
    const COLUMNS: u16 = 80;
    let style = style();
    Style { width: (!wide).then(|| style.width.unwrap_or(COLUMNS).max(40)), ..style }
}
