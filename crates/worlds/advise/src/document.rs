//! The results of an experiment with its scenario and versions, and their JSON form.

use crate::apply::{TargetDrive, commands};
use crate::controls;
use crate::provenance::Provenance;
use crate::ranking::rank_under;
use crate::suite::Suite;
use crate::{Goal, Ranking, RankingRow, Recommendation, Verdict};
use dumbwaiter_measure::{RunResult, SIGNIFICANCE};
use dumbwaiter_scenario::SchedulerSpec;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Version of the JSON format; a change that breaks readers raises it.
pub const SCHEMA: u64 = 2;

/// All results of a comparison. Its serde form is the JSON of `compare --json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: u64,
    /// Where the results come from.
    #[serde(default)]
    pub provenance: Provenance,
    /// Title of the report.
    #[serde(default)]
    pub title: String,
    /// The whole scenario with its defaults filled in.
    pub scenario: Value,
    /// The goal of the recommendation.
    #[serde(default)]
    pub goal: Goal,
    /// Versions of the program, the kernel and the device models, by name.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// Warnings to read before the answer: how much of a trace was left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Notes for the reader: skipped records, an interruption, assumptions.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Start times of the load patterns that align an external power log with the runs, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load_patterns_unix_s: Vec<f64>,
    /// How replicates were added until the decision was settled; left out where their number was fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Sequential>,
    /// The scenarios, where there are several; each has a variant of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<Suite>,
    /// The recommendation for each device, by its name; with variants `DEVICE, VARIANT`.
    #[serde(default)]
    pub verdict: BTreeMap<String, Verdict>,
    /// The runs, in the order of the matrix.
    pub runs: Vec<RunResult>,
    /// Schedulers per device and variant, best first.
    #[serde(default)]
    pub ranking: Vec<RankingRow>,
    /// One per device and variant.
    #[serde(default)]
    pub recommendation: Vec<Recommendation>,
}

impl Document {
    /// Builds a document of `runs`, with their ranking and recommendations.
    pub fn new(
        title: &str,
        scenario: Value,
        versions: BTreeMap<String, String>,
        runs: Vec<RunResult>,
        goal: Goal,
    ) -> Document {
        let mut document = Document {
            schema: SCHEMA,
            provenance: Provenance::default(),
            title: title.to_string(),
            scenario,
            goal,
            versions,
            warnings: Vec::new(),
            notes: Vec::new(),
            load_patterns_unix_s: Vec::new(),
            until: None,
            suite: None,
            verdict: BTreeMap::new(),
            ranking: Vec::new(),
            recommendation: Vec::new(),
            runs,
        };
        document.decide();
        document
    }

    /// The document with its provenance, and the verdicts that follow: it says what can be set.
    pub fn with_provenance(mut self, provenance: Provenance) -> Document {
        self.provenance = provenance;
        self.decide();
        self
    }

    /// The document as that of several scenarios.
    pub fn with_suite(mut self, suite: Suite) -> Document {
        self.suite = Some(suite);
        self.decide();
        self
    }

    /// Computes ranking, recommendations and verdicts anew.
    pub fn decide(&mut self) {
        let rankings = self.rankings();
        if let Some(suite) = &mut self.suite {
            suite.judge(&rankings);
        }
        self.recommendation = rankings.iter().map(Recommendation::of).collect();
        self.verdict = rankings.iter().map(|r| (r.place(), r.verdict.clone())).collect();
        self.ranking = rankings.into_iter().flat_map(|r| r.rows).collect();
    }

    /// The rankings, computed from the runs, with the commands that apply their verdicts.
    pub fn rankings(&self) -> Vec<Ranking> {
        let error = self.until.as_ref().map_or(SIGNIFICANCE, |until| until.error_per_look);
        let mut rankings = rank_under(&self.runs, self.goal, &self.provenance.conditions(error));
        for ranking in &mut rankings {
            let spec = ranking.verdict.recommended.as_deref().and_then(|name| SchedulerSpec::parse(name).ok());
            if let Some(spec) = spec {
                let commands = commands(&TargetDrive::of(&self.provenance, &ranking.device), &spec, self.nr_requests());
                (ranking.verdict.apply, ranking.verdict.undo) = (commands.apply, commands.undo);
                ranking.verdict.caveats.splice(..0, controls::caveat(&self.scenario));
            }
        }
        rankings
    }

    /// The scheduler depth that the scenario sets.
    fn nr_requests(&self) -> Option<u32> {
        self.scenario.get("nr_requests").and_then(Value::as_u64).and_then(|n| n.try_into().ok())
    }

    /// The document as JSON text with a final newline.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("every key is a string and every number has a form");
        text.push('\n');
        text
    }

    /// Reads a document from the text that [`Document::to_json`] gives.
    pub fn from_json(text: &str) -> Result<Document, ParseError> {
        let value: Value = serde_json::from_str(text)?;
        match value.get("schema").and_then(Value::as_u64) {
            Some(found) if found != SCHEMA => Err(ParseError::Schema { found, expected: SCHEMA }),
            _ => Ok(serde_json::from_value(value)?),
        }
    }
}

/// How replicates were added until the decision was settled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sequential {
    /// Settled: no other is better than the recommended one by more than this fraction.
    pub within: f64,
    /// How often the results were looked at.
    pub looks: u32,
    /// Probability of a wrong bound at each look; over all looks planned together at most 0.05.
    pub error_per_look: f64,
    /// Every device was settled before the cap.
    pub settled: bool,
}

impl Sequential {
    /// Whether it is settled, and how often that is wrong, in a clause.
    pub fn clause(&self) -> String {
        let settled = if self.settled { "settled" } else { "not settled" };
        let percent =
            |fraction: f64| format!("{:.3}", fraction * 100.0).trim_end_matches('0').trim_end_matches('.').to_owned();
        format!(
            "{settled} within {} % at look {}; each look is wrong with a probability of at most {} %, all looks together of at most {} %",
            percent(self.within),
            self.looks,
            percent(self.error_per_look),
            percent(SIGNIFICANCE)
        )
    }
}

/// Why a text could not be read as a document.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// Not JSON, or JSON without the keys of a document.
    #[error("not a result of `compare --json`: {0}")]
    Json(#[from] serde_json::Error),
    /// Written by another version of the format.
    #[error("the result has schema {found}, but this version reads schema {expected}")]
    Schema {
        /// Schema of the document.
        found: u64,
        /// Schema that this version reads.
        expected: u64,
    },
}
