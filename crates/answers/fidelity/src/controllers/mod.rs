//! How controllers agree with recordings of the kernel's: each is fed what the kernel's received, and its verdicts are compared.

pub mod events;

mod io_max;
mod wbt;

pub use events::{Event, Events};

use std::path::Path;

use serde::Serialize;

use crate::recording::{self, Files, read_description};

/// The controller of which there is a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Write-back throttling.
    Wbt,
    /// Limits of groups.
    IoMax,
}

impl Recorded {
    /// The controller that a recording is of, by its description; `None` where it is of a scheduler.
    ///
    /// # Errors
    ///
    /// The description cannot be read.
    pub fn of(path: &Path) -> Result<Option<Recorded>, recording::Error> {
        let description = Files::of(path).description;
        let about: serde_json::Value = serde_json::from_slice(&read_description(&description)?)
            .map_err(|cause| recording::Error::Description { path: description, cause })?;
        let workload = about.get("workload").and_then(|workload| workload.as_str());
        Ok(match workload {
            Some("wbt") => Some(Recorded::Wbt),
            Some("io.max") => Some(Recorded::IoMax),
            _ => None,
        })
    }

    /// Replays a recording.
    ///
    /// # Errors
    ///
    /// It cannot be replayed; with the line.
    pub fn score(self, events: &Events) -> Result<ControllerScore, recording::Error> {
        match self {
            Recorded::Wbt => wbt::score(events),
            Recorded::IoMax => io_max::score(events),
        }
    }
}

/// The scores of one controller's recordings.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ControllerSummary {
    /// The controller.
    pub controller: &'static str,
    /// Its recordings.
    pub files: usize,
    /// Verdicts in all of them.
    pub verdicts: u64,
    /// Verdicts that ours decided alike.
    pub agreed: u64,
    /// The lowest of the recordings' shares; `null` without a verdict.
    pub worst: Option<f64>,
    /// Verdicts by kind.
    pub kinds: Vec<VerdictKind>,
}

impl ControllerSummary {
    /// One more recording.
    pub fn add(&mut self, score: &ControllerScore) {
        self.files += 1;
        for kind in &score.kinds {
            self.verdicts += kind.verdicts;
            self.agreed += kind.agreed;
            match self.kinds.iter_mut().find(|own| own.kind == kind.kind) {
                Some(own) => (own.verdicts, own.agreed) = (own.verdicts + kind.verdicts, own.agreed + kind.agreed),
                None => self.kinds.push(kind.clone()),
            }
        }
        self.worst = [self.worst, score.verdict_agreement].into_iter().flatten().reduce(f64::min);
    }
}

/// How our controller agrees with a recording. Each verdict counts once.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ControllerScore {
    /// Its name, such as `wbt`.
    pub controller: &'static str,
    /// What the kernel decided.
    pub verdicts: u64,
    /// Share of these that ours decided alike; `null` of none.
    pub verdict_agreement: Option<f64>,
    /// The same, by kind of verdict.
    pub kinds: Vec<VerdictKind>,
    /// The first verdict that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_difference: Option<Difference>,
}

/// Verdicts of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerdictKind {
    /// Such as `timer`, `step`, `cost`.
    pub kind: &'static str,
    /// Verdicts of the kernel.
    pub verdicts: u64,
    /// Those that ours made too.
    pub agreed: u64,
}

/// A verdict that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Line of the rows' file.
    pub line: u64,
    /// The kernel's verdict.
    pub kernel: String,
    /// Ours.
    pub ours: String,
}

impl ControllerScore {
    /// No verdicts yet, of these kinds.
    pub fn of(controller: &'static str, kinds: &[&'static str]) -> ControllerScore {
        let kinds = kinds.iter().map(|kind| VerdictKind { kind, verdicts: 0, agreed: 0 }).collect();
        ControllerScore { controller, kinds, ..ControllerScore::default() }
    }

    /// Counts a verdict of a kind that was named to [`ControllerScore::of`].
    pub fn count<T: PartialEq + std::fmt::Debug>(&mut self, kind: &'static str, line: u64, kernel: &T, ours: &T) {
        let agrees = kernel == ours;
        if let Some(of_kind) = self.kinds.iter_mut().find(|k| k.kind == kind) {
            of_kind.verdicts += 1;
            of_kind.agreed += u64::from(agrees);
        }
        if !agrees && self.first_difference.is_none() {
            let (kernel, ours) = (format!("{kind} {kernel:?}"), format!("{kind} {ours:?}"));
            self.first_difference = Some(Difference { line, kernel, ours });
        }
        self.verdicts = self.kinds.iter().map(|k| k.verdicts).sum();
        let agreed: u64 = self.kinds.iter().map(|k| k.agreed).sum();
        self.verdict_agreement = Some(agreed as f64 / self.verdicts.max(1) as f64);
    }
}
