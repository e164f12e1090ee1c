//! The end of an I/O.

use crate::{Errno, Io, Nanos};

/// A finished I/O with its times.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// The I/O as submitted.
    pub io: Io,
    /// When.
    pub submit: Nanos,
    /// When the scheduler received it, or the request it joined.
    pub insert: Nanos,
    /// When the device took it.
    pub issue: Nanos,
    /// It joined another's request.
    pub merged: bool,
    /// How it ended.
    pub result: Result<(), Errno>,
}
