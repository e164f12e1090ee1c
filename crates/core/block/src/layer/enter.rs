//! An I/O enters the path: it is split, joins a request or gets one of its own, and may sleep for a tag.

use crate::flush::sequence_of;
use crate::layer::{BlockLayer, Fault, Submitted};
use crate::plug::Plug;
use crate::request::{Request, State};
use crate::sequence::Sequence;
use crate::{Flags, Io, Nanos, Op, RequestId};

impl BlockLayer {
    /// An I/O submitted at `submitted` enters the path at `now`.
    #[inline(always)]
    pub(super) fn enter_path(&mut self, now: Nanos, submitted: Nanos, io: Io, plug: Option<&mut Plug>) -> Submitted {
        let (sequence, wanted) = sequence_of(io, self.config.volatile_cache, self.config.fua);
        if sequence == Sequence::NONE && io.op == Op::Flush {
            // Nothing is volatile: it is done as soon as it is asked for, on the next poll.
            let id = self.allocate(submitted, wanted);
            self.requests[id].state = State::Held;
            self.ended.done_at_once.push(id);
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

/// Tasks that slept.
impl BlockLayer {
    /// The next request whose task was woken because a tag was freed: the driver lets the task run and calls
    /// [`BlockLayer::run_queue_of`] and [`BlockLayer::retry`]. Only where [tasks sleep](crate::layer::Config::tasks_sleep).
    pub fn next_woken(&mut self) -> Option<RequestId> {
        if self.tags.workers_asleep == 0 {
            return self.tags.woken.pop_front();
        }
        // Those without a task wait for the next poll.
        let task = self.tags.woken.iter().position(|id| !self.corridor.wait(*id).by_worker)?;
        self.tags.woken.remove(task)
    }

    /// A task that was woken first runs the hardware queue: the driver polls, then calls [`BlockLayer::retry`] (Linux: `blk_mq_get_tag`).
    /// So the scheduler is asked again although nothing arrived, which ends many a wait after it had nothing to send.
    pub fn run_queue_of(&mut self, id: RequestId) {
        if !self.traits.single_queue && !self.corridor.wait(id).woken {
            self.hw.run(self.hw_of(id));
        }
    }

    /// The next I/O, by its token, that entered the path after its task slept through an exchange of the scheduler.
    pub fn next_entered(&mut self) -> Option<u64> {
        self.exchanges.entered.pop_front()
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
            let queue = queue.unwrap_or_else(|| self.tags.waiting[pool].next_queue());
            self.sleep_in(pool, queue, id);
            return Submitted::Asleep;
        }
        self.corridor.by_worker = self.corridor.wait(id).by_worker;
        let Request { parent, sequence, io, .. } = self.requests[id];
        self.admit(now, id, plug.as_deref_mut());
        let Some(parent) = parent.some() else {
            self.corridor.by_worker = false;
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
        self.corridor.by_worker = false;
        outcome
    }

    /// Lets all tasks that were woken try again at once.
    pub(super) fn retry_woken(&mut self, now: Nanos) {
        for _ in 0..self.tags.woken.len() {
            if let Some(id) = self.tags.woken.pop_front() {
                self.tags.workers_asleep -= usize::from(self.corridor.wait(id).by_worker);
                self.retry(now, id, None);
            }
        }
    }

    /// Lets those requests try again that were woken and have no task.
    pub(super) fn retry_workers(&mut self, now: Nanos) -> bool {
        let mut any = false;
        for _ in 0..self.tags.woken.len() {
            let Some(id) = self.tags.woken.pop_front() else { break };
            if self.corridor.wait(id).by_worker {
                any = true;
                self.tags.workers_asleep -= 1;
                self.retry(now, id, None);
            } else {
                self.tags.woken.push_back(id);
            }
        }
        any
    }
}
