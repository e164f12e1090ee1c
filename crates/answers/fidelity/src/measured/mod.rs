//! Predictions beside what others measured on real drives.
//!
//! [`measured`] reads a table of jobs, a grid of rates, or fio's own results, runs the same jobs in a world that simulates, and
//! answers each row. [`MeasuredSummary`] has the errors by scheduler and by kind of load, [`CaseVerdict`] what a comparison would
//! have recommended.

mod answer;
mod case;
mod csv;
mod error_table;
mod fio_results;
mod fit;
mod grid_table;
mod host;
mod isolation_table;
mod jobs_table;
mod kind;
mod predicted;
mod scenario;
mod summary;
mod verdicts;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use dumbwaiter_advise::DriveClass;
use dumbwaiter_devices::Kind;
use dumbwaiter_experiment::{
    About, Cell, CellResult, Concurrency, Control, Failure, FailureKind, Finished, Matrix, Refusal, Stack, World,
};
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::Host;
use dumbwaiter_scenario::load::Prepared;

pub use answer::{Compared, MeasuredAgainst};
use case::{Case, Figures, Length};
pub use case::{Clipped, Figures as MeasuredFigures};
pub use error_table::error_table;
pub use fit::{
    FitOptions, FittedDevice, FittedHost, FittedParameter, HostFitOptions, KEPT_BACK, fit, fit_host, fit_host_to_table,
};
pub use host::{device_of, host};
pub use kind::LoadKind;
pub use summary::{Errors, Group, MeasuredSummary, Order};
pub use verdicts::{CaseVerdict, Outcome};

/// How to run the jobs of a table.
#[derive(Clone, Debug)]
pub struct MeasuredOptions {
    /// The model that stands for each figure's drives: by the figure's name, or for all others.
    pub devices: Vec<(Option<String>, String)>,
    /// The host.
    pub host: Host,
    /// Measured time of each run, s; `None` for what significance needs.
    pub seconds: Option<f64>,
    /// Warm-up of each run, s; `None` for a part of the measured time.
    pub warmup: Option<f64>,
    /// Part of the usual number of I/Os in each run, 0 to 1: less is faster, and less exact.
    pub effort: f64,
    /// Runs of each case, with seeds of their own.
    pub replicates: u32,
    /// The figures to answer; empty for all.
    pub figures: Vec<String>,
    /// Verdicts by condition.
    pub verdicts: bool,
    /// The scheduler under which fio's results were measured, which they do not say.
    pub scheduler: String,
}

/// Every row answered.
#[derive(Clone, Debug)]
pub struct MeasuredAnswers {
    /// One for each row of a table, in the order of the cases; of a grid one for each cell.
    pub rows: Vec<MeasuredAgainst>,
    /// The verdicts, where they were asked for.
    pub verdicts: Vec<CaseVerdict>,
    /// Errors and order.
    pub summary: MeasuredSummary,
    /// Fewer than all runs were made.
    pub cancelled: bool,
}

/// What JSON lists: an answered row, or a verdict.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(untagged)]
pub enum MeasuredEntry<'a> {
    /// A row.
    Row(&'a MeasuredAgainst),
    /// A verdict on a condition.
    Verdict(&'a CaseVerdict),
}

impl MeasuredAnswers {
    /// All rows, and behind them the verdicts.
    pub fn entries(&self) -> Vec<MeasuredEntry<'_>> {
        let rows = self.rows.iter().map(MeasuredEntry::Row);
        rows.chain(self.verdicts.iter().map(MeasuredEntry::Verdict)).collect()
    }
}

/// Why nothing was compared.
#[derive(Debug, thiserror::Error)]
pub enum MeasuredError {
    /// A file cannot be read.
    #[error("{path}: {cause}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// A line is not as expected.
    #[error("{path}:{line}: {what}")]
    Row {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Column, value and what was expected.
        what: String,
    },
    /// Nothing in the files can be answered.
    #[error("{0}")]
    Nothing(String),
}

/// Runs what was measured, and compares. `source` is a table, or results of fio joined by commas, which ran together.
///
/// # Errors
/// A file that cannot be read, or a cell of it that is wrong. What cannot be run is in the answer with the reason.
pub fn measured(
    source: &str,
    options: &MeasuredOptions,
    world: &dyn World,
    control: &Control,
) -> Result<MeasuredAnswers, MeasuredError> {
    chosen(read(source, &options.scheduler)?, source, options, world, control)
}

/// [`measured`], of a table that is a text in memory; errors name `origin`.
///
/// # Errors
/// A cell that is wrong.
pub fn measured_text(
    text: &str,
    origin: &str,
    options: &MeasuredOptions,
    world: &dyn World,
    control: &Control,
) -> Result<MeasuredAnswers, MeasuredError> {
    let table = csv::Table::parse(Path::new(origin), text)?;
    chosen(of_table(&table)?, origin, options, world, control)
}

/// Answers the cases of the figures that were asked for.
fn chosen(
    mut cases: Vec<Case>,
    source: &str,
    options: &MeasuredOptions,
    world: &dyn World,
    control: &Control,
) -> Result<MeasuredAnswers, MeasuredError> {
    if !options.figures.is_empty() {
        let unknown = options.figures.iter().find(|name| !cases.iter().any(|case| is_of(case, name)));
        if let Some(name) = unknown {
            return Err(MeasuredError::Nothing(format!(
                "{source}: it has no figure `{name}`; expected {}",
                names(&cases)
            )));
        }
        cases.retain(|case| options.figures.iter().any(|name| is_of(case, name)));
    }
    Ok(answer(&cases, options, world, control))
}

/// Is a case of this figure, or of one of its parts: `1` names 1a and 1b.
fn is_of(case: &Case, name: &str) -> bool {
    let rest = case.figure.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.len() == 1 && rest.chars().all(|c| c.is_ascii_lowercase()))
}

fn names(cases: &[Case]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for case in cases {
        if !names.contains(&case.figure.as_str()) {
            names.push(&case.figure);
        }
    }
    names.join(", ")
}

fn read(source: &str, scheduler: &str) -> Result<Vec<Case>, MeasuredError> {
    let paths: Vec<PathBuf> = source.split(',').filter(|part| !part.is_empty()).map(PathBuf::from).collect();
    let is_json = |path: &PathBuf| path.extension().is_some_and(|end| end.eq_ignore_ascii_case("json"));
    if paths.iter().all(is_json) && !paths.is_empty() {
        return Ok(vec![fio_results::case(&paths, scheduler)?]);
    }
    of_table(&csv::Table::open(Path::new(source))?)
}

fn of_table(table: &csv::Table) -> Result<Vec<Case>, MeasuredError> {
    let path = table.path();
    let cases = if table.has(&jobs_table::COLUMNS) {
        jobs_table::cases(table)?
    } else if table.has(&grid_table::COLUMNS) {
        grid_table::cases(table)?
    } else if table.has(&isolation_table::COLUMNS) {
        isolation_table::cases(table)?
    } else {
        let known = [&jobs_table::COLUMNS[..], &grid_table::COLUMNS, &isolation_table::COLUMNS];
        let known = known.map(|columns| columns.join(", ")).join(", or ");
        return Err(csv::at(path, 1, format!("columns of no table that is known; expected {known}")));
    };
    if cases.is_empty() {
        return Err(csv::at(path, 1, "the table has no rows; expected at least one"));
    }
    Ok(cases)
}

/// A case with its cells in a matrix, or why it has none.
struct Planned {
    cells: Vec<usize>,
    device: Option<String>,
    class: Option<DriveClass>,
    length: Length,
    reason: Option<String>,
}

fn answer(cases: &[Case], options: &MeasuredOptions, world: &dyn World, control: &Control) -> MeasuredAnswers {
    let tolerant = Tolerant { world, reasons: Mutex::default() };
    let mut cells = Vec::new();
    let planned: Vec<Planned> = cases.iter().map(|case| plan(case, options, world, &mut cells)).collect();
    let mut matrix = Matrix::new(cells);
    let cancelled = matrix.run(&tolerant, control) == Finished::Cancelled;
    let reasons = tolerant.reasons.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut rows = Vec::new();
    let mut runs = Vec::new();
    for (case, plan) in cases.iter().zip(&planned) {
        let of_case: Vec<RunResult> =
            plan.cells.iter().filter_map(|cell| Some(matrix.result(*cell)?.run.clone())).collect();
        let failed = plan.cells.iter().find_map(|cell| reasons.get(&variant(*cell)).cloned());
        let missing = || (of_case.is_empty()).then(|| "the runs were ended before it".to_owned());
        let reason = plan.reason.clone().or(failed).or_else(missing);
        for row in &case.rows {
            let mut answer = MeasuredAgainst::of(case, row, kind::of(case, options.host.cpus));
            answer.device = plan.device.clone();
            answer.class = plan.class;
            answer.reason = reason.clone();
            if reason.is_none() {
                let each = of_case.iter().map(|run| predicted::figures(case, run, row.part)).collect::<Vec<_>>();
                answer.figures = Compared::of(row.figures, mean(&each));
                answer.seconds = Some(plan.length.seconds);
            }
            rows.push(answer);
        }
        runs.push(if reason.is_none() { of_case } else { Vec::new() });
    }
    let classes: Vec<Option<DriveClass>> = planned.iter().map(|plan| plan.class).collect();
    let verdicts = if options.verdicts { verdicts::verdicts(cases, &runs, &classes) } else { Vec::new() };
    MeasuredAnswers { summary: summary::summary(&rows), rows, verdicts, cancelled }
}

fn variant(cell: usize) -> String {
    cell.to_string()
}

/// Puts the runs of a case into the list.
fn plan(case: &Case, options: &MeasuredOptions, world: &dyn World, cells: &mut Vec<Cell>) -> Planned {
    let own = scenario::length(case, options.effort);
    let seconds = options.seconds.unwrap_or(own.seconds);
    let of_own = own.warmup_s / own.seconds * seconds;
    let length = Length { seconds, warmup_s: options.warmup.unwrap_or(of_own) };
    let named = options.devices.iter().find(|(name, _)| name.as_deref() == Some(case.figure.as_str()));
    let device =
        named.or_else(|| options.devices.iter().find(|(name, _)| name.is_none())).map(|(_, device)| device.clone());
    let class = device.as_deref().and_then(class_of);
    let mut planned = Planned { cells: Vec::new(), device: device.clone(), class, length, reason: None };
    let Some(device) = device else {
        planned.reason = Some(format!("no model stands for its drive; expected --device {}=MODEL", case.figure));
        return planned;
    };
    match cells_of(case, &device, options, length, world) {
        Ok(own) => {
            for cell in own {
                let number = cells.len();
                planned.cells.push(number);
                cells.push(Cell { variant: variant(number), ..cell });
            }
        }
        Err(reason) => planned.reason = Some(reason),
    }
    planned
}

fn class_of(device: &str) -> Option<DriveClass> {
    Some(match dumbwaiter_devices::load(device).ok()?.kind() {
        Kind::Ssd | Kind::Ull => DriveClass::Flash,
        Kind::Hdd => DriveClass::Disk,
        Kind::Volume => DriveClass::Volume,
        Kind::Null => return None,
    })
}

fn cells_of(
    case: &Case,
    device: &str,
    options: &MeasuredOptions,
    length: Length,
    world: &dyn World,
) -> Result<Vec<Cell>, String> {
    let scenario = scenario::scenario(case, device, &options.host, length, options.replicates)?;
    let load = Arc::new(Prepared::new(&scenario).map_err(|error| error.to_string())?);
    let first = Cell::of(&load, device, Stack::Simulated, scenario.schedulers[0].clone());
    world.supports(&first).map_err(|refusal| refusal.to_string())?;
    // A job that does not fit the device is found now.
    if let Some(sectors) = world.capacity_sectors(device) {
        load.load(scenario.seed, sectors, scenario.host.cpus).map_err(|error| error.to_string())?;
    }
    Ok((0..options.replicates.max(1)).map(|replicate| Cell { replicate, ..first.clone() }).collect())
}

/// The mean of each figure over the runs that have it.
fn mean(each: &[Figures]) -> Figures {
    let of = |value: fn(&Figures) -> Option<f64>| {
        let known: Vec<f64> = each.iter().filter_map(value).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    Figures {
        iops: of(|f| f.iops),
        mb_s: of(|f| f.mb_s),
        mean_us: of(|f| f.mean_us),
        p50_us: of(|f| f.p50_us),
        p95_us: of(|f| f.p95_us),
        p99_us: of(|f| f.p99_us),
        cpu_us: of(|f| f.cpu_us),
    }
}

/// A world that remembers why a run failed, by the variant of its cell.
struct Tolerant<'a> {
    world: &'a dyn World,
    reasons: Mutex<BTreeMap<String, String>>,
}

impl World for Tolerant<'_> {
    fn about(&self) -> About {
        self.world.about()
    }

    fn concurrency(&self) -> Concurrency {
        self.world.concurrency()
    }

    fn capacity_sectors(&self, device: &str) -> Option<u64> {
        self.world.capacity_sectors(device)
    }

    fn supports(&self, cell: &Cell) -> Result<(), Refusal> {
        self.world.supports(cell)
    }

    fn run(&self, cell: &Cell, control: &Control) -> Result<CellResult, Failure> {
        let result = self.world.run(cell, control);
        if let Err(failure) = &result
            && failure.kind != FailureKind::Interrupted
        {
            let mut reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
            reasons.insert(cell.variant.clone(), failure.to_string());
        }
        result
    }
}

#[cfg(test)]
mod tests;
