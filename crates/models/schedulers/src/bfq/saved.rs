//! What a process keeps of its queue while it shares another.

use super::queue::{Injection, Raise, ThinkTime};

/// State of a process's queue before it was merged.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    pub(super) think: ThinkTime,
    pub(super) short_think: bool,
    pub(super) io_bound: bool,
    pub(super) window_start: u64,
    pub(super) idle_sum: u64,
    pub(super) large_burst: bool,
    pub(super) injection: Injection,
    pub(super) raise: Raise,
    pub(super) soft_rt_next_start: i64,
}
