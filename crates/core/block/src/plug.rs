//! The plug: a task's requests held back until its batch of submissions ends.

use crate::{RequestId, Requests};

/// Requests that a plug holds before it lets them go by itself.
const PLUG_REQUESTS: usize = 32;
/// A request of this many bytes makes the plug let go.
const PLUG_FLUSH_BYTES: u64 = 128 * 1024;

/// Requests of one task, in order of arrival. One plug serves one device.
#[derive(Clone, Debug, Default)]
pub struct Plug {
    pub(crate) list: Vec<RequestId>,
}

impl Plug {
    /// Requests held.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Does it hold nothing?
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Must it let go before one more request is added? It is full, or its oldest request is long
    /// (Linux 6.13 and later look at the oldest).
    pub(crate) fn full(&self, requests: &Requests, merging: bool) -> bool {
        let Some(oldest) = self.list.first() else {
            return false;
        };
        self.list.len() >= PLUG_REQUESTS || (merging && requests[*oldest].bytes() >= PLUG_FLUSH_BYTES)
    }
}
