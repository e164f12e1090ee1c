//! Dispatch: dispatch lists, the scheduler's choice, driver tags.

use crate::layer::{BlockLayer, Fault};
use crate::request::State;
use crate::scheduler::{Next, Place};
use crate::{Context, Nanos, RequestId};

/// Time after which a scheduler that sent nothing is asked again (Linux: BLK_MQ_RESOURCE_DELAY).
const RERUN_DELAY: Nanos = Nanos::from_ms(3);

impl BlockLayer {
    /// The next request for the device, if any may go now. The driver hands it over and calls
    /// [`BlockLayer::refused`] if the device would not take it, then polls again.
    pub fn poll(&mut self, now: Nanos) -> Option<RequestId> {
        loop {
            self.settle(now);
            if let Some(id) = self.next_to_send(now) {
                if self.population.any_gone && self.drop_gone(now, id) {
                    continue;
                }
                return Some(id);
            }
            if self.config.tasks_sleep {
                if self.tags.workers_asleep == 0 || !self.retry_workers(now) {
                    return None;
                }
            } else if self.tags.woken.is_empty() {
                return None;
            } else {
                self.retry_woken(now);
            }
        }
    }

    /// Is there a hardware queue to be served, so that [`BlockLayer::poll`] may send requests?
    pub fn to_send(&self) -> bool {
        !self.hw.runnable.is_empty()
    }

    fn next_to_send(&mut self, now: Nanos) -> Option<RequestId> {
        while self.checks.fault.is_none()
            && let Some(hw) = self.hw.runnable.front().map(|hw| usize::from(*hw))
        {
            self.hw[hw].begin_run();
            if let Some(id) = self.serve(now, hw) {
                return Some(id);
            }
            self.hw.end_run();
        }
        None
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
                self.hw.rerun(hw, at.max(now + Nanos(1)));
                None
            }
            Next::Empty => {
                if self.scheduler.has_work(hw) {
                    self.note_stall(now);
                    let clock = self.config.setup.clock;
                    self.hw.rerun(hw, clock.time_of(clock.ticks(now + RERUN_DELAY) + 1));
                }
                None
            }
        }
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
        self.hw.starved |= refused || self.scheduler.has_work(hw);
        None
    }

    /// What was to go straight to the device queues up.
    fn give_up_direct(&mut self, now: Nanos, hw: usize) {
        while let Some(behind) = self.hw[hw].direct.pop_front() {
            self.ledger.inserted += 1;
            self.queue(now, behind, Place::Tail, true);
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
        self.exchanges.last_issue = now;
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
        self.hw.rerun(hw, now + RERUN_DELAY);
        if self.hw.runnable.front() == Some(&(hw as u16)) {
            self.hw.end_run();
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
            self.hw.run(hw);
            return;
        }
        if self.known_to_scheduler(id) {
            let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
            self.scheduler.requeued(id, &ctx);
        }
        self.queue(now, id, Place::Head, false);
        self.hw.run_all(|hw| self.scheduler.has_work(hw));
    }
}
