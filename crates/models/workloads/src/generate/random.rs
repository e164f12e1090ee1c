//! Random numbers of the generators: one stream per task, equal on every machine.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// One step of SplitMix64 (Steele, Lea and Flood 2014): spreads a number over all 64 bits.
pub(crate) fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The stream seeded by these numbers.
    pub(crate) fn new(numbers: &[u64]) -> Random {
        let seed = numbers.iter().fold(0, |seed, n| mix(mix(seed) ^ *n));
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    #[inline]
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `0..n`; 0 for `n` = 0. The bias of the multiplication is below n / 2^64.
    #[inline]
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform in `[0, 1)`, in steps of 2^-53.
    #[inline]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Exponential with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }

    /// Normal with mean 0 and deviation 1 (Marsaglia's polar method).
    pub(crate) fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let s = x * x + y * y;
            if s > 0.0 && s < 1.0 {
                return x * (-2.0 * libm::log(s) / s).sqrt();
            }
        }
    }
}

/// A computed permutation of `0..n`: a Feistel network on as many bits as `n - 1` has, iterated until it falls inside
/// (Black and Rogaway 2002). Less than two iterations on average.
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    n: u64,
    low_bits: u32,
    low_mask: u64,
    high_mask: u64,
    keys: [u64; 4],
}

impl Permutation {
    pub(crate) fn new(n: u64, random: &mut Random) -> Permutation {
        let bits = (64 - n.saturating_sub(1).leading_zeros()).max(2);
        let low_bits = bits / 2;
        let mut permutation = Permutation {
            n,
            low_bits,
            low_mask: (1 << low_bits) - 1,
            high_mask: (1 << (bits - low_bits)) - 1,
            keys: [0; 4],
        };
        permutation.rekey(random);
        permutation
    }

    /// Replaces it by another random permutation.
    pub(crate) fn rekey(&mut self, random: &mut Random) {
        self.keys = std::array::from_fn(|_| random.bits());
    }

    pub(crate) fn len(&self) -> u64 {
        self.n
    }

    /// The image of `i`, which must be below `n`.
    #[inline]
    pub(crate) fn apply(&self, i: u64) -> u64 {
        let hash = |x: u64, key: u64| {
            ((x ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ key).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32
        };
        let mut x = i;
        loop {
            let (mut low, mut high) = (x & self.low_mask, x >> self.low_bits);
            for pair in [[self.keys[0], self.keys[1]], [self.keys[2], self.keys[3]]] {
                high ^= hash(low, pair[0]) & self.high_mask;
                low ^= hash(high, pair[1]) & self.low_mask;
            }
            x = high << self.low_bits | low;
            if x < self.n {
                return x;
            }
        }
    }
}

/// Zipf's law over ranks `0..n`: rank r has weight (r + 1)^-theta. Rejection-inversion (Hörmann and Derflinger 1996):
/// constant time and memory for any n and any theta > 0.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    n: f64,
    theta: f64,
    low: f64,
    high: f64,
    sure: f64,
}

impl Zipf {
    pub(crate) fn new(n: u64, theta: f64) -> Zipf {
        let mut zipf = Zipf { n: n.max(1) as f64, theta, low: 0.0, high: 0.0, sure: 0.0 };
        zipf.low = zipf.area(1.5) - 1.0;
        zipf.high = zipf.area(zipf.n + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.area(2.5) - zipf.weight(2.0));
        zipf
    }

    /// Integral of x^-theta from 1 to x.
    fn area(&self, x: f64) -> f64 {
        let log = libm::log(x);
        let t = (1.0 - self.theta) * log;
        log * if t.abs() > 1e-8 { libm::expm1(t) / t } else { 1.0 + t / 2.0 }
    }

    fn inverse(&self, area: f64) -> f64 {
        let t = (area * (1.0 - self.theta)).max(-1.0);
        libm::exp(area * if t.abs() > 1e-8 { libm::log1p(t) / t } else { 1.0 - t / 2.0 })
    }

    fn weight(&self, x: f64) -> f64 {
        libm::exp(-self.theta * libm::log(x))
    }

    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.high + random.unit() * (self.low - self.high);
            let x = self.inverse(u);
            let k = (x + 0.5).floor().clamp(1.0, self.n);
            if k - x <= self.sure || u >= self.area(k + 0.5) - self.weight(k) {
                return k as u64 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_repeatable_and_differ_by_every_number() {
        let first = |numbers: &[u64]| Random::new(numbers).bits();
        assert_eq!(first(&[1, 2, 3]), first(&[1, 2, 3]));
        let all = [first(&[1, 2, 3]), first(&[1, 3, 2]), first(&[2, 2, 3]), first(&[1, 2, 4]), first(&[0, 0, 0])];
        for i in 0..all.len() {
            assert!(!all[..i].contains(&all[i]));
        }
    }

    #[test]
    fn permutations_are_bijective() {
        let mut random = Random::new(&[7]);
        for n in [1, 2, 3, 4, 5, 63, 64, 65, 1000, 4097] {
            let p = Permutation::new(n, &mut random);
            let mut places: Vec<u64> = (0..n).map(|i| p.apply(i)).collect();
            if n == 4097 {
                let still = places.iter().enumerate().filter(|(i, p)| *i as u64 == **p).count();
                assert!(still < 12, "{still} of 4097 places unmoved");
                let neighbours = places.windows(2).filter(|w| w[0] + 1 == w[1]).count();
                assert!(neighbours < 12, "{neighbours} neighbours kept");
            }
            places.sort_unstable();
            assert!(places.into_iter().eq(0..n), "n = {n}");
        }
    }

    #[test]
    fn zipf_has_the_stated_weights() {
        for theta in [0.5, 0.99, 1.0, 1.2, 2.5] {
            let n = 1000;
            let zipf = Zipf::new(n, theta);
            let mut random = Random::new(&[11]);
            let draws = 200_000;
            let mut counts = vec![0u32; n as usize];
            for _ in 0..draws {
                counts[zipf.draw(&mut random) as usize] += 1;
            }
            let total: f64 = (1..=n).map(|k| libm::pow(k as f64, -theta)).sum();
            for rank in [1u64, 2, 3, 10] {
                let p = libm::pow(rank as f64, -theta) / total;
                let (mean, sd) = (p * f64::from(draws), (p * (1.0 - p) * f64::from(draws)).sqrt());
                let seen = f64::from(counts[rank as usize - 1]);
                assert!((seen - mean).abs() < 5.0 * sd, "theta {theta} rank {rank}: {seen}, expected {mean} ± {sd}");
            }
        }
    }

    #[test]
    fn normal_and_exponential_have_their_moments() {
        let mut random = Random::new(&[3]);
        let n = 100_000;
        let normal: Vec<f64> = (0..n).map(|_| random.normal()).collect();
        let mean = normal.iter().sum::<f64>() / n as f64;
        let variance = normal.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n as f64;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
        let mean = (0..n).map(|_| random.exponential()).sum::<f64>() / n as f64;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
    }
}
