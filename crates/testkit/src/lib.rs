//! For tests: a tiny world that drives a scheduler by hand.
#![forbid(unsafe_code)]
