//! The requests that hybrid polling sleeps for.

use std::collections::VecDeque;

use dumbwaiter_block::{Nanos, RequestId};

/// Requests for which hybrid polling has not slept yet, oldest first.
#[derive(Default)]
pub(super) struct ToSleep(VecDeque<(Nanos, RequestId, u64)>);

impl ToSleep {
    pub(super) fn add(&mut self, now: Nanos, sleep: Nanos, id: RequestId, number: u64) {
        if sleep > Nanos::ZERO {
            self.0.push_back((now + sleep, id, number));
        }
    }

    /// Takes the oldest: until when to sleep, its id and its number.
    pub(super) fn take_oldest(&mut self) -> Option<(Nanos, RequestId, u64)> {
        self.0.pop_front()
    }
}
