//! `compare`: the matrix of devices, schedulers and replicates, and which is best.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use dumbwaiter_devices::DeviceModel;
use dumbwaiter_scenario::{Completion, Scenario};
use dumbwaiter_schedulers::Choice;
use dumbwaiter_sim::{Cell, Control, Prepared};
use rayon::prelude::*;

use crate::args::Compare;
use crate::{Ended, experiment, on, output, progress, results};

/// Builds the scenario, runs it, prints and writes what came out.
pub(crate) fn run(args: &Compare) -> Result<Ended> {
    let (scenario, warnings) = experiment::scenario_of(args)?;
    if args.print_config {
        output::print(&scenario.to_toml())?;
        return Ok(Ended::Done);
    }
    if let Some(path) = &args.on {
        return on::run(args, path, &scenario, warnings);
    }
    if let Some(log) = &args.power.power_log {
        bail!("--power-log {}: is for runs on a real drive (--on); a simulation has no time of day", log.display());
    }
    let devices: Vec<DeviceModel> =
        scenario.devices.iter().map(|name| dumbwaiter_devices::load(name)).collect::<Result<_, _>>()?;
    let choices = experiment::choices_of(&scenario)?;
    results::check_outputs(&args.outputs, &experiment::inputs(args))?;
    let prepared = Prepared::new(&scenario)?;
    let (cells, interrupted) = simulate(args, &scenario, &prepared, &devices, &choices)?;
    if cells.is_empty() {
        bail!("interrupted before the first run was finished");
    }
    let fits = |cell: &Cell| cell.result.requests > 0 || cell.skipped.is_empty();
    let (cells, unused): (Vec<Cell>, Vec<Cell>) = cells.into_iter().partition(fits);
    let unused = unused_notes(&unused);
    if cells.is_empty() {
        bail!("{}; expected some: choose a device on which they fit, or see --fit", unused.join("; "));
    }
    let mut skipped = skipped_notes(&cells);
    let ends = cells.iter().map(|cell| (&cell.result, cell.oldest));
    skipped.extend(results::starved_notes(ends, |run| format!("{}, {}", run.device, run.scheduler)));
    let mut notes = warnings;
    notes.extend(shallow_notes(&scenario, &devices));
    notes.extend(prepared.notes().iter().cloned());
    notes.extend(skipped);
    notes.extend(unused);
    if interrupted {
        let planned = devices.len() * choices.len() * scenario.completion.len() * scenario.replicates as usize;
        notes.push(format!("interrupted: {} of {planned} runs finished", cells.len()));
    }
    let runs = cells.into_iter().map(|c| c.result).collect();
    let document = results::document(args, &scenario, runs, notes)?;
    results::write_all(&args.outputs, &document)?;
    Ok(if interrupted { Ended::Interrupted } else { Ended::Done })
}

/// What the traces had to leave out: the same in every run of a device, so the first run of each tells.
fn skipped_notes(cells: &[Cell]) -> Vec<String> {
    let mut by_device: BTreeMap<&str, &Cell> = BTreeMap::new();
    for cell in cells {
        by_device.entry(&cell.result.device).or_insert(cell);
    }
    let notes = by_device.iter().flat_map(|(device, cell)| {
        cell.skipped
            .iter()
            .map(move |(reason, count)| format!("{device}: {} records: {reason}", output::grouped(*count)))
    });
    notes.collect()
}

/// Devices that no request could use: nothing is to be said of their schedulers.
fn unused_notes(cells: &[Cell]) -> Vec<String> {
    let mut by_device: BTreeMap<&str, &Cell> = BTreeMap::new();
    for cell in cells {
        by_device.entry(&cell.result.device).or_insert(cell);
    }
    let told = |cell: &Cell| {
        let reasons =
            cell.skipped.iter().map(|(reason, count)| format!("{} records: {reason}", output::grouped(*count)));
        reasons.collect::<Vec<_>>().join(", ")
    };
    by_device.iter().map(|(device, cell)| format!("{device}: no request reached it ({})", told(cell))).collect()
}

/// Devices that hold fewer commands than the scenario would give them.
fn shallow_notes(scenario: &Scenario, devices: &[DeviceModel]) -> Vec<String> {
    let wanted = scenario.queue_depth.unwrap_or(0);
    let shallow = devices.iter().filter(|d| d.facts().depth < wanted);
    shallow
        .map(|d| format!("{} holds {} commands: a queue depth of {wanted} is cut to that", d.name(), d.facts().depth))
        .collect()
}

/// Runs every cell, in parallel, and collects the finished ones in the order of the matrix.
fn simulate(
    args: &Compare,
    scenario: &Scenario,
    prepared: &Prepared<'_>,
    devices: &[DeviceModel],
    choices: &[Choice],
) -> Result<(Vec<Cell>, bool)> {
    let control = Arc::new(Control::default());
    progress::cancel_on_signal(&control)?;
    let mut matrix: Vec<(&DeviceModel, &Choice, Completion, u32)> = Vec::new();
    for device in devices {
        for choice in choices {
            for method in &scenario.completion {
                matrix.extend((0..scenario.replicates).map(|r| (device, choice, *method, r)));
            }
        }
    }
    let mut pool = rayon::ThreadPoolBuilder::new();
    if let Some(jobs) = args.jobs {
        if jobs == 0 {
            bail!("--jobs 0: expected at least 1");
        }
        pool = pool.num_threads(jobs);
    }
    let pool = pool.build().context("cannot start worker threads")?;
    let runs = matrix.len() as u64;
    let total = prepared.expected().map(|each| each.0.saturating_mul(runs));
    let done = AtomicU64::new(0);
    let results: Vec<Option<Result<Cell, dumbwaiter_sim::Error>>> =
        progress::watch(&control, runs, total, &done, || {
            pool.install(|| {
                matrix
                    .par_iter()
                    .with_max_len(1)
                    .map(|(device, choice, method, replicate)| {
                        if control.cancel.load(Ordering::Relaxed) {
                            return None;
                        }
                        let cell = prepared.run_as(device, choice, *method, *replicate, &control);
                        done.fetch_add(1, Ordering::Relaxed);
                        Some(cell)
                    })
                    .collect()
            })
        });
    let mut cells = Vec::new();
    for result in results.into_iter().flatten() {
        let cell = result?;
        if !cell.cancelled {
            cells.push(cell);
        }
    }
    Ok((cells, control.cancel.load(Ordering::Relaxed)))
}
