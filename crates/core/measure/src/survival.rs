//! The distribution of latencies of which some are known only to exceed the wait so far: the Kaplan-Meier estimate.
//!
//! E. L. Kaplan and P. Meier: "Nonparametric estimation from incomplete observations", JASA 53 (1958).

/// Fractions nearer than this are equal: they are quotients of counts, rounded.
const SAME_FRACTION: f64 = 1e-12;

/// A latency at which some I/Os finished.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The latency.
    pub(crate) ns: u64,
    /// I/Os that finished with it.
    pub(crate) count: u64,
    /// Their part of all I/Os, larger than `count` over their number where others with shorter waits are unfinished.
    pub(crate) mass: f64,
    /// Part of the I/Os that finish within `ns`.
    pub(crate) fraction: f64,
}

/// A distribution function of latencies.
#[derive(Clone, Debug)]
pub(crate) struct Survival {
    /// Rising in both latency and fraction.
    pub(crate) steps: Vec<Step>,
    /// Part of the I/Os whose latency is known: 1 unless a wait exceeds the longest latency, NaN without any I/O.
    pub(crate) known_to: f64,
}

impl Survival {
    /// The distribution of the latencies `finished`, as (ns, count) rising, and of I/Os that are unfinished after `waits`
    /// ns, in any order. An unfinished I/O is at risk up to its wait, that included.
    pub(crate) fn of(finished: impl Iterator<Item = (u64, u64)>, mut waits: Vec<u64>) -> Survival {
        waits.sort_unstable();
        let finished: Vec<(u64, u64)> = finished.collect();
        let total = finished.iter().map(|(_, count)| count).sum::<u64>() + waits.len() as u64;
        // Between two waits that end, the part beyond a latency is `beyond` x at_risk / base: products of few factors.
        let (mut beyond, mut base, mut at_risk, mut ended, mut before) = (1.0, total, total, 0, 0.0);
        let mut steps = Vec::with_capacity(finished.len());
        for (ns, count) in finished {
            let shorter = waits[ended..].partition_point(|wait| *wait < ns);
            if shorter > 0 {
                beyond *= at_risk as f64 / base as f64;
                ended += shorter;
                at_risk -= shorter as u64;
                base = at_risk;
            }
            at_risk -= count;
            let fraction = 1.0 - beyond * at_risk as f64 / base as f64;
            steps.push(Step { ns, count, mass: fraction - before, fraction });
            before = fraction;
        }
        Survival { steps, known_to: if total == 0 { f64::NAN } else { before } }
    }

    /// The latency within which `quantile` (0 to 1) of the I/Os finish; `None` where it is beyond what is known.
    pub(crate) fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let at = self.steps.partition_point(|step| step.fraction < quantile - SAME_FRACTION);
        self.steps.get(at).map(|step| step.ns)
    }
}

/// Whether the latency within which `quantile` of the I/Os finish is known where `known_to` of the distribution is.
pub(crate) fn is_known(quantile: f64, known_to: f64) -> bool {
    known_to >= quantile - SAME_FRACTION
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn survival(finished: &[u64], waits: &[u64]) -> Survival {
        let mut sorted = finished.to_vec();
        sorted.sort_unstable();
        Survival::of(sorted.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u64)), waits.to_vec())
    }

    /// Efron's (1967) construction of the same estimate: each unfinished I/O hands its weight to those that last longer.
    fn redistributed(finished: &[u64], waits: &[u64]) -> Vec<(u64, f64)> {
        let mut all: Vec<(u64, bool)> = finished.iter().map(|ns| (*ns, false)).collect();
        all.extend(waits.iter().map(|ns| (*ns, true)));
        all.sort_unstable();
        let mut weights = vec![1.0 / all.len() as f64; all.len()];
        for i in 0..all.len() {
            let after = all.len() - i - 1;
            if all[i].1 && after > 0 {
                let each = std::mem::take(&mut weights[i]) / after as f64;
                weights[i + 1..].iter_mut().for_each(|weight| *weight += each);
            }
        }
        let mut fraction = 0.0;
        let mut steps: Vec<(u64, f64)> = Vec::new();
        for ((ns, _), weight) in all.iter().zip(weights).filter(|((_, waits), _)| !waits) {
            fraction += weight;
            match steps.last_mut() {
                Some(last) if last.0 == *ns => last.1 = fraction,
                _ => steps.push((*ns, fraction)),
            }
        }
        steps
    }

    #[test]
    fn the_textbook_example_of_remissions_in_leukaemia() {
        // Patients under 6-MP (Freireich et al. 1963), weeks; those of the second list were still in remission. The
        // estimates are those of any textbook of survival analysis.
        let ended = [6, 6, 6, 7, 10, 13, 16, 22, 23];
        let go_on = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35];
        let found = survival(&ended, &go_on);
        let expected =
            [(6, 0.857), (7, 0.807), (10, 0.753), (13, 0.690), (16, 0.627), (22, 0.538), (23, 0.448)].into_iter();
        assert_eq!(found.steps.len(), 7);
        for (step, (weeks, remain)) in found.steps.iter().zip(expected) {
            assert!(step.ns == weeks && (1.0 - step.fraction - remain).abs() < 5e-4, "{step:?}");
        }
        assert_eq!(found.quantile_ns(0.5), Some(23));
        assert_eq!(found.quantile_ns(0.6), None, "the longest waits are longer than every known time");
    }

    #[test]
    fn eleven_finished_do_not_hide_one_that_waits() {
        let found = survival(&[10; 11], &[1200]);
        assert_eq!((found.quantile_ns(0.5), found.quantile_ns(0.99)), (Some(10), None));
        assert!((found.known_to - 11.0 / 12.0).abs() < 1e-12);
        // One that was submitted just before the end says nothing about them.
        let found = survival(&[10; 11], &[2]);
        assert_eq!((found.quantile_ns(0.99), found.known_to), (Some(10), 1.0));
        assert!(survival(&[], &[]).known_to.is_nan());
        assert_eq!(survival(&[], &[5]).known_to, 0.0);
    }

    proptest! {
        #[test]
        fn the_estimate_is_that_of_redistributed_weights(
            finished in prop::collection::vec(0u64..40, 0..60),
            waits in prop::collection::vec(0u64..60, 0..30),
        ) {
            let found = survival(&finished, &waits);
            let expected = redistributed(&finished, &waits);
            prop_assert_eq!(found.steps.len(), expected.len());
            for (step, (ns, fraction)) in found.steps.iter().zip(expected) {
                prop_assert!(step.ns == ns && (step.fraction - fraction).abs() < 1e-9, "{:?} {} {}", step, ns, fraction);
            }
        }

        #[test]
        fn without_waits_quantiles_are_those_of_the_sorted_list(mut ns in prop::collection::vec(0u64..1000, 1..300)) {
            let found = survival(&ns, &[]);
            ns.sort_unstable();
            for percent in 1..=100usize {
                // By nearest rank, in integers.
                let rank = (percent * ns.len()).div_ceil(100).max(1);
                prop_assert_eq!(found.quantile_ns(percent as f64 / 100.0), Some(ns[rank - 1]));
            }
            prop_assert_eq!(found.known_to, 1.0);
        }
    }
}
