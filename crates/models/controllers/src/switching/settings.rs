//! Settings of a policy.

use dumbwaiter_block::Nanos;

/// The method by which a policy chooses candidates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// A table of expected scores by workload.
    Model,
    /// Trials on live traffic.
    Trial,
    /// The table proposes which candidates to try, trials decide.
    #[default]
    Both,
}

impl By {
    /// The values of the setting, the default first.
    pub const NAMES: &'static [&'static str] = &["both", "trial", "model"];

    /// Reads one of [`By::NAMES`].
    pub fn parse(name: &str) -> Option<By> {
        match name {
            "both" => Some(By::Both),
            "trial" => Some(By::Trial),
            "model" => Some(By::Model),
            _ => None,
        }
    }
}

/// The figure that the policy optimises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Goal {
    /// Bytes per second.
    #[default]
    Throughput,
    /// Mean latency.
    Latency,
}

impl Goal {
    /// The values of the setting, the default first.
    pub const NAMES: &'static [&'static str] = &["throughput", "latency"];

    /// Reads one of [`Goal::NAMES`].
    pub fn parse(name: &str) -> Option<Goal> {
        match name {
            "throughput" => Some(Goal::Throughput),
            "latency" => Some(Goal::Latency),
            _ => None,
        }
    }
}

/// Settings of a policy. Shares are in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The method.
    pub by: By,
    /// The goal.
    pub goal: Goal,
    /// Time between two observations of the load.
    pub period: Nanos,
    /// Consecutive observations of a workload before the policy acts on it. A new workload needs two more.
    pub confirm: u32,
    /// Least time between two exchanges of the scheduler, trials apart.
    pub dwell: Nanos,
    /// Least advantage for which the scheduler is exchanged.
    pub hysteresis: u32,
    /// Least confidence in the table's nearest rows; below it the workload is unknown.
    pub confidence: u32,
    /// Exchanges in an hour, trials apart.
    pub switches_per_hour: u32,
    /// Longest slot of a trial.
    pub slot: Nanos,
    /// Shortest slot of a trial, up to the longest: long where an exchange takes long.
    pub slot_min: Nanos,
    /// Share of the time with load that trials may lose.
    pub regret: u32,
    /// Time that the trials of each workload may lose beyond that.
    pub allowance: Nanos,
    /// The table is of a similar device: its best candidate for a load is used at once, and trials only check it in the long
    /// run.
    pub trusts_table: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            by: By::default(),
            goal: Goal::default(),
            period: Nanos::from_ms(100),
            confirm: 2,
            dwell: Nanos::from_ms(1000),
            hysteresis: 20,
            confidence: 600,
            switches_per_hour: 720,
            slot: Nanos::from_ms(10_000),
            slot_min: Nanos::from_ms(200),
            regret: 5,
            allowance: Nanos::from_ms(500),
            trusts_table: true,
        }
    }
}
