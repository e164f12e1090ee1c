//! p values, intervals and corrections against an independent implementation: `reference/significance.py`, which made the
//! table.

use dumbwaiter_measure::{Sample, holm, paired, student_t, welch};

const TABLE: &str = include_str!("reference/significance.csv");

fn numbers(text: &str) -> Vec<f64> {
    text.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

/// Results are rounded to six digits.
fn assert_near(kind: &str, found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{kind}");
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= 2e-5 * expected.abs(), "{kind}: {found} for {expected}");
    }
}

#[test]
fn tests_and_intervals_agree_with_an_independent_implementation() {
    let mut rows = 0;
    for line in TABLE.lines().skip(1) {
        let [kind, a, b, expected] = line.split(',').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (a, b) = (numbers(a), numbers(b));
        let found = match kind {
            "welch" => vec![welch(&a, &b)],
            "student" => vec![student_t(&a, &b)],
            "paired" => vec![paired(&a, &b)],
            "interval" => Sample::of(&a).interval95().unwrap().to_vec(),
            "holm" => holm(&a),
            other => panic!("{other}"),
        };
        assert_near(kind, &found, &numbers(expected));
        rows += 1;
    }
    assert!(rows > 20, "{rows} rows");
}

#[test]
fn intervals_contain_the_mean_and_stay_above_zero() {
    for values in [[1.0, 2.0, 3.0].as_slice(), &[0.4, 30.0, 900.0], &[1e-9, 1.0], &[5.0, 5.0, 5.0]] {
        let sample = Sample::of(values);
        let [low, high] = sample.interval95().unwrap();
        assert!(low > 0.0 && low <= sample.mean && sample.mean <= high, "{low} {} {high}", sample.mean);
    }
    assert_eq!(Sample::of(&[0.0, 0.0]).interval95(), Some([0.0, 0.0]));
    assert_eq!(Sample::of(&[7.0]).interval95(), None);
}

#[test]
fn corrected_p_values_leave_out_what_was_not_tested() {
    let adjusted = holm(&[0.01, f64::NAN, 0.04]);
    assert!(adjusted[0] == 0.02 && adjusted[1].is_nan() && adjusted[2] == 0.04, "{adjusted:?}");
}
