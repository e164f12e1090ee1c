//! Counter-based random numbers: a draw is a pure function of (seed, stage, command number), so that a new stage or a
//! debug print changes no other draw.

/// The draws of one stage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage {
    key: u64,
}

impl Stage {
    /// `stage` numbers the places of a device that draw.
    pub(crate) fn new(seed: u64, stage: u64) -> Stage {
        Stage { key: mix(mix(seed ^ 0x6a09_e667_f3bc_c908) ^ stage.wrapping_mul(0x9e37_79b9_7f4a_7c15)) }
    }

    /// 64 bits for command `seq`.
    pub(crate) fn bits(self, seq: u64) -> u64 {
        mix(self.key ^ seq.wrapping_mul(0xd134_2543_de82_ef95))
    }

    /// Uniform in [0, 1) for command `seq`.
    pub(crate) fn unit(self, seq: u64) -> f64 {
        unit(self.bits(seq))
    }
}

/// The upper 53 bits as a number in [0, 1).
pub(crate) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection that spreads every bit.
pub(crate) fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_draw_is_that_of_splitmix64_with_seed_zero() {
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn draws_are_uniform_and_stages_independent() {
        let (a, b) = (Stage::new(7, 1), Stage::new(7, 2));
        let n = 100_000u64;
        let (mut sum, mut product) = (0.0, 0.0);
        for seq in 0..n {
            let (x, y) = (a.unit(seq), b.unit(seq));
            assert!((0.0..1.0).contains(&x));
            sum += x;
            product += (x - 0.5) * (y - 0.5);
        }
        assert!((sum / n as f64 - 0.5).abs() < 0.005);
        assert!((product / n as f64).abs() < 0.002);
    }
}
