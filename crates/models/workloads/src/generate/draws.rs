//! The random choices of a job: from fio's own generators if the job comes from a fio file, otherwise from ours.

use super::fio_random::{FioRandom, Tausworthe};
use super::random::Random;

/// Random numbers of a job, by purpose.
#[derive(Debug)]
pub(super) struct Draws {
    /// For everything that does not follow fio, such as arrivals and skewed distributions.
    pub(super) own: Random,
    fio: Option<FioRandom>,
    /// fio's generators as seeded, if each pass over the region draws the same numbers.
    seeded: Option<FioRandom>,
}

impl Draws {
    /// `repeats` says whether each pass over the region begins with the same numbers.
    pub(super) fn new(own: Random, fio: Option<FioRandom>, repeats: bool) -> Draws {
        Draws { own, seeded: fio.clone().filter(|_| repeats), fio }
    }

    /// Whether they are fio's.
    #[inline]
    pub(super) fn are_fios(&self) -> bool {
        self.fio.is_some()
    }

    /// A number of a block in `0..blocks`.
    #[inline]
    pub(super) fn block(&mut self, blocks: u64) -> u64 {
        below(self.fio.as_mut().map(|fio| &mut fio.offset), &mut self.own, blocks)
    }

    /// Below `n`, for a block size of direction `dir`.
    #[inline]
    pub(super) fn size_below(&mut self, dir: usize, n: u64) -> u64 {
        below(self.fio.as_mut().map(|fio| &mut fio.sizes[dir]), &mut self.own, n)
    }

    /// 32 bits for a block size of direction `dir`.
    #[inline]
    pub(super) fn size_bits(&mut self, dir: usize) -> u32 {
        bits(self.fio.as_mut().map(|fio| &mut fio.sizes[dir]), &mut self.own)
    }

    /// In `0..100`, for the choice between reads and writes.
    #[inline]
    pub(super) fn direction(&mut self) -> u64 {
        below(self.fio.as_mut().map(|fio| &mut fio.direction), &mut self.own, 100)
    }

    /// 32 bits for the choice between random and sequential offsets of direction `dir`.
    #[inline]
    pub(super) fn order(&mut self, dir: usize) -> u32 {
        bits(self.fio.as_mut().map(|fio| &mut fio.order[dir]), &mut self.own)
    }

    /// 32 bits for the choice of a priority.
    #[inline]
    pub(super) fn priority(&mut self) -> u32 {
        bits(self.fio.as_mut().map(|fio| &mut fio.priority), &mut self.own)
    }

    /// A pass over the region is complete.
    pub(super) fn pass(&mut self) {
        if let Some(seeded) = &self.seeded {
            self.fio = Some(seeded.clone());
        }
    }
}

#[inline]
fn bits(fio: Option<&mut Tausworthe>, own: &mut Random) -> u32 {
    match fio {
        Some(fio) => fio.next(),
        None => (own.bits() >> 32) as u32,
    }
}

/// fio scales 32 bits in floating point, which for huge `n` rounds differently from integers.
#[inline]
fn below(fio: Option<&mut Tausworthe>, own: &mut Random, n: u64) -> u64 {
    match fio {
        Some(fio) => (n as f64 * (f64::from(fio.next()) / 4_294_967_296.0)) as u64,
        None => own.below(n),
    }
}
