//! The goal of a user: an exchange rate between latency, throughput and shares.

use serde::{Deserialize, Serialize};

/// The goal of a user: what latency, throughput and shares are worth to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Goal {
    /// Half the latency is worth a third of the throughput.
    #[default]
    Balanced,
    /// Half the latency is worth half of the throughput.
    Latency,
    /// Half the latency is worth 5 % of the throughput.
    Throughput,
    /// Half the latency is worth 16 % of the throughput, and a share error of 10 % in place of 20 % a third of it.
    Fairness,
}

impl Goal {
    /// All goals.
    pub const ALL: [Goal; 4] = [Goal::Balanced, Goal::Latency, Goal::Throughput, Goal::Fairness];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Goal::Balanced => "balanced",
            Goal::Latency => "latency",
            Goal::Throughput => "throughput",
            Goal::Fairness => "fairness",
        }
    }

    /// The goal of this name.
    pub fn parse(name: &str) -> Option<Goal> {
        Goal::ALL.into_iter().find(|goal| goal.name() == name)
    }
}
