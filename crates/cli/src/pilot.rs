//! `pilot`: the scheduler of live disks.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::terminal::{pilot_status_text, replay_text};
use anyhow::{Context, Result};
use dumbwaiter_linux::undo;
use dumbwaiter_pilot::{DeviceConfig, PilotConfig, Question, ReplayOptions, RunOptions, RunSummary, ask, replay};
use dumbwaiter_traces::TraceReader;

use crate::args::{Pilot, PilotQuestion};
use crate::{Ended, output, trace};

pub(crate) fn run(args: &Pilot) -> Result<Ended> {
    match &args.question {
        None => fly(args),
        Some(PilotQuestion::Status { json, control }) => {
            let answer = ask(&control.path(), &Question::Status {})?;
            output::print(&if *json { output::pretty(&answer)? } else { pilot_status_text(&answer, output::style()) })?;
            Ok(Ended::Done)
        }
        Some(PilotQuestion::Explain { device, json, control }) => {
            let answer = ask(&control.path(), &Question::Explain { device: device.clone() })?;
            let text = || answer["text"].as_str().unwrap_or_default().to_owned();
            output::print(&if *json { output::pretty(&answer)? } else { text() })?;
            Ok(Ended::Done)
        }
        Some(PilotQuestion::Resume { device, control }) => {
            ask(&control.path(), &Question::Resume { device: device.clone() })?;
            output::print(&format!("resumed {device}\n"))?;
            Ok(Ended::Done)
        }
        Some(PilotQuestion::Replay { trace: file, config, scheduler, rotating, json, reading }) => {
            let device = match config {
                Some(path) => PilotConfig::from_file(path)?.devices.swap_remove(0),
                None => DeviceConfig::new(file),
            };
            let options = ReplayOptions { scheduler: scheduler.clone(), rotating: *rotating, device };
            replayed(&mut trace::open(std::slice::from_ref(file), reading)?, &options, *json)
        }
    }
}

/// Runs until a signal, or once.
fn fly(args: &Pilot) -> Result<Ended> {
    let path = args.config.as_ref().context("no configuration: give --config FILE, which names the disks")?;
    let config = PilotConfig::from_file(path)?;
    let stop = Arc::new(AtomicBool::new(false));
    undo::on_signals(Some(Arc::clone(&stop)))?;
    let options = RunOptions { act: args.act, once: args.once };
    let ended = dumbwaiter_pilot::run(&config, options, &stop, &mut |line| crate::tell!("{line}"))?;
    for problem in &ended.problems {
        crate::tell!("not restored: {problem}");
    }
    if args.once {
        output::print(&once(&ended, args.json)?)?;
    }
    Ok(match () {
        () if !ended.problems.is_empty() => Ended::DeviceFailed,
        () if args.once && !ended.has_disks => Ended::Failed,
        () => Ended::Done,
    })
}

fn once(ended: &RunSummary, json: bool) -> Result<String> {
    if json {
        return Ok(output::pretty(&serde_json::to_value(&ended.status)?)?);
    }
    Ok(ended.status.devices.iter().map(|device| device.explain()).collect())
}

fn replayed(reader: &mut TraceReader, options: &ReplayOptions, json: bool) -> Result<Ended> {
    let mut lines = String::new();
    let summary = replay(reader, options, |decision| {
        lines += &format!("{:10.1} s  {}\n", decision.at_s, decision.line());
    })?;
    if json {
        output::print(&output::pretty(&serde_json::to_value(&summary)?)?)?;
    } else {
        output::print(&format!("{}{lines}", replay_text(&summary)))?;
    }
    Ok(Ended::Done)
}
