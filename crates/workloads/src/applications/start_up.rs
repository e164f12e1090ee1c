//! A program that is started again and again, with nothing of it in memory.

use dumbwaiter_block::{Flags, Nanos, Op};

use super::program::Step;
use crate::{Next, Outcome, Want, Workload};

/// After so many synchronous reads the paced program computes.
const THINK_AFTER: u32 = 9;
/// For so long: 67 times in a start of `oowriter-like`, 2.5 s together.
const THINK: Nanos = Nanos::from_ms(37);

enum Doing {
    /// Not asked yet.
    Nothing,
    /// Until the next launch.
    Pausing(Nanos),
    /// Since the launch.
    Starting(Nanos),
    /// The start is given up; what is outstanding has to come back.
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
    left: u32,
    doing: Doing,
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
            left: repeat,
            doing: Doing::Nothing,
            at: 0,
            reads: 0,
            waiting: false,
            thinking: None,
            outstanding: 0,
            started: Vec::with_capacity(repeat as usize),
            not_started: 0,
        }
    }

    /// One launch has ended, one way or the other.
    fn ended(&mut self, now: Nanos) {
        self.left -= 1;
        self.doing = if self.left == 0 { Doing::Done } else { Doing::Pausing(now + self.launch_after) };
    }

    fn go_on(&mut self, now: Nanos, launched: Nanos) -> Option<Next> {
        if now.since(launched) >= self.timeout {
            self.not_started += 1;
            self.doing = Doing::GivingUp;
            return None;
        }
        if self.waiting {
            if self.outstanding > 0 {
                return Some(Next::Blocked);
            }
            self.waiting = false;
            self.reads += 1;
            if self.paced && self.reads.is_multiple_of(THINK_AFTER) {
                self.thinking = Some(now + THINK);
            }
        }
        if let Some(until) = self.thinking {
            if now < until {
                return Some(Next::Wait(until));
            }
            self.thinking = None;
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
        Some(Next::Issue(Want { op: Op::Read, sector, sectors, flags, ioprio: None, stream: 0, task: 0 }))
    }
}

impl Workload for StartUp {
    fn next(&mut self, now: Nanos) -> Next {
        loop {
            match self.doing {
                Doing::Nothing => self.doing = Doing::Pausing(now.max(self.warmup) + self.launch_after),
                Doing::Pausing(until) if now < until => return Next::Wait(until),
                Doing::Pausing(_) => {
                    (self.at, self.reads, self.waiting, self.thinking) = (0, 0, false, None);
                    self.doing = Doing::Starting(now);
                }
                Doing::Starting(launched) => {
                    if let Some(next) = self.go_on(now, launched) {
                        return next;
                    }
                }
                Doing::GivingUp if self.outstanding > 0 => return Next::Blocked,
                Doing::GivingUp => self.ended(now),
                Doing::Done => return Next::Done,
            }
        }
    }

    fn completed(&mut self, _now: Nanos, _task: u16, _lat: Nanos) {
        self.outstanding -= 1;
    }

    fn outcome(&self, now: Nanos) -> Option<Outcome> {
        let overdue = matches!(self.doing, Doing::Starting(launched) if now.since(launched) >= self.timeout);
        let under_way = matches!(self.doing, Doing::Starting(_));
        Some(Outcome::StartUps {
            kind: self.kind,
            timeout: self.timeout,
            started: self.started.clone(),
            not_started: self.not_started + u64::from(overdue),
            cut_off: u64::from(under_way && !overdue),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two reads ahead, one that waits, and one more.
    fn steps() -> Vec<Step> {
        let step = |sector, waits| Step { sector, sectors: 8, metadata: false, waits };
        vec![step(0, false), step(8, false), step(16, true), step(100, true)]
    }

    #[test]
    fn read_ahead_is_waited_for_with_the_read_behind_it() {
        let mut s = StartUp { paced: false, ..StartUp::new("x", steps(), 2) };
        let at = Nanos::from_secs(3);
        assert_eq!(s.next(Nanos::ZERO), Next::Wait(at));
        for _ in 0..3 {
            assert!(matches!(s.next(at), Next::Issue(_)));
        }
        assert_eq!(s.next(at), Next::Blocked);
        s.completed(at, 0, Nanos::ZERO);
        s.completed(at, 0, Nanos::ZERO);
        assert_eq!(s.next(at), Next::Blocked, "a batch is still under way");
        s.completed(at, 0, Nanos::ZERO);
        assert!(matches!(s.next(at), Next::Issue(want) if want.sector == 100));
        let end = Nanos::from_secs(5);
        s.completed(end, 0, Nanos::ZERO);
        assert_eq!(s.next(end), Next::Wait(Nanos::from_secs(8)));
        let Some(Outcome::StartUps { started, not_started, cut_off, .. }) = s.outcome(end) else { panic!() };
        assert_eq!((started, not_started, cut_off), (vec![Nanos::from_secs(2)], 0, 0));
    }

    #[test]
    fn what_takes_too_long_is_given_up() {
        let mut s = StartUp { timeout: Nanos::from_secs(1), ..StartUp::new("x", steps(), 1) };
        let at = Nanos::from_secs(3);
        s.next(Nanos::ZERO);
        while let Next::Issue(_) = s.next(at) {}
        let cut = |s: &StartUp, now| match s.outcome(now) {
            Some(Outcome::StartUps { not_started, cut_off, .. }) => (not_started, cut_off),
            _ => panic!(),
        };
        assert_eq!(cut(&s, Nanos::from_ms(3500)), (0, 1));
        assert_eq!(cut(&s, Nanos::from_secs(4)), (1, 0));
        let late = Nanos::from_secs(9);
        (0..3).for_each(|_| s.completed(late, 0, Nanos::ZERO));
        assert_eq!(s.next(late), Next::Done);
        assert_eq!(cut(&s, late), (1, 0));
    }
}
