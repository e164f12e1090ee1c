//! Comparing two orders of dispatch.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// How our order of dispatch compares with the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Requests that only the kernel dispatched.
    pub missing: u64,
    /// Dispatches of ours that the kernel did not make: of other requests, or of one for a second time.
    pub extra: u64,
    /// The order of those that both dispatched; `None` where there are none.
    pub order: Option<Order>,
}

/// How two orders of the same requests compare.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Order {
    /// Share of positions with the same request.
    pub identical_share: f64,
    /// Share of pairs in the other order: 0 the same, 1 reversed.
    pub kendall_tau_distance: f64,
    /// Mean distance in positions between a request's two places.
    pub mean_displacement: f64,
}

/// Compares our order with the kernel's: what only one of them holds is counted, the rest is compared by its order.
pub fn compare(kernel: &[u32], ours: &[u32]) -> Comparison {
    let wanted: BTreeSet<u32> = kernel.iter().copied().collect();
    let mut place = BTreeMap::new();
    for number in ours.iter().filter(|n| wanted.contains(n)) {
        let next = place.len();
        place.entry(*number).or_insert(next);
    }
    let places: Vec<usize> = kernel.iter().filter_map(|n| place.get(n).copied()).collect();
    Comparison {
        missing: (wanted.len() - place.len()) as u64,
        extra: (ours.len() - place.len()) as u64,
        order: order_of(&places),
    }
}

/// `places` are our positions of the shared requests, in the kernel's order.
fn order_of(places: &[usize]) -> Option<Order> {
    let n = places.len();
    if n == 0 {
        return None;
    }
    let same = places.iter().enumerate().filter(|(i, p)| i == *p).count();
    let displacement: usize = places.iter().enumerate().map(|(i, p)| i.abs_diff(*p)).sum();
    let pairs = n as f64 * (n as f64 - 1.0) / 2.0;
    Some(Order {
        identical_share: same as f64 / n as f64,
        kendall_tau_distance: if n > 1 { inversions(places) as f64 / pairs } else { 0.0 },
        mean_displacement: displacement as f64 / n as f64,
    })
}

/// Pairs out of order, by a Fenwick tree.
fn inversions(places: &[usize]) -> u64 {
    let mut tree = vec![0u64; places.len() + 1];
    let mut total = 0;
    for (done, place) in places.iter().enumerate() {
        let mut i = place + 1;
        let mut before = 0;
        while i > 0 {
            before += tree[i];
            i &= i - 1;
        }
        total += done as u64 - before;
        let mut i = place + 1;
        while i < tree.len() {
            tree[i] += 1;
            i += i & i.wrapping_neg();
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(kernel: &[u32], ours: &[u32]) -> Order {
        compare(kernel, ours).order.unwrap()
    }

    #[test]
    fn requests_that_only_one_order_holds_are_counted() {
        let counts = |kernel: &[u32], ours: &[u32]| {
            let found = compare(kernel, ours);
            (found.missing, found.extra)
        };
        assert_eq!(counts(&[1, 2, 3], &[3, 1, 2]), (0, 0));
        assert_eq!(counts(&[1, 2, 3], &[1]), (2, 0));
        assert_eq!(counts(&[1], &[2, 1, 3]), (0, 2));
        assert_eq!(counts(&[1, 2], &[1, 1, 2]), (0, 1), "a second dispatch of one request is one too many");
        assert_eq!(counts(&[1, 2], &[]), (2, 0));
    }

    #[test]
    fn orders_compare_as_defined() {
        let same = order(&[1, 2, 3], &[1, 2, 3]);
        assert_eq!((same.identical_share, same.kendall_tau_distance, same.mean_displacement), (1.0, 0.0, 0.0));
        let reversed = order(&[1, 2, 3], &[3, 2, 1]);
        assert_eq!(reversed.kendall_tau_distance, 1.0);
        assert!((reversed.mean_displacement - 4.0 / 3.0).abs() < 1e-12);
        let one = order(&[5, 6, 7, 8], &[6, 5, 9, 7, 8]);
        assert!((one.kendall_tau_distance - 1.0 / 6.0).abs() < 1e-12);
        assert_eq!(one.identical_share, 0.5);
        assert_eq!(compare(&[1], &[2]).order, None);
    }
}
