//! The latency model of a disk: checked for drift against measured latencies, retrained in the background.

use std::thread::JoinHandle;

use dumbwaiter_block::{IoTag, Nanos, Op};
use dumbwaiter_learn::drift::{Reason, Verdict};
use dumbwaiter_learn::training::drift::{Challenger, DriftStep, ModelWatch, Notice, Tracker};
use dumbwaiter_learn::{Model, RequestRecord};
use dumbwaiter_linux::recording::{LiveEvent, LiveKind};
use serde::Serialize;

/// Statistics of a disk's latency model since the pilot began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ModelStatus {
    /// Its name in the configuration.
    pub model: String,
    /// Completed requests with a prediction.
    pub requests: u64,
    /// Detected changes of its errors.
    pub alarms: u64,
    /// Challengers that were trained.
    pub trained: u64,
    /// Challengers that replaced the model.
    pub published: u64,
    /// Replacements that were reverted.
    pub rolled_back: u64,
    /// The last event, as a sentence; none before the first.
    pub last: Option<String>,
}

type Training = JoinHandle<Result<Challenger, dumbwaiter_learn::training::Error>>;

/// The latency model of one disk.
#[derive(Debug)]
pub(crate) struct LatencyWatch {
    tracker: Tracker,
    watch: ModelWatch,
    training: Option<(Reason, Training)>,
    status: ModelStatus,
}

impl LatencyWatch {
    /// `model` is in use from `now` on.
    pub(crate) fn new(name: &str, model: Model, now: Nanos) -> Result<LatencyWatch, crate::Error> {
        let tracker = Tracker::new(&model)?;
        let status = ModelStatus { model: name.to_owned(), ..ModelStatus::default() };
        let watch = ModelWatch::new(model, now).map_err(|error| crate::Error::Refused(format!("{name}: {error}")))?;
        Ok(LatencyWatch { tracker, watch, training: None, status })
    }

    pub(crate) fn status(&self) -> &ModelStatus {
        &self.status
    }

    /// Some requests were not traced.
    pub(crate) fn gap(&mut self) {
        self.tracker.gap();
    }

    pub(crate) fn event(&mut self, event: &LiveEvent, tag: IoTag) {
        if !matches!(event.op, Op::Read | Op::Write) {
            return;
        }
        let at = Nanos(event.at_ns);
        match event.kind {
            LiveKind::Arrive => {}
            LiveKind::Issue => self.tracker.issue(&RequestRecord {
                arrive: at,
                issue: at,
                complete: at,
                op: event.op,
                sector: event.sector,
                bytes: event.sectors.saturating_mul(512),
                tag,
                depth: 0,
            }),
            LiveKind::Complete => {
                if let Some(outcome) = self.tracker.complete(event.op, event.sector, at) {
                    // The kernel's scheduler orders the queue; the model does not.
                    self.watch.complete(&outcome, None);
                    self.status.requests += 1;
                }
            }
        }
    }

    /// Ends a period. Returns an event of the model, with the new model if it was replaced.
    pub(crate) fn period(&mut self, now: Nanos) -> Option<(DriftStep, Option<&Model>)> {
        let step = match self.finished() {
            Some((reason, Ok(challenger))) => {
                let (rows, champion, judged) = (challenger.rows, challenger.champion, challenger.judged);
                let verdict = self.watch.conclude(now, Some(challenger));
                self.status.trained += 1;
                self.status.published += u64::from(verdict == Verdict::Publish);
                DriftStep::trained(reason, rows, [&champion, &judged], verdict)
            }
            Some((reason, Err(_))) => {
                self.watch.conclude(now, None);
                DriftStep::not_trained(reason)
            }
            None => match self.watch.review(now)? {
                Notice::Alarm(alarm) => {
                    self.status.alarms += 1;
                    DriftStep::alarm(alarm)
                }
                Notice::RolledBack => {
                    self.status.rolled_back += 1;
                    DriftStep::RolledBack
                }
                Notice::Train(reason) => {
                    let lesson = self.watch.lesson();
                    let train = move || {
                        // Lowest priority, if that is permitted.
                        let _ = rustix::process::setpriority_process(None, 19);
                        lesson.train()
                    };
                    match std::thread::Builder::new().name("train".to_owned()).spawn(train) {
                        Ok(training) => self.training = Some((reason, training)),
                        Err(_) => _ = self.watch.conclude(now, None),
                    }
                    return None;
                }
            },
        };
        self.status.last = Some(step.sentence());
        let replaced = matches!(step, DriftStep::RolledBack | DriftStep::Trained { published: true, .. });
        Some((step, replaced.then(|| self.watch.model())))
    }

    /// The challenger, once it is trained.
    fn finished(&mut self) -> Option<(Reason, Result<Challenger, dumbwaiter_learn::training::Error>)> {
        let (reason, training) = self.training.take_if(|(_, training)| training.is_finished())?;
        let died = || Err(dumbwaiter_learn::training::Error::Usage("the training thread ended early".to_owned()));
        Some((reason, training.join().unwrap_or_else(|_| died())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads and writes at queue depth 1, each with its latency in microseconds.
    fn serve(watch: &mut LatencyWatch, state: &mut u64, at_ns: &mut u64, us: [u64; 2]) {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let op = if *state >> 63 == 0 { Op::Read } else { Op::Write };
        let (sector, sectors) = ((*state >> 40) * 8, if *state >> 62 & 1 == 0 { 8 } else { 128 });
        let ns = us[usize::from(op == Op::Write)] * (800 + (*state >> 20) % 400) * (1 + u64::from(sectors) / 128);
        for (kind, after) in [(LiveKind::Issue, 50_000), (LiveKind::Complete, ns)] {
            *at_ns += after;
            let event = LiveEvent { at_ns: *at_ns, kind, pid: 1, op, meta: false, sector, sectors };
            watch.event(&event, IoTag::UNKNOWN);
        }
    }

    #[test]
    fn a_disk_that_changes_raises_an_alarm_once() {
        let model = dumbwaiter_learn::training::store::open("shipped:latency-flash").unwrap();
        let mut watch = LatencyWatch::new("shipped:latency-flash", model, Nanos::ZERO).unwrap();
        let (mut state, mut at_ns, mut steps) = (1, 0, Vec::new());
        for (count, us) in [(8_000, [100, 100]), (8_000, [100, 4_000])] {
            for i in 0..count {
                serve(&mut watch, &mut state, &mut at_ns, us);
                if i % 1_000 == 0 {
                    steps.extend(watch.period(Nanos(at_ns)).map(|(step, _)| step));
                }
            }
        }
        assert!(matches!(steps.first(), Some(DriftStep::Alarm { .. })), "{steps:?}");
        let alarms = steps.iter().filter(|step| matches!(step, DriftStep::Alarm { .. })).count();
        assert_eq!((alarms as u64, watch.status().requests > 15_000), (watch.status().alarms, true));
    }

    #[test]
    fn a_classifier_is_no_latency_model() {
        let model = dumbwaiter_learn::training::store::open("shipped:classifier").unwrap();
        assert!(LatencyWatch::new("shipped:classifier", model, Nanos::ZERO).is_err());
    }
}
