//! Tasks of models, and the rows for training them.

use crate::{FeatureSet, Kind};

use crate::training::Error;
use crate::training::data::{CLASSES, DataSet, LATENCY_WORKLOADS, Run};
use crate::training::samples::{Geometry, Rows, latency_rows, window_rows};

/// Most windows of one run.
const WINDOWS: usize = 4_000;
/// Most requests of one run.
const REQUESTS: usize = 6_000;
/// Sectors of the device on which the project's data was recorded: 6 GiB.
pub(crate) const RECORDED_SECTORS: u64 = 12_582_912;

/// The task of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Name the workload.
    Classify,
    /// Predict service latency, independent of the order of service.
    Latency,
    /// Predict service latency at dispatch, with the position of the request.
    Positioned,
    /// Predict total latency, as a diagnosis.
    Ordered,
}

impl Task {
    /// All of them.
    pub const ALL: [Task; 4] = [Task::Classify, Task::Latency, Task::Positioned, Task::Ordered];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Task::Classify => "classify",
            Task::Latency => "latency",
            Task::Positioned => "positioned",
            Task::Ordered => "ordered",
        }
    }

    /// The task of this name.
    ///
    /// # Errors
    /// An unknown name.
    pub fn parse(name: &str) -> Result<Task, Error> {
        let task = Task::ALL.into_iter().find(|task| task.name() == name);
        let expected = || Task::ALL.map(Task::name).join(", ");
        task.ok_or_else(|| Error::Usage(format!("there is no task `{name}`; expected {}", expected())))
    }

    /// The inputs of this name, or its usual ones.
    ///
    /// # Errors
    /// An unknown name, or inputs that models of this task cannot have.
    pub fn parse_features(self, name: Option<&str>) -> Result<FeatureSet, Error> {
        let Some(name) = name else { return Ok(self.features()) };
        let expected = || FeatureSet::ALL.map(FeatureSet::name).join(", ");
        let set = FeatureSet::named(name)
            .ok_or_else(|| Error::Usage(format!("there is no feature set `{name}`; expected {}", expected())))?;
        if !self.accepts(set) {
            return Err(Error::Usage(format!("a model of the task {} cannot have the inputs `{name}`", self.name())));
        }
        Ok(set)
    }

    /// Its usual inputs.
    pub fn features(self) -> FeatureSet {
        match self {
            Task::Classify => FeatureSet::Window,
            Task::Latency => FeatureSet::Unordered,
            Task::Positioned => FeatureSet::Positioned,
            Task::Ordered => FeatureSet::Ordered,
        }
    }

    /// Whether its models can have these inputs.
    pub fn accepts(self, set: FeatureSet) -> bool {
        match self {
            Task::Classify => matches!(set, FeatureSet::Window | FeatureSet::WindowWithLatency),
            Task::Latency => matches!(set, FeatureSet::Unordered | FeatureSet::UnorderedWithMean),
            Task::Positioned | Task::Ordered => set == self.features(),
        }
    }

    /// The workloads of the runs that it uses, by the names of their files.
    pub fn workloads(self) -> &'static [&'static str] {
        match self {
            Task::Classify => &CLASSES,
            Task::Latency | Task::Positioned | Task::Ordered => &LATENCY_WORKLOADS,
        }
    }

    /// Whether it uses this run.
    pub fn uses(self, run: &Run) -> bool {
        self.workloads().contains(&run.workload.as_str())
    }

    /// The kind of its models.
    pub fn kind(self) -> Kind {
        match self {
            Task::Classify => Kind::Classifier,
            Task::Latency | Task::Positioned => Kind::Latency,
            Task::Ordered => Kind::Ordered,
        }
    }
}

/// Rows of several runs.
fn rows_of<'a>(runs: impl Iterator<Item = &'a Run>, rows: impl Fn(&Run) -> Rows) -> Rows {
    let mut all = Rows::default();
    for run in runs {
        let part = rows(run);
        all.width = part.width;
        all.inputs.extend(part.inputs);
        all.truths.extend(part.truths);
        all.normals.extend(part.normals);
    }
    all
}

/// Rows of a task from the runs that it uses.
pub(crate) fn task_rows(data: &DataSet, task: Task, features: FeatureSet, device: &Geometry) -> Rows {
    rows_of(data.runs.iter().filter(|run| task.uses(run)), |run| match task {
        Task::Classify => window_rows(run, features, WINDOWS),
        _ => latency_rows(run, features, device, REQUESTS),
    })
}
