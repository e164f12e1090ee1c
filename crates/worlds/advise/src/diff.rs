//! Differences between two comparisons: before and after a new kernel, or two drives.

use dumbwaiter_measure::{RunResult, SIGNIFICANCE};
use serde::Serialize;

use crate::bounds::{Error, worse_than};
use crate::document::Document;
use crate::figures::{by_seed, figures};
use crate::focus::Focus;
use crate::metric::Metric;
use crate::provenance::Provenance;
use crate::ranking::Ranking;
use crate::row::{Axes, RankingRow};
use crate::sentence::signed;

/// Version of the JSON format of a [`Diff`].
pub const DIFF_SCHEMA: u64 = 1;

/// How the second result compares with the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Better by a useful amount, and not by chance.
    Better,
    /// Worse by a useful amount, and not by chance.
    Worse,
    /// The difference is at most 3 %, and surely at most 25 %.
    NoDifference,
    /// The runs cannot show it.
    Inconclusive,
}

impl Change {
    /// The word for people.
    pub fn name(self) -> &'static str {
        match self {
            Change::Better => "better",
            Change::Worse => "worse",
            Change::NoDifference => "no difference",
            Change::Inconclusive => "inconclusive",
        }
    }
}

/// One figure of one scheduler in both results.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// Device of the first result.
    pub device_a: String,
    /// Device of the second.
    pub device_b: String,
    /// The variant of the scenario; empty if it has none.
    pub variant: String,
    /// The scheduler.
    pub scheduler: String,
    /// Its completion method.
    pub completion: String,
    /// Its block layer.
    pub via: String,
    /// [`Metric::key`].
    pub metric: String,
    /// It is the figure that decided in the first result.
    pub decides: bool,
    /// Mean in the first result, in the metric's unit; infinite (`null`) where a run starved.
    pub a: f64,
    /// Mean in the second.
    pub b: f64,
    /// `b` over `a`, less 1; of percentages and shares `b` less `a`. Not finite (`null`) where one of them starved.
    pub effect: f64,
    /// 95 % confidence interval of `effect`, for all schedulers of a device together; `null` for single runs, and where one starved.
    pub ci95: Option<[f64; 2]>,
    /// The conclusion from it.
    pub verdict: Change,
}

/// The differences between two results.
#[derive(Clone, Debug, Serialize)]
pub struct Diff {
    /// [`DIFF_SCHEMA`].
    pub schema: u64,
    /// Where the first result comes from.
    pub a: Provenance,
    /// Where the second comes from.
    pub b: Provenance,
    /// A sentence for each scheduler, by the figure that decides.
    pub summary: Vec<String>,
    /// Every figure of every scheduler that both have.
    pub differences: Vec<Difference>,
    /// Runs that only one of them has, and other remarks.
    pub notes: Vec<String>,
}

/// Compares two results scheduler by scheduler. Devices of the same name are compared; where each result has one device, those
/// are, whatever their names.
pub fn diff(a: &Document, b: &Document) -> Diff {
    let (of_a, of_b) = (a.rankings(), b.rankings());
    let mut found = Diff {
        schema: DIFF_SCHEMA,
        a: a.provenance.clone(),
        b: b.provenance.clone(),
        summary: Vec::new(),
        differences: Vec::new(),
        notes: Vec::new(),
    };
    let single = |rankings: &[Ranking]| rankings.iter().all(|r| r.device == rankings[0].device);
    let any_device = single(&of_a) && single(&of_b);
    for ranking in &of_a {
        let same =
            |other: &&Ranking| other.variant == ranking.variant && (any_device || other.device == ranking.device);
        match of_b.iter().find(same) {
            Some(other) => found.compare((a, ranking), (b, other)),
            None => found.notes.push(format!("only in the first result: {}", ranking.device)),
        }
    }
    let paired =
        |other: &Ranking| of_a.iter().any(|r| r.variant == other.variant && (any_device || r.device == other.device));
    let alone = of_b.iter().filter(|other| !paired(other));
    found.notes.extend(alone.map(|other| format!("only in the second result: {}", other.device)));
    if a.scenario != b.scenario {
        found.notes.push("the scenarios differ, so that a difference may be that of the loads".to_owned());
    }
    found
}

impl Diff {
    fn compare(&mut self, a: (&Document, &Ranking), b: (&Document, &Ranking)) {
        let ((_, first), (_, second)) = (a, b);
        let same = |row: &RankingRow, other: &RankingRow| {
            (&row.scheduler, &row.via, &row.completion) == (&other.scheduler, &other.via, &other.completion)
        };
        let pairs: Vec<(&RankingRow, &RankingRow)> = first
            .rows
            .iter()
            .filter_map(|row| Some((row, second.rows.iter().find(|other| same(row, other))?)))
            .collect();
        for row in &first.rows {
            if !second.rows.iter().any(|other| same(row, other)) {
                self.notes.push(format!("only in the first result: {}", row.scheduler));
            }
        }
        for row in &second.rows {
            if !first.rows.iter().any(|other| same(other, row)) {
                self.notes.push(format!("only in the second result: {}", row.scheduler));
            }
        }
        // All schedulers together.
        let error = SIGNIFICANCE / 2.0 / pairs.len().max(1) as f64;
        for (row, other) in pairs {
            for metric in Metric::ALL {
                let difference = one(metric, (a, row), (b, other), error);
                let Some(difference) = difference else { continue };
                if difference.decides {
                    self.summary.push(sentence(metric, first, row, &difference));
                }
                self.differences.push(difference);
            }
        }
    }
}

/// The runs of a row.
fn runs<'a>(document: &'a Document, row: &RankingRow) -> Vec<&'a RunResult> {
    let here = |run: &&RunResult| {
        (&run.device, &run.variant) == (&row.device, &row.variant)
            && run.configuration() == (&row.scheduler, &row.via, &row.completion)
    };
    document.runs.iter().filter(here).collect()
}

fn one(
    metric: Metric,
    ((doc_a, ranking), row_a): ((&Document, &Ranking), &RankingRow),
    ((doc_b, _), row_b): ((&Document, &Ranking), &RankingRow),
    error: f64,
) -> Option<Difference> {
    let focus: &Focus = &ranking.focus;
    let groups = [runs(doc_a, row_a), runs(doc_b, row_b)];
    // Both by the focus of the first.
    let of = figures(metric, &groups, focus);
    let mean = |i: usize| of[i].iter().map(|f| f.value).sum::<f64>() / of[i].len() as f64;
    let is_lower_bound = |i: usize| of[i].iter().any(|f| f.value.is_finite() && !f.known);
    let (a, b) = (mean(0), mean(1));
    // Nothing, or starved in both.
    if a.is_nan() || b.is_nan() || (a.is_infinite() && b.is_infinite()) {
        return None;
    }
    let seeded = by_seed(metric, &groups, focus);
    let error = Error { of_bounds: error, of_tests: 2.0 * error };
    let worse = worse_than(metric, &[&seeded[0], &seeded[1]], 0, error)[1];
    let scale = metric.useful() / crate::metric::USEFUL;
    let apart = |by: f64| by.abs() > metric.useful();
    let verdict = match worse.bounds {
        Some([least, _]) if least > 0.0 && apart(worse.by) => Change::Worse,
        Some([_, most]) if most < 0.0 && apart(worse.by) => Change::Better,
        Some([least, most]) if !apart(worse.by) && least.abs().max(most.abs()) <= 0.25 * scale => Change::NoDifference,
        None if b.is_infinite() => Change::Worse,
        None if a.is_infinite() => Change::Better,
        None if a == b => Change::NoDifference,
        _ => Change::Inconclusive,
    };
    // A figure of which only a lower bound is known may be any larger one.
    let verdict = match (verdict, is_lower_bound(0), is_lower_bound(1)) {
        (verdict, false, false) | (verdict @ Change::Better, true, false) | (verdict @ Change::Worse, false, true) => {
            verdict
        }
        _ => Change::Inconclusive,
    };
    let directed = |by: f64| if metric.higher_is_better() { -by } else { by };
    let ci95 = worse.bounds.map(|[least, most]| {
        let (x, y) = (directed(least), directed(most));
        [rounded(x.min(y)), rounded(x.max(y))]
    });
    Some(Difference {
        device_a: row_a.device.clone(),
        device_b: row_b.device.clone(),
        variant: row_a.variant.clone(),
        scheduler: row_a.scheduler.clone(),
        completion: row_a.completion.clone(),
        via: row_a.via.clone(),
        metric: metric.key().to_owned(),
        decides: metric == ranking.metric,
        a,
        b,
        effect: if a.is_finite() && b.is_finite() { rounded(directed(worse.by)) } else { f64::NAN },
        ci95,
        verdict,
    })
}

fn sentence(metric: Metric, ranking: &Ranking, row: &RankingRow, found: &Difference) -> String {
    let what = format!("{}: {}", row.name(Axes::of_rows(&ranking.rows)), metric.explained(&ranking.focus));
    let place = if found.device_a == found.device_b {
        format!("{}, ", found.device_a)
    } else {
        format!("{} to {}, ", found.device_a, found.device_b)
    };
    let figures = format!("{} to {}", metric.shown(found.a), metric.shown(found.b));
    if !found.effect.is_finite() {
        return format!("{place}{what} {figures}: {}", found.verdict.name());
    }
    let interval = match found.ci95 {
        Some([low, high]) => format!("{}, 95 % confidence {} to {}", signed(found.effect), signed(low), signed(high)),
        None => format!("{}, single runs", signed(found.effect)),
    };
    format!("{place}{what} {figures} ({interval}): {}", found.verdict.name())
}

fn rounded(fraction: f64) -> f64 {
    (fraction * 1e5).round() / 1e5
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Goal;
    use crate::test_runs::template;
    use std::collections::BTreeMap;

    /// Two schedulers, three runs each; `starved` and `unknown` of the first one's reads.
    fn document(p99_us: f64, starved: bool, unknown: f64) -> Document {
        let runs = ["alpha", "beta"].into_iter().flat_map(|name| (0..3).map(move |seed| (name, seed)));
        let run = |(name, seed): (&str, u64)| {
            let mut run = template(1200);
            (run.scheduler, run.seed) = (name.to_owned(), seed);
            run.read.latency_us.p99 = p99_us + seed as f64;
            if name == "alpha" {
                run.read.latency_us.known_to = 1.0 - unknown;
                if starved {
                    (run.read.count, run.read.latency_us.unfinished) = (0, 9);
                }
            }
            run
        };
        Document::new("", serde_json::Value::Null, BTreeMap::new(), runs.map(run).collect(), Goal::Balanced)
    }

    fn of_alpha(a: &Document, b: &Document) -> (Difference, String) {
        let found = diff(a, b);
        let is_it = |d: &&Difference| d.scheduler == "alpha" && d.metric == Metric::FocusP99.key();
        let sentence = found.summary.iter().find(|text| text.contains("alpha")).cloned();
        (found.differences.iter().find(is_it).unwrap().clone(), sentence.unwrap_or_default())
    }

    #[test]
    fn a_scheduler_that_starved_in_one_result_only_is_the_largest_difference() {
        let (before, after) = (document(900.0, true, 0.0), document(900.0, false, 0.0));
        let (found, said) = of_alpha(&before, &after);
        assert_eq!((found.verdict, found.a, found.b), (Change::Better, f64::INFINITY, 900.0));
        assert!(said.ends_with("latency of reads starved to 100 us: better"), "{said}");
        let (found, said) = of_alpha(&after, &before);
        assert_eq!(found.verdict, Change::Worse);
        assert!(said.ends_with("900 us to starved: worse"), "{said}");
        assert!(serde_json::to_string(&found).unwrap().contains("\"effect\":null"));
    }

    #[test]
    fn lower_bounds_claim_only_what_holds_for_any_larger_figure() {
        let (slow, bound, fast) =
            (document(900.0, false, 0.0), document(900.0, false, 0.2), document(300.0, false, 0.0));
        assert_eq!(of_alpha(&slow, &fast).0.verdict, Change::Better);
        assert_eq!(of_alpha(&bound, &fast).0.verdict, Change::Better);
        assert_eq!(of_alpha(&fast, &bound).0.verdict, Change::Worse);
        assert_eq!(of_alpha(&bound, &slow).0.verdict, Change::Inconclusive);
        assert_eq!(of_alpha(&document(300.0, false, 0.2), &slow).0.verdict, Change::Inconclusive);
        assert_eq!(of_alpha(&bound, &bound).0.verdict, Change::Inconclusive);
    }
}
