//! `recommend`: a survey of a drive, which only reads, and what to set.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use dumbwaiter_experiment::{Control, Step, Subject, recommend};
use dumbwaiter_realworld::{DeviceOptions, DeviceUnderTest, EnergySource, Kernel, KernelOptions};
use dumbwaiter_report::{SurveyPoint, advice_text, write_advice_html};
use dumbwaiter_scenario::SchedulerSpec;

use super::{announce, worker_program};
use crate::args::Recommend;
use crate::progress::{RunBar, cancel_on_signal_and_undo};
use crate::results::ended_by;
use crate::{Ended, input, output};

/// Steps of the bar: parts of the time, since the number of runs is not known.
const BAR_STEPS: u32 = 100;

/// Surveys the drive, and says what to set.
pub(crate) fn run(args: &Recommend) -> Result<Ended> {
    let path = args.device.as_path();
    let budget = input::time("--for", &args.length)?;
    output::check_files(args.json.as_deref(), args.html.as_deref(), &[path])?;
    let bar = RunBar::default();
    let control = Arc::new(control(&bar, Duration::from_nanos(budget.0)));
    cancel_on_signal_and_undo(&control)?;
    let options = DeviceOptions { energy: EnergySource::None, announce: Some(announce()), ..DeviceOptions::default() };
    let device = match DeviceUnderTest::open(path, options) {
        Ok(device) => device,
        Err(failure) => return ended_by(failure),
    };
    let Some(queue) = device.queue() else {
        let path = path.display();
        match device.facts().disk {
            None => bail!("{path} is a file, and only block devices have schedulers; give the device that holds it"),
            Some(_) => bail!("{path} is a stacked device: the devices below it have the schedulers; give one of those"),
        }
    };
    let kernel = KernelOptions { keep_current: true, ..KernelOptions::new(worker_program()) };
    let world = match Kernel::new(&device, kernel) {
        Ok(world) => world,
        Err(failure) => return ended_by(failure),
    };
    let (current, all) = (world.current(), world.schedulers());
    let polling = &device.facts().polling;
    let subject = Subject {
        path: path.display().to_string(),
        disk: queue.name().to_owned(),
        udev_match: dumbwaiter_linux::udev::matching(queue.name()),
        schedulers: schedulers(args.schedulers.as_deref(), current, all, queue.name())?,
        not_loaded: ["mq-deadline", "kyber", "bfq"].into_iter().filter(|name| !all.iter().any(|a| a == name)).collect(),
        polling: (polling.available, polling.about.clone()),
        load: load(),
        cpus: std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64),
        current: current.to_owned(),
    };
    crate::tell!("{}: up to {budget}, only reads", path.display());
    for note in device.notes() {
        crate::tell!("{note}");
    }
    let found = recommend(&subject, budget, args.goal.into(), &world, &control);
    bar.finish();
    let found = match found {
        Ok(found) => found,
        Err(failure) => return ended_by(failure),
    };
    if let Some(failure) = &found.failure {
        crate::tell!("dumbwaiter: {failure}");
    }
    let advice = &found.advice;
    // Each even if another fails; output on stdout is lost if its reader is gone.
    let to_stdout = args.json.as_deref().is_some_and(output::is_stdout);
    let json = args.json.as_deref().map_or(Ok(()), |file| output::write_json(file, advice));
    let points: Vec<SurveyPoint<'_>> =
        found.loads.iter().map(|l| SurveyPoint { name: l.name, about: l.about, metric: l.metric }).collect();
    let html = args.html.as_deref().map_or(Ok(()), |file| {
        write_advice_html(advice, &points, file)?;
        crate::tell!("report written to {}", file.display());
        Ok(())
    });
    let text = if to_stdout { Ok(()) } else { output::print(&advice_text(advice, &points, output::screen(args.wide))) };
    html.and(json).and(text)?;
    Ok(match found.failure {
        Some(_) => Ended::DeviceFailed,
        None if advice.interrupted => Ended::Interrupted,
        None => Ended::Done,
    })
}

/// A control that shows on `bar` how much of the time is over.
fn control(bar: &RunBar, budget: Duration) -> Control {
    let bar = bar.clone();
    bar.start(u64::from(BAR_STEPS), budget / BAR_STEPS);
    let began = Instant::now();
    Control::observed(move |step| {
        if let Step::Began(cell) = step {
            bar.at(began.elapsed(), &format!("{}, {cell}", cell.variant));
        }
    })
}

/// The schedulers to try: those asked for and the one that is set, or all that the kernel has.
fn schedulers(asked: Option<&str>, current: &str, all: &[String], disk: &str) -> Result<Vec<SchedulerSpec>> {
    let Some(list) = asked.filter(|list| *list != "all") else {
        return Ok(all.iter().map(|name| SchedulerSpec::named(name)).collect());
    };
    let mut specs = SchedulerSpec::parse_list(list).map_err(|e| anyhow!("--schedulers: {e}"))?;
    for spec in &specs {
        if !all.contains(&spec.name) || !spec.variant.is_empty() {
            bail!("--schedulers: this kernel has no `{spec}` for {disk}; it has {}", all.join(", "));
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
