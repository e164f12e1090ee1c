//! The write buffer.

use std::collections::VecDeque;

use dumbwaiter_block::Nanos;

use super::ftl::UNIT;
use super::params::Params;
use super::work::Program;

/// A write that waits for room: its units `from..to` are not in the buffer yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) task: u32,
    pub(super) from: u64,
    pub(super) to: u64,
}

/// The write buffer.
#[derive(Debug)]
pub(crate) struct Buffer {
    /// Bytes; 0: none.
    pub(super) size: u64,
    /// Once full, it takes writes again at this fill.
    pub(super) low: u64,
    /// Whether it was full and is above `low`.
    pub(super) closed: bool,
    /// Bytes in it, those being programmed included.
    pub(super) used: u64,
    /// Units that wait until a program unit is full.
    pub(super) pending: Vec<u32>,
    pub(super) waiting: VecDeque<Waiting>,
    pub(super) last_write: Nanos,
    pub(super) t_flushback: Nanos,
    pub(super) partial_is_due: bool,
    pub(super) next_die: u32,
    /// Time that the controller needs for a run of units that leaves the buffer.
    pub(super) drain_per_run: f64,
    /// The last unit of the last program: one that continues it belongs to its run.
    pub(super) last_unit: Option<u32>,
    pub(super) drain_free: Nanos,
    pub(super) draining: VecDeque<Program>,
    /// Programs in order of issue, from number `oldest` on: whether each has ended.
    pub(super) ended: VecDeque<bool>,
    pub(super) oldest: u64,
}

impl Buffer {
    /// An empty buffer for programs of up to `most` units.
    pub(crate) fn new(p: &Params, most: u32) -> Buffer {
        let size = p.write_buffer_bytes();
        Buffer {
            size,
            low: size.saturating_sub((p.write_gap_mib * 1_048_576.0) as u64),
            closed: false,
            used: 0,
            pending: Vec::with_capacity(most as usize),
            waiting: VecDeque::new(),
            last_write: Nanos::ZERO,
            t_flushback: Nanos::from_us_f64(p.t_flushback_us),
            partial_is_due: false,
            next_die: 0,
            drain_per_run: if p.drain_mb_per_s > 0.0 { UNIT as f64 * 1e3 / p.drain_mb_per_s } else { 0.0 },
            last_unit: None,
            drain_free: Nanos::ZERO,
            draining: VecDeque::new(),
            ended: VecDeque::new(),
            oldest: 0,
        }
    }

    /// Number of the next program.
    pub(super) fn next_seq(&self) -> u64 {
        self.oldest + self.ended.len() as u64
    }
}
