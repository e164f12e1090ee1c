//! Plan of a comparison of servers.

use std::path::PathBuf;

use dumbwaiter_block::Nanos;

/// The loads to measure, and the programs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The `dumbwaiter` program, which is run as our server.
    pub program: PathBuf,
    /// Folder for the file that is served.
    pub folder: PathBuf,
    /// Our scheduler.
    pub scheduler: String,
    /// Length of one run.
    pub time: Nanos,
    /// Runs of each; the median counts.
    pub rounds: u32,
    /// Only loads of these depths; all if empty.
    pub depths: Vec<u32>,
}

impl Plan {
    /// A plan with `headway`, runs of 2 s and three rounds unless others are given, and the file in the folder for temporary files.
    pub fn new(
        program: PathBuf,
        scheduler: Option<String>,
        time: Option<Nanos>,
        rounds: Option<u32>,
        depths: &[u32],
    ) -> Plan {
        Plan {
            program,
            folder: std::env::temp_dir(),
            scheduler: scheduler.unwrap_or_else(|| "headway".to_owned()),
            time: time.unwrap_or(Nanos::from_secs(2)),
            rounds: rounds.unwrap_or(3),
            depths: depths.to_vec(),
        }
    }
}
