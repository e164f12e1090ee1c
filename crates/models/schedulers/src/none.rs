//! `none`: no policy. Requests go straight to the device in submission order; what the device refuses waits in one
//! first-in-first-out list per CPU. While the device refuses, the lists are served one request per CPU in turn;
//! else whole lists go, the lowest CPU first. Source: Linux 6.18 without a scheduler.
//!
//! Differences from the kernel: the plug order reversal of 5.16 to 6.12 is not reproduced.

use dumbwaiter_block::{
    Context, Io, Join, Limits, MergeIndex, Merging, Next, Place, QueueMap, Replayable, RequestId, Scheduler, Setup,
    Traits, merge,
};

use crate::mechanisms::list::{Links, List};

/// Newest requests of a CPU's list that an arrival may join.
const MERGE_REACH: usize = 8;

#[derive(Clone, Debug, Default)]
struct Queue {
    /// One list per CPU of this hardware queue.
    lists: Vec<List>,
    /// Lists taken over as a whole; they precede the lists.
    bulk: List,
    /// The CPU whose turn is next.
    cursor: usize,
    len: usize,
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub struct None {
    cpus: usize,
    queue_map: QueueMap,
    links: Links,
    queues: Vec<Queue>,
}

impl None {
    /// An empty scheduler.
    pub fn new(setup: Setup) -> None {
        let queue = Queue { lists: vec![List::default(); usize::from(setup.cpus.max(1))], ..Queue::default() };
        None {
            cpus: usize::from(setup.cpus.max(1)),
            queue_map: setup.queue_map(),
            links: Links::default(),
            queues: vec![queue; usize::from(setup.hw_queues.max(1))],
        }
    }

    fn place(&self, cpu: u16) -> (usize, usize) {
        (self.queue_map.of(cpu), usize::from(cpu) % self.cpus)
    }
}

impl Scheduler for None {
    fn traits(&self) -> Traits {
        Traits { per_queue: true, direct: true, merging: Merging::Own, ..Traits::default() }
    }

    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) {
        let (hw, cpu) = self.place(ctx.requests[id].io.cpu);
        let queue = &mut self.queues[hw];
        queue.len += 1;
        match place {
            Place::Tail => queue.lists[cpu].push_back(&mut self.links, id),
            Place::Head => queue.lists[cpu].push_front(&mut self.links, id),
        }
    }

    fn has_work(&self, hw_queue: usize) -> bool {
        self.queues[hw_queue].len > 0
    }

    fn next(&mut self, hw_queue: usize, ctx: &Context<'_>) -> Next {
        let queue = &mut self.queues[hw_queue];
        if queue.bulk.is_empty() && !ctx.busy {
            for list in &mut queue.lists {
                queue.bulk.append(&mut self.links, list);
            }
        }
        let mut next = queue.bulk.pop_front(&mut self.links);
        if next.is_none() {
            let cpus = queue.lists.len();
            let turn = (0..cpus).map(|i| (queue.cursor + i) % cpus).find(|cpu| !queue.lists[*cpu].is_empty());
            if let Some(cpu) = turn {
                queue.cursor = (cpu + 1) % cpus;
                next = queue.lists[cpu].pop_front(&mut self.links);
            }
        }
        match next {
            Some(id) => {
                queue.len -= 1;
                Next::Dispatch(id)
            }
            Option::None => Next::Empty,
        }
    }

    fn merge(&mut self, io: &Io, index: &MergeIndex, ctx: &Context<'_>) -> Option<Join> {
        let (hw, cpu) = self.place(io.cpu);
        newest_touching(self.queues[hw].lists[cpu].iter_back(&self.links), io, index.limits(), ctx)
    }

    fn replayable(&mut self) -> Option<&mut dyn Replayable> {
        Some(self)
    }

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}

impl Replayable for None {
    fn take(&mut self, id: RequestId, hw_queue: usize, _ctx: &Context<'_>) {
        let queue = &mut self.queues[hw_queue];
        let holds = |list: &List| list.iter(&self.links).any(|other| other == id);
        let list = if holds(&queue.bulk) { Some(&mut queue.bulk) } else { queue.lists.iter_mut().find(|l| holds(l)) };
        if let Some(list) = list {
            list.remove(&mut self.links, id);
            queue.len -= 1;
        }
    }
}

/// Of the newest eight, the first that `io` touches; if that one may not grow by it, nothing (Linux:
/// `blk_bio_list_merge`).
pub(crate) fn newest_touching(
    newest_first: impl Iterator<Item = RequestId>,
    io: &Io,
    limits: &Limits,
    ctx: &Context<'_>,
) -> Option<Join> {
    newest_first.take(MERGE_REACH).find_map(|into| {
        let request = &ctx.requests[into];
        let side = merge::touching(request, io, limits)?;
        merge::compatible(request, io).then_some(Join { into, side })
    })
}
