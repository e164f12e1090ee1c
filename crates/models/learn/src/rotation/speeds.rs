//! Rotational speeds of disks.

/// Usual speeds, revolutions per minute.
pub(super) const SPEEDS: [u64; 7] = [5400, 7200, 5900, 4200, 10_000, 15_000, 3600];
