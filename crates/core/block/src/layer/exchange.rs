//! Exchanging the scheduler while requests are in it.

use std::collections::VecDeque;

use crate::controller::Stack;
use crate::layer::replace::{Freeze, HeldBack, Switches};
use crate::layer::waiting::TagWaitQueues;
use crate::layer::{BlockLayer, NO_TAG, Submitted};
use crate::request::State;
use crate::request_tags::RequestTags;
use crate::scheduler::{Handover, Place, Scheduler};
use crate::{Io, MergeIndex, Nanos, RequestId};

impl BlockLayer {
    /// Exchanges the scheduler, with the controllers that came with it, for another stack, which was made with the set-up that
    /// [`BlockLayer::config`] shows now. A scheduler that a freeze still holds back is dropped for it. Other controllers stay.
    pub fn replace(&mut self, now: Nanos, stack: impl Into<Stack>, how: Handover) {
        let Stack { scheduler, controllers } = stack.into();
        self.remove_stack_controllers(now);
        for controller in controllers {
            self.append(now, controller, true);
        }
        self.exchange_for(now, scheduler, how);
        self.settle(now);
    }

    /// Exchanges the scheduler alone.
    pub(super) fn exchange_for(&mut self, now: Nanos, scheduler: Box<dyn Scheduler>, how: Handover) {
        let held_back = self.freeze.take().map(|freeze| freeze.held_back).unwrap_or_default();
        match how {
            Handover::Freeze => {
                self.freeze = Some(Freeze { scheduler, held_back });
                self.end_freeze(now);
            }
            Handover::Live => {
                self.exchange(now, scheduler);
                self.admit_held(now, held_back);
            }
        }
    }

    /// Exchanges of the scheduler so far; one under way is not counted.
    pub fn switches(&self) -> Switches {
        self.switches
    }

    /// Is a freeze under way?
    pub fn freezing(&self) -> bool {
        self.freeze.is_some()
    }

    /// I/Os that a freeze holds back.
    pub(super) fn held_back(&self) -> u64 {
        self.freeze.as_ref().map_or(0, |freeze| freeze.held_back.len() as u64)
    }

    /// Holds an I/O back while a freeze is under way.
    /// `by_worker`: no task sleeps for it.
    pub(super) fn hold_back(&mut self, submitted: Nanos, io: Io, by_worker: bool) {
        if let Some(freeze) = &mut self.freeze {
            freeze.held_back.push_back(HeldBack { submitted, io, by_worker });
        }
    }

    /// If a freeze has drained everything, the new scheduler takes over.
    pub(super) fn end_freeze(&mut self, now: Nanos) {
        // A flush that needs nothing from the device, or a refused I/O, waits only to be reported; a parked one has not entered.
        if self.requests.len()
            > self.done_at_once.len() + self.refused.len() + self.withdrawn.len() + self.corridor.parked()
        {
            return;
        }
        if let Some(Freeze { scheduler, held_back }) = self.freeze.take() {
            if let Some(first) = held_back.front() {
                self.switches.pause += now.since(self.last_issue.max(first.submitted));
            }
            self.exchange(now, scheduler);
            self.admit_held(now, held_back);
            self.take_next_scheduler(now);
        }
    }

    fn admit_held(&mut self, now: Nanos, held_back: VecDeque<HeldBack>) {
        for HeldBack { submitted, io, by_worker } in held_back {
            self.by_worker = by_worker;
            let entered = self.enter_path(now, submitted, io, None) == Submitted::Entered;
            self.by_worker = false;
            if entered && self.config.tasks_sleep && !by_worker {
                self.entered.push_back(io.token);
            }
        }
    }

    fn exchange(&mut self, now: Nanos, scheduler: Box<dyn Scheduler>) {
        let queued = self.take_queued();
        let mut waiting = VecDeque::new();
        for queues in &mut self.waiting {
            queues.wake_all(&mut waiting);
        }
        self.workers_asleep -= waiting.iter().filter(|id| self.corridor.wait(**id).by_worker).count();
        self.traits = scheduler.traits();
        self.scheduler = scheduler;
        if let Some(oracle) = &self.oracle {
            self.scheduler.attach_oracle(oracle);
        }
        self.switches.count += 1;
        self.index = MergeIndex::new(self.config.limits);
        self.rerun_at = None;
        for queue in &mut self.hw {
            queue.rerun_at = None;
        }
        self.exchange_tags();
        for id in queued {
            let place = if self.held[id.index()].at_head { Place::Head } else { Place::Tail };
            self.give_to_scheduler(now, id, place);
        }
        for id in waiting {
            self.held[id.index()].limit = 0;
            match self.config.tasks_sleep {
                true => self.wait_again(id),
                false => {
                    self.retry(now, id, None);
                }
            }
        }
        self.controllers_see_exchange(now);
        self.run_all();
    }

    /// Requests in the scheduler or on their way past it, in order of arrival. Those that went before others stay last, so that
    /// each goes before all that came earlier.
    fn take_queued(&mut self) -> Vec<RequestId> {
        let mut queued: Vec<RequestId> = Vec::new();
        for queue in &mut self.hw {
            queued.extend(queue.direct.drain(..));
        }
        queued.extend(self.requests.iter().filter(|(_, r)| r.state == State::Queued).map(|(id, _)| id));
        let held = &self.held;
        queued.sort_unstable_by_key(|id| (held[id.index()].at_head, held[id.index()].arrival));
        queued
    }

    /// Every request that held a tag of the old scheduler's kind gets one of the new one's kind, beyond the depth if need be:
    /// others are let in once these are fewer.
    fn exchange_tags(&mut self) {
        self.tags = vec![RequestTags::new(self.config.setup.nr_requests); self.tag_pools()];
        self.waiting = vec![TagWaitQueues::default(); self.tag_pools()];
        self.wake_batch = self.wake_batch_now();
        for driver in &mut self.drivers {
            driver.awaiting = 0;
        }
        if let Some(flush) = self.flush.request
            && self.requests[flush].state == State::Issued
            && !self.held[flush.index()].driver_tag
        {
            // It borrowed the tag of a request that waits for it, and that one may lose its tag now.
            let driver = self.driver_of(self.hw_of(flush));
            self.held[flush.index()].driver_tag = true;
            self.drivers[driver].used += 1;
        }
        let on_the_path = [State::Plugged, State::Queued, State::Dispatched, State::Issued];
        let mut admitted: Vec<RequestId> =
            self.requests.iter().filter(|(_, r)| on_the_path.contains(&r.state)).map(|(id, _)| id).collect();
        admitted.retain(|id| self.flush.request != Some(*id));
        admitted.extend(self.flush.pending.iter().map(|(_, id)| *id));
        admitted.extend(&self.flush.running);
        for id in admitted {
            self.exchange_tag(id);
        }
    }

    fn exchange_tag(&mut self, id: RequestId) {
        let driver = self.driver_of(self.hw_of(id));
        self.held[id.index()].tag = NO_TAG;
        self.held[id.index()].awaits_driver_tag = false;
        if self.traits.direct {
            if !self.held[id.index()].driver_tag {
                self.held[id.index()].awaits_driver_tag = true;
                self.drivers[driver].awaiting += 1;
            }
            return;
        }
        if self.requests[id].state != State::Issued {
            self.release_driver_tag(id);
        }
        let pool = self.pool_of(id);
        self.add_pools(pool);
        // There are fewer requests than numbers of slots.
        let tag = self.tags[pool].take_beyond().unwrap_or(NO_TAG);
        let held = &mut self.held[id.index()];
        (held.tag, held.pool) = (tag, pool as u32);
    }
}
