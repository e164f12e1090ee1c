//! Training of a model from recorded runs.

use dumbwaiter_devices::Facts;
use dumbwaiter_learn::{
    About, Device, FeatureSet, HISTORY, Kind, LatencyModel, Model, Posterior, Scaling, Target, Training, Weights,
};

use crate::data::{CLASSES, DataSet, Run};
use crate::network::{Examples, Loss, Plan, SLOPE, Trained, train};
use crate::samples::{Rows, latency_rows, window_rows};
use crate::{Error, evaluate};

/// Most windows of one run.
const WINDOWS: usize = 4_000;
/// Most requests of one run.
const REQUESTS: usize = 6_000;
/// Normalised latencies further from 0 count as this far in training.
const LARGEST_TARGET: f32 = 8.0;
/// Sectors of the device on which the project's data was recorded: 6 GiB.
pub(crate) const RECORDED_SECTORS: u64 = 12_582_912;

/// What a model should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Name the workload.
    Classify,
    /// Predict service latency, independent of the order of service.
    Latency,
    /// Predict service latency at dispatch, from where the request lies.
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

    /// Its usual inputs.
    pub fn features(self) -> FeatureSet {
        match self {
            Task::Classify => FeatureSet::Window,
            Task::Latency => FeatureSet::Unordered,
            Task::Positioned => FeatureSet::Positioned,
            Task::Ordered => FeatureSet::Ordered,
        }
    }

    fn kind(self) -> Kind {
        match self {
            Task::Classify => Kind::Classifier,
            Task::Latency | Task::Positioned => Kind::Latency,
            Task::Ordered => Kind::Ordered,
        }
    }
}

/// What to train, and on what.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// What the model should do.
    pub task: Task,
    /// Its inputs.
    pub features: FeatureSet,
    /// Repeats to train on.
    pub train: Vec<String>,
    /// Repeats that decide when training stops.
    pub validate: Vec<String>,
    /// Random seed.
    pub seed: u64,
    /// A device model that serves the recorded requests; `None`: the recorded times.
    pub device: Option<String>,
    /// The command line, for the model's description.
    pub args: String,
}

/// Rows of several runs.
pub(crate) fn rows_of<'a>(runs: impl Iterator<Item = &'a Run>, rows: impl Fn(&Run) -> Rows) -> Rows {
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
pub(crate) fn task_rows(data: &DataSet, task: Task, features: FeatureSet, sectors: u64) -> Rows {
    match task {
        Task::Classify => {
            rows_of(data.runs.iter().filter(|run| run.class().is_some()), |run| window_rows(run, features, WINDOWS))
        }
        _ => rows_of(data.runs.iter().filter(|run| run.is_for_latency()), |run| {
            latency_rows(run, features, sectors, REQUESTS)
        }),
    }
}

/// Trains a model. The same data, request and version of the program give the same bytes.
pub fn train_model(data: &DataSet, request: &Request) -> Result<Model, Error> {
    if request.train.iter().any(|repeat| request.validate.contains(repeat)) {
        return Err(Error::Usage("a repeat cannot be both trained on and validated on: it would be known".to_owned()));
    }
    let (data, facts) = match &request.device {
        Some(device) => crate::serve::serve(data, device).map(|(data, facts)| (data, Some(facts)))?,
        None => (data.clone(), None),
    };
    let sectors = facts.as_ref().map_or(RECORDED_SECTORS, |facts| facts.capacity_sectors);
    let (training, validation) = (data.only(&request.train), data.only(&request.validate));
    let rows = task_rows(&training, request.task, request.features, sectors);
    let validation_rows = task_rows(&validation, request.task, request.features, sectors);
    if rows.is_empty() || validation_rows.is_empty() {
        return Err(Error::Usage(format!(
            "no rows for the task {}: {} to train on, {} to validate on",
            request.task.name(),
            rows.len(),
            validation_rows.len()
        )));
    }
    let targets = |rows: &Rows| match request.task {
        Task::Latency | Task::Positioned => rows.normalised(LARGEST_TARGET),
        Task::Classify | Task::Ordered => rows.truths.clone(),
    };
    let (widths, loss) = shape(request.task, &rows);
    let plan = Plan::new(widths, loss, request.seed);
    let (train_targets, validation_targets) = (targets(&rows), targets(&validation_rows));
    let trained = train(
        &plan,
        Examples { rows: &rows, targets: &train_targets },
        Examples { rows: &validation_rows, targets: &validation_targets },
    );
    let mut model = assemble(request, &rows, trained, &training, facts.as_ref())?;
    if request.task == Task::Classify {
        model.about.temperature = temperature(&model, &validation_rows)?;
    }
    model.about.metrics = evaluate::metrics(&model, &validation)?;
    Ok(model)
}

fn shape(task: Task, rows: &Rows) -> (&'static [usize], Loss) {
    match task {
        Task::Classify => (&[128, 64, 32, 16, 8], Loss::Classes(class_weights(rows))),
        _ => (&[32, 16, 8, 4, 1], Loss::Huber),
    }
}

/// Weights of the classes so that each counts as much as the others.
fn class_weights(rows: &Rows) -> Vec<f32> {
    let mut counts = [0usize; CLASSES.len()];
    rows.truths.iter().for_each(|&class| counts[class as usize] += 1);
    let share = rows.len() as f32 / CLASSES.len() as f32;
    counts.iter().map(|&count| share / count.max(1) as f32).collect()
}

fn assemble(
    request: &Request,
    rows: &Rows,
    trained: Trained,
    training: &DataSet,
    facts: Option<&Facts>,
) -> Result<Model, Error> {
    let features = request.features;
    let own = LatencyModel::own_inputs(features);
    let mut layers = vec![rows.width];
    layers.extend(trained.layers.iter().map(|layer| layer.bias.len()));
    let about = About {
        format: 1,
        kind: request.task.kind(),
        layers,
        slope: SLOPE,
        n_history: HISTORY,
        tag_encoding: "compact".to_owned(),
        features: features.name().to_owned(),
        feature_hash: features.hash(),
        target: match request.task {
            Task::Classify => Target::Logits,
            Task::Latency | Task::Positioned => Target::Normalised,
            Task::Ordered => Target::Ln,
        },
        classes: match request.task {
            Task::Classify => CLASSES.iter().map(|&class| class.to_owned()).collect(),
            _ => Vec::new(),
        },
        temperature: 1.0,
        device: device_of(request, training, facts),
        trained: Training {
            rows: rows.len(),
            runs: training.repeats(),
            seed: request.seed,
            args: request.args.clone(),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            data: training.runs.iter().map(|run| format!("{} {:08x}", run.name(), run.checksum)).collect(),
        },
        metrics: serde_json::Value::Null,
        weights_crc32c: String::new(),
    };
    let is_latency = request.task.kind() == Kind::Latency;
    Ok(Model {
        about,
        cold_history: if is_latency { trained.scaling.mean[own..].to_vec() } else { Vec::new() },
        cold_normal: if is_latency { normal_of(rows) } else { (0.0, 1.0) },
        weights: Weights::Dense { layers: trained.layers, scaling: trained.scaling },
    })
}

/// Mean and standard deviation of the true ln latencies.
fn normal_of(rows: &Rows) -> (f32, f32) {
    let truths = Rows { width: 1, inputs: rows.truths.clone(), ..Rows::new(1) };
    let Scaling { mean, std } = crate::network::scaling_of(&Rows { truths: rows.truths.clone(), ..truths });
    (mean[0], std[0])
}

fn device_of(request: &Request, training: &DataSet, facts: Option<&Facts>) -> Device {
    let mut latencies: Vec<u64> = training
        .runs
        .iter()
        .filter(|run| run.is_for_latency())
        .flat_map(|run| run.segments.iter().flatten())
        .filter(|record| record.is_learnable())
        .map(|record| record.latency().0)
        .collect();
    latencies.sort_unstable();
    let quantile = |share: f64| {
        let index = (share * latencies.len() as f64) as usize;
        latencies.get(index).map_or(0.0, |&ns| ns as f64 / 1e3)
    };
    Device {
        model: request.device.clone().unwrap_or_else(|| "as recorded".to_owned()),
        sectors: facts.map_or(RECORDED_SECTORS, |facts| facts.capacity_sectors),
        logical_block: 512,
        rotational: facts.is_some_and(|facts| facts.rotational),
        latency_us: [quantile(0.05), quantile(0.5), quantile(0.95)],
    }
}

/// The temperature at which the probabilities fit the validation rows best.
fn temperature(model: &Model, rows: &Rows) -> Result<f32, Error> {
    let refuse = |error| Error::Model { name: "the trained model".to_owned(), error };
    let network = model.network().map_err(refuse)?;
    let mut outputs = vec![vec![0.0; network.outputs()]; rows.len()];
    (0..rows.len()).for_each(|index| network.forward(rows.row(index), &mut outputs[index]));
    let weights = class_weights(rows);
    let loss = |temperature: f32| -> f64 {
        let of_row = |(outputs, &class): (&Vec<f32>, &f32)| {
            let p = Posterior::softmax(outputs, temperature).probabilities()[class as usize];
            f64::from(weights[class as usize]) * -libm::log(f64::from(p).max(1e-30))
        };
        outputs.iter().zip(&rows.truths).map(of_row).sum()
    };
    // From 0.5 to 4 in steps of 5 %: finer than it matters.
    let candidates = (0..43).map(|step| 0.5 * libm::powf(1.05, step as f32));
    let best = candidates.map(|t| (loss(t), t)).min_by(|a, b| a.0.total_cmp(&b.0));
    Ok(best.map_or(1.0, |(_, t)| t))
}
