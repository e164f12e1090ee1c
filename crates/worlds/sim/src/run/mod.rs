//! One run: threads, block layer, host and device in virtual time.
//!
//! The state is in [`Run`], whose parts own what they keep; what happens to several of them are functions over it, each of which
//! calls only such as come before it here: CPUs ([`turns`], [`queue`], [`calls`]), waking ([`sleep`]), the device ([`device`]), threads
//! ([`threads`]), submission ([`submit`]), completion ([`replies`]), and the loop.

mod calls;
mod cpus;
mod device;
mod disk;
mod io;
mod measurement;
mod period;
mod queue;
mod replies;
mod sleep;
mod stages;
mod state;
mod submit;
mod thread;
mod threads;
mod turns;

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};

use dumbwaiter_block::{BlockLayer, Config, Fault, Handover, Nanos, ServiceOracle, Stack, TaskId, TenantId, Tenants};
use dumbwaiter_controllers::{KernelControls, TenantControls};
use dumbwaiter_devices::{Counters, Device};
use dumbwaiter_experiment::Control;
use dumbwaiter_measure::{Recorder, Unfinished};
use dumbwaiter_scenario::load::{Change, RunLimit, RunningLoad, Slots, Thread};

use crate::events::{EventKind, Events};
use crate::host::{Host, SchedulerCost};

use self::calls::{hand_on, take_lock};
use self::cpus::Cpus;
use self::device::{device_done, serve, serve_all};
pub use self::disk::Replacement;
use self::disk::{Disks, Exchanges};
use self::measurement::{Done, Measurement};
pub use self::period::{Period, PeriodEnd};
use self::queue::{has_cpu, leave_cpu, next_to_run, thread_that_runs};
use self::replies::{reap, replied, rested};
pub use self::state::Run;
use self::submit::{entered, issue, issue_batch, retry, work};
use self::thread::{TaskSleeps, ThreadState};
use self::threads::{change, pump, start_stage};
use self::turns::slept;

/// The output of a run.
pub struct RunOutput {
    /// The measurements.
    pub recorder: Recorder,
    /// The block layers of all drives, drained.
    pub layers: Vec<BlockLayer>,
    /// Counters of each device at the end of the measured time.
    pub counters: Vec<Counters>,
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

/// State at the end of the measured time.
struct Closed {
    end: Nanos,
    host: Host,
    counters: Vec<Counters>,
    applications: Vec<(TaskId, dumbwaiter_workloads::ApplicationOutcome)>,
}

/// The components of a run.
pub struct RunParts<'a> {
    /// Settings of the block layer.
    pub config: Config,
    /// The scheduler of each drive with its controllers, built with `config.setup`.
    pub stacks: Vec<Stack>,
    /// Exact service times of the devices, where they are known.
    pub oracle: Option<Arc<dyn ServiceOracle>>,
    /// Tasks and tenants, with those of every thread.
    pub tenants: Tenants,
    /// The device of each drive, with classes if a scheduler of the run uses them.
    pub devices: Vec<Box<dyn Device>>,
    /// Sectors of one drive.
    pub sectors: u64,
    /// The host.
    pub host: Host,
    /// The recorder.
    pub recorder: Recorder,
    /// What controllers do for the tenants.
    pub controls: Vec<(TenantId, TenantControls)>,
    /// What the kernel puts before the scheduler.
    pub kernel: KernelControls,
    /// The load.
    pub threads: Vec<Thread>,
    /// Scheduled changes, sorted by time.
    pub changes: Vec<(Nanos, Change)>,
    /// The schedulers of the scenario's exchanges, in order, with their costs.
    pub schedulers: Vec<Replacement>,
    /// Limits of the run.
    pub limit: RunLimit,
    /// Latency ends where the kernel has completed an I/O, not where its application sees it.
    pub kernel_latency: bool,
    /// Progress and cancellation.
    pub control: &'a Control,
}

/// Events between polls of the control (progress and cancellation).
const CONTROL_POLL_INTERVAL: u32 = 8192;

impl<'a> Run<'a> {
    /// Sets up a run at time 0.
    pub fn new(parts: RunParts<'a>) -> Run<'a> {
        let layer = |stack| {
            let mut layer = BlockLayer::new(parts.config, stack, parts.tenants.clone());
            if let Some(oracle) = &parts.oracle {
                layer.attach_oracle(Arc::clone(oracle));
            }
            layer
        };
        let layers = parts.stacks.into_iter().map(layer).collect();
        let mut run = Run {
            now: Nanos::ZERO,
            events: Events::default(),
            threads: parts.threads.iter().map(|thread| ThreadState::new(thread, parts.host.completion())).collect(),
            load: RunningLoad::new(parts.threads, parts.changes, parts.limit.ios),
            sleeps: TaskSleeps::default(),
            slots: Slots::default(),
            cpus: Cpus::new(parts.host.with_drives(parts.devices.len())),
            disks: Disks::new(layers, parts.devices, parts.sectors),
            exchanges: Exchanges::new(parts.schedulers),
            measured: Measurement {
                recorder: parts.recorder,
                limit: parts.limit,
                kernel_latency: parts.kernel_latency,
                warm: None,
                period: None,
            },
            control: parts.control,
        };
        for layer in &mut run.disks.layers {
            run.load.set_controllers(layer, parts.kernel, &parts.controls);
        }
        for at in run.load.change_times() {
            run.events.push(at, EventKind::Change);
        }
        run.cpus.start_sq_threads(run.threads.iter().map(|state| state.cpu));
        start_stage(&mut run);
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
            // Timers and device activity after the last I/O are not part of the run.
            let over = self.load.is_over();
            if self.load.is_open() && (at > self.measured.limit.time || over) {
                end = Some(self.close(if over { self.now } else { self.measured.limit.time }));
            }
            if (!self.load.is_open() && self.load.is_idle()) || self.disks.fault().is_some() {
                break;
            }
            if self.measured.warm.is_none() && at >= self.measured.limit.warmup {
                let end = self.measured.limit.warmup.max(self.now);
                self.measured.warm = Some(Done::until(end, &mut self.cpus.host, self.disks.counters()));
            }
            self.step(at);
            events += 1;
            if events.is_multiple_of(CONTROL_POLL_INTERVAL) {
                let done = self.measured.recorder.finished();
                self.control.finished.fetch_add(done - counted, Ordering::Relaxed);
                counted = done;
                let until = self.now.min(self.measured.limit.time);
                self.control.elapsed_ns.fetch_add(until.since(reported).0, Ordering::Relaxed);
                reported = until.max(reported);
                if self.load.is_open() && self.control.cancel.load(Ordering::Relaxed) {
                    cancelled = true;
                    end = Some(self.close(self.now));
                }
            }
        }
        self.control.finished.fetch_add(self.measured.recorder.finished() - counted, Ordering::Relaxed);
        let Closed { end, mut host, counters, applications } = end.unwrap_or_else(|| self.close(self.now));
        self.control.elapsed_ns.fetch_add(end.since(reported).0, Ordering::Relaxed);
        let done = Done::until(end, &mut host, counters.clone());
        RunOutput {
            measured: self.measured.warm.map_or_else(Done::default, |warm| done.since(&warm)),
            recorder: self.measured.recorder,
            layers: self.disks.layers,
            counters,
            host,
            end,
            issued_late: self.load.issued_late(),
            cancelled,
            applications,
        }
    }

    /// Keeps what completes in each period from now on.
    pub(crate) fn watch(&mut self) {
        self.measured.period = Some(Box::default());
    }

    /// Begins a period.
    pub(crate) fn begin_period(&mut self) {
        if let Some(period) = &mut self.measured.period {
            period.restart(self.now);
        }
    }

    /// Completions of the period.
    pub(crate) fn period(&self) -> &Period {
        static NOTHING: LazyLock<Period> = LazyLock::new(Period::default);
        self.measured.period.as_deref().unwrap_or(&NOTHING)
    }

    /// Why the block layer sends nothing any more.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.disks.fault().copied()
    }

    /// Exchanges the scheduler of every drive.
    pub(crate) fn replace(&mut self, stack: impl Fn() -> Stack, cost: SchedulerCost, how: Handover) {
        self.exchanges.next_cost = Some(cost);
        for layer in &mut self.disks.layers {
            layer.replace(self.now, stack(), how);
        }
        serve_all(self);
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
            if at > self.measured.limit.time || self.load.is_over() || self.disks.fault().is_some() {
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
        if let Some(period) = &mut self.measured.period {
            period.to = now;
        }
        goes_on
    }

    /// Ends the measured time.
    fn close(&mut self, end: Nanos) -> Closed {
        self.record_unfinished(end);
        self.load.close();
        Closed {
            end,
            host: self.cpus.host.clone(),
            counters: self.disks.counters(),
            applications: self.load.outcomes(end),
        }
    }

    /// Records what is unfinished at the end.
    fn record_unfinished(&mut self, end: Nanos) {
        let closed = |slot: &u32| self.threads[self.slots[*slot].thread as usize].closed;
        let prepared = self.threads.iter().flat_map(|state| &state.prepared);
        // Their latency will count from when the call that submits them reaches them.
        let later: BTreeSet<u32> =
            prepared.chain(self.sleeps.all_behind()).filter(|slot| closed(slot)).copied().collect();
        for (number, slot) in self.slots.used().filter(|(_, slot)| slot.posted == Nanos::ZERO) {
            let (op, task, tenant) = (slot.io.op, slot.io.task, slot.io.tenant);
            let submit = if later.contains(&number) { end } else { slot.submit };
            self.measured.recorder.unfinished(Unfinished { op, task, tenant, submit, end });
        }
    }

    /// When something happens next.
    fn next_at(&self) -> Option<Nanos> {
        match (self.events.next_at(), self.disks.next_event()) {
            (Some(a), Some((b, _))) => Some(a.min(b)),
            (a, b) => a.or(b.map(|(at, _)| at)),
        }
    }

    /// Processes the events of one source at time `at`.
    fn step(&mut self, at: Nanos) {
        self.now = at;
        if let Some((_, drive)) = self.disks.next_event().filter(|(t, _)| *t <= at) {
            device_done(self, drive, at);
        } else if let Some((_, what)) = self.events.pop() {
            if let Some(thread) = thread_that_runs(self, what)
                && !has_cpu(self, thread, what)
            {
                return;
            }
            self.handle(what);
        }
    }

    fn handle(&mut self, what: EventKind) {
        let at = self.now;
        let thread = thread_that_runs(self, what);
        match what {
            EventKind::Wake(thread) => {
                if self.load.wakes(thread, at) {
                    pump(self, thread);
                }
            }
            EventKind::Issue(slot) => issue(self, slot),
            EventKind::IssueBatch(thread) => issue_batch(self, thread),
            EventKind::Retry(slot) => retry(self, slot),
            EventKind::Entered(slot) => entered(self, slot),
            EventKind::Work(slot) => work(self, slot),
            EventKind::Reply(slot) => replied(self, slot),
            EventKind::Slept(slot) => slept(self, slot),
            EventKind::Rested(thread) => rested(self, thread),
            EventKind::Reap(thread) => reap(self, thread),
            EventKind::Change => change(self),
            EventKind::Dispatch(cpu) => {
                if let Some(event) = next_to_run(self, cpu) {
                    self.handle(event);
                }
            }
            EventKind::Take(cpu) => take_lock(self, cpu as usize),
            EventKind::HandOn(drive) => hand_on(self, drive),
            EventKind::Send(drive) => {
                self.disks.drives[usize::from(drive)].sends = false;
                serve(self, drive);
            }
            EventKind::Timer(drive) => {
                if self.disks.drives[usize::from(drive)].timer_at <= at {
                    self.disks.drives[usize::from(drive)].timer_at = Nanos::MAX;
                    self.disks.layers[usize::from(drive)].timer(at);
                    serve(self, drive);
                }
            }
        }
        if let Some(thread) = thread {
            leave_cpu(self, thread);
        }
    }
}
