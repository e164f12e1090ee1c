//! `recommend`: a survey of a drive, which only reads, and what to set.

use std::time::Duration;

use anyhow::Result;
use dumbwaiter_realworld::{DeviceOptions, DeviceUnderTest, EnergySource, Survey};
use dumbwaiter_report::{SurveyPoint, advice_text, write_advice_html};

use super::{announce, worker_program};
use crate::args::Recommend;
use crate::progress::{RunBar, cancel_on_signal_and_undo};
use crate::{Ended, input, output};

/// Surveys the drive, and says what to set.
pub(crate) fn run(args: &Recommend) -> Result<Ended> {
    let path = args.device.as_path();
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
    let text = if to_stdout { Ok(()) } else { output::print(&advice_text(advice, &points, output::screen(args.wide))) };
    html.and(json).and(text.map_err(Into::into))?;
    Ok(match found.failure {
        Some(_) => Ended::DeviceFailed,
        None if advice.interrupted => Ended::Interrupted,
        None => Ended::Done,
    })
}
