//! Worlds on real files and loop devices, as a library's users call them.

mod drive;
mod engine;
mod fit;
mod kernel;
mod served;

use std::sync::Arc;

use dumbwaiter_experiment::{Cell, Stack};
use dumbwaiter_realworld::{DeviceOptions, EnergySource};
use dumbwaiter_scenario::load::Prepared;
use dumbwaiter_scenario::{Scenario, SchedulerSpec};

const READS: &str = r#"
schedulers = ["none", "mq-deadline"]
replicates = 1
[[tenant]]
name = "a"
[[tenant.task]]
name = "t"
rw = "randread"
time_based = false
size = "1m"
iodepth = 4
"#;

fn load(text: &str) -> Arc<Prepared> {
    let scenario = Scenario::from_toml(text, "test").unwrap();
    Arc::new(Prepared::new(&scenario).unwrap())
}

fn cell(load: &Arc<Prepared>, stack: Stack, scheduler: &str) -> Cell {
    Cell::of(load, "ignored", stack, SchedulerSpec::named(scheduler))
}

fn options() -> DeviceOptions {
    DeviceOptions { energy: EnergySource::None, ..DeviceOptions::default() }
}

/// A folder in memory where there is one.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}
