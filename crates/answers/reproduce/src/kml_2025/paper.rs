//! The tables that the paper prints, and the arithmetic on them.

/// Workloads, in the order of figure 2.
pub(super) const WORKLOADS: [&str; 8] = [
    "readseq",
    "readreverse",
    "readwhilewriting",
    "readrandomwriterandom",
    "readrandom",
    "mixgraph",
    "fillseq",
    "fill100k",
];

/// Figure 2: rows predicted, columns true, per cent. Printed columns sum to 98 to 101.
pub(super) const CONFUSION: [[f64; 8]; 8] = [
    [83.0, 1.0, 2.0, 1.0, 1.0, 1.0, 6.0, 6.0],
    [1.0, 93.0, 2.0, 4.0, 1.0, 4.0, 0.0, 0.0],
    [2.0, 1.0, 28.0, 20.0, 22.0, 21.0, 0.0, 0.0],
    [1.0, 3.0, 22.0, 26.0, 26.0, 25.0, 0.0, 0.0],
    [1.0, 0.0, 22.0, 24.0, 27.0, 24.0, 0.0, 0.0],
    [1.0, 3.0, 22.0, 25.0, 24.0, 25.0, 0.0, 0.0],
    [5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 56.0, 28.0],
    [6.0, 0.0, 0.0, 0.0, 0.0, 0.0, 37.0, 65.0],
];

/// Schedulers of figure 4.
pub(super) const SCHEDULERS: [&str; 6] = ["BFQ", "MQ-Deadline", "Kyber", "Deadline", "Noop", "CFQ"];

/// Figure 4: operations per second of the first six workloads under each scheduler, and the adaptive column as printed.
pub(super) const THROUGHPUT: [([f64; 6], f64); 6] = [
    ([2713.0, 2842.0, 2606.0, 3598.0, 3536.0, 3505.0], 3583.0),
    ([339.0, 332.0, 326.0, 413.0, 420.0, 404.0], 419.0),
    ([539.0, 517.0, 490.0, 518.0, 548.0, 535.0], 534.0),
    ([84.1, 85.0, 82.3, 89.7, 87.8, 87.7], 88.8),
    ([214.0, 219.0, 218.0, 256.0, 250.0, 247.0], 253.0),
    ([233.0, 231.0, 234.0, 250.0, 258.0, 251.0], 254.0),
];

/// Classes that count as one: none, the four random loads, and also the two fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Merged {
    None,
    A,
    B,
}

fn class(workload: usize, merged: Merged) -> usize {
    match (workload, merged) {
        (2..=5, Merged::A | Merged::B) => 2,
        (6 | 7, Merged::B) => 6,
        _ => workload,
    }
}

/// Accuracy in per cent: the mean over true workloads of the share that is predicted as its class.
pub(super) fn accuracy(merged: Merged) -> f64 {
    let of_column = |column: usize| {
        let all: f64 = CONFUSION.iter().map(|row| row[column]).sum();
        let right: f64 =
            (0..8).filter(|row| class(*row, merged) == class(column, merged)).map(|row| CONFUSION[row][column]).sum();
        right / all
    };
    100.0 * (0..8).map(of_column).sum::<f64>() / 8.0
}

fn best(values: &[f64; 6]) -> usize {
    (0..6).fold(0, |best, i| if values[i] > values[best] { i } else { best })
}

/// The paper's adaptive throughput of a workload: over what it is taken for, that of the scheduler which is best there.
pub(super) fn adaptive(workload: usize) -> f64 {
    let all: f64 = (0..6).map(|predicted| CONFUSION[predicted][workload]).sum();
    let of = |predicted: usize| {
        let chosen = best(&THROUGHPUT[predicted].0);
        CONFUSION[predicted][workload] / all * THROUGHPUT[workload].0[chosen]
    };
    (0..6).map(of).sum()
}

/// Mean over the workloads of the advantage over the mean of all schedulers, per cent.
pub(super) fn over_mean(throughput: impl Fn(usize) -> f64) -> f64 {
    let advantage = |workload: usize| {
        let mean = THROUGHPUT[workload].0.iter().sum::<f64>() / 6.0;
        throughput(workload) / mean - 1.0
    };
    100.0 * (0..6).map(advantage).sum::<f64>() / 6.0
}

/// Throughput of the best scheduler of a workload.
pub(super) fn oracle(workload: usize) -> f64 {
    THROUGHPUT[workload].0[best(&THROUGHPUT[workload].0)]
}

/// Change of the mean latency of a burst of `n`, `m` of them free and the rest of one length, from random to perfect order, per
/// cent.
pub(super) fn burst_change(n: f64, m: f64) -> f64 {
    -100.0 * m / (n + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_2_gives_the_accuracies_of_the_specification() {
        for (merged, expected) in [(Merged::None, 50.5), (Merged::A, 85.2), (Merged::B, 93.4)] {
            let ours = accuracy(merged);
            assert!((ours - expected).abs() <= 0.1, "{merged:?}: {ours}");
        }
    }

    #[test]
    fn the_formula_gives_the_adaptive_column_within_half_a_percent() {
        for (workload, (_, printed)) in THROUGHPUT.iter().enumerate() {
            let ours = adaptive(workload);
            assert!((ours / printed - 1.0).abs() <= 0.005, "{}: {ours}", WORKLOADS[workload]);
        }
        let gain = over_mean(adaptive);
        assert!((gain - 7.5).abs() < 0.1, "{gain}");
    }

    #[test]
    fn always_noop_scores_as_much_as_adaptive() {
        assert!((over_mean(|w| THROUGHPUT[w].0[4]) - 7.5).abs() < 0.1);
        assert!((over_mean(|w| THROUGHPUT[w].0[3]) - 6.8).abs() < 0.1);
        assert!((over_mean(oracle) - 8.7).abs() < 0.1);
    }

    /// Shuffles a burst many times and compares its order of arrival with the shortest first.
    #[test]
    fn the_closed_form_of_a_burst_is_that_of_a_shuffled_one() {
        let mut state = 1u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for m in [25u32, 44, 75] {
            let (mut in_turn, mut shortest) = (0u64, 0u64);
            for _ in 0..2000 {
                let mut lengths: Vec<u64> = (0..100).map(|i| u64::from(i >= m)).collect();
                let sum = |lengths: &[u64]| {
                    lengths
                        .iter()
                        .scan(0, |end, length| {
                            *end += length;
                            Some(*end)
                        })
                        .sum::<u64>()
                };
                shortest += sum(&lengths);
                for i in (1..100).rev() {
                    lengths.swap(i, draw(i as u64 + 1) as usize);
                }
                in_turn += sum(&lengths);
            }
            let change = 100.0 * (shortest as f64 / in_turn as f64 - 1.0);
            assert!((change - burst_change(100.0, m.into())).abs() < 0.5, "{m}: {change}");
        }
    }
}
