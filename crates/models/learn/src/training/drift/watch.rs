//! Review of the model in use on one device: alarm, replacement, reversal.

use crate::drift::{Alarm, Detector, Judgement, Reason, Reservoir, Succession, Verdict, stratum_of};
use crate::{Model, Weights};
use dumbwaiter_block::Nanos;

use super::lesson::{Challenger, Lesson};
use super::sample::{Sample, Serving};
use super::tracker::Outcome;
use crate::training::Error;

/// Fewest samples for training.
const SAMPLES_MIN: usize = 2_048;
/// Waits over which the p99 is taken, and the fewest for it.
const WAITS: usize = 1_024;
const WAITS_MIN: usize = 256;
/// p99 waits shorter than this count as equal.
const WAIT_MIN: Nanos = Nanos::from_us(100);

/// Result of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The errors of the model in use have changed.
    Alarm(Alarm),
    /// A challenger should be trained: [`ModelWatch::lesson`], then [`ModelWatch::conclude`].
    Train(Reason),
    /// The previous model was better: it is used again.
    RolledBack,
}

/// Reviews the latency model in use on one device.
#[derive(Clone, Debug)]
pub struct ModelWatch {
    serving: Serving,
    /// The previous model, while the one in use is on probation.
    before: Option<Serving>,
    detector: Detector,
    reservoir: Reservoir<Sample>,
    succession: Succession,
    /// The last waits, a ring.
    waits: Vec<Nanos>,
    next_wait: usize,
    sequence: u64,
    /// The alarm since the first use of the model.
    alarm: Option<Alarm>,
    is_training: bool,
}

impl ModelWatch {
    /// `model` is in use from `now` on.
    ///
    /// # Errors
    ///
    /// A model that predicts no latency.
    pub fn new(model: Model, now: Nanos) -> Result<ModelWatch, Error> {
        let serving = Serving::new(model).map_err(|error| Error::Model { name: "the model".to_owned(), error })?;
        Ok(ModelWatch {
            serving,
            before: None,
            detector: Detector::new(0.0),
            reservoir: Reservoir::new(Reservoir::<Sample>::CAPACITY, 1),
            succession: Succession::new(now),
            waits: Vec::with_capacity(WAITS),
            next_wait: 0,
            sequence: 0,
            alarm: None,
            is_training: false,
        })
    }

    /// The model in use.
    pub fn model(&self) -> &Model {
        &self.serving.model
    }

    /// Requests that completed since the beginning.
    pub fn completions(&self) -> u64 {
        self.sequence
    }

    /// Notes a completed request. `wait`: its time before the device, if the model in use orders the queue; otherwise waits do not
    /// judge the model.
    pub fn complete(&mut self, outcome: &Outcome, wait: Option<Nanos>) {
        let Outcome { op, bytes, row, normal, latency } = *outcome;
        let sample = Sample { sequence: self.sequence, op, row, normal, ln_us: crate::ln_us(latency) };
        self.sequence += 1;
        let predicted = self.serving.predict(&sample.row, sample.normal);
        self.detector.push(libm::exp(f64::from(sample.ln_us)), libm::exp(f64::from(predicted)));
        self.reservoir.push(stratum_of(op, bytes), sample);
        if let Some(wait) = wait {
            if self.waits.len() < WAITS {
                self.waits.push(wait);
            } else {
                self.waits[self.next_wait] = wait;
                self.next_wait = (self.next_wait + 1) % WAITS;
            }
        }
    }

    /// Looks for drift. Call it every few hundred completions; it may sort some thousand numbers.
    pub fn review(&mut self, now: Nanos) -> Option<Notice> {
        let found = self.detector.check();
        if self.succession.on_probation() && self.succession.roll_back(now, found.is_some(), self.p99_wait()) {
            if let Some(before) = self.before.take() {
                self.serving = before;
            }
            self.begin_again(Detector::new(0.0));
            return Some(Notice::RolledBack);
        }
        if self.alarm.is_none()
            && let Some(alarm) = found
        {
            self.alarm = Some(alarm);
            return Some(Notice::Alarm(alarm));
        }
        if self.is_training || self.reservoir.len() < SAMPLES_MIN || !self.can_be_trained() {
            return None;
        }
        let reason = self.succession.train(now, self.reservoir.pushed(), self.alarm.is_some())?;
        self.is_training = true;
        Some(Notice::Train(reason))
    }

    /// Whether the model can be retrained: networks can, trees cannot.
    pub fn can_be_trained(&self) -> bool {
        matches!(self.serving.model.weights, Weights::Dense { .. })
    }

    /// The samples for a challenger: a copy, so that it can be trained on another thread.
    pub fn lesson(&self) -> Lesson {
        Lesson::new(self.serving.clone(), self.reservoir.recent().chain(self.reservoir.sampled()))
    }

    /// A challenger was trained, or could not be. Returns whether it is used from now on.
    pub fn conclude(&mut self, now: Nanos, challenger: Option<Challenger>) -> Verdict {
        let none = Judgement { pair_order: 0.0, error: [None, None] };
        let (champion, judged) = challenger.as_ref().map_or((none, none), |c| (c.champion, c.judged));
        let wait = self.p99_wait();
        let verdict = self.succession.judge(now, self.reservoir.pushed(), &champion, &judged, wait);
        self.is_training = false;
        match challenger.filter(|_| verdict == Verdict::Publish) {
            Some(challenger) => {
                self.before = Some(std::mem::replace(&mut self.serving, challenger.serving));
                self.begin_again(Detector::with_reference(&challenger.errors));
            }
            // No better model is possible now: its errors from here on are the new reference.
            None => self.begin_again(Detector::new(0.0)),
        }
        verdict
    }

    fn begin_again(&mut self, detector: Detector) {
        (self.detector, self.alarm) = (detector, None);
        self.waits.clear();
        self.next_wait = 0;
    }

    /// Nanoseconds; NaN without enough waits.
    fn p99_wait(&self) -> f64 {
        if self.waits.len() < WAITS_MIN {
            return f64::NAN;
        }
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        waits[waits.len() * 99 / 100].max(WAIT_MIN).0 as f64
    }
}
