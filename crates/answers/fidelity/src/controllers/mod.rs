//! How controllers agree with recordings of the kernel's: each is fed what the kernel's received, and its verdicts are compared.

pub mod events;

mod io_cost;
mod io_max;
mod score;
mod wbt;

pub use events::{Event, Events};
pub(crate) use io_cost::text_of;
pub use score::{ControllerScore, ControllerSummary, Difference, VerdictKind, controller_summary};

use crate::recording::Error;

/// The controller of which there is a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Write-back throttling.
    Wbt,
    /// Limits of groups.
    IoMax,
    /// Proportional sharing by modelled cost.
    IoCost,
}

impl Recorded {
    /// Those that a recording has beside its scheduler, as its JSON lists them.
    ///
    /// # Errors
    /// A name that is none of a controller.
    pub fn beside_scheduler(about: &serde_json::Value) -> Result<Vec<Recorded>, String> {
        let names = match about.get("controllers") {
            None | Some(serde_json::Value::Null) => return Ok(Vec::new()),
            Some(value) => value.as_array().ok_or_else(|| format!("controllers: {value}; expected a list of names"))?,
        };
        let of = |name: &serde_json::Value| {
            let all = [Recorded::Wbt, Recorded::IoMax, Recorded::IoCost];
            let found = all.into_iter().find(|known| name.as_str() == Some(known.name()));
            found.ok_or_else(|| format!("controllers: {name}; expected wbt, io.max or io.cost"))
        };
        names.iter().map(of).collect()
    }

    /// The controller that a recording is of alone, by what its JSON says; `None` where it is of a scheduler.
    pub fn of(about: &serde_json::Value) -> Option<Recorded> {
        // What sets io.cost is there even where nothing was set.
        if about.get("in_force_at_the_end").is_some() && about.get("mono0_ns").is_some() {
            return Some(Recorded::IoCost);
        }
        match about.get("workload")?.as_str()? {
            "wbt" => Some(Recorded::Wbt),
            "io.max" => Some(Recorded::IoMax),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Recorded::Wbt => "wbt",
            Recorded::IoMax => "io.max",
            Recorded::IoCost => "io.cost",
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
            Recorded::IoCost => io_cost::score(recording, explain),
        }
    }
}

#[cfg(test)]
mod tests;
