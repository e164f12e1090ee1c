//! Fairness: ideal shares by weight, proportionality variation, Jain's index.

use crate::result::Fairness;
use crate::tenants::TenantSpec;

/// Ideal share of each tenant, 0 to 1, summing to 1 over the tenants that submit I/O. Siblings divide their parent's
/// share by weight. A tenant without I/O of its own or of a descendant leaves its share to its siblings, as control
/// groups do. A tenant with children and I/O of its own competes with its children by its own weight.
pub fn ideal_shares(tenants: &[TenantSpec], takes_part: &[bool]) -> Vec<f64> {
    let parent = |i: usize| tenants[i].parent.map(|p| p.0 as usize).filter(|p| *p < tenants.len() && *p != i);
    let mut active = takes_part.to_vec();
    // A parent is active if a descendant is. Depth is bounded by the count, which also ends cycles.
    for i in (0..tenants.len()).filter(|i| takes_part[*i]) {
        let mut at = i;
        for _ in 0..tenants.len() {
            let Some(p) = parent(at) else { break };
            active[p] = true;
            at = p;
        }
    }
    let weight = |i: usize| f64::from(tenants[i].weight);
    // Weights of the active children of each tenant, plus its own where it has I/O itself.
    let mut roots = 0.0;
    let mut below = vec![0.0; tenants.len()];
    for i in (0..tenants.len()).filter(|i| active[*i]) {
        match parent(i) {
            Some(p) => below[p] += weight(i),
            None => roots += weight(i),
        }
    }
    let fraction = |i: usize| {
        let mut share = 1.0;
        if below[i] > 0.0 {
            share *= weight(i) / (below[i] + weight(i));
        }
        let mut at = i;
        for _ in 0..=tenants.len() {
            match parent(at) {
                None => return share * weight(at) / roots,
                Some(p) => {
                    let own = if takes_part[p] { weight(p) } else { 0.0 };
                    share *= weight(at) / (below[p] + own);
                    at = p;
                }
            }
        }
        0.0
    };
    (0..tenants.len()).map(|i| if takes_part[i] { fraction(i) } else { 0.0 }).collect()
}

/// Proportionality variation as the A+CFQ paper defines it: the mean over tenants of
/// |w_i / w_ref - b_i / b_ref|, where ref is the tenant of the smallest weight (the first, if several
/// are). `weights` may be weights or ideal shares, `bandwidths` have any unit. 0 is ideal.
/// NaN with fewer than two tenants, or if the reference tenant moved no data.
pub fn pv(weights: &[f64], bandwidths: &[f64]) -> f64 {
    let pairs = || weights.iter().zip(bandwidths);
    let n = pairs().count();
    let Some((w_ref, b_ref)) = pairs().reduce(|a, b| if b.0 < a.0 { b } else { a }) else { return f64::NAN };
    if n < 2 || *b_ref <= 0.0 || *w_ref <= 0.0 {
        return f64::NAN;
    }
    pairs().map(|(w, b)| (w / w_ref - b / b_ref).abs()).sum::<f64>() / n as f64
}

/// Jain's index of `bandwidths` over `weights`: (sum x)^2 / (n sum x^2) with x = b / w.
/// 1 is ideal, 1/n means that one tenant had all bandwidth. NaN with fewer than two tenants or without any bandwidth.
pub fn jain(weights: &[f64], bandwidths: &[f64]) -> f64 {
    let x: Vec<f64> = weights.iter().zip(bandwidths).map(|(w, b)| b / w).collect();
    let (sum, squares) = x.iter().fold((0.0, 0.0), |(s, q), v| (s + v, q + v * v));
    if x.len() < 2 || squares <= 0.0 { f64::NAN } else { sum * sum / (x.len() as f64 * squares) }
}

/// Whether a tenant moved more data than one with a larger ideal share. Tenants with an ideal share of 0 do not count.
pub(crate) fn reversed(ideal: &[f64], bytes: &[u64]) -> bool {
    let taking_part = || ideal.iter().zip(bytes).filter(|(w, _)| **w > 0.0);
    taking_part().any(|(w, b)| taking_part().any(|(heavier, less)| w < heavier && b > less))
}

/// Fairness figures from the bytes moved by each tenant. Tenants with an ideal share of 0 do not count.
pub(crate) fn fairness(ideal: &[f64], bytes: &[u64]) -> Fairness {
    let taking_part = || ideal.iter().zip(bytes).filter(|(w, _)| **w > 0.0);
    let weights: Vec<f64> = taking_part().map(|(w, _)| *w).collect();
    let moved: Vec<f64> = taking_part().map(|(_, b)| *b as f64).collect();
    let total: f64 = moved.iter().sum();
    let misplaced = if weights.len() < 2 || total <= 0.0 {
        f64::NAN
    } else {
        weights.iter().zip(&moved).map(|(w, b)| (w - b / total).abs()).sum::<f64>()
    };
    Fairness {
        pv: pv(&weights, &moved),
        pv_share: misplaced / weights.len() as f64,
        share_error: misplaced / 2.0,
        jain: jain(&weights, &moved),
        reversals_s: f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dumbwaiter_block::TenantId;
    use proptest::prelude::*;

    fn tenant(weight: u32, parent: Option<u32>) -> TenantSpec {
        TenantSpec { name: String::new(), weight, parent: parent.map(TenantId), focus: false }
    }

    #[test]
    fn pv_of_the_papers_example() {
        // Weights 1, 2, 4, 5 and 10, 18, 44, 45 MB/s: (0 + 0.2 + 0.4 + 0.5) / 4.
        let got = pv(&[1.0, 2.0, 4.0, 5.0], &[10.0, 18.0, 44.0, 45.0]);
        assert!((got - 0.275).abs() < 1e-12, "{got}");
    }

    #[test]
    fn the_reference_of_pv_is_the_smallest_weight_in_any_order() {
        let got = pv(&[4.0, 1.0, 2.0], &[44.0, 10.0, 18.0]);
        assert!((got - 0.2).abs() < 1e-12, "{got}");
    }

    #[test]
    fn a_lighter_tenant_that_moves_more_is_a_reversal() {
        assert!(reversed(&[0.2, 0.8], &[3, 2]));
        assert!(!reversed(&[0.2, 0.8], &[2, 2]) && !reversed(&[0.5, 0.5], &[9, 1]));
        assert!(!reversed(&[0.0, 1.0], &[9, 1]), "tenants without I/O do not count");
    }

    #[test]
    fn jain_matches_a_calculation_by_hand() {
        // x = 1, 2, 3: 36 / (3 x 14).
        assert!((jain(&[1.0, 1.0, 1.0], &[1.0, 2.0, 3.0]) - 36.0 / 42.0).abs() < 1e-12);
        assert!((jain(&[1.0, 1.0, 1.0, 1.0], &[5.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
    }

    #[test]
    fn fairness_is_undefined_below_two_tenants() {
        assert!(pv(&[1.0], &[10.0]).is_nan() && jain(&[1.0], &[10.0]).is_nan());
        assert!(pv(&[], &[]).is_nan());
        assert!(pv(&[1.0, 2.0], &[0.0, 3.0]).is_nan(), "the reference moved nothing");
        assert!(jain(&[1.0, 2.0], &[0.0, 0.0]).is_nan());
        let f = fairness(&[1.0, 0.0], &[10, 0]);
        assert!(f.pv.is_nan() && f.pv_share.is_nan() && f.share_error.is_nan() && f.jain.is_nan());
    }

    #[test]
    fn the_share_error_is_the_part_that_the_wrong_tenants_moved() {
        // Due 3/4 and 1/4, moved 1/2 and 1/2: a quarter of the data is the wrong tenant's.
        assert_eq!(fairness(&[0.75, 0.25], &[5, 5]).share_error, 0.25);
        // A light tenant that is starved does not make it explode, as it does PV.
        let starved = fairness(&[0.01, 0.99], &[0, 100]);
        assert!((starved.share_error - 0.01).abs() < 1e-12 && starved.pv.is_nan());
        assert_eq!(fairness(&[0.5, 0.5], &[0, 0]).share_error.to_bits(), f64::NAN.to_bits());
    }

    #[test]
    fn nested_tenants_divide_their_parents_part() {
        // a 300 with children a1 100, a2 300; b 100.
        let t = [tenant(300, None), tenant(100, Some(0)), tenant(300, Some(0)), tenant(100, None)];
        assert_eq!(ideal_shares(&t, &[false, true, true, true]), [0.0, 0.1875, 0.5625, 0.25]);
        assert_eq!(ideal_shares(&t, &[false, false, true, true]), [0.0, 0.0, 0.75, 0.25]);
        assert_eq!(ideal_shares(&t, &[false, true, false, false]), [0.0, 1.0, 0.0, 0.0]);
        // a has I/O of its own: 300 against its children's 400.
        let with_own = ideal_shares(&t, &[true, true, true, true]);
        assert!((with_own[0] - 0.75 * 3.0 / 7.0).abs() < 1e-12);
        assert!((with_own.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn exact_proportions_have_no_variation(weights in prop::collection::vec(1u32..10_000, 2..12), scale in 1u32..1000) {
            let w: Vec<f64> = weights.iter().map(|w| f64::from(*w)).collect();
            let b: Vec<f64> = weights.iter().map(|w| f64::from(*w) * f64::from(scale)).collect();
            prop_assert!(pv(&w, &b).abs() < 1e-9);
            prop_assert!((jain(&w, &b) - 1.0).abs() < 1e-9);
        }

        #[test]
        fn variation_does_not_depend_on_the_total(pairs in prop::collection::vec((1u32..1000, 1u32..1_000_000), 2..10), scale in 1u32..1000) {
            let w: Vec<f64> = pairs.iter().map(|p| f64::from(p.0)).collect();
            let b: Vec<f64> = pairs.iter().map(|p| f64::from(p.1)).collect();
            let scaled: Vec<f64> = b.iter().map(|b| b * f64::from(scale)).collect();
            let (one, other) = (pv(&w, &b), pv(&w, &scaled));
            prop_assert!((one - other).abs() <= 1e-9 * one.max(1.0));
            prop_assert!(jain(&w, &b) <= 1.0 + 1e-12 && jain(&w, &b) >= 1.0 / pairs.len() as f64 - 1e-12);
        }

        #[test]
        fn ideal_shares_sum_to_one(tree in prop::collection::vec((1u32..1000, any::<prop::sample::Index>(), any::<bool>(), any::<bool>()), 1..20)) {
            let specs: Vec<TenantSpec> = tree
                .iter()
                .enumerate()
                .map(|(i, (w, p, child, _))| tenant(*w, (i > 0 && *child).then(|| p.index(i) as u32)))
                .collect();
            let active: Vec<bool> = tree.iter().map(|t| t.3).collect();
            let shares = ideal_shares(&specs, &active);
            let expected = if active.contains(&true) { 1.0 } else { 0.0 };
            prop_assert!((shares.iter().sum::<f64>() - expected).abs() < 1e-9, "{shares:?}");
        }
    }
}
