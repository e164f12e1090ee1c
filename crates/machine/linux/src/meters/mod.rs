//! Meters of the machine: energy from RAPL, power sensors or an external logger's file, and CPU time from the kernel.
//!
//! Every figure names its meter. [`open_best`] reports in one line which meter it chose and why the others do not work.

pub mod cpu;
mod energy;
mod files;
mod hwmon;
mod logger;
mod logger_clock;
mod logger_time;
mod perf;
mod powercap;
mod sampler;
mod system_calls;

use std::path::Path;

pub use energy::{Energy, Source};
pub use files::MeterError;
pub use logger::Logger;
pub use logger_clock::LoggerClock;
pub use logger_time::zone;
pub use sampler::{Meter, MeteredEnergy};
pub use system_calls::SystemCalls;

/// The best energy meter of this machine, and one line that names it or says why there is none. RAPL by powercap is
/// preferred to RAPL by perf, and both to a power sensor of the whole machine.
pub fn open_best() -> (Option<Meter>, String) {
    best_in(Path::new("/"))
}

/// [`open_best`] with `root` in place of `/`.
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

#[cfg(test)]
mod tests;
