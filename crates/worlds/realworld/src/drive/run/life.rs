//! Tasks that come and go, and changes of tasks, tenants and the scheduler while they run.

use dumbwaiter_block::Nanos;

use super::Run;

impl Run<'_> {
    /// When the next change of the scenario is due.
    pub(super) fn next_change(&self) -> Option<Nanos> {
        self.changes.front().map(|(at, _)| *at)
    }

    /// Makes the changes that are due.
    pub(super) fn change_due(&mut self) {
        while let Some((_, change)) = self.changes.pop_front_if(|(at, _)| *at <= self.now) {
            let (threads, schedulers) = (&mut self.threads, &mut self.schedulers);
            if let Some(thread) = change.apply(self.now, threads, self.disk.layer_mut(), &mut self.recorder, schedulers)
            {
                self.live -= 1;
                self.may_exit(thread);
            }
        }
    }

    /// Tasks of a thread that will ask for nothing more exit when all their I/O is done; then the next stage may start.
    pub(super) fn may_exit(&mut self, thread: u32) {
        let running = &mut self.threads[thread as usize].running;
        if self.open && running.exit_if_idle(self.now, self.disk.layer_mut()) && self.several_stages {
            self.start_stage();
        }
    }
}
