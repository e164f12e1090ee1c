//! Why something cannot be run on a real file or device.

use std::io;
use std::path::PathBuf;

use dumbwaiter_block::{Fault, Op};

/// Why a target cannot be used, or a run not begun or not believed. Each says in one line what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The target cannot be opened.
    #[error("{}: {reason}", path.display())]
    Open {
        /// The target.
        path: PathBuf,
        /// What is wrong, and what helps.
        reason: String,
    },
    /// The kernel gives us no ring.
    #[error("{0}")]
    NoRing(String),
    /// The device or the kernel cannot complete in this way.
    #[error("{}: completion `{completion}` is not possible: {reason}", path.display())]
    Completion {
        /// The target.
        path: PathBuf,
        /// What was asked for.
        completion: String,
        /// Why not, and how to enable it.
        reason: String,
    },
    /// The load changes what is on the target, and that was not allowed.
    #[error("task `{task}` does a {op}, and {} is only read unless writing is allowed (--allow-writes): that destroys what is on it", path.display())]
    WritesNotAllowed {
        /// Who.
        task: String,
        /// What.
        op: Op,
        /// The target.
        path: PathBuf,
    },
    /// An I/O does not fit the device's blocks.
    #[error(
        "task `{task}`: {op} of {bytes} bytes at byte {at}: {} takes multiples of {block} bytes only; choose such a size, or let I/Os be rounded out to blocks (--round-out)",
        path.display()
    )]
    Unaligned {
        /// Who.
        task: String,
        /// What.
        op: Op,
        /// Length in bytes.
        bytes: u64,
        /// First byte.
        at: u64,
        /// The device's logical block, bytes.
        block: u64,
        /// The target.
        path: PathBuf,
    },
    /// The scenario has no threads.
    #[error(transparent)]
    Load(#[from] dumbwaiter_load::Error),
    /// The kernel refused a call on our ring.
    #[error("{what}: {source}")]
    Ring {
        /// Which.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The journal of acknowledged writes cannot be written or read.
    #[error("{}: {reason}", path.display())]
    Journal {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Requests wait in the scheduler, nothing is under way, and no time is set at which anything would happen.
    #[error(
        "{target}, {scheduler}: {waiting} requests wait and none is sent. This is a defect; please report the scenario and seed"
    )]
    Stalled {
        /// The target.
        target: String,
        /// The scheduler.
        scheduler: String,
        /// How many wait.
        waiting: u64,
    },
    /// The scheduler, or the device's driver, broke its contract with the block layer, or the device makes no progress.
    #[error("{target}, {scheduler}: {fault}")]
    Fault {
        /// The target.
        target: String,
        /// The scheduler.
        scheduler: String,
        /// What is wrong.
        fault: Fault,
    },
    /// Requests were lost or invented: a defect of ours.
    #[error(
        "{target}, {scheduler}: requests are not conserved: {what}. This is a defect; please report the scenario and seed"
    )]
    NotConserved {
        /// The target.
        target: String,
        /// The scheduler.
        scheduler: String,
        /// What does not add up.
        what: String,
    },
}
