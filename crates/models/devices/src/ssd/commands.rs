//! The way of each command through the controller.

use dumbwaiter_block::{Nanos, Op};

use super::events::{Event, Sort};
use super::streams::Fetch;
use super::task::{Barrier, Task};
use super::{Direction, Ssd, UNIT_SECTORS, units};
use crate::{Breakdown, Command, Completion};

/// Whether a command has more than one unit.
fn is_large(command: &Command) -> bool {
    let (from, to) = units(command);
    to > from + 1
}

impl Ssd {
    fn new_task(&mut self, command: Option<Command>, fetch: Option<Fetch>, seq: u64, now: Nanos) -> u32 {
        let index = self.free_tasks.pop().unwrap_or(self.tasks.len() as u32);
        if index as usize == self.tasks.len() {
            let waiters = Vec::new();
            let parts = Breakdown::default();
            self.tasks.push(Task {
                command,
                fetch,
                seq,
                arrival: now,
                left: 0,
                send: 0,
                senses: false,
                parts,
                waiters,
            });
        } else {
            let task = &mut self.tasks[index as usize];
            (task.command, task.fetch, task.seq, task.arrival) = (command, fetch, seq, now);
            (task.left, task.senses, task.parts) = (0, false, Breakdown::default());
        }
        index
    }

    /// Takes a command that does not fail.
    pub(super) fn accept(&mut self, command: &Command, seq: u64, now: Nanos) {
        let task = self.new_task(Some(*command), None, seq, now);
        self.unresolved += 1;
        if self.barrier.is_some() { self.behind.push_back(task) } else { self.fetch(task, now) }
    }

    /// Fetches a command, if the controller has room for it.
    fn fetch(&mut self, task: u32, now: Nanos) {
        let Some(command) = self.tasks[task as usize].command else { return };
        if self.active >= self.slots {
            self.unfetched.push(command.queue, task);
            return;
        }
        self.active += 1;
        match command.op {
            Op::Read => self.read(task, &command, now),
            Op::Write | Op::WriteZeroes => self.write(task, &command, now),
            Op::Flush if self.queued_flush => self.flush(task, now),
            Op::Flush => {
                self.barrier = Some(Barrier { task, began: false });
                self.begin_barrier(now);
            }
            Op::Discard | Op::SecureErase => self.discard(task, &command, now),
        }
    }

    /// A command has left the controller.
    pub(super) fn leave(&mut self, now: Nanos) {
        self.active -= 1;
        if let Some(task) = self.unfetched.pop() {
            self.fetch(task, now);
        }
    }

    /// Completes a command at a time that is known now.
    fn complete(&mut self, task: u32, at: Nanos) {
        let t = &mut self.tasks[task as usize];
        let Some(command) = t.command.take() else { return };
        let mut breakdown = t.parts;
        breakdown.queue = at.since(t.arrival).since(breakdown.sum());
        let completion = Completion { tag: command.tag, at, failed: false, breakdown };
        self.outbox.push(t.seq, completion);
        self.free_tasks.push(task);
        self.unresolved -= 1;
        self.last_completion = self.last_completion.max(at);
        if self.slots == u32::MAX {
            self.active -= 1
        } else {
            self.events.add(at, Sort::Other, Event::Left)
        }
        if self.barrier.is_some() {
            self.begin_barrier(self.last_completion);
        }
    }

    // ---- servers ----

    /// Reserves the serial firmware from now on; returns the end.
    fn firmware(&mut self, now: Nanos, duration: Nanos) -> Nanos {
        self.firmware_free = now.max(self.firmware_free) + duration;
        self.firmware_free
    }

    fn link_time(&self, bytes: u64) -> Nanos {
        Nanos((self.link_command_ns + bytes as f64 * self.link_ns_per_byte + 0.5) as u64)
    }

    /// Reserves the host link from `at` on; returns the end of the transfer, and its duration.
    fn link(&mut self, at: Nanos, bytes: u64, direction: Direction) -> (Nanos, Nanos) {
        let duration = self.link_time(bytes);
        let free = &mut self.link_free[if self.half_duplex { 0 } else { direction as usize }];
        *free = at.max(*free) + duration;
        self.counters.link_busy += duration;
        (*free, duration)
    }

    // ---- reads ----

    fn read(&mut self, task: u32, command: &Command, now: Nanos) {
        let (from, to) = units(command);
        let answer = self.streams.read(from, to);
        let awaited = self.streams.awaited().len();
        let cached = answer.cached || self.flash.buffers(from, to);
        // In the order of arrival, the whole of a command at once: a small read waits for the large ones before it as they do.
        let further = if cached { 0 } else { (to - from).saturating_sub(1) };
        let taken = self.firmware_read + Nanos((further as f64 * self.further_unit_ns + 0.5) as u64);
        let firm = self.firmware(now, taken);
        let ready = firm + self.latency_read;
        self.line_up(task);
        self.events.expect_link(self.link_time(command.bytes()));
        let t = &mut self.tasks[task as usize];
        t.parts.firmware = taken;
        t.left = 1;
        if cached {
            self.counters.cache_hits += 1;
            t.left += if answer.cached { awaited as u32 } else { 0 };
            if answer.cached {
                for i in 0..awaited {
                    let fetcher = self.streams.awaited()[i];
                    self.tasks[fetcher as usize].waiters.push(task);
                }
            }
            self.events.add(firm, Sort::Other, Event::Ready(task));
        } else {
            t.parts.firmware += self.latency_read;
            t.senses = true;
            self.events.add(ready, Sort::Ready, Event::Ready(task));
        }
        if let Some(fetch) = answer.fetch {
            let fetcher = self.new_task(None, Some(fetch), 0, now);
            let t = &mut self.tasks[fetcher as usize];
            (t.left, t.senses) = (1, true);
            self.streams.fetching(fetch, fetcher);
            self.events.add(ready, Sort::Ready, Event::Ready(fetcher));
        }
    }

    /// A read may go to the flash, if it has to.
    pub(super) fn ready(&mut self, task: u32, now: Nanos) {
        let t = &self.tasks[task as usize];
        if t.senses {
            let (from, to) = match (&t.command, &t.fetch) {
                (Some(command), _) => units(command),
                (None, Some(fetch)) => (fetch.from, fetch.to),
                (None, None) => return,
            };
            let pages = self.flash.read(task, from, to, now, &mut self.events, &mut self.counters);
            self.tasks[task as usize].left += pages;
        }
        self.part_done(task, now);
    }

    /// A page of a read has arrived from the flash.
    pub(super) fn sensed(&mut self, task: u32, parts: Breakdown, now: Nanos) {
        self.note_parts(task, parts);
        self.part_done(task, now);
    }

    /// The last part of a task tells how long it took.
    pub(super) fn note_parts(&mut self, task: u32, parts: Breakdown) {
        let t = &mut self.tasks[task as usize].parts;
        (t.media, t.channel, t.gc_stall) = (parts.media, parts.channel, parts.gc_stall);
    }

    /// A part of a task is done.
    pub(super) fn part_done(&mut self, task: u32, now: Nanos) {
        let t = &mut self.tasks[task as usize];
        t.left -= 1;
        if t.left > 0 {
            return;
        }
        let Some(command) = t.command else { return self.fetched(task, now) };
        if command.op != Op::Read {
            return self.stored(task, now);
        }
        self.send(task, now);
    }

    // ---- the link ----

    /// Takes a place among the commands that use the link in order.
    fn line_up(&mut self, task: u32) {
        if self.in_order {
            self.tasks[task as usize].send = self.first_send + self.sends.len() as u64;
            self.sends.push_back((task, false));
        }
    }

    /// A command's data may go over the link.
    pub(super) fn send(&mut self, task: u32, now: Nanos) {
        if !self.in_order {
            return self.transfer(task, now);
        }
        let place = (self.tasks[task as usize].send - self.first_send) as usize;
        self.sends[place].1 = true;
        while let Some((task, true)) = self.sends.front().copied() {
            self.sends.pop_front();
            self.first_send += 1;
            self.transfer(task, now);
        }
    }

    fn transfer(&mut self, task: u32, now: Nanos) {
        let Some(command) = self.tasks[task as usize].command else { return };
        if command.op == Op::Read { self.send_out(task, &command, now) } else { self.send_in(task, now) }
    }

    /// The data of a read goes over the link.
    fn send_out(&mut self, task: u32, command: &Command, now: Nanos) {
        let (end, link) = self.link(now, command.bytes(), Direction::Out);
        let latency = if is_large(command) { self.latency_large } else { Nanos::ZERO };
        let parts = &mut self.tasks[task as usize].parts;
        parts.link = link;
        parts.firmware += latency;
        self.complete(task, end + latency);
    }

    /// A batch of a stream is in the cache.
    fn fetched(&mut self, task: u32, now: Nanos) {
        if let Some(fetch) = self.tasks[task as usize].fetch.take() {
            self.streams.fetched(fetch.stream, task);
        }
        let mut waiters = std::mem::take(&mut self.tasks[task as usize].waiters);
        for waiter in waiters.drain(..) {
            self.part_done(waiter, now);
        }
        self.tasks[task as usize].waiters = waiters;
        self.free_tasks.push(task);
    }

    // ---- writes ----

    fn write(&mut self, task: u32, command: &Command, now: Nanos) {
        let firm = self.firmware(now, self.firmware_write);
        self.tasks[task as usize].parts.firmware = self.firmware_write + self.latency_write;
        if command.op != Op::Write {
            self.events.add(firm, Sort::Other, Event::Arrived(task));
        } else if self.half_duplex {
            self.line_up(task);
            self.events.add(firm, Sort::Other, Event::Fetched(task));
        } else {
            // Writes alone use this direction, in order, so the link's next use is known.
            self.send_in(task, firm);
        }
    }

    /// The data of a write goes over the link.
    fn send_in(&mut self, task: u32, now: Nanos) {
        let bytes = self.tasks[task as usize].command.map_or(0, |command| command.bytes());
        let (end, link) = self.link(now, bytes, Direction::In);
        self.tasks[task as usize].parts.link = link;
        self.events.add(end, Sort::Other, Event::Arrived(task));
    }

    /// The data of a write has arrived.
    pub(super) fn arrived(&mut self, task: u32, now: Nanos) {
        let Some(command) = self.tasks[task as usize].command else { return };
        let range = units(&command);
        let programs = self.flash.write(task, range, command.fua, now, &mut self.events, &mut self.counters);
        self.tasks[task as usize].left = programs;
    }

    /// A write is stored as it should be.
    pub(super) fn stored(&mut self, task: u32, now: Nanos) {
        self.complete(task, now + self.latency_write);
    }

    fn discard(&mut self, task: u32, command: &Command, now: Nanos) {
        let firm = self.firmware(now, self.firmware_write);
        let from = command.sector.div_ceil(UNIT_SECTORS);
        let to = (command.sector + u64::from(command.sectors)) / UNIT_SECTORS;
        self.flash.unmap(from, to);
        self.events.expect_at_once();
        self.tasks[task as usize].parts.firmware = self.firmware_write + self.latency_write;
        self.complete(task, firm + self.latency_write);
    }

    // ---- flushes ----

    fn flush(&mut self, task: u32, now: Nanos) {
        self.tasks[task as usize].parts.firmware = self.t_flush;
        match self.flash.flush(now, &mut self.events, &mut self.counters) {
            Some(before) => self.flushes.push_back((task, before)),
            None => self.flushed(task, now),
        }
    }

    /// All programs before a number have ended.
    pub(super) fn durable(&mut self, before: u64, now: Nanos) {
        while let Some((task, _)) = self.flushes.front().copied().filter(|(_, number)| *number <= before) {
            self.flushes.pop_front();
            self.flushed(task, now);
        }
    }

    /// The data that a flush waits for is in the cells.
    fn flushed(&mut self, task: u32, now: Nanos) {
        let end = now + self.t_flush;
        let is_barrier = self.barrier.is_some_and(|barrier| barrier.task == task);
        self.complete(task, end);
        if is_barrier {
            self.events.add(end, Sort::Other, Event::FlushEnded);
        }
    }

    /// A flush that is not queued begins once all other commands have ended, at the earliest at `at`.
    fn begin_barrier(&mut self, at: Nanos) {
        let others = self.unresolved - self.behind.len() as u32 - self.unfetched.len();
        if let Some(barrier) = &mut self.barrier
            && !barrier.began
            && others == 1
        {
            barrier.began = true;
            self.events.add(at.max(self.last_completion), Sort::Other, Event::FlushBegins);
        }
    }

    pub(super) fn begin_flush(&mut self, now: Nanos) {
        if let Some(Barrier { task, .. }) = self.barrier {
            self.flush(task, now);
        }
    }

    /// The flush that was not queued has ended: the commands behind it go on, up to the next one.
    pub(super) fn end_barrier(&mut self, now: Nanos) {
        self.barrier = None;
        while self.barrier.is_none() {
            let Some(task) = self.behind.pop_front() else { return };
            self.fetch(task, now);
        }
    }
}
