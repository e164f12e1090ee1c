//! Submission: an I/O is split, joins a request or gets one of its own.

use crate::flush::sequence_of;
use crate::layer::{BlockLayer, Fault, Held, Submitted};
use crate::plug::Plug;
use crate::request::{Request, State};
use crate::sequence::Sequence;
use crate::{Flags, Io, Nanos, Op, RequestId};

impl BlockLayer {
    /// A task submits `io` at `now`, within its plug if it has one. If the task [sleeps](Submitted::Asleep), it submits nothing
    /// else before the I/O has its request. An I/O that a [controller](crate::Controller) refuses is finished, with an error, by the next
    /// [`BlockLayer::finish_idle`]; one that it parks enters later, and its task goes on. An I/O that [may not sleep](Flags::NOWAIT) leaves no trace if it would have to.
    pub fn submit(&mut self, now: Nanos, mut io: Io, plug: Option<&mut Plug>) -> Submitted {
        if !self.corridor.is_empty() {
            self.prioritize(now, &mut io);
        }
        let may_sleep = !io.flags.any(Flags::NOWAIT);
        let nothing_to_flush = io.op == Op::Flush && !self.config.volatile_cache;
        if !nothing_to_flush && self.freeze.is_some() {
            if !may_sleep {
                return Submitted::WouldBlock;
            }
            if !self.corridor.is_empty() && !self.passes_submission(now, &io) {
                return Submitted::Entered;
            }
            self.count_submission(&io);
            self.admitted(now, &io);
            self.hold_back(now, io, false);
            if let Some(plug) = plug {
                self.flush_plug(now, plug, false);
            }
            return Submitted::Asleep;
        }
        if !self.corridor.is_empty() && !self.passes_submission(now, &io) {
            return Submitted::Entered;
        }
        let outcome = self.enter_path(now, now, io, plug);
        if outcome != Submitted::WouldBlock {
            self.count_submission(&io);
            self.admitted(now, &io);
        } else if !self.corridor.is_empty() {
            self.withdraw(now, &io);
        }
        self.settle(now);
        outcome
    }

    pub(super) fn count_submission(&mut self, io: &Io) {
        self.ledger.submitted += 1;
        self.ledger.sectors_submitted += u64::from(io.sectors);
        self.population.begins(io.task, io.tenant);
    }

    /// An I/O submitted at `submitted` enters the path at `now`.
    #[inline(always)]
    pub(super) fn enter_path(&mut self, now: Nanos, submitted: Nanos, io: Io, plug: Option<&mut Plug>) -> Submitted {
        let (sequence, wanted) = sequence_of(io, self.config.volatile_cache, self.config.fua);
        if sequence == Sequence::NONE && io.op == Op::Flush {
            // Nothing is volatile: it is done as soon as it is asked for, on the next poll.
            let id = self.allocate(submitted, wanted);
            self.requests[id].state = State::Held;
            self.done_at_once.push(id);
            return Submitted::Entered;
        }
        if self.config.limits.fitting(&wanted) < wanted.sectors {
            if io.flags.any(Flags::NOWAIT) {
                return Submitted::WouldBlock;
            }
            let parent = self.allocate(submitted, wanted);
            self.requests[parent].state = State::Held;
            self.carried += 1;
            // One more than there are, so that the parent cannot finish while pieces are being made.
            self.requests[parent].pieces = 1;
            return self.submit_pieces(now, parent, wanted, sequence, plug);
        }
        self.submit_one(now, submitted, wanted, sequence, RequestId::NIL, plug)
    }

    /// Cuts pieces from the front of `rest`, the end of `parent`'s I/O; each enters the path before the next is cut.
    pub(super) fn submit_pieces(
        &mut self,
        now: Nanos,
        parent: RequestId,
        rest: Io,
        sequence: Sequence,
        mut plug: Option<&mut Plug>,
    ) -> Submitted {
        let submitted = self.requests[parent].submit;
        let mut rest = rest;
        while rest.sectors > 0 {
            let sectors = self.config.limits.fitting(&rest);
            let last = sectors == rest.sectors;
            let flags = if last { rest.flags } else { rest.flags.with(Flags::NOMERGE) };
            self.requests[parent].pieces += 1;
            self.ledger.pieces += 1;
            let piece = Io { sectors, flags, ..rest };
            if self.submit_one(now, submitted, piece, sequence, parent, plug.as_deref_mut()) == Submitted::Asleep {
                return Submitted::Asleep;
            }
            rest.sector = rest.sector.saturating_add(u64::from(sectors));
            rest.sectors -= sectors;
            if !self.rest_passes(now, parent, &rest, sequence, 0) {
                return Submitted::Entered;
            }
        }
        self.requests[parent].pieces -= 1;
        Submitted::Entered
    }

    /// The next request whose task was woken because a tag was freed: the driver lets the task run and calls
    /// [`BlockLayer::run_queue_of`] and [`BlockLayer::retry`]. Only where [tasks sleep](crate::layer::Config::tasks_sleep).
    pub fn next_woken(&mut self) -> Option<RequestId> {
        if self.workers_asleep == 0 {
            return self.woken.pop_front();
        }
        // Those without a task wait for the next poll.
        let task = self.woken.iter().position(|id| !self.corridor.wait(*id).by_worker)?;
        self.woken.remove(task)
    }

    /// A task that was woken first runs the hardware queue: the driver polls, then calls [`BlockLayer::retry`] (Linux: `blk_mq_get_tag`).
    /// So the scheduler is asked again although nothing arrived, which ends many a wait after it had nothing to send.
    pub fn run_queue_of(&mut self, id: RequestId) {
        if !self.traits.single_queue && !self.corridor.wait(id).woken {
            self.run(self.hw_of(id));
        }
    }

    /// The next I/O, by its token, that entered the path after its task slept through an exchange of the scheduler.
    pub fn next_entered(&mut self) -> Option<u64> {
        self.entered.pop_front()
    }

    /// A task that was woken tries again to get the request `id`. It may have to sleep on, or sleep for the next piece of a split
    /// I/O. An `id` that does not wait for a tag is a [`Fault`].
    pub fn retry(&mut self, now: Nanos, id: RequestId, mut plug: Option<&mut Plug>) -> Submitted {
        if !self.expect_state(id, State::Waiting, Fault::WrongCompletion) {
            return Submitted::Asleep;
        }
        let woken_by_controller = self.corridor.wait(id).woken;
        if woken_by_controller {
            self.corridor.wait_mut(id).woken = false;
        }
        let queue = match woken_by_controller {
            // It asks for a tag for the first time.
            true if self.passes_rest(now, id) => None,
            true => {
                if let Some(plug) = plug {
                    self.flush_plug(now, plug, false);
                }
                return Submitted::Asleep;
            }
            false => self.queue_after_sleep(id),
        };
        if !self.take_tag(id) {
            if let Some(plug) = plug {
                self.flush_plug(now, plug, false);
            }
            let pool = self.pool_of(id);
            let queue = queue.unwrap_or_else(|| self.waiting[pool].next_queue());
            self.sleep_in(pool, queue, id);
            return Submitted::Asleep;
        }
        self.by_worker = self.corridor.wait(id).by_worker;
        let Request { parent, sequence, io, .. } = self.requests[id];
        self.admit(now, id, plug.as_deref_mut());
        let Some(parent) = parent.some() else {
            self.by_worker = false;
            return Submitted::Entered;
        };
        // Pieces are cut in order, so the one that slept was the last so far.
        let whole = self.requests[parent].io;
        let end = io.sector + u64::from(io.sectors);
        let sectors = (whole.sector + u64::from(whole.sectors) - end) as u32;
        let rest = Io { sector: end, sectors, ..whole };
        let outcome = match self.rest_passes(now, parent, &rest, sequence, 0) {
            true => self.submit_pieces(now, parent, rest, sequence, plug),
            false => Submitted::Entered,
        };
        self.by_worker = false;
        outcome
    }

    /// Lets all tasks that were woken try again at once.
    pub(super) fn retry_woken(&mut self, now: Nanos) {
        for _ in 0..self.woken.len() {
            if let Some(id) = self.woken.pop_front() {
                self.workers_asleep -= usize::from(self.corridor.wait(id).by_worker);
                self.retry(now, id, None);
            }
        }
    }

    /// Lets those requests try again that were woken and have no task.
    pub(super) fn retry_workers(&mut self, now: Nanos) -> bool {
        let mut any = false;
        for _ in 0..self.woken.len() {
            let Some(id) = self.woken.pop_front() else { break };
            if self.corridor.wait(id).by_worker {
                any = true;
                self.workers_asleep -= 1;
                self.retry(now, id, None);
            } else {
                self.woken.push_back(id);
            }
        }
        any
    }

    pub(super) fn allocate(&mut self, submitted: Nanos, io: Io) -> RequestId {
        let mut request = Request::new(io, submitted);
        request.segments = self.config.limits.segments(&io);
        let id = self.enter(request);
        self.parts_begin(id);
        if self.by_worker {
            self.corridor.wait_mut(id).by_worker = true;
        }
        id
    }

    /// Gives a request its slot.
    #[inline(always)]
    pub(super) fn enter(&mut self, request: Request) -> RequestId {
        let id = self.requests.insert(request);
        if id.index() >= self.held.len() {
            self.held.resize(id.index() + 1, Held::NONE);
        }
        self.held[id.index()] = Held::NONE;
        self.corridor.forget(id);
        id
    }

    fn submit_one(
        &mut self,
        now: Nanos,
        submitted: Nanos,
        io: Io,
        sequence: Sequence,
        parent: RequestId,
        mut plug: Option<&mut Plug>,
    ) -> Submitted {
        if sequence == Sequence::NONE && self.try_merge(now, submitted, &io, parent, plug.as_deref_mut()) {
            return Submitted::Entered;
        }
        let id = self.allocate(submitted, io);
        self.requests[id].parent = parent;
        self.requests[id].sequence = sequence;
        self.requests[id].sealed = sequence != Sequence::NONE;
        if !self.passes_request(now, id) {
            // Who sleeps lets the plug go first, whether it may sleep or not.
            if let Some(plug) = plug {
                self.flush_plug(now, plug, false);
            }
            return Submitted::Asleep;
        }
        if !self.lets_others_first(id) && self.take_tag(id) {
            self.admit(now, id, plug);
            return Submitted::Entered;
        }
        if io.flags.any(Flags::NOWAIT) {
            self.controllers_see_drop(now, id, None);
            self.requests.remove(id);
            return Submitted::WouldBlock;
        }
        // Sleeping for a tag lets the plug go first.
        if let Some(plug) = plug {
            self.flush_plug(now, plug, false);
        }
        if self.config.tasks_sleep {
            self.run_queue_of(id);
        }
        self.wait_for_tag(id);
        Submitted::Asleep
    }
}
