//! The random numbers of fio, as its versions before 3.35 draw them.
//!
//! fio's default generator is the combined Tausworthe generator of L'Ecuyer (1996) with three words of 32 bits. A job has
//! one for each purpose, so that a draw for one never moves another. Its seeds follow from the job's number in its file,
//! from 1, counting each instance.

use super::JobSpec;
use super::random::mix;

/// Seed of all jobs with `allrandrepeat`, and of offsets with `randrepeat`.
const REPEATED_SEED: u64 = 0xb189_9bed;

/// `randseed` of jobs that do not set it.
const DEFAULT_RANDSEED: u64 = 0x89;

/// Factor between the seeds of one purpose and the next.
const SEED_FACTOR: u64 = 0x9e37_0001;

/// The purposes of a job's random numbers, by their position among fio's seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Block sizes of reads; those of writes and trims follow.
    Size = 0,
    /// Read or write.
    Direction = 4,
    /// Random offsets of all directions.
    Offset = 6,
    /// Random or sequential (`percentage_random`).
    Order = 10,
    /// Whether an I/O has the priority of `cmdprio`.
    Priority = 19,
}

/// A combined Tausworthe generator of 32 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tausworthe([u32; 3]);

impl Tausworthe {
    /// Smallest value of each word; a smaller one would stay zero.
    const LEAST: [u32; 3] = [1, 7, 15];

    pub(super) fn new(seed: u32) -> Tausworthe {
        let mut words = [0; 3];
        let mut last = 53u32;
        for (word, least) in words.iter_mut().zip(Tausworthe::LEAST) {
            last = last.wrapping_mul(69_069) ^ seed;
            last = if last < least { last + least } else { last };
            *word = last;
        }
        let mut generator = Tausworthe(words);
        for _ in 0..6 {
            generator.next();
        }
        generator
    }

    #[inline]
    pub(super) fn next(&mut self) -> u32 {
        let step = |s: u32, a: u32, b: u32, keep: u32, d: u32| ((s & keep) << d) ^ (((s << a) ^ s) >> b);
        let [x, y, z] = self.0;
        self.0 = [step(x, 13, 19, !1, 12), step(y, 2, 25, !7, 4), step(z, 3, 11, !15, 17)];
        self.0[0] ^ self.0[1] ^ self.0[2]
    }
}

/// The generators of one job. Directions have one each for sizes and order.
#[derive(Clone, Debug)]
pub(super) struct FioRandom {
    pub(super) offset: Tausworthe,
    pub(super) direction: Tausworthe,
    pub(super) sizes: [Tausworthe; 3],
    pub(super) order: [Tausworthe; 3],
    pub(super) priority: Tausworthe,
}

impl FioRandom {
    /// The generators of the job with this number in its file. `None` where fio seeds them from the system
    /// (`randrepeat=0`). Replicate 0 draws what fio draws; each further one what fio would draw with a `randseed` of its own.
    pub(super) fn new(spec: &JobSpec, number: u32, replicate: u64) -> Option<FioRandom> {
        let randseed = match replicate {
            0 => spec.randseed,
            n => Some(mix(spec.randseed.unwrap_or(DEFAULT_RANDSEED) ^ mix(n))),
        };
        let all_repeat = spec.allrandrepeat && replicate == 0;
        if randseed.is_none() && !spec.randrepeat && !all_repeat {
            return None;
        }
        // A randseed leaves the offsets of randrepeat as they are.
        let repeat = spec.randrepeat && replicate == 0;
        let number = u64::from(number);
        // fio keeps the low 32 bits of a seed.
        let seed = |purpose: Purpose, direction: u32| -> Tausworthe {
            let position = purpose as u32 + direction;
            let seed = if purpose == Purpose::Offset && repeat {
                REPEATED_SEED.wrapping_mul(number)
            } else if all_repeat {
                REPEATED_SEED.wrapping_mul(number).wrapping_add(position.into())
            } else {
                let factor = SEED_FACTOR.wrapping_pow(4 + position);
                let base = randseed.unwrap_or(DEFAULT_RANDSEED).wrapping_mul(factor);
                base.wrapping_mul(number).wrapping_add(position.into())
            };
            Tausworthe::new(seed as u32)
        };
        Some(FioRandom {
            offset: seed(Purpose::Offset, 0),
            direction: seed(Purpose::Direction, 0),
            sizes: [0, 1, 2].map(|direction| seed(Purpose::Size, direction)),
            order: [0, 1, 2].map(|_| seed(Purpose::Order, 0)),
            priority: seed(Purpose::Priority, 0),
        })
    }
}
