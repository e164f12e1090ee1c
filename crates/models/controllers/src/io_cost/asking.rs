//! What an I/O asks of io.cost, and what it may do.

use dumbwaiter_block::{Nanos, Op, RequestId};

/// What an I/O may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It goes on; this cost, in virtual time of its group, is to be [given back](super::Device::ended) when it ends.
    Pass(u64),
    /// It goes on though its group could not pay. The task sleeps for this long before it returns to user space.
    InDebt(Option<Nanos>),
    /// Its task waits.
    Wait,
}

/// An I/O as it asks.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    /// Who is told when it may go on.
    pub id: RequestId,
    /// Its group.
    pub group: usize,
    /// What it does.
    pub op: Op,
    /// First sector.
    pub sector: u64,
    /// Length in sectors.
    pub sectors: u32,
    /// May its task wait?
    pub may_sleep: bool,
}

/// A request that an I/O joins, before it grows.
#[derive(Clone, Copy, Debug)]
pub struct Joined {
    /// First sector.
    pub start: u64,
    /// Sector after the last.
    pub end: u64,
    /// Was its first I/O charged?
    pub paid: bool,
}
