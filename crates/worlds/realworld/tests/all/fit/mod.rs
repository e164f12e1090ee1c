//! Surveys of models and of real targets, and their fits.

mod models;
mod targets;
