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
        let first = self.held.get(id.index()).map_or(RequestId::NIL, |held| held.first);
        let ids = std::iter::successors(first.some(), |id| self.held[id.index()].next.some());
        ids.map(|id| {
            let request = &self.requests[id];
            let piece = &request.io;
            let io = request.parent.some().map_or(piece, |whole| &self.requests[whole].io);
            Part { io, sector: piece.sector, sectors: piece.sectors, offset: (piece.sector - io.sector) as u32 }
        })
    }

    /// `part` alone.
    pub(super) fn parts_begin(&mut self, part: RequestId) {
        let held = &mut self.held[part.index()];
        (held.first, held.last, held.next) = (part, part, RequestId::NIL);
    }

    /// The parts of `lower` come before those of `upper`; `survivor`, which is one of the two, has them all.
    pub(super) fn parts_join(&mut self, lower: RequestId, upper: RequestId, survivor: RequestId) {
        let (first, end) = (self.held[lower.index()].first, self.held[lower.index()].last);
        let (begin, last) = (self.held[upper.index()].first, self.held[upper.index()].last);
        self.held[end.index()].next = begin;
        let held = &mut self.held[survivor.index()];
        (held.first, held.last) = (first, last);
    }
}
