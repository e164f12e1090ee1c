//! What a comparison of servers measures.

use std::path::PathBuf;

use dumbwaiter_block::Nanos;

/// What is measured, and with what.
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
    /// The usual runs of `program`.
    pub fn new(program: PathBuf) -> Plan {
        let (folder, scheduler) = (std::env::temp_dir(), "headway".to_owned());
        Plan { program, folder, scheduler, time: Nanos::from_secs(2), rounds: 3, depths: Vec::new() }
    }
}
