//! How controllers agree with recordings of the kernel's: each is fed what the kernel's received, and its verdicts are compared.

pub mod events;

pub use events::{Event, Events};

use serde::Serialize;

/// How our controller agrees with a recording. Each verdict counts once.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ControllerScore {
    /// `wbt`, `io.max` or `io.cost`.
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
