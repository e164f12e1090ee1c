//! `c-look`: circular look. Requests are served upwards from the end of the last one dispatched; when nothing lies
//! above, service starts again at the lowest. A classical baseline: every request is reached within one sweep plus
//! what arrives ahead of it meanwhile; of requests that overlap, one a sweep.

use dumbwaiter_block::{Context, Next, Place, RequestId, Scheduler};

use crate::mechanisms::list::{Links, List};
use crate::mechanisms::sorted::Sorted;

/// See the module's text.
#[derive(Clone, Default)]
pub struct CLook {
    sorted: Sorted,
    head: List,
    links: Links,
    /// Where the last dispatched request ended.
    position: u64,
}

impl Scheduler for CLook {
    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) {
        match place {
            Place::Tail => self.sorted.insert(id, ctx.requests[id].sector),
            Place::Head => self.head.push_front(&mut self.links, id),
        }
    }

    fn has_work(&self, _hw_queue: usize) -> bool {
        !self.sorted.is_empty() || !self.head.is_empty()
    }

    fn next(&mut self, _hw_queue: usize, ctx: &Context<'_>) -> Next {
        let chosen = self.head.pop_front(&mut self.links).or_else(|| {
            let next = self.sorted.first_from(self.position).or_else(|| self.sorted.first())?;
            self.sorted.remove(next);
            Some(next)
        });
        chosen.map_or(Next::Empty, |id| {
            self.position = ctx.requests[id].end();
            Next::Dispatch(id)
        })
    }

    crate::sorted_merging!();

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}
