//! A channel and the transfers that wait for it.

use std::collections::VecDeque;

/// Reads that a channel sends before it takes the data of a program that waits.
const READS_PER_LOAD: u32 = 8;

/// A transfer over a channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) die: u32,
    /// Data of a read; else of a program.
    pub(super) read: bool,
    pub(super) units: u32,
}

/// A channel and what waits for it.
#[derive(Debug, Default)]
pub(super) struct Channel {
    pub(super) carries: Option<Transfer>,
    pub(super) reads: VecDeque<Transfer>,
    pub(super) loads: VecDeque<Transfer>,
    /// Reads since data of a program waits.
    pub(super) ran: u32,
    /// Of a drive that sends in order: the reads from number `turn` on, each once it may go.
    pub(super) ordered: VecDeque<Option<Transfer>>,
    pub(super) turn: u64,
}

impl Channel {
    /// The place of a transfer that is asked for now.
    pub(super) fn next_turn(&mut self) -> u64 {
        self.ordered.push_back(None);
        self.turn + self.ordered.len() as u64 - 1
    }

    /// The next transfer: data of reads before that of programs, within bounds.
    pub(super) fn next(&mut self) -> Option<Transfer> {
        while let Some(transfer) = self.ordered.front().copied().flatten() {
            self.ordered.pop_front();
            self.turn += 1;
            self.reads.push_back(transfer);
        }
        let loads = !self.loads.is_empty() && (self.reads.is_empty() || self.ran >= READS_PER_LOAD);
        self.ran = if loads || self.loads.is_empty() { 0 } else { self.ran + 1 };
        if loads { self.loads.pop_front() } else { self.reads.pop_front() }
    }
}
