//! Replacement of a model: when to train a challenger, when it replaces the champion, and when to revert.

use dumbwaiter_block::Nanos;

/// A model is trained again after this long, if there are enough new rows.
const RETRAIN_AFTER: Nanos = Nanos::from_secs(6 * 3600);
const NEW_ROWS_MIN: u64 = 4_096;
/// The challenger must order this many more pairs correctly.
const PAIR_ORDER_GAIN: f64 = 0.005;
/// No operation's error may grow by more than this share.
const ERROR_LOSS: f64 = 0.02;
/// Wait after a challenger that was not better; it doubles up to the longest.
const BACK_OFF: [Nanos; 2] = [Nanos::from_secs(3600), Nanos::from_secs(4 * 3600)];
/// A new model is on probation for this long.
const PROBATION: Nanos = Nanos::from_secs(600);
/// Growth of the p99 wait that reverts a new model.
const WAIT_LOSS: f64 = 0.2;

/// Quality of a model on the newest fifth of the samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// Share of pairs of requests in the right order.
    pub pair_order: f64,
    /// Mean `|ln(latency / predicted)|` of reads and of writes; `None` without any.
    pub error: [Option<f64>; 2],
}

/// Verdict on a challenger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is used from now on; the champion is kept for a reversal.
    Publish,
    /// It is dropped.
    Keep,
}

/// Why a challenger should be trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A detector raised an alarm.
    Drift,
    /// The model is old, and there are enough new samples.
    Age,
}

#[derive(Clone, Copy, Debug)]
struct Probation {
    until: Nanos,
    wait_before: f64,
}

/// The state of one device's model.
#[derive(Clone, Debug)]
pub struct Succession {
    trained: Nanos,
    rows_then: u64,
    not_before: Nanos,
    back_off: Nanos,
    probation: Option<Probation>,
}

impl Succession {
    /// A model is in use from `now` on.
    pub fn new(now: Nanos) -> Succession {
        Succession { trained: now, rows_then: 0, not_before: now, back_off: BACK_OFF[0], probation: None }
    }

    /// Whether and why to train a challenger. `rows`: samples taken since the start; `drift`: a detector has raised an alarm.
    pub fn train(&self, now: Nanos, rows: u64, drift: bool) -> Option<Reason> {
        if now < self.not_before || self.probation.is_some() {
            return None;
        }
        if drift {
            return Some(Reason::Drift);
        }
        let old = now.since(self.trained) >= RETRAIN_AFTER;
        (old && rows.saturating_sub(self.rows_then) >= NEW_ROWS_MIN).then_some(Reason::Age)
    }

    /// Decides on a trained challenger. `p99_wait` is the wait under the champion, in any unit.
    pub fn judge(
        &mut self,
        now: Nanos,
        rows: u64,
        champion: &Judgement,
        challenger: &Judgement,
        p99_wait: f64,
    ) -> Verdict {
        (self.trained, self.rows_then) = (now, rows);
        // NaN fails the comparison.
        let orders_better = challenger.pair_order >= champion.pair_order + PAIR_ORDER_GAIN;
        let as_exact = champion.error.iter().zip(&challenger.error).all(|errors| match errors {
            (Some(champion), Some(challenger)) => *challenger <= champion * (1.0 + ERROR_LOSS),
            (Some(_), None) => false,
            (None, _) => true,
        });
        if orders_better && as_exact {
            self.back_off = BACK_OFF[0];
            self.probation = Some(Probation { until: now + PROBATION, wait_before: p99_wait });
            return Verdict::Publish;
        }
        self.wait(now);
        Verdict::Keep
    }

    /// Whether to revert to the previous champion, while a new model is on probation: `drift` as above, `p99_wait` since
    /// its first use.
    pub fn roll_back(&mut self, now: Nanos, drift: bool, p99_wait: f64) -> bool {
        let Some(probation) = self.probation else { return false };
        let waits_longer = p99_wait > probation.wait_before * (1.0 + WAIT_LOSS);
        if drift || waits_longer {
            self.probation = None;
            self.wait(now);
            return true;
        }
        if now >= probation.until {
            self.probation = None;
        }
        false
    }

    /// Whether a new model is on probation.
    pub fn on_probation(&self) -> bool {
        self.probation.is_some()
    }

    fn wait(&mut self, now: Nanos) {
        self.not_before = now + self.back_off;
        self.back_off = Nanos((2 * self.back_off.0).min(BACK_OFF[1].0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Nanos = Nanos::from_secs(3600);

    fn quality(pair_order: f64, read: f64, write: f64) -> Judgement {
        Judgement { pair_order, error: [Some(read), Some(write)] }
    }

    #[test]
    fn a_challenger_is_trained_for_drift_or_age_with_new_rows() {
        let succession = Succession::new(Nanos::ZERO);
        assert_eq!(succession.train(HOUR, 100_000, false), None);
        assert_eq!(succession.train(HOUR, 0, true), Some(Reason::Drift));
        assert_eq!(succession.train(Nanos(6 * HOUR.0), 4_000, false), None);
        assert_eq!(succession.train(Nanos(6 * HOUR.0), 5_000, false), Some(Reason::Age));
    }

    #[test]
    fn only_a_better_challenger_takes_over_and_others_back_off() {
        let champion = quality(0.70, 0.30, 0.50);
        for worse in [
            quality(0.704, 0.1, 0.1),
            quality(0.9, 0.31, 0.1),
            quality(f64::NAN, 0.1, 0.1),
            Judgement { error: [Some(0.1), None], ..quality(0.9, 0.1, 0.1) },
        ] {
            let mut succession = Succession::new(Nanos::ZERO);
            assert_eq!(succession.judge(Nanos::ZERO, 0, &champion, &worse, 1.0), Verdict::Keep, "{worse:?}");
        }
        let mut succession = Succession::new(Nanos::ZERO);
        let mut now = Nanos::ZERO;
        for hours in [1, 2, 4, 4] {
            assert_eq!(succession.judge(now, 0, &champion, &champion, 1.0), Verdict::Keep);
            let wait = Nanos(hours * HOUR.0);
            assert_eq!(succession.train(now + Nanos(wait.0 - 1), 0, true), None);
            now += wait;
            assert_eq!(succession.train(now, 0, true), Some(Reason::Drift));
        }
        assert_eq!(succession.judge(now, 0, &champion, &quality(0.71, 0.3, 0.5), 1.0), Verdict::Publish);
    }

    #[test]
    fn a_new_model_that_drifts_or_makes_requests_wait_goes_again() {
        let publish = || {
            let mut succession = Succession::new(Nanos::ZERO);
            let verdict = succession.judge(Nanos::ZERO, 0, &quality(0.6, 1.0, 1.0), &quality(0.8, 0.5, 0.5), 10.0);
            assert_eq!((verdict, succession.on_probation()), (Verdict::Publish, true));
            succession
        };
        let minute = Nanos::from_secs(60);
        assert!(publish().roll_back(minute, true, 10.0));
        assert!(publish().roll_back(minute, false, 12.1));
        let mut sound = publish();
        assert!(!sound.roll_back(minute, false, 11.9) && sound.on_probation());
        assert!(!sound.roll_back(PROBATION, false, 10.0) && !sound.on_probation());
        assert!(!sound.roll_back(HOUR, true, 99.0), "not on probation any more");
        let mut back = publish();
        assert!(back.roll_back(minute, true, 1.0) && !back.roll_back(minute, true, 1.0));
        assert_eq!(back.train(minute + minute, 0, true), None, "it waits first");
    }
}
