//! The calls of a host, and the drive's events up to each.

use dumbwaiter_block::Nanos;

use super::events::Event;
use super::work::Notice;
use super::{Direction, Ssd};
use crate::{Breakdown, Command, Completion, Counters, Device, Facts, Submitted};

impl Ssd {
    /// Handles the drive's events up to and including `now`.
    fn run(&mut self, now: Nanos) {
        while let Some((at, event)) = self.events.pop(now) {
            let (events, counters) = (&mut self.events, &mut self.counters);
            match event {
                Event::Fetched(task) => self.send(task, at),
                Event::Arrived(task) => self.arrived(task, at),
                Event::Ready(task) => self.ready(task, at),
                Event::Die { die, turn } => self.flash.step_ends(die, turn, at, events, counters),
                Event::Channel(index) => self.flash.transferred(index, at, events, counters),
                Event::Drained => self.flash.drained(at, events),
                Event::Partial => self.flash.partial(at, events, counters),
                Event::FlushBegins => self.begin_flush(at),
                Event::FlushEnded => self.end_barrier(at),
                Event::Left => self.leave(at),
            }
            self.note(at);
        }
    }

    /// When the link can send what is read.
    fn out_free(&self) -> Nanos {
        self.link_free[if self.half_duplex { 0 } else { Direction::Out as usize }]
    }

    /// Acts on what the flash tells.
    fn note(&mut self, now: Nanos) {
        while let Some(notice) = self.flash.next_notice() {
            match notice {
                Notice::Sent { task, media, channel, gc_stall } => {
                    let parts = Breakdown { media, channel, gc_stall, ..Breakdown::default() };
                    self.sensed(task, parts, now);
                }
                Notice::Programmed { task, media, channel } => {
                    self.note_parts(task, Breakdown { media, channel, ..Breakdown::default() });
                    self.part_done(task, now);
                }
                Notice::Buffered { task } => self.stored(task, now),
                Notice::Durable { before } => self.durable(before, now),
            }
        }
    }
}

impl Device for Ssd {
    fn facts(&self) -> Facts {
        self.facts
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Submitted {
        self.run(now);
        self.inside -= self.outbox.settle(now);
        if self.inside == self.facts.depth {
            return Submitted::Busy;
        }
        self.inside += 1;
        self.counters.count(command, self.inside);
        let idle_since = self.last_arrival.max(self.last_completion);
        if self.unresolved == 0 && now.since(idle_since) > self.t_idle_gc {
            self.flash.collect_idle(now.since(idle_since).since(self.t_idle_gc), &mut self.counters);
        }
        self.last_arrival = now;
        let seq = self.seq;
        self.seq += 1;
        if command.beyond(self.facts.capacity_sectors) {
            let breakdown = Breakdown { firmware: self.t_err, ..Breakdown::default() };
            self.outbox.push(seq, Completion { tag: command.tag, at: now + self.t_err, failed: true, breakdown });
            self.last_completion = self.last_completion.max(now + self.t_err);
        } else {
            self.accept(command, seq, now);
            self.note(now);
        }
        Submitted::Accepted
    }

    fn next_event(&self) -> Option<Nanos> {
        let own = if self.unresolved > 0 { self.events.next(self.out_free(), self.flash.next_program()) } else { None };
        match (own, self.outbox.next()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn advance(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        self.run(now);
        self.inside -= self.outbox.drain(now, out);
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
