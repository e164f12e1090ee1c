//! Refusing I/Os that would miss their deadlines.

use crate::layer::admission::Admission;
use crate::layer::{BlockLayer, Finished};
use crate::request::{Request, State};
use crate::{Errno, Io, Nanos, TaskId};

impl BlockLayer {
    /// Sets the deadline of a task's reads and writes, or takes it away: one whose predicted wait is longer is refused, which means that it is
    /// complete at once with `EBUSY`, without reaching the scheduler. Predictions begin with the first deadline.
    pub fn set_deadline(&mut self, task: TaskId, deadline: Option<Nanos>) {
        if deadline.is_none() && self.admission.is_none() {
            return;
        }
        let under_way = self.population.tenants.iter().map(|tenant| tenant.ios);
        let admission = self.admission.get_or_insert_with(|| Box::new(Admission::with_under_way(under_way)));
        admission.set_deadline(task, deadline);
    }

    /// Would this I/O wait for longer than it may?
    #[inline]
    pub(super) fn refuses(&mut self, now: Nanos, io: &Io) -> bool {
        self.admission.as_mut().is_some_and(|admission| admission.refuses(now, io))
    }

    /// An I/O was admitted.
    #[inline]
    pub(super) fn admitted(&mut self, now: Nanos, io: &Io) {
        if let Some(admission) = &mut self.admission {
            admission.begins(now, io.tenant);
        }
    }

    /// Keeps a refused I/O until the driver asks for what is finished.
    pub(super) fn keep_refused(&mut self, now: Nanos, io: Io) {
        let mut request = Request::new(io, now);
        request.state = State::Held;
        let id = self.enter(request);
        self.refused.push(id);
    }

    /// Reports the refused I/Os.
    pub(super) fn finish_refused(&mut self, out: &mut Vec<Finished>) {
        while let Some(id) = self.refused.pop() {
            let request = self.requests.remove(id);
            self.ledger.completed += 1;
            self.ledger.rejected += 1;
            self.ledger.sectors_completed += u64::from(request.io.sectors);
            let (io, submit) = (request.io, request.submit);
            let result = Err(Errno::EBUSY);
            out.push(Finished { io, submit, insert: submit, issue: submit, merged: false, result });
            self.population.ends(io.task, io.tenant);
        }
    }
}
