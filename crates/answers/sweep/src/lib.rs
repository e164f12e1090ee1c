//! Sweeps: grids of experiments that outgrow one call of `compare`.
//!
//! A [`Sweep`] is a scenario and axes. A cell of its grid is one run, known by a key: a hash of the fully resolved scenario, the
//! device's parameters, the seed and [`MODEL`]. [`run_cells`] makes a table of some cells; [`run`] makes all that a folder lacks
//! and writes them into it as a Parquet data set. What spreads cells over other machines calls the same functions.
#![forbid(unsafe_code)]

mod axis;
mod cell;
mod error;
mod estimate;
mod file;
mod folder;
mod grid;
mod key;
mod model;
mod part;
mod pending;
mod plotted;
mod report;
mod run;
mod sweep;
mod table;

pub use axis::{Axis, AxisKind};
pub use cell::SweepCell;
pub use error::Error;
pub use estimate::{Estimate, estimate};
pub use file::read_base;
pub use folder::{Folder, MANIFEST, check_manifest, manifest};
pub use key::Key;
pub use model::MODEL;
pub use part::{part_keys, part_name};
pub use pending::{Done, Pending};
pub use plotted::{Plotted, axis_label, in_order, plotted, plotted_parts};
pub use report::write_report;
pub use run::{BatchSize, Finished, Progress, run};
pub use sweep::Sweep;
pub use table::{Batch, run_cells};
