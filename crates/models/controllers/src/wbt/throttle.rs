//! The throttle itself: counts, limits, and the verdict of each window (Linux 6.12 and 6.18, `blk-wbt`).
//!
//! Times and events go in, verdicts and those that may go on come out. A request is known by its id alone.

use std::collections::VecDeque;

use dumbwaiter_block::{Flags, Nanos, Op, RequestId};

use super::limits::{Limits, limits, window};
use crate::kernel_timer::Jiffies;

/// Windows without a verdict after which a step goes towards 0.
const UNKNOWN_MAX: u32 = 5;
/// Writes that must end in a window for its reads to be judged.
const WRITES_MIN: u64 = 3;

/// The counters of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Write-back, and other buffered writes.
    Writeback = 0,
    /// Pages that go to swap.
    Swap = 1,
    /// Discards.
    Discard = 2,
}

/// The counter of an I/O; `None`: it passes uncounted, as reads and direct writes do.
pub fn class_of(op: Op, flags: Flags) -> Option<Class> {
    match op {
        Op::Write if flags.has(Flags::SYNC.with(Flags::IDLE)) => None,
        Op::Write if flags.any(Flags::SWAP) => Some(Class::Swap),
        Op::Write | Op::Flush => Some(Class::Writeback),
        Op::Discard => Some(Class::Discard),
        _ => None,
    }
}

/// What a window said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Reads met the target beside writes.
    Ok = 1,
    /// Nothing to judge.
    Unknown = 2,
    /// There were writes, and too few reads or writes to judge.
    WritesOnly = 3,
    /// Reads missed the target.
    Exceeded = 4,
}

/// One that sleeps: its request, and the flags by which its limit is chosen.
#[derive(Clone, Copy, Debug)]
struct Sleeper {
    id: RequestId,
    flags: Flags,
}

#[derive(Clone, Debug, Default)]
struct Counter {
    inflight: u32,
    sleepers: VecDeque<Sleeper>,
}

/// The throttle of one device.
#[derive(Clone, Debug)]
pub struct Throttle {
    jiffies: Jiffies,
    /// Ticks of a second: to compute them is a division.
    second: i64,
    /// The device has a volatile write cache.
    volatile_cache: bool,
    depth: u32,
    target: Nanos,
    step: i32,
    topped: bool,
    limits: Limits,
    counters: [Counter; 3],
    timer: Option<Nanos>,
    window: Nanos,
    /// When the last read asked for a request, and completed; when a dirtier last went to sleep.
    read_asked: Option<Nanos>,
    read_completed: Option<Nanos>,
    waited: Option<Nanos>,
    /// A read in the device, and since when.
    watched: Option<(RequestId, Nanos)>,
    unknown: u32,
    /// Of the window: the fastest read, and how many writes ended.
    fastest_read: Option<Nanos>,
    writes: u64,
    /// Windows by verdict, in the order of [`Verdict`].
    verdicts: [u64; 4],
    held: u64,
}

impl Throttle {
    /// A throttle of a device of this depth, with a target of 0: it throttles nothing.
    pub fn new(jiffies: Jiffies, depth: u32, volatile_cache: bool) -> Throttle {
        let (none, _) = limits(depth, 0, false);
        Throttle {
            jiffies,
            second: jiffies.hz(),
            volatile_cache,
            depth,
            target: Nanos::ZERO,
            step: 0,
            topped: false,
            limits: none,
            counters: Default::default(),
            timer: None,
            window: window(0),
            read_asked: None,
            read_completed: None,
            waited: None,
            watched: None,
            unknown: 0,
            fastest_read: None,
            writes: 0,
            verdicts: [0; 4],
            held: 0,
        }
    }

    /// A throttle of a device that was just set up. Its first second counts as one in which a dirtier slept.
    pub fn set_up(jiffies: Jiffies, depth: u32, volatile_cache: bool, now: Nanos) -> Throttle {
        let fresh = Throttle::new(jiffies, depth, volatile_cache);
        Throttle { waited: Some(now), ..fresh }
    }

    /// The latency that reads should have; 0: nothing is throttled.
    pub fn target(&self) -> Nanos {
        self.target
    }

    /// The step: positive while writes are throttled, negative while they have more room.
    pub fn step(&self) -> i32 {
        self.step
    }

    /// The limits in force.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// When [`Throttle::tick`] must be called, if ever.
    pub fn timer(&self) -> Option<Nanos> {
        self.timer
    }

    /// Requests that are counted now.
    pub fn inflight(&self) -> u32 {
        self.counters.iter().map(|counter| counter.inflight).sum()
    }

    /// Windows by verdict, in the order of [`Verdict`].
    pub fn verdicts(&self) -> [u64; 4] {
        self.verdicts
    }

    /// Requests that slept so far.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Sets the target, and begins at step 0. What slept may go on.
    pub fn set_target(&mut self, target: Nanos, now: Nanos, go: &mut dyn FnMut(RequestId, Class)) {
        self.target = target;
        self.restart(now, go);
    }

    /// The device's queue has another depth.
    pub fn set_depth(&mut self, depth: u32, now: Nanos, go: &mut dyn FnMut(RequestId, Class)) {
        self.depth = depth;
        self.restart(now, go);
    }

    fn restart(&mut self, now: Nanos, go: &mut dyn FnMut(RequestId, Class)) {
        self.step = 0;
        self.topped = false;
        self.unknown = 0;
        self.recompute();
        self.wake_all(now, go);
    }

    fn recompute(&mut self) -> bool {
        let (found, topped) = limits(self.depth, self.step, self.target > Nanos::ZERO);
        self.limits = found;
        topped
    }

    /// A dirtier sleeps in the page cache: writers are throttled there.
    pub fn writer_paused(&mut self, now: Nanos) {
        self.waited = Some(now);
    }

    /// A read is about to get its request.
    pub fn read_asks(&mut self, now: Nanos) {
        self.read_asked = Some(now);
    }

    fn waited_recently(&self, now: Nanos) -> bool {
        self.within(self.waited, now, self.second)
    }

    /// Did `then` come fewer than this many steps of the tick counter ago? The counter is asked only near the border: a
    /// division a request is what most of this would cost.
    fn within(&self, then: Option<Nanos>, now: Nanos, ticks: i64) -> bool {
        let Some(then) = then else { return false };
        let (age, period) = (now.since(then).0, self.jiffies.clock.period.0);
        let border = period.saturating_mul(ticks as u64);
        if age.saturating_add(period) < border {
            true
        } else if age > border.saturating_add(period) {
            false
        } else {
            self.jiffies.at(now) - self.jiffies.at(then) < ticks
        }
    }

    fn limit(&self, class: Class, flags: Flags, now: Nanos) -> u32 {
        let urgent = Flags::SYNC.with(Flags::META).with(Flags::PRIO).with(Flags::SWAP);
        let tenth = self.second / 10;
        if class == Class::Discard {
            self.limits.background
        } else if flags.any(urgent) || self.waited_recently(now) {
            self.limits.max
        } else if flags.any(Flags::BACKGROUND)
            || self.within(self.read_asked, now, tenth)
            || self.within(self.read_completed, now, tenth)
        {
            self.limits.background
        } else {
            self.limits.normal
        }
    }

    /// A counted request asks to pass. `false`: its task sleeps.
    pub fn admit(&mut self, id: RequestId, class: Class, flags: Flags, now: Nanos) -> bool {
        let limit = self.limit(class, flags, now);
        let counter = &mut self.counters[class as usize];
        if !counter.sleepers.is_empty() || counter.inflight >= limit {
            counter.sleepers.push_back(Sleeper { id, flags });
            self.held += 1;
            return false;
        }
        self.admitted(class, now);
        true
    }

    /// A request of this class got through.
    pub fn admitted(&mut self, class: Class, now: Nanos) {
        self.counters[class as usize].inflight += 1;
        if self.timer.is_none() {
            self.arm(now);
        }
    }

    fn arm(&mut self, now: Nanos) {
        self.window = window(self.step);
        let ticks = (self.window.0 / self.jiffies.clock.period.0.max(1)) as i64;
        self.timer = Some(self.jiffies.timer(now, self.jiffies.at(now) + ticks));
    }

    /// The driver took a request.
    pub fn started(&mut self, id: RequestId, op: Op, now: Nanos) {
        if op == Op::Read && self.watched.is_none() {
            self.watched = Some((id, now));
        }
    }

    /// A request left the driver, after this time in it. That counts in a window that is open now, whenever it began: a read that
    /// the driver took just before the first write counts (recordings of Linux 6.12).
    pub fn ended(&mut self, id: RequestId, op: Op, service: Option<Nanos>, now: Nanos) {
        if op == Op::Read {
            self.read_completed = Some(now);
            self.watched = self.watched.filter(|(watched, _)| *watched != id);
        }
        match service.filter(|_| self.timer.is_some()) {
            Some(service) if op == Op::Read => {
                self.fastest_read = Some(self.fastest_read.map_or(service, |fastest| fastest.min(service)));
            }
            Some(_) if op != Op::Flush => self.writes += 1,
            _ => {}
        }
    }

    /// A counted request is freed.
    pub fn freed(&mut self, class: Class, now: Nanos, go: &mut dyn FnMut(RequestId, Class)) {
        let inflight = self.counters[class as usize].inflight.saturating_sub(1);
        self.counters[class as usize].inflight = inflight;
        let below = match class {
            Class::Discard => self.limits.background,
            // With a cache, what is written in the background goes in bursts.
            _ if self.volatile_cache && !self.waited_recently(now) => 0,
            _ => self.limits.normal,
        };
        if inflight > 0 && inflight >= below {
            return;
        }
        if inflight == 0 || below - inflight >= self.limits.background / 2 {
            self.wake(class, now, go);
        }
    }

    /// Sleepers of a counter try in turn; the first that may not go ends it. Without a target all go, counted, as their ends will be.
    fn wake(&mut self, class: Class, now: Nanos, go: &mut dyn FnMut(RequestId, Class)) {
        while let Some(Sleeper { id, flags }) = self.counters[class as usize].sleepers.front().copied() {
            let limit = self.limit(class, flags, now);
            if self.target > Nanos::ZERO && self.counters[class as usize].inflight >= limit {
                return;
            }
            self.counters[class as usize].sleepers.pop_front();
            self.admitted(class, now);
            go(id, class);
        }
    }

    fn wake_all(&mut self, now: Nanos, go: &mut dyn FnMut(RequestId, Class)) {
        for class in [Class::Writeback, Class::Swap, Class::Discard] {
            self.wake(class, now, go);
        }
    }

    fn verdict(&self, inflight: u32, now: Nanos) -> Verdict {
        let age = self.watched.map_or(Nanos::ZERO, |(_, since)| now.since(since));
        if age > self.window || (age > self.target && self.fastest_read.is_none()) {
            return Verdict::Exceeded;
        }
        match self.fastest_read {
            Some(fastest) if self.writes >= WRITES_MIN && fastest > self.target => Verdict::Exceeded,
            Some(_) if self.writes >= WRITES_MIN => Verdict::Ok,
            _ if self.writes > 0 || inflight > 0 || self.waited_recently(now) => Verdict::WritesOnly,
            _ => Verdict::Unknown,
        }
    }

    /// The window is over: it is judged, the step changes, and those that may go on do. Answers `None` without a target.
    pub fn tick(&mut self, now: Nanos, go: &mut dyn FnMut(RequestId, Class)) -> Option<Verdict> {
        self.timer = None;
        if self.target == Nanos::ZERO {
            return None;
        }
        let inflight = self.inflight();
        let verdict = self.verdict(inflight, now);
        self.verdicts[verdict as usize - 1] += 1;
        match verdict {
            Verdict::Exceeded => self.throttle(true),
            Verdict::Ok | Verdict::WritesOnly => self.open(now, go),
            Verdict::Unknown => {
                self.unknown += 1;
                if self.unknown >= UNKNOWN_MAX && self.step > 0 {
                    self.open(now, go);
                } else if self.unknown >= UNKNOWN_MAX && self.step < 0 {
                    self.throttle(false);
                }
            }
        }
        (self.fastest_read, self.writes) = (None, 0);
        if self.step != 0 || inflight > 0 {
            self.arm(now);
        }
        Some(verdict)
    }

    /// More room for writes.
    fn open(&mut self, now: Nanos, go: &mut dyn FnMut(RequestId, Class)) {
        if self.topped {
            return;
        }
        self.step -= 1;
        self.topped = self.recompute();
        self.unknown = 0;
        self.wake_all(now, go);
    }

    /// Less room for writes. `hard`: all that was gained at once.
    fn throttle(&mut self, hard: bool) {
        if self.limits.max == 1 {
            return;
        }
        self.step = if hard && self.step < 0 { 0 } else { self.step + 1 };
        self.topped = false;
        self.recompute();
        self.unknown = 0;
    }
}
