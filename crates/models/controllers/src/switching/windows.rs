//! A classifier's windows over the last completions.

use std::sync::Arc;

use dumbwaiter_block::{IoTag, Nanos, Op};
use dumbwaiter_learn::{Classifier, HISTORY, History, Posterior, RequestVector};

/// Completions between two windows of the classifier.
const STRIDE: usize = 4;
/// New completions before the next reading.
const NEW_MIN: usize = 16;
/// Completions kept: at most 16 windows are classified at a time.
const KEPT: usize = HISTORY + 15 * STRIDE;

/// A completed read or write.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// Read or write; others are left out.
    pub op: Op,
    /// Length in bytes.
    pub bytes: u32,
    /// Sectors from the start of the previously sent request to its own.
    pub delta: i64,
    /// Time in the device.
    pub latency: Nanos,
    /// The kind of data in the file system.
    pub tag: IoTag,
}

/// The last completions of a device under one scheduler. One completion costs a copy; networks run only when it is read.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    classifier: Arc<Classifier>,
    kept: Vec<Completion>,
    /// Index of the oldest one, once there are [`KEPT`].
    oldest: usize,
    /// Since the last reading.
    new: usize,
}

impl Windows {
    pub(crate) fn new(classifier: Arc<Classifier>) -> Windows {
        Windows { classifier, kept: Vec::with_capacity(KEPT), oldest: 0, new: 0 }
    }

    pub(crate) fn push(&mut self, completion: Completion) {
        if !matches!(completion.op, Op::Read | Op::Write) {
            return;
        }
        self.new += 1;
        if self.kept.len() < KEPT {
            self.kept.push(completion);
        } else {
            self.kept[self.oldest] = completion;
            self.oldest = (self.oldest + 1) % KEPT;
        }
    }

    /// Clears all, after an exchange: another scheduler completes requests in another order.
    pub(crate) fn clear(&mut self) {
        self.kept.clear();
        (self.oldest, self.new) = (0, 0);
    }

    /// The mean posterior over the windows that have ended since the last reading; `None` after too few completions.
    pub(crate) fn read(&mut self) -> Option<Posterior> {
        if self.new < NEW_MIN {
            return None;
        }
        // The windows end with new completions; the first of them may begin with older ones.
        let wanted = (self.new + HISTORY - 1).min(self.kept.len());
        self.new = 0;
        let mut history = History::new();
        let mut posteriors = [Posterior::uniform(1); KEPT / STRIDE];
        let mut count = 0;
        for i in self.kept.len() - wanted..self.kept.len() {
            let at = (self.oldest + i) % self.kept.len();
            let Completion { op, bytes, delta, latency, tag } = self.kept[at];
            history.push(RequestVector::new(op, bytes, tag), delta, latency);
            let ends_window = (self.kept.len() - 1 - i).is_multiple_of(STRIDE);
            if ends_window && let Some(posterior) = self.classifier.posterior(&history) {
                posteriors[count] = posterior;
                count += 1;
            }
        }
        Posterior::mean(&posteriors[..count])
    }
}

#[cfg(test)]
mod tests {
    use dumbwaiter_learn::shipped;

    use super::*;

    fn windows() -> Windows {
        Windows::new(Arc::new(shipped::model("classifier").unwrap().unwrap().classifier().unwrap()))
    }

    fn completion(delta: i64) -> Completion {
        Completion { op: Op::Read, bytes: 65_536, delta, latency: Nanos::from_us(100), tag: IoTag::UNKNOWN }
    }

    #[test]
    fn a_reading_needs_new_completions_and_is_a_distribution() {
        let mut windows = windows();
        (0..15).for_each(|_| windows.push(completion(128)));
        assert_eq!(windows.read(), None);
        windows.push(completion(128));
        let posterior = windows.read().unwrap();
        assert!((posterior.probabilities().iter().sum::<f32>() - 1.0).abs() < 1e-3);
        assert_eq!(windows.read(), None, "nothing new");
    }

    #[test]
    fn what_happened_before_the_last_windows_does_not_count() {
        let (mut long, mut short) = (windows(), windows());
        (0..1000).for_each(|i| long.push(completion(i * 7919 - 3_000_000)));
        for i in 0..KEPT {
            long.push(completion(128));
            short.push(completion(128));
            if i % 40 == 0 {
                short.clear();
                (0..=i).for_each(|_| short.push(completion(128)));
            }
        }
        assert_eq!(long.read(), short.read());
        long.clear();
        long.push(Completion { op: Op::Flush, ..completion(0) });
        assert_eq!(long.read(), None);
    }
}
