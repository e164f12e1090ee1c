//! A hook for code that inspects the data of requests, such as verification.

use dumbwaiter_block::Op;

/// A request as the device gets it, after merging and splitting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Its operation.
    pub op: Op,
    /// First sector, 512 bytes each.
    pub sector: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// Sees each request of a disk before it goes to the device and after it came back.
///
/// `data` is the disk's own buffer ([`crate::Data::Scratch`]); it is empty for operations without data and where the data is
/// the caller's.
pub trait Observer {
    /// The request goes to the device. The data of a write may be changed. [`Observer::completed`] gets the answer again.
    fn issued(&mut self, request: &Transfer, data: &mut [u8]) -> u64;

    /// The request came back, `ok` if it was done in full. `mark` is what [`Observer::issued`] answered.
    fn completed(&mut self, request: &Transfer, mark: u64, ok: bool, data: &[u8]);
}
