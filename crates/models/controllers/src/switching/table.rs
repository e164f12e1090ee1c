//! Throughput tables: measured scores of schedulers by load and device. A table is a JSON document.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::switching::prior::{Prior, Row};
use crate::switching::settings::Goal;
use crate::switching::signature::Signature;

/// Version of the document.
const SCHEMA: u32 = 1;
/// Longest document, bytes.
const BYTES_MAX: usize = 4 << 20;
/// A cell with fewer runs is not used.
const RUNS_MIN: u32 = 5;
/// Standard deviations within which 95 % of a normal distribution lie.
const DEVIATIONS: f64 = 1.96;

/// A throughput table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScoreTable {
    /// Version of the document: 1.
    pub schema: u32,
    /// The command that made it, with the version of the project.
    pub made_by: String,
    /// The classifier whose posteriors it holds.
    pub classifier: String,
    /// That classifier's classes.
    pub classes: Vec<String>,
    /// The loads.
    pub loads: Vec<MeasuredLoad>,
}

/// One load on one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredLoad {
    /// Its name.
    pub name: String,
    /// The device.
    pub device: String,
    /// The device is a disk with a moving arm.
    pub rotational: bool,
    /// Requests that the device may hold.
    pub depth: u32,
    /// The load's [`Signature`].
    pub signature: [f64; 4],
    /// I/Os that a random task has outstanding, log2 by 12; none where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outstanding: Option<f64>,
    /// By scheduler.
    pub cells: Vec<Measurement>,
}

/// One scheduler's runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The scheduler, with settings as `--schedulers` takes them.
    pub scheduler: String,
    /// Runs.
    pub runs: u32,
    /// Throughput: mean and standard deviation over the runs, MB/s.
    pub mb_per_s: [f64; 2],
    /// Mean latency: mean and standard deviation over the runs, ms.
    pub latency_ms: [f64; 2],
    /// The classifier's mean posterior while this scheduler was in force; empty if it never had enough requests.
    pub classes: Vec<f64>,
}

/// Why a table cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// Too long.
    #[error("a table has at most 4 MiB")]
    TooLong,
    /// Not JSON, or not a table.
    #[error("no throughput table: {0}")]
    Json(#[from] serde_json::Error),
    /// It has another version.
    #[error("schema is {0}; expected 1")]
    Schema(u32),
    /// A number out of range.
    #[error("load `{load}` of {device}: {what}")]
    Value {
        /// The load.
        load: String,
        /// The device.
        device: String,
        /// The problem.
        what: String,
    },
}

impl ScoreTable {
    /// An empty table.
    pub fn new(made_by: String, classifier: String, classes: Vec<String>) -> ScoreTable {
        ScoreTable { schema: SCHEMA, made_by, classifier, classes, loads: Vec::new() }
    }

    /// The built-in table of simulated disks and flash. `tables/make` made it.
    ///
    /// # Errors
    ///
    /// None; a test reads it.
    pub fn shipped() -> Result<Arc<ScoreTable>, TableError> {
        // Read once: every simulated run with `adaptive` asks for it.
        static SHIPPED: OnceLock<Arc<ScoreTable>> = OnceLock::new();
        if let Some(table) = SHIPPED.get() {
            return Ok(Arc::clone(table));
        }
        let table = Arc::new(ScoreTable::from_json(include_bytes!("../../tables/simulated.json"))?);
        Ok(Arc::clone(SHIPPED.get_or_init(|| table)))
    }

    /// Reads a table and checks every number.
    ///
    /// # Errors
    ///
    /// A document that is too long, not JSON, of another version, or with numbers out of range.
    pub fn from_json(bytes: &[u8]) -> Result<ScoreTable, TableError> {
        if bytes.len() > BYTES_MAX {
            return Err(TableError::TooLong);
        }
        let table: ScoreTable = serde_json::from_slice(bytes)?;
        if table.schema != SCHEMA {
            return Err(TableError::Schema(table.schema));
        }
        table.loads.iter().try_for_each(|load| load.check(table.classes.len()))?;
        Ok(table)
    }

    /// As a JSON document, a line per load.
    ///
    /// # Errors
    ///
    /// None for a valid table.
    pub fn to_json(&self) -> Result<String, TableError> {
        let head = serde_json::json!({
            "schema": self.schema, "made_by": self.made_by, "classifier": self.classifier, "classes": self.classes
        });
        let head = head.to_string();
        let loads = self.loads.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        Ok(format!("{},\n\"loads\":[\n{}\n]}}\n", head.trim_end_matches('}'), loads.join(",\n")))
    }

    /// Expected scores of `candidates` on a device: rows of devices of the same kind and the nearest depth. `classes` are
    /// the classes of the classifier in use; the table's posteriors count only if they have the same classes.
    pub fn prior(&self, device: Kind, candidates: &[&str], goal: Goal, classes: Option<&[String]>) -> Prior {
        let same_kind = || self.loads.iter().filter(|load| load.rotational == device.rotational);
        let distance = |load: &MeasuredLoad| (f64::from(load.depth.max(1)) / f64::from(device.depth.max(1))).ln().abs();
        let nearest = same_kind().map(distance).fold(f64::INFINITY, f64::min);
        let mut prior = Prior::default();
        for load in same_kind().filter(|load| distance(load) <= nearest + 1e-9) {
            let cell = |name: &&str| load.cells.iter().find(|c| c.scheduler == *name && c.runs >= RUNS_MIN);
            let cells: Vec<Option<&Measurement>> = candidates.iter().map(cell).collect();
            if cells.iter().flatten().count() == 0 {
                continue;
            }
            let same_classes = classes == Some(self.classes.as_slice());
            let classes = |cell: &Option<&Measurement>| cell.map_or(Vec::new(), |cell| cell.classes.clone());
            prior.add_row(Row {
                load: Signature { parts: load.signature, outstanding: load.outstanding },
                scores: cells.iter().map(|cell| cell.map_or(0.0, |cell| cell.score(goal))).collect(),
                spreads: cells.iter().map(|cell| cell.map_or(0.0, |cell| cell.spread(goal))).collect(),
                classes: if same_classes { cells.iter().map(classes).collect() } else { Vec::new() },
            });
        }
        prior
    }
}

/// The kinds of devices that tables distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// It is a disk with a moving arm.
    pub rotational: bool,
    /// Requests that it may hold.
    pub depth: u32,
}

impl MeasuredLoad {
    fn check(&self, classes: usize) -> Result<(), TableError> {
        let refuse = |what: String| {
            let (load, device) = (self.name.clone(), self.device.clone());
            Err(TableError::Value { load, device, what })
        };
        if !self.signature.iter().all(|part| (0.0..=2.0).contains(part)) {
            return refuse(format!("the signature is {:?}; each part is from 0 to 2", self.signature));
        }
        if self.outstanding.is_some_and(|outstanding| !(0.0..=2.0).contains(&outstanding)) {
            return refuse(format!("outstanding is {:?}; expected 0 to 2", self.outstanding));
        }
        for cell in &self.cells {
            let sound = |[mean, deviation]: [f64; 2]| mean > 0.0 && mean < 1e12 && (0.0..1e12).contains(&deviation);
            if !sound(cell.mb_per_s) || !sound(cell.latency_ms) {
                return refuse(format!("{}: means are above 0, deviations at least 0", cell.scheduler));
            }
            let known = cell.classes.is_empty() || cell.classes.len() == classes;
            if !known || !cell.classes.iter().all(|p| (0.0..=1.001).contains(p)) {
                return refuse(format!("{}: expected {classes} probabilities or none", cell.scheduler));
            }
        }
        Ok(())
    }
}

impl Measurement {
    fn of(&self, goal: Goal) -> [f64; 2] {
        match goal {
            Goal::Throughput => self.mb_per_s,
            Goal::Latency => self.latency_ms,
        }
    }

    fn score(&self, goal: Goal) -> f64 {
        let mean = self.of(goal)[0];
        if goal == Goal::Latency { 1.0 / mean } else { mean }
    }

    /// Half of the 95 % interval of the mean, as a share of it.
    fn spread(&self, goal: Goal) -> f64 {
        let [mean, deviation] = self.of(goal);
        (DEVIATIONS * deviation / f64::from(self.runs.max(1)).sqrt() / mean).min(1.0)
    }
}
