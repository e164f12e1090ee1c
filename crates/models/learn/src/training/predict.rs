//! A model's prediction for each request of a recorded run.

use crate::{Kind, Model, RequestVector};
use serde::Serialize;

use crate::training::Error;
use crate::training::data::Run;
use crate::training::samples::{Geometry, Moment, walk, walk_windows};

/// One prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Number of the segment in the file.
    pub segment: usize,
    /// The recorded latency, in microseconds.
    pub latency_us: Option<f64>,
    /// The predicted latency, in microseconds.
    pub predicted_us: Option<f64>,
    /// Were there fewer than 16 completions before it?
    pub cold: bool,
    /// The most probable workload after this completion.
    pub class: Option<String>,
    /// Its probability.
    pub probability: Option<f32>,
}

/// Calls `visit` with the prediction for each read and write of a run, in order of time.
pub fn predict(name: &str, model: &Model, run: &Run, mut visit: impl FnMut(Line)) -> Result<(), Error> {
    let refuse = |error| Error::Model { name: name.to_owned(), error };
    let features = model.features().map_err(refuse)?;
    match model.about.kind {
        Kind::Classifier => {
            let classifier = model.classifier().map_err(refuse)?.filling_tags();
            for (segment, records) in run.segments.iter().enumerate() {
                walk_windows(records, |history| {
                    let best = classifier.posterior(history).map(|posterior| posterior.most_probable());
                    let class = best.map(|(class, _)| classifier.classes()[class].clone());
                    let probability = best.map(|(_, p)| p);
                    visit(Line { segment, latency_us: None, predicted_us: None, cold: false, class, probability });
                });
            }
        }
        Kind::Latency => {
            let latency = model.latency().map_err(refuse)?;
            for (segment, records) in run.segments.iter().enumerate() {
                walk(records, &Geometry::of(&model.about.device), Moment::of(features), |view| {
                    let moment = latency.moment(view.history);
                    let prediction = latency.predict(&moment, &RequestVector::of(view.record), &view.place());
                    visit(Line {
                        segment,
                        latency_us: Some(view.record.latency().0 as f64 / 1e3),
                        predicted_us: Some(prediction.latency.0 as f64 / 1e3),
                        cold: prediction.cold,
                        class: None,
                        probability: None,
                    });
                });
            }
        }
        Kind::Ordered => {
            return Err(Error::Usage(format!("{name} is an ordered model, a diagnosis: use `learn eval` with it")));
        }
    }
    Ok(())
}
