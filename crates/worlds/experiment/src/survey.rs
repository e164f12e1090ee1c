//! A survey of a drive: which scheduler to set, within a given time, by loads that only read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dumbwaiter_advise::completion::{self, DEPTHS, Methods, compare_methods};
use dumbwaiter_advise::race::Race;
use dumbwaiter_advise::{self as advise, Advice, Goal, Metric};
use dumbwaiter_block::Nanos;
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::load::Prepared;
use dumbwaiter_scenario::{Completion, Scenario, SchedulerSpec};

use crate::plan::{self, OVERHEAD, Plan};
use crate::{Cell, Control, Failure, FailureKind, Stack, World, io_cost_reads};

/// Rounds of the completion methods.
const METHOD_ROUNDS_MIN: u32 = 3;
const METHOD_ROUNDS_MAX: u32 = 6;
/// A shorter run says little of a median.
const METHOD_LENGTH_MIN: Nanos = Nanos::from_ms(400);

/// The drive that a survey is about, as the system describes it.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Its path, as it was given.
    pub path: String,
    /// Name of the disk in sysfs.
    pub disk: String,
    /// How a udev rule matches it.
    pub udev_match: String,
    /// The scheduler that is set.
    pub current: String,
    /// The schedulers to try, the current one among them.
    pub schedulers: Vec<SchedulerSpec>,
    /// Schedulers of Linux that this kernel does not offer for it.
    pub not_loaded: Vec<&'static str>,
    /// Can the kernel poll it, and why or what that needs.
    pub polling: (bool, String),
    /// What stands before the scheduler, in a sentence.
    pub in_force: String,
    /// Whether the kernel could share the drive by io.cost, whose model is measured then.
    pub offers_io_cost: bool,
    /// Load average of the machine.
    pub load: f64,
    /// CPUs of the machine.
    pub cpus: f64,
}

/// A load of the survey.
#[derive(Clone, Debug)]
pub struct SurveyLoad {
    /// Its name in the results.
    pub name: &'static str,
    /// Its description.
    pub about: &'static str,
    /// The figure to show of it.
    pub metric: Metric,
}

/// The result of a survey.
pub struct Surveyed {
    /// The recommendation.
    pub advice: Advice,
    /// The loads, the deciding one first.
    pub loads: Vec<SurveyLoad>,
    /// Why it ended before its time, if a run failed.
    pub failure: Option<Failure>,
}

/// What io.cost's model takes of the time of a survey, and the least time that has room for it.
const IO_COST_TIME: Nanos = Nanos::from_secs(10);
const LEAST_WITH_IO_COST: Nanos = Nanos::from_secs(60);

/// Tries the schedulers of `subject` in `world` within `budget`, and says what to set. Nothing is written.
pub fn recommend(
    subject: &Subject,
    budget: Nanos,
    goal: Goal,
    world: &dyn World,
    control: &Control,
) -> Result<Surveyed, Failure> {
    let has_time = subject.offers_io_cost && budget >= LEAST_WITH_IO_COST;
    let budget = if has_time { budget.since(IO_COST_TIME) } else { budget };
    let plan = plan::plan(budget, subject.schedulers.len(), subject.polling.0)?;
    let race = Race {
        points: plan.points.iter().map(|p| p.name).collect(),
        schedulers: subject.schedulers.iter().map(ToString::to_string).collect(),
        current: subject.current.clone(),
        goal,
    };
    let mut survey = Runs {
        world,
        control,
        device: &subject.path,
        began: Instant::now(),
        end: Duration::from_nanos(plan.race.0),
        results: Vec::new(),
        failure: None,
    };
    survey.race(&race, &plan, &subject.schedulers)?;
    let decision = race.decide(&survey.results);
    survey.end = Duration::from_nanos(budget.0);
    let pick = |pick: &String| {
        let found = subject.schedulers.iter().find(|spec| spec.to_string() == *pick);
        found.ok_or_else(|| Failure::refused(format!("`{pick}` was not tried")))
    };
    let picked = decision.as_ref().map(|decision| pick(&decision.pick)).transpose()?;
    let methods = picked.map(|picked| survey.methods(picked, plan.completion, &subject.polling)).transpose()?;
    let unhindered = survey.failure.is_none() && !control.cancelled();
    let model = (has_time && unhindered && decision.is_some()).then(|| io_cost_reads(&subject.path, world, control));
    let interrupted = control.cancelled();
    let mut notes: Vec<String> = survey.failure.iter().map(|failure| format!("ended early: {failure}")).collect();
    let concluded = world.conclude(&mut survey.results, control);
    let Some((decision, methods)) = decision.zip(methods) else {
        return Err(no_decision(survey.failure, interrupted, budget, &subject.current));
    };
    notes.extend(concluded?);
    notes.push(subject.in_force.clone());
    notes.extend(model.map(|model| model_note(&subject.path, model)));
    let scenarios: serde_json::Map<String, serde_json::Value> =
        plan.points.iter().filter_map(|p| Some((p.name.to_owned(), serde_json::to_value(&p.scenario).ok()?))).collect();
    let found = advise::Survey {
        path: &subject.path,
        disk: &subject.disk,
        udev_match: &subject.udev_match,
        schedulers: &subject.schedulers,
        not_loaded: subject.not_loaded.clone(),
        load: subject.load,
        cpus: subject.cpus,
        interrupted,
        seconds: survey.began.elapsed().as_secs_f64(),
        scenarios: scenarios.into(),
        race: &race,
        decision,
        methods,
        notes,
    };
    let advice = advise::advice(found, survey.results);
    let loads = plan.points.iter().map(|p| SurveyLoad { name: p.name, about: p.about, metric: p.metric });
    Ok(Surveyed { advice, loads: loads.collect(), failure: survey.failure })
}

fn no_decision(failure: Option<Failure>, interrupted: bool, budget: Nanos, current: &str) -> Failure {
    match failure {
        Some(failure) => failure,
        None if interrupted => Failure::interrupted("interrupted too early to give a recommendation"),
        None => Failure::refused(format!(
            "--for: {budget} ended before the current scheduler, `{current}`, had run twice; expected more time"
        )),
    }
}

fn model_note(path: &str, model: Result<String, Failure>) -> String {
    match model {
        Ok(model) => format!(
            "io.cost's model of this drive, as far as reads tell: {model}; all of it: devices io-cost --on {path} --destroy {path}"
        ),
        Err(failure) => format!("io.cost's model of this drive was not measured: {failure}"),
    }
}

/// Runs, one after the other, until the time is over.
struct Runs<'a> {
    world: &'a dyn World,
    control: &'a Control,
    device: &'a str,
    began: Instant,
    /// No run begins that would end later.
    end: Duration,
    results: Vec<RunResult>,
    failure: Option<Failure>,
}

impl Runs<'_> {
    fn race(&mut self, race: &Race, plan: &Plan, schedulers: &[SchedulerSpec]) -> Result<(), Failure> {
        let loads: Vec<_> = plan.points.iter().map(|p| Prepared::new(&p.scenario).map(Arc::new)).collect();
        let loads: Vec<Arc<Prepared>> = loads.into_iter().collect::<Result<_, _>>()?;
        for round in 0.. {
            let heats = race.next(&self.results);
            for heat in &heats {
                for i in 0..heat.schedulers.len() {
                    // Each round starts with another scheduler, so that a drift of the device favours no place in the order.
                    let spec = &schedulers[heat.schedulers[(i + round) % heat.schedulers.len()]];
                    let cell = Cell {
                        replicate: round as u32,
                        variant: plan.points[heat.point].name.to_owned(),
                        ..Cell::of(&loads[heat.point], self.device, Stack::Kernel, spec.clone())
                    };
                    if !self.one(&cell)? {
                        return Ok(());
                    }
                }
            }
            if heats.is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Compares the completion methods under `spec` in the time that is left.
    fn methods(&mut self, spec: &SchedulerSpec, length: Nanos, polling: &(bool, String)) -> Result<Methods, Failure> {
        let length = length.max(METHOD_LENGTH_MIN);
        let mut cells = Vec::new();
        for depth in DEPTHS {
            let load = Arc::new(Prepared::new(&plan::reads_of_4k(depth, length)?)?);
            cells.push([Completion::Interrupt, Completion::Poll, Completion::Hybrid].map(|completion| Cell {
                completion,
                variant: completion::point(depth),
                ..Cell::of(&load, self.device, Stack::Kernel, spec.clone())
            }));
        }
        // A device that went away supports none; the survey has reported that it did.
        let able: Vec<usize> = (0..3).filter(|method| self.world.supports(&cells[0][*method]).is_ok()).collect();
        let round = |depths: usize| Duration::from_nanos((length + OVERHEAD).0) * (depths * able.len()) as u32;
        let left = self.end.saturating_sub(self.began.elapsed());
        let depths = (1..=DEPTHS.len()).rev().find(|n| round(*n) * METHOD_ROUNDS_MIN <= left).unwrap_or(0);
        let mut compared = Vec::new();
        if able.len() > 1 {
            'rounds: for number in 0..METHOD_ROUNDS_MAX {
                // A round that could not be finished would favour its first methods.
                if self.began.elapsed() + round(depths) > self.end {
                    break;
                }
                for cells in &cells[..depths] {
                    for i in 0..able.len() {
                        let method = able[(i + number as usize) % able.len()];
                        if !self.one(&Cell { replicate: number, ..cells[method].clone() })? {
                            break 'rounds;
                        }
                    }
                }
            }
            compared = able.iter().map(|method| cells[0][*method].completion.to_string()).collect();
        }
        Ok(compare_methods(&self.results, &compared, (polling.0, &polling.1)))
    }

    /// One run; `false` where there is no time for it, or no use in more.
    fn one(&mut self, cell: &Cell) -> Result<bool, Failure> {
        let length = cell.scenario().map_or(Nanos::ZERO, |s: &Scenario| s.warmup + s.duration.unwrap_or(Nanos::ZERO));
        let due = self.began.elapsed() + Duration::from_nanos((length + OVERHEAD).0);
        if self.failure.is_some() || self.control.cancelled() || due > self.end {
            return Ok(false);
        }
        let result = match crate::matrix::run_one(cell, self.world, self.control) {
            // Results from before the failure are kept.
            Err(failure) if !self.results.is_empty() || failure.kind != FailureKind::Refused => {
                self.failure = (failure.kind != FailureKind::Interrupted).then(|| failure.of(cell));
                return Ok(false);
            }
            result => result?,
        };
        self.failure = result.failure;
        if self.failure.is_some() || result.cancelled {
            return Ok(false);
        }
        self.results.push(result.run);
        Ok(true)
    }
}
