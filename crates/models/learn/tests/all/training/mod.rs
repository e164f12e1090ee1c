//! Tests of reading data, rows of inputs, training, and the shipped models.

mod data;
mod samples;
mod shipped;
mod train;
