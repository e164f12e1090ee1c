//! A scheduler around a scheduler: it checks the contract from both sides, and now and then goes on with a copy.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dumbwaiter_block::{
    Context, Event, Io, Join, MergeIndex, Next, Place, RequestId, Scheduler, Setup, Side, Stack, forward_scheduler,
};

/// See the module documentation.
#[derive(Clone)]
pub struct Checked {
    inner: Box<dyn Scheduler>,
    setup: Setup,
    queued: BTreeSet<RequestId>,
    /// The last answer: requests may join it until the next call.
    chosen: Option<RequestId>,
    /// Let go of and not completed.
    gone: BTreeSet<RequestId>,
    calls: u32,
    /// Its last answer was to wait.
    waits: Arc<AtomicBool>,
}

impl Checked {
    /// A scheduler around `inner`, which was built with `setup`.
    pub fn new(inner: Box<dyn Scheduler>, setup: Setup) -> Checked {
        let (queued, gone) = (BTreeSet::new(), BTreeSet::new());
        Checked { inner, setup, queued, chosen: None, gone, calls: 0, waits: Arc::default() }
    }

    /// A stack whose first scheduler is checked.
    pub fn around(stack: Stack, setup: Setup) -> Stack {
        Stack { scheduler: Box::new(Checked::new(stack.scheduler, setup)), ..stack }
    }

    /// `waits` will tell whether the last answer was to wait.
    pub fn telling(self, waits: Arc<AtomicBool>) -> Checked {
        Checked { waits, ..self }
    }

    /// Something is queued for this hardware queue if and only if the scheduler says so.
    fn check_work(&self, hw_queue: usize, ctx: &Context<'_>) {
        let per_queue = self.inner.traits().per_queue;
        let mine = |id: &RequestId| !per_queue || self.setup.queue_map().of(ctx.requests[*id].io.cpu) == hw_queue;
        assert_eq!(self.inner.has_work(hw_queue), self.queued.iter().any(mine), "has_work({hw_queue})");
    }
}

#[deny(clippy::missing_trait_methods)]
impl Scheduler for Checked {
    forward_scheduler!(
        inner; except insert, next, complete, merge, allow_merge, absorbed, follower, former, latter, limit, smallest_limit, event
    );

    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) {
        assert!(self.queued.insert(id), "request {} inserted twice", id.0);
        self.gone.remove(&id);
        self.inner.insert(id, place, ctx);
        self.check_work(self.setup.queue_map().of(ctx.requests[id].io.cpu), ctx);
    }

    fn next(&mut self, hw_queue: usize, ctx: &Context<'_>) -> Next {
        self.check_work(hw_queue, ctx);
        assert!(self.inner.has_work(hw_queue), "asked although it holds nothing");
        self.calls += 1;
        if self.calls.is_multiple_of(3) {
            self.inner = self.inner.clone_box();
        }
        let next = self.inner.next(hw_queue, ctx);
        self.chosen = None;
        self.waits.store(matches!(next, Next::WaitUntil(_)), Ordering::Relaxed);
        match next {
            Next::Dispatch(id) => {
                assert!(self.queued.remove(&id), "request {} dispatched, which is not queued", id.0);
                assert!(self.gone.insert(id));
                self.chosen = Some(id);
                if self.inner.traits().per_queue {
                    assert_eq!(self.setup.queue_map().of(ctx.requests[id].io.cpu), hw_queue, "of another queue");
                }
            }
            Next::WaitUntil(at) => assert!(at > ctx.now, "waits until {at}, which is not after {}", ctx.now),
            Next::Empty => {}
        }
        self.check_work(hw_queue, ctx);
        next
    }

    fn complete(&mut self, id: RequestId, ctx: &Context<'_>) -> bool {
        let let_go = self.gone.remove(&id);
        assert!(let_go || self.inner.traits().direct, "request {} completed, which was not dispatched", id.0);
        self.inner.complete(id, ctx)
    }

    fn merge(&mut self, io: &Io, index: &MergeIndex, ctx: &Context<'_>) -> Option<Join> {
        let join = self.inner.merge(io, index, ctx)?;
        let request = &ctx.requests[join.into];
        assert!(self.queued.contains(&join.into), "joins request {}, which is not queued", join.into.0);
        match join.side {
            Side::Back => assert_eq!(request.end(), io.sector),
            Side::Front => assert_eq!(io.sector + u64::from(io.sectors), request.sector),
            Side::Range => assert!(index.limits().max_discard_segments > 1),
        }
        Some(join)
    }

    fn allow_merge(&self, queued: RequestId, io: &Io, ctx: &Context<'_>) -> bool {
        assert!(self.queued.contains(&queued), "asked about request {}, which is not queued", queued.0);
        self.inner.allow_merge(queued, io, ctx)
    }

    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, ctx: &Context<'_>) {
        let may = self.queued.contains(&survivor) || self.chosen == Some(survivor);
        assert!(may, "request {} absorbs and is neither queued nor just chosen", survivor.0);
        assert!(self.queued.remove(&absorbed), "request {} is absorbed and was not queued", absorbed.0);
        self.inner.absorbed(survivor, absorbed, ctx);
    }

    fn follower(&self, chosen: RequestId, ctx: &Context<'_>) -> Option<RequestId> {
        assert_eq!(self.chosen, Some(chosen), "asked what follows request {}, which was not just chosen", chosen.0);
        let next = self.inner.follower(chosen, ctx)?;
        assert!(self.queued.contains(&next), "the follower {} is not queued", next.0);
        assert_eq!(ctx.requests[next].sector, ctx.requests[chosen].end(), "the follower {} is not next to it", next.0);
        Some(next)
    }

    fn former(&self, id: RequestId) -> Option<RequestId> {
        let found = self.inner.former(id)?;
        assert!(self.queued.contains(&found), "the neighbour {} is not queued", found.0);
        Some(found)
    }

    fn latter(&self, id: RequestId) -> Option<RequestId> {
        let found = self.inner.latter(id)?;
        assert!(self.queued.contains(&found), "the neighbour {} is not queued", found.0);
        Some(found)
    }

    fn limit(&self, io: &Io, nr_requests: u32) -> u32 {
        let limit = self.inner.limit(io, nr_requests);
        assert!((1..=nr_requests).contains(&limit), "a limit of {limit} of {nr_requests} slots");
        limit
    }

    fn smallest_limit(&self, nr_requests: u32) -> u32 {
        let smallest = self.inner.smallest_limit(nr_requests);
        assert!((1..=nr_requests).contains(&smallest), "a smallest limit of {smallest} of {nr_requests} slots");
        smallest
    }

    fn event(&mut self, event: Event, ctx: &Context<'_>) {
        self.inner.event(event, ctx);
        if event == Event::Timer {
            assert!(self.inner.timer().is_none_or(|t| t > ctx.now), "the timer stays due");
        }
    }
}
