//! Papers' experiments with something changed: what makes a failing statement hold.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dumbwaiter_block::Nanos;
use dumbwaiter_devices::DeviceModel;
use dumbwaiter_experiment::{About, Cached, Cell, CellResult, Concurrency, Control, Failure, Refusal, World};
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::Profile;
use dumbwaiter_scenario::load::Prepared;
use dumbwaiter_schedulers::Choice;
use serde::Serialize;

use crate::{Effort, Error, Figure, FigureResult, Paper, Status};

/// A change of every run that has what it names.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    text: String,
    kind: ChangeKind,
}

#[derive(Clone, Debug, PartialEq)]
enum ChangeKind {
    /// A parameter of devices of the kinds that have it.
    Device {
        key: String,
        value: String,
    },
    /// A setting of a scheduler.
    Scheduler {
        name: String,
        key: String,
        value: String,
    },
    Host(Profile),
    Cpus(u16),
    /// Runs last so many times as long.
    Times(f64),
    /// Added to the seed.
    Seed(u64),
    QueueDepth(u32),
}

/// What is tried for a cause, where nothing else is asked for.
pub const CHANGES: [&str; 16] = [
    "load:times=3",
    "load:seed=1000",
    "host:profile=free",
    "host:cpus=1",
    "load:queue_depth=4",
    "device:cache=off",
    "device:read_first=true",
    "device:channels=2",
    "device:ncq_depth=1",
    "device:lookahead=false",
    "bfq:low_latency=0",
    "bfq:slice_idle=0",
    "h-bfq:low_latency=0",
    "cfq:slice_idle=0",
    "cfq:low_latency=0",
    "a-cfq:low_latency=0",
];

impl Change {
    /// Reads `device:KEY=VALUE`, `SCHEDULER:SETTING=VALUE`, `host:profile=NAME|FILE`, `host:cpus=N`, `load:times=N`, `load:seed=N` or
    /// `load:queue_depth=N`.
    ///
    /// # Errors
    /// Text of another form, or a value that is none.
    pub fn parse(text: &str) -> Result<Change, String> {
        let expected = || {
            format!(
                "{text:?} is no change; expected device:KEY=VALUE, SCHEDULER:SETTING=VALUE, host:profile=NAME, host:cpus=N, load:times=N, load:seed=N or load:queue_depth=N"
            )
        };
        let (place, pair) = text.split_once(':').ok_or_else(expected)?;
        let (key, value) =
            pair.split_once('=').filter(|(key, value)| !key.is_empty() && !value.is_empty()).ok_or_else(expected)?;
        let number = |low: f64, high: f64| {
            let number = value.parse::<f64>().ok().filter(|n| (low..=high).contains(n));
            number.ok_or_else(|| format!("{text}: expected a number from {low} to {high}"))
        };
        let kind = match (place, key) {
            ("device", _) => {
                taken_by_a_model(key, value).map_err(|why| format!("{text}: {why}"))?;
                ChangeKind::Device { key: key.to_owned(), value: value.to_owned() }
            }
            ("host", "profile") => ChangeKind::Host(Profile::read(value).map_err(|error| error.to_string())?),
            ("host", "cpus") => ChangeKind::Cpus(number(1.0, 1024.0)? as u16),
            ("load", "times") => ChangeKind::Times(number(0.1, 100.0)?),
            ("load", "seed") => ChangeKind::Seed(number(0.0, 1e9)? as u64),
            ("load", "queue_depth") => ChangeKind::QueueDepth(number(1.0, 65_536.0)? as u32),
            ("host" | "load", _) => return Err(expected()),
            (name, _) => {
                Choice::parse(text).map_err(|why| format!("{text}: {why}"))?;
                ChangeKind::Scheduler { name: name.to_owned(), key: key.to_owned(), value: value.to_owned() }
            }
        };
        Ok(Change { text: text.to_owned(), kind })
    }

    /// The cell with the change; `None` where it has nothing of that.
    fn apply(&self, cell: &Cell) -> Option<Cell> {
        let mut changed = cell.clone();
        match &self.kind {
            ChangeKind::Device { key, value } => {
                let model: DeviceModel = dumbwaiter_devices::load(&cell.device).ok()?;
                model.kind().keys().iter().find(|own| own.name == key)?;
                let separator = if cell.device.contains('?') { '&' } else { '?' };
                changed.device = format!("{}{separator}{key}={value}", cell.device);
                // A value that the kind does not take changes nothing; nor does one that it has.
                let other = dumbwaiter_devices::load(&changed.device).ok()?;
                let value = |model: &DeviceModel| Some(serde_json::to_value(model).ok()?[key].clone());
                return (value(&other)? != value(&model)?).then_some(changed);
            }
            ChangeKind::Scheduler { name, key, value } => {
                let own = &mut changed.scheduler;
                (own.name == *name && own.tunables.get(key) != Some(value)).then_some(())?;
                own.tunables.insert(key.clone(), value.clone());
                return Some(changed);
            }
            _ => {}
        }
        let mut scenario = cell.scenario()?.clone();
        match &self.kind {
            ChangeKind::Host(profile) => scenario.host.profile = profile.clone(),
            ChangeKind::Cpus(cpus) => scenario.host.cpus = *cpus,
            ChangeKind::Times(times) => {
                let longer = |time: Nanos| Nanos((time.0 as f64 * times) as u64);
                scenario.duration = Some(longer(scenario.duration?));
            }
            ChangeKind::Seed(more) => scenario.seed = scenario.seed.wrapping_add(*more),
            ChangeKind::QueueDepth(depth) => scenario.queue_depth = Some(*depth),
            ChangeKind::Device { .. } | ChangeKind::Scheduler { .. } => {}
        }
        changed.work = dumbwaiter_experiment::Work::Scenario(Arc::new(Prepared::new(&scenario).ok()?));
        Some(changed)
    }
}

/// Is there a model of a drive that takes this value of this parameter?
fn taken_by_a_model(key: &str, value: &str) -> Result<(), String> {
    let loaded = |name: &str| dumbwaiter_devices::load(name).map_err(|error| error.to_string());
    let mut refused = None;
    for info in dumbwaiter_devices::models() {
        if loaded(info.name)?.kind().keys().iter().any(|own| own.name == key) {
            match loaded(&format!("{}?{key}={value}", info.name)) {
                Ok(_) => return Ok(()),
                Err(why) => refused = Some(why),
            }
        }
    }
    Err(refused.unwrap_or_else(|| format!("no drive has a parameter `{key}`; see `dumbwaiter devices show NAME`")))
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// A world whose runs have changes. Their results name device and scheduler as the experiment does, which looks for them.
pub struct Changed<'a> {
    world: &'a dyn World,
    /// The changes, and whether a run had what they name.
    changes: Vec<(Change, AtomicBool)>,
}

impl<'a> Changed<'a> {
    /// The runs of `world` with these changes.
    pub fn new(world: &'a dyn World, changes: Vec<Change>) -> Changed<'a> {
        Changed { world, changes: changes.into_iter().map(|change| (change, AtomicBool::new(false))).collect() }
    }

    fn cell(&self, cell: &Cell) -> Cell {
        self.changes.iter().fold(cell.clone(), |cell, (change, applied)| match change.apply(&cell) {
            Some(changed) => {
                applied.store(true, Ordering::Relaxed);
                changed
            }
            None => cell,
        })
    }
}

#[deny(clippy::missing_trait_methods)]
impl World for Changed<'_> {
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
        self.world.supports(&self.cell(cell))
    }

    fn run(&self, cell: &Cell, control: &Control) -> Result<CellResult, Failure> {
        let mut result = self.world.run(&self.cell(cell), control)?;
        result.run.device.clone_from(&cell.device);
        result.run.scheduler = cell.scheduler.to_string();
        Ok(result)
    }

    fn conclude(&self, runs: &mut [RunResult], control: &Control) -> Result<Vec<String>, Failure> {
        self.world.conclude(runs, control)
    }
}

/// A figure with these changes. A note says so, and causes of the list, which are of runs without them, are left out.
///
/// # Errors
/// As [`Figure::reproduce`].
pub fn reproduce_with(
    paper: &Paper,
    figure: &Figure,
    changes: &[Change],
    effort: &Effort<'_>,
) -> Result<FigureResult, Error> {
    if changes.is_empty() {
        return figure.reproduce(paper.name, effort);
    }
    let world = Changed::new(effort.world, changes.to_vec());
    let mut result = figure.reproduce(paper.name, &Effort::new(effort.quick, &world, effort.control))?;
    let (with, without): (Vec<_>, Vec<_>) =
        world.changes.iter().partition(|(_, applied)| applied.load(Ordering::Relaxed));
    let list = |changes: &[&(Change, AtomicBool)]| {
        changes.iter().map(|(change, _)| change.to_string()).collect::<Vec<_>>().join(", ")
    };
    if !without.is_empty() {
        result.notes.insert(0, format!("no run of this figure has what {} names, or all have it so", list(&without)));
    }
    if with.is_empty() {
        return Ok(result);
    }
    result.notes.insert(0, format!("with {}: not as the paper's experiment", list(&with)));
    for row in result.rows.iter_mut().filter(|row| row.cause.is_some()) {
        row.cause = Some("not looked for with something changed".to_owned());
    }
    Ok(result)
}

/// Which changes make a failing statement hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Causes {
    /// Its id.
    pub statement: String,
    /// The measured quantity.
    pub metric: String,
    /// Under which conditions.
    pub case: String,
    /// Ours, as it fails.
    pub ours: f64,
    /// The changes with which it holds, and ours then.
    pub holds_with: BTreeMap<String, f64>,
    /// The changes that moved ours by more than 2 %, and it still fails.
    pub moved_by: BTreeMap<String, f64>,
}

/// A change that moves ours by less than this part has nothing to do with it.
const MOVED: f64 = 0.02;

/// Runs a figure as it is and with each of these changes alone. `observe` hears the change that begins.
///
/// # Errors
/// A run that breaks off; one that a change makes impossible is left out.
pub fn causes(
    paper: &Paper,
    figure: &Figure,
    changes: &[Change],
    effort: &Effort<'_>,
    observe: &mut dyn FnMut(&str),
) -> Result<Vec<Causes>, Error> {
    // Runs that a change does not touch are made once.
    let world = Cached::new(effort.world);
    let of = |world: &dyn World| {
        let own = Effort::new(effort.quick, world, effort.control);
        figure.reproduce(paper.name, &own).map(|result| result.rows)
    };
    let rows = of(&world)?;
    let failing = rows.into_iter().filter(|row| row.status == Some(Status::Fails));
    let mut found: Vec<Causes> = failing
        .filter_map(|row| {
            let (statement, metric, case, ours) = (row.statement?, row.metric, row.case, row.ours);
            let (holds_with, moved_by) = Default::default();
            Some(Causes { statement, metric, case, ours, holds_with, moved_by })
        })
        .collect();
    if found.is_empty() {
        return Ok(found);
    }
    for change in changes {
        observe(&change.text);
        let rows = match of(&Changed::new(&world, vec![change.clone()])) {
            Ok(rows) => rows,
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            // The drive or the scheduler cannot be so.
            Err(_) => continue,
        };
        for causes in &mut found {
            let row = rows.iter().find(|row| row.statement.as_deref() == Some(causes.statement.as_str()));
            let Some(row) = row else { continue };
            let moved = (row.ours - causes.ours).abs() > MOVED * causes.ours.abs();
            match row.status {
                Some(Status::Holds) => causes.holds_with.insert(change.text.clone(), row.ours),
                Some(Status::Fails) if moved => causes.moved_by.insert(change.text.clone(), row.ours),
                _ => None,
            };
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use dumbwaiter_experiment::Stack;
    use dumbwaiter_scenario::{Scenario, SchedulerSpec};

    use super::*;

    fn cell(device: &str, scheduler: &str) -> Cell {
        let scenario = Scenario::from_toml("duration = \"1s\"\n[[task]]\nname = \"t\"\nrw = \"read\"\n", "t").unwrap();
        let load = Arc::new(Prepared::new(&scenario).unwrap());
        Cell::of(&load, device, Stack::Simulated, SchedulerSpec::parse(scheduler).unwrap())
    }

    #[test]
    fn a_change_applies_where_there_is_what_it_names() {
        let disk = cell("hdd:st1000dm003", "bfq:v7r8,low_latency=1");
        let apply = |text: &str, cell: &Cell| Change::parse(text).unwrap().apply(cell);
        assert_eq!(apply("device:ncq_depth=1", &disk).unwrap().device, "hdd:st1000dm003?ncq_depth=1");
        assert!(apply("device:ncq_depth=32", &disk).is_none(), "it has that");
        assert!(apply("device:planes=4", &disk).is_none(), "no disk has planes");
        assert_eq!(apply("bfq:low_latency=0", &disk).unwrap().scheduler.to_string(), "bfq:v7r8,low_latency=0");
        assert!(apply("cfq:low_latency=0", &disk).is_none());
        let longer = apply("load:times=3", &disk).unwrap();
        assert_eq!(longer.scenario().unwrap().duration, Some(Nanos::from_secs(3)));
        assert_eq!(apply("host:cpus=1", &disk).unwrap().scenario().unwrap().host.cpus, 1);
        assert!(CHANGES.iter().all(|text| Change::parse(text).is_ok_and(|change| change.to_string() == **text)));
    }

    #[test]
    fn a_figure_with_a_change_says_so() {
        let control = Control::default();
        let world = dumbwaiter_sim::Simulator::new(2);
        let effort = Effort::new(true, &world, &control);
        let (paper, figure) = crate::find("ull-2023:table-1").unwrap()[0];
        let free = [Change::parse("host:profile=free").unwrap()];
        let of = |changes: &[Change]| reproduce_with(paper, figure, changes, &effort).unwrap();
        let (own, changed) = (of(&[]), of(&free));
        assert!(changed.notes[0].starts_with("with host:profile=free: not as"), "{:?}", changed.notes);
        let failing = changed.rows.iter().filter(|row| row.status == Some(Status::Fails));
        let causes: Vec<_> = failing.map(|row| row.cause.as_deref()).collect();
        assert!(
            !causes.is_empty() && causes.iter().all(|cause| *cause == Some("not looked for with something changed"))
        );
        assert!(own.rows.iter().all(|row| row.status != Some(Status::Fails)), "as it is, the table holds");
        let elsewhere = of(&[Change::parse("device:lookahead=false").unwrap()]);
        assert_eq!(elsewhere.rows, own.rows, "no disk is in it");
        assert!(elsewhere.notes[0].starts_with("no run of this figure has what device:lookahead=false"));
        let found = causes_of(paper, figure, &free, &effort);
        assert!(found.is_empty(), "nothing fails, so there is nothing to ask");
    }

    fn causes_of(paper: &Paper, figure: &Figure, changes: &[Change], effort: &Effort<'_>) -> Vec<Causes> {
        causes(paper, figure, changes, effort, &mut |_| ()).unwrap()
    }

    #[test]
    fn text_that_is_no_change_is_refused() {
        for (text, says) in [
            ("low_latency=0", "is no change; expected device:KEY=VALUE"),
            ("load:speed=2", "is no change"),
            ("load:times=0", "load:times=0: expected a number from 0.1 to 100"),
            ("host:profile=mine", "\"mine\" is no profile"),
            ("device:channels=", "is no change"),
            ("device:chanels=2", "no drive has a parameter `chanels`"),
            ("device:cache=maybe", "device:cache=maybe: "),
            ("bfq:slice_idel=0", "bfq:slice_idel=0: "),
            ("bfg:slice_idle=0", "bfg:slice_idle=0: "),
        ] {
            let said = Change::parse(text).unwrap_err();
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
