//! Adding replicates until the decision is settled.

use std::time::{Duration, Instant};

use dumbwaiter_advise::{Document, Sequential};
use dumbwaiter_measure::SIGNIFICANCE;

/// How often the results are looked at, at most: with 2, 4, 8, 16 times the first number of replicates.
const LOOKS_MAX: u32 = 5;

/// When a decision is settled: no other scheduler is better than the recommended one by more than a fraction, or there is no
/// difference larger than that.
///
/// The number of replicates doubles after each look. Each of the at most five looks may be wrong with a probability of 0.01, and
/// so all together with 0.05 (Bonferroni).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Until {
    /// The fraction, such as 0.05.
    pub within: f64,
    /// No further replicates are begun that would end later, judged by the time of those before.
    pub time_max: Duration,
}

impl Until {
    /// Reads `5%` or `0.05`.
    pub fn parse(text: &str, time_max: Duration) -> Result<Until, String> {
        let expected = || format!("`{text}` is not a difference; expected a percentage such as 5%, from 0.1% to 100%");
        let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
        let within = number.trim().parse::<f64>().map_err(|_| expected())? / unit;
        if (0.001..=1.0).contains(&within) { Ok(Until { within, time_max }) } else { Err(expected()) }
    }

    pub(crate) fn begin(self) -> Looks {
        Looks { until: self, began: Instant::now(), looks: 0 }
    }
}

/// The looks at one comparison.
pub(crate) struct Looks {
    until: Until,
    began: Instant,
    looks: u32,
}

impl Looks {
    /// Looks at the results of `replicates` runs of each scheduler.
    pub(crate) fn next(&mut self, document: &mut Document, replicates: u32) -> Look {
        self.looks += 1;
        let found = Sequential {
            within: self.until.within,
            looks: self.looks,
            error_per_look: SIGNIFICANCE / f64::from(LOOKS_MAX),
            settled: false,
        };
        document.until = Some(found.clone());
        document.decide();
        let settled = document.verdict.values().all(|verdict| verdict.is_settled(self.until.within));
        let found = Sequential { settled, ..found };
        // The next replicates are as many as all before them.
        let time = self.began.elapsed() * 2 <= self.until.time_max;
        let (next, note) = match (settled, self.looks < LOOKS_MAX, time) {
            (true, ..) => (None, None),
            (_, true, true) => (Some(replicates.saturating_mul(2).max(2)), None),
            (_, true, false) => (None, Some("more would take too long (--until-time)")),
            (_, false, _) => (None, Some("more are not made")),
        };
        let note = note.map(|why| format!("--until: not settled after {replicates} runs of each; {why}"));
        Look { next, found, note }
    }
}

/// The result of a look.
pub(crate) struct Look {
    /// Replicates of each scheduler to have next; `None` where these are enough, or no more can be made.
    pub(crate) next: Option<u32>,
    /// How sure it is so far.
    pub(crate) found: Sequential,
    /// Why it ended without being settled.
    pub(crate) note: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_a_percentage_or_a_fraction() {
        let read = |text| Until::parse(text, Duration::ZERO).map(|until| until.within);
        assert_eq!((read("5%"), read("0.05"), read("2.5 %")), (Ok(0.05), Ok(0.05), Ok(0.025)));
        for wrong in ["5", "0%", "-1%", "x", "", "nan", "200%"] {
            assert!(read(wrong).unwrap_err().contains("expected a percentage"), "{wrong}");
        }
    }
}
