//! I/O schedulers, one file each, and their registry.
//!
//! A scheduler implements [`dumbwaiter_block::Scheduler`] and has an entry in [`registry::REGISTRY`]. None of them reads a
//! clock or does I/O; only the registry reads a file that a setting names, when a scheduler is chosen.
#![forbid(unsafe_code)]

pub mod adios;
pub mod anticipatory;
pub mod bfq;
pub mod c_look;
pub mod cfq;
pub mod d2fq;
pub mod deadline;
pub mod headway;
pub mod kyber;
pub mod mclock;
pub mod mechanisms;
pub mod mq_deadline;
pub mod mqfq;
pub mod none;
pub mod noop;
pub mod registry;
mod settings;
pub mod sjf;
pub mod sstf;
#[cfg(test)]
mod test_lab;
pub mod wf2q_plus;

pub use registry::{Choice, ChoiceError, Entry, Factory, Parameter, ParameterKind, REGISTRY, Searched, Settings, find};

/// The calls that schedulers with one `sorted` tree and at-head requests in `head` (with `links`) have in common:
/// arrivals, merging by sector, neighbours. All but the choice of the next request.
macro_rules! one_sorted_queue {
    () => {
        fn insert(&mut self, id: RequestId, place: dumbwaiter_block::Place, ctx: &Context<'_>) {
            match place {
                dumbwaiter_block::Place::Tail => self.sorted.insert(id, ctx.requests[id].sector),
                dumbwaiter_block::Place::Head => self.head.push_front(&mut self.links, id),
            }
        }

        fn has_work(&self, _hw_queue: usize) -> bool {
            !self.sorted.is_empty() || !self.head.is_empty()
        }

        fn merge(
            &mut self,
            io: &dumbwaiter_block::Io,
            index: &dumbwaiter_block::MergeIndex,
            ctx: &Context<'_>,
        ) -> Option<dumbwaiter_block::Join> {
            index.lookup(io, ctx).or_else(|| {
                let into = self.sorted.at(io.sector + u64::from(io.sectors))?;
                dumbwaiter_block::merge::compatible(&ctx.requests[into], io)
                    .then_some(dumbwaiter_block::Join { into, side: dumbwaiter_block::Side::Front })
            })
        }

        fn merged(&mut self, join: dumbwaiter_block::Join, ctx: &Context<'_>) {
            if join.side == dumbwaiter_block::Side::Front && self.sorted.contains(join.into) {
                self.sorted.remove(join.into);
                self.sorted.insert(join.into, ctx.requests[join.into].sector);
            }
        }

        fn absorbed(&mut self, _survivor: RequestId, absorbed: RequestId, _ctx: &Context<'_>) {
            self.sorted.remove(absorbed);
        }

        fn former(&self, id: RequestId) -> Option<RequestId> {
            self.sorted.contains(id).then(|| self.sorted.previous(id))?
        }

        fn latter(&self, id: RequestId) -> Option<RequestId> {
            self.sorted.contains(id).then(|| self.sorted.next(id))?
        }
    };
}
pub(crate) use one_sorted_queue;
