//! How the drive is divided among exports, and an export among its clients.

/// Bytes of each export.
pub(super) const EXPORT_BYTES: u64 = PARTS * PART_BYTES;
pub(super) const EXPORTS: u64 = 3;
/// NBD clients of each export at the same time.
pub(super) const CLIENTS: u64 = 3;
/// Each client has a part of its export for itself, and so has the virtual machine behind them.
const PARTS: u64 = CLIENTS + 1;
pub(super) const PART_BYTES: u64 = 64 << 10;
