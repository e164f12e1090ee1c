//! `compare`: the matrix of devices, schedulers and replicates, and which is best.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, anyhow, bail};
use dumbwaiter_block::Nanos;
use dumbwaiter_devices::DeviceModel;
use dumbwaiter_measure::RunResult;
use dumbwaiter_report::{Document, compare_text, write_html, write_parquet};
use dumbwaiter_scenario::{Completion, Scenario, SchedulerSpec, TraceOptions};
use dumbwaiter_schedulers::{Choice, REGISTRY};
use dumbwaiter_sim::{Cell, Control, Prepared};
use dumbwaiter_workloads::traces::{self, Format};
use dumbwaiter_workloads::units;
use rayon::prelude::*;

use crate::args::{Compare, Outputs};
use crate::input::{self, Kind};
use crate::{Ended, on, output, progress};

/// Builds the scenario, runs it, prints and writes what came out.
pub(crate) fn run(args: &Compare) -> Result<Ended> {
    let (scenario, warnings) = scenario_of(args)?;
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
    let choices = choices_of(&scenario)?;
    check_outputs(&args.outputs, &inputs(args))?;
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
    skipped.extend(starved_notes(&cells));
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
    let document = document(args, &scenario, runs, notes)?;
    write_all(&args.outputs, &document)?;
    Ok(if interrupted { Ended::Interrupted } else { Ended::Done })
}

/// The files that a comparison reads.
pub(crate) fn inputs(args: &Compare) -> Vec<&Path> {
    args.input.iter().chain(&args.on).map(PathBuf::as_path).collect()
}

/// Can everything be written that was asked for, beside what is read?
pub(crate) fn check_outputs(args: &Outputs, inputs: &[&Path]) -> Result<()> {
    output::check_files(args.json.as_deref(), args.html.as_deref(), inputs)?;
    if let Some(dir) = &args.parquet {
        output::check_folder(dir)?;
    }
    Ok(())
}

pub(crate) fn write_all(args: &Outputs, document: &Document) -> Result<()> {
    let to_stdout = args.json.as_deref().is_some_and(output::is_stdout);
    let json = || args.json.as_ref().map_or(Ok(()), |path| output::write_text(path, &document.to_json()));
    // Files first, and each whatever becomes of the others: what is on stdout is lost with its reader.
    let mut done = Vec::new();
    if let Some(path) = &args.html {
        done.push((write_html(document, path).map_err(Into::into), path, "report"));
    }
    if let Some(dir) = &args.parquet {
        done.push((write_parquet(document, dir).map_err(Into::into), dir, "Parquet tables"));
    }
    if let Some(path) = args.json.as_ref().filter(|_| !to_stdout) {
        done.push((json(), path, "JSON"));
    }
    let printed = if to_stdout {
        document.notes.iter().for_each(|note| crate::tell!("note: {note}"));
        json()
    } else {
        output::print(&compare_text(document, output::style()))
    };
    for (written, path, what) in done {
        written?;
        story(path, what);
    }
    printed
}

fn story(path: &Path, what: &str) {
    if !output::is_stdout(path) {
        crate::tell!("{what} written to {}", path.display());
    }
}

pub(crate) fn document(
    args: &Compare,
    scenario: &Scenario,
    runs: Vec<RunResult>,
    notes: Vec<String>,
) -> Result<Document> {
    let versions = BTreeMap::from([("dumbwaiter".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]);
    let title = if scenario.name.is_empty() { "comparison" } else { &scenario.name };
    let mut document = Document::new(title, serde_json::to_value(scenario)?, versions, runs, args.goal.into());
    document.notes = notes;
    Ok(document)
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

/// Schedulers that left an I/O waiting for twice as long as any that they finished: its latency is in no figure.
fn starved_notes(cells: &[Cell]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for cell in cells {
        let run = &cell.result;
        let place = format!("{}, {}: ", run.device, run.scheduler);
        if !notes.iter().any(|n| n.starts_with(&place)) {
            notes.extend(starved(run, cell.oldest).map(|told| place + &told));
        }
    }
    notes
}

/// What is to be told of an I/O that had waited for so long at the end of a run, if that is worth it.
pub(crate) fn starved(run: &RunResult, oldest: Nanos) -> Option<String> {
    let longest = run.latency_us.max.max(0.0);
    let count = run.ledger.outstanding;
    (oldest.as_us_f64() > 2.0 * longest)
        .then(|| format!("{count} I/Os were not finished at the end, one had waited {oldest}; no latency counts them"))
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

pub(crate) fn choices_of(scenario: &Scenario) -> Result<Vec<Choice>> {
    let mut choices: Vec<Choice> = Vec::new();
    for spec in &scenario.schedulers {
        let choice = Choice::parse(&spec.to_string())?;
        if choices.iter().any(|c| c.label() == choice.label()) {
            bail!("scheduler `{}` is named twice", choice.label());
        }
        choices.push(choice);
    }
    Ok(choices)
}

fn scenario_of(args: &Compare) -> Result<(Scenario, Vec<String>)> {
    let kind = input::kind_of_all(&args.input)?;
    if kind != Some(Kind::Trace)
        && let Some(option) = args.of_traces()
    {
        bail!("{option}: is for traces; give a trace, or leave it out");
    }
    let (mut scenario, warnings) = match kind {
        None if args.on.is_some() => (Scenario::builtin_real(), Vec::new()),
        None => (Scenario::builtin(), Vec::new()),
        Some(Kind::Scenario) => Scenario::load(&args.input[0])?,
        Some(Kind::FioJob) => {
            let path = args.input[0].display().to_string();
            let text = std::fs::read_to_string(&args.input[0]).with_context(|| path.clone())?;
            Scenario::from_fio(&text, &path, &|name| std::env::var(name).ok())?
        }
        Some(Kind::Trace) => {
            // The files of a blktrace capture, one a CPU, are one trace; others are traces of their own.
            let one_capture = args.input.len() > 1 && all_blktrace(&args.input);
            let name = |p: &PathBuf| {
                let text = p.to_str().map(str::to_owned);
                text.ok_or_else(|| {
                    anyhow!("{}: the name is not UTF-8, as names in a scenario are; give a link", p.display())
                })
            };
            let mut paths = args.input.iter().map(name).collect::<Result<Vec<String>>>()?;
            let parts = if one_capture { paths.split_off(1) } else { Vec::new() };
            let options = TraceOptions {
                format: args.reading.format.clone(),
                columns: args.reading.columns.clone(),
                speed: args.replay.speed,
                depth: args.replay.depth,
                closed_per_task: args.replay.closed_per_task,
                limit: None,
                fit: args.replay.fit.clone(),
                arrival: args.reading.arrival.clone(),
                assume_bytes: args.reading.assume_bytes,
                parts,
            };
            let mut scenario = Scenario::from_trace(&paths, options);
            scenario.replicates = 1;
            (scenario, Vec::new())
        }
    };
    apply(args, &mut scenario)?;
    let known_scheduler = |name: &str| Choice::parse(name).map(|_| ()).map_err(|e| e.to_string());
    let known_device = |name: &str| dumbwaiter_devices::load(name).map(|_| ()).map_err(|e| e.to_string());
    scenario.validate(&known_scheduler, &known_device)?;
    Ok((scenario, warnings))
}

fn all_blktrace(paths: &[std::path::PathBuf]) -> bool {
    let is_blktrace = |path| {
        let opened = traces::open(&[path], &traces::Options::default());
        opened.is_ok_and(|reader| reader.format() == Format::Blktrace)
    };
    paths.iter().all(is_blktrace)
}

/// Flags win over the file.
fn apply(args: &Compare, scenario: &mut Scenario) -> Result<()> {
    if !args.device.is_empty() {
        scenario.devices = args.device.clone();
    }
    match args.schedulers.as_deref() {
        None => {}
        Some("all") => scenario.schedulers = REGISTRY.iter().map(|e| SchedulerSpec::named(e.name)).collect(),
        Some(list) => {
            scenario.schedulers = SchedulerSpec::parse_list(list).map_err(|e| anyhow!("--schedulers: {e}"))?;
        }
    }
    if !args.completion.is_empty() {
        let methods = args.completion.iter().map(|m| m.parse::<Completion>());
        scenario.completion = methods.collect::<Result<_, _>>().map_err(|e| anyhow!("--completion: {e}"))?;
    }
    if let Some(depth) = args.queue_depth {
        scenario.queue_depth = Some(depth);
    }
    if let Some(n) = args.nr_requests {
        scenario.nr_requests = Some(n);
    }
    if let Some(text) = &args.duration {
        scenario.duration = Some(time("--duration", text)?);
    }
    if let Some(text) = &args.warmup {
        scenario.warmup = time("--warmup", text)?;
    }
    if let Some(limit) = args.limit {
        scenario.limit = Some(limit);
    }
    if let Some(replicates) = args.replicates {
        scenario.replicates = replicates;
    }
    if let Some(seed) = args.seed {
        scenario.seed = seed;
    }
    Ok(())
}

pub(crate) fn time(flag: &str, text: &str) -> Result<Nanos> {
    units::time(text, units::BareTime::Seconds).map_err(|e| anyhow!("{flag}: {e}"))
}
