//! An experiment: the matrix of runs that a scenario describes, run in a world, and its comparison.
//!
//! A [`Cell`] is one run. A [`World`] runs cells: the simulator, our engine on a real device, the kernel's schedulers on
//! the same device. [`compare`] builds the matrix of an [`Experiment`], runs it in any world and returns the ranked
//! document; [`Matrix`] is the loop below it, for those who want the results one by one.
//!
//! The comparison does not know which world it drives.
#![forbid(unsafe_code)]

mod block_layer;
mod cached;
mod cell;
mod classes;
mod command;
mod compare;
mod control;
mod failure;
mod input;
mod inputs;
mod io_cost_parameters;
mod left_out;
mod matrix;
mod models;
mod plan;
mod quoted;
mod resume;
mod scenario_value;
mod score_table;
mod side_by_side;
mod suite;
mod survey;
mod tune;
mod until;
mod world;

pub use block_layer::{BlockDevice, Successor, replacements};
pub use cached::Cached;
pub use cell::{Cell, CellResult, DbBench, Stack, Work};
pub use classes::{CLASSES, models_of};
pub use compare::{Comparison, Ending, compare};
pub use control::{Control, Step};
pub use failure::{Failure, FailureKind, Refusal};
pub use input::{Asked, Experiment, InputKind, Overrides, ReadError, input_kind};
pub use io_cost_parameters::{IoCostParameters, IoCostPlan, Rate, io_cost_parameters, io_cost_reads};
pub use matrix::{Finished, Matrix};
pub use scenario_value::scenario_of_value;
pub use score_table::{TableDevice, TablePlan, score_table};
pub use side_by_side::SideBySide;
pub use suite::{Case, DRIVES, FILLS_PERCENT, Input, compare_all, compare_each};
pub use survey::{Subject, SurveyLoad, Surveyed, recommend};
pub use tune::{Budget, TuneOptions, Tuned, Tuner, TunerTrial, run_trial, tune};
pub use until::Until;
pub use world::{About, Concurrency, World};
