//! How busy the drive was: without a queue there is nothing to schedule.

use dumbwaiter_measure::RunResult;
use serde::{Deserialize, Serialize};

/// A drive that is busy for a smaller part of the time has nothing to schedule.
const IDLE_BELOW: f64 = 0.10;
/// So has one that holds one request at a time whenever it is busy.
const ALONE_BELOW: f64 = 1.5;

/// How busy the drive was; NaN (`null`) where it is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Fraction of the time in which the drive held a request, 0 to 1: the highest of any scheduler.
    #[serde(deserialize_with = "undefined")]
    pub drive_busy: f64,
    /// Requests in drive and scheduler, on average over the time: the highest of any scheduler.
    #[serde(deserialize_with = "undefined")]
    pub requests_in_flight: f64,
}

fn undefined<'de, D: serde::Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(d)?.unwrap_or(f64::NAN))
}

impl Usage {
    pub(crate) fn of<'a>(runs: impl Iterator<Item = &'a RunResult> + Clone) -> Usage {
        let known =
            || runs.clone().filter(|run| !run.depth.device.distribution.is_empty() && run.depth.device.mean > 0.0);
        let busy = |run: &RunResult| {
            let idle =
                run.depth.device.distribution.iter().filter(|part| part.to == 0).map(|part| part.share).sum::<f64>();
            1.0 - idle
        };
        let in_flight = |run: &RunResult| run.depth.device.mean + run.depth.scheduler.mean.max(0.0);
        Usage {
            drive_busy: known().map(busy).fold(f64::NAN, f64::max),
            requests_in_flight: known().map(in_flight).fold(f64::NAN, f64::max),
        }
    }

    /// The busy part of the time for people: `97 %`, `0.2 %`, `less than 0.1 %`.
    pub fn busy_text(&self) -> String {
        match self.drive_busy * 100.0 {
            percent if percent < 0.1 => "less than 0.1 %".to_owned(),
            percent if percent < 9.95 => format!("{percent:.1} %"),
            percent => format!("{percent:.0} %"),
        }
    }

    /// Whether no request has to wait for another.
    pub(crate) fn is_idle(&self) -> bool {
        self.drive_busy < IDLE_BELOW && self.requests_in_flight < ALONE_BELOW * self.drive_busy
    }
}
