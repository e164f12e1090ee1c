//! Dispatch: dispatch lists, the scheduler's choice, driver tags.

use crate::Context;
use crate::layer::{BlockLayer, Fault, RERUN_DELAY};
use crate::request::State;
use crate::scheduler::{Next, Place};
use crate::{Nanos, Request, RequestId};

impl BlockLayer {
    /// The next request for the device, if any may go now. The driver hands it over and calls
    /// [`BlockLayer::refused`] if the device would not take it, then polls again.
    pub fn poll(&mut self, now: Nanos) -> Option<RequestId> {
        loop {
            self.settle(now);
            if let Some(id) = self.next_to_send(now) {
                if self.any_gone && self.drop_gone(now, id) {
                    continue;
                }
                return Some(id);
            }
            if self.config.tasks_sleep {
                if self.workers_asleep == 0 || !self.retry_workers(now) {
                    return None;
                }
            } else if self.woken.is_empty() {
                return None;
            } else {
                self.retry_woken(now);
            }
        }
    }

    /// Is there a hardware queue to be served, so that [`BlockLayer::poll`] may send requests?
    pub fn to_send(&self) -> bool {
        !self.runnable.is_empty()
    }

    fn next_to_send(&mut self, now: Nanos) -> Option<RequestId> {
        while self.fault.is_none()
            && let Some(hw) = self.runnable.front().map(|hw| usize::from(*hw))
        {
            let queue = &mut self.hw[hw];
            if !std::mem::replace(&mut queue.running, true) {
                queue.in_turn = queue.busy > 0;
            }
            if let Some(id) = self.serve(now, hw) {
                return Some(id);
            }
            self.end_run();
        }
        None
    }

    /// The queue that is being served has had its turn.
    fn end_run(&mut self) {
        if let Some(hw) = self.runnable.pop_front() {
            self.hw[usize::from(hw)].scheduled = false;
            self.hw[usize::from(hw)].running = false;
        }
    }

    /// The request behind an id, for the driver to read.
    pub fn request(&self, id: RequestId) -> &Request {
        &self.requests[id]
    }

    /// The hardware queue a request is sent to.
    pub fn hw_queue(&self, id: RequestId) -> u16 {
        self.hw_of(id) as u16
    }

    fn serve(&mut self, now: Nanos, hw: usize) -> Option<RequestId> {
        if !self.device_has_place() {
            return self.out_of_places(now, hw);
        }
        if let Some(id) = self.hw[hw].ready.front().copied() {
            if !self.ensure_driver_tag(hw, id) {
                return self.out_of_tags(hw);
            }
            self.hw[hw].ready.pop_front();
            self.hw[hw].in_turn = true;
            return Some(self.issue(now, hw, id));
        }
        if let Some(id) = self.hw[hw].direct.front().copied() {
            if !self.ensure_driver_tag(hw, id) {
                return self.out_of_tags(hw);
            }
            self.hw[hw].direct.pop_front();
            return Some(self.issue(now, hw, id));
        }
        if !self.scheduler.has_work(hw) {
            return None;
        }
        let busy = self.hw[hw].in_turn;
        let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy };
        match self.scheduler.next(hw, &ctx) {
            Next::Dispatch(id) => {
                if !self.expect_state(id, State::Queued, Fault::WrongDispatch) {
                    return None;
                }
                self.join_followers(now, id);
                let request = &mut self.requests[id];
                request.state = State::Dispatched;
                request.dispatch = now;
                self.ledger.dispatched += 1;
                if self.uses_index() {
                    self.index.remove(id);
                }
                // A scheduler with one state for the device may choose a request of another hardware queue.
                let own = self.hw_of(id);
                if !self.ensure_driver_tag(own, id) {
                    // One request is picked ahead of the tag; it goes first whatever arrives meanwhile.
                    self.hw[own].ready.push_back(id);
                    return self.out_of_tags(own);
                }
                Some(self.issue(now, own, id))
            }
            Next::WaitUntil(at) => {
                self.note_stall(now);
                self.rerun(hw, at.max(now + Nanos(1)));
                None
            }
            Next::Empty => {
                if self.scheduler.has_work(hw) {
                    self.note_stall(now);
                    let clock = self.config.setup.clock;
                    self.rerun(hw, clock.time_of(clock.ticks(now + RERUN_DELAY) + 1));
                }
                None
            }
        }
    }

    /// Asks the scheduler again at this time; not by a timer if it is [`Nanos::MAX`], for then only an arrival or a completion helps.
    fn rerun(&mut self, hw: usize, at: Nanos) {
        self.hw[hw].rerun_at = (at < Nanos::MAX).then_some(at);
        self.rerun_at = self.rerun_at.into_iter().chain(self.hw[hw].rerun_at).min();
    }

    /// A driver tag for a request that is to be sent. Under `none` it took one on the way in, and a flush borrows that of a
    /// request that waits for it.
    #[inline(always)]
    fn ensure_driver_tag(&mut self, hw: usize, id: RequestId) -> bool {
        self.held[id.index()].driver_tag || self.obtain_driver_tag(hw, id)
    }

    fn obtain_driver_tag(&mut self, hw: usize, id: RequestId) -> bool {
        let borrowed = |waiter: &RequestId| self.held[waiter.index()].driver_tag && self.hw_of(*waiter) == hw;
        if self.traits.direct && self.flush.request == Some(id) && self.flush.running.iter().any(borrowed) {
            return true;
        }
        let driver = self.driver_of(hw);
        let (held, driver) = (&mut self.held[id.index()], &mut self.drivers[driver]);
        if driver.used < driver.depth {
            driver.used += 1;
            driver.awaiting -= u32::from(std::mem::take(&mut held.awaits_driver_tag));
            held.driver_tag = true;
        }
        held.driver_tag
    }

    /// May the device get one more command?
    #[inline(always)]
    fn device_has_place(&self) -> bool {
        self.config.setup.lun_depth.is_none_or(|depth| self.in_device() < u64::from(depth))
    }

    /// The device has no place: the scheduler is not asked, and what was to go straight to the device queues up. The next
    /// completion runs all hardware queues.
    fn out_of_places(&mut self, now: Nanos, hw: usize) -> Option<RequestId> {
        let refused = !self.hw[hw].ready.is_empty() || !self.hw[hw].direct.is_empty();
        if refused {
            self.hw[hw].note_busy(true);
            self.give_up_direct(now, hw);
        }
        self.starved |= refused || self.scheduler.has_work(hw);
        None
    }

    /// What was to go straight to the device queues up.
    fn give_up_direct(&mut self, now: Nanos, hw: usize) {
        while let Some(behind) = self.hw[hw].direct.pop_front() {
            self.ledger.inserted += 1;
            self.queue(now, behind, Place::Tail, true);
        }
    }

    /// A tag that hardware queues share was freed: those that stopped for one try again.
    pub(super) fn run_sharing(&mut self, freed: usize) {
        if self.drivers.len() > 1 || self.hw.len() == 1 {
            return;
        }
        for hw in 0..self.hw.len() {
            if hw != freed && std::mem::take(&mut self.hw[hw].restart) {
                self.run(hw);
            }
        }
    }

    fn out_of_tags(&mut self, hw: usize) -> Option<RequestId> {
        self.hw[hw].restart = true;
        self.hw[hw].note_busy(true);
        None
    }

    #[inline(always)]
    fn issue(&mut self, now: Nanos, hw: usize, id: RequestId) -> RequestId {
        self.hw[hw].busy_before = self.hw[hw].busy;
        self.hw[hw].note_busy(false);
        let request = &mut self.requests[id];
        request.state = State::Issued;
        request.issue = now;
        self.ledger.issued += 1;
        self.last_issue = now;
        if self.known_to_scheduler(id) {
            let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
            self.scheduler.issued(id, &ctx);
        }
        self.controllers_see_issue(now, id);
        id
    }

    /// The device would not take a request that [`BlockLayer::poll`] returned. It is the next to be sent; what
    /// was to go straight to the device behind it queues up, and a completion or 3 ms start the queue again.
    pub fn refused(&mut self, now: Nanos, id: RequestId) {
        if !self.expect_state(id, State::Issued, Fault::WrongCompletion) {
            return;
        }
        self.note_refusal(now, id);
        let hw = self.hw_of(id);
        self.ledger.returned += 1;
        self.requests[id].state = State::Dispatched;
        self.leave_device(hw, id);
        self.hw[hw].busy = self.hw[hw].busy_before;
        self.hw[hw].note_busy(true);
        self.hw[hw].ready.push_front(id);
        self.give_up_direct(now, hw);
        self.hw[hw].restart = true;
        self.rerun(hw, now + RERUN_DELAY);
        if self.runnable.front() == Some(&(hw as u16)) {
            self.end_run();
        }
    }

    /// The driver gives back a request that the device had taken: it loses its driver tag and is inserted at the
    /// scheduler's head.
    pub fn requeue(&mut self, now: Nanos, id: RequestId) {
        if !self.expect_state(id, State::Issued, Fault::WrongCompletion) {
            return;
        }
        self.note_refusal(now, id);
        let hw = self.hw_of(id);
        self.ledger.returned += 1;
        self.leave_device(hw, id);
        if self.flush.request == Some(id) {
            self.requests[id].state = State::Dispatched;
            self.hw[hw].ready.push_front(id);
            self.run(hw);
            return;
        }
        if self.known_to_scheduler(id) {
            let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
            self.scheduler.requeued(id, &ctx);
        }
        self.queue(now, id, Place::Head, false);
        self.run_all();
    }

    /// A request that goes on is no longer in the device: it gives its driver tag up. Under `none` it keeps the tag, unless
    /// requests that it may have to wait for have none.
    pub(super) fn leave_device(&mut self, hw: usize, id: RequestId) {
        if !self.traits.direct {
            self.release_driver_tag(id);
            return;
        }
        let driver = self.driver_of(hw);
        if self.drivers[driver].awaiting > 0 && self.held[id.index()].driver_tag {
            self.release_driver_tag(id);
            if self.flush.request != Some(id) {
                self.held[id.index()].awaits_driver_tag = true;
                self.drivers[driver].awaiting += 1;
            }
        }
    }

    /// Did the scheduler that is there now dispatch this request, or let it pass? Not if it is a flush, or if the scheduler was
    /// exchanged since.
    pub(super) fn known_to_scheduler(&self, id: RequestId) -> bool {
        self.flush.request != Some(id) && self.held[id.index()].owner == self.switches.count as u32
    }
}
