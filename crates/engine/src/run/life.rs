//! Tasks that come and go, and what changes of tasks and tenants while they run.

use dumbwaiter_block::{Event, Nanos};
use dumbwaiter_load::Change;

use super::Run;

impl Run<'_> {
    /// When the next change of the scenario is due.
    pub(super) fn next_change(&self) -> Option<Nanos> {
        self.changes.front().map(|(at, _)| *at)
    }

    /// Makes the changes that are due.
    pub(super) fn change_due(&mut self) {
        while let Some((_, change)) = self.changes.pop_front_if(|(at, _)| *at <= self.now) {
            match change {
                Change::Stop { thread } => {
                    let state = &mut self.threads[thread as usize];
                    if !state.done {
                        state.done = true;
                        state.thread.workload.stopped();
                        self.live -= 1;
                    }
                    self.may_exit(thread);
                }
                Change::Ioprio { thread, ioprio } => {
                    self.threads[thread as usize].thread.ioprio = ioprio;
                    self.change_tasks(thread, |task| task.ioprio = ioprio);
                }
                Change::Move { thread, tenant } => {
                    self.threads[thread as usize].thread.tenant = tenant;
                    self.change_tasks(thread, |task| task.tenant = tenant);
                }
                Change::Weight { tenant, weight } => {
                    self.layer.tenants_mut().tenants[tenant.0 as usize].weight = weight;
                    self.recorder.weight(self.now, tenant, weight);
                    self.layer.event(self.now, Event::TenantChanged(tenant));
                }
            }
        }
    }

    fn change_tasks(&mut self, thread: u32, change: impl Fn(&mut dumbwaiter_block::Task)) {
        for &task in &self.threads[thread as usize].tasks {
            change(&mut self.layer.tenants_mut().tasks[task.0 as usize]);
            self.layer.event(self.now, Event::TaskChanged(task));
        }
    }

    /// Tasks of a thread that will ask for nothing more exit when all their I/O is done; then the next stage may start.
    pub(super) fn may_exit(&mut self, thread: u32) {
        let state = &mut self.threads[thread as usize];
        if !state.done || state.outstanding > 0 || state.exited || !self.open {
            return;
        }
        state.exited = true;
        for &task in &state.tasks {
            self.layer.event(self.now, Event::TaskExited(task));
        }
        if self.several_stages {
            self.start_stage();
        }
    }
}
