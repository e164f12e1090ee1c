//! One run: threads, block layer, host and device in virtual time.

mod cpus;
mod device;
mod life;
mod period;
mod sleep;
mod state;
mod threads;
mod turns;

use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};

use dumbwaiter_block::{
    BlockLayer, Config, Fault, Finished, Handover, Nanos, Plug, ServiceOracle, Stack, TaskId, TenantId, Tenants,
};
use dumbwaiter_controllers::TenantLimits;
use dumbwaiter_devices::{Completion, Counters, Device};
use dumbwaiter_experiment::Control;
use dumbwaiter_measure::Recorder;
use dumbwaiter_scenario::load::{Change, Thread, set_controllers};

use crate::events::{EventKind, Events};
use crate::host::{Activity, Completion as Method, Host, SchedulerCost, Spent};

pub use self::period::{Period, PeriodEnd};
use self::state::{CpuQueues, Slot, TaskSleep, ThreadState, Turns};

/// Limits of a run.
#[derive(Clone, Copy, Debug)]
pub struct Until {
    /// Time of the end.
    pub time: Nanos,
    /// End of the warm-up.
    pub warmup: Nanos,
    /// Largest number of I/Os.
    pub ios: u64,
}

/// A run in progress.
pub struct Run<'a> {
    layer: BlockLayer,
    device: Box<dyn Device>,
    host: Host,
    recorder: Recorder,
    threads: Vec<ThreadState>,
    events: Events,
    slots: Vec<Slot>,
    free: Vec<u32>,
    plug: Plug,
    /// Sleeps of tasks, by [`TaskId`].
    sleeps: Vec<TaskSleep>,
    turns: Turns,
    cpus: CpuQueues,
    now: Nanos,
    timer_at: Nanos,
    /// A `Send` event is pending.
    sends: bool,
    until: Until,
    submitted: u64,
    open: bool,
    /// The running stage.
    stage: Option<u32>,
    /// Threads that may still submit I/O.
    live: usize,
    issued_late: u64,
    several_stages: bool,
    changes: Vec<(Nanos, Change)>,
    /// Of the scenario's exchanges of the scheduler, in order, until each is made.
    schedulers: Vec<Option<Stack>>,
    /// Exchanges of the scheduler that the device has heard of.
    switches: u64,
    /// What the CPU spends on each of these.
    costs: Vec<SchedulerCost>,
    /// The scheduler's cost from when a freeze has ended.
    next_cost: Option<SchedulerCost>,
    control: &'a Control,
    /// Counts of host and device at the end of the warm-up.
    warm: Option<Done>,
    completions: Vec<Completion>,
    finished: Vec<Finished>,
    /// Completions of the period, where a controller decides period by period.
    period: Option<Box<Period>>,
}

/// The output of a run.
pub struct RunOutput {
    /// The measurements.
    pub recorder: Recorder,
    /// The block layer, drained.
    pub layer: BlockLayer,
    /// Counters of the device at the end of the measured time.
    pub counters: Counters,
    /// The host at that time.
    pub host: Host,
    /// Counts of host and device in the measured time.
    pub measured: Done,
    /// End of the measured time.
    pub end: Nanos,
    /// I/Os of open loops that were issued late.
    pub issued_late: u64,
    /// Whether the run was cancelled.
    pub cancelled: bool,
    /// Results of the applications, by their first tasks.
    pub applications: Vec<(TaskId, dumbwaiter_workloads::ApplicationOutcome)>,
}

/// Counts of host and device over a time.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Activity of the CPUs.
    pub activity: Activity,
    /// CPU time by purpose.
    pub spent: Spent,
    /// Busy time of each CPU, ns.
    pub busy: Vec<u64>,
    /// Counters of the device.
    pub counters: Counters,
}

impl Done {
    /// Until `at`.
    fn until(at: Nanos, host: &mut Host, counters: Counters) -> Done {
        Done { activity: host.activity(at), spent: host.spent(), busy: host.busy().collect(), counters }
    }

    /// Since `earlier`.
    fn since(&self, earlier: &Done) -> Done {
        Done {
            activity: self.activity.since(&earlier.activity),
            spent: self.spent.since(&earlier.spent),
            busy: self.busy.iter().zip(&earlier.busy).map(|(now, then)| now - then).collect(),
            counters: self.counters.since(&earlier.counters),
        }
    }
}

/// State at the end of the measured time.
struct Closed {
    end: Nanos,
    host: Host,
    counters: Counters,
    applications: Vec<(TaskId, dumbwaiter_workloads::ApplicationOutcome)>,
}

/// A scheduler with its controllers that replaces another during a run, with its CPU cost.
pub type Replacement = (Stack, SchedulerCost);

/// The components of a run.
pub struct RunParts<'a> {
    /// Settings of the block layer.
    pub config: Config,
    /// The scheduler with its controllers, built with `config.setup`.
    pub stack: Stack,
    /// Exact service times of the device, where they are known.
    pub oracle: Option<Arc<dyn ServiceOracle>>,
    /// Tasks and tenants, with those of every thread.
    pub tenants: Tenants,
    /// The device, with classes if a scheduler of the run uses them.
    pub device: Box<dyn Device>,
    /// The host.
    pub host: Host,
    /// The recorder.
    pub recorder: Recorder,
    /// Limits and reservations of tenants.
    pub limits: Vec<(TenantId, TenantLimits)>,
    /// The load.
    pub threads: Vec<Thread>,
    /// Scheduled changes, sorted by time.
    pub changes: Vec<(Nanos, Change)>,
    /// The schedulers of the scenario's exchanges, in order, with their costs.
    pub schedulers: Vec<Replacement>,
    /// Limits of the run.
    pub until: Until,
    /// Seed of what varies from run to run in the order of threads and the length of their loops.
    pub seed: u64,
    /// Progress and cancellation.
    pub control: &'a Control,
}

/// Events between polls of the control (progress and cancellation).
const CONTROL_POLL_INTERVAL: u32 = 8192;

impl<'a> Run<'a> {
    /// Sets up a run at time 0.
    pub fn new(parts: RunParts<'a>) -> Run<'a> {
        let turns = Turns::new(parts.host.completion(), parts.host.cpus());
        let cpus = CpuQueues::new(parts.host.cpus(), parts.seed);
        let mut run = Run {
            layer: BlockLayer::new(parts.config, parts.stack, parts.tenants),
            several_stages: parts.threads.iter().any(|t| t.stage != parts.threads[0].stage),
            stage: None,
            live: parts.threads.len(),
            issued_late: 0,
            device: parts.device,
            host: parts.host,
            recorder: parts.recorder,
            threads: parts.threads.into_iter().map(ThreadState::new).collect(),
            events: Events::default(),
            slots: Vec::new(),
            free: Vec::new(),
            plug: Plug::default(),
            sleeps: Vec::new(),
            cpus,
            turns,
            warm: None,
            now: Nanos::ZERO,
            timer_at: Nanos::MAX,
            sends: false,
            until: parts.until,
            submitted: 0,
            open: true,
            changes: parts.changes,
            costs: parts.schedulers.iter().map(|(_, cost)| *cost).collect(),
            schedulers: parts.schedulers.into_iter().map(|(scheduler, _)| Some(scheduler)).collect(),
            next_cost: None,
            switches: 0,
            control: parts.control,
            completions: Vec::new(),
            finished: Vec::new(),
            period: None,
        };
        if let Some(oracle) = parts.oracle {
            run.layer.attach_oracle(oracle);
        }
        run.device.set_class_weights(run.layer.scheduler().class_weights());
        let threads = run.threads.iter().map(|state| &state.running.thread);
        set_controllers(&mut run.layer, &parts.limits, threads);
        for (number, (at, _)) in run.changes.iter().enumerate() {
            run.events.push(*at, EventKind::Change(number as u32));
        }
        run.start_sq_threads();
        run.start_stage();
        run
    }

    /// Runs to the end and drains; completions after the end are not measured.
    pub fn finish(mut self) -> RunOutput {
        let mut events = 0u32;
        let mut reported = Nanos::ZERO;
        let mut counted = 0;
        // End, with the activity of host and device until then: draining is not part of the run.
        let mut end = None;
        let mut cancelled = false;
        while let Some(at) = self.next_at() {
            let idle = self.slots.len() == self.free.len();
            // Timers and device activity after the last I/O are not part of the run.
            let over = idle && (self.live == 0 || self.submitted >= self.until.ios);
            if self.open && (at > self.until.time || over) {
                end = Some(self.close(if over { self.now } else { self.until.time }));
            }
            if (!self.open && idle) || self.layer.fault().is_some() {
                break;
            }
            if self.warm.is_none() && at >= self.until.warmup {
                let end = self.until.warmup.max(self.now);
                self.warm = Some(Done::until(end, &mut self.host, self.device.counters()));
            }
            self.step(at);
            events += 1;
            if events.is_multiple_of(CONTROL_POLL_INTERVAL) {
                let done = self.recorder.finished();
                self.control.finished.fetch_add(done - counted, Ordering::Relaxed);
                counted = done;
                let until = self.now.min(self.until.time);
                self.control.elapsed_ns.fetch_add(until.since(reported).0, Ordering::Relaxed);
                reported = until.max(reported);
                if self.open && self.control.cancel.load(Ordering::Relaxed) {
                    cancelled = true;
                    end = Some(self.close(self.now));
                }
            }
        }
        self.control.finished.fetch_add(self.recorder.finished() - counted, Ordering::Relaxed);
        let Closed { end, mut host, counters, applications } = end.unwrap_or_else(|| self.close(self.now));
        self.control.elapsed_ns.fetch_add(end.since(reported).0, Ordering::Relaxed);
        let done = Done::until(end, &mut host, counters);
        RunOutput {
            measured: self.warm.map_or_else(Done::default, |warm| done.since(&warm)),
            recorder: self.recorder,
            layer: self.layer,
            counters,
            host,
            end,
            issued_late: self.issued_late,
            cancelled,
            applications,
        }
    }

    /// Keeps what completes in each period from now on.
    pub(crate) fn watch(&mut self) {
        self.period = Some(Box::default());
    }

    /// Begins a period.
    pub(crate) fn begin_period(&mut self) {
        if let Some(period) = &mut self.period {
            period.restart(self.now);
        }
    }

    /// Completions of the period.
    pub(crate) fn period(&self) -> &Period {
        static NOTHING: LazyLock<Period> = LazyLock::new(Period::default);
        self.period.as_deref().unwrap_or(&NOTHING)
    }

    /// Why the block layer sends nothing any more.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.layer.fault().copied()
    }

    /// Exchanges the scheduler.
    pub(crate) fn replace(&mut self, stack: Stack, cost: SchedulerCost, how: Handover) {
        self.next_cost = Some(cost);
        self.layer.replace(self.now, stack, how);
        self.serve();
    }

    /// Runs to the end of the period that began last, or until the control cancels; false where the whole run has ended.
    pub(crate) fn advance(&mut self, end: PeriodEnd) -> bool {
        let (time, requests) = match end {
            PeriodEnd::Time(length) => (self.period().from + length, u64::MAX),
            PeriodEnd::Requests(requests) => (Nanos::MAX, requests),
        };
        let mut events = 0u32;
        let goes_on = loop {
            let Some(at) = self.next_at() else { break false };
            events = events.wrapping_add(1);
            if events.is_multiple_of(CONTROL_POLL_INTERVAL) && self.control.cancelled() {
                break true;
            }
            let idle = self.slots.len() == self.free.len();
            let over = idle && (self.live == 0 || self.submitted >= self.until.ios);
            if at > self.until.time || over || self.layer.fault().is_some() {
                break false;
            }
            if at > time {
                self.now = time;
                break true;
            }
            self.step(at);
            if self.period().requests >= requests {
                break true;
            }
        };
        let now = self.now;
        if let Some(period) = &mut self.period {
            period.to = now;
        }
        goes_on
    }

    /// Starts the polling kernel threads (SQPOLL), one per ring, on the SMT sibling of the ring's CPU.
    fn start_sq_threads(&mut self) {
        let cpus = self.host.cpus();
        if self.host.completion() == Method::Sqpoll && cpus > 1 {
            for state in &self.threads {
                self.host.start_poll((usize::from(state.running.thread.cpu) + cpus / 2) % cpus, Nanos::ZERO);
            }
        }
    }

    fn close(&mut self, end: Nanos) -> Closed {
        self.record_unfinished(end);
        self.open = false;
        let outcome =
            |t: &ThreadState| t.running.thread.workload.outcome(end).map(|outcome| (t.running.thread.task, outcome));
        Closed {
            end,
            host: self.host.clone(),
            counters: self.device.counters(),
            applications: self.threads.iter().filter_map(outcome).collect(),
        }
    }

    fn next_at(&self) -> Option<Nanos> {
        match (self.events.next_at(), self.device.next_event()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Processes the events of one source at time `at`.
    fn step(&mut self, at: Nanos) {
        self.now = at;
        if self.device.next_event().is_some_and(|t| t <= at) {
            self.device_done(at);
        } else if let Some((_, what)) = self.events.pop() {
            if let Some(thread) = self.thread_that_runs(what)
                && !self.has_cpu(thread, what)
            {
                return;
            }
            self.happens(what);
        }
    }

    fn happens(&mut self, what: EventKind) {
        let at = self.now;
        match what {
            EventKind::Wake(thread) => {
                let state = &mut self.threads[thread as usize];
                if state.wake_at <= at {
                    state.wake_at = Nanos::MAX;
                    self.pump(thread);
                }
            }
            EventKind::Issue(slot) => self.issue(slot),
            EventKind::IssueBatch(thread) => self.issue_batch(thread),
            EventKind::Retry(slot) => self.retry(slot),
            EventKind::Entered(slot) => self.entered(slot),
            EventKind::Work(slot) => self.work(slot),
            EventKind::Reply(slot) => self.replied(slot),
            EventKind::Slept(slot) => self.slept(slot),
            EventKind::Rested(thread) => self.rested(thread),
            EventKind::Reap(thread) => self.reap(thread),
            EventKind::Change(number) => self.change(number),
            EventKind::Dispatch(cpu) => self.dispatch(cpu),
            EventKind::Send => {
                self.sends = false;
                self.serve();
            }
            EventKind::Timer => {
                if self.timer_at <= at {
                    self.timer_at = Nanos::MAX;
                    self.layer.timer(at);
                    self.serve();
                }
            }
        }
        if let Some(thread) = self.thread_that_runs(what) {
            self.leave_cpu(thread);
        }
    }
}
