//! One run: threads, block layer, host and device in virtual time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dumbwaiter_block::{
    BlockLayer, Config, Finished, Io, Ioprio, Nanos, Plug, RequestId, SECTOR_BYTES, Scheduler, TaskId, TenantId,
    Tenants,
};
use dumbwaiter_devices::{Command, Completion, Device, Submitted};
use dumbwaiter_measure::{Completed, Recorder};
use dumbwaiter_workloads::{Next, Want, Workload};

use crate::events::{Events, What};
use crate::host::Host;

/// How a thread hands its I/Os over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Each by itself: a synchronous thread, or a trace whose requests come from many.
    Each,
    /// A ring: what completed together is followed up together, in one system call.
    Batch,
}

/// One thread of I/O.
pub struct Thread {
    /// What it does.
    pub workload: Box<dyn Workload>,
    /// The tenant that is charged.
    pub tenant: TenantId,
    /// Its task; a workload with several tasks gets new ones behind all that are known.
    pub task: TaskId,
    /// Priority of its I/Os unless they carry their own.
    pub ioprio: Ioprio,
    /// I/Os it may have outstanding.
    pub depth: u32,
    /// How it hands them over.
    pub mode: Mode,
    /// CPU it runs on.
    pub cpu: u16,
    /// Does it pause between I/Os as an application does (its own arrival times otherwise)?
    pub closed: bool,
    /// It starts when all threads of lower stages have ended.
    pub stage: u32,
}

impl Thread {
    /// A thread that does nothing, to be filled in.
    pub fn idle() -> Thread {
        Thread {
            workload: Box::new(Nothing),
            tenant: TenantId(0),
            task: TaskId(0),
            ioprio: Ioprio::DEFAULT,
            depth: 1,
            mode: Mode::Each,
            cpu: 0,
            closed: true,
            stage: 0,
        }
    }
}

struct Nothing;

impl Workload for Nothing {
    fn next(&mut self, _now: Nanos) -> Next {
        Next::Done
    }
}

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub struct Until {
    /// At this time, if ever.
    pub time: Nanos,
    /// After this many I/Os, if ever.
    pub ios: u64,
}

/// Watched and steered from outside while a run goes on.
#[derive(Default)]
pub struct Control {
    /// Set to end the run early; what is finished counts.
    pub cancel: AtomicBool,
    /// Nanoseconds of virtual time simulated so far, all runs together.
    pub simulated_ns: AtomicU64,
    /// I/Os finished so far, all runs together.
    pub finished: AtomicU64,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    submit: Nanos,
    insert: Nanos,
    issue: Nanos,
    device_done: Nanos,
    io: Io,
    thread: u32,
    task: u16,
}

struct ThreadState {
    thread: Thread,
    outstanding: u32,
    /// Slots that wait for the next batch.
    prepared: VecDeque<u32>,
    /// Of these, those in the batch under way.
    issuing: u32,
    /// Slots whose completion has not been taken.
    ready: VecDeque<u32>,
    /// Sleeps until something completes.
    asleep: bool,
    /// A `Reap` is announced.
    reaping: bool,
    /// When the next `Wake` comes.
    wake_at: Nanos,
    /// CPU time of completions that the next batch starts with.
    owed: u64,
    /// The next batch comes after a sleep.
    cold: bool,
    done: bool,
    /// An open loop whose requests are issued late: it had as many outstanding as it may.
    late: bool,
    first_task: u32,
    tasks: u32,
}

/// A run under way.
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
    now: Nanos,
    timer_at: Nanos,
    until: Until,
    submitted: u64,
    submitted_by_tenant: Vec<u64>,
    open: bool,
    /// The stage whose threads run.
    stage: Option<u32>,
    issued_late: u64,
    several_stages: bool,
    control: &'a Control,
    completions: Vec<Completion>,
    finished: Vec<Finished>,
}

/// What a run leaves behind for its report.
pub struct Outcome {
    /// What was measured.
    pub recorder: Recorder,
    /// The block layer, drained.
    pub layer: BlockLayer,
    /// The device.
    pub device: Box<dyn Device>,
    /// The host.
    pub host: Host,
    /// When the measured part ended.
    pub end: Nanos,
    /// I/Os submitted, per tenant.
    pub submitted_by_tenant: Vec<u64>,
    /// I/Os of open loops that were issued after their time.
    pub issued_late: u64,
    /// It was ended from outside.
    pub cancelled: bool,
}

/// Everything a run is made of.
pub struct Parts<'a> {
    /// Settings of the block layer.
    pub config: Config,
    /// The scheduler, made with `config.setup`.
    pub scheduler: Box<dyn Scheduler>,
    /// Tasks and tenants; every thread's must be in it.
    pub tenants: Tenants,
    /// The device.
    pub device: Box<dyn Device>,
    /// The host.
    pub host: Host,
    /// Listens.
    pub recorder: Recorder,
    /// The load.
    pub threads: Vec<Thread>,
    /// When it ends.
    pub until: Until,
    /// From outside.
    pub control: &'a Control,
}

/// A batch of more than this many I/Os is plugged (Linux: io_submit, io_uring).
const PLUG_OVER: u32 = 2;
/// Events between two looks at the outside.
const LOOK_EVERY: u32 = 8192;

impl<'a> Run<'a> {
    /// Sets everything up; nothing has happened yet.
    pub fn new(parts: Parts<'a>) -> Run<'a> {
        let state = |thread: Thread| ThreadState {
            first_task: thread.task.0,
            thread,
            outstanding: 0,
            prepared: VecDeque::new(),
            issuing: 0,
            ready: VecDeque::new(),
            asleep: true,
            reaping: false,
            wake_at: Nanos::MAX,
            owed: 0,
            cold: true,
            done: false,
            late: false,
            tasks: 1,
        };
        let mut run = Run {
            submitted_by_tenant: vec![0; parts.tenants.tenants.len()],
            layer: BlockLayer::new(parts.config, parts.scheduler, parts.tenants),
            several_stages: parts.threads.iter().any(|t| t.stage != parts.threads[0].stage),
            stage: None,
            issued_late: 0,
            device: parts.device,
            host: parts.host,
            recorder: parts.recorder,
            threads: parts.threads.into_iter().map(state).collect(),
            events: Events::default(),
            slots: Vec::new(),
            free: Vec::new(),
            plug: Plug::default(),
            now: Nanos::ZERO,
            timer_at: Nanos::MAX,
            until: parts.until,
            submitted: 0,
            open: true,
            control: parts.control,
            completions: Vec::new(),
            finished: Vec::new(),
        };
        run.start_stage();
        run
    }

    /// Starts the lowest stage of which a thread has not ended, unless it goes on already.
    fn start_stage(&mut self) {
        let live = |t: &&ThreadState| !t.done || t.outstanding > 0;
        let Some(stage) = self.threads.iter().filter(live).map(|t| t.thread.stage).min() else { return };
        if self.stage == Some(stage) {
            return;
        }
        self.stage = Some(stage);
        for thread in 0..self.threads.len() as u32 {
            if self.threads[thread as usize].thread.stage == stage {
                self.wake(thread, self.now);
            }
        }
    }

    /// Runs to the end and lets everything drain; what finishes after the end is not measured.
    pub fn finish(mut self) -> Outcome {
        let mut events = 0u32;
        let mut reported = Nanos::ZERO;
        let mut counted = 0;
        let mut end = None;
        let mut cancelled = false;
        while let Some(at) = self.next_at() {
            let idle = self.slots.len() == self.free.len();
            if self.open && (at > self.until.time || idle && self.submitted >= self.until.ios) {
                end = Some(if at > self.until.time { self.until.time } else { self.now });
                self.open = false;
            }
            if !self.open && idle {
                break;
            }
            self.step(at);
            events += 1;
            if events.is_multiple_of(LOOK_EVERY) {
                let done = self.recorder.finished();
                self.control.finished.fetch_add(done - counted, Ordering::Relaxed);
                counted = done;
                let until = self.now.min(self.until.time);
                self.control.simulated_ns.fetch_add(until.since(reported).0, Ordering::Relaxed);
                reported = until.max(reported);
                if self.open && self.control.cancel.load(Ordering::Relaxed) {
                    cancelled = true;
                    end = Some(self.now);
                    self.open = false;
                }
            }
        }
        self.control.finished.fetch_add(self.recorder.finished() - counted, Ordering::Relaxed);
        let end = end.unwrap_or(self.now);
        self.control.simulated_ns.fetch_add(end.since(reported).0, Ordering::Relaxed);
        Outcome {
            recorder: self.recorder,
            layer: self.layer,
            device: self.device,
            host: self.host,
            end,
            submitted_by_tenant: self.submitted_by_tenant,
            issued_late: self.issued_late,
            cancelled,
        }
    }

    fn next_at(&self) -> Option<Nanos> {
        match (self.events.next_at(), self.device.next_event()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Everything of one moment that one source announced.
    fn step(&mut self, at: Nanos) {
        self.now = at;
        if self.device.next_event().is_some_and(|t| t <= at) {
            self.device_done(at);
        } else if let Some((_, what)) = self.events.pop() {
            match what {
                What::Wake(thread) => {
                    let state = &mut self.threads[thread as usize];
                    if state.wake_at <= at {
                        state.wake_at = Nanos::MAX;
                        self.pump(thread);
                    }
                }
                What::Issue(slot) => self.issue(slot),
                What::IssueBatch(thread) => self.issue_batch(thread),
                What::Reply(slot) => {
                    let thread = self.told(slot);
                    self.pump(thread);
                }
                What::Reap(thread) => self.reap(thread),
                What::Timer => {
                    if self.timer_at <= at {
                        self.timer_at = Nanos::MAX;
                        self.layer.timer(at);
                        self.serve();
                    }
                }
            }
        }
    }

    fn wake(&mut self, thread: u32, at: Nanos) {
        let state = &mut self.threads[thread as usize];
        if at < state.wake_at {
            state.wake_at = at;
            self.events.push(at, What::Wake(thread));
        }
    }

    /// Lets a thread ask for as much as it may have outstanding.
    fn pump(&mut self, thread: u32) {
        let now = self.now;
        loop {
            let state = &mut self.threads[thread as usize];
            if !self.open || state.done || self.submitted >= self.until.ios {
                break;
            }
            if state.outstanding >= state.thread.depth {
                state.late = !state.thread.closed;
                break;
            }
            match state.thread.workload.next(now) {
                Next::Issue(want) => {
                    self.issued_late += u64::from(state.late);
                    self.ask(thread, want);
                }
                Next::Wait(at) if at < Nanos::MAX => {
                    state.late = false;
                    self.wake(thread, at.max(Nanos(now.0 + 1)));
                    break;
                }
                Next::Wait(_) | Next::Done => {
                    state.done = true;
                    break;
                }
                Next::Blocked => break,
            }
        }
        self.submit_prepared(thread);
        let state = &self.threads[thread as usize];
        if self.several_stages && state.done && state.outstanding == 0 {
            self.start_stage();
        }
    }

    /// The thread wants an I/O: it takes a slot and, by itself or with a batch, the CPU.
    fn ask(&mut self, thread: u32, want: Want) {
        let now = self.now;
        let state = &mut self.threads[thread as usize];
        self.submitted += 1;
        self.submitted_by_tenant[state.thread.tenant.0 as usize] += 1;
        state.outstanding += 1;
        let cpus = self.host.cpus();
        let (task, cpu) = if want.task == 0 {
            (state.thread.task, state.thread.cpu)
        } else {
            let task = self.task_of(thread, want.task);
            (task, (usize::from(want.task) % cpus) as u16)
        };
        let state = &self.threads[thread as usize];
        let io = Io {
            op: want.op,
            flags: want.flags,
            ioprio: want.ioprio.unwrap_or(state.thread.ioprio),
            sector: want.sector,
            sectors: want.sectors,
            task,
            tenant: state.thread.tenant,
            cpu,
            stream: want.stream,
            cookie: 0,
        };
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(Slot::default());
                self.slots.len() as u32 - 1
            }
        };
        let mode = state.thread.mode;
        let closed = state.thread.closed;
        self.slots[slot as usize] =
            Slot { submit: now, io: Io { cookie: slot, ..io }, thread, task: want.task, ..Slot::default() };
        match mode {
            Mode::Each => {
                let (called, arrives) = self.host.submit(usize::from(cpu), now, io.op, io.sectors, closed);
                if closed {
                    self.slots[slot as usize].submit = called;
                }
                self.events.push(arrives, What::Issue(slot));
            }
            Mode::Batch => self.threads[thread as usize].prepared.push_back(slot),
        }
    }

    /// Tasks of a workload with several: the first is the thread's own, the others are added as they appear.
    fn task_of(&mut self, thread: u32, number: u16) -> TaskId {
        let state = &mut self.threads[thread as usize];
        if state.tasks == 1 {
            state.first_task = self.layer.tenants().tasks.len() as u32;
        }
        while state.tasks <= u32::from(number) {
            self.layer.tenants_mut().add_task(state.thread.tenant, state.thread.ioprio);
            state.tasks += 1;
        }
        TaskId(state.first_task + u32::from(number) - 1)
    }

    /// A ring's thread that is not in the middle of a batch starts one.
    fn submit_prepared(&mut self, thread: u32) {
        let state = &mut self.threads[thread as usize];
        if state.prepared.is_empty() || state.issuing > 0 || state.reaping {
            return;
        }
        state.issuing = state.prepared.len() as u32;
        let (more, cold) = (std::mem::take(&mut state.owed), std::mem::take(&mut state.cold));
        state.asleep = false;
        let slots = &self.slots;
        let ops = state.prepared.iter().map(|slot| slots[*slot as usize].io.op);
        let cpu = usize::from(state.thread.cpu);
        let (called, arrives) = self.host.submit_batch(cpu, self.now, more, cold, ops);
        if state.thread.closed {
            for slot in &state.prepared {
                self.slots[*slot as usize].submit = called;
            }
        }
        self.events.push(arrives, What::IssueBatch(thread));
    }

    fn issue(&mut self, slot: u32) {
        let io = self.slots[slot as usize].io;
        self.layer.submit(self.now, io, None);
        self.host.sleep(usize::from(io.cpu), self.now);
        self.serve();
    }

    fn issue_batch(&mut self, thread: u32) {
        let state = &mut self.threads[thread as usize];
        let count = std::mem::take(&mut state.issuing);
        let plugged = count > PLUG_OVER;
        for _ in 0..count {
            let slot = state.prepared.pop_front().expect("a batch holds what was prepared");
            let io = self.slots[slot as usize].io;
            self.layer.submit(self.now, io, plugged.then_some(&mut self.plug));
        }
        if plugged {
            self.layer.unplug(self.now, &mut self.plug);
        }
        self.serve();
        // The thread goes on: more to submit, completions to take, or sleep.
        let state = &mut self.threads[thread as usize];
        if !state.ready.is_empty() {
            self.look(thread);
        } else if !state.prepared.is_empty() {
            self.submit_prepared(thread);
        } else {
            state.asleep = true;
            state.cold = true;
            let cpu = usize::from(state.thread.cpu);
            self.host.sleep(cpu, self.now);
        }
    }

    fn look(&mut self, thread: u32) {
        let state = &mut self.threads[thread as usize];
        state.reaping = true;
        let at = self.host.look(usize::from(state.thread.cpu), self.now);
        self.events.push(at, What::Reap(thread));
    }

    /// Hands the device what may go now.
    fn serve(&mut self) {
        let now = self.now;
        while let Some(id) = self.layer.poll(now) {
            let request = self.layer.request(id);
            let command = Command {
                tag: id.0,
                op: request.io.op,
                fua: request.io.flags.any(dumbwaiter_block::Flags::FUA),
                sector: request.sector,
                sectors: request.sectors,
                queue: self.layer.hw_queue(id),
                tenant: request.io.tenant,
            };
            if self.device.submit(now, &command) == Submitted::Busy {
                self.layer.refused(now, id);
            }
        }
        self.layer.finish_idle(&mut self.finished);
        self.deliver(now);
        if self.open {
            self.recorder.depth(now, self.layer.queued(), self.layer.in_device());
        }
        if let Some(at) = self.layer.next_timer()
            && at < self.timer_at
        {
            self.timer_at = at.max(Nanos(now.0 + 1));
            self.events.push(self.timer_at, What::Timer);
        }
    }

    fn device_done(&mut self, now: Nanos) {
        let mut completions = std::mem::take(&mut self.completions);
        self.device.advance(now, &mut completions);
        for completion in completions.drain(..) {
            self.layer.complete(completion.at, RequestId(completion.tag), completion.failed, &mut self.finished);
            self.deliver(completion.at);
        }
        self.completions = completions;
        self.serve();
    }

    /// Finished I/Os go to the host, which tells the threads.
    fn deliver(&mut self, done: Nanos) {
        for i in 0..self.finished.len() {
            let finished = self.finished[i];
            let slot = finished.io.cookie;
            let entry = &mut self.slots[slot as usize];
            entry.insert = finished.insert;
            entry.issue = finished.issue;
            entry.device_done = done;
            let (cpu, op) = (usize::from(entry.io.cpu), entry.io.op);
            let thread = entry.thread;
            let state = &mut self.threads[thread as usize];
            match state.thread.mode {
                Mode::Each => {
                    let at = self.host.reply(cpu, done, op);
                    self.events.push(at, What::Reply(slot));
                }
                Mode::Batch => {
                    let first = state.ready.is_empty();
                    state.ready.push_back(slot);
                    if state.asleep {
                        state.asleep = false;
                        state.reaping = true;
                        let at = self.host.wake_batch(cpu, done, op);
                        self.events.push(at, What::Reap(thread));
                    } else {
                        self.host.note_completion(cpu, done, op, first);
                    }
                }
            }
        }
        self.finished.clear();
    }

    fn reap(&mut self, thread: u32) {
        let mut taken = 0;
        while let Some(slot) = self.threads[thread as usize].ready.pop_front() {
            self.told(slot);
            taken += 1;
        }
        let warm = self.host.profile.cpl_warm;
        let state = &mut self.threads[thread as usize];
        state.reaping = false;
        state.owed += warm * (taken - 1u64.min(taken));
        self.pump(thread);
        let state = &mut self.threads[thread as usize];
        if state.issuing == 0 && state.prepared.is_empty() {
            state.asleep = true;
            state.cold = true;
        }
    }

    /// The application knows of a completion: it is measured, and the slot is free.
    fn told(&mut self, slot: u32) -> u32 {
        let entry = self.slots[slot as usize];
        self.free.push(slot);
        let state = &mut self.threads[entry.thread as usize];
        state.outstanding -= 1;
        if self.open {
            let io = &entry.io;
            self.recorder.record(&Completed {
                op: io.op,
                task: io.task,
                tenant: io.tenant,
                bytes: u64::from(io.sectors) * SECTOR_BYTES,
                submit: entry.submit,
                insert: entry.insert,
                issue: entry.issue,
                device_done: entry.device_done,
                complete: self.now,
            });
        }
        state.thread.workload.completed(self.now, entry.task, self.now.since(entry.submit));
        entry.thread
    }
}
