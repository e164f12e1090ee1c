//! A FIFO scheduler, for tests of the block layer alone.

use std::collections::VecDeque;

use dumbwaiter_block::{Context, Next, Place, RequestId, Scheduler};

/// First in, first out; at-head inserts go first. The block layer merges.
#[derive(Clone, Debug, Default)]
pub struct Fifo(VecDeque<RequestId>);

impl Scheduler for Fifo {
    fn insert(&mut self, id: RequestId, place: Place, _ctx: &Context<'_>) {
        match place {
            Place::Tail => self.0.push_back(id),
            Place::Head => self.0.push_front(id),
        }
    }

    fn has_work(&self, _hw_queue: usize) -> bool {
        !self.0.is_empty()
    }

    fn next(&mut self, _hw_queue: usize, _ctx: &Context<'_>) -> Next {
        self.0.pop_front().map_or(Next::Empty, Next::Dispatch)
    }

    fn absorbed(&mut self, _survivor: RequestId, absorbed: RequestId, _ctx: &Context<'_>) {
        self.0.retain(|id| *id != absorbed);
    }

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}
