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
