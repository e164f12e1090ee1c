//! Events that a turn of a disk returns.

use dumbwaiter_block::{Errno, Finished, Op, SECTOR_BYTES};

use super::readiness::{Readiness, WatchId};
use crate::buffer::{Buffer, Data};

/// Something happened.
#[derive(Debug)]
pub enum Event {
    /// An I/O is done, well or not.
    Completed {
        /// The I/O as it was submitted, its times and its result. A transfer that came back short ends with `EIO`.
        finished: Finished,
        /// Its data.
        data: Data,
    },
    /// The device failed a request. The I/Os of which it consisted follow as completed with the same error.
    RequestFailed(RequestFailure),
    /// A watched descriptor became ready. Use it until it would block: what is left untouched may not be reported again.
    Ready {
        /// Which.
        watch: WatchId,
        /// For what.
        readiness: Readiness,
    },
    /// A receive from a socket is done ([`Disk::receive`](crate::Disk::receive)).
    Received {
        /// The submitter's own number.
        tag: u64,
        /// The buffer of the receive.
        buffer: Buffer,
        /// Bytes received; 0 at the end of the stream.
        result: Result<usize, Errno>,
    },
    /// A driver answered a command ([`Disk::command`](crate::Disk::command)).
    Commanded {
        /// The submitter's own number.
        tag: u64,
        /// The driver's result; a negative number is an error of the system.
        result: i32,
    },
    /// A [`Waker`](crate::Waker) was called, once or several times.
    Woken,
}

/// A request that the device failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestFailure {
    /// The operation.
    pub op: Op,
    /// First sector, 512 bytes each.
    pub sector: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// The kernel's result.
    pub outcome: Outcome,
}

/// How a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With an error.
    Error(Errno),
    /// It moved only this many bytes.
    Short(u32),
}

impl RequestFailure {
    /// First byte.
    pub fn at(&self) -> u64 {
        self.sector * SECTOR_BYTES
    }

    /// The error that its I/Os end with.
    pub fn errno(&self) -> Errno {
        match self.outcome {
            Outcome::Error(errno) => errno,
            Outcome::Short(_) => Errno::EIO,
        }
    }
}
