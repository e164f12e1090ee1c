//! A load while it runs, in simulated and in real time alike: it is told the time and what completed, and says what each thread
//! submits next.

use std::collections::VecDeque;

use dumbwaiter_block::{BlockLayer, Io, Nanos, Stack, Task, TaskId, TenantId};
use dumbwaiter_controllers::{IoMax, KernelControls, TenantControls, set_deadline, set_tenant_controls};
use dumbwaiter_measure::Recorder;
use dumbwaiter_workloads::{ApplicationOutcome, Next, Want};

use crate::load::change::Change;
use crate::load::thread::Thread;

/// The next step of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It submits this I/O, which counts as under way from now on.
    Submit {
        /// The I/O.
        want: Want,
        /// When it was due: its latency counts from there.
        due: Nanos,
    },
    /// It submits nothing before this time: see [`RunningLoad::wakes`].
    Wake(Nanos),
    /// As `Wake`, and the block layer is to hear of it: see [`dumbwaiter_block::Event::WriterPaused`].
    Pause(Nanos),
    /// It submits nothing until one of its I/Os completes or a wake-up that is set already; it may have ended.
    Wait,
}

/// The threads of a load during a run: stages, I/Os under way, scheduled changes and ends.
pub struct RunningLoad {
    threads: Vec<RunningThread>,
    changes: VecDeque<(Nanos, Change)>,
    /// The stage that began last.
    stage: Option<u32>,
    /// Threads that may still submit.
    live: usize,
    /// Submitted and not completed.
    under_way: u64,
    /// I/Os that may still be submitted.
    left: u64,
    /// I/Os of open loops that were submitted late.
    issued_late: u64,
    /// The measured time goes on.
    open: bool,
}

impl RunningLoad {
    /// A load before its first stage, which submits at most this many I/Os; `changes` are sorted by time.
    pub fn new(threads: Vec<Thread>, changes: Vec<(Nanos, Change)>, ios: u64) -> RunningLoad {
        RunningLoad {
            live: threads.len(),
            threads: threads.into_iter().map(RunningThread::new).collect(),
            changes: changes.into(),
            stage: None,
            under_way: 0,
            left: ios,
            issued_late: 0,
            open: true,
        }
    }

    /// Gives a drive's block layer, at its start, the kernel's controllers and those of the load: those of tenants, and deadlines of
    /// the threads' first tasks.
    pub fn set_controllers(
        &self,
        layer: &mut BlockLayer,
        kernel: KernelControls,
        controls: &[(TenantId, TenantControls)],
    ) {
        if controls.iter().any(|(_, of)| of.io_max != TenantControls::default().io_max) {
            layer.add_controller(Nanos::ZERO, Box::new(IoMax::new(kernel.release)));
        }
        kernel.add_to(layer, Nanos::ZERO);
        for (tenant, controls) in controls {
            set_tenant_controls(layer, Nanos::ZERO, *tenant, controls);
        }
        for thread in self.threads() {
            set_deadline(layer, Nanos::ZERO, thread.task, thread.deadline);
        }
    }

    /// The description of a thread, as scheduled changes have made it.
    pub fn thread(&self, thread: u32) -> &Thread {
        &self.threads[thread as usize].thread
    }

    /// All threads, in order.
    pub fn threads(&self) -> impl Iterator<Item = &Thread> {
        self.threads.iter().map(|t| &t.thread)
    }

    /// I/Os of a thread that are under way.
    pub fn outstanding(&self, thread: u32) -> u32 {
        self.threads[thread as usize].outstanding
    }

    /// Does the measured time go on?
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Ends the measured time: nothing more is submitted.
    pub fn close(&mut self) {
        self.open = false;
    }

    /// Is nothing under way?
    pub fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    /// Has all been submitted and completed?
    pub fn is_over(&self) -> bool {
        self.is_idle() && (self.live == 0 || self.left == 0)
    }

    /// I/Os of open loops that were submitted late, because their depth was exhausted when they were due.
    pub fn issued_late(&self) -> u64 {
        self.issued_late
    }

    /// The outcomes of applications at `end`, by their first tasks.
    pub fn outcomes(&self, end: Nanos) -> Vec<(TaskId, ApplicationOutcome)> {
        self.threads().filter_map(|thread| Some((thread.task, thread.workload.outcome(end)?))).collect()
    }

    /// Starts the lowest stage with a thread that has not ended, unless it runs already. Returns when its threads wake.
    pub fn start_stage(&mut self, now: Nanos) -> Vec<(u32, Nanos)> {
        let stage = self.threads.iter().filter(|t| t.is_unfinished()).map(|t| t.thread.stage).min();
        if stage.is_none() || self.stage == stage {
            return Vec::new();
        }
        self.stage = stage;
        let starting = (0..).zip(&mut self.threads).filter(|(_, t)| Some(t.thread.stage) == stage);
        starting.map(|(number, thread)| (number, thread.start(now))).collect()
    }

    /// Is the wake-up of this thread due? It is set once: a wake-up that was put earlier or has happened is not due again.
    pub fn wakes(&mut self, thread: u32, now: Nanos) -> bool {
        let wake_at = &mut self.threads[thread as usize].wake_at;
        let due = *wake_at <= now;
        if due {
            *wake_at = Nanos::MAX;
        }
        due
    }

    /// When this thread wakes up by itself; [`Nanos::MAX`] if it does not.
    pub fn wake_at(&self, thread: u32) -> Nanos {
        self.threads[thread as usize].wake_at
    }

    /// The next step of a thread.
    #[inline]
    pub fn next(&mut self, thread: u32, now: Nanos) -> Step {
        let state = &mut self.threads[thread as usize];
        if !self.open || state.done || self.left == 0 {
            return Step::Wait;
        }
        if state.outstanding >= state.thread.depth {
            state.late = !state.thread.closed;
            return Step::Wait;
        }
        if now < state.elsewhere_until {
            return state.wake(state.elsewhere_until);
        }
        loop {
            // An open loop is polled as of the time that it named: its I/O was due then, and the latency counts from there,
            // however late the poll is.
            let at = if state.thread.closed || state.late { now } else { state.polled.min(now) };
            match state.thread.workload.next(at) {
                Next::Issue(want) => {
                    self.issued_late += u64::from(state.late);
                    state.outstanding += 1;
                    self.under_way += 1;
                    self.left -= 1;
                    return Step::Submit { want, due: at };
                }
                Next::Wait(due) if due < Nanos::MAX => {
                    state.late = false;
                    state.polled = due.max(Nanos(at.0 + 1));
                    if state.polled > now {
                        return state.wake(state.polled);
                    }
                }
                Next::Pause(until) => {
                    state.polled = until;
                    state.wake_at = state.wake_at.min(until);
                    return Step::Pause(until);
                }
                Next::Wait(_) | Next::Done => {
                    state.done = true;
                    self.live -= 1;
                    return Step::Wait;
                }
                Next::Blocked => return Step::Wait,
            }
        }
    }

    /// The block layer's I/O for what a thread submits. Tasks but a thread's first are created when they first appear, in the layers of
    /// all drives.
    #[inline]
    pub fn io(&mut self, thread: u32, now: Nanos, want: &Want, token: u64, layers: &mut [BlockLayer]) -> Io {
        let state = &mut self.threads[thread as usize];
        let task = state.task(now, want.task, layers);
        let Thread { ioprio, tenant, cpu, .. } = state.thread;
        Io {
            op: want.op,
            flags: want.flags,
            ioprio: want.ioprio.unwrap_or(ioprio),
            sector: want.sector,
            sectors: want.sectors,
            task,
            tenant,
            cpu,
            stream: want.stream,
            token,
        }
    }

    /// A thread has gone on on another CPU, from which its next I/Os come.
    pub fn moved(&mut self, thread: u32, cpu: u16) {
        self.threads[thread as usize].thread.cpu = cpu;
    }

    /// An I/O of a thread completed; `number` is that of its task in the workload.
    #[inline]
    pub fn completed(&mut self, thread: u32, now: Nanos, number: u16, latency: Nanos) {
        let state = &mut self.threads[thread as usize];
        state.outstanding -= 1;
        self.under_way -= 1;
        state.thread.workload.completed(now, number, latency);
    }

    /// An I/O was refused at `now`: a closed loop gets its data elsewhere, for which it takes the time of its deadline.
    pub fn refused(&mut self, thread: u32, now: Nanos) {
        let state = &mut self.threads[thread as usize];
        if state.thread.closed {
            state.elsewhere_until = now + state.thread.deadline.unwrap_or(Nanos::ZERO);
        }
    }

    /// The tasks of a thread that has ended since it was last asked: nothing of it is under way, and they exit now. A later
    /// stage may start.
    pub fn exits(&mut self, thread: u32) -> Option<&[TaskId]> {
        let state = &mut self.threads[thread as usize];
        if !self.open || !state.done || state.outstanding > 0 || state.exited {
            return None;
        }
        state.exited = true;
        Some(&state.tasks)
    }

    /// When the next change is due.
    pub fn next_change(&self) -> Option<Nanos> {
        self.changes.front().map(|(at, _)| *at)
    }

    /// When the changes that are to come are due.
    pub fn change_times(&self) -> impl Iterator<Item = Nanos> {
        self.changes.iter().map(|(at, _)| *at)
    }

    /// The next change that is due.
    pub fn due_change(&mut self, now: Nanos) -> Option<Change> {
        self.changes.pop_front_if(|(at, _)| *at <= now).map(|(_, change)| change)
    }

    /// Stops a thread: it submits nothing more. Its tasks [exit](RunningLoad::exits) when nothing of it is under way. Returns
    /// whether it had not ended before.
    pub fn stop(&mut self, thread: u32) -> bool {
        let state = &mut self.threads[thread as usize];
        let ends = !std::mem::replace(&mut state.done, true);
        if ends {
            state.thread.workload.stopped();
            self.live -= 1;
        }
        ends
    }

    /// Makes a change and informs the block layers of all drives and the recorder. Returns the thread that it stopped, if any.
    /// `schedulers` are those of [`Scenario::changes`](crate::Scenario::changes), in this order, one for each drive; they are taken
    /// once.
    pub fn change(
        &mut self,
        now: Nanos,
        change: Change,
        layers: &mut [BlockLayer],
        recorder: &mut Recorder,
        schedulers: &mut [Vec<Stack>],
    ) -> Option<u32> {
        match change {
            Change::Scheduler { index, how } => {
                let taken = schedulers.get_mut(index as usize).map(std::mem::take).unwrap_or_default();
                for (layer, scheduler) in layers.iter_mut().zip(taken) {
                    layer.replace(now, scheduler, how);
                }
            }
            Change::Stop { thread } => return self.stop(thread).then_some(thread),
            Change::Ioprio { thread, ioprio } => {
                let state = &mut self.threads[thread as usize];
                state.thread.ioprio = ioprio;
                state.change_tasks(now, layers, |task| task.ioprio = ioprio);
            }
            Change::Move { thread, tenant } => {
                let state = &mut self.threads[thread as usize];
                state.thread.tenant = tenant;
                state.change_tasks(now, layers, |task| task.tenant = tenant);
            }
            Change::Weight { tenant, weight } => {
                recorder.weight(now, tenant, weight);
                for layer in layers {
                    if let Some(own) = layer.tenants().tenant(tenant).copied() {
                        // The scenario's weights have been checked.
                        let _ = layer.change_tenant(now, tenant, dumbwaiter_block::Tenant { weight, ..own });
                    }
                }
            }
            Change::IoCost { qos, model } => {
                for layer in layers {
                    // The scenario's texts have been checked; a stack without io.cost has no such file.
                    for (file, text) in [("io.cost.qos", &qos), ("io.cost.model", &model)] {
                        let _ = text.as_ref().map(|text| layer.write_control(now, file, text));
                    }
                }
            }
            Change::IoMax { tenant, limits } => {
                for layer in layers {
                    dumbwaiter_controllers::set_io_max(layer, now, tenant, limits);
                }
            }
        }
        None
    }
}

/// A thread with its state during a run.
struct RunningThread {
    thread: Thread,
    /// I/Os submitted and not completed.
    outstanding: u32,
    /// It submits nothing more.
    done: bool,
    /// An open loop is late: its depth was exhausted when an I/O was due.
    late: bool,
    /// Its tasks have exited.
    exited: bool,
    /// It submits nothing before this time: an I/O was refused, and it has gone elsewhere.
    elsewhere_until: Nanos,
    /// Time up to which an open loop has been polled.
    polled: Nanos,
    /// When it is polled again without a completion.
    wake_at: Nanos,
    /// Its tasks by their number in the workload; the first is the thread's own.
    tasks: Vec<TaskId>,
}

impl RunningThread {
    /// A thread before its first I/O.
    fn new(thread: Thread) -> RunningThread {
        RunningThread {
            tasks: vec![thread.task],
            thread,
            outstanding: 0,
            done: false,
            late: false,
            exited: false,
            elsewhere_until: Nanos::ZERO,
            polled: Nanos::ZERO,
            wake_at: Nanos::MAX,
        }
    }

    /// Its stage starts; returns when it wakes.
    fn start(&mut self, now: Nanos) -> Nanos {
        self.polled = now.max(self.thread.start);
        self.wake_at = self.polled;
        self.polled
    }

    fn wake(&mut self, at: Nanos) -> Step {
        if at >= self.wake_at {
            return Step::Wait;
        }
        self.wake_at = at;
        Step::Wake(at)
    }

    /// Does a later stage wait for it to end?
    fn is_unfinished(&self) -> bool {
        !self.thread.background && (!self.done || self.outstanding > 0)
    }

    /// The task with this number in the workload; tasks but the first are created when they first appear.
    fn task(&mut self, now: Nanos, number: u16, layers: &mut [BlockLayer]) -> TaskId {
        while self.tasks.len() <= usize::from(number) {
            let task = Task { tenant: self.thread.tenant, ioprio: self.thread.ioprio };
            let mut of_all = self.thread.task;
            for layer in layers.iter_mut() {
                // A load's tenants are never retired, so this one exists. Every layer numbers tasks alike.
                of_all = layer.add_task(now, task).unwrap_or(self.thread.task);
                set_deadline(layer, now, of_all, self.thread.deadline);
            }
            self.tasks.push(of_all);
        }
        self.tasks[usize::from(number)]
    }

    /// Changes all its tasks and informs the scheduler.
    fn change_tasks(&self, now: Nanos, layers: &mut [BlockLayer], change: impl Fn(&mut Task)) {
        for layer in layers {
            for &id in &self.tasks {
                if let Some(mut task) = layer.tenants().task(id).copied() {
                    change(&mut task);
                    // It names a tenant of the scenario, and these are never retired.
                    let _ = layer.change_task(now, id, task);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "running_tests.rs"]
mod tests;
