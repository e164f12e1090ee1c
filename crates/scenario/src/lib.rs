//! The one description of an experiment.
#![forbid(unsafe_code)]
