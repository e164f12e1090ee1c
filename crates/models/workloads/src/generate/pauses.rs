//! When a job does not submit: think time, bursts and rates.

use dumbwaiter_block::Nanos;

use super::random::Random;
use super::value::{BurstProcess, ThinkBlocks};

/// Pauses after a number of I/Os, checked where fio does: after each I/O was submitted and, with a full queue, completions
/// were reaped. Before the pause everything outstanding completes; those completions already count for the next one.
#[derive(Debug, Default)]
pub(super) struct ThinkTime {
    pub(super) time: Nanos,
    /// I/Os between pauses.
    pub(super) blocks: u64,
    pub(super) counted: ThinkBlocks,
    /// Pause also after issuing for this long.
    pub(super) after: Option<Nanos>,
    /// A rate limit does not catch up after a pause.
    pub(super) lost: bool,
    pub(super) issued: u64,
    pub(super) completed: u64,
    /// I/Os counted when the last pause was decided, and the time.
    pub(super) counted_at_last: u64,
    pub(super) since: Nanos,
    /// An I/O was issued since the last check.
    pub(super) unchecked: bool,
    pub(super) phase: Thinking,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Thinking {
    /// Submitting.
    #[default]
    No,
    /// Waiting until everything outstanding has completed.
    Draining,
    Until(Nanos),
}

impl ThinkTime {
    /// Checks once for each I/O whether a pause is due.
    pub(super) fn check(&mut self, now: Nanos) {
        if !std::mem::take(&mut self.unchecked) {
            return;
        }
        let count = match self.counted {
            ThinkBlocks::Complete => self.completed,
            ThinkBlocks::Issue => self.issued,
        };
        let long = self.after.is_some_and(|after| now.since(self.since) >= after + self.time);
        // Beside a time, the default of one I/O would leave no room for it.
        let many = count >= self.counted_at_last + self.blocks && (self.after.is_none() || self.blocks > 1);
        if long || many {
            self.counted_at_last = count;
            self.since = now;
            self.phase = Thinking::Draining;
        }
    }
}

/// Bursts and the pauses between them.
#[derive(Debug)]
pub(super) struct Burst {
    on: Nanos,
    off: Nanos,
    process: BurstProcess,
    working: bool,
    pub(super) until: Nanos,
}

impl Burst {
    pub(super) fn new(on: Nanos, off: Nanos, process: BurstProcess) -> Burst {
        Burst { on, off, process, working: false, until: Nanos::ZERO }
    }

    fn draw_length(&self, mean: Nanos, random: &mut Random) -> Nanos {
        match self.process {
            BurstProcess::Fixed => mean,
            BurstProcess::Exponential => Nanos(((mean.0 as f64 * random.exponential()) as u64).max(1)),
        }
    }

    /// Advances to `now`; returns whether this is a pause.
    pub(super) fn in_pause(&mut self, now: Nanos, random: &mut Random) -> bool {
        while now >= self.until {
            self.working = !self.working;
            let draw_length = self.draw_length(if self.working { self.on } else { self.off }, random);
            self.until += draw_length;
        }
        !self.working
    }
}

/// Rate limit of a direction: when its next I/O is due.
#[derive(Debug, Default)]
pub(super) struct RateLimit {
    /// 0 for no limit.
    pub(super) ns_per_unit: f64,
    pub(super) ns_per_io: f64,
    pub(super) poisson: bool,
    /// In ns of run time, with the fraction, so that rounding does not accumulate.
    pub(super) due: f64,
}

/// A sleep until the next I/O is due under a rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateSleep {
    /// Direction of the I/O after it.
    pub(super) dir: usize,
    /// Its length, which fio takes before it waits for what is outstanding.
    pub(super) length: Nanos,
    /// Its end, once nothing is outstanding.
    pub(super) until: Option<Nanos>,
}
