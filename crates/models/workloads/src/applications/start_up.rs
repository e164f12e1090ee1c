//! A program that is launched repeatedly with cold caches.

use dumbwaiter_block::{Flags, Nanos, Op};

use super::program::Step;
use crate::page_cache::OpenFile;
use crate::{ApplicationOutcome, Next, Want, Workload};

/// Synchronous reads between computations of a paced program.
const READS_PER_THINK: u32 = 9;
/// Length of a computation. With 67 of them a start of `oowriter-like` on an idle disk lasts as long as BFQ's raise (v7r8).
const THINK_TIME: Nanos = Nanos::from_ms(17);

/// Four buffered writes of 4 KiB near the end; the program waits until the page cache accepts each.
pub(super) struct Log {
    pub(super) file: OpenFile,
    pub(super) page: u64,
}

/// Positions of the log writes, in reads before the end.
const LOG_AT: [usize; 4] = [40, 30, 20, 10];

enum Phase {
    /// Not started.
    Nothing,
    /// Sleeping until the next launch.
    Pausing(Nanos),
    /// Running since the launch.
    Starting(Nanos),
    /// The launch is aborted; outstanding reads must complete.
    GivingUp,
    Done,
}

pub(super) struct StartUp {
    pub(super) kind: &'static str,
    pub(super) steps: Vec<Step>,
    pub(super) paced: bool,
    pub(super) timeout: Nanos,
    pub(super) launch_after: Nanos,
    pub(super) warmup: Nanos,
    pub(super) log: Option<Log>,
    logged: usize,
    /// Launches so far; each has new processes, which are new tasks.
    launches: u16,
    left: u32,
    doing: Phase,
    at: usize,
    reads: u32,
    waiting: bool,
    thinking: Option<Nanos>,
    outstanding: u32,
    started: Vec<Nanos>,
    not_started: u64,
}

impl StartUp {
    pub(super) fn new(kind: &'static str, steps: Vec<Step>, repeat: u32) -> StartUp {
        StartUp {
            kind,
            steps,
            paced: true,
            timeout: Nanos::from_secs(60),
            launch_after: Nanos::from_secs(3),
            warmup: Nanos::ZERO,
            log: None,
            logged: 0,
            launches: 0,
            left: repeat,
            doing: Phase::Nothing,
            at: 0,
            reads: 0,
            waiting: false,
            thinking: None,
            outstanding: 0,
            started: Vec::with_capacity(repeat as usize),
            not_started: 0,
        }
    }

    /// Ends a launch, completed or aborted.
    fn ended(&mut self, now: Nanos) {
        self.left -= 1;
        if self.left == 0 {
            self.stopped();
        }
        self.doing = if self.left == 0 { Phase::Done } else { Phase::Pausing(now + self.launch_after) };
    }

    fn go_on(&mut self, now: Nanos, launched: Nanos) -> Option<Next> {
        if now.since(launched) >= self.timeout {
            self.not_started += 1;
            self.doing = Phase::GivingUp;
            return None;
        }
        if self.waiting {
            if self.outstanding > 0 {
                return Some(Next::Blocked);
            }
            self.waiting = false;
            self.reads += 1;
            if self.paced && self.reads.is_multiple_of(READS_PER_THINK) {
                self.thinking = Some(now + THINK_TIME);
            }
        }
        if let Some(until) = self.thinking {
            if now < until {
                return Some(Next::Wait(until));
            }
            self.thinking = None;
        }
        if let (Some(log), Some(at)) = (&mut self.log, LOG_AT.get(self.logged))
            && self.at + at >= self.steps.len()
        {
            let (written, pause) = log.file.write(log.page + self.logged as u64, 1, now);
            self.logged += written as usize;
            return pause.map(Next::Pause).or_else(|| self.go_on(now, launched));
        }
        let Some(step) = self.steps.get(self.at) else {
            self.started.push(now.since(launched));
            self.ended(now);
            return None;
        };
        self.at += 1;
        self.waiting = step.waits;
        self.outstanding += 1;
        let flags = if step.metadata { Flags::META.with(Flags::PRIO) } else { Flags::NONE };
        let flags = if step.waits { flags } else { flags.with(Flags::RAHEAD) };
        let (sector, sectors) = (step.sector, step.sectors);
        let processes = self.steps.last().map_or(1, |last| last.process + 1);
        let task = (self.launches - 1).wrapping_mul(processes).wrapping_add(step.process);
        Some(Next::Issue(Want { op: Op::Read, sector, sectors, flags, ioprio: None, stream: 0, task }))
    }
}

impl Workload for StartUp {
    fn next(&mut self, now: Nanos) -> Next {
        loop {
            match self.doing {
                Phase::Nothing => self.doing = Phase::Pausing(now.max(self.warmup) + self.launch_after),
                Phase::Pausing(until) if now < until => return Next::Wait(until),
                Phase::Pausing(_) => {
                    (self.at, self.reads, self.waiting, self.thinking, self.logged) = (0, 0, false, None, 0);
                    self.launches += 1;
                    self.doing = Phase::Starting(now);
                }
                Phase::Starting(launched) => {
                    if let Some(next) = self.go_on(now, launched) {
                        return next;
                    }
                }
                Phase::GivingUp if self.outstanding > 0 => return Next::Blocked,
                Phase::GivingUp => self.ended(now),
                Phase::Done => return Next::Done,
            }
        }
    }

    fn completed(&mut self, _now: Nanos, _task: u16, _lat: Nanos) {
        self.outstanding -= 1;
    }

    fn stopped(&mut self) {
        if let Some(log) = &mut self.log {
            log.file.close();
        }
    }

    fn outcome(&self, now: Nanos) -> Option<ApplicationOutcome> {
        let under_way = match self.doing {
            Phase::Starting(launched) => Some(now.since(launched)),
            _ => None,
        };
        let overdue = under_way.is_some_and(|age| age >= self.timeout);
        Some(ApplicationOutcome::StartUps {
            kind: self.kind,
            timeout: self.timeout,
            started: self.started.clone(),
            not_started: self.not_started + u64::from(overdue),
            cut_off: under_way.filter(|_| !overdue),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two reads ahead, a synchronous one, and one more.
    fn steps() -> Vec<Step> {
        let step = |sector, waits| Step { process: 0, sector, sectors: 8, metadata: false, waits };
        vec![step(0, false), step(8, false), step(16, true), step(100, true)]
    }

    #[test]
    fn a_synchronous_read_waits_for_the_read_ahead_before_it() {
        let mut s = StartUp { paced: false, ..StartUp::new("x", steps(), 2) };
        let at = Nanos::from_secs(3);
        assert_eq!(s.next(Nanos::ZERO), Next::Wait(at));
        for _ in 0..3 {
            assert!(matches!(s.next(at), Next::Issue(_)));
        }
        assert_eq!(s.next(at), Next::Blocked);
        s.completed(at, 0, Nanos::ZERO);
        s.completed(at, 0, Nanos::ZERO);
        assert_eq!(s.next(at), Next::Blocked, "a batch is still in flight");
        s.completed(at, 0, Nanos::ZERO);
        assert!(matches!(s.next(at), Next::Issue(want) if want.sector == 100));
        let end = Nanos::from_secs(5);
        s.completed(end, 0, Nanos::ZERO);
        assert_eq!(s.next(end), Next::Wait(Nanos::from_secs(8)));
        let Some(ApplicationOutcome::StartUps { started, not_started, cut_off, .. }) = s.outcome(end) else { panic!() };
        assert_eq!((started, not_started, cut_off), (vec![Nanos::from_secs(2)], 0, None));
    }

    #[test]
    fn slow_launches_are_aborted() {
        let mut s = StartUp { timeout: Nanos::from_secs(1), ..StartUp::new("x", steps(), 1) };
        let at = Nanos::from_secs(3);
        s.next(Nanos::ZERO);
        while let Next::Issue(_) = s.next(at) {}
        let cut = |s: &StartUp, now| match s.outcome(now) {
            Some(ApplicationOutcome::StartUps { not_started, cut_off, .. }) => (not_started, cut_off),
            _ => panic!(),
        };
        assert_eq!(cut(&s, Nanos::from_ms(3500)), (0, Some(Nanos::from_ms(500))));
        assert_eq!(cut(&s, Nanos::from_secs(4)), (1, None));
        let late = Nanos::from_secs(9);
        (0..3).for_each(|_| s.completed(late, 0, Nanos::ZERO));
        assert_eq!(s.next(late), Next::Done);
        assert_eq!(cut(&s, late), (1, None));
    }
}
