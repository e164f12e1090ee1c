//! The flush sequence of a request that asks for an empty cache before it, or stable data after it.

/// Steps that a request still has to take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sequence(u8);

impl Sequence {
    /// An ordinary request.
    pub(crate) const NONE: Sequence = Sequence(0);
}
