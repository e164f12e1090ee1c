//! How the drive is divided among exports, and an export among its clients.

/// Bytes of each export.
pub(super) const EXPORT_BYTES: u64 = 192 << 10;
pub(super) const EXPORTS: u64 = 3;
/// Clients of each export at the same time; each has a part of it for itself.
pub(super) const CLIENTS: u64 = 3;
pub(super) const PART_BYTES: u64 = EXPORT_BYTES / CLIENTS;
