//! Training of a model from recorded runs.

use crate::rotation;
use crate::{
    About, Device, FeatureSet, HISTORY, Kind, LatencyModel, Model, OutputKind, Posterior, Scaling, Training, Weights,
};
use dumbwaiter_devices::Facts;

use crate::training::data::{CLASSES, DataSet};
use crate::training::network::{Examples, Loss, Plan, SLOPE, scaling_of, train};
use crate::training::ridge::ridge;
use crate::training::samples::{Geometry, Rows};
use crate::training::task::{RECORDED_SECTORS, Task, task_rows};
use crate::training::trees::{self, Boost};
use crate::training::{Error, evaluate};

/// Most rows for boosted trees.
const BOOSTED_ROWS: usize = 40_000;
/// Depth of a tree that predicts latency: the paper's.
const TREE_DEPTH: usize = 18;
/// Normalised latencies further from 0 count as this far in training.
const LARGEST_TARGET: f32 = 8.0;

/// The kind of model to train.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// A fully connected network of the specification's shape.
    #[default]
    Network,
    /// A linear model.
    Ridge,
    /// A linear model of the request alone, without history.
    RidgeOfRequest,
    /// One decision tree.
    Tree,
    /// Boosted decision trees.
    Boosted,
}

impl Method {
    /// All of them.
    pub const ALL: [Method; 5] =
        [Method::Network, Method::Ridge, Method::RidgeOfRequest, Method::Tree, Method::Boosted];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Method::Network => "network",
            Method::Ridge => "ridge",
            Method::RidgeOfRequest => "ridge-of-request",
            Method::Tree => "tree",
            Method::Boosted => "boosted",
        }
    }

    /// The method of this name.
    ///
    /// # Errors
    /// An unknown name.
    pub fn parse(name: &str) -> Result<Method, Error> {
        let method = Method::ALL.into_iter().find(|method| method.name() == name);
        let expected = || Method::ALL.map(Method::name).join(", ");
        method.ok_or_else(|| Error::Usage(format!("there is no method `{name}`; expected {}", expected())))
    }

    /// The meaning of the outputs of its models.
    fn target(self, task: Task) -> OutputKind {
        match (task, self) {
            (Task::Classify, _) => OutputKind::Logits,
            (Task::Latency, Method::Network | Method::Tree | Method::Boosted) => OutputKind::Normalised,
            _ => OutputKind::Ln,
        }
    }
}

/// The repeats that a model is trained on, and those that decide when training stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Repeats to train on.
    pub train: Vec<String>,
    /// Repeats to validate on.
    pub validate: Vec<String>,
}

impl Split {
    /// Reads `train=r1,r2:val=r3`; without a text the last repeat of the data validates.
    ///
    /// # Errors
    /// Another form, or a repeat that the data lacks.
    pub fn parse(text: Option<&str>, data: &DataSet) -> Result<Split, Error> {
        let mut repeats = data.repeats();
        let Some(text) = text else {
            let last = repeats.pop().into_iter().collect();
            return Ok(Split { train: repeats, validate: last });
        };
        let wrong = || Error::Usage(format!("--split {text}: expected train=REPEAT,…:val=REPEAT,…"));
        let (train, validate) = text.split_once(':').ok_or_else(wrong)?;
        let list = |part: &str, key: &str| -> Result<Vec<String>, Error> {
            let names = part.strip_prefix(key).ok_or_else(wrong)?;
            Ok(names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect())
        };
        let split = Split { train: list(train, "train=")?, validate: list(validate, "val=")? };
        if split.train.is_empty() || split.validate.is_empty() {
            return Err(wrong());
        }
        if let Some(missing) = split.train.iter().chain(&split.validate).find(|repeat| !repeats.contains(repeat)) {
            return Err(Error::Usage(format!(
                "--split: there is no repeat `{missing}`; the data has {}",
                repeats.join(", ")
            )));
        }
        Ok(split)
    }
}

/// A request for training.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The task.
    pub task: Task,
    /// The kind of model.
    pub method: Method,
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

/// Trains a model. The same data, request and version of the program give the same bytes.
pub fn train_model(data: &DataSet, request: &Request) -> Result<Model, Error> {
    if request.train.iter().any(|repeat| request.validate.contains(repeat)) {
        return Err(Error::Usage(
            "a repeat cannot be both trained on and validated on: validation needs unseen data".to_owned(),
        ));
    }
    let (data, facts) = match &request.device {
        Some(device) => crate::training::serve::serve(data, device).map(|(data, facts)| (data, Some(facts)))?,
        None => (data.clone(), None),
    };
    let (training, validation) = (data.only(&request.train), data.only(&request.validate));
    let device = geometry(request.task, &training, facts.as_ref());
    let rows = task_rows(&training, request.task, request.features, &device);
    let validation_rows = task_rows(&validation, request.task, request.features, &device);
    if rows.is_empty() || validation_rows.is_empty() {
        return Err(Error::Usage(format!(
            "no rows for the task {}: {} to train on, {} to validate on",
            request.task.name(),
            rows.len(),
            validation_rows.len()
        )));
    }
    let fitted = fit(request, &rows, &validation_rows)?;
    let mut model = assemble(request, &rows, fitted, device_of(request, &training, device, facts.as_ref()), &training)?;
    if request.task == Task::Classify {
        model.about.temperature = temperature(&model, &validation_rows)?;
    }
    model.about.metrics = evaluate::metrics(&model, &validation)?;
    Ok(model)
}

/// The weights of a model of the request's kind.
fn fit(request: &Request, rows: &Rows, validation: &Rows) -> Result<Weights, Error> {
    let target = request.method.target(request.task);
    let targets_of = |rows: &Rows| match target {
        OutputKind::Normalised => rows.normalised(LARGEST_TARGET),
        OutputKind::Ln | OutputKind::Logits => rows.truths.clone(),
    };
    let (targets, own) = (targets_of(rows), LatencyModel::own_inputs(request.features));
    let refuse = |error| Error::Model { name: "the trained model".to_owned(), error };
    let is_class = target == OutputKind::Logits;
    Ok(match request.method {
        Method::Network => {
            let (widths, loss): (&[usize], _) = match is_class {
                true => (&[128, 64, 32, 16, 8], Loss::Classes(class_weights(rows))),
                false => (&[32, 16, 8, 4, 1], Loss::Huber),
            };
            let plan = Plan::new(widths, loss, request.seed);
            let validation_targets = targets_of(validation);
            let validation = Examples { rows: validation, targets: &validation_targets };
            let trained = train(&plan, Examples { rows, targets: &targets }, validation);
            Weights::Dense { layers: trained.layers, scaling: trained.scaling }
        }
        Method::Ridge | Method::RidgeOfRequest if is_class => {
            return Err(Error::Usage(
                "a linear model is not a classifier; expected network, tree or boosted".to_owned(),
            ));
        }
        Method::Ridge | Method::RidgeOfRequest => {
            let used = if request.method == Method::Ridge { rows.width } else { own.max(1) };
            let (layer, scaling) = ridge(rows, &targets, used);
            Weights::Dense { layers: vec![layer], scaling }
        }
        Method::Tree if is_class => Weights::Trees(trees::classification_tree(rows, CLASSES.len()).map_err(refuse)?),
        Method::Tree => Weights::Trees(trees::regression_tree(rows, &targets, own, TREE_DEPTH).map_err(refuse)?),
        Method::Boosted => {
            let (rows, targets) = thinned(rows, &targets);
            Weights::Trees(match is_class {
                true => trees::boosted_classes(&rows, CLASSES.len(), Boost::new(60)).map_err(refuse)?,
                false => trees::boosted_regression(&rows, &targets, own, Boost::new(150)).map_err(refuse)?,
            })
        }
    })
}

/// At most [`BOOSTED_ROWS`] evenly spaced rows.
fn thinned(rows: &Rows, targets: &[f32]) -> (Rows, Vec<f32>) {
    let step = rows.len().div_ceil(BOOSTED_ROWS).max(1);
    let mut out = Rows::new(rows.width);
    for index in (0..rows.len()).step_by(step) {
        out.push(rows.row(index), rows.truths[index], rows.normals[index]);
    }
    (out, targets.iter().copied().step_by(step).collect())
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
    weights: Weights,
    device: Device,
    training: &DataSet,
) -> Result<Model, Error> {
    let features = request.features;
    let own = LatencyModel::own_inputs(features);
    let mut layers = vec![rows.width];
    match &weights {
        Weights::Dense { layers: dense, .. } => layers.extend(dense.iter().map(|layer| layer.bias.len())),
        Weights::Trees(trees) => layers.push(trees.outputs()),
    }
    let about = About {
        format: 1,
        kind: request.task.kind(),
        layers,
        slope: SLOPE,
        n_history: HISTORY,
        tag_encoding: "compact".to_owned(),
        features: features.name().to_owned(),
        feature_hash: features.hash(),
        target: request.method.target(request.task),
        classes: match request.task {
            Task::Classify => CLASSES.iter().map(|&class| class.to_owned()).collect(),
            _ => Vec::new(),
        },
        temperature: 1.0,
        device,
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
        cold_history: if is_latency { scaling_of(rows).mean[own..].to_vec() } else { Vec::new() },
        cold_normal: if is_latency { normal_of(rows) } else { (0.0, 1.0) },
        weights,
    })
}

/// Mean and standard deviation of the true ln latencies.
fn normal_of(rows: &Rows) -> (f32, f32) {
    let truths = Rows { width: 1, inputs: rows.truths.clone(), ..Rows::new(1) };
    let Scaling { mean, std } = scaling_of(&Rows { truths: rows.truths.clone(), ..truths });
    (mean[0], std[0])
}

/// Size and rotation of the device; how it turns matters only where a request lies.
fn geometry(task: Task, training: &DataSet, facts: Option<&Facts>) -> Geometry {
    let rotation = match facts {
        Some(facts) if task == Task::Positioned && facts.rotational => rotation::find(training.segments()),
        _ => None,
    };
    let sectors = facts.map_or(RECORDED_SECTORS, |facts| facts.capacity_sectors);
    Geometry { sectors, rotation: rotation.unwrap_or_default() }
}

fn device_of(request: &Request, training: &DataSet, device: Geometry, facts: Option<&Facts>) -> Device {
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
        sectors: device.sectors,
        rotation: device.rotation,
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
