//! Submission by a task.

use crate::layer::{BlockLayer, Submitted};
use crate::plug::Plug;
use crate::{Flags, Io, Nanos, Op};

impl BlockLayer {
    /// A task submits `io` at `now`, within its plug if it has one. If the task [sleeps](Submitted::Asleep), it submits nothing
    /// else before the I/O has its request. An I/O that a [controller](crate::Controller) refuses is finished, with an error, by the next
    /// [`BlockLayer::finish_idle`]; one that it parks enters later, and its task goes on. An I/O that [may not sleep](Flags::NOWAIT) leaves no trace if it would have to.
    pub fn submit(&mut self, now: Nanos, mut io: Io, plug: Option<&mut Plug>) -> Submitted {
        if !self.corridor.is_empty() {
            self.prioritize(now, &mut io);
        }
        let may_sleep = !io.flags.any(Flags::NOWAIT);
        let nothing_to_flush = io.op == Op::Flush && !self.config.volatile_cache;
        if !nothing_to_flush && self.exchanges.freeze.is_some() {
            if !may_sleep {
                return Submitted::WouldBlock;
            }
            if !self.corridor.is_empty() && !self.passes_submission(now, &io) {
                return Submitted::Entered;
            }
            self.count_submission(&io);
            self.admitted(now, &io);
            self.exchanges.hold_back(now, io, false);
            if let Some(plug) = plug {
                self.flush_plug(now, plug, false);
            }
            return Submitted::Asleep;
        }
        if !self.corridor.is_empty() && !self.passes_submission(now, &io) {
            return Submitted::Entered;
        }
        let outcome = self.enter_path(now, now, io, plug);
        if outcome != Submitted::WouldBlock {
            self.count_submission(&io);
            self.admitted(now, &io);
        } else if !self.corridor.is_empty() {
            self.withdraw(now, &io);
        }
        self.settle(now);
        outcome
    }
}
