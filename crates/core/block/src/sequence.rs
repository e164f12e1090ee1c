//! The steps of a request around the device's volatile cache.

/// Steps that a request still has to take; a set of bits, taken in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sequence(u8);

impl Sequence {
    /// An ordinary request.
    pub(crate) const NONE: Sequence = Sequence(0);
    /// A flush before the data.
    pub(crate) const PRE: Sequence = Sequence(1);
    /// The data itself.
    pub(crate) const DATA: Sequence = Sequence(2);
    /// A flush after the data.
    pub(crate) const POST: Sequence = Sequence(4);

    pub(crate) fn has(self, step: Sequence) -> bool {
        self.0 & step.0 != 0
    }

    pub(crate) fn and(self, step: Sequence) -> Sequence {
        Sequence(self.0 | step.0)
    }

    /// The next step to take.
    pub(crate) fn step(self) -> Option<Sequence> {
        [Sequence::PRE, Sequence::DATA, Sequence::POST].into_iter().find(|s| self.has(*s))
    }

    /// The steps that remain after the next one.
    pub(crate) fn rest(self) -> Sequence {
        Sequence(self.0 & self.0.wrapping_sub(1))
    }
}
