//! Minimum of a function of one variable.

/// Golden-section search in `low..=high` with this many evaluations; the function has one valley there.
pub(crate) fn least(low: f64, high: f64, evaluations: u32, mut cost: impl FnMut(f64) -> f64) -> f64 {
    const RATIO: f64 = 0.618_033_988_749_895;
    let (mut low, mut high) = (low, high.max(low));
    let mut left = high - RATIO * (high - low);
    let mut right = low + RATIO * (high - low);
    let (mut of_left, mut of_right) = (cost(left), cost(right));
    for _ in 2..evaluations {
        if of_left <= of_right {
            (high, right, of_right) = (right, left, of_left);
            left = high - RATIO * (high - low);
            of_left = cost(left);
        } else {
            (low, left, of_left) = (left, right, of_right);
            right = low + RATIO * (high - low);
            of_right = cost(right);
        }
    }
    if of_left <= of_right { left } else { right }
}

#[cfg(test)]
mod tests {
    use super::least;

    #[test]
    fn finds_the_bottom_of_a_valley() {
        let found = least(0.0, 10.0, 25, |x| (x - 3.7) * (x - 3.7));
        assert!((found - 3.7).abs() < 1e-3, "{found}");
    }
}
