//! What the controller knows of a command.

use dumbwaiter_block::Nanos;

use super::streams::Fetch;
use crate::{Breakdown, Command};

/// A command in the drive, or the fetch of a stream.
#[derive(Debug)]
pub(super) struct Task {
    /// `None` for a fetch.
    pub(super) command: Option<Command>,
    /// The stream and units of a fetch.
    pub(super) fetch: Option<Fetch>,
    pub(super) seq: u64,
    pub(super) arrival: Nanos,
    /// Parts that are not done: pages of a read, programs of a write, fetches that a read waits for.
    pub(super) left: u32,
    /// Its place among those that use the link in order.
    pub(super) send: u64,
    /// Whether a read needs the flash.
    pub(super) senses: bool,
    pub(super) parts: Breakdown,
    /// Reads that wait for this fetch.
    pub(super) waiters: Vec<u32>,
}

/// A flush before which all other commands end, and after which they begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Barrier {
    pub(super) task: u32,
    pub(super) began: bool,
}
