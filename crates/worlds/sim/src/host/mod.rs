//! The host model: CPUs, the submission and completion path, and the cost of schedulers.
//!
//! [`Host`] books CPU time; the run decides which thread may run when polling threads share a CPU.

mod activity;
mod call;
mod costs;
mod hybrid;
mod lock;

use dumbwaiter_block::{Nanos, Op, PollStats};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::SplitMix64;

pub use dumbwaiter_scenario::Completion;
use dumbwaiter_scenario::{CpuScheduler, HostCosts};

use self::activity::Timeline;
pub use self::activity::{Activity, Kind, PAIRS};
pub use self::call::Arrival;
pub(crate) use self::call::Step;
pub use self::costs::{LockShape, LockUse, SchedulerCost, scheduler_cost};
pub(crate) use self::hybrid::RingTime;
use self::lock::Lock;

/// Parts of what a turn costs more after the thread was away, in percent: the interrupt that wakes it, its way back to the
/// application, the application. The rest falls to its next call.
const AWAY_PERCENT: [u64; 3] = [35, 26, 13];
/// Part of a scheduler's cost that falls to submission (insert and dispatch), in thousandths.
const SUBMIT_PART: u64 = 850;

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    /// End of the booked work.
    free_at: u64,
    /// Number of threads that poll on this CPU when it has no work, and the time since which they do.
    pollers: u32,
    polls_from: u64,
    busy: u64,
    /// Whether it idled since its last submission, so that caches and predictors are cold, and for how long.
    slept: bool,
    idled: u64,
    /// The drive whose scheduler's lock its call goes through, and its waits for that.
    drive: u8,
    lock_wait: u64,
    /// The drive to which it sent an I/O last.
    sent_to: u8,
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
    /// Of that, waiting for the scheduler's lock.
    pub lock_wait: u64,
    /// How often the scheduler's lock was taken.
    pub lock_takes: u64,
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
            lock_wait: self.lock_wait - earlier.lock_wait,
            lock_takes: self.lock_takes - earlier.lock_takes,
            complete: self.complete - earlier.complete,
        }
    }
}

/// CFS's latency target, shortest slice and granularity of wake-ups of one CPU, ns.
const LATENCY_TARGET: u64 = 6_000_000;
const WAKE_UP_GRANULARITY: u64 = 1_000_000;
/// EEVDF's slice of one CPU, ns.
const BASE_SLICE: u64 = 700_000;
const SHORTEST_SLICE: u64 = 750_000;

/// Separates the random numbers of the host from others of a run.
const HOST_SEED: u64 = 0x686f_7374_0000_0001;

/// When a thread left its CPU, and how long that had worked by then, ns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Away {
    pub(crate) since: u64,
    pub(crate) busy: u64,
}

/// The CPUs of a run. Work is booked in the order of the calls.
#[derive(Clone)]
pub struct Host {
    /// Segments.
    pub profile: HostCosts,
    cost: SchedulerCost,
    completion: Completion,
    cpus: Vec<Cpu>,
    siblings: usize,
    /// The scheduler's of each drive.
    locks: Vec<Lock>,
    random: SplitMix64,
    spent: Spent,
    timeline: Timeline,
    /// Period of the kernel's clock, ns.
    tick: u64,
    stats: PollStats,
    /// No booking begins before this time.
    now: u64,
}

impl Host {
    /// `cpus` logical CPUs; with `smt` two share a core. `legacy_link` adds the cost of SATA's driver.
    pub fn new(profile: &HostCosts, cost: SchedulerCost, cpus: u16, smt: bool, legacy_link: bool, seed: u64) -> Host {
        let mut profile = profile.clone();
        if legacy_link && profile.sub > 0 {
            profile.sub += 1500;
            profile.issue += 1500;
            profile.irq += 1000;
            profile.irq_warm += 1000;
        }
        let cpus = usize::from(cpus.max(1));
        let siblings = if smt && cpus > 1 && cpus.is_multiple_of(2) { cpus / 2 } else { 0 };
        Host {
            locks: vec![Lock::new(profile.lock, cpus)],
            random: SplitMix64::seed_from_u64(seed ^ HOST_SEED),
            profile,
            cost,
            completion: Completion::Interrupt,
            cpus: vec![Cpu::default(); cpus],
            siblings,
            spent: Spent::default(),
            timeline: Timeline::new(cpus, siblings),
            tick: 4_000_000,
            stats: PollStats::default(),
            now: 0,
        }
    }

    /// The scheduler was exchanged for one of this cost.
    pub fn set_scheduler_cost(&mut self, cost: Option<SchedulerCost>) {
        if let Some(cost) = cost {
            self.cost = cost;
        }
    }

    /// Time for which the call on this CPU waited for the scheduler's lock.
    pub(crate) fn take_lock_wait(&mut self, cpu: usize) -> u64 {
        std::mem::take(&mut self.cpus[cpu].lock_wait)
    }

    /// The same host with so many drives, each with a scheduler of its own.
    pub fn with_drives(mut self, drives: usize) -> Host {
        self.locks = vec![Lock::new(self.profile.lock, self.cpus.len()); drives];
        self
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
            self.cpus[cpu].idled = start - self.cpus[cpu].free_at;
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
        let at = self.wakes_after_interrupt(cpu, done);
        self.switch_in(cpu, at)
    }

    /// When a thread can run at the earliest that a completion at `done` wakes.
    pub(crate) fn wakes_after_interrupt(&mut self, cpu: usize, done: Nanos) -> Nanos {
        self.now = self.now.max(done.0);
        let p = &self.profile;
        let after = Nanos(p.msi + if self.idle(cpu, done) { p.idle_exit } else { 0 } + p.irq);
        done + after
    }

    /// A worker thread of a ring, without work since `since`, submits an I/O; returns the time of its arrival at the block layer.
    pub fn worker(&mut self, cpu: usize, now: Nanos, since: Nanos) -> Nanos {
        let work = self.profile.issue;
        let runs = self.switch_in_worker(cpu, now, since);
        let (_, end) = self.book(cpu, runs, work);
        self.spent.submit += work;
        Nanos(end)
    }

    /// A worker thread of a ring that sleeps since `since` is switched in, at the cost of any thread that was away, or goes on; returns the
    /// time at which it runs.
    pub(crate) fn switch_in_worker(&mut self, cpu: usize, now: Nanos, since: Nanos) -> Nanos {
        let runs = self.switch_in(cpu, now);
        let more = if since < now { self.profile.cooling.of_thread(runs.since(since).0, 0) } else { 0 };
        let (_, end) = self.book(cpu, runs, more);
        self.spent.submit += more;
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

    /// CPU time by which a thread that slept may be behind others, ns (Linux: half of CFS's latency target).
    pub(crate) fn sleeper_credit(&self) -> u64 {
        self.scale() * LATENCY_TARGET / 2
    }

    /// Does a thread that was woken take the CPU from one that has it for `runs` ns, and that has used `more` ns more than it?
    pub(crate) fn wake_up_preempts(&self, runs: u64, more: u64) -> bool {
        match self.profile.cpu_scheduler {
            CpuScheduler::Cfs => more > self.scale() * WAKE_UP_GRANULARITY,
            CpuScheduler::Eevdf => runs >= self.scale() * BASE_SLICE,
        }
    }

    /// CFS's factor for its times by the number of CPUs.
    fn scale(&self) -> u64 {
        1 + u64::from(self.cpus.len().min(8).ilog2())
    }

    /// When the time slice ends of a thread that has the CPU since then, one of so many: at a tick of the clock.
    pub(crate) fn slice_end(&self, since: Nanos, threads: u64) -> Nanos {
        let slice = self.scale() * (LATENCY_TARGET / threads.max(1)).max(SHORTEST_SLICE);
        Nanos((since.0 + slice).div_ceil(self.tick.max(1)) * self.tick.max(1))
    }

    /// The same host with a clock of this period.
    pub fn with_tick(self, tick: Nanos) -> Host {
        Host { tick: tick.0, ..self }
    }

    /// A length for the next loop of a program, of up to a system call: no two take equally long.
    pub(crate) fn loop_variation(&mut self) -> u64 {
        self.random.random_range(0..=self.profile.sub)
    }

    /// How many of those in line a thread overtakes that is woken: mostly none.
    pub(crate) fn overtakes(&mut self, in_line: u64) -> u64 {
        if in_line > 0 && self.random.random_ratio(1, RANDOM_CHOICE_EVERY) {
            self.random.random_range(0..=in_line)
        } else {
            0
        }
    }

    /// Delay until a woken task runs, which depends on what its CPU does.
    pub(crate) fn wake_variation(&mut self) -> Nanos {
        Nanos(self.random.random_range(0..=WAKE_VARIATION))
    }

    /// What a request costs in the scheduler, on a CPU whose caches are `cold`.
    fn hook(&self, cpu: usize, op: Op, cold: bool) -> u64 {
        let warm = if op == Op::Read { self.cost.read } else { self.cost.write };
        if !cold || warm == 0 {
            return warm;
        }
        let (idle, table) = (self.cpus[cpu].idled, &self.profile.cold_hooks_ns_percent);
        let above = table.iter().position(|(from, _)| *from > idle);
        warm * match above {
            Some(0) => 100,
            Some(next) => {
                let ((from, low), (to, high)) = (table[next - 1], table[next]);
                low + (high - low) * (idle - from) / (to - from)
            }
            None => table.last().map_or(100, |(_, percent)| *percent),
        } / 100
    }

    /// A length that differs from time to time.
    fn vary(&mut self, ns: u64) -> u64 {
        match self.profile.vary_percent {
            0 => ns,
            percent => ns * self.random.random_range(100 - percent..=100 + percent) / 100,
        }
    }

    /// Cost of the scheduler in a completion.
    fn completion_hook(&self, cpu: usize, op: Op, cold: bool) -> u64 {
        let shared = self.cost.lock.is_shared() && self.cpus.len() > 1;
        let part = 1000 - SUBMIT_PART - if shared { self.cost.lock.takes(1000).finish } else { 0 };
        self.hook(cpu, op, cold) * part / 1000
    }

    /// The device completes an I/O of a sleeping thread and interrupts the CPU; returns the time at which the handler is done.
    pub(crate) fn interrupt_sleeper(&mut self, cpu: usize, done: Nanos, op: Op, away: Away) -> Nanos {
        self.now = self.now.max(done.0);
        let at = Nanos(done.0 + self.profile.msi);
        let cooling = self.profile.cooling;
        let idle = self.idle(cpu, at);
        let free_at = self.cpus[cpu].free_at;
        let exit = if idle { self.profile.idle_exit + cooling.of_cpu(at.0 - free_at) } else { 0 };
        let more = self.more_after(cpu, at.0.max(free_at), away);
        let hook = self.completion_hook(cpu, op, idle || self.cpus[cpu].slept);
        let irq = self.profile.irq + more * AWAY_PERCENT[0] / 100;
        let irq = self.vary(irq);
        let (_, end) = self.book(cpu, at, exit + irq + hook);
        self.spent.complete += exit + irq;
        self.spent.scheduler += hook;
        self.timeline.total.interrupts += 1;
        self.timeline.total.ios += 1;
        Nanos(end)
    }

    /// What a thread's turn costs more that begins at `at`.
    fn more_after(&self, cpu: usize, at: u64, away: Away) -> u64 {
        let others = self.cpus[cpu].busy.saturating_sub(away.busy);
        self.profile.cooling.of_thread(at.saturating_sub(away.since), others)
    }

    /// A thread gets the CPU after a sleep, and returns to its application with a completion; returns the time at which it does, and
    /// what the turn costs more, as it was `away`.
    pub(crate) fn resume(&mut self, cpu: usize, at: Nanos, away: Away) -> (Nanos, u64) {
        let at = at.max(Nanos(self.cpus[cpu].free_at));
        let more = self.more_after(cpu, at.0, away);
        let p = &self.profile;
        let work = p.switch_in + p.cold + p.cpl + more * AWAY_PERCENT[1] / 100;
        let work = self.vary(work);
        let (_, end) = self.book(cpu, at, work);
        self.spent.complete += work;
        self.timeline.total.switches += 1;
        (Nanos(end), more)
    }

    /// The device completes an I/O of a sleeping thread and interrupts the CPU; returns the time at which the
    /// application is notified, if the thread runs at once.
    pub fn interrupt(&mut self, cpu: usize, done: Nanos, op: Op) -> Nanos {
        let away = Away { since: done.0, busy: self.cpus[cpu].busy };
        let end = self.interrupt_sleeper(cpu, done, op, away);
        self.resume(cpu, end, away).0
    }

    /// Where a thread stands that leaves the CPU now.
    pub(crate) fn away_from(&self, cpu: usize) -> Away {
        Away { since: self.cpus[cpu].free_at, busy: self.cpus[cpu].busy }
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
        let hook = self.completion_hook(cpu, op, slept);
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

    /// The device completes an I/O of a running thread. With interrupts, the handler runs for it, unless it is found with `another`.
    /// `wakes`: it costs what one does that wakes a thread.
    pub fn note_completion(&mut self, cpu: usize, done: Nanos, op: Op, another: bool, wakes: bool) {
        self.now = self.now.max(done.0);
        let interrupts = self.completion == Completion::Interrupt;
        if !another && interrupts {
            let work = if wakes { self.profile.irq } else { self.profile.irq_warm };
            let work = self.vary(work);
            self.book(cpu, done, work);
            self.spent.complete += work;
            self.timeline.total.interrupts += 1;
        }
        let hook = self.completion_hook(cpu, op, false);
        if hook > 0 {
            self.book(cpu, done, hook);
            self.spent.scheduler += hook;
        }
        self.timeline.total.ios += 1;
        self.timeline.total.polled += u64::from(!interrupts);
    }

    /// A running thread polls for completions at `at`; returns the time at which it has the first. `seen`: it finds it in the ring,
    /// without a call.
    pub fn look(&mut self, cpu: usize, at: Nanos, seen: bool) -> Nanos {
        let p = &self.profile;
        let work = match self.completion {
            Completion::Sqpoll => p.sqpoll[2] + p.sqpoll[3],
            _ if seen => p.reap + p.cpl_warm,
            _ => p.syscall + p.reap + p.cpl_warm,
        };
        let work = self.vary(work);
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
        Spent { lock_takes: self.locks.iter().map(|lock| lock.takes).sum(), ..self.spent }
    }
}

/// One thread of libaio out of this many takes a place at random in the line for its CPU.
const RANDOM_CHOICE_EVERY: u32 = 4;

/// Most time that passes between the wake-ups of tasks that are woken together, ns: the next one to run is not always the first.
const WAKE_VARIATION: u64 = 1500;
