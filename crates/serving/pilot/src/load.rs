//! Classification of a disk's load by the shipped classifier, with its confidence.

use std::collections::BTreeMap;

use dumbwaiter_block::{IoTag, Nanos, Op};
use dumbwaiter_learn::{Classifier, History, IssueOrder, Posterior, RequestRecord, shipped};
use dumbwaiter_linux::recording::{LiveEvent, LiveKind};

use crate::Error;

/// The classifier samples every fourth completion, at most this many in a period.
const STRIDE: u64 = 4;
const WINDOWS_MAX: usize = 256;
/// Fewest completions in a period for a classification.
const COMPLETIONS_MIN: u64 = 64;
/// Most requests between issue and completion that are tracked.
const OPEN_MAX: usize = 8192;
/// Workloads that look the same at the block layer form one class (the paper's merged classes).
const GROUPS: [(&str, &str); 6] = [
    ("readwhilewriting", "random-reads"),
    ("readrandomwriterandom", "random-reads"),
    ("readrandom", "random-reads"),
    ("mixgraph", "random-reads"),
    ("fillseq", "fill"),
    ("fill100k", "fill"),
];

/// The class of a load.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct LoadClass {
    /// Name, such as `random-reads`.
    pub name: String,
    /// Its probability, 0 to 1: the mean over the windows of the period.
    pub confidence: f32,
    /// Windows of 16 completions that were classified.
    pub windows: u32,
}

/// Classifies the load by its requests.
#[derive(Clone, Debug)]
pub(crate) struct LoadClassifier {
    classifier: Classifier,
    /// Group of each class.
    groups: Vec<String>,
    history: History,
    order: IssueOrder,
    /// Time of issue and distance from the previous request, by first sector and direction.
    open: BTreeMap<(u64, bool), (u64, i64)>,
    completions: u64,
    windows: Vec<Posterior>,
}

impl LoadClassifier {
    /// The shipped classifier.
    pub(crate) fn new() -> Result<LoadClassifier, Error> {
        let model =
            shipped::model("classifier").ok_or_else(|| Error::Refused("shipped:classifier is missing".into()))??;
        let classifier = model.classifier()?.filling_tags();
        let group = |class: &String| {
            GROUPS.iter().find(|(name, _)| name == class).map_or(class.clone(), |(_, group)| (*group).to_owned())
        };
        let groups = classifier.classes().iter().map(group).collect();
        Ok(LoadClassifier {
            classifier,
            groups,
            history: History::new(),
            order: IssueOrder::default(),
            open: BTreeMap::new(),
            completions: 0,
            windows: Vec::with_capacity(WINDOWS_MAX),
        })
    }

    /// Marks a gap in the events, which no window may span.
    pub(crate) fn gap(&mut self) {
        self.history.clear();
        self.open.clear();
        self.order = IssueOrder::default();
    }

    /// Discards this period, in which events were lost.
    pub(crate) fn discard(&mut self) {
        self.gap();
        (self.completions, self.windows) = (0, Vec::with_capacity(WINDOWS_MAX));
    }

    pub(crate) fn event(&mut self, event: &LiveEvent, tag: IoTag) {
        let write = event.op == Op::Write;
        if !write && event.op != Op::Read {
            return;
        }
        let key = (event.sector, write);
        match event.kind {
            LiveKind::Arrive => {}
            LiveKind::Issue => {
                if self.open.len() >= OPEN_MAX {
                    self.open.clear();
                }
                self.open.insert(key, (event.at_ns, self.order.delta(event.sector)));
                self.order.issued(event.sector, event.sector.saturating_add(u64::from(event.sectors)));
            }
            LiveKind::Complete => {
                let Some((issued, delta)) = self.open.remove(&key) else { return };
                let record = RequestRecord {
                    arrive: Nanos(issued),
                    issue: Nanos(issued),
                    complete: Nanos(event.at_ns),
                    op: event.op,
                    sector: event.sector,
                    bytes: event.sectors.saturating_mul(512),
                    tag,
                    depth: 0,
                };
                if self.history.push_record(&record, delta) {
                    self.completions += 1;
                    if self.completions.is_multiple_of(STRIDE) && self.windows.len() < WINDOWS_MAX {
                        self.windows.extend(self.classifier.posterior(&self.history));
                    }
                }
            }
        }
    }

    /// Ends the period and returns its class; `None` with too few requests.
    pub(crate) fn period(&mut self) -> Option<LoadClass> {
        let completions = std::mem::take(&mut self.completions);
        let mean = Posterior::mean(&self.windows);
        let windows = self.windows.len() as u32;
        self.windows.clear();
        let mean = mean.filter(|_| completions >= COMPLETIONS_MIN)?;
        let mut groups: BTreeMap<&str, f32> = BTreeMap::new();
        for (group, probability) in self.groups.iter().zip(mean.probabilities()) {
            *groups.entry(group).or_default() += probability;
        }
        let (name, confidence) = groups.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(LoadClass { name: name.to_owned(), confidence, windows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(load: &mut LoadClassifier, count: u64, sector: impl Fn(u64) -> u64) {
        for i in 0..count {
            for (kind, at_ns) in [(LiveKind::Issue, i * 200_000), (LiveKind::Complete, i * 200_000 + 100_000)] {
                let sector = sector(i);
                let event = LiveEvent { at_ns, kind, pid: 1, op: Op::Read, meta: false, sector, sectors: 8 };
                load.event(&event, IoTag::UNKNOWN);
            }
        }
    }

    #[test]
    fn a_period_with_few_requests_has_no_name_and_one_with_many_has() {
        let mut load = LoadClassifier::new().unwrap();
        feed(&mut load, 63, |i| i * 8);
        assert_eq!(load.period(), None);
        feed(&mut load, 2000, |i| i * 7919 % 104_729 * 512);
        let class = load.period().unwrap();
        assert!(class.windows > 200 && class.confidence > 0.0 && class.confidence <= 1.001, "{class:?}");
        assert_eq!(load.period(), None, "a period begins with nothing");
    }

    #[test]
    fn lost_events_leave_nothing_behind() {
        let mut load = LoadClassifier::new().unwrap();
        feed(&mut load, 500, |i| i * 8);
        load.discard();
        assert_eq!(load.period(), None);
    }
}
