//! `sstf`: shortest seek time first. The request whose start is nearest to the end of the last one dispatched goes
//! next; of two equally near the higher. A classical baseline (Denning 1967): good throughput on a disk, and no bound on
//! how long a distant request waits.

use dumbwaiter_block::{Context, Next, RequestId, Scheduler};

use crate::mechanisms::list::{Links, List};
use crate::mechanisms::sorted::Sorted;

/// See the module documentation.
#[derive(Clone, Default)]
pub struct Sstf {
    sorted: Sorted,
    head: List,
    links: Links,
    /// Where the last dispatched request ended.
    position: u64,
}

impl Scheduler for Sstf {
    crate::one_sorted_queue!();

    fn next(&mut self, _hw_queue: usize, ctx: &Context<'_>) -> Next {
        let chosen = self.head.pop_front(&mut self.links).or_else(|| {
            let above = self.sorted.first_from(self.position);
            let below = match above {
                Some(above) => self.sorted.previous(above),
                None => self.sorted.last(),
            };
            let distance = |id: &RequestId| self.sorted.key(*id).map_or(u64::MAX, |k| k.abs_diff(self.position));
            let nearest = [above, below].into_iter().flatten().min_by_key(distance)?;
            self.sorted.remove(nearest);
            Some(nearest)
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
