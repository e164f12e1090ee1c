//! The same case with several seeds.

use std::sync::Arc;

use dumbwaiter_experiment::{Cell, Failure, Finished, Matrix, Stack};
use dumbwaiter_measure::{RunResult, median};
use dumbwaiter_scenario::load::Prepared;
use dumbwaiter_scenario::{Scenario, SchedulerSpec};

use crate::{Case, Effort, Error};

/// Results of the replicates of one case.
#[derive(Clone, Debug)]
pub(crate) struct Runs(pub(crate) Vec<RunResult>);

impl Runs {
    /// The median of a figure; what is not defined counts as endless.
    pub(crate) fn median(&self, of: impl Fn(&RunResult) -> f64) -> f64 {
        median(self.0.iter().map(of).collect())
    }

    /// The largest of a figure.
    pub(crate) fn most(&self, of: impl Fn(&RunResult) -> f64) -> f64 {
        self.0.iter().map(of).fold(f64::NEG_INFINITY, f64::max)
    }

    /// The mean of a figure; `None` without a run, or where it is not defined.
    pub(crate) fn mean(&self, of: impl Fn(&RunResult) -> f64) -> Option<f64> {
        let mean = self.0.iter().map(of).sum::<f64>() / self.0.len() as f64;
        mean.is_finite().then_some(mean)
    }

    /// A figure of each run.
    pub(crate) fn each(&self, of: impl Fn(&RunResult) -> f64) -> Vec<f64> {
        self.0.iter().map(of).collect()
    }

    /// Proportionality variation; endless where the lightest tenant got nothing.
    pub(crate) fn pv(&self) -> f64 {
        self.median(|r| r.fairness.pv)
    }

    /// MB/s.
    pub(crate) fn mb_per_s(&self) -> f64 {
        self.median(|r| r.mb_per_s)
    }

    /// A counter of the scheduler.
    pub(crate) fn counter(&self, name: &str) -> f64 {
        self.median(|r| r.scheduler_counters.get(name).copied().unwrap_or(f64::NAN))
    }
}

/// Runs every case `replicates` times and returns the runs in the order of the cases. A real device may refuse or miss some:
/// then there are fewer runs of a case or none, and the notes say why.
pub(crate) fn measured(
    cases: &[Case],
    replicates: u32,
    effort: &Effort<'_>,
) -> Result<(Vec<Runs>, Vec<String>), Error> {
    let stack = effort.world.about().stacks.last().copied().unwrap_or(Stack::Simulated);
    let mut cells = Vec::new();
    for case in cases {
        let load = Arc::new(Prepared::new(&case.scenario).map_err(Failure::from)?);
        let scheduler = SchedulerSpec::parse(&case.scheduler).map_err(Error::Case)?;
        let completion = case.scenario.completion.first().copied().unwrap_or_default();
        cells.push(Cell { completion, ..Cell::of(&load, &case.device, stack, scheduler) });
    }
    run(&cells, replicates, effort)
}

/// The same for cells.
pub(crate) fn run(cells: &[Cell], replicates: u32, effort: &Effort<'_>) -> Result<(Vec<Runs>, Vec<String>), Error> {
    let each = |cell: &Cell| (0..replicates).map(|replicate| Cell { replicate, ..cell.clone() }).collect::<Vec<_>>();
    let (results, notes) = run_each(cells.iter().flat_map(each).collect(), effort)?;
    let mut results = results.into_iter();
    let runs = cells.iter().map(|_| Runs(results.by_ref().take(replicates as usize).flatten().collect())).collect();
    Ok((runs, notes))
}

/// Runs each cell as it is, and returns what came of it. `None`: a real device refused or missed it, and the notes say why.
pub(crate) fn run_each(cells: Vec<Cell>, effort: &Effort<'_>) -> Result<(Vec<Option<RunResult>>, Vec<String>), Error> {
    let real = effort.real();
    let mut notes: Vec<String> = Vec::new();
    let mut note = |text: String| {
        if !notes.contains(&text) {
            notes.push(text);
        }
    };
    let mut runs: Vec<Option<RunResult>> = vec![None; cells.len()];
    let (mut able, mut origin) = (Vec::new(), Vec::new());
    for (i, cell) in cells.into_iter().enumerate() {
        match effort.world.supports(&cell) {
            Ok(()) => {
                able.push(cell);
                origin.push(i);
            }
            Err(refusal) if real => {
                let what = if cell.prepared().is_some() { "left out" } else { "skipped" };
                note(format!("{what}: {refusal}"));
            }
            Err(refusal) => return Err(Error::Case(refusal.0)),
        }
    }
    let planned = able.len();
    let mut matrix = Matrix::new(able);
    match matrix.run(effort.world, effort.control) {
        Finished::All => {}
        Finished::Cancelled if real => {}
        Finished::Cancelled => return Err(Error::Cancelled),
        Finished::Failed(failure) if real => {
            note(format!("ended by a failure: {failure}"));
            effort.fail(failure);
        }
        Finished::Failed(failure) => return Err(failure.into()),
    }
    let mut finished = 0;
    for (cell, origin) in origin.into_iter().enumerate() {
        // A run that failed shows nothing.
        let Some(result) = matrix.result(cell).filter(|result| result.failure.is_none()) else { continue };
        finished += 1;
        if real && result.run.completed == 0 {
            note(format!("{}: a run finished no I/O at all; its latency is not known", result.run.scheduler));
        }
        result.notes.iter().filter(|_| real).for_each(|text| note(text.clone()));
        runs[origin] = Some(result.run.clone());
    }
    if finished < planned {
        note(format!("ended early: {finished} of {planned} runs finished"));
    }
    Ok((runs, notes))
}

/// [`measured`] for figures that only the models can give.
pub(crate) fn replicated(cases: &[Case], replicates: u32, effort: &Effort<'_>) -> Result<Vec<Runs>, Error> {
    Ok(measured(cases, replicates, effort)?.0)
}

/// A case of a scenario's text, a device and a scheduler.
pub(crate) fn case(text: &str, device: &str, scheduler: &str) -> Result<Case, Error> {
    let scenario = Scenario::from_toml(text, "experiment").map_err(|e| Error::Case(e.to_string()))?;
    Ok(Case { scenario, device: device.to_owned(), scheduler: scheduler.to_owned() })
}

/// Tenants of these weights, each with its own load (an application) in a partition of 50 GB of its own.
pub(crate) fn partitions(head: &str, tenants: &[(u32, &str)]) -> String {
    partitions_after(None, head, tenants)
}

/// The same after `boot`, the options of a task that each tenant runs first.
pub(crate) fn partitions_after(boot: Option<&str>, head: &str, tenants: &[(u32, &str)]) -> String {
    let mut text = format!("{head}\n");
    for (i, (weight, app)) in tenants.iter().enumerate() {
        let place = format!("offset = \"{}GB\"\nsize = \"50GB\"\n", i * 50);
        text += &format!("[[tenant]]\nname = \"{}-{weight}\"\nweight = {}\n", i + 1, weight * 100);
        if let Some(boot) = boot {
            text += &format!("[[tenant.task]]\nname = \"boot\"\n{boot}{place}");
        }
        let stage = u32::from(boot.is_some());
        text += &format!("[[tenant.task]]\nname = \"{app}\"\nstage = {stage}\napp = \"{app}\"\n{place}");
    }
    text
}
