//! `learn drift`.

use anyhow::Result;
use dumbwaiter_training::data::DataSet;
use dumbwaiter_training::drift::{DriftEvent, DriftReport, DriftStep, watch_recorded};
use dumbwaiter_training::store;

use crate::args::LearnDrift;
use crate::{Ended, output};

pub(super) fn drift(args: &LearnDrift) -> Result<Ended> {
    for path in args.json.iter().chain(&args.out) {
        output::check_writable(path)?;
    }
    let model = store::open(&args.model)?;
    let data = DataSet::read(&args.data, &args.runs)?;
    let mut lines = String::new();
    let (report, last) = watch_recorded(&args.model, model, &data, |event| lines += &line(event))?;
    if let Some(path) = &args.out {
        store::save(&last, path)?;
    }
    match &args.json {
        Some(path) => output::write_json(path, &report)?,
        None => output::print(&(lines + &summary(&report)))?,
    }
    if let Some(path) = &args.out {
        crate::tell!("model written to {}", path.display());
    }
    Ok(Ended::Done)
}

fn line(event: &DriftEvent) -> String {
    format!("{:9.1} s  {:28}  {}\n", event.at_s, event.run, event.step.sentence())
}

fn summary(report: &DriftReport) -> String {
    let count = |is: fn(&DriftStep) -> bool| report.events.iter().filter(|event| is(&event.step)).count();
    let alarms = count(|step| matches!(step, DriftStep::Alarm { .. }));
    let published = count(|step| matches!(step, DriftStep::Trained { published: true, .. }));
    let trained = count(|step| matches!(step, DriftStep::Trained { .. }));
    let back = count(|step| matches!(step, DriftStep::RolledBack));
    let requests = dumbwaiter_measure::grouped(report.requests);
    let mut text = format!(
        "{}: {requests} requests in {:.0} s: {alarms} alarms, {trained} challengers, {published} published, \
         {back} rolled back\n",
        report.model, report.seconds
    );
    if let Some(why) = &report.no_training {
        text += &format!("no challenger can be trained: {why}\n");
    }
    text
}
