//! The same case with several seeds.

use dumbwaiter_measure::{RunResult, median};
use dumbwaiter_scenario::Scenario;

use crate::device::{Work, rounds};
use crate::{Case, Effort, Error, Progress};

/// What the replicates of one case gave.
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

/// Runs every case so many times, on the models or for real, and answers in the order of the cases. On a real device there
/// may be fewer runs or none of a case, and its notes say why.
pub(crate) fn measured(
    cases: &[Case],
    replicates: u32,
    effort: &Effort<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Vec<Runs>, Vec<String>), Error> {
    if let Some(device) = effort.device {
        let work: Vec<Work<'_>> = cases.iter().map(Work::Case).collect();
        return Ok(rounds(device, &work, replicates, progress));
    }
    let all: Vec<Case> =
        cases.iter().flat_map(|case| (0..replicates).map(|replicate| Case { replicate, ..case.clone() })).collect();
    let mut runs = effort.simulate(&all, progress)?.into_iter();
    let runs = cases.iter().map(|_| Runs(runs.by_ref().take(replicates as usize).collect())).collect();
    Ok((runs, Vec::new()))
}

/// The same for figures that only the models can give.
pub(crate) fn replicated(
    cases: &[Case],
    replicates: u32,
    effort: &Effort<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<Runs>, Error> {
    Ok(measured(cases, replicates, effort, progress)?.0)
}

/// A case of a scenario's text, a device and a scheduler.
pub(crate) fn case(text: &str, device: &str, scheduler: &str) -> Result<Case, Error> {
    let scenario = Scenario::from_toml(text, "experiment").map_err(|e| Error::Case(e.to_string()))?;
    Ok(Case { scenario, device: device.to_owned(), scheduler: scheduler.to_owned(), replicate: 0 })
}

/// Tenants of these weights, each with its own load (an application) in a partition of 50 GB of its own.
pub(crate) fn partitions(head: &str, tenants: &[(u32, &str)]) -> String {
    let mut text = format!("{head}\n");
    for (i, (weight, app)) in tenants.iter().enumerate() {
        text += &format!(
            "[[tenant]]\nname = \"{}-{weight}\"\nweight = {}\n[[tenant.task]]\nname = \"{app}\"\napp = \"{app}\"\n\
             offset = \"{}GB\"\nsize = \"50GB\"\n",
            i + 1,
            weight * 100,
            i * 50,
        );
    }
    text
}
