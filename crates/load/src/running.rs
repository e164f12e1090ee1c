//! State of a thread during a run, as far as simulated and real devices share it.

use dumbwaiter_block::{BlockLayer, Event, Io, Nanos, TaskId, Tenants};
use dumbwaiter_workloads::Want;

use crate::thread::Thread;

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
    /// Its tasks have exited.
    exited: bool,
    /// Its tasks by their number in the workload; the first is the thread's own.
    tasks: Vec<TaskId>,
}

impl Running {
    /// A thread before its first I/O.
    pub fn new(thread: Thread) -> Running {
        Running { tasks: vec![thread.task], thread, outstanding: 0, done: false, late: false, exited: false }
    }

    /// Builds the block-layer I/O of what the workload wants, and counts it as outstanding.
    pub fn ask(&mut self, want: &Want, cookie: u32, tenants: &mut Tenants) -> Io {
        self.outstanding += 1;
        let task = self.task(want.task, tenants);
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
            cookie,
        }
    }

    /// The task with this number in the workload; tasks but the first are created when they first appear.
    fn task(&mut self, number: u16, tenants: &mut Tenants) -> TaskId {
        while self.tasks.len() <= usize::from(number) {
            self.tasks.push(tenants.add_task(self.thread.tenant, self.thread.ioprio));
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
    pub(crate) fn change(&self, now: Nanos, layer: &mut BlockLayer, change: impl Fn(&mut dumbwaiter_block::Task)) {
        for &task in &self.tasks {
            change(&mut layer.tenants_mut().tasks[task.0 as usize]);
            layer.event(now, Event::TaskChanged(task));
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
