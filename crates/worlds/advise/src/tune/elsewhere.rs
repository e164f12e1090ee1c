//! What a recommendation is worth on another drive of the class.

use serde::Serialize;

use crate::answer::USEFUL_GAIN;
use crate::row::Worth;

/// The recommendation on another drive of the class.
#[derive(Clone, Debug, Serialize)]
pub struct AnotherDrive {
    /// Name of the device.
    pub device: String,
    /// Whether it is better there too.
    pub outcome: Elsewhere,
    /// As much as a latency that is lower by this fraction; below 0 for a loss.
    pub worth: f64,
    /// At least, with 95 % confidence.
    pub at_least: f64,
    /// At most.
    pub at_most: f64,
}

/// How a recommendation does on another drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Elsewhere {
    /// Better by a useful amount.
    Better,
    /// Worse by a useful amount.
    Worse,
    /// Neither is shown.
    Open,
}

impl AnotherDrive {
    pub(super) fn of(device: &str, worth: Worth) -> AnotherDrive {
        let outcome = match worth {
            Worth { gain, at_least, .. } if gain >= USEFUL_GAIN && at_least > 0.0 => Elsewhere::Better,
            Worth { gain, at_most, .. } if gain <= -USEFUL_GAIN && at_most < 0.0 => Elsewhere::Worse,
            _ => Elsewhere::Open,
        };
        let (at_least, at_most) = (lower(worth.at_least), lower(worth.at_most));
        AnotherDrive { device: device.to_owned(), outcome, worth: lower(worth.gain), at_least, at_most }
    }
}

/// A gain as the fraction by which a latency would be lower.
pub(super) fn lower(gain: f64) -> f64 {
    crate::answer::rounded(-libm::expm1(-gain))
}
