//! Meters of the machine: energy by RAPL, sensors or a logger's file, and CPU time by the kernel's accounts.
//!
//! All that reads clocks and files is in here, apart from the arithmetic of the rest of the crate. A meter says what it
//! is, and one never stands in for another unnoticed: [`open_best`] tells in one line which it took and why not others.

pub mod cpu;
mod hwmon;
mod logger;
mod logger_clock;
mod logger_time;
mod perf;
mod powercap;
mod sampler;

use std::path::Path;

pub use logger::{Logger, LoggerClock};
pub use logger_time::zone;
pub use sampler::{Drawn, Meter};

/// Where an energy comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// RAPL counters through `/sys/class/powercap`: processor packages and memory.
    RaplPowercap,
    /// RAPL counters through perf events: the same.
    Perf,
    /// A sensor in `/sys/class/hwmon`: what it is wired to, the whole machine for an ACPI power meter.
    Hwmon,
    /// An external logger: what is plugged into it.
    LoggerCsv,
}

/// Energy of an interval.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Energy {
    /// Joules: the parts that do not overlap, added.
    pub joules: f64,
    /// Which meter.
    pub source: Source,
    /// Each counter by itself, in joules; these may overlap (a package holds its cores).
    pub parts: Vec<(String, f64)>,
    /// Length of the interval in seconds.
    pub seconds: f64,
    /// Standard error of `joules`, where it can be told.
    pub sigma: Option<f64>,
    /// What speaks against the number.
    pub warning: Option<String>,
}

/// Why a meter does not work, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MeterError(pub(crate) String);

impl MeterError {
    fn file(doing: &str, path: &Path, cause: &std::io::Error) -> MeterError {
        let hint = match cause.kind() {
            std::io::ErrorKind::PermissionDenied => " (root is needed)",
            _ => "",
        };
        MeterError(format!("cannot {doing} {}: {cause}{hint}", path.display()))
    }
}

fn read(path: &Path) -> Result<String, MeterError> {
    let text = std::fs::read_to_string(path).map_err(|e| MeterError::file("read", path, &e))?;
    Ok(text.trim().to_owned())
}

fn read_number(path: &Path) -> Result<u64, MeterError> {
    let text = read(path)?;
    text.parse().map_err(|_| MeterError(format!("{}: expected a number, found \"{text}\"", path.display())))
}

/// Folders in `dir`, by name; none where it cannot be read.
fn folders(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut all: Vec<_> = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|f| f.path()).collect();
    all.sort();
    all
}

/// The best energy meter of this machine, and one line: which, or why there is none. RAPL by powercap goes before RAPL
/// by perf, and both before a power sensor of the whole machine.
pub fn open_best() -> (Option<Meter>, String) {
    best_in(Path::new("/"))
}

/// The same with another root folder in place of `/`.
pub fn best_in(root: &Path) -> (Option<Meter>, String) {
    let mut why = Vec::new();
    for open in [powercap::open, perf::open, hwmon::open] {
        match open(root) {
            Ok(meter) => {
                let others = if why.is_empty() { String::new() } else { format!(" (not {})", why.join("; not ")) };
                let about = format!("energy meter: {}{others}", meter.about());
                return (Some(meter), about);
            }
            Err(e) => why.push(e.0),
        }
    }
    (None, format!("no energy meter: {}", why.join("; ")))
}

/// A power sensor by the name of its chip (`/sys/class/hwmon/*/name`), whatever it is wired to.
pub fn open_sensor(name: &str) -> Result<Meter, MeterError> {
    hwmon::open_named(Path::new("/"), name)
}

#[cfg(test)]
mod tests;
