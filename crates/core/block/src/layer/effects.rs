//! Effects of controllers, and changes of the device's settings: what they wait for goes on.

use std::cmp::Reverse;

use crate::controller::{Adjustment, BioAnswer};
use crate::layer::{BlockLayer, Fault};
use crate::request::{Request, State};
use crate::scheduler::{Event, Setup};
use crate::sequence::Sequence;
use crate::{Errno, Flags, Io, Nanos, Op, RequestId};

/// Effects of controllers.
impl BlockLayer {
    /// Carries out what controllers asked for.
    #[inline]
    pub(super) fn settle(&mut self, now: Nanos) {
        if !self.corridor.is_empty() && !self.corridor.effects.is_empty() {
            self.carry_out(now);
        }
    }

    fn carry_out(&mut self, now: Nanos) {
        loop {
            if let Some(id) = self.corridor.effects.released.pop_front() {
                self.release_held(now, id);
            } else if let Some(adjustment) = self.corridor.effects.adjustments.pop_front() {
                self.adjust(now, adjustment);
            } else {
                return;
            }
        }
    }

    /// Wakes the tasks that sleep until now.
    pub(super) fn wake_sleepers(&mut self, now: Nanos) {
        while let Some(Reverse((at, sleep, id))) = self.corridor.sleepers.peek().copied()
            && at <= now
        {
            self.corridor.sleepers.pop();
            // Its controller may have been removed since, which woke it.
            let wait = self.corridor.wait(id);
            if wait.gate != 0 && wait.sleep == sleep {
                self.release_held(now, id);
            }
        }
    }

    /// A controller lets an I/O go on.
    fn release_held(&mut self, now: Nanos, id: RequestId) {
        if self.corridor.wait(id).gate == 0 {
            return self.set_fault_about(id, Fault::WrongRelease);
        }
        let gate = std::mem::take(&mut self.corridor.wait_mut(id).gate);
        let at = self.corridor.position(gate);
        self.go_on(now, id, at + 1, at);
    }

    /// A parked I/O asks the links from `from` on. A task that sleeps wakes up; it will ask those before `before`.
    pub(super) fn go_on(&mut self, now: Nanos, id: RequestId, from: usize, before: usize) {
        match self.requests[id].state {
            State::Parked => self.unpark(now, id, from),
            _ => {
                let next = before.checked_sub(1).and_then(|at| self.corridor.links.get(at));
                let next_gate = next.map_or(0, |link| link.key);
                let wait = self.corridor.wait_mut(id);
                (wait.next_gate, wait.woken) = (next_gate, true);
                self.wake(id);
            }
        }
    }

    fn unpark(&mut self, now: Nanos, id: RequestId, from: usize) {
        let Request { io, submit, parent, sequence, .. } = self.requests[id];
        if let Some(parent) = parent.some() {
            return self.unpark_rest(now, id, parent, sequence, from);
        }
        match self.ask_bio(now, &io, from) {
            Some((at, BioAnswer::Park)) => self.park(now, id, at),
            Some((_, BioAnswer::Refuse(why))) => self.abandon_parked(id, why),
            None | Some((_, BioAnswer::Pass)) => {
                self.corridor.parked -= 1;
                self.requests.remove(id);
                // Nobody waits in a call for it.
                let io = Io { flags: io.flags.without(Flags::NOWAIT).with(Flags::PACED), ..io };
                let nothing_to_flush = io.op == Op::Flush && !self.config.volatile_cache;
                if self.exchanges.freeze.is_some() && !nothing_to_flush {
                    self.exchanges.hold_back(submit, io, true);
                } else {
                    self.corridor.by_worker = true;
                    self.enter_path(now, submit, io, None);
                    self.corridor.by_worker = false;
                }
            }
        }
    }

    /// The rest of a split I/O goes on. What went before it has entered, so that it does not wait for an exchange.
    fn unpark_rest(&mut self, now: Nanos, id: RequestId, parent: RequestId, sequence: Sequence, from: usize) {
        let Request { io, .. } = self.requests[id];
        self.corridor.parked -= 1;
        self.requests.remove(id);
        if self.rest_passes(now, parent, &io, sequence, from) {
            self.corridor.by_worker = true;
            self.submit_pieces(now, parent, io, sequence, None);
            self.corridor.by_worker = false;
        }
    }

    /// A parked I/O completes with an error, by the next [`BlockLayer::finish_idle`].
    pub(super) fn abandon_parked(&mut self, id: RequestId, why: Errno) {
        self.corridor.parked -= 1;
        let request = &mut self.requests[id];
        request.state = State::Held;
        request.error = Some(why);
        self.ended.refused.push(id);
    }

    fn adjust(&mut self, now: Nanos, adjustment: Adjustment) {
        match adjustment {
            Adjustment::DeviceDepth(depth) => self.set_device_depth(now, depth),
            Adjustment::Weight(id, weight) => {
                if let Some(tenant) = self.tenants.tenant_mut(id)
                    && tenant.weight != weight
                {
                    tenant.weight = weight;
                    self.schedule_event(now, Event::TenantChanged(id));
                }
            }
            Adjustment::Scheduler(scheduler, how) => {
                self.corridor.next_scheduler = Some((scheduler, how));
                self.take_next_scheduler(now);
            }
        }
    }
}

/// Changes of settings.
impl BlockLayer {
    /// Passes an event on to the controllers and the scheduler, and runs its queues.
    pub fn event(&mut self, now: Nanos, event: Event) {
        self.controllers_see_event(now, event);
        self.schedule_event(now, event);
        self.settle(now);
    }

    /// Changes how many requests the scheduler may hold (at least 1). Those over a smaller number stay.
    pub fn set_nr_requests(&mut self, now: Nanos, nr_requests: u32) {
        self.config.setup.nr_requests = nr_requests.max(1);
        for pool in &mut self.tags.pools {
            pool.resize(nr_requests.max(1));
        }
        self.depth_changed(now);
    }

    /// Changes how many requests the device may hold (at least 1 in each hardware queue). Those over a smaller number stay. Where
    /// the device takes fewer than the driver has tags for, the tags stay as they are.
    pub fn set_device_depth(&mut self, now: Nanos, device_depth: u32) {
        let setup = &mut self.config.setup;
        match &mut setup.lun_depth {
            Some(depth) => *depth = device_depth.clamp(1, setup.device_depth),
            None => setup.device_depth = device_depth.max(1),
        }
        let depth = setup.queue_depth();
        for driver in &mut self.tags.drivers {
            driver.depth = depth;
        }
        self.hw.run_starved(|hw| self.scheduler.has_work(hw));
        self.depth_changed(now);
    }

    fn depth_changed(&mut self, now: Nanos) {
        let Setup { nr_requests, .. } = self.config.setup;
        let device_depth = self.config.setup.commands();
        self.event(now, Event::DepthChanged { nr_requests, device_depth });
        self.tags.wake_batch = self.wake_batch_now();
        self.tags.wake_all();
        if !self.config.tasks_sleep {
            self.retry_woken(now);
        }
    }
}
