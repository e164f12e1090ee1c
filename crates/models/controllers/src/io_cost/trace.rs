//! What the controller did, as Linux's trace events of the same names say it.

/// What the controller did, for those who compare it with Linux's trace events of these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace {
    /// `iocost_inuse_transfer`, `_shortage` and `_adjust`: what a group uses of its weight, before and after.
    Inuse(Lent, usize, u32, u32),
    /// A group became active, or was deactivated.
    Active(usize, bool),
    /// Debts were forgiven: of a group, debt before and after, delay before and after (µs).
    Forgiven(usize, (u64, u64), (u64, u64)),
}

/// Why a group uses another part of its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lent {
    /// It lends what it does not need.
    Transfer,
    /// A period ended, and it needs all.
    Shortage,
    /// It takes back in the middle of a period.
    Adjust,
}

/// What ended with a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// Rate before and after.
    pub rate: (u64, u64),
    /// More than 0: the device was saturated this many periods; less: groups were short of time.
    pub busy: i32,
    /// Reads and writes that missed their latency, in millionths.
    pub missed_ppm: [u32; 2],
    /// Time that requests waited for a tag, in % of the period.
    pub wait_pct: u32,
    /// Groups whose oldest I/O is older than a period.
    pub lagging: u32,
    /// Groups that lend nothing.
    pub short: u32,
}
