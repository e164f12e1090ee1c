//! Exchanging the scheduler while requests are in it.

use std::collections::VecDeque;

use crate::layer::exchanges::{Freeze, HeldBack, Switches};
use crate::layer::slots::NO_TAG;
use crate::layer::{BlockLayer, Submitted};
use crate::request::State;
use crate::scheduler::{Handover, Place, Scheduler};
use crate::{MergeIndex, Nanos, RequestId};

impl BlockLayer {
    /// Exchanges the scheduler alone.
    pub(super) fn exchange_for(&mut self, now: Nanos, scheduler: Box<dyn Scheduler>, how: Handover) {
        let held_back = self.exchanges.freeze.take().map(|freeze| freeze.held_back).unwrap_or_default();
        match how {
            Handover::Freeze => {
                self.exchanges.freeze = Some(Freeze { scheduler, held_back });
                self.end_freeze(now);
            }
            Handover::Live => {
                self.exchange(now, scheduler);
                self.admit_held(now, held_back);
            }
        }
    }

    /// Begins the exchange that a controller asked for, unless another is under way.
    pub(super) fn take_next_scheduler(&mut self, now: Nanos) {
        if self.exchanges.freeze.is_none()
            && let Some((scheduler, how)) = self.corridor.next_scheduler.take()
        {
            self.exchange_for(now, scheduler, how);
        }
    }

    /// Exchanges of the scheduler so far; one under way is not counted.
    pub fn switches(&self) -> Switches {
        self.exchanges.switches
    }

    /// Is a freeze under way?
    pub fn freezing(&self) -> bool {
        self.exchanges.freeze.is_some()
    }

    /// If a freeze has drained everything, the new scheduler takes over.
    pub(super) fn end_freeze(&mut self, now: Nanos) {
        // A flush that needs nothing from the device, or a refused I/O, waits only to be reported; a parked one has not entered.
        if self.requests.len() > self.ended.waiting() + self.corridor.parked() {
            return;
        }
        if let Some(Freeze { scheduler, held_back }) = self.exchanges.freeze.take() {
            if let Some(first) = held_back.front() {
                self.exchanges.switches.pause += now.since(self.exchanges.last_issue.max(first.submitted));
            }
            self.exchange(now, scheduler);
            self.admit_held(now, held_back);
            self.take_next_scheduler(now);
        }
    }

    fn admit_held(&mut self, now: Nanos, held_back: VecDeque<HeldBack>) {
        for HeldBack { submitted, io, by_worker } in held_back {
            self.corridor.by_worker = by_worker;
            let entered = self.enter_path(now, submitted, io, None) == Submitted::Entered;
            self.corridor.by_worker = false;
            if entered && self.config.tasks_sleep && !by_worker {
                self.exchanges.entered.push_back(io.token);
            }
        }
    }

    fn exchange(&mut self, now: Nanos, scheduler: Box<dyn Scheduler>) {
        let queued = self.take_queued();
        let mut waiting = VecDeque::new();
        for queues in &mut self.tags.waiting {
            queues.wake_all(&mut waiting);
        }
        self.tags.workers_asleep -= waiting.iter().filter(|id| self.corridor.wait(**id).by_worker).count();
        self.traits = scheduler.traits();
        self.scheduler = scheduler;
        if let Some(oracle) = &self.oracle {
            self.scheduler.attach_oracle(oracle);
        }
        self.exchanges.switches.count += 1;
        self.index = MergeIndex::new(self.config.limits);
        self.hw.forget_reruns();
        self.exchange_tags();
        for id in queued {
            let place = if self.slots[id].at_head { Place::Head } else { Place::Tail };
            self.give_to_scheduler(now, id, place);
        }
        for id in waiting {
            self.slots[id].limit = 0;
            match self.config.tasks_sleep {
                true => self.wait_again(id),
                false => {
                    self.retry(now, id, None);
                }
            }
        }
        self.controllers_see_exchange(now);
        self.hw.run_all(|hw| self.scheduler.has_work(hw));
    }

    /// Requests in the scheduler or on their way past it, in order of arrival. Those that went before others stay last, so that
    /// each goes before all that came earlier.
    fn take_queued(&mut self) -> Vec<RequestId> {
        let mut queued: Vec<RequestId> = Vec::new();
        for queue in self.hw.iter_mut() {
            queued.extend(queue.direct.drain(..));
        }
        queued.extend(self.requests.iter().filter(|(_, r)| r.state == State::Queued).map(|(id, _)| id));
        let slots = &self.slots;
        queued.sort_unstable_by_key(|id| (slots[*id].at_head, slots[*id].arrival));
        queued
    }

    /// Every request that held a tag of the old scheduler's kind gets one of the new one's kind, beyond the depth if need be:
    /// others are let in once these are fewer.
    fn exchange_tags(&mut self) {
        self.tags.renew(self.traits.single_queue, self.config.setup.nr_requests);
        self.tags.wake_batch = self.wake_batch_now();
        for driver in &mut self.tags.drivers {
            driver.awaiting = 0;
        }
        if let Some(flush) = self.flush.request
            && self.requests[flush].state == State::Issued
            && !self.slots[flush].driver_tag
        {
            // It borrowed the tag of a request that waits for it, and that one may lose its tag now.
            let driver = self.tags.driver_of(self.hw_of(flush));
            self.slots[flush].driver_tag = true;
            self.tags.drivers[driver].used += 1;
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
        let driver = self.tags.driver_of(self.hw_of(id));
        self.slots[id].tag = NO_TAG;
        self.slots[id].awaits_driver_tag = false;
        if self.traits.direct {
            if !self.slots[id].driver_tag {
                self.slots[id].awaits_driver_tag = true;
                self.tags.drivers[driver].awaiting += 1;
            }
            return;
        }
        if self.requests[id].state != State::Issued {
            self.release_driver_tag(id);
        }
        let pool = self.pool_of(id);
        self.tags.add_pools(pool, self.config.setup.nr_requests);
        // There are fewer requests than numbers of slots.
        let tag = self.tags.pools[pool].take_beyond().unwrap_or(NO_TAG);
        let slot = &mut self.slots[id];
        (slot.tag, slot.pool) = (tag, pool as u32);
    }
}
