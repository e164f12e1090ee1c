//! Which workload is running, from the last completed requests.

use crate::dense::MAX_WIDTH;
use crate::features::{HISTORY, MAX_INPUTS, SIZE_CLASSES, VECTOR};
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
    /// Input for the size class of the file of most requests in the training data; `None` if they had no tags.
    pub(crate) usual_size: Option<f32>,
    /// Whether requests without a tag count as such ones.
    pub(crate) fills_tags: bool,
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
        Ok(Classifier { net, features, classes, temperature, usual_size: None, fills_tags: false })
    }

    /// The same for a source that knows no tags of files: requests without a tag count as data of the most usual file of the training
    /// data. A network that has never seen requests without a tag would otherwise be no better than chance.
    pub fn filling_tags(self) -> Classifier {
        Classifier { fills_tags: true, ..self }
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
        let usual = self.usual_size.filter(|_| self.fills_tags && row.len() == self.features.inputs());
        match usual {
            None => self.net.forward(row, &mut outputs),
            Some(size) => {
                let mut filled = [0.0; MAX_INPUTS];
                filled[..row.len()].copy_from_slice(row);
                fill_tags(&mut filled[..row.len()], size);
                self.net.forward(&filled[..row.len()], &mut outputs);
            }
        }
        Posterior::softmax(&outputs[..self.classes.len()], self.temperature)
    }
}

/// The tag inputs of a request, within its vector, and that of them which is the size class of its file.
const TAG_INPUTS: std::ops::Range<usize> = VECTOR - 4..VECTOR;
const SIZE_CLASS: usize = VECTOR - 1;

/// Gives each request of a window that has no tag the size class of a file.
fn fill_tags(row: &mut [f32], size: f32) {
    for request in row.chunks_exact_mut(row.len() / HISTORY) {
        if request[TAG_INPUTS].iter().all(|input| *input == 0.0) {
            request[SIZE_CLASS] = size;
        }
    }
}

/// The input for the size class of most requests, by the means of the inputs of a window.
pub(crate) fn usual_size(means: &[f32]) -> Option<f32> {
    let width = means.len() / HISTORY;
    let requests = means.chunks_exact(width.max(VECTOR)).take(HISTORY);
    let (sizes, no_data) = requests.fold((0.0, 0.0), |(sizes, no_data), request| {
        // Metadata, and the journal.
        (sizes + request[SIZE_CLASS], no_data + request[TAG_INPUTS.start] + request[TAG_INPUTS.start + 1])
    });
    let of_data = sizes / (HISTORY as f32 - no_data).max(1.0);
    let class = libm::roundf(of_data * SIZE_CLASSES);
    (class >= 1.0).then_some(class.min(SIZE_CLASSES) / SIZE_CLASSES)
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

#[cfg(test)]
mod tests {
    use dumbwaiter_block::{Nanos, Op};

    use super::*;
    use crate::{RequestVector, shipped};
    use dumbwaiter_block::IoTag;

    #[test]
    fn requests_without_a_tag_count_as_data_of_the_usual_file_where_that_is_asked_for() {
        let classifier = shipped::model("classifier").unwrap().unwrap().classifier().unwrap();
        let filling = classifier.clone().filling_tags();
        let posterior = |classifier: &Classifier, tag: IoTag| {
            let mut history = History::new();
            for i in 0..16i64 {
                // One journal write among reads.
                let (op, tag) = if i == 5 { (Op::Write, IoTag::JOURNAL) } else { (Op::Read, tag) };
                history.push(RequestVector::new(op, 4096, tag), 7919 * (i - 8), Nanos::from_us(100));
            }
            classifier.posterior(&history).unwrap()
        };
        let usual = IoTag::parse("FILE_64MB").unwrap();
        assert_eq!(posterior(&filling, IoTag::UNKNOWN), posterior(&classifier, usual));
        assert_eq!(posterior(&filling, IoTag::FILE_4KB), posterior(&classifier, IoTag::FILE_4KB), "a known tag stays");
        assert_ne!(posterior(&classifier, IoTag::UNKNOWN), posterior(&classifier, usual));
        assert_eq!(usual_size(&[0.0; 112]), None);
    }
}
