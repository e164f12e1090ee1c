//! `recommend`: a bounded look at a drive, which only reads, and what to set.

mod completion;
mod plan;
mod race;
mod tell;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use dumbwaiter_block::Nanos;
use dumbwaiter_engine::{Completion, Options, Target};
use dumbwaiter_experiment::Control;
use dumbwaiter_linux::queue::Queue;
use dumbwaiter_linux::settings::Settings;
use dumbwaiter_linux::{Roots, undo};
use dumbwaiter_load::Prepared;
use dumbwaiter_measure::RunResult;
use dumbwaiter_report::write_html;
use dumbwaiter_scenario::{Scenario, SchedulerSpec};

use self::plan::Plan;
use self::race::Race;
use super::{Bench, Cell, cancel_with, kernel};
use crate::args::Recommend;
use crate::progress::Bar;
use crate::{Ended, input, output};

/// Looks, and says what to set.
pub(crate) fn run(args: &Recommend) -> Result<Ended> {
    let path = args.device.as_path();
    let budget = input::time("--for", &args.length)?;
    let facts = dumbwaiter_linux::target::Target::of(path)?;
    let Some(queue) = facts.queue() else {
        bail!("{} is a file: a scheduler is set for a block device; give the device that it is on", path.display())
    };
    if !queue.schedules() {
        bail!(
            "{} hands its I/O on to the devices below it: a scheduler is set for each of those; give one of them",
            path.display()
        );
    }
    output::check_files(args.json.as_deref(), args.html.as_deref(), &[path])?;
    let options = Options::default();
    // Says what cannot be before anything is changed.
    Target::open(path, &options)?;

    let stop = Arc::new(AtomicBool::new(false));
    undo::on_signals(Some(Arc::clone(&stop)))?;
    let control = Arc::new(Control::default());
    cancel_with(&stop, &control);
    let mut settings = Settings::new(&queue)?;
    let own = own_settings(&queue);
    let (current, listed) = queue.schedulers()?;
    // Where there is no other, some drivers take none at all.
    if listed.len() > 1 {
        settings
            .set("scheduler", &current)
            .context("the kernel's scheduler cannot be set; run as root to try the others")?;
    }
    settings.load_schedulers(|_| true)?;
    let (_, all) = queue.schedulers()?;
    let choice = all.len() > 1;
    let ways = ways(args.schedulers.as_deref(), &current, &all, &queue)?;
    let plan = plan::plan(budget, ways.len(), facts.polling.available)?;

    let load = load();
    crate::tell!("{}: up to {budget}, only reading", path.display());
    for remark in queue.remarks(&Roots::default()) {
        crate::tell!("{remark}");
    }
    let mut survey = Survey {
        path,
        options: &options,
        control: &control,
        settings,
        choice,
        stop: &stop,
        began: Instant::now(),
        end: Duration::from_nanos(plan.race.0),
        bar: Bar::new(u64::from(BAR_STEPS), Duration::from_nanos(budget.0) / BAR_STEPS),
        current: &current,
        own: &own,
        results: Vec::new(),
        failure: None,
    };
    let race = Race {
        points: plan.points.iter().map(|p| p.name).collect(),
        ways: ways.iter().map(ToString::to_string).collect(),
        current: current.clone(),
        goal: args.goal.into(),
    };
    survey.race(&race, &plan, &ways)?;
    let decision = race.decide(&survey.results);
    let mut methods = None;
    if let Some(decision) = &decision {
        survey.end = Duration::from_nanos(budget.0);
        let spec = ways.iter().find(|way| way.to_string() == decision.pick);
        let spec = spec.ok_or_else(|| anyhow!("`{}` was not tried", decision.pick))?;
        methods = Some(completion::look(&mut survey, spec, plan.completion, &facts)?);
    }
    survey.bar.finish();
    let notes = survey.settings.restore();
    if let Some(failure) = &survey.failure {
        crate::tell!("dumbwaiter: {failure}");
    }
    let failure = survey.failure.take();
    let interrupted = stop.load(Ordering::Relaxed);
    let Some((decision, methods)) = decision.zip(methods) else {
        if failure.is_some() {
            return Ok(Ended::DeviceFailed);
        }
        if !interrupted {
            bail!("--for: {budget} was over before `{current}`, which is set, had run twice; expected more time");
        }
        crate::tell!("dumbwaiter: interrupted before anything could be said");
        return Ok(Ended::Interrupted);
    };
    let found = tell::Found {
        path,
        device: queue.name(),
        current: &current,
        spec: ways.iter().find(|way| way.to_string() == decision.pick),
        not_loaded: not_loaded(&all),
        load,
        cpus: std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64),
        interrupted,
        seconds: survey.began.elapsed().as_secs_f64(),
        plan: &plan,
        race: &race,
        decision,
        methods,
        notes: failure.iter().map(|failure| format!("ended early: {failure}")).chain(notes).collect(),
    };
    let advice = tell::advice(found, survey.results);
    // Each whatever becomes of the others; what is on stdout is lost with its reader.
    let to_stdout = args.json.as_deref().is_some_and(output::is_stdout);
    let json = args.json.as_deref().map_or(Ok(()), |file| output::write_json(file, &advice));
    let html = args.html.as_deref().map_or(Ok(()), |file| {
        write_html(&advice.survey, file)?;
        crate::tell!("report written to {}", file.display());
        Ok(())
    });
    let text = if to_stdout { Ok(()) } else { output::print(&tell::text(&advice, &plan)) };
    html.and(json).and(text)?;
    Ok(match failure {
        Some(_) => Ended::DeviceFailed,
        None if interrupted => Ended::Interrupted,
        None => Ended::Done,
    })
}

/// The progress bar moves with time, since nobody knows beforehand how many runs there will be.
const BAR_STEPS: u32 = 100;

/// The schedulers to try, with what is set now.
fn ways(asked: Option<&str>, current: &str, all: &[String], queue: &Queue) -> Result<Vec<SchedulerSpec>> {
    let Some(list) = asked.filter(|list| *list != "all") else {
        return Ok(all.iter().map(|name| SchedulerSpec::named(name)).collect());
    };
    let mut ways = SchedulerSpec::parse_list(list).map_err(|e| anyhow!("--schedulers: {e}"))?;
    for way in &ways {
        if !all.contains(&way.name) || !way.variant.is_empty() {
            bail!("--schedulers: this kernel has no `{way}` for {}; it has {}", queue.name(), all.join(", "));
        }
    }
    if let Some(twice) = ways.iter().enumerate().find(|(i, way)| ways[..*i].contains(way)) {
        bail!("--schedulers: `{}` is named twice", twice.1);
    }
    if !ways.iter().any(|way| way.to_string() == current) {
        ways.insert(0, SchedulerSpec::named(current));
    }
    Ok(ways)
}

/// Schedulers of Linux that this kernel might have as modules.
fn not_loaded(all: &[String]) -> Vec<&'static str> {
    ["mq-deadline", "kyber", "bfq"].into_iter().filter(|name| !all.iter().any(|a| a == name)).collect()
}

/// Programs that wanted a CPU or a disk in the last minute, on average; 0 where the kernel does not tell.
fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0.0)
}

/// The settings of the scheduler that is set: it is to be tried as it is, not with its defaults.
fn own_settings(queue: &Queue) -> Vec<(String, String)> {
    queue.attributes().into_iter().filter(|(name, _)| name.starts_with("iosched/")).collect()
}

/// Runs, one after the other, until the time is over.
struct Survey<'a> {
    path: &'a Path,
    options: &'a Options,
    control: &'a Control,
    settings: Settings,
    /// Is there more than one scheduler?
    choice: bool,
    stop: &'a AtomicBool,
    began: Instant,
    /// No run begins that would end later.
    end: Duration,
    bar: Bar,
    current: &'a str,
    own: &'a [(String, String)],
    results: Vec<RunResult>,
    failure: Option<String>,
}

impl Survey<'_> {
    fn race(&mut self, race: &Race, plan: &Plan, ways: &[SchedulerSpec]) -> Result<()> {
        for round in 0.. {
            let heats = race.next(&self.results);
            for heat in &heats {
                let point = &plan.points[heat.point];
                for i in 0..heat.ways.len() {
                    // Each round begins with another one, so that a drift of the device does not favour a place in the order.
                    let spec = &ways[heat.ways[(i + round) % heat.ways.len()]];
                    let what = format!("{}, {spec}", point.about);
                    if !self.one(point.name, &point.scenario, spec, Completion::Interrupt, round as u32, &what)? {
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

    /// Sets a scheduler; what was set at the beginning gets the settings that it had.
    fn set(&mut self, spec: &SchedulerSpec, scenario: &Scenario) -> Result<()> {
        kernel::set(&mut self.settings, spec, scenario)?;
        if spec.to_string() == self.current {
            for (name, value) in self.own {
                if self.settings.queue().get(name).is_ok_and(|now| now != *value) {
                    self.settings.set(name, value)?;
                }
            }
        }
        Ok(())
    }

    /// One run; `false` where there is no time for it, or no use in more.
    fn one(
        &mut self,
        point: &str,
        scenario: &Scenario,
        spec: &SchedulerSpec,
        completion: Completion,
        round: u32,
        what: &str,
    ) -> Result<bool> {
        let length = Duration::from_nanos((scenario.warmup + scenario.duration.unwrap_or(Nanos::ZERO)).0);
        let due = self.began.elapsed() + length + Duration::from_nanos(plan::OVERHEAD.0);
        if self.failure.is_some() || self.stop.load(Ordering::Relaxed) || due > self.end {
            return Ok(false);
        }
        self.bar.at(self.began.elapsed(), what);
        let cell = match self.cell(scenario, spec, completion, round) {
            // What was found before stays found.
            Err(e) if !self.results.is_empty() || !super::is_refusal(&e) => {
                self.failure = Some(format!("{spec}: {e:#}"));
                return Ok(false);
            }
            other => other?,
        };
        if cell.failure.is_some() {
            self.failure = cell.failure;
            return Ok(false);
        }
        if cell.cancelled {
            return Ok(false);
        }
        self.results.push(RunResult { variant: point.to_owned(), ..cell.result });
        Ok(true)
    }

    fn cell(&mut self, scenario: &Scenario, spec: &SchedulerSpec, completion: Completion, round: u32) -> Result<Cell> {
        if self.choice {
            self.set(spec, scenario)?;
        }
        let prepared = Prepared::new(scenario)?;
        let bench = Bench { path: self.path, prepared: &prepared, options: self.options, control: self.control };
        kernel::run(&bench, spec, completion, false, round)
    }
}
