//! The results of an experiment with its scenario and versions, and their JSON form.

use crate::{Goal, Ranking, Recommendation, Row, rank};
use dumbwaiter_measure::RunResult;
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
    /// What the reader must know before the answer: how much of a trace was left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Notes for the reader: skipped records, an interruption, assumptions.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Start times of the load patterns that align an external power log with the runs, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load_patterns_unix_s: Vec<f64>,
    /// The runs, in the order of the matrix.
    pub runs: Vec<RunResult>,
    /// Schedulers per device and variant, best first.
    #[serde(default)]
    pub ranking: Vec<Row>,
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
        let rankings = rank(&runs, goal);
        Document {
            schema: SCHEMA,
            title: title.to_string(),
            scenario,
            goal,
            versions,
            warnings: Vec::new(),
            notes: Vec::new(),
            load_patterns_unix_s: Vec::new(),
            recommendation: rankings.iter().map(|r| r.recommendation.clone()).collect(),
            ranking: rankings.into_iter().flat_map(|r| r.rows).collect(),
            runs,
        }
    }

    /// The rankings, computed from the runs.
    pub fn rankings(&self) -> Vec<Ranking> {
        rank(&self.runs, self.goal)
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
