//! `c-look`: circular look. Requests are served upwards from the end of the last one dispatched; when nothing lies
//! above, service starts again at the lowest. A classical baseline: every request is reached within one sweep plus
//! what arrives ahead of it meanwhile; of requests that overlap, one a sweep.

use dumbwaiter_block::{Context, Next, RequestId, Scheduler};

use crate::mechanisms::list::{Links, List};
use crate::mechanisms::sorted::Sorted;

/// See the module documentation.
#[derive(Clone, Default)]
pub struct CLook {
    sorted: Sorted,
    head: List,
    links: Links,
    /// Where the last dispatched request ended.
    position: u64,
}

impl Scheduler for CLook {
    crate::one_sorted_queue!();

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

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}
