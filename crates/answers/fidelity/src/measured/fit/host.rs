//! The profile of a host fitted to measurements on a drive that is known.
//!
//! Measurements identify only sums of a profile's segments, so what moves is how long work lasts in all, how much a sleep costs,
//! what a hand-over of a lock costs, and each scheduler's hooks.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use dumbwaiter_experiment::{Control, World};
use dumbwaiter_scenario::{Host, HostCosts, Profile, SchedulerNs};
use serde::Serialize;

use super::parameter::FittedParameter;
use super::search::{Parameter, Search, Space, error};
use super::{EFFORT, remarks, split, usable, wanted};
use crate::measured::answer::MeasuredAgainst;
use crate::measured::case::Case;
use crate::measured::csv::Table;
use crate::measured::summary::{Group, summary};
use crate::measured::{MeasuredError, MeasuredOptions, answer, of_table};

/// End of the name of a condition that is to be predicted and not fitted.
pub const KEPT_BACK: &str = "kept back";
/// Range of the parameters that are percent of the base's, and of those that are a time.
const PERCENT: (f64, f64) = (2.0, 5000.0);
const HOOK_NS: (f64, f64) = (10.0, 100_000.0);
/// Queue depth from which a CPU with one process hardly sleeps.
const DEEP: u32 = 16;
const GROUPS: [&str; 4] = ["work_percent", "sleep_percent", "lock_percent", "cold_hooks_percent"];

/// How to fit.
#[derive(Clone, Debug)]
pub struct HostFitOptions {
    /// The host, with the profile from which the fit starts: what nothing determines stays as there.
    pub host: Host,
    /// The model that stands for each figure's drives: by the figure's name, or for all others.
    pub devices: Vec<(Option<String>, String)>,
    /// The figures to use; empty for all.
    pub figures: Vec<String>,
    /// The parameters to move; empty for those that matter.
    pub parameters: Vec<String>,
    /// The scheduler of fio's results.
    pub scheduler: String,
    /// The name of the profile.
    pub name: String,
    /// What its file says of the machine and of how it was measured.
    pub notes: Vec<String>,
}

/// A fitted profile.
#[derive(Clone, Debug, Serialize)]
pub struct FittedHost {
    /// The profile from which it began.
    pub base: String,
    /// What was fitted: names that end in `_percent` are percent of the base's, `cold_hooks_percent` of what a sleep adds to hooks.
    pub parameters: Vec<FittedParameter>,
    /// Parameters that these loads do not determine.
    pub undetermined: Vec<String>,
    /// Mean error of the base and of the fitted profile, over the conditions that were fitted, as |ln(predicted / measured)|.
    pub error_of_base: f64,
    /// See [`FittedHost::error_of_base`].
    pub error_fitted: f64,
    /// Rows that were fitted, with the fitted profile.
    pub fitted: Vec<MeasuredAgainst>,
    /// Rows that were kept back, predicted.
    pub kept_back: Vec<MeasuredAgainst>,
    /// Errors over both, by kind of load.
    pub fitted_errors: Vec<Group>,
    /// See [`FittedHost::fitted_errors`].
    pub kept_back_errors: Vec<Group>,
    /// What was said of the machine and the measurement.
    pub notes: Vec<String>,
    /// The profile as a file, which `[host] profile` takes.
    pub host_file: String,
}

/// Fits a host to measurements: tables or results of fio, each as [`crate::measured::measured`] takes them. Conditions whose names end
/// in [`KEPT_BACK`] are predicted; without any, each fourth is.
///
/// # Errors
/// A file that cannot be read, or an unknown parameter, model or figure.
pub fn fit_host(
    sources: &[String],
    options: &HostFitOptions,
    world: &dyn World,
    control: &Control,
) -> Result<FittedHost, MeasuredError> {
    fit_cases(wanted(sources, &options.figures, &options.scheduler)?, options, world, control)
}

/// [`fit_host`], to a table that is a text in memory; errors name `origin`.
///
/// # Errors
/// A cell that is wrong.
pub fn fit_host_to_table(
    text: &str,
    origin: &str,
    options: &HostFitOptions,
    world: &dyn World,
    control: &Control,
) -> Result<FittedHost, MeasuredError> {
    let cases = of_table(&Table::parse(Path::new(origin), text)?)?;
    fit_cases(usable(cases, &options.figures, origin)?, options, world, control)
}

fn fit_cases(
    cases: Vec<Case>,
    options: &HostFitOptions,
    world: &dyn World,
    control: &Control,
) -> Result<FittedHost, MeasuredError> {
    let nothing = |what: String| MeasuredError::Nothing(what);
    let base = options.host.profile.costs().map_err(|error| nothing(error.to_string()))?;
    let (fitted, kept_back) = parted(cases);
    let space = space(&base, &fitted, &options.parameters)?;
    let run = |cases: &[Case], costs: &HostCosts| {
        let options = MeasuredOptions {
            devices: options.devices.clone(),
            host: Host { profile: Profile::Given(Arc::new(costs.clone())), ..options.host.clone() },
            seconds: None,
            warmup: None,
            effort: EFFORT,
            replicates: 1,
            figures: Vec::new(),
            verdicts: false,
            scheduler: options.scheduler.clone(),
        };
        answer(cases, &options, world, control).rows
    };
    let first = run(&fitted, &base);
    if let Some(reason) = first.iter().find_map(|row| row.reason.clone()) {
        return Err(nothing(reason));
    }
    let (mut values, mut parameters, mut undetermined) = (Vec::new(), Vec::new(), Vec::new());
    for (cases, moving) in stages(&fitted, space.parameters) {
        if cases.is_empty() {
            undetermined.extend(moving.into_iter().map(|p| p.name));
            continue;
        }
        let evaluate = |own: &[Parameter]| run(&cases, &with(&base, &[&values, own].concat()));
        let space = Space { parameters: moving, named: space.named, with_cpu: true };
        let found = Search::new(space, &evaluate, control).run();
        values.extend(found.values);
        parameters.extend(found.parameters);
        undetermined.extend(found.undetermined);
    }
    if control.cancelled() {
        return Err(nothing("interrupted: nothing was fitted".to_owned()));
    }
    let costs = HostCosts { name: options.name.clone(), ..with(&base, &values) };
    let (of_fit, of_rest) = (run(&fitted, &costs), run(&kept_back, &costs));
    let mut host = FittedHost {
        base: base.name.clone(),
        parameters,
        undetermined,
        error_of_base: error(&first, true),
        error_fitted: error(&of_fit, true),
        fitted_errors: summary(&of_fit).loads,
        kept_back_errors: summary(&of_rest).loads,
        fitted: of_fit,
        kept_back: of_rest,
        notes: options.notes.clone(),
        host_file: String::new(),
    };
    host.host_file = host_file(&host, &costs);
    Ok(host)
}

fn parted(cases: Vec<Case>) -> (Vec<Case>, Vec<Case>) {
    let is_kept = |case: &Case| case.condition.ends_with(KEPT_BACK);
    if cases.iter().any(is_kept) {
        return cases.into_iter().partition(|case| !is_kept(case));
    }
    // Each scheduler has parameters of its own.
    let mut by_scheduler: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    for case in cases {
        by_scheduler.entry(case.scheduler.clone()).or_default().push(case);
    }
    let (mut fitted, mut rest) = (Vec::new(), Vec::new());
    for cases in by_scheduler.into_values() {
        let (of_fit, of_rest) = split(cases);
        fitted.extend(of_fit);
        rest.extend(of_rest);
    }
    (fitted, rest)
}

/// What is fitted to which cases, one after the other, since each rests on what was found before: work and sleeps to cases without a
/// scheduler, hooks to those of one process under one, whose CPU hardly sleeps, then what hooks cost after a sleep, then the lock.
fn stages(cases: &[Case], parameters: Vec<Parameter>) -> Vec<(Vec<Case>, Vec<Parameter>)> {
    let number = |case: &Case| -> usize {
        let processes: u32 = case.jobs.iter().map(|job| job.numjobs).sum();
        let depth = case.jobs.iter().map(|job| job.iodepth).max().unwrap_or(1);
        match (schedulers(std::slice::from_ref(case)).is_empty(), processes) {
            (true, _) => 0,
            (false, ..=1) if depth >= DEEP => 1,
            (false, ..=1) => 2,
            (false, _) => 3,
        }
    };
    let of_hooks = (1..4).find(|stage| cases.iter().any(|case| number(case) == *stage)).unwrap_or(1);
    let mut stages: Vec<(Vec<Case>, Vec<Parameter>)> = vec![Default::default(); 4];
    for case in cases {
        stages[number(case)].0.push(case.clone());
    }
    for parameter in parameters {
        let own = match parameter.name.as_str() {
            "work_percent" | "sleep_percent" => 0,
            "cold_hooks_percent" => 2,
            "lock_percent" => 3,
            _ => of_hooks,
        };
        stages[own].1.push(parameter);
    }
    stages
}

/// The scheduler that a case names, without settings; none has no hooks.
fn schedulers(cases: &[Case]) -> Vec<String> {
    let stacks = cases.iter().filter_map(|case| case.stack.as_ref().ok());
    let mut names: Vec<String> = stacks
        .map(|stack| stack.split([':', '+']).next().unwrap_or_default().to_owned())
        .filter(|name| name != "none")
        .collect();
    names.sort();
    names.dedup();
    names
}

/// What may move: those named, or all.
fn space(base: &HostCosts, cases: &[Case], named: &[String]) -> Result<Space, MeasuredError> {
    let percent = |name: &str| (name.to_owned(), PERCENT, 100.0);
    let mut all: Vec<(String, (f64, f64), f64)> = GROUPS.map(percent).into();
    for name in schedulers(cases) {
        let SchedulerNs { read, write } = base.scheduler(&name);
        all.push((format!("{name}.read_ns"), HOOK_NS, read as f64));
        all.push((format!("{name}.write_ns"), HOOK_NS, write as f64));
    }
    if let Some(unknown) = named.iter().find(|name| !all.iter().any(|(known, ..)| known == *name)) {
        let names: Vec<&str> = all.iter().map(|(name, ..)| name.as_str()).collect();
        return Err(MeasuredError::Nothing(format!("--parameters {unknown}: expected some of {}", names.join(", "))));
    }
    let parameters = all.into_iter().filter(|(name, ..)| named.is_empty() || named.contains(name));
    let parameters = parameters
        .map(|(name, (low, high), class)| Parameter { name, low, high, whole: true, class, value: class })
        .collect();
    Ok(Space { parameters, named: !named.is_empty(), with_cpu: true })
}

/// The base with these values.
fn with(base: &HostCosts, values: &[Parameter]) -> HostCosts {
    let value = |name: &str| values.iter().find(|p| p.name == name).map(|p| p.value as u64);
    let [work, sleep, lock, cold_hooks] = GROUPS.map(|name| value(name).unwrap_or(100));
    let mut costs = base.in_parts(work, sleep, lock);
    for (_, percent) in &mut costs.cold_hooks_ns_percent {
        *percent = 100 + percent.saturating_sub(100) * cold_hooks / 100;
    }
    for name in values.iter().filter_map(|p| p.name.strip_suffix(".read_ns")) {
        let own = base.scheduler(name);
        let read = value(&format!("{name}.read_ns")).unwrap_or(own.read);
        let write = value(&format!("{name}.write_ns")).unwrap_or(own.write);
        let unscaled = |ns: u64| ns * 100 / base.schedulers_percent.max(1);
        costs.schedulers.insert(name.to_owned(), SchedulerNs { read: unscaled(read), write: unscaled(write) });
    }
    costs
}

/// The file: what it is of, each residual, and all costs.
fn host_file(found: &FittedHost, costs: &HostCosts) -> String {
    let mut text = String::from(
        "# A host's costs, fitted by `dumbwaiter host fit`; `[host] profile` and `--host` take this file.\n",
    );
    for note in &found.notes {
        let _ = writeln!(text, "# {note}");
    }
    let _ = writeln!(
        text,
        "# Mean error |ln(predicted / measured)|: {:.3} with {}, {:.3} fitted",
        found.error_of_base, found.base, found.error_fitted
    );
    remarks::groups(&mut text, "fitted", &found.fitted_errors);
    remarks::groups(&mut text, "kept back, and predicted", &found.kept_back_errors);
    let _ = writeln!(text, "#\n# Predicted by measured: IOPS, mean, p50, p95, p99, CPU time an I/O");
    remarks::rows(&mut text, "fitted", &found.fitted, true);
    remarks::rows(&mut text, "kept back", &found.kept_back, true);
    let _ = writeln!(text, "#");
    for FittedParameter { name, value, class, determined } in &found.parameters {
        let percent = determined * 100.0;
        let _ = writeln!(text, "# {name} = {value}, from {class}; 10 % off: errors {percent:.1} % larger");
    }
    let list = if found.undetermined.is_empty() { "none".to_owned() } else { found.undetermined.join(", ") };
    let _ = writeln!(text, "# Not determined, as in {}: {list}\n", found.base);
    text + &costs.to_toml()
}
