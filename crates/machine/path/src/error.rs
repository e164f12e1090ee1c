//! Why a disk cannot be had, or cannot go on.

use std::io;
use std::path::PathBuf;

use dumbwaiter_block::{Fault, Op};

/// Why a target cannot be used, or a disk on it not go on. Each says in one line what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The target cannot be opened.
    #[error("{}: {reason}", path.display())]
    Open {
        /// The target.
        path: PathBuf,
        /// The reason, and a remedy.
        reason: String,
    },
    /// The kernel gives no ring.
    #[error("{0}")]
    NoRing(String),
    /// The device or the kernel does not support this completion mode.
    #[error("{}: completion `{completion}` is not possible: {reason}", path.display())]
    Completion {
        /// The target.
        path: PathBuf,
        /// The completion mode that was asked for.
        completion: String,
        /// Why not, and how to enable it.
        reason: String,
    },
    /// The block layer is set up for something that the disk cannot send.
    #[error("{}: {reason}", path.display())]
    Setup {
        /// The target.
        path: PathBuf,
        /// The part of the set-up that the disk cannot send.
        reason: String,
    },
    /// An I/O that this disk does not take; nothing of it was submitted.
    #[error("{op} of {sectors} sectors at sector {sector}: {reason}")]
    Refused {
        /// Its operation.
        op: Op,
        /// First sector.
        sector: u64,
        /// Length.
        sectors: u32,
        /// Why not.
        reason: String,
    },
    /// The kernel refused a call on the ring.
    #[error("{what}: {source}")]
    Ring {
        /// Which.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// Nothing would ever wake the disk: no request is in the device, no timer is set, no deadline was given and no
    /// descriptor is watched.
    #[error("{queued} requests wait in the scheduler, none is in the device, and nothing is set to change that")]
    Stalled {
        /// Requests that wait outside the device.
        queued: u64,
    },
    /// The scheduler or the device broke the rules of the block layer.
    #[error("{0}")]
    Fault(Fault),
    /// The block layer was used past the disk ([`crate::Disk::layer_mut`]).
    #[error("request {id} was to be sent while the device has it: requests are completed past the disk")]
    Mixed {
        /// The request.
        id: u32,
    },
}

impl Error {
    /// Was something asked for that cannot be had here? Otherwise the device or the system failed.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Error::NoRing(_) | Error::Completion { .. } | Error::Setup { .. } | Error::Refused { .. })
    }
}
