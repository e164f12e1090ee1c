//! `noop`: first in, first out, with merging. The file to copy for a new scheduler.
//!
//! Source: Linux up to 4.20 (legacy single-queue block layer). A plug is sorted by sector before it arrives, an
//! arrival joins a request that ends where it starts, and the request that merged last also at its front.
//! Neighbours are those in order of arrival. Synchronous and asynchronous requests have slots of their own.

use dumbwaiter_block::{Context, Next, Place, RequestId, Scheduler, Traits};

use crate::mechanisms::list::{Links, List};

/// See the module documentation.
#[derive(Clone, Debug, Default)]
pub struct Noop {
    fifo: List,
    links: Links,
}

impl Scheduler for Noop {
    fn traits(&self) -> Traits {
        Traits { single_queue: true, ..Traits::default() }
    }

    fn insert(&mut self, id: RequestId, place: Place, _ctx: &Context<'_>) {
        match place {
            Place::Tail => self.fifo.push_back(&mut self.links, id),
            Place::Head => self.fifo.push_front(&mut self.links, id),
        }
    }

    fn has_work(&self, _hw_queue: usize) -> bool {
        !self.fifo.is_empty()
    }

    fn next(&mut self, _hw_queue: usize, _ctx: &Context<'_>) -> Next {
        self.fifo.pop_front(&mut self.links).map_or(Next::Empty, Next::Dispatch)
    }

    fn absorbed(&mut self, _survivor: RequestId, absorbed: RequestId, _ctx: &Context<'_>) {
        self.fifo.remove(&mut self.links, absorbed);
    }

    fn former(&self, id: RequestId) -> Option<RequestId> {
        self.links.previous(id)
    }

    fn latter(&self, id: RequestId) -> Option<RequestId> {
        self.links.next(id)
    }

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}
