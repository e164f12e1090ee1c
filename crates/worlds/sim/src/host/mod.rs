//! The host model: CPUs, the submission and completion path, and the cost of schedulers.
//!
//! [`Host`] books CPU time; the run decides which thread may run when polling threads share a CPU.

mod activity;
mod hybrid;
mod profile;

use std::collections::VecDeque;

use dumbwaiter_block::{Nanos, Op, PollStats};

pub use dumbwaiter_scenario::Completion;

use self::activity::Timeline;
pub use self::activity::{Activity, Kind, PAIRS};
pub(crate) use self::hybrid::RingTime;
pub use self::profile::{FREE, PROFILES, Profile, R230_5_15, R230_5_18, SchedulerCost, scheduler_cost};

/// Cost of a scheduler after a sleep, with cold caches and predictors, in percent of the warm cost.
const COLD_PERCENT: u64 = 163;
/// Extension of the critical section by each waiter, in percent, for up to seven waiters.
const CONTENTION_PERCENT: u64 = 12;
const WAITERS_MAX: u64 = 7;
/// Part of a scheduler's cost that falls to submission (insert and dispatch), in percent.
const SUBMIT_PERCENT: u64 = 85;

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    /// End of the booked work.
    free_at: u64,
    /// Number of threads that poll on this CPU when it has no work, and the time since which they do.
    pollers: u32,
    polls_from: u64,
    busy: u64,
    /// Whether it idled since its last submission, so that caches and predictors are cold.
    slept: bool,
}

/// Where CPU time went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Application, between I/Os.
    pub user: u64,
    /// Submission without the scheduler.
    pub submit: u64,
    /// In the scheduler, lock waits included.
    pub scheduler: u64,
    /// Interrupts and completion.
    pub complete: u64,
}

impl Spent {
    /// Time since `earlier`.
    pub fn since(&self, earlier: &Spent) -> Spent {
        Spent {
            user: self.user - earlier.user,
            submit: self.submit - earlier.submit,
            scheduler: self.scheduler - earlier.scheduler,
            complete: self.complete - earlier.complete,
        }
    }
}

/// The CPUs of a run. Work is booked in the order of the calls.
#[derive(Clone)]
pub struct Host {
    /// Segments.
    pub profile: Profile,
    cost: SchedulerCost,
    completion: Completion,
    cpus: Vec<Cpu>,
    siblings: usize,
    /// Sorted intervals in which the scheduler's lock is held. CPUs book their work ahead, so they arrive in any order.
    holds: VecDeque<(u64, u64)>,
    spent: Spent,
    /// Waits for the scheduler's lock since they were last asked for.
    lock_wait: u64,
    timeline: Timeline,
    stats: PollStats,
    /// No booking begins before this time.
    now: u64,
}

impl Host {
    /// `cpus` logical CPUs; with `smt` two share a core. `legacy_link` adds the cost of SATA's driver.
    pub fn new(profile: &Profile, cost: SchedulerCost, cpus: u16, smt: bool, legacy_link: bool) -> Host {
        let mut profile = profile.clone();
        if legacy_link && profile.sub > 0 {
            profile.sub += 1500;
            profile.issue += 1500;
            profile.irq += 1000;
        }
        let cost = if profile.name == FREE.name { scheduler_cost("none") } else { cost };
        let cpus = usize::from(cpus.max(1));
        let siblings = if smt && cpus > 1 && cpus.is_multiple_of(2) { cpus / 2 } else { 0 };
        Host {
            profile,
            cost,
            completion: Completion::Interrupt,
            cpus: vec![Cpu::default(); cpus],
            siblings,
            holds: VecDeque::new(),
            spent: Spent::default(),
            lock_wait: 0,
            timeline: Timeline::new(cpus, siblings),
            stats: PollStats::default(),
            now: 0,
        }
    }

    /// The scheduler was exchanged for one of this cost.
    pub fn set_scheduler_cost(&mut self, cost: Option<SchedulerCost>) {
        if let Some(cost) = cost.filter(|_| self.profile.name != FREE.name) {
            self.cost = cost;
        }
    }

    /// Time for which work booked since the last call waits for the scheduler's lock.
    pub fn take_lock_wait(&mut self) -> u64 {
        std::mem::take(&mut self.lock_wait)
    }

    /// The same host with another completion method.
    pub fn with_completion(self, completion: Completion) -> Host {
        Host { completion, ..self }
    }

    /// The completion method.
    pub fn completion(&self) -> Completion {
        self.completion
    }

    /// Logical CPUs.
    pub fn cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Whether the CPU is idle at `at`.
    pub fn idle(&self, cpu: usize, at: Nanos) -> bool {
        self.cpus[cpu].pollers == 0 && self.cpus[cpu].free_at <= at.0
    }

    /// When the CPU has done the work that is booked so far.
    pub fn free_at(&self, cpu: usize) -> Nanos {
        Nanos(self.cpus[cpu].free_at)
    }

    /// Books `work` ns on a CPU from `at` on, or from when it is free; returns (start, end).
    fn book(&mut self, cpu: usize, at: Nanos, work: u64) -> (u64, u64) {
        let start = self.cpus[cpu].free_at.max(at.0);
        let mut work = work;
        if self.siblings > 0 && work > 0 {
            let sibling = (cpu + self.siblings) % self.cpus.len();
            if self.cpus[sibling].free_at > start {
                work = work * self.profile.smt_percent / 100;
            }
            self.polled_until(sibling, self.now);
        }
        if self.cpus[cpu].pollers > 0 {
            self.polled_until(cpu, start);
            self.cpus[cpu].polls_from = start + work;
        } else if start > self.cpus[cpu].free_at {
            self.timeline.total.wakes += 1;
            self.cpus[cpu].slept = true;
        }
        self.cpus[cpu].free_at = start + work;
        self.cpus[cpu].busy += work;
        self.timeline.book(cpu, start, start + work, Kind::Work, self.now);
        (start, start + work)
    }

    /// Accounts for the polling of a CPU until `until`.
    fn polled_until(&mut self, cpu: usize, until: u64) {
        let c = &mut self.cpus[cpu];
        if c.pollers > 0 && c.polls_from < until {
            c.busy += until - c.polls_from;
            self.timeline.book(cpu, c.polls_from, until, Kind::Poll, self.now);
            c.polls_from = until;
        }
    }

    /// A thread starts to poll on this CPU whenever it has no work, from `at` on or from when it is free; returns the
    /// start.
    pub fn start_poll(&mut self, cpu: usize, at: Nanos) -> Nanos {
        let c = &mut self.cpus[cpu];
        let from = c.free_at.max(at.0);
        if c.pollers == 0 {
            if from > c.free_at {
                self.timeline.total.wakes += 1;
            }
            c.polls_from = from;
        }
        c.pollers += 1;
        self.timeline.polling(from, true);
        Nanos(from)
    }

    /// A thread stops polling at `at`, or when the CPU's work is done.
    pub fn stop_poll(&mut self, cpu: usize, at: Nanos) {
        let until = self.cpus[cpu].free_at.max(at.0);
        self.polled_until(cpu, until);
        let c = &mut self.cpus[cpu];
        c.pollers -= 1;
        if c.pollers == 0 {
            c.free_at = until;
        }
        self.timeline.polling(until, false);
    }

    fn hook(&self, op: Op, cold: bool) -> u64 {
        let warm = if op == Op::Read { self.cost.read } else { self.cost.write };
        if cold { warm * COLD_PERCENT / 100 } else { warm }
    }

    /// CPU time of `percent` of the scheduler's work for a request that reaches it at `at`, lock wait included.
    fn in_scheduler(&mut self, at: u64, op: Op, cold: bool, percent: u64) -> u64 {
        let work = self.hook(op, cold) * percent / 100;
        let locked = work * self.cost.locked_percent / 100;
        if locked == 0 {
            return work;
        }
        let (wait, held) = self.take_lock(at, locked);
        self.lock_wait += wait;
        wait + held + (work - locked)
    }

    /// Takes the scheduler's lock from `at` on for `locked` ns, longer with waiters, in the first gap that is long
    /// enough. Returns the wait and the hold time.
    fn take_lock(&mut self, at: u64, locked: u64) -> (u64, u64) {
        while self.holds.front().is_some_and(|(_, to)| *to <= self.now) {
            self.holds.pop_front();
        }
        let longer = |wait: u64| locked * (100 + CONTENTION_PERCENT * wait.div_ceil(locked).min(WAITERS_MAX)) / 100;
        // Most calls are in order, so the search starts at the back.
        let mut place = self.holds.len();
        while place > 0 && self.holds[place - 1].1 > at {
            place -= 1;
        }
        let mut from = at;
        while let Some((next, to)) = self.holds.get(place) {
            if from + longer(from - at) <= *next {
                break;
            }
            from = from.max(*to);
            place += 1;
        }
        let held = longer(from - at);
        self.holds.insert(place, (from, from + held));
        (from - at, held)
    }

    /// Submits a single I/O; returns the time of the application's call and the arrival at the block layer.
    pub fn submit(&mut self, cpu: usize, now: Nanos, op: Op, sectors: u32, think: bool) -> (Nanos, Nanos) {
        self.now = self.now.max(now.0);
        let before = if think { self.profile.u_out } else { 0 };
        let path = match self.completion {
            Completion::Sqpoll => self.profile.sqpoll[0] + self.profile.sqpoll[1],
            _ => self.profile.sub + self.profile.sub_per_kib * u64::from(sectors) / 2,
        };
        let begin = self.cpus[cpu].free_at.max(now.0);
        let cold = self.idle(cpu, Nanos(now.0.saturating_sub(1))) || self.cpus[cpu].slept;
        let hooks = self.in_scheduler(begin + before + path, op, cold, SUBMIT_PERCENT);
        let (start, end) = self.book(cpu, now, before + path + hooks);
        self.cpus[cpu].slept = false;
        self.spent.user += before;
        self.spent.submit += path;
        self.spent.scheduler += hooks;
        (Nanos(start + before), Nanos(end))
    }

    /// The thread sleeps until an interrupt.
    pub fn sleep(&mut self, cpu: usize, at: Nanos) {
        let out = self.profile.switch_out;
        self.book(cpu, at, out);
        self.spent.submit += out;
    }

    /// The thread sleeps for `time`; returns the time at which its timer fires.
    pub fn sleep_for(&mut self, cpu: usize, at: Nanos, time: Nanos) -> Nanos {
        let (timer, out) = (self.profile.timer, self.profile.switch_out);
        let (start, _) = self.book(cpu, at, timer + out);
        self.spent.submit += timer + out;
        Nanos(start + timer) + time
    }

    /// Sleep time of blk-mq's hybrid polling for an I/O just issued; 0 to poll at once.
    pub fn hybrid_sleep(&mut self, now: Nanos, op: Op, sectors: u32) -> Nanos {
        match self.completion {
            Completion::Hybrid => self.stats.sleep(now, op, sectors),
            Completion::HybridFixed(time) => time,
            _ => Nanos::ZERO,
        }
    }

    /// A sleeping thread's timer fires.
    pub fn timer(&mut self, cpu: usize, now: Nanos) {
        self.now = self.now.max(now.0);
        let exit = if self.idle(cpu, now) { self.profile.idle_exit } else { 0 };
        self.book(cpu, now, exit + self.profile.timer_irq);
        self.timeline.total.timers += 1;
        self.spent.complete += exit + self.profile.timer_irq;
    }

    /// A completion at `done` wakes the kernel's worker on this CPU; returns the time at which that runs.
    pub fn worker_after_interrupt(&mut self, cpu: usize, done: Nanos) -> Nanos {
        self.now = self.now.max(done.0);
        let p = &self.profile;
        let after = Nanos(p.msi + if self.idle(cpu, done) { p.idle_exit } else { 0 } + p.irq);
        self.switch_in(cpu, done + after)
    }

    /// A worker thread of a ring is woken to submit an I/O; returns the time of its arrival at the block layer.
    pub fn worker(&mut self, cpu: usize, now: Nanos) -> Nanos {
        let work = self.profile.issue;
        let runs = self.switch_in(cpu, now);
        let (_, end) = self.book(cpu, runs, work);
        self.spent.submit += work;
        Nanos(end)
    }

    /// A thread is switched in; returns the time at which it runs.
    pub fn switch_in(&mut self, cpu: usize, now: Nanos) -> Nanos {
        let work = self.profile.switch_in;
        let (_, end) = self.book(cpu, now, work);
        self.timeline.total.switches += 1;
        self.spent.complete += work;
        Nanos(end)
    }

    /// Submits a batch by one system call, after `more` ns of reaping completions; returns the time of the first call
    /// and the arrival at the block layer. `ops` are its operations.
    pub fn submit_batch(
        &mut self,
        cpu: usize,
        now: Nanos,
        more: u64,
        cold: bool,
        ops: impl Iterator<Item = Op>,
    ) -> (Nanos, Nanos) {
        self.now = self.now.max(now.0);
        let p = &self.profile;
        let begin = self.cpus[cpu].free_at.max(now.0);
        let (first, u_out, issue) = match self.completion {
            Completion::Sqpoll => (p.sqpoll[0], p.u_out, p.sqpoll[1]),
            _ if cold => (p.sub - p.issue.min(p.sub), p.u_out, p.issue),
            _ => (p.syscall, p.u_out, p.issue),
        };
        let mut path = first + more;
        let (mut hooks, mut user) = (0, 0);
        for op in ops {
            path += u_out + issue;
            user += u_out;
            hooks += self.in_scheduler(begin + path + hooks, op, cold, SUBMIT_PERCENT);
        }
        let (start, end) = self.book(cpu, now, path + hooks);
        self.spent.user += user;
        self.spent.submit += path - user;
        self.spent.scheduler += hooks;
        (Nanos(start + more + u_out), Nanos(end))
    }

    /// Cost of the scheduler in a completion, which reaches it when the CPU is free but not before `at`.
    fn completion_hook(&mut self, cpu: usize, at: u64, op: Op, cold: bool) -> u64 {
        let at = self.cpus[cpu].free_at.max(at);
        self.in_scheduler(at, op, cold, 100 - SUBMIT_PERCENT)
    }

    /// The device completes an I/O of a sleeping thread and interrupts the CPU; returns the time at which the
    /// application is notified.
    pub fn interrupt(&mut self, cpu: usize, done: Nanos, op: Op) -> Nanos {
        self.now = self.now.max(done.0);
        let at = Nanos(done.0 + self.profile.msi);
        let exit = if self.idle(cpu, at) { self.profile.idle_exit } else { 0 };
        let hook = self.completion_hook(cpu, at.0, op, exit > 0 || self.cpus[cpu].slept);
        self.book(cpu, at, exit + self.profile.irq + hook);
        let work = self.profile.switch_in + self.profile.cold + self.profile.cpl;
        let (_, end) = self.book(cpu, Nanos(self.cpus[cpu].free_at), work);
        self.spent.complete += exit + self.profile.irq + work;
        self.spent.scheduler += hook;
        let total = &mut self.timeline.total;
        total.interrupts += 1;
        total.switches += 1;
        total.ios += 1;
        Nanos(end)
    }

    /// A thread that polls since `start_poll` finds a completion that is visible from `done` on, and stops polling;
    /// returns the time at which the application is notified. `slept`: it was asleep for part of the time.
    pub fn found(&mut self, cpu: usize, done: Nanos, op: Op, slept: bool) -> Nanos {
        let p = &self.profile;
        let work = match self.completion {
            Completion::Sqpoll => p.sqpoll[2] + p.sqpoll[3],
            _ if slept => p.cold_hybrid + p.cpl,
            _ => p.cpl,
        };
        let gap = p.poll_gap / 2;
        let hook = self.completion_hook(cpu, done.0 + gap, op, slept);
        let (_, end) = self.book(cpu, done + Nanos(gap), work + hook);
        self.stop_poll(cpu, Nanos(end));
        self.spent.complete += work;
        self.spent.scheduler += hook;
        self.timeline.total.ios += 1;
        self.timeline.total.polled += 1;
        Nanos(end)
    }

    /// Feeds hybrid polling with the time of an I/O from its issue to its detection.
    pub fn learn(&mut self, now: Nanos, op: Op, sectors: u32, service: Nanos) {
        if self.completion == Completion::Hybrid {
            self.stats.record(now, op, sectors, service);
        }
    }

    /// The device completes an I/O of a running thread. With interrupts, the handler runs for the `first` since it last
    /// polled; the others are found with it.
    pub fn note_completion(&mut self, cpu: usize, done: Nanos, op: Op, first: bool) {
        self.now = self.now.max(done.0);
        let interrupts = self.completion == Completion::Interrupt;
        if first && interrupts {
            let work = self.profile.irq;
            self.book(cpu, done, work);
            self.spent.complete += work;
            self.timeline.total.interrupts += 1;
        }
        let hook = self.completion_hook(cpu, done.0, op, false);
        if hook > 0 {
            self.book(cpu, done, hook);
            self.spent.scheduler += hook;
        }
        self.timeline.total.ios += 1;
        self.timeline.total.polled += u64::from(!interrupts);
    }

    /// A running thread polls for completions at `at`; returns the time at which it has the first.
    pub fn look(&mut self, cpu: usize, at: Nanos) -> Nanos {
        let p = &self.profile;
        let work = match self.completion {
            Completion::Sqpoll => p.sqpoll[2] + p.sqpoll[3],
            _ => p.syscall + p.cpl_warm,
        };
        let (_, end) = self.book(cpu, at, work);
        self.spent.complete += work;
        Nanos(end)
    }

    /// Activity until `at`; times must not decrease.
    pub fn activity(&mut self, at: Nanos) -> Activity {
        self.now = self.now.max(at.0);
        for cpu in 0..self.cpus.len() {
            self.polled_until(cpu, at.0);
        }
        self.timeline.until(at.0)
    }

    /// Busy time of each CPU in ns, polling included.
    pub fn busy(&self) -> impl Iterator<Item = u64> + '_ {
        self.cpus.iter().map(|c| c.busy)
    }

    /// CPU time by purpose.
    pub fn spent(&self) -> Spent {
        self.spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_booked_ahead_leaves_room_before_it() {
        let mut host = Host::new(&R230_5_18, scheduler_cost("bfq"), 2, false, false);
        assert_eq!(host.take_lock(10_000, 1000), (0, 1000));
        assert_eq!(host.take_lock(2_000, 1000), (0, 1000), "before it");
        assert_eq!(host.take_lock(10_500, 1000), (500, 1120), "one waits");
        assert_eq!(host.take_lock(9_500, 1000), (2620, 1360), "too long for the gap: after all of them");
        host.now = 20_000;
        assert_eq!((host.take_lock(20_000, 1000), host.holds.len()), ((0, 1000), 1));
    }
}
