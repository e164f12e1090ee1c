//! What must hold of every scheduler, worked examples, and the one of the documentation.

mod conformance;
mod control;
mod example;
mod lifecycle;
mod scenarios;
mod sjf;
mod timelines;

// The documentation's scheduler names them as a file of the crate does.
use dumbwaiter_schedulers::mechanisms;
