//! Verdicts of the kernel, and how many of them ours made too.

use serde::Serialize;

/// How our controller agrees with a recording. Each verdict counts once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ControllerScore {
    /// Its name, such as `wbt`.
    pub controller: &'static str,
    /// What the kernel decided.
    pub verdicts: u64,
    /// Share of these that ours decided alike, from 0 to 1; `null` of none.
    pub verdict_agreement: Option<f64>,
    /// The same, by kind of verdict.
    pub kinds: Vec<VerdictKind>,
    /// The first verdict that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_difference: Option<Difference>,
    /// The difference asked for.
    #[serde(skip)]
    pub explained: Option<Difference>,
}

/// Verdicts of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerdictKind {
    /// `timer` or `step` of wbt, `tick` or `order` of io.max.
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

/// Verdicts while they are counted.
pub(super) struct Tally {
    kinds: Vec<VerdictKind>,
    explain: Option<u64>,
    differences: u64,
    first: Option<Difference>,
    explained: Option<Difference>,
}

impl Tally {
    /// Of verdicts of these kinds. `explain`: the number of the difference (from 1) to keep.
    pub(super) fn of(kinds: &[&'static str], explain: Option<u64>) -> Tally {
        let kinds = kinds.iter().map(|kind| VerdictKind { kind, verdicts: 0, agreed: 0 }).collect();
        Tally { kinds, explain, differences: 0, first: None, explained: None }
    }

    /// Counts a verdict of a kind that was named to [`Tally::of`]. `said` puts it in words.
    pub(super) fn count<T: PartialEq>(
        &mut self,
        kind: &'static str,
        line: u64,
        kernel: T,
        ours: T,
        said: impl Fn(&T) -> String,
    ) {
        let agrees = kernel == ours;
        for of_kind in self.kinds.iter_mut().filter(|own| own.kind == kind) {
            of_kind.verdicts += 1;
            of_kind.agreed += u64::from(agrees);
        }
        if agrees {
            return;
        }
        self.differences += 1;
        let explained = self.explain == Some(self.differences);
        if self.first.is_none() || explained {
            let found = Difference { line, kernel: said(&kernel), ours: said(&ours) };
            self.first.get_or_insert_with(|| found.clone());
            self.explained = explained.then_some(found).or(self.explained.take());
        }
    }

    /// The score of this controller.
    pub(super) fn score(self, controller: &'static str) -> ControllerScore {
        let (verdicts, agreed) = sums(&self.kinds);
        ControllerScore {
            controller,
            verdicts,
            verdict_agreement: (verdicts > 0).then(|| agreed as f64 / verdicts as f64),
            kinds: self.kinds,
            first_difference: self.first,
            explained: self.explained,
        }
    }
}

/// Verdicts, and those that agree, of all kinds.
fn sums(kinds: &[VerdictKind]) -> (u64, u64) {
    kinds.iter().fold((0, 0), |(verdicts, agreed), kind| (verdicts + kind.verdicts, agreed + kind.agreed))
}

/// The scores of one controller's recordings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ControllerSummary {
    /// The controller.
    pub controller: &'static str,
    /// Its recordings.
    pub files: usize,
    /// Verdicts in all of them.
    pub verdicts: u64,
    /// Verdicts that ours decided alike.
    pub agreed: u64,
    /// The lowest of the recordings' shares, from 0 to 1; `null` without a verdict.
    pub worst: Option<f64>,
    /// Verdicts by kind.
    pub kinds: Vec<VerdictKind>,
}

/// Summaries by controller, in the order of their names.
pub fn controller_summary<'a>(scores: impl Iterator<Item = &'a ControllerScore>) -> Vec<ControllerSummary> {
    let mut scores: Vec<&ControllerScore> = scores.collect();
    scores.sort_by_key(|score| score.controller);
    scores.chunk_by(|a, b| a.controller == b.controller).map(summary_of).collect()
}

fn summary_of(scores: &[&ControllerScore]) -> ControllerSummary {
    let mut kinds = scores[0].kinds.clone();
    for other in scores[1..].iter().flat_map(|score| &score.kinds) {
        for own in kinds.iter_mut().filter(|own| own.kind == other.kind) {
            own.verdicts += other.verdicts;
            own.agreed += other.agreed;
        }
    }
    let (verdicts, agreed) = sums(&kinds);
    let worst = scores.iter().filter_map(|score| score.verdict_agreement).reduce(f64::min);
    ControllerSummary { controller: scores[0].controller, files: scores.len(), verdicts, agreed, worst, kinds }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored(controller: &'static str, pairs: &[(u32, u32)], explain: Option<u64>) -> ControllerScore {
        let mut tally = Tally::of(&["tick"], explain);
        for (line, (kernel, ours)) in pairs.iter().enumerate() {
            tally.count("tick", line as u64, *kernel, *ours, u32::to_string);
        }
        tally.score(controller)
    }

    #[test]
    fn a_verdict_that_differs_is_counted_and_the_one_asked_for_is_kept() {
        let score = scored("io.max", &[(1, 1), (2, 3), (4, 4), (5, 7)], Some(2));
        assert_eq!((score.verdicts, score.verdict_agreement), (4, Some(0.5)));
        let difference = |line, kernel: &str, ours: &str| Difference { line, kernel: kernel.into(), ours: ours.into() };
        assert_eq!(score.first_difference, Some(difference(1, "2", "3")));
        assert_eq!(score.explained, Some(difference(3, "5", "7")));
        assert_eq!(scored("io.max", &[(1, 2)], Some(2)).explained, None);
        assert_eq!(scored("io.max", &[], None).verdict_agreement, None);
    }

    #[test]
    fn summaries_add_up_by_controller() {
        let scores = [
            scored("wbt", &[(1, 1), (2, 2)], None),
            scored("io.max", &[(1, 2)], None),
            scored("wbt", &[], None),
            scored("wbt", &[(1, 1), (2, 0)], None),
        ];
        let found = controller_summary(scores.iter());
        assert_eq!((found[0].controller, found[0].files, found[0].worst), ("io.max", 1, Some(0.0)));
        assert_eq!((found[1].files, found[1].verdicts, found[1].agreed, found[1].worst), (3, 4, 3, Some(0.5)));
    }
}
