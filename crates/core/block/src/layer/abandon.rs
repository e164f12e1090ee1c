//! I/Os of a task whose submitter is gone: nobody waits for them, and those that the device has not are dropped.

use crate::layer::BlockLayer;
use crate::request::State;
use crate::sequence::Sequence;
use crate::{Context, Errno, Finished, Nanos, RequestId, TaskId};

impl BlockLayer {
    /// The I/Os of a task that the device has not taken complete with an error, and none goes to the device any more: whoever submitted
    /// them is gone. Those that controllers park, or that the scheduler lets go, complete by the next [`BlockLayer::finish_idle`]; the
    /// others when the scheduler chooses them. What belongs to a flush is carried out.
    pub fn abandon(&mut self, now: Nanos, task: TaskId, why: Errno) {
        self.population.any_gone = true;
        if !self.population.give_up(task, why) {
            return;
        }
        self.abandon_parked_of(now, task, why);
        let of_task = self.requests.iter().filter(|(_, r)| {
            let alone = r.merged == RequestId::NIL && r.parent == RequestId::NIL;
            r.state == State::Queued && r.io.task == task && alone && r.sequence == Sequence::NONE
        });
        let ids: Vec<RequestId> = of_task.map(|(id, _)| id).collect();
        for id in ids {
            let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
            if !self.known_to_scheduler(id) || !self.scheduler.withdraw(id, &ctx) {
                continue;
            }
            if self.uses_index() {
                self.index.remove(id);
            }
            self.controllers_see_drop(now, id, None);
            let request = &mut self.requests[id];
            request.state = State::Held;
            request.error = Some(why);
            self.ended.withdrawn.push(id);
        }
    }

    fn abandon_parked_of(&mut self, now: Nanos, task: TaskId, why: Errno) {
        if self.corridor.parked == 0 {
            return;
        }
        let of_task = self.requests.iter().filter(|(_, r)| {
            // The rest of a split I/O is under way as its front is.
            r.state == State::Parked && r.io.task == task && r.parent == RequestId::NIL
        });
        let ids: Vec<RequestId> = of_task.map(|(id, _)| id).collect();
        for id in ids {
            let gate = std::mem::take(&mut self.corridor.wait_mut(id).gate);
            if gate == 0 {
                // It has been released and goes on.
                continue;
            }
            let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
            let at = self.corridor.position(gate);
            if let Some(link) = self.corridor.links.get_mut(at) {
                link.controller.abandoned(id, &ctx);
            }
            self.abandon_parked(id, why);
        }
    }

    /// A request that was chosen for the device completes instead, if it is of tasks that are gone alone.
    pub(super) fn drop_gone(&mut self, now: Nanos, id: RequestId) -> bool {
        if self.flush.request == Some(id) || self.requests[id].sequence != Sequence::NONE {
            return false;
        }
        let mut at = id;
        let why = loop {
            let request = &self.requests[at];
            let Some(why) = self.population.gone(request.io.task) else { return false };
            match request.merged.some() {
                Some(next) => at = next,
                None => break why,
            }
        };
        let mut dropped: Vec<Finished> = std::mem::take(&mut self.ended.dropped);
        self.complete(now, id, Err(why), &mut dropped);
        self.ended.dropped = dropped;
        true
    }

    /// Are there I/Os that the next [`BlockLayer::finish_idle`] reports because their task is gone?
    pub fn has_dropped(&self) -> bool {
        self.ended.any_of_gone()
    }
}
