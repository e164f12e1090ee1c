//! The results of an experiment with its scenario and versions, and their JSON form.

use crate::apply::{TargetDrive, commands};
use crate::class_verdict;
use crate::controls;
use crate::isolation::{Isolation, isolation};
use crate::provenance::Provenance;
use crate::ranking::rank_under;
use crate::suite::Suite;
use crate::suite_verdict::{self, SuiteVerdict};
use crate::tenant_units;
use crate::{Conditions, Goal, Ranking, RankingRow, Recommendation, Verdict};
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
    /// Part of the throughput that half the latency is worth, where it was given; left out where it is the goal's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// The scheduler that was named as the one that is set; left out where it is the drive's or the kernel's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incumbent: Option<String>,
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
    /// What the scenarios say together; left out where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite_verdict: Option<SuiteVerdict>,
    /// Of `suite:isolation`: what the runs say of each stack. It follows from them and is not read.
    #[serde(default, skip_deserializing, skip_serializing_if = "Vec::is_empty")]
    pub isolation: Vec<Isolation>,
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
            rate: None,
            incumbent: None,
            versions,
            warnings: Vec::new(),
            notes: Vec::new(),
            load_patterns_unix_s: Vec::new(),
            until: None,
            suite: None,
            suite_verdict: None,
            isolation: Vec::new(),
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
            self.suite_verdict = suite_verdict::judge(&suite.cases, &rankings, SIGNIFICANCE);
        }
        self.isolation = isolation(self.suite.as_ref(), &self.runs);
        self.recommendation = rankings.iter().map(Recommendation::of).collect();
        self.verdict = rankings.iter().map(|r| (r.place(), r.verdict.clone())).collect();
        self.verdict.extend(self.class_verdicts(&rankings));
        self.ranking = rankings.into_iter().flat_map(|r| r.rows).collect();
    }

    /// The verdicts for the classes of drives that were asked for, by their names, with the commands that apply them.
    pub fn class_verdicts(&self, rankings: &[Ranking]) -> Vec<(String, Verdict)> {
        let of = |(class, models): (&String, &Vec<String>)| class_verdict::verdicts(class, models, rankings);
        let mut found: Vec<(String, Verdict)> = self.provenance.classes.iter().flat_map(of).collect();
        for (name, verdict) in &mut found {
            let class = name.split(',').next().unwrap_or_default();
            let model = self.provenance.classes.get(class).and_then(|models| models.first());
            if let (Some(spec), Some(model)) =
                (verdict.recommended.as_deref().and_then(|name| SchedulerSpec::parse(name).ok()), model)
            {
                let place = self.place(model, verdict);
                (verdict.apply, verdict.undo) = self.commands(&place, &spec);
            }
        }
        found
    }

    /// The rankings, computed from the runs, with the commands that apply their verdicts.
    pub fn rankings(&self) -> Vec<Ranking> {
        let error = self.until.as_ref().map_or(SIGNIFICANCE, |until| until.error_per_look);
        let mut rankings = rank_under(&self.runs, self.goal, &self.conditions(error));
        for ranking in &mut rankings {
            let spec = ranking.verdict.recommended.as_deref().and_then(|name| SchedulerSpec::parse(name).ok());
            if let Some(spec) = spec {
                let place = self.place(&ranking.device, &ranking.verdict);
                (ranking.verdict.apply, ranking.verdict.undo) = self.commands(&place, &spec);
                let before = ranking.verdict.caveats.len();
                ranking.verdict.caveats.splice(..0, controls::caveat(&self.scenario, &spec));
                ranking.verdict.weakened_by += ranking.verdict.caveats.len() - before;
            }
        }
        rankings
    }

    /// The commands that set a stack on a drive and for its tenants, and that take it back; those that change nothing are left out.
    fn commands(&self, place: &TargetDrive, spec: &SchedulerSpec) -> (Vec<String>, Vec<String>) {
        let of_drive = commands(place, spec, self.nr_requests());
        let of_tenants = tenant_units::commands(&self.scenario, spec, &place.disk);
        if of_drive.apply.is_empty() {
            // A name or value was not sound.
            return (Vec::new(), Vec::new());
        }
        if of_drive.apply.first() == of_drive.undo.first() && of_drive.apply.len() == of_drive.undo.len() {
            return (of_tenants.apply, of_tenants.undo);
        }
        ([of_drive.apply, of_tenants.apply].concat(), [of_drive.undo, of_tenants.undo].concat())
    }

    /// Conditions of a decision, beside the runs. `error` is the probability that a comparison is wrong.
    fn conditions(&self, error: f64) -> Conditions {
        let mut conditions = self.provenance.conditions(error);
        for run in &self.runs {
            if !conditions.defaults.contains_key(&run.device) {
                let set = TargetDrive::of(&self.provenance, &run.device).previous;
                conditions.defaults.insert(run.device.clone(), set);
            }
        }
        Conditions { incumbent: self.incumbent.clone(), rate: self.rate, ..conditions }
    }

    /// Where a verdict is applied, and what to go back to: on a simulated drive the incumbent.
    fn place(&self, device: &str, verdict: &Verdict) -> TargetDrive {
        let place = TargetDrive::of(&self.provenance, device);
        let is_real = self.provenance.drive.as_ref().is_some_and(|drive| !drive.disk.is_empty());
        let incumbent = SchedulerSpec::parse(&verdict.incumbent).map(|spec| spec.name);
        match incumbent {
            Ok(previous) if !is_real => TargetDrive { previous, ..place },
            _ => place,
        }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_that_is_not_sound_gets_no_commands_for_tenants_either() {
        let scenario = json!({"duration": "1s", "devices": ["ssd:nvme-tlc"], "schedulers": ["none", "none+io.max"],
            "tenant": [{"name": "batch", "io_max": "rbps=9", "task": [{"name": "t", "rw": "randread", "bs": "4k"}]}]});
        let document = Document::new("t", scenario, BTreeMap::new(), Vec::new(), Goal::default());
        let spec = SchedulerSpec::parse("none+io.max").unwrap();
        let of = |disk: &str| {
            let place = TargetDrive {
                disk: disk.to_owned(),
                udev_match: "KERNEL==\"sda\"".to_owned(),
                previous: "none".to_owned(),
                previous_nr_requests: None,
            };
            document.commands(&place, &spec)
        };
        let (apply, undo) = of("sda");
        assert!(apply.iter().any(|line| line.contains("'IOReadBandwidthMax=/dev/sda 9'")), "{apply:?}");
        assert_eq!(undo.len(), 1);
        assert_eq!(of("sda'; reboot #"), (Vec::new(), Vec::new()));
    }
}
