//! The simulated host: CPUs, the submission and completion path, and what a scheduler costs.
//!
//! Constants and their grades are those of two published machines; only sums of them are identified by measurements.
//! Interrupt completion is modelled here; polling takes the same places (`reply`, `reap`) with other segments.

use dumbwaiter_block::{Nanos, Op};

/// Segments of the I/O path, in nanoseconds of CPU time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// Application time between I/Os, outside the measured latency.
    pub u_out: u64,
    /// System call, file system or io_uring, bio, driver, doorbell: one I/O of a thread that slept before.
    pub sub: u64,
    /// The same per KiB of the I/O.
    pub sub_per_kib: u64,
    /// System call alone, and one more I/O in the same call: a thread that did not sleep.
    pub syscall: u64,
    /// One more I/O in a batch.
    pub issue: u64,
    /// Block layer and driver completion, return to the application.
    pub cpl: u64,
    /// The same for one more I/O of a batch, or a thread that did not sleep.
    pub cpl_warm: u64,
    /// From the device's message to the first instruction of the handler. Not CPU time.
    pub msi: u64,
    /// Leaving an idle state.
    pub idle_exit: u64,
    /// Interrupt handler and wake-up.
    pub irq: u64,
    /// Context switch out; hidden behind the device at depth 1.
    pub switch_out: u64,
    /// Context switch in.
    pub switch_in: u64,
    /// Cache refill on the completion path after a sleep.
    pub cold: u64,
    /// Stretch of work whose SMT sibling works too, in percent.
    pub smt_percent: u64,
    /// Period of the poll loop; on average half of it passes before a completion is seen.
    pub poll_gap: u64,
    /// Cache refill after a timer's sleep in hybrid polling.
    pub cold_hybrid: u64,
    /// Programming a timer, and its interrupt.
    pub timer: u64,
    /// Kernel submission polling: pick-up, issue, completion, and until the application sees the entry.
    pub sqpoll: [u64; 4],
}

/// How completions are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completion {
    /// The device interrupts a CPU, which wakes the thread.
    #[default]
    Interrupt,
    /// The thread's CPU looks until the completion is there.
    Poll,
    /// The thread sleeps for half of the usual time, then its CPU looks.
    Hybrid,
    /// Another CPU submits and looks for completions (io_uring SQPOLL with IOPOLL).
    SqpollIopoll,
}

/// Linux 5.15, `preadv2` on ext4 with O_DIRECT, Xeon E3-1230 v5.
pub const R230_5_15: Profile = Profile {
    name: "r230-5.15",
    u_out: 240,
    sub: 970,
    sub_per_kib: 10,
    syscall: 400,
    issue: 450,
    cpl: 620,
    cpl_warm: 450,
    msi: 300,
    idle_exit: 150,
    irq: 770,
    switch_out: 450,
    switch_in: 800,
    cold: 180,
    smt_percent: 125,
    poll_gap: 100,
    cold_hybrid: 480,
    timer: 760,
    sqpoll: [150, 800, 360, 100],
};

/// Linux 5.18, io_uring, the same machine.
pub const R230_5_18: Profile = Profile {
    name: "r230-5.18",
    u_out: 250,
    sub: 1500,
    sub_per_kib: 0,
    syscall: 450,
    issue: 600,
    cpl: 1050,
    cpl_warm: 600,
    msi: 300,
    idle_exit: 650,
    irq: 1100,
    switch_out: 600,
    switch_in: 1150,
    cold: 420,
    smt_percent: 125,
    poll_gap: 100,
    cold_hybrid: 480,
    timer: 860,
    sqpoll: [150, 800, 360, 100],
};

/// A host that costs nothing: for looking at a device and a scheduler alone.
pub const FREE: Profile = Profile {
    name: "free",
    u_out: 0,
    sub: 0,
    sub_per_kib: 0,
    syscall: 0,
    issue: 0,
    cpl: 0,
    cpl_warm: 0,
    msi: 0,
    idle_exit: 0,
    irq: 0,
    switch_out: 0,
    switch_in: 0,
    cold: 0,
    smt_percent: 100,
    poll_gap: 0,
    cold_hybrid: 0,
    timer: 0,
    sqpoll: [0; 4],
};

/// The profiles there are.
pub const PROFILES: [&Profile; 3] = [&R230_5_18, &R230_5_15, &FREE];

/// What a scheduler's hooks cost per request, warm, in ns: insert, dispatch and completion together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerCost {
    /// A read.
    pub read: u64,
    /// Anything else.
    pub write: u64,
    /// Share spent under one lock of the device, in percent; 0 where locks are per queue.
    pub locked_percent: u64,
}

/// Costs of a scheduler: fitted to published latencies for the kernel's own, estimates for the others.
pub fn scheduler_cost(name: &str) -> SchedulerCost {
    let (read, write, locked_percent) = match name {
        "none" => (0, 0, 0),
        "mq-deadline" => (520, 650, 80),
        "kyber" => (530, 600, 0),
        "bfq" => (1570, 1920, 100),
        "noop" => (300, 300, 100),
        // Sorted structures under one lock, as mq-deadline's.
        _ => (520, 650, 100),
    };
    SchedulerCost { read, write, locked_percent }
}

/// A scheduler's cost after a sleep, in percent of the warm one: caches and predictors are cold.
const COLD_PERCENT: u64 = 163;
/// A waiter lengthens the critical section by this, in percent, for up to seven waiters.
const CONTENTION_PERCENT: u64 = 12;
const MAX_WAITERS: u64 = 7;
/// Part of a scheduler's cost that falls to submission (insert and dispatch), in percent.
const SUBMIT_PERCENT: u64 = 85;

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    free_at: u64,
    busy: u64,
}

/// Where CPU time went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Submission without the scheduler.
    pub submit: u64,
    /// In the scheduler, lock waits included.
    pub scheduler: u64,
    /// Interrupts and completion.
    pub complete: u64,
    /// Looking for completions.
    pub poll: u64,
}

/// The CPUs of a run. Work is booked in the order in which it is asked for.
#[derive(Clone)]
pub struct Host {
    /// Segments.
    pub profile: Profile,
    cost: SchedulerCost,
    completion: Completion,
    cpus: Vec<Cpu>,
    siblings: usize,
    lock_free_at: u64,
    spent: Spent,
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
        Host {
            profile,
            cost,
            completion: Completion::Interrupt,
            cpus: vec![Cpu::default(); cpus],
            siblings: if smt && cpus > 1 && cpus % 2 == 0 { cpus / 2 } else { 0 },
            lock_free_at: 0,
            spent: Spent::default(),
        }
    }

    /// The same host with another completion method. Polling is modelled for threads that each have a CPU and
    /// submit one I/O at a time.
    pub fn with_completion(self, completion: Completion) -> Host {
        Host { completion, ..self }
    }

    /// Logical CPUs.
    pub fn cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Is the CPU idle at `at`?
    pub fn idle(&self, cpu: usize, at: Nanos) -> bool {
        self.cpus[cpu].free_at <= at.0
    }

    /// Books `work` ns on a CPU from `at` on, or from when it is free; answers (start, end).
    fn book(&mut self, cpu: usize, at: Nanos, work: u64) -> (u64, u64) {
        let start = self.cpus[cpu].free_at.max(at.0);
        let mut work = work;
        if self.siblings > 0 && work > 0 {
            let sibling = (cpu + self.siblings) % self.cpus.len();
            if self.cpus[sibling].free_at > start {
                work = work * self.profile.smt_percent / 100;
            }
        }
        self.cpus[cpu].free_at = start + work;
        self.cpus[cpu].busy += work;
        (start, start + work)
    }

    fn hook(&self, op: Op, cold: bool) -> u64 {
        let warm = if op == Op::Read { self.cost.read } else { self.cost.write };
        if cold { warm * COLD_PERCENT / 100 } else { warm }
    }

    /// The scheduler's part of a submission that reaches it at `at`: its CPU time, lock wait included.
    fn in_scheduler(&mut self, at: u64, op: Op, cold: bool) -> u64 {
        let work = self.hook(op, cold) * SUBMIT_PERCENT / 100;
        let locked = work * self.cost.locked_percent / 100;
        if locked == 0 {
            return work;
        }
        let wait = self.lock_free_at.saturating_sub(at);
        let waiters = (wait.div_ceil(locked)).min(MAX_WAITERS);
        let held = locked * (100 + CONTENTION_PERCENT * waiters) / 100;
        self.lock_free_at = at + wait + held;
        wait + held + (work - locked)
    }

    /// One I/O by itself: answers when the application called and when the request reaches the block layer.
    pub fn submit(&mut self, cpu: usize, now: Nanos, op: Op, sectors: u32, think: bool) -> (Nanos, Nanos) {
        let before = if think { self.profile.u_out } else { 0 };
        let path = match self.completion {
            Completion::SqpollIopoll => self.profile.sqpoll[0] + self.profile.sqpoll[1],
            _ => self.profile.sub + self.profile.sub_per_kib * u64::from(sectors) / 2,
        };
        let begin = self.cpus[cpu].free_at.max(now.0);
        let slept = matches!(self.completion, Completion::Interrupt | Completion::Hybrid);
        let hooks = self.in_scheduler(begin + before + path, op, slept);
        let (start, end) = self.book(cpu, now, before + path + hooks);
        self.spent.submit += before + path;
        self.spent.scheduler += hooks;
        (Nanos(start + before), Nanos(end))
    }

    /// The thread goes to sleep after its submission.
    pub fn sleep(&mut self, cpu: usize, at: Nanos) {
        let out = match self.completion {
            Completion::Interrupt => self.profile.switch_out,
            Completion::Hybrid => self.profile.switch_out + self.profile.timer,
            Completion::Poll | Completion::SqpollIopoll => 0,
        };
        if out > 0 {
            self.book(cpu, at, out);
            self.spent.submit += out;
        }
    }

    /// A batch of one system call, `more` ns of completions before it; answers when the first was called and when the
    /// requests reach the block layer. `ops` are the operations in it.
    pub fn submit_batch(
        &mut self,
        cpu: usize,
        now: Nanos,
        more: u64,
        cold: bool,
        ops: impl Iterator<Item = Op>,
    ) -> (Nanos, Nanos) {
        let p = &self.profile;
        let begin = self.cpus[cpu].free_at.max(now.0);
        let first = if cold { p.sub - p.issue.min(p.sub) } else { p.syscall };
        let (u_out, issue) = (p.u_out, p.issue);
        let mut path = first + more;
        let mut hooks = 0;
        for op in ops {
            path += u_out + issue;
            hooks += self.in_scheduler(begin + path + hooks, op, cold);
        }
        let (start, end) = self.book(cpu, now, path + hooks);
        self.spent.submit += path;
        self.spent.scheduler += hooks;
        (Nanos(start + more + u_out), Nanos(end))
    }

    fn interrupt(&mut self, cpu: usize, done: Nanos, op: Op) -> u64 {
        let at = Nanos(done.0 + self.profile.msi);
        let exit = if self.idle(cpu, at) { self.profile.idle_exit } else { 0 };
        let hook = self.hook(op, true) * (100 - SUBMIT_PERCENT) / 100;
        let (_, end) = self.book(cpu, at, exit + self.profile.irq + hook);
        self.spent.complete += exit + self.profile.irq;
        self.spent.scheduler += hook;
        end
    }

    /// The device finished one I/O by itself: when does the application know?
    pub fn reply(&mut self, cpu: usize, done: Nanos, op: Op) -> Nanos {
        if self.completion != Completion::Interrupt {
            return self.found(cpu, done, op);
        }
        self.interrupt(cpu, done, op);
        self.wake(cpu)
    }

    /// A poller finds the completion: when does the application know?
    fn found(&mut self, cpu: usize, done: Nanos, op: Op) -> Nanos {
        let p = &self.profile;
        let work = match self.completion {
            Completion::SqpollIopoll => p.sqpoll[2] + p.sqpoll[3],
            Completion::Hybrid => p.cold_hybrid + p.cpl,
            Completion::Poll | Completion::Interrupt => p.cpl,
        };
        let gap = p.poll_gap / 2;
        let hook = self.hook(op, self.completion == Completion::Hybrid) * (100 - SUBMIT_PERCENT) / 100;
        let from = self.cpus[cpu].free_at;
        let (start, end) = self.book(cpu, done + Nanos(gap), work + hook);
        let polled = start.saturating_sub(from);
        // Hybrid polling slept through half of the wait.
        let polled = if self.completion == Completion::Hybrid { polled / 2 } else { polled };
        self.cpus[cpu].busy += polled;
        self.spent.poll += polled;
        self.spent.complete += work;
        self.spent.scheduler += hook;
        Nanos(end)
    }

    /// The thread is switched in and finds its completion: when does it know?
    fn wake(&mut self, cpu: usize) -> Nanos {
        let p = &self.profile;
        let work = p.switch_in + p.cold + p.cpl;
        let (_, end) = self.book(cpu, Nanos(self.cpus[cpu].free_at), work);
        self.spent.complete += work;
        Nanos(end)
    }

    /// The device finished an I/O of a thread that sleeps until something completes: when does it know?
    pub fn wake_batch(&mut self, cpu: usize, done: Nanos, op: Op) -> Nanos {
        self.reply(cpu, done, op)
    }

    /// The device finished an I/O of a thread that is at work. `first` since it looked: the handler runs; the others
    /// are found with it.
    pub fn note_completion(&mut self, cpu: usize, done: Nanos, op: Op, first: bool) {
        if first {
            let work = self.profile.irq;
            self.book(cpu, done, work);
            self.spent.complete += work;
        }
        let hook = self.hook(op, false) * (100 - SUBMIT_PERCENT) / 100;
        if hook > 0 {
            self.book(cpu, done, hook);
            self.spent.scheduler += hook;
        }
    }

    /// A thread at work looks for completions at `at`: when has it the first?
    pub fn look(&mut self, cpu: usize, at: Nanos) -> Nanos {
        let work = self.profile.syscall + self.profile.cpl_warm;
        let (_, end) = self.book(cpu, at, work);
        self.spent.complete += work;
        Nanos(end)
    }

    /// Busy time of each CPU in ns.
    pub fn busy(&self) -> impl Iterator<Item = u64> + '_ {
        self.cpus.iter().map(|c| c.busy)
    }

    /// Where the time went.
    pub fn spent(&self) -> Spent {
        self.spent
    }
}
