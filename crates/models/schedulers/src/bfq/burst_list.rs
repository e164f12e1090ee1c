//! Queues that belong to one burst of creations.

use super::queue::{LONG_AGO, QueueId};

/// The current burst: queues of one group, each created (before mainline: busy) soon after the one before.
#[derive(Clone, Debug)]
pub(super) struct BurstList {
    pub(super) list: Vec<QueueId>,
    pub(super) size: usize,
    pub(super) large: bool,
    pub(super) last: i64,
    pub(super) group: u32,
}

impl Default for BurstList {
    fn default() -> Self {
        BurstList { list: Vec::with_capacity(16), size: 0, large: false, last: LONG_AGO, group: u32::MAX }
    }
}
