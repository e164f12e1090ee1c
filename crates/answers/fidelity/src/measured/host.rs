//! The host of a measurement.

use std::path::Path;

use dumbwaiter_scenario::{Host, Scenario};

use super::MeasuredError;
use super::csv::{at, read_text};

/// CPUs of a host of which nothing is said: those of the machine of the one study that is in such a table.
const CPUS: u16 = 10;

/// The host that `text` describes: the name of a profile, a file with a `[host]` section as scenarios have it, or a file that is a profile.
///
/// # Errors
/// A file that cannot be read, or a key of it that is wrong.
pub fn host(text: Option<&str>, cpus: Option<u16>) -> Result<Host, MeasuredError> {
    let mut host = Host { cpus: CPUS, ..Host::default() };
    if let Some(name) = text {
        let section = if is_file(name) { section(Path::new(name))? } else { None };
        match section {
            Some(own) => host = own,
            None => host.profile = name.to_owned(),
        }
    }
    host.cpus = cpus.unwrap_or(host.cpus);
    Ok(host)
}

fn is_file(name: &str) -> bool {
    name.contains('/') || Path::new(name).extension().is_some_and(|end| end.eq_ignore_ascii_case("toml"))
}

/// The `[host]` section of a file, if it has one.
fn section(path: &Path) -> Result<Option<Host>, MeasuredError> {
    let text = read_text(path)?;
    if !text.lines().any(|line| line.trim() == "[host]") {
        return Ok(None);
    }
    let scenario = Scenario::from_toml(&text, &path.display().to_string());
    let mut host = scenario.map_err(|error| at(path, 1, error.to_string()))?.host;
    let says_cpus = text.lines().any(|line| line.trim_start().starts_with("cpus"));
    host.cpus = if says_cpus { host.cpus } else { CPUS };
    Ok(Some(host))
}
