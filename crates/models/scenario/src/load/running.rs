//! State of a thread during a run, as far as simulated and real devices share it.

use dumbwaiter_block::{BlockLayer, Event, Io, Nanos, Task, TaskId};
use dumbwaiter_workloads::Want;

use crate::load::thread::Thread;

/// A thread with its state during a run.
pub struct Running {
    /// Its description.
    pub thread: Thread,
    /// I/Os submitted and not completed.
    pub outstanding: u32,
    /// It submits nothing more.
    pub done: bool,
    /// An open loop is late: its depth was exhausted when an I/O was due.
    pub late: bool,
    /// It submits nothing before this time: an I/O was refused, and it has gone elsewhere.
    pub elsewhere_until: Nanos,
    /// Its tasks have exited.
    exited: bool,
    /// Its tasks by their number in the workload; the first is the thread's own.
    tasks: Vec<TaskId>,
}

impl Running {
    /// A thread before its first I/O.
    pub fn new(thread: Thread) -> Running {
        let (tasks, elsewhere_until) = (vec![thread.task], Nanos::ZERO);
        Running { tasks, thread, outstanding: 0, done: false, late: false, elsewhere_until, exited: false }
    }

    /// An I/O was refused at `now`: a closed loop gets its data elsewhere, for which it takes the time of its deadline.
    pub fn refused(&mut self, now: Nanos) {
        if self.thread.closed {
            self.elsewhere_until = now + self.thread.deadline.unwrap_or(Nanos::ZERO);
        }
    }

    /// Builds the block-layer I/O of what the workload wants, and counts it as outstanding.
    pub fn ask(&mut self, now: Nanos, want: &Want, token: u64, layer: &mut BlockLayer) -> Io {
        self.outstanding += 1;
        let task = self.task(now, want.task, layer);
        let Thread { ioprio, tenant, cpu, .. } = self.thread;
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

    /// The task with this number in the workload; tasks but the first are created when they first appear.
    fn task(&mut self, now: Nanos, number: u16, layer: &mut BlockLayer) -> TaskId {
        while self.tasks.len() <= usize::from(number) {
            let task = Task { tenant: self.thread.tenant, ioprio: self.thread.ioprio };
            // A load's tenants are never retired, so this one exists.
            let id = layer.add_task(now, task).unwrap_or(self.thread.task);
            dumbwaiter_controllers::set_deadline(layer, now, id, self.thread.deadline);
            self.tasks.push(id);
        }
        self.tasks[usize::from(number)]
    }

    /// Stops the thread: it submits nothing more. Returns whether it was still running.
    pub(crate) fn stop(&mut self) -> bool {
        let was_running = !std::mem::replace(&mut self.done, true);
        if was_running {
            self.thread.workload.stopped();
        }
        was_running
    }

    /// Changes all tasks of the thread and informs the scheduler.
    pub(crate) fn change(&self, now: Nanos, layer: &mut BlockLayer, change: impl Fn(&mut Task)) {
        for &id in &self.tasks {
            if let Some(mut task) = layer.tenants().task(id).copied() {
                change(&mut task);
                // It names a tenant of the scenario, and these are never retired.
                let _ = layer.change_task(now, id, task);
            }
        }
    }

    /// Lets the tasks exit once the thread is done and nothing is outstanding. Returns whether they exited now.
    pub fn exit_if_idle(&mut self, now: Nanos, layer: &mut BlockLayer) -> bool {
        if !self.done || self.outstanding > 0 || self.exited {
            return false;
        }
        self.exited = true;
        for &task in &self.tasks {
            layer.event(now, Event::TaskExited(task));
        }
        true
    }
}

/// The lowest stage with a thread that has not ended; background threads do not count.
pub fn lowest_stage<'a>(threads: impl Iterator<Item = &'a Running>) -> Option<u32> {
    let unfinished = |t: &&Running| !t.thread.background && (!t.done || t.outstanding > 0);
    threads.filter(unfinished).map(|t| t.thread.stage).min()
}
