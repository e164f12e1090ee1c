//! Dies and channels.
//!
//! A die does one thing at a time and has a queue of reads and one of programs. Nothing is reserved ahead: a program takes the
//! channel only when its die can take the data, and reads go before it, so that a deep queue of writes costs a read no more than
//! the step in which its die is.

use std::collections::VecDeque;

use dumbwaiter_block::Nanos;

use super::buffer::Buffer;
use super::events::{Event, Events, Sort};
use super::ftl::{Ftl, UNMAPPED};
use super::params::Params;
use super::precondition;
use super::work::{NONE, Notice, Program};
use crate::Counters;

/// Pages of each type follow each other: fast, middle, slow.
const PAGE_TYPES: u64 = 3;

/// Reads that a channel sends before it takes the data of a program that waits.
const READS_PER_LOAD: u32 = 8;

/// A page that a read needs, or the part of it.
#[derive(Clone, Copy, Debug)]
struct Portion {
    task: u32,
    units: u32,
    t_read: Nanos,
    /// Place in the order of arrivals at dies, and at the channel.
    order: u64,
    turn: u64,
    /// The rest of a step of garbage collection that it met.
    gc_stall: Nanos,
    arrived: Nanos,
}

/// What a die programs or moves.
#[derive(Clone, Copy, Debug)]
enum Work {
    Program(Program),
    /// A step of garbage collection of that length.
    Collection(Nanos),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Idle,
    Sensing,
    /// The page register waits for the channel or is being sent.
    Sending,
    /// A program or a step of garbage collection.
    Working,
    Suspending,
}

#[derive(Debug)]
pub(super) struct Die {
    step: Step,
    /// End of the step.
    until: Nanos,
    /// Number of the step.
    turn: u32,
    reads: VecDeque<Portion>,
    /// The read in progress, and the delay by garbage collection.
    reading: Option<Portion>,
    programs: VecDeque<Program>,
    /// The data of the first program is in the die's register, or on its way there.
    loaded: bool,
    loading: bool,
    /// What is in progress or suspended, and what is left of it.
    work: Option<(Work, Nanos)>,
    /// Reads since the last program.
    ran: u32,
    /// Programs that are its, also those that the controller has not handed over.
    pub(super) assigned: u32,
    /// Whether it collects when it is idle; time that garbage collection still needs, of that what is due, and what falls due with each program.
    pub(super) collecting: bool,
    pub(super) gc_left: Nanos,
    pub(super) gc_due: Nanos,
    pub(super) gc_slice: Nanos,
}

impl Die {
    fn new() -> Die {
        Die {
            step: Step::Idle,
            until: Nanos::ZERO,
            turn: 0,
            reads: VecDeque::new(),
            reading: None,
            programs: VecDeque::new(),
            loaded: false,
            loading: false,
            collecting: false,
            work: None,
            ran: 0,
            assigned: 0,
            gc_left: Nanos::ZERO,
            gc_due: Nanos::ZERO,
            gc_slice: Nanos::ZERO,
        }
    }

    /// Whether the data of a physical unit waits for its program here.
    pub(super) fn holds(&self, physical: u32) -> bool {
        let is = |p: &Program| physical.wrapping_sub(p.physical) < p.units;
        let current = matches!(&self.work, Some((Work::Program(program), _)) if is(program));
        current || self.programs.iter().any(is)
    }
}

/// A transfer over a channel.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    die: u32,
    /// Data of a read; else of a program.
    read: bool,
    units: u32,
}

/// A channel and what waits for it.
#[derive(Debug, Default)]
struct Channel {
    carries: Option<Transfer>,
    reads: VecDeque<Transfer>,
    loads: VecDeque<Transfer>,
    /// Reads since data of a program waits.
    ran: u32,
    /// Of a drive that sends in order: the reads from number `turn` on, each once it may go.
    ordered: VecDeque<Option<Transfer>>,
    turn: u64,
}

impl Channel {
    /// The place of a transfer that is asked for now.
    fn next_turn(&mut self) -> u64 {
        self.ordered.push_back(None);
        self.turn + self.ordered.len() as u64 - 1
    }

    /// The next transfer: data of reads before that of programs, within bounds.
    fn next(&mut self) -> Option<Transfer> {
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

/// Dies, channels and the write buffer in front of them.
#[derive(Debug)]
pub(crate) struct Flash {
    pub(super) ftl: Ftl,
    pub(super) dies: Vec<Die>,
    channels: Vec<Channel>,
    pub(super) buffer: Buffer,
    /// Cell read of each type of page, of one unit and of more.
    t_read: [[Nanos; PAGE_TYPES as usize]; 2],
    pub(super) t_program: Nanos,
    pub(super) t_erase: Nanos,
    pub(super) planes: f64,
    /// Channel time of a command by its number of units.
    channel_time: Vec<Nanos>,
    in_order: bool,
    read_first: bool,
    suspend_program: bool,
    suspend_erase: bool,
    t_suspend: Nanos,
    /// Longest piece of a program that a read cannot interrupt; 0: any point is one to suspend at.
    piece: Nanos,
    /// Reads of a die between two programs; 0: no limit.
    reads_per_program: u32,
    orders: u64,
    pub(super) notices: VecDeque<Notice>,
}

impl Flash {
    pub(crate) fn new(p: &Params) -> Flash {
        let us = Nanos::from_us_f64;
        let ftl = precondition::state(p);
        let most = ftl.shape.units_per_program.max(ftl.shape.units_per_page);
        let transfer = |units: u32| us(p.channel_command_us + f64::from(units) * 4096.0 / p.channel_mb_per_s);
        let or_middle = |t: f64| if t > 0.0 { t } else { p.t_read_us };
        let types = [or_middle(p.t_read_fast_us), p.t_read_us, or_middle(p.t_read_slow_us)];
        Flash {
            dies: (0..ftl.shape.dies).map(|_| Die::new()).collect(),
            channels: (0..p.channels).map(|_| Channel::default()).collect(),
            buffer: Buffer::new(p, most),
            t_read: [types.map(us), types.map(|t| us(t * p.t_read_large))],
            t_program: us(p.t_program_us),
            t_erase: us(p.t_erase_us),
            planes: f64::from(p.planes),
            channel_time: (0..=most).map(transfer).collect(),
            in_order: p.in_order,
            read_first: p.read_first,
            suspend_program: p.suspend == "program+erase",
            suspend_erase: p.suspend != "none",
            t_suspend: us(p.t_suspend_us),
            piece: us(p.suspend_every_us),
            reads_per_program: p.reads_per_program as u32,
            orders: 0,
            notices: VecDeque::new(),
            ftl,
        }
    }

    pub(super) fn fold(&self, unit: u64) -> u32 {
        (unit % u64::from(self.ftl.shape.logical_units)) as u32
    }

    /// The least time from the end of a cell read to the end of its transfer.
    pub(super) fn least_transfer(&self) -> Nanos {
        self.channel_time[1]
    }

    /// The shortest cell read.
    pub(super) fn least_read(&self) -> Nanos {
        self.t_read.as_flattened().iter().copied().min().unwrap_or(Nanos::ZERO)
    }

    pub(super) fn middle_read(&self) -> Nanos {
        self.t_read[0][1]
    }

    pub(crate) fn next_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    pub(super) fn next_order(&mut self) -> u64 {
        self.orders += 1;
        self.orders
    }

    // ---- reads ----

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

    // ---- what a die does ----

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

    // ---- programs ----

    /// The controller hands a program to its die.
    pub(super) fn hand_over(&mut self, program: Program, now: Nanos, events: &mut Events) {
        let die = program.die;
        self.dies[die as usize].programs.push_back(program);
        self.load(die, now, events);
    }

    /// Sends the data of a die's next program, if its register is free.
    fn load(&mut self, die: u32, now: Nanos, events: &mut Events) {
        let d = &mut self.dies[die as usize];
        if d.loaded || d.loading {
            return;
        }
        let Some(Program { units, .. }) = d.programs.front().copied() else { return };
        d.loading = true;
        self.ask_channel(Transfer { die, read: false, units }, 0, now, events);
    }

    // ---- channels ----

    fn channel_of(&self, die: u32) -> usize {
        die as usize % self.channels.len()
    }

    fn ask_channel(&mut self, transfer: Transfer, turn: u64, now: Nanos, events: &mut Events) {
        let index = self.channel_of(transfer.die);
        let channel = &mut self.channels[index];
        if self.in_order && transfer.read {
            channel.ordered[(turn - channel.turn) as usize] = Some(transfer);
        } else if transfer.read {
            channel.reads.push_back(transfer);
        } else {
            channel.loads.push_back(transfer);
        }
        self.transfer(index, now, events);
    }

    /// Begins the next transfer of a channel, if it is free.
    fn transfer(&mut self, index: usize, now: Nanos, events: &mut Events) {
        let channel = &mut self.channels[index];
        if channel.carries.is_some() {
            return;
        }
        channel.carries = channel.next();
        if let Some(Transfer { units, read, .. }) = channel.carries {
            let sort = if read { Sort::Sent } else { Sort::Other };
            events.add(now + self.channel_time[units as usize], sort, Event::Channel(index as u32));
        }
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
