//! Timelines of dies and channels, and the write buffer in front of them.

use std::collections::VecDeque;

use dumbwaiter_block::Nanos;

use super::ftl::{Ftl, UNMAPPED};
use super::params::Params;
use super::precondition;
use crate::Counters;

/// Completion time of an operation, with the breakdown of its latency.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    pub(crate) at: Nanos,
    pub(crate) queue: Nanos,
    pub(crate) media: Nanos,
    pub(crate) channel: Nanos,
    pub(crate) gc_stall: Nanos,
}

/// A program in progress or reserved on a die.
#[derive(Clone, Copy, Debug)]
struct Program {
    start: Nanos,
    end: Nanos,
    /// First physical unit and number of units whose data is still in the buffer.
    physical: u32,
    units: u32,
    /// Buffer space that its end frees, bytes.
    bytes: u64,
    /// Delay by garbage collection.
    gc_stall: Nanos,
}

#[derive(Debug, Default)]
struct Die {
    /// End of the last reservation.
    free: Nanos,
    /// The end of the last read.
    read_free: Nanos,
    programs: VecDeque<Program>,
    collecting: bool,
    /// Remaining time of the garbage collection in progress, whose block is free only at its end.
    gc_left: Nanos,
}

/// Dies, channels and write buffer.
#[derive(Debug)]
pub(crate) struct Flash {
    ftl: Ftl,
    dies: Vec<Die>,
    channel_free: Vec<Nanos>,
    channels: u32,
    t_read: Nanos,
    t_program: Nanos,
    t_erase: Nanos,
    planes: f64,
    /// Channel time of a command by its number of units.
    channel_time: Vec<Nanos>,
    read_first: bool,
    suspend_program: bool,
    suspend_erase: bool,
    t_suspend: Nanos,
    t_flushback: Nanos,
    buffer_bytes: u64,
    /// Bytes in the buffer, those being programmed included.
    used: u64,
    /// Units that wait until a program unit is full.
    pending: Vec<u32>,
    last_write: Nanos,
    next_die: u32,
    /// Dies of the programs in flight, in order of issue.
    order: VecDeque<u32>,
}

impl Flash {
    pub(crate) fn new(p: &Params) -> Flash {
        let us = Nanos::from_us_f64;
        let ftl = precondition::state(p);
        let most = ftl.shape.units_per_program.max(ftl.shape.units_per_page);
        let transfer = |units: u32| us(p.channel_command_us + f64::from(units) * 4096.0 / p.channel_mb_per_s);
        Flash {
            dies: (0..ftl.shape.dies).map(|_| Die::default()).collect(),
            channel_free: vec![Nanos::ZERO; p.channels as usize],
            channels: p.channels,
            t_read: us(p.t_read_us),
            t_program: us(p.t_program_us),
            t_erase: us(p.t_erase_us),
            planes: f64::from(p.planes),
            channel_time: (0..=most).map(transfer).collect(),
            read_first: p.read_first,
            suspend_program: p.suspend == "program+erase",
            suspend_erase: p.suspend != "none",
            t_suspend: us(p.t_suspend_us),
            t_flushback: us(p.t_flushback_us),
            buffer_bytes: p.write_buffer_bytes(),
            used: 0,
            pending: Vec::with_capacity(most as usize),
            last_write: Nanos::ZERO,
            next_die: 0,
            order: VecDeque::new(),
            ftl,
        }
    }

    fn fold(&self, unit: u64) -> u32 {
        (unit % u64::from(self.ftl.shape.logical_units)) as u32
    }

    /// Reads units `from..to` from `at` on; completes with the last page.
    pub(crate) fn read(&mut self, from: u64, to: u64, at: Nanos, counters: &mut Counters) -> Done {
        let per_page = self.ftl.shape.units_per_page;
        let mut last = Done { at, ..Done::default() };
        let mut unit = from;
        while unit < to {
            // One cell read serves all units of a physical page.
            let (page, die) = self.locate(unit);
            let mut count = 1;
            while unit + u64::from(count) < to && count < per_page && self.locate(unit + u64::from(count)).0 == page {
                count += 1;
            }
            unit += u64::from(count);
            if page != u64::MAX {
                let done = self.sense(die, count, at, counters);
                if done.at > last.at {
                    last = done;
                }
            }
        }
        last
    }

    /// Physical page and die of a unit; a unit that was never written gets a unique page number.
    fn locate(&self, unit: u64) -> (u64, u32) {
        let shape = &self.ftl.shape;
        let unit = self.fold(unit);
        match self.ftl.lookup(unit) {
            UNMAPPED => (u64::MAX, 0),
            physical if physical < UNMAPPED => {
                (u64::from(physical / shape.units_per_page), physical / shape.units_per_die())
            }
            _ => {
                let page = unit / shape.units_per_page;
                (1 << 32 | u64::from(page), page % shape.dies)
            }
        }
    }

    fn sense(&mut self, die: u32, units: u32, at: Nanos, counters: &mut Counters) -> Done {
        let waited_gc = self.collect_until(die, at, true, counters);
        let d = &mut self.dies[die as usize];
        let earliest = at.max(d.read_free);
        let mut start = earliest;
        let mut queued = d.programs.len();
        let mut suspended = None;
        if !self.read_first {
            start = start.max(d.free);
        }
        for (i, program) in d.programs.iter().enumerate() {
            if program.end <= start {
                continue;
            }
            if program.start >= start {
                queued = i;
                break;
            }
            if self.suspend_program {
                suspended = Some((i, start));
                start += self.t_suspend;
                queued = i + 1;
                break;
            }
            start = program.end;
        }
        if d.programs.is_empty() {
            start = start.max(d.free);
        }
        start += waited_gc;
        let sensed = start + self.t_read;
        let channel = &mut self.channel_free[(die % self.channels) as usize];
        let transfer = self.channel_time[units as usize];
        let send = sensed.max(*channel);
        let sent = send + transfer;
        *channel = sent;
        counters.media_busy += self.t_read;
        d.read_free = sent;
        // Programs that have not begun yield, and so do suspended ones.
        let mut free = sent;
        if let Some((i, since)) = suspended {
            d.programs[i].end += sent.since(since);
            free = d.programs[i].end;
        }
        for program in d.programs.iter_mut().skip(queued) {
            let shift = free.since(program.start);
            program.start += shift;
            program.end += shift;
            free = program.end;
        }
        d.free = d.free.max(free);
        Done {
            at: sent,
            queue: start.since(at).since(waited_gc) + send.since(sensed),
            media: self.t_read,
            channel: transfer,
            gc_stall: waited_gc,
        }
    }

    /// Whether the data of all units is still in the write buffer at `at`.
    pub(crate) fn buffers(&self, from: u64, to: u64, at: Nanos) -> bool {
        if self.used == 0 {
            return false;
        }
        (from..to).all(|unit| {
            let unit = self.fold(unit);
            if self.pending.contains(&unit) {
                return true;
            }
            let physical = self.ftl.lookup(unit);
            physical < UNMAPPED && {
                let die = &self.dies[(physical / self.ftl.shape.units_per_die()) as usize];
                let holds = |p: &Program| physical.wrapping_sub(p.physical) < p.units && p.end > at;
                die.programs.iter().rev().any(holds)
            }
        })
    }

    /// Writes units `from..to`, whose data has arrived at `at`. Completes when they are buffered or, with `through`,
    /// programmed.
    pub(crate) fn write(&mut self, from: u64, to: u64, at: Nanos, through: bool, counters: &mut Counters) -> Done {
        let mut done = Done { at, ..Done::default() };
        self.last_write = at;
        if through || self.buffer_bytes == 0 {
            let mut last = done;
            for unit in from..to {
                let unit = self.fold(unit);
                if !self.pending.contains(&unit) {
                    self.pending.push(unit);
                    self.used += if self.buffer_bytes > 0 { super::ftl::UNIT } else { 0 };
                }
                if self.pending.len() == self.ftl.shape.units_per_program as usize {
                    last = later(last, self.program(at, counters));
                }
            }
            if !self.pending.is_empty() {
                last = later(last, self.program(at, counters));
            }
            return last;
        }
        for unit in from..to {
            let unit = self.fold(unit);
            if self.pending.contains(&unit) {
                continue;
            }
            self.release(done.at);
            while self.used + super::ftl::UNIT > self.buffer_bytes {
                let Some(&die) = self.order.front() else { break };
                let Some(program) = self.dies[die as usize].programs.front() else { break };
                let wait = program.end.since(done.at);
                let stall = wait.min(program.gc_stall);
                done.gc_stall += stall;
                done.queue += wait.since(stall);
                done.at += wait;
                self.release(done.at);
            }
            self.used += super::ftl::UNIT;
            self.pending.push(unit);
            if self.pending.len() == self.ftl.shape.units_per_program as usize {
                self.program(done.at, counters);
            }
        }
        self.last_write = done.at;
        done
    }

    /// Programs the pending units on the next die; the breakdown starts at `at`.
    fn program(&mut self, at: Nanos, counters: &mut Counters) -> Done {
        let units = self.pending.len() as u32;
        let die = self.place(units);
        let channel = &mut self.channel_free[(die % self.channels) as usize];
        let transfer = self.channel_time[units as usize];
        let send = at.max(*channel);
        let sent = send + transfer;
        *channel = sent;
        let mut gc_stall = self.collect_until(die, sent, false, counters);
        if !self.ftl.has_room(die, units) {
            gc_stall += self.open_block(die, units, counters);
        }
        let mut physical = u32::MAX;
        for &unit in &self.pending {
            let to = self.ftl.append(die, unit);
            physical = physical.min(to);
        }
        self.pending.clear();
        self.ftl.pad(die);
        let d = &mut self.dies[die as usize];
        let start = sent.max(d.free) + gc_stall;
        let end = start + self.t_program;
        d.free = end;
        counters.media_busy += self.t_program;
        let bytes = if self.buffer_bytes > 0 { u64::from(units) * super::ftl::UNIT } else { 0 };
        d.programs.push_back(Program { start, end, physical, units, bytes, gc_stall });
        self.order.push_back(die);
        Done {
            at: end,
            queue: send.since(at) + start.since(sent).since(gc_stall),
            media: self.t_program,
            channel: transfer,
            gc_stall,
        }
    }

    /// The die for the next program: round-robin over dies that can take more valid data. A load whose lasting writes
    /// all fall on one die's turn would otherwise fill that die.
    fn place(&mut self, units: u32) -> u32 {
        let dies = self.ftl.shape.dies;
        let turn = self.next_die;
        let found = (turn..dies).chain(0..turn).find(|die| self.ftl.can_keep(*die, units));
        let die = found.unwrap_or(turn);
        self.next_die = if die + 1 == dies { 0 } else { die + 1 };
        die
    }

    /// Frees the buffer space of programs that ended by `now`, in order of issue.
    fn release(&mut self, now: Nanos) {
        while let Some(&die) = self.order.front() {
            let programs = &mut self.dies[die as usize].programs;
            let Some(program) = programs.front().filter(|program| program.end <= now) else { break };
            self.used -= program.bytes;
            programs.pop_front();
            self.order.pop_front();
        }
    }

    /// Advances to `now`: frees the space of finished programs and writes a partial program unit after its time-out.
    pub(crate) fn pass(&mut self, now: Nanos, counters: &mut Counters) {
        self.release(now);
        if !self.pending.is_empty() {
            let due = self.last_write + self.t_flushback;
            if due <= now {
                self.program(due, counters);
            }
        }
    }

    /// Programs all buffered data; returns the end of the last program.
    pub(crate) fn drain(&mut self, at: Nanos, counters: &mut Counters) -> Nanos {
        if !self.pending.is_empty() {
            self.program(at, counters);
        }
        let ends = self.dies.iter().filter_map(|die| die.programs.back().map(|program| program.end));
        ends.max().unwrap_or(at)
    }

    /// Unmaps units.
    pub(crate) fn unmap(&mut self, from: u64, to: u64) {
        let most = u64::from(self.ftl.shape.logical_units);
        for unit in from..to.min(from.saturating_add(most)) {
            let unit = self.fold(unit);
            self.ftl.unmap(unit);
        }
    }

    // ---- collection ----

    /// Free blocks of the die, without the one under collection.
    fn ready_blocks(&self, die: u32) -> u32 {
        let left = self.dies[die as usize].gc_left > Nanos::ZERO;
        self.ftl.free_blocks(die).saturating_sub(u32::from(left))
    }

    /// Opens a block for the next program of `units`: starts garbage collection when blocks run low, and waits for it
    /// when none is left. Returns the wait.
    fn open_block(&mut self, die: u32, units: u32, counters: &mut Counters) -> Nanos {
        let mut stall = Nanos::ZERO;
        // Collection may leave room in the block that it opened.
        while !self.ftl.has_room(die, units) && self.ready_blocks(die) <= self.ftl.shape.hard {
            if self.dies[die as usize].gc_left == Nanos::ZERO {
                self.begin_collection(die, counters);
            }
            stall += std::mem::take(&mut self.dies[die as usize].gc_left);
        }
        // The block about to be opened.
        if self.ready_blocks(die) <= self.ftl.shape.low {
            self.dies[die as usize].collecting = true;
        }
        stall
    }

    fn begin_collection(&mut self, die: u32, counters: &mut Counters) {
        let collected = self.ftl.collect(die);
        let reads = (f64::from(collected.pages) / self.planes) * self.t_read.0 as f64;
        let programs = f64::from(collected.units.div_ceil(self.ftl.shape.units_per_program));
        let busy = Nanos((reads + programs * self.t_program.0 as f64 + 0.5) as u64) + self.t_erase;
        self.dies[die as usize].gc_left = busy;
        counters.media_busy += busy;
        counters.gc_runs += 1;
        counters.gc_moved_pages += u64::from(collected.pages);
    }

    /// Gives a collecting die the time until `at`; returns the wait of a command that arrives then.
    fn collect_until(&mut self, die: u32, at: Nanos, read: bool, counters: &mut Counters) -> Nanos {
        if !self.dies[die as usize].collecting {
            return Nanos::ZERO;
        }
        loop {
            let free = self.dies[die as usize].free;
            if free >= at {
                return Nanos::ZERO;
            }
            if self.dies[die as usize].gc_left == Nanos::ZERO {
                if self.ftl.free_blocks(die) >= self.ftl.shape.high || self.ftl.has_no_garbage(die) {
                    self.dies[die as usize].collecting = false;
                    return Nanos::ZERO;
                }
                self.begin_collection(die, counters);
            }
            let d = &mut self.dies[die as usize];
            let used = at.since(free).min(d.gc_left);
            d.gc_left = Nanos(d.gc_left.0 - used.0);
            d.free = free + used;
            if d.gc_left > Nanos::ZERO {
                // The command arrived during a step: a program, or the erase at the end.
                let erasing = d.gc_left <= self.t_erase;
                let rest = match self.t_program.0 {
                    _ if erasing => d.gc_left,
                    0 => Nanos::ZERO,
                    step => Nanos(d.gc_left.since(self.t_erase).0 % step),
                };
                let suspends = read && if erasing { self.suspend_erase } else { self.suspend_program };
                if suspends && self.t_suspend < rest {
                    return self.t_suspend;
                }
                d.gc_left = Nanos(d.gc_left.0 - rest.0);
                return rest;
            }
        }
    }

    /// Garbage collection in an idle period `from..to`, on dies with few free blocks.
    pub(crate) fn collect_idle(&mut self, from: Nanos, to: Nanos, counters: &mut Counters) {
        for die in 0..self.ftl.shape.dies {
            if self.ftl.free_blocks(die) < self.ftl.shape.high {
                self.dies[die as usize].collecting = true;
            }
            if self.dies[die as usize].collecting {
                let free = self.dies[die as usize].free.max(from);
                self.dies[die as usize].free = free;
                let rest = self.collect_until(die, to, false, counters);
                self.dies[die as usize].free += rest;
            }
        }
    }
}

fn later(a: Done, b: Done) -> Done {
    if b.at > a.at { b } else { a }
}
