//! A thread while a run goes on: the part of its bookkeeping that is the same in the simulator and on a real device.

use dumbwaiter_block::{BlockLayer, Event, Io, Nanos, Task, TaskId};
use dumbwaiter_workloads::Want;

use crate::Thread;

/// A thread of a run that goes on.
pub struct Running {
    /// What it is.
    pub thread: Thread,
    /// I/Os it waits for.
    pub outstanding: u32,
    /// It asks for nothing more.
    pub done: bool,
    /// An open loop whose requests are issued late: it had as many outstanding as it may.
    pub late: bool,
    /// Its tasks were said to have exited.
    exited: bool,
    /// Its tasks by number; the first is the thread's own.
    tasks: Vec<TaskId>,
}

impl Running {
    /// Before its first I/O.
    pub fn new(thread: Thread) -> Running {
        Running { tasks: vec![thread.task], thread, outstanding: 0, done: false, late: false, exited: false }
    }

    /// One more is outstanding: what the thread wants, as the block layer takes it.
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

    /// A task by its number in the workload; those but the first are added as they appear.
    fn task(&mut self, now: Nanos, number: u16, layer: &mut BlockLayer) -> TaskId {
        while self.tasks.len() <= usize::from(number) {
            let task = Task { tenant: self.thread.tenant, ioprio: self.thread.ioprio };
            // A load's tenants are never retired, so this one exists.
            self.tasks.push(layer.add_task(now, task).unwrap_or(self.thread.task));
        }
        self.tasks[usize::from(number)]
    }

    /// It asks for nothing more from now on. Was it still asking?
    pub(crate) fn stop(&mut self) -> bool {
        let asked = !std::mem::replace(&mut self.done, true);
        if asked {
            self.thread.workload.stopped();
        }
        asked
    }

    /// Changes all of its tasks.
    pub(crate) fn change(&self, now: Nanos, layer: &mut BlockLayer, change: impl Fn(&mut Task)) {
        for &id in &self.tasks {
            if let Some(mut task) = layer.tenants().task(id).copied() {
                change(&mut task);
                // It names a tenant of the scenario, and these are never retired.
                let _ = layer.change_task(now, id, task);
            }
        }
    }

    /// If it asks for nothing more and all its I/O is done, its tasks exit, once. Did they now?
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

/// The lowest stage of which a thread has not ended.
pub fn lowest_stage<'a>(threads: impl Iterator<Item = &'a Running>) -> Option<u32> {
    threads.filter(|t| !t.done || t.outstanding > 0).map(|t| t.thread.stage).min()
}
