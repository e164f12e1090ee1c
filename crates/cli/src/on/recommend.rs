//! `recommend`: a survey of a drive, which only reads, and what to set.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use dumbwaiter_advise::Form;
use dumbwaiter_linux::queue::Queue;
use dumbwaiter_linux::setters;
use dumbwaiter_realworld::{DeviceOptions, DeviceUnderTest, EnergySource, Survey};
use dumbwaiter_report::{SurveyPoint, advice_text, write_advice_html};

use super::{announce, worker_program};
use crate::args::Recommend;
use crate::progress::{RunBar, cancel_on_signal_and_undo};
use crate::{Ended, input, output};

/// Surveys the drive, and says what to set.
pub(crate) fn run(args: &Recommend) -> Result<Ended> {
    let path = args.device.as_path();
    if args.check {
        return check(path);
    }
    let form = args.format.as_deref().map(form).transpose()?;
    let budget = input::time("--for", &args.length)?;
    output::check_files(args.json.as_deref(), args.html.as_deref(), &[path])?;
    let bar = RunBar::default();
    let control = bar.timed_control(Duration::from_nanos(budget.0));
    cancel_on_signal_and_undo(&control)?;
    let options = DeviceOptions { energy: EnergySource::None, announce: Some(announce()), ..DeviceOptions::default() };
    let device = DeviceUnderTest::open(path, options)?;
    let survey = Survey::new(&device, args.schedulers.as_deref(), worker_program())?;
    crate::tell!("{}: up to {budget}, only reads", path.display());
    for note in device.notes() {
        crate::tell!("{note}");
    }
    if let Some(queue) = device.queue() {
        for remark in setters::remarks(Path::new("/"), queue.name(), rotates(queue)) {
            crate::tell!("{remark}");
        }
    }
    let found = survey.recommend(budget, args.goal.into(), &control);
    bar.finish();
    let found = found?;
    if let Some(failure) = &found.failure {
        crate::tell!("dumbwaiter: {failure}");
    }
    let advice = &found.advice;
    // Each even if another fails; output on stdout is lost if its reader is gone.
    let to_stdout = args.json.as_deref().is_some_and(output::is_stdout);
    let json: Result<()> =
        args.json.as_deref().map_or(Ok(()), |file| output::write_json(file, advice)).map_err(Into::into);
    let points: Vec<SurveyPoint<'_>> =
        found.loads.iter().map(|l| SurveyPoint { name: l.name, about: l.about, metric: l.metric }).collect();
    let html = args.html.as_deref().map_or(Ok(()), |file| {
        write_advice_html(advice, &points, file)?;
        crate::tell!("report written to {}", file.display());
        Ok(())
    });
    let commands = if advice.is_to_be_applied() { advice.commands.as_slice() } else { &[] };
    let shown = || match form {
        Some(form) => form.text(&format!("{}: {}", advice.device, advice.headline()), commands),
        None => advice_text(advice, &points, output::screen(args.wide)),
    };
    let text = if to_stdout { Ok(()) } else { output::print(&shown()) };
    html.and(json).and(text.map_err(Into::into))?;
    Ok(match found.failure {
        Some(_) => Ended::DeviceFailed,
        None if advice.interrupted => Ended::Interrupted,
        None => Ended::Done,
    })
}

/// The form of this name.
fn form(name: &str) -> Result<Form> {
    let known = Form::ALL.into_iter().find(|form| form.name() == name);
    known.ok_or_else(|| anyhow!("--format: `{name}` is not a form; expected udev, nixos, tuned, ansible or systemd"))
}

fn rotates(queue: &Queue) -> Option<bool> {
    queue.get("rotational").ok().map(|text| text.trim() == "1")
}

/// Says whether what was applied to the drive holds. Nothing is run and nothing is set.
fn check(path: &Path) -> Result<Ended> {
    let Some(queue) = Queue::of(path)?.filter(Queue::schedules) else {
        bail!("{}: expected a block device that has schedulers", path.display());
    };
    let disk = queue.name();
    let (current, _) = queue.schedulers()?;
    let Some(found) = setters::check(Path::new("/"), disk, rotates(&queue), &current) else {
        bail!(
            "{}: nothing was applied to it: expected /etc/udev/rules.d/{}; {current} is set",
            path.display(),
            setters::own_file(disk)
        );
    };
    output::print(&(found.lines.join("\n") + "\n"))?;
    Ok(if found.holds { Ended::Done } else { Ended::Failed })
}
