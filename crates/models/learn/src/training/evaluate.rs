//! Evaluation of a model on recorded runs, beside baselines.

use crate::metrics::classes::{Accuracy, Classified};
use crate::metrics::latency::{LatencyQuality, Predicted, PredictedRun};
use crate::{
    Classifier, FeatureSet, Kind, LatencyLine, LatencyModel, Model, Posterior, RequestRecord, RequestVector,
    ordered_row,
};
use serde::Serialize;

use crate::training::Error;
use crate::training::data::{DataSet, LATENCY_WORKLOADS, Run};
use crate::training::samples::{Geometry, Moment, View, for_stretches, window_rows};

/// Most windows of one run.
const WINDOWS: usize = 1_500;
/// Most requests of one run.
const REQUESTS: usize = 2_500;

/// Metrics of a model on some data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Version of this document.
    pub schema: u32,
    /// The model.
    pub model: String,
    /// Windows or requests predicted.
    pub rows: usize,
    /// Of a classifier.
    pub accuracy: Option<Accuracy>,
    /// Of a latency model.
    pub latency: Option<LatencyQuality>,
    /// Baselines on the same rows.
    pub baselines: Vec<Baseline>,
    /// The repeats.
    pub runs: Vec<String>,
    /// Where the latencies come from: `recorded`, or the device model that served the recorded requests.
    pub times: String,
    /// Of a classifier: shares in per cent, rows predicted, columns true.
    pub confusion: Option<Vec<Vec<f64>>>,
    /// Names of the classes.
    pub classes: Vec<String>,
}

/// A baseline on the same rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Baseline {
    /// Its name.
    pub name: String,
    /// Of a classifier.
    pub accuracy: Option<Accuracy>,
    /// Of a latency predictor.
    pub latency: Option<LatencyQuality>,
}

/// Which latencies a model is evaluated on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Times {
    /// Those recorded, if they are like the model's: a median within a factor of 4. Otherwise those of the device model that it
    /// was trained on, if it was.
    #[default]
    Fitting,
    /// Those recorded.
    Recorded,
    /// Those of the device model that it was trained on.
    Served,
}

/// Largest factor between the median latencies of a model's training data and of a device that it is used on.
const LARGEST_FACTOR: f64 = 4.0;

/// A model with its name.
pub type Named<'a> = (&'a str, &'a Model);

/// Evaluates a model, and others of its kind on the same rows.
pub fn evaluate(model: Named, baselines: &[Named], data: &DataSet, times: Times) -> Result<Evaluation, Error> {
    let (name, model) = model;
    let served = serve_if_wanted(model, data, times)?;
    let data = served.as_ref().unwrap_or(data);
    let score = score_of((name, model), data)?;
    let mut beside = simple_baselines(model, data)?;
    for &(name, baseline) in baselines {
        let score = score_of((name, baseline), data)?;
        beside.push(Baseline { name: name.to_owned(), accuracy: score.accuracy, latency: score.latency });
    }
    Ok(Evaluation {
        schema: 1,
        model: name.to_owned(),
        rows: score.rows,
        accuracy: score.accuracy,
        latency: score.latency,
        baselines: beside,
        runs: data.repeats(),
        times: served.as_ref().map_or("recorded".to_owned(), |_| model.about.device.model.clone()),
        confusion: score.confusion,
        classes: model.about.classes.clone(),
    })
}

/// The measures that a model's description carries.
#[cfg(feature = "fit")]
pub(crate) fn metrics(model: &Model, validation: &DataSet) -> Result<serde_json::Value, Error> {
    let score = score_of(("the trained model", model), validation)?;
    Ok(serde_json::json!({
        "validated_on": validation.repeats(),
        "rows": score.rows,
        "accuracy": score.accuracy,
        "latency": score.latency,
    }))
}

fn serve_if_wanted(model: &Model, data: &DataSet, times: Times) -> Result<Option<DataSet>, Error> {
    let device = &model.about.device;
    // Names of device models are `kind:name`.
    let is_model = device.model.contains(':');
    let serves = match times {
        Times::Recorded => false,
        Times::Served => true,
        Times::Fitting => {
            model.about.kind != Kind::Classifier && is_model && !is_alike(median_us(data), device.latency_us[1])
        }
    };
    if serves { crate::training::serve::serve(data, &device.model).map(|(data, _)| Some(data)) } else { Ok(None) }
}

fn is_alike(found: f64, expected: f64) -> bool {
    found <= LARGEST_FACTOR * expected && expected <= LARGEST_FACTOR * found
}

/// The median service latency of the workloads of latency models, in microseconds.
fn median_us(data: &DataSet) -> f64 {
    let runs = data.runs.iter().filter(|run| run.is_for_latency());
    let records = runs.flat_map(|run| run.segments.iter().flatten()).filter(|record| record.is_learnable());
    let mut latencies: Vec<u64> = records.map(|record| record.latency().0).collect();
    latencies.sort_unstable();
    latencies.get(latencies.len() / 2).map_or(0.0, |&ns| ns as f64 / 1e3)
}

/// Metrics of one model.
struct Score {
    rows: usize,
    accuracy: Option<Accuracy>,
    latency: Option<LatencyQuality>,
    confusion: Option<Vec<Vec<f64>>>,
}

fn score_of((name, model): Named, data: &DataSet) -> Result<Score, Error> {
    let refuse = |error| Error::Model { name: name.to_owned(), error };
    let features = model.features().map_err(refuse)?;
    let device = Geometry::of(&model.about.device);
    match model.about.kind {
        Kind::Classifier => {
            let classifier = model.classifier().map_err(refuse)?.filling_tags();
            let runs = classify(data, &classifier, features)?;
            let confusion = crate::metrics::classes::confusion(&runs, classifier.classes().len());
            let accuracy = Accuracy::of(&runs, classifier.classes());
            let rows = runs.iter().map(|run| run.posteriors.len()).sum();
            Ok(Score { rows, accuracy: Some(accuracy), latency: None, confusion: Some(confusion) })
        }
        Kind::Latency => {
            let latency = model.latency().map_err(refuse)?;
            Ok(Score::latency(&predict(data, &device, Moment::of(features), service_us, |view| {
                predict_us(&latency, view)
            })?))
        }
        Kind::Ordered => {
            let network = model.network().map_err(refuse)?;
            Ok(Score::latency(&predict(data, &device, Moment::of(features), total_us, |view| {
                let mut output = [0.0];
                network.forward(&ordered_row(view.record, view.delta, view.last_latency), &mut output);
                libm::exp(f64::from(output[0]))
            })?))
        }
    }
}

impl Score {
    fn latency(runs: &[PredictedRun]) -> Score {
        let rows = runs.iter().flat_map(|run| &run.stretches).map(Vec::len).sum();
        Score { rows, accuracy: None, latency: Some(LatencyQuality::of(runs)), confusion: None }
    }
}

fn predict_us(model: &LatencyModel, view: &View) -> f64 {
    let moment = model.moment(view.history);
    model.predict(&moment, &RequestVector::of(view.record), &view.place()).latency.0 as f64 / 1e3
}

fn service_us(record: &RequestRecord) -> f64 {
    record.latency().0 as f64 / 1e3
}

fn total_us(record: &RequestRecord) -> f64 {
    record.total().0 as f64 / 1e3
}

/// The posteriors of all windows of the runs of known classes.
fn classify(data: &DataSet, classifier: &Classifier, features: FeatureSet) -> Result<Vec<Classified>, Error> {
    let mut runs = Vec::new();
    for run in &data.runs {
        let Some(class) = classifier.classes().iter().position(|class| *class == run.workload) else { continue };
        let rows = window_rows(run, features, WINDOWS);
        let posteriors = (0..rows.len()).map(|index| classifier.posterior_of(rows.row(index))).collect();
        runs.push(Classified { class, posteriors });
    }
    if runs.is_empty() {
        let classes = classifier.classes().join(", ");
        return Err(Error::Usage(format!("the data has no run of the classifier's workloads: {classes}")));
    }
    Ok(runs)
}

fn predict(
    data: &DataSet,
    device: &Geometry,
    moment: Moment,
    truth: fn(&RequestRecord) -> f64,
    mut predicted: impl FnMut(&View) -> f64,
) -> Result<Vec<PredictedRun>, Error> {
    let mut runs = Vec::new();
    for run in data.runs.iter().filter(|run| run.is_for_latency()) {
        let mut out = PredictedRun::default();
        for_stretches(run, device, moment, REQUESTS, |view, is_first| {
            if is_first {
                out.stretches.push(Vec::new());
            }
            if let Some(stretch) = out.stretches.last_mut() {
                stretch.push(Predicted { truth: truth(view.record), predicted: predicted(view) });
            }
        });
        runs.push(out);
    }
    if runs.is_empty() {
        let workloads = LATENCY_WORKLOADS.join(", ");
        return Err(Error::Usage(format!("the data has no run of the workloads of latency models: {workloads}")));
    }
    Ok(runs)
}

/// Baselines that need no training.
fn simple_baselines(model: &Model, data: &DataSet) -> Result<Vec<Baseline>, Error> {
    let features = model.features().unwrap_or(FeatureSet::Unordered);
    if model.about.kind == Kind::Classifier {
        return Ok(majority(model, data).into_iter().collect());
    }
    let truth = if model.about.kind == Kind::Ordered { total_us } else { service_us };
    let beside = |name: &str, predicted: fn(&View) -> f64| {
        let runs = predict(data, &Geometry::of(&model.about.device), Moment::of(features), truth, predicted)?;
        Ok(Baseline { name: name.to_owned(), accuracy: None, latency: Some(LatencyQuality::of(&runs)) })
    };
    Ok(vec![
        beside("mean of the last 16", |view| {
            view.history.normal().map_or(1.0, |(mean, _)| libm::exp(f64::from(mean)))
        })?,
        beside("line over size, per operation", |view| line_us(view.line, view.record))?,
    ])
}

fn line_us(line: &LatencyLine, record: &RequestRecord) -> f64 {
    line.predict(record.op, u64::from(record.bytes) / 512).map_or(1.0, |latency| latency.0 as f64 / 1e3)
}

/// The class of most windows, always.
fn majority(model: &Model, data: &DataSet) -> Option<Baseline> {
    let classes = &model.about.classes;
    let runs: Vec<(usize, usize)> = data
        .runs
        .iter()
        .filter_map(|run: &Run| {
            let class = classes.iter().position(|class| *class == run.workload)?;
            Some((class, window_rows(run, FeatureSet::Window, WINDOWS).len()))
        })
        .collect();
    let count = |class: usize| runs.iter().filter(|run| run.0 == class).map(|run| run.1).sum::<usize>();
    let most = (0..classes.len()).rev().max_by_key(|&class| count(class))?;
    let outputs: Vec<f32> = (0..classes.len()).map(|class| if class == most { 20.0 } else { 0.0 }).collect();
    let always = Posterior::softmax(&outputs, 1.0);
    let runs: Vec<Classified> =
        runs.into_iter().map(|(class, rows)| Classified { class, posteriors: vec![always; rows] }).collect();
    let accuracy = Accuracy::of(&runs, classes);
    Some(Baseline { name: "majority class".to_owned(), accuracy: Some(accuracy), latency: None })
}
