//! Results with the conditions that made them, and their JSON.

use crate::file::{Error, write_atomically};
use dumbwaiter_measure::{Goal, Ranking, Recommendation, Row, RunResult, rank};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// Version of the JSON format; a change that breaks readers raises it.
pub const SCHEMA: u64 = 1;

/// Everything that a comparison found out. Its serde form is the JSON of `compare --json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: u64,
    /// A few words for the title of a report.
    #[serde(default)]
    pub title: String,
    /// The whole scenario, as it took effect.
    pub scenario: Value,
    /// What the recommendation aims at.
    #[serde(default)]
    pub goal: Goal,
    /// Versions of the program and of whatever else has one.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// What a reader should know: skipped records, an interruption, assumptions.
    #[serde(default)]
    pub notes: Vec<String>,
    /// When patterns of load began that a power logger is to see, in seconds since 1970.
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
    /// Ranks `runs` and puts them into a document.
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
            notes: Vec::new(),
            load_patterns_unix_s: Vec::new(),
            recommendation: rankings.iter().map(|r| r.recommendation.clone()).collect(),
            ranking: rankings.into_iter().flat_map(|r| r.rows).collect(),
            runs,
        }
    }

    /// The rankings, found again from the runs.
    pub fn rankings(&self) -> Vec<Ranking> {
        rank(&self.runs, self.goal)
    }

    /// The document as JSON text with a final newline.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("every key is a string and every number has a form");
        text.push('\n');
        text
    }

    /// Writes the JSON to a file, whole or not at all.
    pub fn write_json(&self, path: &Path) -> Result<(), Error> {
        write_atomically(path, |out| out.write_all(self.to_json().as_bytes()))
    }

    /// Reads a document that [`Document::write_json`] wrote.
    pub fn read_json(path: &Path) -> Result<Document, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_path_buf(), source })?;
        let parsed = |source| Error::Parse { path: path.to_path_buf(), source };
        let value: Value = serde_json::from_str(&text).map_err(parsed)?;
        match value.get("schema").and_then(Value::as_u64) {
            Some(found) if found != SCHEMA => Err(Error::Schema { path: path.to_path_buf(), found, expected: SCHEMA }),
            _ => serde_json::from_value(value).map_err(parsed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::document;

    #[test]
    fn json_has_the_keys_that_users_rely_on() {
        let v: Value = serde_json::from_str(&document().to_json()).unwrap();
        let keys = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
        insta::assert_snapshot!(keys(&v), @r"goal notes ranking recommendation runs scenario schema title versions");
        let run = &v["runs"][0];
        insta::assert_snapshot!(keys(run), @r"applications bandwidth completed completion cpu depth device device_counters duration_s ended_unix_ns energy errors fairness host_counters iops latency_cdf latency_nested_us latency_us ledger mb_per_s merges other phases_us read replicate requests scheduler scheduler_counters seed series started_unix_ns tasks tasks_omitted tenants variant via world write");
        let parts = ["latency_us", "read", "fairness", "cpu", "series"];
        let parts = parts.map(|part| format!("{part}: {}", keys(&run[part]))).join("\n");
        insta::assert_snapshot!(parts, @r"
        latency_us: max mean p50 p95 p99 p99_9 stddev
        read: count iops max mb_per_s mean p50 p95 p99 p99_9 stddev
        fairness: jain pv pv_share reversals_s
        cpu: busy_s ctx_per_io irq_s poll_s scheduler_s submit_s sys_s us_per_io usr_s utilisation
        series: depth_device depth_scheduler interval_s iops mb_per_s p99_us pv tenants times
        ");
        insta::assert_snapshot!(keys(&run["tenants"][0]), @r"bandwidth count focus ideal_share iops latency_us mb_per_s name share weight");
        insta::assert_snapshot!(keys(&v["ranking"][0]), @r"completion device keeps_throughput metrics rank replicates scheduler variant verdict via");
        insta::assert_snapshot!(v["ranking"][0]["metrics"]["focus_p99_us"].to_string(), @r#"{"ci95":14566.2,"mean":40981.844333333334,"n":3,"p":null,"test":null,"verdict":"best"}"#);
    }

    #[test]
    fn lists_with_figures_that_are_not_known_are_read_back() {
        let mut d = document();
        for series in d.runs.iter_mut().map(|run| &mut run.series) {
            // As of the kernel's schedulers.
            for list in [&mut series.depth_scheduler, &mut series.depth_device, &mut series.mb_per_s, &mut series.iops]
            {
                list.push(f64::NAN);
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("result.json");
        d.write_json(&path).unwrap();
        assert_eq!(Document::read_json(&path).unwrap().to_json(), d.to_json());
    }

    #[test]
    fn writing_and_reading_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        let d = document();
        d.write_json(&path).unwrap();
        assert_eq!(Document::read_json(&path).unwrap().to_json(), d.to_json());
    }

    #[test]
    fn what_is_no_document_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        assert!(matches!(Document::read_json(&path), Err(Error::Read { .. })));
        std::fs::write(&path, "{\"schema\": 9}").unwrap();
        assert!(matches!(Document::read_json(&path), Err(Error::Schema { found: 9, .. })));
        std::fs::write(&path, "{\"schema\": 1, \"runs\": 3}").unwrap();
        let message = Document::read_json(&path).unwrap_err().to_string();
        assert!(message.contains("r.json"), "{message}");
    }
}
