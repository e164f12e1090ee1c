//! What each die does, step by step: reads, programs and garbage collection.

use dumbwaiter_block::Nanos;

use super::channel::Transfer;
use super::die::{Portion, Step, Work};
use super::events::{Event, Events, Sort};
use super::flash::{Flash, PAGE_TYPES};
use super::ftl::UNMAPPED;
use super::work::{NONE, Notice};
use crate::Counters;

impl Flash {
    /// Queues the pages of units `from..to` at their dies; returns how many there are.
    pub(crate) fn read(
        &mut self,
        task: u32,
        from: u64,
        to: u64,
        now: Nanos,
        events: &mut Events,
        counters: &mut Counters,
    ) -> u32 {
        let per_page = self.ftl.shape.units_per_page;
        let (mut unit, mut portions) = (from, 0);
        while unit < to {
            // One cell read serves all units of a physical page.
            let (page, die) = self.locate(unit);
            let mut count = 1;
            while unit + u64::from(count) < to && count < per_page && self.locate(unit + u64::from(count)).0 == page {
                count += 1;
            }
            unit += u64::from(count);
            if page != u64::MAX {
                portions += 1;
                let t_read = self.t_read[usize::from(count > 1)][(self.page_in_die(page) % PAGE_TYPES) as usize];
                let order = self.next_order();
                let index = self.channel_of(die);
                let turn = if self.in_order { self.channels[index].next_turn() } else { 0 };
                let portion = Portion { task, units: count, t_read, order, turn, gc_stall: Nanos::ZERO, arrived: now };
                self.queue_read(die, portion, now, events, counters);
            }
        }
        portions
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

    /// A number that consecutive pages of a die count up.
    fn page_in_die(&self, page: u64) -> u64 {
        if page >> 32 == 0 { page } else { (page & 0xffff_ffff) / u64::from(self.ftl.shape.dies) }
    }

    fn queue_read(&mut self, die: u32, portion: Portion, now: Nanos, events: &mut Events, counters: &mut Counters) {
        let d = &mut self.dies[die as usize];
        d.reads.push_back(portion);
        match d.step {
            Step::Idle => self.pick(die, now, events, counters),
            Step::Working => self.interrupt(die, now, events),
            _ => {}
        }
    }

    /// A read has arrived at a die that programs or collects garbage.
    fn interrupt(&mut self, die: u32, now: Nanos, events: &mut Events) {
        let d = &self.dies[die as usize];
        let rest = d.until.since(now);
        let collects = matches!(d.work, Some((Work::Collection(_), _)));
        let erases = collects && d.gc_left <= self.t_erase;
        let may = if erases { self.suspend_erase } else { self.suspend_program && self.piece == Nanos::ZERO };
        let allowed = self.reads_per_program == 0 || d.ran < self.reads_per_program;
        let suspends = self.read_first && may && allowed && self.t_suspend < rest;
        let d = &mut self.dies[die as usize];
        let waits = if suspends { self.t_suspend } else { rest };
        if collects && let Some(portion) = d.reads.back_mut() {
            portion.gc_stall = waits;
        }
        if suspends && let Some((_, left)) = &mut d.work {
            *left += rest;
            self.begin(die, Step::Suspending, now + waits, events);
        }
    }

    fn begin(&mut self, die: u32, step: Step, until: Nanos, events: &mut Events) {
        let d = &mut self.dies[die as usize];
        d.step = step;
        d.until = until;
        d.turn = d.turn.wrapping_add(1);
        let sort = if step == Step::Sensing { Sort::Sensed } else { Sort::Other };
        events.add(until, sort, Event::Die { die, turn: d.turn });
    }

    /// The step of a die that began as `turn` ends.
    pub(crate) fn step_ends(&mut self, die: u32, turn: u32, now: Nanos, events: &mut Events, counters: &mut Counters) {
        let d = &mut self.dies[die as usize];
        if d.turn != turn {
            return;
        }
        match d.step {
            Step::Sensing => {
                d.step = Step::Sending;
                if let Some(Portion { units, turn, .. }) = d.reading {
                    self.ask_channel(Transfer { die, read: true, units }, turn, now, events);
                }
            }
            Step::Working => {
                if let Some((work, Nanos::ZERO)) = d.work {
                    d.work = None;
                    self.finish(die, work, now, events, counters);
                }
                self.pick(die, now, events, counters);
            }
            Step::Suspending => self.pick(die, now, events, counters),
            Step::Idle | Step::Sending => {}
        }
    }

    fn finish(&mut self, die: u32, work: Work, now: Nanos, events: &mut Events, counters: &mut Counters) {
        match work {
            Work::Collection(piece) => {
                let d = &mut self.dies[die as usize];
                d.gc_left = d.gc_left.since(piece);
                d.gc_due = d.gc_due.since(piece);
                if d.gc_left == Nanos::ZERO {
                    d.gc_slice = Nanos::ZERO;
                }
            }
            Work::Program(program) => {
                let d = &mut self.dies[die as usize];
                d.assigned -= 1;
                d.gc_due = (d.gc_due + d.gc_slice).min(d.gc_left);
                if program.task != NONE {
                    let channel = self.channel_time[program.units as usize];
                    self.notices.push_back(Notice::Programmed { task: program.task, media: self.t_program, channel });
                }
                self.programmed(program, now, events, counters);
            }
        }
    }

    /// Chooses what a die does next.
    fn pick(&mut self, die: u32, now: Nanos, events: &mut Events, counters: &mut Counters) {
        let piece = self.collection_piece(die);
        let d = &mut self.dies[die as usize];
        d.step = Step::Idle;
        let collects = d.gc_left > Nanos::ZERO && d.gc_due >= piece;
        let programs = d.work.is_some() || !d.programs.is_empty() || collects;
        let read_goes = match (d.reads.front(), d.programs.front()) {
            (None, _) => false,
            (Some(_), _) if self.read_first => {
                !programs || self.reads_per_program == 0 || d.ran < self.reads_per_program
            }
            (Some(read), Some(program)) => d.work.is_none() && !collects && read.order < program.order,
            (Some(_), None) => d.work.is_none() && !collects,
        };
        if read_goes {
            d.ran = if programs { d.ran + 1 } else { 0 };
            self.sense(die, now, events, counters);
        } else if let Some((_, left)) = d.work {
            // A program that was suspended goes on, and one with points to suspend at goes on to the next.
            self.work_on(die, left, now, events);
        } else if collects {
            self.collect_piece(die, piece, now, events);
        } else if d.loaded {
            let Some(program) = d.programs.pop_front() else { return };
            d.loaded = false;
            d.work = Some((Work::Program(program), self.t_program));
            counters.media_busy += self.t_program;
            self.load(die, now, events);
            self.work_on(die, self.t_program, now, events);
        } else if d.programs.is_empty() && d.reads.is_empty() && self.has_collection(die, counters) {
            self.collect_piece(die, self.collection_piece(die), now, events);
        }
    }

    fn sense(&mut self, die: u32, now: Nanos, events: &mut Events, counters: &mut Counters) {
        let d = &mut self.dies[die as usize];
        let Some(mut portion) = d.reads.pop_front() else { return };
        portion.gc_stall = portion.gc_stall.min(now.since(portion.arrived));
        d.reading = Some(portion);
        counters.media_busy += portion.t_read;
        self.begin(die, Step::Sensing, now + portion.t_read, events);
    }

    /// Goes on with the work in progress until its end, or to the next point at which a read may interrupt.
    fn work_on(&mut self, die: u32, left: Nanos, now: Nanos, events: &mut Events) {
        let piece = if self.suspend_program && self.piece > Nanos::ZERO { left.min(self.piece) } else { left };
        let d = &mut self.dies[die as usize];
        // What resuming costs is part of the time of a suspension.
        d.ran = 0;
        if let Some((_, rest)) = &mut d.work {
            *rest = left.since(piece);
        }
        self.begin(die, Step::Working, now + piece, events);
    }

    fn collect_piece(&mut self, die: u32, piece: Nanos, now: Nanos, events: &mut Events) {
        self.dies[die as usize].work = Some((Work::Collection(piece), piece));
        self.work_on(die, piece, now, events);
    }

    /// A channel has transferred.
    pub(crate) fn transferred(&mut self, index: u32, now: Nanos, events: &mut Events, counters: &mut Counters) {
        let index = index as usize;
        let Some(Transfer { die, read, units }) = self.channels[index].carries.take() else { return };
        let d = &mut self.dies[die as usize];
        if read {
            if let Some(Portion { task, t_read, gc_stall, .. }) = d.reading.take() {
                let channel = self.channel_time[units as usize];
                self.notices.push_back(Notice::Sent { task, media: t_read, channel, gc_stall });
            }
            self.pick(die, now, events, counters);
        } else {
            d.loading = false;
            d.loaded = true;
            if d.step == Step::Idle {
                self.pick(die, now, events, counters);
            }
        }
        self.transfer(index, now, events);
    }
}
