//! A whole comparison: from an experiment to the ranked document.

use std::collections::BTreeMap;

use std::ops::Range;
use std::sync::Arc;

use dumbwaiter_advise::{Document, DriveKind, Provenance};
use dumbwaiter_measure::{RunResult, grouped, latency_text};
use dumbwaiter_scenario::SchedulerSpec;
use dumbwaiter_scenario::load::Prepared;

use crate::classes::default_scheduler;
use crate::left_out;
use crate::models::models;
use crate::until::Look;
use crate::{About, Cell, CellResult, Control, Experiment, Failure, Finished, Matrix, Until, World};

/// A comparison's document, and how the runs ended.
pub struct Comparison {
    /// Results, ranking, recommendation and remarks.
    pub document: Document,
    /// How the runs ended.
    pub ending: Ending,
}

/// How the runs of a comparison ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every run was made.
    Complete,
    /// [`Control::cancel`] ended them; the document has those that were finished.
    Interrupted,
    /// One failed; the document has those that were finished before.
    Failed(Failure),
}

/// Compares the schedulers of an experiment in a world. An error where not a single run was finished.
pub fn compare(experiment: &Experiment, world: &dyn World, control: &Control) -> Result<Comparison, Failure> {
    let scenario = &experiment.scenario;
    let about = world.about();
    let load = Arc::new(Prepared::unless(scenario, &|| control.cancelled())?);
    let left_out = left_out::check(&load, world, &about, control)?;
    let (cells, refusals) = supported(cells(experiment, &load, &about, 0..scenario.replicates), world)?;
    let mut matrix = Matrix::new(cells);
    let restored = experiment.restore(&mut matrix);
    let (ending, until) = run(experiment, &load, &about, &mut matrix, world, control)?;
    let planned = matrix.cells().len();
    let results = matrix.into_results(world.concurrency());
    let finished = results.len();
    let (used, unused): (Vec<CellResult>, Vec<CellResult>) =
        results.into_iter().partition(|r| r.run.requests > 0 || r.skipped.is_empty());
    let mut runs: Vec<RunResult> = used.iter().map(|r| r.run.clone()).collect();
    let concluded = world.conclude(&mut runs, control);
    if used.is_empty() {
        return Err(none_finished(&unused, ending));
    }
    let mut notes = experiment.notes.clone();
    if !about.real {
        notes.extend(experiment.drives.iter().map(|drive| simulated_note(drive, scenario)));
    }
    notes.extend(about.notes.iter().cloned());
    notes.extend(incumbent_notes(experiment, &about));
    notes.extend(refusals);
    notes.extend(load.notes.iter().cloned());
    let ended_early = match ending {
        Ending::Complete => None,
        Ending::Interrupted => Some("interrupted"),
        Ending::Failed(_) => Some("ended early"),
    };
    if restored > 0 {
        notes.push(format!("{restored} runs are those of an earlier result (--resume)"));
    }
    notes.extend(ended_early.map(|why| format!("{why}: {finished} of {planned} runs finished")));
    notes.extend(notes_of_cells(&used));
    notes.extend(unused_notes(&unused));
    // A failure to complete the figures does not hide that of a run.
    let (added, ending) = match (concluded, ending) {
        (Ok(added), ending) => (added, ending),
        (Err(failure), Ending::Complete) => (Vec::new(), Ending::Failed(failure)),
        (Err(failure), ending) => (vec![failure.reason], ending),
    };
    notes.extend(added);
    let mut document = described(experiment, &about, runs)?;
    if let Some(look) = until {
        document.until = Some(look.found);
        notes.extend(look.note);
    }
    if let (Some(machine), Some(after)) = (&mut document.provenance.machine, world.about().machine) {
        machine.load_after = after.load_before;
    }
    document.decide();
    document.warnings = left_out;
    document.notes = notes;
    Ok(Comparison { document, ending })
}

/// The document of an experiment's runs, with its conditions.
fn described(experiment: &Experiment, about: &About, runs: Vec<RunResult>) -> Result<Document, Failure> {
    let mut scenario = experiment.scenario.clone();
    // Of a real drive the scenario's models say nothing.
    if let Some(device) = &about.device {
        scenario.devices = vec![device.clone()];
    }
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let provenance = Provenance {
        version: version.clone(),
        command: experiment.command.clone(),
        machine: about.machine.clone(),
        drive: about.drive.clone(),
        models: if about.real { BTreeMap::new() } else { models(&scenario.devices) },
        classes: if about.real { BTreeMap::new() } else { experiment.asked.classes.clone() },
        inputs: crate::inputs::hashes(&scenario),
        ..Provenance::default()
    };
    let versions = BTreeMap::from([("dumbwaiter".to_owned(), version)]);
    let title = if scenario.name.is_empty() { "comparison" } else { &scenario.name };
    let value = serde_json::to_value(&scenario).map_err(Failure::refused)?;
    let asked = &experiment.asked;
    let mut document = Document::new(title, value, versions, runs, experiment.goal);
    (document.rate, document.incumbent) = (asked.rate, asked.incumbent.clone());
    Ok(document.with_provenance(provenance))
}

/// Makes the runs, and more replicates until the decision is settled where that is asked for.
fn run(
    experiment: &Experiment,
    load: &Arc<Prepared>,
    about: &About,
    matrix: &mut Matrix,
    world: &dyn World,
    control: &Control,
) -> Result<(Ending, Option<Look>), Failure> {
    let mut replicates = experiment.scenario.replicates;
    let mut looks = experiment.until.map(Until::begin);
    let mut last = None;
    loop {
        match matrix.run(world, control) {
            Finished::All => {}
            Finished::Cancelled => return Ok((Ending::Interrupted, last)),
            Finished::Failed(failure) => return Ok((Ending::Failed(failure), last)),
        }
        let Some(looks) = &mut looks else { return Ok((Ending::Complete, None)) };
        let runs = matrix.results().map(|result| result.run.clone()).collect();
        let look = looks.next(&mut described(experiment, about, runs)?, replicates);
        match look.next {
            None => return Ok((Ending::Complete, Some(look))),
            Some(next) => {
                let (more, _) = supported(cells(experiment, load, about, replicates..next), world)?;
                matrix.add(more);
                experiment.restore(matrix);
                replicates = next;
                last = Some(look);
            }
        }
    }
}

/// What is set on a device, beside which the others are compared, where it is not among those of the scenario. A single scheduler is
/// measured, and compared with nothing.
fn incumbent(experiment: &Experiment, about: &About, device: &str) -> Option<SchedulerSpec> {
    let scenario = &experiment.scenario;
    let name = match (&experiment.asked.incumbent, about.real, &about.drive) {
        (Some(name), ..) => name.clone(),
        (None, true, Some(drive)) => drive.scheduler.clone(),
        (None, true, None) => return None,
        (None, false, _) => default_scheduler(device),
    };
    let spec = SchedulerSpec::parse(&name).ok()?;
    let is_wanted = experiment.asked.incumbent.is_some() || scenario.schedulers.len() > 1;
    (is_wanted && !scenario.schedulers.contains(&spec)).then_some(spec)
}

/// The devices of an experiment in such a world.
fn devices(experiment: &Experiment, about: &About) -> Vec<String> {
    match &about.device {
        Some(own) => vec![own.clone()],
        None => experiment.scenario.devices.clone(),
    }
}

/// What runs although nobody named it: what is set on a device.
fn incumbent_notes(experiment: &Experiment, about: &About) -> Vec<String> {
    if experiment.asked.incumbent.is_some() {
        return Vec::new();
    }
    let mut added: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for device in devices(experiment, about) {
        if let Some(set) = incumbent(experiment, about, &device) {
            added.entry(set.to_string()).or_default().push(device);
        }
    }
    let set = if about.real { "it is set on" } else { "the kernel sets it by itself on" };
    let note = |(name, on): (&String, &Vec<String>)| {
        format!("{name} runs too: {set} {}, and the others are compared with what is set", on.join(", "))
    };
    added.iter().map(note).collect()
}

/// Every run that the scenario asks for in such a world: devices, stacks, schedulers, completion methods, replicates. What is set runs
/// too.
fn cells(experiment: &Experiment, load: &Arc<Prepared>, about: &About, replicates: Range<u32>) -> Vec<Cell> {
    let scenario = load.scenario();
    let devices = devices(experiment, about);
    let mut cells = Vec::new();
    for device in &devices {
        let set = incumbent(experiment, about, device);
        for stack in &about.stacks {
            for scheduler in scenario.schedulers.iter().chain(&set) {
                for completion in &scenario.completion {
                    let cell = Cell { completion: *completion, ..Cell::of(load, device, *stack, scheduler.clone()) };
                    cells.extend(replicates.clone().map(|replicate| Cell { replicate, ..cell.clone() }));
                }
            }
        }
    }
    cells
}

/// The cells that the world runs, and remarks on what it refuses. What runs on another stack instead is not missed.
fn supported(cells: Vec<Cell>, world: &dyn World) -> Result<(Vec<Cell>, Vec<String>), Failure> {
    let mut refused: Vec<(Cell, String)> = Vec::new();
    let mut able = Vec::new();
    for cell in cells {
        match world.supports(&cell) {
            Ok(()) => able.push(cell),
            Err(refusal) => refused.push((cell, refusal.0)),
        }
    }
    let replaced = |cell: &Cell| {
        able.iter().any(|other| {
            other.stack != cell.stack && other.scheduler == cell.scheduler && other.completion == cell.completion
        })
    };
    let mut reasons: Vec<String> = Vec::new();
    for (cell, reason) in &refused {
        if !replaced(cell) && !reasons.contains(reason) {
            reasons.push(reason.clone());
        }
    }
    if able.is_empty() {
        return Err(Failure::refused(reasons.join("; ")));
    }
    Ok((able, reasons))
}

/// A fio job names a drive: what ran instead, and how to run it there.
fn simulated_note(drive: &str, scenario: &dumbwaiter_scenario::Scenario) -> String {
    let is_nvme = |kind: &DriveKind| *kind == DriveKind::Nvme;
    let other_kind = drive.starts_with("/dev/nvme") && !models(&scenario.devices).values().any(is_nvme);
    let kind = if other_kind { " (for NVMe drives: -d nvme)" } else { "" };
    format!("filename={drive}: simulated on {}{kind}; for the drive itself: --on {drive}", scenario.devices.join(", "))
}

fn none_finished(unused: &[CellResult], ending: Ending) -> Failure {
    match ending {
        Ending::Failed(failure) => failure,
        _ if !unused.is_empty() => Failure::refused(format!(
            "{}; expected some: choose a device on which they fit, or see --fit",
            unused_notes(unused).join("; ")
        )),
        Ending::Complete => Failure::refused("the experiment has no runs: expected at least one replicate"),
        Ending::Interrupted => Failure::interrupted("interrupted before the first run was finished"),
    }
}

/// Remarks of the runs, each once; then what traces had to leave out, and I/Os that starved.
fn notes_of_cells(results: &[CellResult]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for note in results.iter().flat_map(|result| &result.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    // The same in every run of a device.
    for result in first_of_each_device(results) {
        let device = &result.run.device;
        notes.extend(result.skipped.iter().map(|(reason, n)| format!("{device}: {} records: {reason}", grouped(*n))));
    }
    notes.extend(starved_notes(results));
    notes
}

fn first_of_each_device(results: &[CellResult]) -> impl Iterator<Item = &CellResult> {
    let mut by_device: BTreeMap<&str, &CellResult> = BTreeMap::new();
    for result in results {
        by_device.entry(&result.run.device).or_insert(result);
    }
    by_device.into_values()
}

/// Devices that no request reached: nothing can be said of their schedulers.
fn unused_notes(results: &[CellResult]) -> Vec<String> {
    let unreached = |result: &CellResult| {
        let reasons = result.skipped.iter().map(|(reason, n)| format!("{} records: {reason}", grouped(*n)));
        let reasons: Vec<String> = reasons.collect();
        format!("{}: no request reached it ({})", result.run.device, reasons.join(", "))
    };
    first_of_each_device(results).map(unreached).collect()
}

/// Schedulers that left an I/O waiting for more than twice as long as any that they finished. One remark for each
/// scheduler.
fn starved_notes(results: &[CellResult]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    // Where a run ended early by a failure, that is what there is to say.
    for CellResult { run, .. } in results.iter().filter(|r| r.failure.is_none()) {
        let longest_finished_us = run.latency_cdf.all.us.last().copied().unwrap_or(0.0);
        if run.oldest_unfinished_s * 1e6 <= 2.0 * longest_finished_us {
            continue;
        }
        let place = match run.via.as_str() {
            "sim" => format!("{}, {}: ", run.device, run.scheduler),
            via => format!("{}, {via}: ", run.scheduler),
        };
        if !notes.iter().any(|note| note.starts_with(&place)) {
            let longest = latency_text(run.oldest_unfinished_s * 1e6);
            notes.push(format!(
                "{place}{} I/Os were unfinished at the end (longest wait {longest}); latencies count them as longer than their \
                 waits",
                grouped(run.unfinished)
            ));
        }
    }
    notes
}
