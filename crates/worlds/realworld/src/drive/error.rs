//! Why a load cannot run on a real file or device.

use std::io;
use std::path::PathBuf;

use dumbwaiter_block::{Fault, Nanos, Op};

/// Why a run cannot begin or end, or why its result cannot be trusted. Each says in one line what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The target cannot be used, or the disk on it cannot go on.
    #[error(transparent)]
    Path(#[from] dumbwaiter_path::Error),
    /// A scheduler that the scenario changes to is not known.
    #[error("change at {at}: {reason}")]
    Change {
        /// When.
        at: Nanos,
        /// The scheduler's defect.
        reason: String,
    },
    /// The load changes what is on the target, and that was not allowed.
    #[error("task `{task}` does a {op}, and {} is opened for reading only; --destroy {} allows writes, which destroy the data on it", path.display(), path.display())]
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
    Load(#[from] dumbwaiter_scenario::load::Error),
    /// The worker does not learn when to begin.
    #[error("the start time cannot be read: {0}")]
    Start(io::Error),
    /// The log of completed I/Os cannot be written.
    #[error("the log of completed I/Os cannot be written: {0}")]
    Log(io::Error),
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
        /// The fault.
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
        /// The requests that do not add up.
        what: String,
    },
}

impl Error {
    /// Was something asked for that cannot be done on this target? Otherwise the device or the system failed.
    pub fn is_refusal(&self) -> bool {
        match self {
            Error::Path(error) => error.is_refusal(),
            Error::Unaligned { .. } | Error::WritesNotAllowed { .. } | Error::Load(_) | Error::Journal { .. } => true,
            _ => false,
        }
    }
}
