//! `recommend`: a survey of a drive, which only reads, and what to set.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use dumbwaiter_drive::{CompletionMode as Completion, Options, Sleep, Target};
use dumbwaiter_experiment::{
    About, Cell, CellResult, Concurrency, Control, Failure, Refusal, Stack, Step, Subject, World, recommend,
};
use dumbwaiter_linux::queue::{Queue, Settings};
use dumbwaiter_linux::{Roots, undo};
use dumbwaiter_measure::RunResult;
use dumbwaiter_report::{SurveyPoint, advice_text, write_html};
use dumbwaiter_scenario::{Completion as Asked, SchedulerSpec};

use super::{Bench, cancel_with, is_refusal, kernel};
use crate::args::Recommend;
use crate::compare::ended_by;
use crate::progress::Bar;
use crate::{Ended, input, output};

/// Steps of the bar: parts of the time, since the number of runs is not known.
const BAR_STEPS: u32 = 100;

/// Surveys the drive, and says what to set.
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
    // Says what cannot be before anything is changed.
    Target::open(path, &Options::default())?;
    let stop = Arc::new(AtomicBool::new(false));
    undo::on_signals(Some(Arc::clone(&stop)))?;
    let control = Arc::new(with_bar(Duration::from_nanos(budget.0)));
    cancel_with(&stop, &control);
    let mut settings = Settings::new(&queue)?;
    let own = queue.attributes().into_iter().filter(|(name, _)| name.starts_with("iosched/")).collect();
    let (current, listed) = queue.schedulers()?;
    // Where there is no other, some drivers take none at all.
    if listed.len() > 1 {
        settings
            .set("scheduler", &current)
            .context("the kernel's scheduler cannot be set; run as root to try the others")?;
    }
    settings.load_schedulers(|_| true)?;
    let (_, all) = queue.schedulers()?;
    let subject = Subject {
        path: path.display().to_string(),
        disk: queue.name().to_owned(),
        udev_match: dumbwaiter_linux::udev::matching(queue.name()),
        schedulers: schedulers(args.schedulers.as_deref(), &current, &all, &queue)?,
        not_loaded: ["mq-deadline", "kyber", "bfq"].into_iter().filter(|name| !all.iter().any(|a| a == name)).collect(),
        polling: (facts.polling.available, facts.polling.about.clone()),
        load: load(),
        cpus: std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64),
        current,
    };
    crate::tell!("{}: up to {budget}, only reading", path.display());
    for remark in queue.remarks(&Roots::default()) {
        crate::tell!("{remark}");
    }
    let choice = (all.len() > 1).then(|| subject.current.clone());
    let world = Drive { path, settings: Mutex::new(settings), choice, own };
    let found = match recommend(&subject, budget, args.goal.into(), &world, &control) {
        Ok(found) => found,
        Err(failure) => return ended_by(failure),
    };
    if let Some(failure) = &found.failure {
        crate::tell!("dumbwaiter: {failure}");
    }
    let advice = &found.advice;
    // Each whatever becomes of the others; what is on stdout is lost with its reader.
    let to_stdout = args.json.as_deref().is_some_and(output::is_stdout);
    let json = args.json.as_deref().map_or(Ok(()), |file| output::write_json(file, advice));
    let html = args.html.as_deref().map_or(Ok(()), |file| {
        write_html(&advice.survey, file)?;
        crate::tell!("report written to {}", file.display());
        Ok(())
    });
    let points: Vec<SurveyPoint<'_>> =
        found.loads.iter().map(|l| SurveyPoint { name: l.name, about: l.about, metric: l.metric }).collect();
    let text = if to_stdout { Ok(()) } else { output::print(&advice_text(advice, &points, output::style())) };
    html.and(json).and(text)?;
    Ok(match found.failure {
        Some(_) => Ended::DeviceFailed,
        None if advice.interrupted => Ended::Interrupted,
        None => Ended::Done,
    })
}

/// A control that shows how much of the time is over.
fn with_bar(budget: Duration) -> Control {
    let bar = Bar::new(u64::from(BAR_STEPS), budget / BAR_STEPS);
    let began = Instant::now();
    Control::observed(move |step| {
        if let Step::Began(cell) = step {
            bar.at(began.elapsed(), &format!("{}, {cell}", cell.variant));
        }
    })
}

/// The schedulers to try: those asked for and the one that is set, or all that the kernel has.
fn schedulers(asked: Option<&str>, current: &str, all: &[String], queue: &Queue) -> Result<Vec<SchedulerSpec>> {
    let Some(list) = asked.filter(|list| *list != "all") else {
        return Ok(all.iter().map(|name| SchedulerSpec::named(name)).collect());
    };
    let mut specs = SchedulerSpec::parse_list(list).map_err(|e| anyhow!("--schedulers: {e}"))?;
    for spec in &specs {
        if !all.contains(&spec.name) || !spec.variant.is_empty() {
            bail!("--schedulers: this kernel has no `{spec}` for {}; it has {}", queue.name(), all.join(", "));
        }
    }
    if let Some(twice) = specs.iter().enumerate().find(|(i, spec)| specs[..*i].contains(spec)) {
        bail!("--schedulers: `{}` is named twice", twice.1);
    }
    if !specs.iter().any(|spec| spec.to_string() == current) {
        specs.insert(0, SchedulerSpec::named(current));
    }
    Ok(specs)
}

/// Programs that wanted a CPU or a disk in the last minute, on average; 0 where the kernel does not report it.
fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0.0)
}

/// The drive under the kernel's schedulers.
struct Drive<'a> {
    path: &'a Path,
    settings: Mutex<Settings>,
    /// The scheduler that is set, where there is a choice.
    choice: Option<String>,
    /// Its settings: it is tried as it is, not with its defaults.
    own: Vec<(String, String)>,
}

impl Drive<'_> {
    fn one(&self, cell: &Cell, control: &Control) -> Result<CellResult> {
        let load = cell.prepared().ok_or_else(|| anyhow!("no scenario"))?;
        if let Some(current) = &self.choice {
            let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
            kernel::set(&mut settings, &cell.scheduler, load.scenario())?;
            if cell.scheduler.to_string() == *current {
                for (name, value) in &self.own {
                    if settings.queue().get(name).is_ok_and(|now| now != *value) {
                        settings.set(name, value)?;
                    }
                }
            }
        }
        let options = Options::default();
        let bench = Bench { path: self.path, prepared: load, options: &options, control };
        let done = kernel::run(&bench, &cell.scheduler, completion(cell.completion), false, cell.replicate)?;
        let failure = done.failure.map(Failure::device);
        Ok(CellResult { notes: done.notes, cancelled: done.cancelled, failure, ..CellResult::of(done.result) })
    }
}

fn completion(asked: Asked) -> Completion {
    match asked {
        Asked::Poll => Completion::Poll,
        Asked::Hybrid => Completion::Hybrid(Sleep::Auto),
        _ => Completion::Interrupt,
    }
}

impl World for Drive<'_> {
    fn about(&self) -> About {
        About {
            name: self.path.display().to_string(),
            real: true,
            stacks: vec![Stack::Kernel],
            device: Some(self.path.display().to_string()),
            ..About::default()
        }
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::Rotation
    }

    fn supports(&self, cell: &Cell) -> Result<(), Refusal> {
        let target = Target::open(self.path, &Options::default()).map_err(|e| Refusal(e.to_string()))?;
        target.check(completion(cell.completion)).map(drop).map_err(|e| Refusal(e.to_string()))
    }

    fn run(&self, cell: &Cell, control: &Control) -> Result<CellResult, Failure> {
        self.one(cell, control).map_err(|error| {
            let reason = format!("{error:#}");
            if is_refusal(&error) { Failure::refused(reason) } else { Failure::device(reason) }
        })
    }

    fn conclude(&self, _runs: &mut [RunResult]) -> Result<Vec<String>, Failure> {
        Ok(self.settings.lock().unwrap_or_else(PoisonError::into_inner).restore())
    }
}
