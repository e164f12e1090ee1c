//! A tenant of a disk: an export's slice, rights and counts.

use dumbwaiter_block::TenantId;

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
    pub(crate) settings: ExportSettings,
    pub(crate) id: TenantId,
    /// First byte on the target, and size.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) counts: Counts,
    pub(crate) latency: LatencyHistogram,
    /// Requests under way.
    pub(crate) outstanding: u32,
    /// Bytes of buffers in use.
    pub(crate) memory: u64,
    pub(crate) connections: u32,
    /// It takes no new connections and goes with its last one.
    pub(crate) leaving: bool,
}

impl Tenant {
    pub(crate) fn new(settings: ExportSettings, id: TenantId, offset: u64, size: u64) -> Tenant {
        Tenant {
            settings,
            id,
            offset,
            size,
            counts: Counts::default(),
            latency: LatencyHistogram::default(),
            outstanding: 0,
            memory: 0,
            connections: 0,
            leaving: false,
        }
    }
}
