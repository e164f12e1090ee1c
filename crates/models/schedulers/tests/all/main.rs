//! Properties of every scheduler, worked examples, and the one of the documentation.

mod adaptive;
mod anticipatory;
mod conformance;
mod control;
mod example;
mod fair_queueing;
mod lifecycle;
mod rejection;
mod scenarios;
mod sjf;
mod timelines;

// The documentation's scheduler names them as a file of the crate does.
use dumbwaiter_schedulers::mechanisms;
