//! A scenario whose traces were surveyed.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Scenario, Work};
use dumbwaiter_block::Nanos;
use dumbwaiter_traces::{Fit, Skipped, Survey};

use crate::load::build::{self, Host, Load};
use crate::load::error::Error;
use crate::load::trace;

/// Records of a trace that runs leave out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The file.
    pub trace: String,
    /// Its records.
    pub records: u64,
    /// Those beyond the end of the device.
    pub beyond: u64,
    /// Those that the reader cannot use, by reason.
    pub unusable: Vec<Skipped>,
    /// The first of those that is a line.
    pub example: Option<String>,
    /// Whether the scenario says how to handle such records.
    pub asked_for: bool,
}

impl LeftOut {
    /// How many records are left out.
    pub fn count(&self) -> u64 {
        self.beyond + self.unusable.iter().map(|s| s.count).sum::<u64>()
    }

    /// The same as a share, 0 to 1.
    pub fn share(&self) -> f64 {
        self.count() as f64 / self.records.max(1) as f64
    }
}

/// A scenario with its traces surveyed, which happens once for all runs.
pub struct Prepared {
    scenario: Scenario,
    surveys: BTreeMap<String, Survey>,
    /// Notes on the traces, for the report.
    pub notes: Vec<String>,
}

impl Prepared {
    /// Surveys every trace of the scenario.
    ///
    /// # Errors
    /// A trace that cannot be read, or an unknown setting of one.
    pub fn new(scenario: &Scenario) -> Result<Prepared, Error> {
        Prepared::unless(scenario, &|| false)
    }

    /// The same, given up once `stopped` answers yes: a survey reads a trace to its end.
    ///
    /// # Errors
    /// As [`Prepared::new`], and [`Error::Interrupted`].
    pub fn unless(scenario: &Scenario, stopped: &dyn Fn() -> bool) -> Result<Prepared, Error> {
        let mut prepared = Prepared { scenario: scenario.clone(), surveys: BTreeMap::new(), notes: Vec::new() };
        for (_, task) in scenario.tasks() {
            if let Work::Trace(spec) = &task.work {
                trace::fit(spec)?;
                let key = trace::survey_key(spec);
                if !prepared.surveys.contains_key(&key) {
                    let mut reader = trace::open(spec)?;
                    let survey = Survey::of(&mut reader, spec.options.limit, stopped)?;
                    prepared.notes.extend(reader.notes().iter().map(|n| format!("{}: {n}", spec.path)));
                    prepared.surveys.insert(key, survey);
                }
            }
        }
        Ok(prepared)
    }

    /// The load of `scenario`, which has the same traces, without surveying them again.
    pub fn varied(&self, scenario: Scenario) -> Prepared {
        Prepared { scenario, surveys: self.surveys.clone(), notes: self.notes.clone() }
    }

    /// Records of traces that a run on a device of `capacity_sectors` leaves out, by trace. Traces of which nothing is left
    /// out are not in it.
    ///
    /// # Errors
    /// A trace that cannot be read again; [`Error::Interrupted`].
    pub fn left_out(&self, capacity_sectors: u64, stopped: &dyn Fn() -> bool) -> Result<Vec<LeftOut>, Error> {
        let mut found: Vec<LeftOut> = Vec::new();
        let mut seen = BTreeSet::new();
        for (_, task) in self.scenario.tasks() {
            let Work::Trace(spec) = &task.work else { continue };
            let key = trace::survey_key(spec);
            let Some(survey) = self.surveys.get(&key).filter(|_| seen.insert(key.clone())) else { continue };
            let beyond = match trace::fit(spec)? {
                Fit::Truncate => {
                    survey.beyond(&mut trace::open(spec)?, spec.options.limit, capacity_sectors, stopped)?
                }
                Fit::Wrap | Fit::Scale | Fit::Grow => 0,
            };
            let unusable: u64 = survey.unusable.iter().map(|s| s.count).sum();
            if beyond + unusable > 0 {
                found.push(LeftOut {
                    trace: spec.path.clone(),
                    records: survey.records + unusable,
                    beyond,
                    unusable: survey.unusable.clone(),
                    example: survey.example.clone(),
                    asked_for: spec.options.fit.is_some(),
                });
            }
        }
        Ok(found)
    }

    /// Sectors that the device needs to hold the traces whose `fit` is `grow`; `None` if there are none.
    pub fn grown_sectors(&self) -> Option<u64> {
        let grown = self.scenario.tasks().filter_map(|(_, task)| match &task.work {
            Work::Trace(spec) if trace::fit(spec).is_ok_and(|fit| fit == Fit::Grow) => {
                self.surveys.get(&trace::survey_key(spec))
            }
            _ => None,
        });
        grown.map(Survey::sectors).max()
    }

    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Whether all of the load is recorded, so that every replicate submits the same I/Os.
    pub fn is_recorded(&self) -> bool {
        self.scenario.tasks().all(|(_, task)| matches!(task.work, Work::Trace(_)))
    }

    /// Length of one run, if it is known before the run.
    pub fn expected(&self) -> Option<Nanos> {
        let s = &self.scenario;
        s.duration.map(|d| d + s.warmup).or_else(|| {
            let mut longest = Some(Nanos::ZERO);
            for (_, task) in s.tasks() {
                let end = match &task.work {
                    _ if task.stop.is_some() => task.stop?,
                    Work::Trace(spec) if spec.options.depth.is_none() && !spec.options.closed_per_task => {
                        let last = self.surveys.get(&trace::survey_key(spec))?.last;
                        Nanos((last.0 as f64 / spec.options.speed.unwrap_or(1.0)) as u64)
                    }
                    Work::Job(job) => job.longest()?,
                    _ => return None,
                };
                longest = longest.map(|l| l.max(task.start.max(end)));
            }
            longest
        })
    }

    /// The load of one run on a device of `capacity_sectors` (512 bytes each) and a host of `cpus`. Buffered jobs share a page
    /// cache.
    ///
    /// # Errors
    /// A job that does not fit the device, or a trace that cannot be opened again.
    pub fn load(&self, seed: u64, capacity_sectors: u64, cpus: u16) -> Result<Load, Error> {
        build::load(&self.scenario, &self.surveys, Host { seed, capacity_sectors, cpus, has_cache: true })
    }

    /// The same for threads that cannot share a page cache: there is one only if the scenario names it.
    ///
    /// # Errors
    /// As [`Prepared::load`].
    pub fn load_uncached(&self, seed: u64, capacity_sectors: u64, cpus: u16) -> Result<Load, Error> {
        build::load(&self.scenario, &self.surveys, Host { seed, capacity_sectors, cpus, has_cache: false })
    }
}
