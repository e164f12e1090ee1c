//! Admission of writes to the buffer, and the programs that empty it.

use dumbwaiter_block::Nanos;

use super::buffer::Waiting;
use super::events::{Event, Events, Sort};
use super::flash::Flash;
use super::ftl::{UNIT, UNMAPPED};
use super::work::{NONE, Notice, Program};
use crate::Counters;

/// Programs by which a die may be behind the average before its turns are passed over.
const BEHIND_MAX: u32 = 1;

impl Flash {
    /// The time of a program, if one has not ended.
    pub(crate) fn next_program(&self) -> Option<Nanos> {
        (!self.buffer.ended.is_empty()).then_some(self.t_program)
    }

    /// Whether the data of all units is in the buffer.
    pub(crate) fn buffers(&self, from: u64, to: u64) -> bool {
        if self.buffer.used == 0 {
            return false;
        }
        (from..to).all(|unit| {
            let unit = self.fold(unit);
            if self.buffer.pending.contains(&unit) {
                return true;
            }
            let physical = self.ftl.lookup(unit);
            physical < UNMAPPED && self.dies[(physical / self.ftl.shape.units_per_die()) as usize].holds(physical)
        })
    }

    /// Takes the data of units `from..to`. Returns how many programs the write waits for: with `through`, and without a buffer,
    /// those of its data, and else none, for a notice tells when all is buffered.
    pub(crate) fn write(
        &mut self,
        task: u32,
        (from, to): (u64, u64),
        through: bool,
        now: Nanos,
        events: &mut Events,
        counters: &mut Counters,
    ) -> u32 {
        self.buffer.last_write = now;
        if through || self.buffer.size == 0 {
            return self.write_through(task, from, to, now, events, counters);
        }
        self.buffer.waiting.push_back(Waiting { task, from, to });
        if self.buffer.waiting.len() == 1 {
            self.admit(now, events, counters);
        }
        0
    }

    fn write_through(
        &mut self,
        task: u32,
        from: u64,
        to: u64,
        now: Nanos,
        events: &mut Events,
        counters: &mut Counters,
    ) -> u32 {
        let mut programs = 0;
        for unit in from..to {
            let unit = self.fold(unit);
            if !self.buffer.pending.contains(&unit) {
                self.buffer.pending.push(unit);
                self.buffer.used += if self.buffer.size > 0 { UNIT } else { 0 };
            }
            if self.buffer.pending.len() == self.ftl.shape.units_per_program as usize {
                self.program(task, now, events, counters);
                programs += 1;
            }
        }
        if !self.buffer.pending.is_empty() {
            self.program(task, now, events, counters);
            programs += 1;
        }
        if programs == 0 {
            self.notices.push_back(Notice::Buffered { task });
        }
        programs
    }

    /// Takes waiting writes into the buffer, unit by unit, while it has room.
    fn admit(&mut self, now: Nanos, events: &mut Events, counters: &mut Counters) {
        while let Some(Waiting { task, from, to }) = self.buffer.waiting.front().copied() {
            let b = &mut self.buffer;
            // A buffer smaller than a program would never be emptied if it could not exceed its size.
            let emptying = !b.ended.is_empty();
            if b.closed && b.used > b.low && emptying {
                return;
            }
            b.closed = false;
            if from == to {
                b.waiting.pop_front();
                self.notices.push_back(Notice::Buffered { task });
                continue;
            }
            let unit = (from % u64::from(self.ftl.shape.logical_units)) as u32;
            if !b.pending.contains(&unit) {
                if b.used + UNIT > b.size && emptying {
                    b.closed = true;
                    return;
                }
                b.used += UNIT;
                b.pending.push(unit);
                b.last_write = now;
            }
            if let Some(first) = b.waiting.front_mut() {
                first.from += 1;
            }
            if b.pending.len() == self.ftl.shape.units_per_program as usize {
                self.program(NONE, now, events, counters);
            } else if !b.partial_is_due {
                b.partial_is_due = true;
                events.add(now + b.t_flushback, Sort::Other, Event::Partial);
            }
        }
    }

    /// A partial program may be due.
    pub(crate) fn partial(&mut self, now: Nanos, events: &mut Events, counters: &mut Counters) {
        let b = &mut self.buffer;
        b.partial_is_due = false;
        if b.pending.is_empty() {
            return;
        }
        let due = b.last_write + b.t_flushback;
        if due <= now {
            self.program(NONE, now, events, counters);
        } else {
            b.partial_is_due = true;
            events.add(due, Sort::Other, Event::Partial);
        }
    }

    /// Programs all that is buffered. Returns the number before which all programs must have ended, or `None` if they have.
    pub(crate) fn flush(&mut self, now: Nanos, events: &mut Events, counters: &mut Counters) -> Option<u64> {
        if !self.buffer.pending.is_empty() {
            self.program(NONE, now, events, counters);
        }
        (!self.buffer.ended.is_empty()).then(|| self.buffer.next_seq())
    }

    /// Programs the pending units on the next die, for a write that waits for it.
    fn program(&mut self, task: u32, now: Nanos, events: &mut Events, counters: &mut Counters) {
        let units = self.buffer.pending.len() as u32;
        let die = self.place(units);
        if !self.ftl.has_room(die, units) {
            self.open_block(die, units, counters);
        }
        let (mut physical, mut runs, mut before) = (u32::MAX, 0, self.buffer.last_unit);
        for &unit in &self.buffer.pending {
            physical = physical.min(self.ftl.append(die, unit));
            runs += u32::from(before.is_none_or(|before| unit != before + 1));
            before = Some(unit);
        }
        self.buffer.last_unit = before;
        self.buffer.pending.clear();
        self.ftl.pad(die);
        self.dies[die as usize].assigned += 1;
        let order = self.next_order();
        let b = &mut self.buffer;
        let bytes = if b.size > 0 { u64::from(units) * UNIT } else { 0 };
        let program = Program { seq: b.next_seq(), die, physical, units, bytes, task, order };
        b.ended.push_back(false);
        if b.drain_per_run == 0.0 {
            return self.hand_over(program, now, events);
        }
        b.drain_free = now.max(b.drain_free) + Nanos((b.drain_per_run * f64::from(runs) + 0.5) as u64);
        b.draining.push_back(program);
        events.add(b.drain_free, Sort::Other, Event::Drained);
    }

    /// The controller is done with the program that entered first.
    pub(crate) fn drained(&mut self, now: Nanos, events: &mut Events) {
        if let Some(program) = self.buffer.draining.pop_front() {
            self.hand_over(program, now, events);
        }
    }

    /// A program has ended: its space is free, whatever became of those before it.
    pub(super) fn programmed(&mut self, program: Program, now: Nanos, events: &mut Events, counters: &mut Counters) {
        let b = &mut self.buffer;
        b.used -= program.bytes;
        b.ended[(program.seq - b.oldest) as usize] = true;
        let before = b.oldest;
        while b.ended.front() == Some(&true) {
            b.ended.pop_front();
            b.oldest += 1;
        }
        if b.oldest > before {
            self.notices.push_back(Notice::Durable { before: b.oldest });
        }
        self.admit(now, events, counters);
    }

    /// The die for the next program: round-robin over dies that can take more valid data and are not behind. A load whose lasting
    /// writes all fall on one die's turn would otherwise fill that die.
    fn place(&mut self, units: u32) -> u32 {
        let dies = self.ftl.shape.dies;
        let turn = self.buffer.next_die;
        let most = self.buffer.ended.len() as u32 / dies + BEHIND_MAX;
        let keeps = |die: &u32| self.ftl.can_keep(*die, units);
        let turns = || (turn..dies).chain(0..turn);
        let ready = |die: &u32| {
            let d = &self.dies[*die as usize];
            d.assigned < most && d.gc_due == Nanos::ZERO
        };
        let found = turns().find(|die| ready(die) && keeps(die));
        let die = found.or_else(|| turns().find(keeps)).unwrap_or(turn);
        self.buffer.next_die = if die + 1 == dies { 0 } else { die + 1 };
        die
    }

    /// Unmaps units.
    pub(crate) fn unmap(&mut self, from: u64, to: u64) {
        let most = u64::from(self.ftl.shape.logical_units);
        for unit in from..to.min(from.saturating_add(most)) {
            let unit = self.fold(unit);
            self.ftl.unmap(unit);
        }
    }
}
