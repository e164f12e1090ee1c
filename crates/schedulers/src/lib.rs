//! I/O schedulers, one file each, and their registry.
//!
//! A scheduler implements [`dumbwaiter_block::Scheduler`] and is one line in [`registry::REGISTRY`].
#![forbid(unsafe_code)]

pub mod bfq;
pub mod c_look;
pub mod deadline;
pub mod kyber;
pub mod mechanisms;
pub mod mq_deadline;
pub mod none;
pub mod noop;
pub mod registry;
pub mod sstf;

pub use registry::{Choice, ChoiceError, Entry, REGISTRY, find};

/// Merging for a scheduler whose queued requests are in one `sorted` tree: front merges by start sector, neighbours by
/// sector.
macro_rules! sorted_merging {
    () => {
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
pub(crate) use sorted_merging;
