//! Mean signature and class of a load over a whole run, from which a table's rows are made.

use dumbwaiter_learn::{MAX_CLASSES, Posterior};

use crate::switching::signature::Signature;

/// Means over all observations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    looks: u64,
    load: [f64; 4],
    /// Sum and number of observations in which it was known.
    outstanding: (f64, u64),
    readings: u64,
    classes: [f64; MAX_CLASSES],
}

impl Observed {
    pub(crate) fn add_load(&mut self, load: &Signature) {
        self.looks += 1;
        self.load.iter_mut().zip(&load.parts).for_each(|(sum, part)| *sum += part);
        if let Some(outstanding) = load.outstanding {
            self.outstanding = (self.outstanding.0 + outstanding, self.outstanding.1 + 1);
        }
    }

    pub(crate) fn add_classes(&mut self, posterior: &Posterior) {
        self.readings += 1;
        self.classes.iter_mut().zip(posterior.probabilities()).for_each(|(sum, p)| *sum += f64::from(*p));
    }

    /// The mean signature; `None` before the first observation.
    pub fn load(&self) -> Option<Signature> {
        let (outstanding, known) = self.outstanding;
        let outstanding = (known > 0).then(|| outstanding / known as f64);
        (self.looks > 0).then(|| Signature { parts: self.load.map(|sum| sum / self.looks as f64), outstanding })
    }

    /// The classifier's mean posterior over 16 classes, zeros for those that it lacks; `None` before the first reading.
    pub fn classes(&self) -> Option<[f64; MAX_CLASSES]> {
        (self.readings > 0).then(|| self.classes.map(|sum| sum / self.readings as f64))
    }
}
