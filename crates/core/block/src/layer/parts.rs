//! The I/Os of a request in sector order, for a driver that transfers each to or from its own memory.

use crate::layer::BlockLayer;
use crate::{Io, RequestId};

/// An I/O of a request, or the part of it that the request transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// The I/O as it was submitted: the whole one if it was split.
    pub io: &'a Io,
    /// First sector of the part.
    pub sector: u64,
    /// Length of the part in sectors.
    pub sectors: u32,
    /// Sectors of `io` before the part.
    pub offset: u32,
}

impl BlockLayer {
    /// The parts of a request that [`BlockLayer::poll`] returned. They follow each other by sector without a gap. For a discard
    /// of several ranges they are these ranges, in no order and with gaps. A flush has none: it serves many I/Os.
    pub fn parts(&self, id: RequestId) -> impl Iterator<Item = Part<'_>> {
        let first = self.slots.get(id).map_or(RequestId::NIL, |slot| slot.first);
        let ids = std::iter::successors(first.some(), |id| self.slots[*id].next.some());
        ids.map(|id| {
            let request = &self.requests[id];
            let piece = &request.io;
            let io = request.parent.some().map_or(piece, |whole| &self.requests[whole].io);
            Part { io, sector: piece.sector, sectors: piece.sectors, offset: (piece.sector - io.sector) as u32 }
        })
    }
}
