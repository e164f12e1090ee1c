//! `reads-first`: reads in order of arrival, and one write after every `reads_per_write` reads.
//!
//! Most writes are asynchronous: no application waits for them. So reads pass them, up to a limit. An example, without a
//! source.

use dumbwaiter_block::{Context, Dir, Next, Place, RequestId, Scheduler, Tunable};

use crate::mechanisms::list::{Links, List};

/// Settings.
pub const TUNABLES: &[Tunable] = &[Tunable {
    name: "reads_per_write",
    unit: "requests",
    min: 1,
    max: 1_000_000,
    default: 8,
    help: "reads served before a waiting write",
}];

/// See the module documentation.
#[derive(Clone, Debug)]
pub struct ReadsFirst {
    /// Reads and writes, oldest first.
    fifo: [List; 2],
    links: Links,
    reads_per_write: i128,
    /// Reads served while the oldest write waited.
    passed_over: i128,
}

impl Default for ReadsFirst {
    fn default() -> Self {
        ReadsFirst {
            fifo: [List::default(); 2],
            links: Links::default(),
            reads_per_write: TUNABLES[0].default,
            passed_over: 0,
        }
    }
}

/// The list of a request.
fn side(id: RequestId, ctx: &Context<'_>) -> usize {
    ctx.requests[id].io.op.dir() as usize
}

impl Scheduler for ReadsFirst {
    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) {
        let fifo = &mut self.fifo[side(id, ctx)];
        match place {
            Place::Tail => fifo.push_back(&mut self.links, id),
            Place::Head => fifo.push_front(&mut self.links, id),
        }
    }

    fn has_work(&self, _hw_queue: usize) -> bool {
        self.fifo.iter().any(|fifo| !fifo.is_empty())
    }

    fn next(&mut self, _hw_queue: usize, _ctx: &Context<'_>) -> Next {
        let [reads, writes] = &self.fifo;
        let turn = self.passed_over >= self.reads_per_write && !writes.is_empty();
        let dir = if turn || reads.is_empty() { Dir::Write } else { Dir::Read };
        match dir {
            Dir::Write => self.passed_over = 0,
            Dir::Read => self.passed_over += i128::from(!writes.is_empty()),
        }
        self.fifo[dir as usize].pop_front(&mut self.links).map_or(Next::Empty, Next::Dispatch)
    }

    fn absorbed(&mut self, _survivor: RequestId, absorbed: RequestId, ctx: &Context<'_>) {
        self.fifo[side(absorbed, ctx)].remove(&mut self.links, absorbed);
    }

    fn tunables(&self) -> &'static [Tunable] {
        TUNABLES
    }

    fn get(&self, name: &str) -> Option<i128> {
        (name == "reads_per_write").then_some(self.reads_per_write)
    }

    fn set(&mut self, name: &str, value: i128) {
        if name == "reads_per_write" {
            self.reads_per_write = value;
        }
    }

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}
