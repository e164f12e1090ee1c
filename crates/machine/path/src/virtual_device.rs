//! A device without a file: a model in real time, or nothing at all.

use dumbwaiter_block::{Errno, Nanos, Op};

/// A request for a [`VirtualDevice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualRequest {
    /// Its number, handed back with the completion.
    pub tag: u32,
    /// Its operation.
    pub op: Op,
    /// The data must be permanent at completion.
    pub fua: bool,
    /// First sector, 512 bytes each.
    pub sector: u64,
    /// Sectors; 0 for a flush.
    pub sectors: u32,
}

/// A device that takes the place of a file below a [`Disk`](crate::Disk): a state machine in the disk's time, with data of its
/// own. The disk calls [`VirtualDevice::read`] when a read completes and [`VirtualDevice::write`] when a write does.
pub trait VirtualDevice {
    /// Takes a request at `now`; `false` if it holds as many as it can.
    fn submit(&mut self, now: Nanos, request: &VirtualRequest) -> bool;
    /// When something happens next.
    fn next_event(&self) -> Option<Nanos>;
    /// Advances it to `now`; appends the tags of what is completed, in order of time, and whether it went well.
    fn advance(&mut self, now: Nanos, done: &mut Vec<(u32, Result<(), Errno>)>);
    /// Copies data from byte `at` on.
    fn read(&mut self, at: u64, into: &mut [u8]);
    /// Keeps data from byte `at` on.
    fn write(&mut self, at: u64, from: &[u8]) -> Result<(), Errno>;
    /// `bytes` from byte `at` on read as zeroes.
    fn zero(&mut self, at: u64, bytes: u64);
}
