//! Commands to a disk, from clients of any protocol.

use dumbwaiter_block::{Nanos, Op};

/// A command on a tenant's slice. Offsets and lengths are bytes, whole blocks, and within the slice: the protocol has checked that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Read {
        offset: u64,
        length: u32,
    },
    Write {
        offset: u64,
        length: u32,
        fua: bool,
    },
    /// All completed writes of all tenants are permanent when it completes.
    Flush,
    Trim {
        offset: u64,
        length: u32,
        fua: bool,
    },
    Zero {
        offset: u64,
        length: u32,
        fua: bool,
        keep: bool,
        fast: bool,
    },
}

impl Command {
    /// First byte and length.
    pub(crate) fn range(&self) -> (u64, u32) {
        match *self {
            Command::Read { offset, length }
            | Command::Write { offset, length, .. }
            | Command::Trim { offset, length, .. }
            | Command::Zero { offset, length, .. } => (offset, length),
            Command::Flush => (0, 0),
        }
    }

    pub(crate) fn fua(&self) -> bool {
        match *self {
            Command::Write { fua, .. } | Command::Trim { fua, .. } | Command::Zero { fua, .. } => fua,
            Command::Read { .. } | Command::Flush => false,
        }
    }

    /// The operation of the block layer that it begins with.
    pub(crate) fn op(&self) -> Op {
        match self {
            Command::Read { .. } => Op::Read,
            Command::Write { .. } => Op::Write,
            Command::Flush => Op::Flush,
            // A hole reads as zeroes, and gives the space back.
            Command::Trim { .. } | Command::Zero { keep: false, .. } => Op::Discard,
            Command::Zero { keep: true, .. } => Op::WriteZeroes,
        }
    }
}

/// Where a command is: some take several I/Os.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The I/O of the command itself.
    Only,
    /// The device has no operation for zeroes: they are written. Bytes done before this I/O, and in it.
    WritingZeroes { done: u32, length: u32 },
    /// The flush that makes a trim or zeroes permanent.
    Flushing,
}

/// A command under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) command: Command,
    pub(crate) stage: Stage,
    /// Its tenant's number in the volume.
    pub(crate) tenant: u32,
    pub(crate) task: dumbwaiter_block::TaskId,
    /// The protocol's own number.
    pub(crate) token: u64,
    pub(crate) since: Nanos,
    pub(crate) used: bool,
}
