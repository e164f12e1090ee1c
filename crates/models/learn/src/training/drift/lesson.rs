//! Trains a challenger on the samples of a device, and compares it with the model in use.

use crate::drift::Judgement;
use crate::metrics::latency::{LatencyQuality, Predicted, PredictedRun};
#[cfg(feature = "fit")]
use crate::{Model, OutputKind, Training, Weights};

use super::sample::{Sample, Serving};
use crate::training::Error;

/// Passes over the samples. The best on the validation samples is kept, so that additional passes do no harm.
#[cfg(feature = "fit")]
const EPOCHS: usize = 10;
/// Half of the rate of training from scratch: the initial weights are close to the optimum.
#[cfg(feature = "fit")]
const RATE: f32 = 1e-3;
/// Normalised latencies further from 0 count as this far in training.
#[cfg(feature = "fit")]
const LARGEST_TARGET: f32 = 8.0;

/// The samples for a challenger.
#[derive(Clone, Debug)]
pub struct Lesson {
    champion: Serving,
    /// In order of completion.
    samples: Vec<Sample>,
}

/// A trained challenger, judged on samples that it has not seen.
#[derive(Clone, Debug)]
pub struct Challenger {
    pub(crate) serving: Serving,
    /// Quality of the model in use on the newest fifth of the samples.
    pub champion: Judgement,
    /// Quality of the challenger on them.
    pub judged: Judgement,
    /// Rows that it was trained on.
    pub rows: usize,
    /// Its errors, `ln(latency / predicted)`, on the newest fifth.
    pub(crate) errors: Vec<f64>,
}

impl Lesson {
    pub(super) fn new<'a>(champion: Serving, samples: impl Iterator<Item = &'a Sample>) -> Lesson {
        let mut samples: Vec<Sample> = samples.copied().collect();
        samples.sort_by_key(|sample| sample.sequence);
        // A recent sample may be in the other half of the reservoir too.
        samples.dedup_by_key(|sample| sample.sequence);
        Lesson { champion, samples }
    }

    /// The samples to train on, to stop by, and to judge by: each later than the ones before.
    fn split(&self) -> [&[Sample]; 3] {
        let count = self.samples.len();
        let (training, rest) = self.samples.split_at(count - count * 3 / 10);
        let (validation, newest) = rest.split_at(rest.len() / 3);
        [training, validation, newest]
    }

    /// Trains a challenger from the weights of the model in use, on one thread.
    ///
    /// # Errors
    ///
    /// A build without training, or a model that is no network.
    #[cfg(not(feature = "fit"))]
    pub fn train(&self) -> Result<Challenger, Error> {
        let _ = (self.split(), &self.champion);
        Err(Error::Usage("this build cannot train; build it with `cargo build --release --features train`".to_owned()))
    }

    /// Trains a challenger from the weights of the model in use, on one thread.
    ///
    /// # Errors
    ///
    /// A build without training, or a model that is no network.
    #[cfg(feature = "fit")]
    pub fn train(&self) -> Result<Challenger, Error> {
        use crate::training::network::{Examples, Loss, Plan, fine_tune};
        use crate::training::samples::Rows;

        let [training, validation, newest] = self.split();
        let model = &self.champion.model;
        let refuse = |error| Error::Model { name: "the challenger".to_owned(), error };
        let Weights::Dense { layers, scaling } = &model.weights else {
            return Err(Error::Usage("only networks can be retrained, not trees".to_owned()));
        };
        let width = model.features().map_err(refuse)?.inputs();
        let rows_of = |samples: &[Sample]| {
            let mut rows = Rows::new(width);
            samples.iter().for_each(|sample| rows.push(&sample.row[..width], sample.ln_us, sample.normal));
            rows
        };
        let targets_of = |rows: &Rows| match model.about.target {
            OutputKind::Normalised => rows.normalised(LARGEST_TARGET),
            _ => rows.truths.clone(),
        };
        let (rows, validation) = (rows_of(training), rows_of(validation));
        let (targets, validation_targets) = (targets_of(&rows), targets_of(&validation));
        let widths: Vec<usize> = layers.iter().map(|layer| layer.bias.len()).collect();
        let plan = Plan { epochs: EPOCHS, patience: 3, rate: RATE, ..Plan::new(&widths, Loss::Huber, 0) };
        let examples = Examples { rows: &rows, targets: &targets };
        let trained =
            fine_tune(&plan, layers, scaling, examples, Examples { rows: &validation, targets: &validation_targets });
        let mut about = model.about.clone();
        about.trained = Training {
            rows: rows.len(),
            runs: vec!["completed requests of the device".to_owned()],
            seed: plan.seed,
            args: format!("trained further after: {}", model.about.trained.args),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            data: Vec::new(),
        };
        let weights = Weights::Dense { layers: trained.layers, scaling: trained.scaling };
        let mut challenger = Serving::new(Model { about, weights, ..model.clone() }).map_err(refuse)?;
        let (champion, judged) = (judge(&self.champion, newest), judge(&challenger, newest));
        challenger.model.about.metrics = serde_json::json!({
            "quality": { "rows": newest.len(), "pair_order": judged.pair_order },
        });
        let error = |sample: &Sample| f64::from(sample.ln_us - challenger.predict(&sample.row, sample.normal));
        let errors = newest.iter().map(error).collect();
        Ok(Challenger { serving: challenger, champion, judged, rows: rows.len(), errors })
    }
}

/// Quality of a model on samples in order of completion.
#[cfg_attr(not(feature = "fit"), allow(dead_code))]
fn judge(model: &Serving, samples: &[Sample]) -> Judgement {
    let mut run = PredictedRun::default();
    let (mut sums, mut counts, mut last) = ([0.0; 2], [0u64; 2], None);
    for sample in samples {
        let predicted = model.predict(&sample.row, sample.normal);
        let write = usize::from(sample.op == dumbwaiter_block::Op::Write);
        sums[write] += f64::from((sample.ln_us - predicted).abs());
        counts[write] += 1;
        // Only requests that completed one after the other show whether a queue would be ordered correctly.
        if last.is_none_or(|last| sample.sequence != last + 1) {
            run.stretches.push(Vec::new());
        }
        last = Some(sample.sequence);
        let us = |ln: f32| libm::exp(f64::from(ln));
        if let Some(stretch) = run.stretches.last_mut() {
            stretch.push(Predicted { truth: us(sample.ln_us), predicted: us(predicted) });
        }
    }
    let error = |op: usize| (counts[op] > 0).then(|| sums[op] / counts[op] as f64);
    Judgement { pair_order: LatencyQuality::of(&[run]).pair_order, error: [error(0), error(1)] }
}
