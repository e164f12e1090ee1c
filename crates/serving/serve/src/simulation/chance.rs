//! Random numbers of a seed.

use crate::bench::next_random;

/// Random numbers of a seed.
#[derive(Clone)]
pub(super) struct Chance(pub(super) u64);

impl Chance {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        next_random(&mut self.0) % bound
    }

    pub(super) fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}
