//! A scenario whose traces were surveyed.

use std::collections::BTreeMap;

use dumbwaiter_block::Nanos;
use dumbwaiter_scenario::{Scenario, Work};
use dumbwaiter_traces::Survey;

use crate::build::{self, Host, Load};
use crate::error::Error;
use crate::trace;

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
        let mut prepared = Prepared { scenario: scenario.clone(), surveys: BTreeMap::new(), notes: Vec::new() };
        for (_, task) in scenario.tasks() {
            if let Work::Trace(spec) = &task.work {
                trace::fit(spec)?;
                let key = trace::survey_key(spec);
                if !prepared.surveys.contains_key(&key) {
                    let mut reader = trace::open(spec)?;
                    let survey = Survey::of(&mut reader, spec.options.limit)?;
                    prepared.notes.extend(reader.notes().iter().map(|n| format!("{}: {n}", spec.path)));
                    prepared.surveys.insert(key, survey);
                }
            }
        }
        Ok(prepared)
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

    /// The load of one run on a device of `capacity_sectors` (512 bytes each) and a host of `cpus`.
    ///
    /// # Errors
    /// A job that does not fit the device, or a trace that cannot be opened again.
    pub fn load(&self, seed: u64, capacity_sectors: u64, cpus: u16) -> Result<Load, Error> {
        build::load(&self.scenario, &self.surveys, Host { seed, capacity_sectors, cpus })
    }
}
