//! Calls that submit: what they cost, and their way through the scheduler's lock.

use dumbwaiter_block::{Nanos, Op};
use dumbwaiter_scenario::Completion;

use super::lock::{Then, Walk};
use super::{AWAY_PERCENT, Host, SUBMIT_PART};

/// Parts of a call's work outside the lock, in percent: between two takes, on issuing a request, and after the last.
const CALL_PERCENT: [u64; 3] = [4, 12, 20];

/// When the I/Os of a call are in the block layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// At this time.
    At(Nanos),
    /// After its way through the scheduler's lock, which it wants to take at this time.
    Takes(Nanos),
}

/// A call on its way through the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It wants the lock, again, at this time.
    Takes(Nanos),
    /// Its I/Os are in the block layer.
    Sends(Nanos),
    /// It waits.
    Waits,
}

impl Host {
    /// A call of `user` ns in the application and `path` ns in the kernel beside the scheduler, which takes `ios` I/Os that cost it
    /// `hooks` ns in all. `drive`: the one whose scheduler has the lock.
    /// `waits`: it is the only one of its CPU, and may wait for the lock.
    fn call(
        &mut self,
        cpu: usize,
        now: Nanos,
        user: u64,
        path: u64,
        (ios, hooks): (u32, u64),
        (drive, waits): (u8, bool),
    ) -> (u64, Arrival) {
        let (user, path) = (self.vary(user), self.vary(path));
        self.spent.user += user;
        self.spent.submit += path;
        let shape = self.cost.lock;
        if !shape.is_shared() || self.cpus.len() == 1 || hooks == 0 {
            let hooks = hooks * SUBMIT_PART / 1000;
            self.spent.scheduler += hooks;
            let (start, end) = self.book(cpu, now, user + path + hooks);
            return (start, Arrival::At(Nanos(end)));
        }
        let free = hooks * shape.free(SUBMIT_PART) / 1000;
        let takes = shape.takes(hooks / u64::from(ios.max(1)));
        self.spent.scheduler += free;
        let begin = self.cpus[cpu].free_at.max(now.0);
        let whole = user + path + free;
        let lock = &mut self.locks[usize::from(drive)];
        if !waits || lock.is_quiet(begin) {
            let under = lock.alone(cpu, ios, &takes, begin + whole);
            self.spent.scheduler += under;
            let (start, end) = self.book(cpu, now, whole + under);
            return (start, Arrival::At(Nanos(end)));
        }
        let part = |percent: u64| (path + free) * percent / 100;
        let [gap, issue, tail] = CALL_PERCENT.map(part);
        let walk = Walk::new(ios, takes, gap, issue / u64::from(ios.max(1)), tail);
        let (start, end) = self.book(cpu, now, whole - 3 * gap - issue - tail);
        self.cpus[cpu].drive = drive;
        self.locks[usize::from(drive)].begin(cpu, walk);
        (start, Arrival::Takes(Nanos(end)))
    }

    /// A CPU wants the scheduler's lock. Also returns when and of which drive the lock is to be handed on, if that was not known before.
    pub(crate) fn take_lock(&mut self, cpu: usize, now: Nanos) -> (Step, Option<(Nanos, u8)>) {
        self.now = self.now.max(now.0);
        if self.cpus[cpu].free_at > now.0 {
            // An interrupt came in between.
            return (Step::Takes(Nanos(self.cpus[cpu].free_at)), None);
        }
        let drive = self.cpus[cpu].drive;
        let (then, hand_on) = self.locks[usize::from(drive)].take(cpu, now.0);
        (then.map_or(Step::Waits, |then| self.under_lock(cpu, now, then)), hand_on.map(|at| (Nanos(at), drive)))
    }

    /// The lock of a drive's scheduler is free: the CPU that waited longest gets it.
    pub(crate) fn hand_on_lock(&mut self, drive: u8, now: Nanos) -> Option<(usize, Step, Option<Nanos>)> {
        self.now = self.now.max(now.0);
        let (cpu, then, next) = self.locks[usize::from(drive)].hand_on(now.0)?;
        Some((cpu, self.under_lock(cpu, now, then), next.map(Nanos)))
    }

    fn under_lock(&mut self, cpu: usize, now: Nanos, then: Then) -> Step {
        let (Then::Takes(at) | Then::Sends(at, _)) = then;
        let waited = now.0.saturating_sub(self.cpus[cpu].free_at);
        let work = waited + at.saturating_sub(now.0);
        let (_, end) = self.book(cpu, Nanos(self.cpus[cpu].free_at), work);
        self.spent.scheduler += work;
        self.spent.lock_wait += waited;
        self.cpus[cpu].lock_wait += waited;
        match then {
            Then::Takes(_) => Step::Takes(Nanos(end)),
            Then::Sends(_, tail) => {
                self.book(cpu, Nanos(end), tail);
                Step::Sends(Nanos(end))
            }
        }
    }

    /// Submits a single I/O; returns the time of the application's call and when the I/O is in the block layer. `away`: what the turn
    /// costs more after a sleep. `drive` and `waits`: see [`Host::submit_batch`].
    #[allow(clippy::too_many_arguments)]
    pub fn submit(
        &mut self,
        cpu: usize,
        now: Nanos,
        op: Op,
        sectors: u32,
        think: bool,
        away: u64,
        (drive, waits): (u8, bool),
    ) -> (Nanos, Arrival) {
        self.now = self.now.max(now.0);
        let (user_away, call_away) = rest_of(away);
        let before = if think { self.profile.u_out + user_away } else { 0 };
        let path = match self.completion {
            Completion::Sqpoll => self.profile.sqpoll[0] + self.profile.sqpoll[1],
            _ => self.profile.sub + self.profile.sub_per_kib * u64::from(sectors) / 2 + call_away,
        } + self.extra_work(cpu, sectors, drive);
        let cold = self.idle(cpu, Nanos(now.0.saturating_sub(1))) || self.cpus[cpu].slept;
        let hooks = self.hook(cpu, op, cold);
        let (start, arrival) = self.call(cpu, now, before, path, (1, hooks), (drive, waits));
        self.cpus[cpu].slept = false;
        (Nanos(start + before), arrival)
    }

    /// What an I/O costs more, ns: the pages of a large one, and another drive than the last.
    fn extra_work(&mut self, cpu: usize, sectors: u32, drive: u8) -> u64 {
        let before = std::mem::replace(&mut self.cpus[cpu].sent_to, drive);
        let other = if before == drive { 0 } else { self.profile.other_drive };
        self.profile.further_per_kib * u64::from(sectors.saturating_sub(8)) / 2 + other
    }

    /// Submits a batch by one system call, after `more` ns of reaping completions; returns the time of the first call
    /// and when the I/Os are in the block layer. `ios` are their operations, sectors and drives; `away`: what the turn costs more
    /// after a sleep; `drive`: that of the first, whose lock stands for those of all; `waits`: the thread has the CPU for itself, so
    /// that it may wait for the scheduler's lock.
    #[allow(clippy::too_many_arguments)]
    pub fn submit_batch(
        &mut self,
        cpu: usize,
        now: Nanos,
        more: u64,
        cold: bool,
        ios: impl Iterator<Item = (Op, u32, u8)>,
        away: u64,
        (drive, waits): (u8, bool),
    ) -> (Nanos, Arrival) {
        self.now = self.now.max(now.0);
        let p = &self.profile;
        let (u_out, (user_away, call_away)) = (p.u_out, rest_of(away));
        let (first, issue) = match self.completion {
            Completion::Sqpoll => (p.sqpoll[0], p.sqpoll[1]),
            _ if cold => (p.sub - p.issue.min(p.sub), p.issue),
            _ => (p.syscall, p.issue),
        };
        let (mut path, mut hooks, mut count) = (first + more + call_away, 0, 0);
        for (op, sectors, to) in ios {
            count += 1;
            path += issue + self.extra_work(cpu, sectors, to);
            hooks += self.hook(cpu, op, cold);
        }
        let user = u_out * u64::from(count) + user_away;
        let (start, arrival) = self.call(cpu, now, user, path, (count, hooks), (drive, waits));
        (Nanos(start + more + u_out + user_away), arrival)
    }
}

/// Of what a turn costs more after a sleep, the parts of the application and of its next call.
fn rest_of(away: u64) -> (u64, u64) {
    let user = away * AWAY_PERCENT[2] / 100;
    (user, away * (100 - AWAY_PERCENT[0] - AWAY_PERCENT[1]) / 100 - user)
}
