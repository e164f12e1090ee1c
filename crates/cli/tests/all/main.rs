//! The command from outside.

mod architecture;
mod cli;
mod common;
mod energy;
mod host;
mod inputs;
mod interrupts;
mod pasted;
mod pilot;
mod real;
mod real_bench;
mod real_edges;
mod real_kernel;
mod real_recommend;
mod real_reproduce;
mod real_tune;
mod real_verify;
mod serve;
mod suite;
mod verdict;
