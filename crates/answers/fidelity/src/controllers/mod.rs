//! How controllers agree with recordings of the kernel's: each is fed what the kernel's received, and its verdicts are compared.

pub mod events;

mod io_max;
mod score;
mod wbt;

pub use events::{Event, Events};
pub use score::{ControllerScore, ControllerSummary, Difference, VerdictKind, controller_summary};

use crate::recording::Error;

/// The controller of which there is a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Write-back throttling.
    Wbt,
    /// Limits of groups.
    IoMax,
}

impl Recorded {
    /// The controller that a recording is of, by what its JSON says; `None` where it is of a scheduler.
    pub fn of(about: &serde_json::Value) -> Option<Recorded> {
        match about.get("workload")?.as_str()? {
            "wbt" => Some(Recorded::Wbt),
            "io.max" => Some(Recorded::IoMax),
            _ => None,
        }
    }

    /// Replays a recording. `explain` is the number of the difference (from 1) to describe.
    ///
    /// # Errors
    ///
    /// It cannot be replayed; with the line or the key.
    pub fn score(self, recording: &Events, explain: Option<u64>) -> Result<ControllerScore, Error> {
        match self {
            Recorded::Wbt => wbt::score(recording, explain),
            Recorded::IoMax => io_max::score(recording, explain),
        }
    }
}

#[cfg(test)]
mod tests;
