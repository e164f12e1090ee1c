//! Scheduled changes, exits of tasks, and stages.

use dumbwaiter_scenario::load::Change;

use super::Run;

impl Run<'_> {
    /// A change of the scenario is due.
    pub(super) fn change(&mut self, number: u32) {
        if !self.open {
            return;
        }
        let (_, change) = self.changes[number as usize];
        if let Change::Scheduler { index, .. } = change {
            self.next_cost = self.costs.get(index as usize).copied();
        }
        match change.apply(self.now, &mut self.threads, &mut self.layer, &mut self.recorder, &mut self.schedulers) {
            Some(thread) => {
                self.live -= 1;
                self.may_exit(thread);
            }
            None => self.serve(),
        }
    }

    /// Lets the tasks of a stopped thread exit when its I/O is complete; then the next stage may start.
    pub(super) fn may_exit(&mut self, thread: u32) {
        let running = &mut self.threads[thread as usize].running;
        if self.open && running.exit_if_idle(self.now, &mut self.layer) {
            self.serve();
            if self.several_stages {
                self.start_stage();
            }
        }
    }
}
