//! The flush machine: requests that need the device's cache emptied before them, or their data stable after them.
//!
//! At most one flush is in the device; one flush serves all waiting requests; none starts while a sequenced
//! data step is in flight, unless the oldest waiter has waited five seconds (Linux 6.18, block-layer spec §9).

use std::collections::VecDeque;

use crate::sequence::Sequence;
use crate::{Flags, Io, Nanos, Op, RequestId};

/// The steps of `io` on a device with or without a volatile cache and native FUA, and the I/O with the
/// flags that remain for the device. `NONE` is an ordinary request.
pub(crate) fn sequence_of(io: Io, volatile_cache: bool, fua: bool) -> (Sequence, Io) {
    let mut io = io;
    let pre = io.flags.any(Flags::PREFLUSH) || io.op == Op::Flush;
    let wants_fua = io.flags.any(Flags::FUA);
    if !pre && !wants_fua {
        return (Sequence::NONE, io);
    }
    let has_data = io.op != Op::Flush && io.sectors > 0;
    if has_data {
        io.flags = io.flags.with(Flags::SYNC).without(Flags::PREFLUSH);
    }
    if !volatile_cache {
        io.flags = io.flags.without(Flags::FUA);
        return (Sequence::NONE, io);
    }
    if !has_data {
        return (Sequence::PRE, io);
    }
    let mut steps = Sequence::DATA;
    if pre {
        steps = steps.and(Sequence::PRE);
    }
    if wants_fua && !fua {
        steps = steps.and(Sequence::POST);
        io.flags = io.flags.without(Flags::FUA);
    }
    if steps == Sequence::DATA { (Sequence::NONE, io) } else { (steps, io) }
}

/// How long a waiter lets data steps hold its flush back.
const FLUSH_PATIENCE: Nanos = Nanos::from_secs(5);

/// Requests that wait for a flush, and those that the flush in the device serves.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlushMachine {
    pub(crate) pending: VecDeque<(Nanos, RequestId)>,
    pub(crate) running: Vec<RequestId>,
    /// The flush request on its way or in the device.
    pub(crate) request: Option<RequestId>,
    pub(crate) data_in_flight: u32,
}

impl FlushMachine {
    /// Should a flush start now?
    pub(crate) fn due(&self, now: Nanos) -> bool {
        self.request.is_none()
            && self
                .pending
                .front()
                .is_some_and(|(since, _)| self.data_in_flight == 0 || now.since(*since) >= FLUSH_PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_table() {
        let io = |op, flags| Io { op, flags, sectors: if op == Op::Flush { 0 } else { 8 }, ..Io::default() };
        let of = |flags, cache, fua| sequence_of(io(Op::Write, flags), cache, fua).0;
        let both = Flags::PREFLUSH.with(Flags::FUA);
        assert_eq!(of(both, false, false), Sequence::NONE);
        assert_eq!(of(Flags::FUA, true, true), Sequence::NONE);
        assert_eq!(of(Flags::FUA, true, false), Sequence::DATA.and(Sequence::POST));
        assert_eq!(of(both, true, true), Sequence::PRE.and(Sequence::DATA));
        assert_eq!(of(both, true, false), Sequence::PRE.and(Sequence::DATA).and(Sequence::POST));
        assert_eq!(sequence_of(io(Op::Flush, Flags::NONE), true, true).0, Sequence::PRE);
        assert!(sequence_of(io(Op::Write, both), false, false).1.flags.has(Flags::SYNC));
        let s = of(both, true, false);
        assert_eq!(s.step(), Some(Sequence::PRE));
        assert_eq!(s.rest().step(), Some(Sequence::DATA));
        assert_eq!(s.rest().rest().rest().step(), None);
    }
}
