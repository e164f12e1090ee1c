//! A tenant of a disk: an export's slice, rights and counts.

use std::sync::Arc;

use dumbwaiter_block::{Nanos, TenantId};

use crate::histogram::LatencyHistogram;
use crate::settings::ExportSettings;

/// Counts since the start of the tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) flushes: u64,
    pub(crate) trims: u64,
    pub(crate) read_bytes: u64,
    pub(crate) write_bytes: u64,
    /// Requests that the disk failed.
    pub(crate) errors: u64,
    /// Requests that were refused before they reached the disk.
    pub(crate) refused: u64,
    /// Connections that broke the protocol.
    pub(crate) violations: u64,
    /// Connections made.
    pub(crate) connects: u64,
}

impl Counts {
    pub(crate) fn ios(&self) -> u64 {
        self.reads + self.writes
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.read_bytes + self.write_bytes
    }
}

/// A tenant as its disk knows it.
pub(crate) struct Tenant {
    pub(crate) settings: Arc<ExportSettings>,
    pub(crate) id: TenantId,
    /// First byte on the target, and size.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    /// When it came.
    pub(crate) since: Nanos,
    pub(crate) counts: Counts,
    pub(crate) latency: LatencyHistogram,
    /// The latencies up to five to ten seconds ago, and up to five seconds ago at most; none of a tenant that has not been used.
    earlier: Option<Box<[LatencyHistogram; 2]>>,
    /// Seconds in which it received less than promised, and not for its own demand or limit.
    pub(crate) short_s: u64,
    /// Bytes that it would have received, had each promise been kept.
    pub(crate) promised_bytes: u64,
    /// Requests under way.
    pub(crate) outstanding: u32,
    /// Since when there have been some.
    busy_since: Nanos,
    /// Time with requests under way before that.
    busy_ns: u64,
    /// Time in which requests waited for the scheduler's choice, as far as is known of those that are done.
    waited_ns: u64,
    /// Up to when that is known.
    waited_until: Nanos,
    /// Bytes of buffers in use.
    pub(crate) memory: u64,
    pub(crate) connections: u32,
    /// It takes no new connections and goes with its last one.
    pub(crate) leaving: bool,
}

/// Seconds after which the older half of the latest latencies is forgotten.
pub(crate) const HALF_WINDOW_S: u64 = 5;

impl Tenant {
    pub(crate) fn new(
        settings: impl Into<Arc<ExportSettings>>,
        id: TenantId,
        offset: u64,
        size: u64,
        since: Nanos,
    ) -> Tenant {
        Tenant {
            settings: settings.into(),
            id,
            offset,
            size,
            since,
            counts: Counts::default(),
            latency: LatencyHistogram::default(),
            earlier: None,
            short_s: 0,
            promised_bytes: 0,
            outstanding: 0,
            busy_since: since,
            busy_ns: 0,
            waited_ns: 0,
            waited_until: since,
            memory: 0,
            connections: 0,
            leaving: false,
        }
    }

    /// A request comes.
    pub(crate) fn begin(&mut self, now: Nanos) {
        if self.outstanding == 0 {
            self.busy_since = now;
        }
        self.outstanding += 1;
    }

    /// A request is over.
    pub(crate) fn end(&mut self, now: Nanos) {
        self.outstanding -= 1;
        if self.outstanding == 0 {
            self.busy_ns += now.since(self.busy_since).0;
        }
    }

    /// Time with requests under way since it came, ns.
    pub(crate) fn busy_ns(&self, now: Nanos) -> u64 {
        let current = if self.outstanding > 0 { now.since(self.busy_since).0 } else { 0 };
        self.busy_ns + current
    }

    /// A request waited from `since` until the device had it.
    pub(crate) fn waited(&mut self, since: Nanos, until: Nanos) {
        self.waited_ns += until.since(since.max(self.waited_until)).0;
        self.waited_until = self.waited_until.max(until);
    }

    /// Time in which requests waited for the scheduler's choice since it came, ns; those that are under way since `oldest` count as
    /// waiting.
    pub(crate) fn waited_ns(&self, now: Nanos, oldest: Option<Nanos>) -> u64 {
        self.waited_ns + oldest.map_or(0, |oldest| now.since(oldest.max(self.waited_until)).0)
    }

    /// Every [`HALF_WINDOW_S`] seconds: what is older than twice that is no longer one of the latest latencies.
    pub(crate) fn forget_old_latencies(&mut self) {
        if self.latency.count() > 0 {
            let earlier = self.earlier.get_or_insert_default();
            earlier.swap(0, 1);
            earlier[1].clone_from(&self.latency);
        }
    }

    /// An upper bound of this part (0 to 1) of the latencies of the last five to ten seconds; `None` if there are none.
    pub(crate) fn recent_quantile(&self, part: f64) -> Option<Nanos> {
        match &self.earlier {
            Some(earlier) => self.latency.quantile_since(&earlier[0], part),
            None => self.latency.quantile(part),
        }
    }
}
