//! The requests of a queue: which is better for the head, and how one leaves.

use dumbwaiter_block::{Context, Flags, Request, RequestId};

use super::Cfq;
use super::queue::NONE;

pub(super) fn preferred(request: &Request) -> bool {
    request.io.flags.any(Flags::META.with(Flags::PRIO))
}

impl Cfq {
    /// The better of two requests of a queue (either may be none) for a head at `head`.
    pub(super) fn better(&self, a: u32, b: u32, head: u64, ctx: &Context<'_>) -> u32 {
        if a == NONE || b == NONE || a == b {
            return if a == NONE { b } else { a };
        }
        let [x, y] = [a, b].map(|id| &ctx.requests[RequestId(id)]);
        if x.sync() != y.sync() {
            return if x.sync() { a } else { b };
        }
        if preferred(x) != preferred(y) {
            return if preferred(x) { a } else { b };
        }
        // None: too far behind the head.
        let cost = |sector: u64| match sector.checked_sub(head) {
            Some(ahead) => Some(ahead),
            None if head - sector <= self.set.back_seek_sectors => {
                Some((head - sector).saturating_mul(self.set.back_seek_penalty))
            }
            None => None,
        };
        match (cost(x.sector), cost(y.sector)) {
            (Some(p), Some(r)) if p != r => {
                if p < r {
                    a
                } else {
                    b
                }
            }
            (Some(_), Some(_)) => {
                if x.sector >= y.sector {
                    a
                } else {
                    b
                }
            }
            (Some(_), None) => a,
            (None, Some(_)) => b,
            (None, None) => {
                if x.sector <= y.sector {
                    a
                } else {
                    b
                }
            }
        }
    }

    /// Takes a request out of its queue, which finds its next one near it.
    pub(super) fn take_out(&mut self, q: u32, id: RequestId, ctx: &Context<'_>) {
        let queue = &self.queues[q as usize];
        if queue.next == id.0 {
            let next = self.by_sector.next(id.0).or(queue.requests.first().filter(|first| *first != id.0));
            let previous = self.by_sector.previous(id.0);
            let from = ctx.requests[id].sector;
            let next = self.better(next.unwrap_or(NONE), previous.unwrap_or(NONE), from, ctx);
            self.queues[q as usize].next = next;
            self.reposition(q);
        }
        let queue = &mut self.queues[q as usize];
        self.by_sector.remove(&mut queue.requests, id.0);
        queue.fifo.remove(&mut self.links, id);
        queue.prio_pending -= u32::from(self.entries[id.index()].preferred);
        self.rq_queued -= 1;
        self.groups[queue.group as usize].queued -= 1;
    }
}
