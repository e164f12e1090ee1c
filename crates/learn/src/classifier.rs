//! Which workload is running, from the last completed requests.

use crate::dense::MAX_WIDTH;
use crate::features::MAX_INPUTS;
use crate::{FeatureSet, History, ModelError, Network};

/// Largest number of classes.
pub const MAX_CLASSES: usize = 16;

/// A workload classifier ready for use. It never changes, so threads may share it.
#[derive(Clone, Debug, PartialEq)]
pub struct Classifier {
    pub(crate) net: Network,
    pub(crate) features: FeatureSet,
    pub(crate) classes: Vec<String>,
    /// Outputs are divided by it before they become probabilities.
    pub(crate) temperature: f32,
}

impl Classifier {
    /// A classifier of a network for [`FeatureSet::Window`] or [`FeatureSet::WindowWithLatency`].
    pub fn new(
        net: Network,
        features: FeatureSet,
        classes: Vec<String>,
        temperature: f32,
    ) -> Result<Classifier, ModelError> {
        if !matches!(features, FeatureSet::Window | FeatureSet::WindowWithLatency) || net.inputs() != features.inputs()
        {
            return Err(ModelError::Shape(format!("not those of a classifier for `{}` inputs", features.name())));
        }
        if classes.len() < 2 || classes.len() > MAX_CLASSES || classes.len() != net.outputs() {
            return Err(ModelError::Shape("a classifier has 2 to 16 classes, and an output for each".to_owned()));
        }
        if !(temperature > 0.0 && temperature.is_finite()) {
            return Err(ModelError::Description(format!("`temperature` is {temperature}; it is above 0")));
        }
        Ok(Classifier { net, features, classes, temperature })
    }

    /// Names of the workloads, in the order of [`Posterior::probabilities`].
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The probability of each workload after the last completion; `None` while fewer than 16 requests have completed.
    pub fn posterior(&self, history: &History) -> Option<Posterior> {
        let mut row = [0.0; MAX_INPUTS];
        let count = history.window(self.features, &mut row)?;
        Some(self.posterior_of(&row[..count]))
    }

    /// The probability of each workload for a row of inputs.
    pub fn posterior_of(&self, row: &[f32]) -> Posterior {
        let mut outputs = [0.0; MAX_WIDTH];
        self.net.forward(row, &mut outputs);
        Posterior::softmax(&outputs[..self.classes.len()], self.temperature)
    }
}

/// A probability for each class, or the mean of several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Posterior {
    probabilities: [f32; MAX_CLASSES],
    classes: usize,
}

impl Posterior {
    /// The same probability for each of `classes`.
    pub fn uniform(classes: usize) -> Posterior {
        let classes = classes.clamp(1, MAX_CLASSES);
        let mut probabilities = [0.0; MAX_CLASSES];
        probabilities[..classes].fill(1.0 / classes as f32);
        Posterior { probabilities, classes }
    }

    /// From a network's outputs. If one is not a number, all probabilities are equal.
    pub fn softmax(outputs: &[f32], temperature: f32) -> Posterior {
        let classes = outputs.len().min(MAX_CLASSES);
        let highest = outputs.iter().fold(f32::NEG_INFINITY, |highest, &x| highest.max(x));
        let mut probabilities = [0.0; MAX_CLASSES];
        let mut sum = 0.0;
        for (p, &x) in probabilities.iter_mut().zip(outputs) {
            *p = libm::expf((x - highest) / temperature);
            sum += *p;
        }
        if !sum.is_finite() || sum <= 0.0 {
            return Posterior::uniform(classes);
        }
        probabilities.iter_mut().for_each(|p| *p /= sum);
        Posterior { probabilities, classes }
    }

    /// The mean of several; `None` of none.
    pub fn mean(posteriors: &[Posterior]) -> Option<Posterior> {
        let mut mean = Posterior { probabilities: [0.0; MAX_CLASSES], ..*posteriors.first()? };
        for posterior in posteriors {
            for (sum, p) in mean.probabilities.iter_mut().zip(&posterior.probabilities) {
                *sum += p / posteriors.len() as f32;
            }
        }
        Some(mean)
    }

    /// One probability per class; they sum to 1.
    pub fn probabilities(&self) -> &[f32] {
        &self.probabilities[..self.classes]
    }

    /// The most probable class, the first of equals, and its probability.
    pub fn most_probable(&self) -> (usize, f32) {
        let mut best = (0, self.probabilities[0]);
        for (class, &p) in self.probabilities().iter().enumerate() {
            if p > best.1 {
                best = (class, p);
            }
        }
        best
    }
}
