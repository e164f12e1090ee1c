//! The host and the drive of a measurement, as they are named.

use std::path::Path;

use dumbwaiter_scenario::{Affinity, Host, Profile, Scenario};

use super::MeasuredError;
use super::csv::read_text;

/// CPUs of a host of which nothing is said: those of the machine of the one study that is in such a table.
const CPUS: u16 = 10;

/// A host of which nothing is said but what an I/O costs there. Tasks that were given no CPU went where the kernel put them.
fn of_costs(profile: Profile) -> Host {
    Host { cpus: CPUS, affinity: Affinity::Free, profile, ..Host::default() }
}

/// The host that `text` describes: the name of a profile, a file with a `[host]` section as scenarios have it, or a file that is a profile.
///
/// # Errors
/// A file that cannot be read, or a key of it that is wrong.
pub fn host(text: Option<&str>, cpus: Option<u16>) -> Result<Host, MeasuredError> {
    let mut host = of_costs(Profile::default());
    if let Some(name) = text {
        host.profile = Profile::Named(name.to_owned());
        if host.profile.file().is_some() {
            host = of_file(Path::new(name))?;
        }
        host.profile.costs().map_err(|error| MeasuredError::Nothing(error.to_string()))?;
    }
    host.cpus = cpus.unwrap_or(host.cpus);
    Ok(host)
}

/// The model of a drive that `text` names: `MODEL`, or `FIGURE=MODEL` for one figure. A model may have settings, which have a `=` behind a
/// `?`.
///
/// # Errors
/// A model that there is not.
pub fn device_of(text: &str) -> Result<(Option<String>, String), MeasuredError> {
    let (figure, model) = match text.split_once('=') {
        Some((figure, model)) if !figure.contains('?') => (Some(figure.to_owned()), model),
        _ => (None, text),
    };
    dumbwaiter_devices::load(model).map_err(|error| MeasuredError::Nothing(error.to_string()))?;
    Ok((figure, model.to_owned()))
}

/// A file with a `[host]` section, or one that is a profile.
fn of_file(path: &Path) -> Result<Host, MeasuredError> {
    let (text, name) = (read_text(path)?, path.display().to_string());
    let refused = |error: dumbwaiter_scenario::Error| MeasuredError::Nothing(error.to_string());
    if !text.lines().any(|line| line.trim() == "[host]") {
        let profile = Profile::from_toml(&text, &name).map_err(refused)?;
        return Ok(of_costs(profile));
    }
    let mut scenario = Scenario::from_toml(&text, &name).map_err(refused)?;
    let beside = path.parent().unwrap_or(Path::new(""));
    scenario.resolve(&|own| dumbwaiter_scenario::read_text(&beside.join(own)), &|_| None).map_err(refused)?;
    let says = |key| text.lines().any(|line| line.trim_start().starts_with(key));
    let cpus = if says("cpus") { scenario.host.cpus } else { CPUS };
    let affinity = if says("affinity") { scenario.host.affinity } else { Affinity::Free };
    Ok(Host { cpus, affinity, ..scenario.host })
}
