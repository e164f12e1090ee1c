//! A tenant of a disk: an export's slice, rights, limits and counts.

use std::collections::VecDeque;

use dumbwaiter_block::{Flags, Io, Nanos, Op, SECTOR_BYTES, TaskId, TenantId};
use dumbwaiter_path::Data;

use crate::histogram::LatencyHistogram;
use crate::settings::ExportSettings;
use crate::token_bucket::TokenBucket;

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
    /// Time that requests waited for a limit, ns, summed over requests.
    pub(crate) throttled_ns: u64,
}

impl Counts {
    pub(crate) fn ios(&self) -> u64 {
        self.reads + self.writes
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.read_bytes + self.write_bytes
    }
}

/// An I/O that a limit holds back.
struct Throttled {
    io: Io,
    data: Data,
    since: Nanos,
}

/// A tenant as its disk knows it.
pub(crate) struct Tenant {
    pub(crate) settings: ExportSettings,
    pub(crate) id: TenantId,
    /// First byte on the target, and size.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    limit_iops: Option<TokenBucket>,
    limit_bytes: Option<TokenBucket>,
    throttled: VecDeque<Throttled>,
    pub(crate) counts: Counts,
    pub(crate) latency: LatencyHistogram,
    /// Requests under way.
    pub(crate) outstanding: u32,
    /// Bytes of buffers in use.
    pub(crate) memory: u64,
    pub(crate) connections: u32,
    /// It takes no new connections and goes with its last one.
    pub(crate) leaving: bool,
    /// The weight that the scheduler has; that of the settings unless a reservation needs more.
    pub(crate) effective_weight: u32,
}

impl Tenant {
    pub(crate) fn new(settings: ExportSettings, id: TenantId, offset: u64, size: u64) -> Tenant {
        let mut tenant = Tenant {
            effective_weight: settings.weight,
            settings,
            id,
            offset,
            size,
            limit_iops: None,
            limit_bytes: None,
            throttled: VecDeque::new(),
            counts: Counts::default(),
            latency: LatencyHistogram::default(),
            outstanding: 0,
            memory: 0,
            connections: 0,
            leaving: false,
        };
        tenant.renew_limits();
        tenant
    }

    /// The limits of the settings, from now on.
    pub(crate) fn renew_limits(&mut self) {
        self.limit_iops = self.settings.limit_iops.map(TokenBucket::new);
        self.limit_bytes = self.settings.limit_bytes.map(TokenBucket::new);
    }

    /// An I/O arrives: it passes at once, or its limits hold it back.
    pub(crate) fn admit(&mut self, now: Nanos, io: Io, data: Data) -> Option<(Io, Data)> {
        if !self.is_limited() || io.op == Op::Flush {
            return Some((io, data));
        }
        if !self.throttled.is_empty() || self.opens_at() > now {
            self.throttled.push_back(Throttled { io, data, since: now });
            return None;
        }
        self.pass(now, &io);
        Some((io, data))
    }

    /// The next I/O that its limits let through by now.
    pub(crate) fn release(&mut self, now: Nanos) -> Option<(Io, Data)> {
        if self.opens_at() > now {
            return None;
        }
        let Throttled { mut io, data, since } = self.throttled.pop_front()?;
        io.flags = io.flags.with(Flags::PACED);
        self.pass(now, &io);
        self.counts.throttled_ns += now.since(since).0;
        Some((io, data))
    }

    /// Takes back the I/Os of a task that its limits hold back.
    pub(crate) fn give_up(&mut self, task: TaskId) -> Vec<(Io, Data)> {
        if self.throttled.is_empty() {
            return Vec::new();
        }
        let (gone, kept): (Vec<Throttled>, _) = self.throttled.drain(..).partition(|held| held.io.task == task);
        self.throttled = kept.into();
        gone.into_iter().map(|held| (held.io, held.data)).collect()
    }

    /// I/Os that its limits hold back.
    pub(crate) fn held_back(&self) -> usize {
        self.throttled.len()
    }

    /// When its limits let the next I/O pass; in the past if at once.
    pub(crate) fn opens_at(&self) -> Nanos {
        let opens = |bucket: &Option<TokenBucket>| bucket.as_ref().map_or(Nanos::ZERO, TokenBucket::opens_at);
        opens(&self.limit_iops).max(opens(&self.limit_bytes))
    }

    /// Is there a limit?
    fn is_limited(&self) -> bool {
        self.limit_iops.is_some() || self.limit_bytes.is_some()
    }

    /// Charges an I/O to the limits. One that moves no data, as a trim, counts as an I/O alone.
    fn pass(&mut self, now: Nanos, io: &Io) {
        if let Some(bucket) = &mut self.limit_iops {
            bucket.take(now, 1);
        }
        if let Some(bucket) = &mut self.limit_bytes
            && io.op.carries_data()
        {
            bucket.take(now, u64::from(io.sectors) * SECTOR_BYTES);
        }
    }
}
