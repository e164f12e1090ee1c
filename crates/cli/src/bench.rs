//! `bench`: the speed of the simulator, of the schedulers, of the engine and of learned models.

use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use dumbwaiter_bench::{controllers, engine, learn, schedulers, serve, shares, simulator};
use dumbwaiter_experiment::{Control, Failure};
use dumbwaiter_report::Style;
use dumbwaiter_scenario::SchedulerSpec;
use dumbwaiter_schedulers::{Choice, REGISTRY};
use serde::Serialize;

use crate::args::{Bench, BenchWhat};
use crate::progress::cancel_on_signal_and_undo;
use crate::{Ended, input, output};

/// Measures and prints.
pub(crate) fn run(args: &Bench) -> Result<Ended> {
    if let Some(path) = &args.json {
        output::check_writable(path)?;
    }
    if let Some(option) = args.engine.misplaced(args.what) {
        bail!("{option}: has no meaning for this benchmark; leave it out");
    }
    match args.what {
        BenchWhat::Controllers => show(args, &controllers::run(&before(args)?)?, controllers::text),
        BenchWhat::Engine => engine(args),
        BenchWhat::Learn => show(args, &learn::run()?, learn::text),
        BenchWhat::Serve => serve(args),
        BenchWhat::Shares => shares(args),
        BenchWhat::Sim => show(args, &simulator::run(&wanted(args)?)?, simulator::text),
        BenchWhat::Schedulers => show(args, &schedulers::run(&wanted(args)?)?, schedulers::text),
    }
}

fn show<T: Serialize>(args: &Bench, rows: &[T], text: fn(&[T], Style) -> String) -> Result<Ended> {
    output::print_or_json(args.json.as_deref(), &rows, || text(rows, output::style()))?;
    Ok(Ended::Done)
}

/// The one scheduler that controllers stand before.
fn before(args: &Bench) -> Result<Choice> {
    match args.schedulers.as_deref() {
        None => Ok(Choice::parse("none")?),
        Some(_) => match <[Choice; 1]>::try_from(wanted(args)?) {
            Ok([one]) => Ok(one),
            Err(several) => bail!("--schedulers: {} schedulers; bench controllers takes one", several.len()),
        },
    }
}

fn wanted(args: &Bench) -> Result<Vec<Choice>> {
    match &args.schedulers {
        None => REGISTRY.iter().map(|e| Ok(Choice::parse(e.name)?)).collect(),
        Some(list) => {
            let specs = SchedulerSpec::parse_list(list).map_err(|e| anyhow::anyhow!("--schedulers: {e}"))?;
            specs.iter().map(|s| Ok(Choice::parse(&s.to_string())?)).collect()
        }
    }
}

fn serve(args: &Bench) -> Result<Ended> {
    let (scheduler, rounds) = (args.schedulers.clone(), args.engine.rounds);
    let plan = serve::Plan::new(
        std::env::current_exe()?,
        scheduler,
        input::time_if("--time", args.engine.time.as_ref())?,
        rounds,
        &args.engine.depth,
    );
    served(args, |control| serve::run(&plan, control, &|line| crate::tell!("{line}")), serve::text)
}

fn shares(args: &Bench) -> Result<Ended> {
    let (on, scheduler) = (args.engine.on.clone(), args.schedulers.clone());
    let plan =
        shares::Plan::new(on, scheduler, input::time_if("--time", args.engine.time.as_ref())?, args.engine.rounds);
    served(args, |control| shares::run(&plan, control, &|line| crate::tell!("{line}")), shares::text)
}

/// Measures served disks and prints.
fn served<T: Serialize>(
    args: &Bench,
    run: impl FnOnce(&Control) -> Result<Vec<T>, Failure>,
    text: fn(&[T], Style) -> String,
) -> Result<Ended> {
    let control = Arc::new(Control::default());
    cancel_on_signal_and_undo(&control)?;
    let rows = run(&control)?;
    show(args, &rows, text)?;
    Ok(if control.cancelled() { Ended::Interrupted } else { Ended::Done })
}

fn engine(args: &Bench) -> Result<Ended> {
    args.engine.destroy.check(args.engine.on.as_deref(), "--on PATH")?;
    let mut plan = engine::Plan {
        on: args.engine.on.clone(),
        allow_writes: args.engine.destroy.allows_writes(),
        ..engine::Plan::default()
    };
    plan.time = input::time_if("--time", args.engine.time.as_ref())?.unwrap_or(plan.time);
    plan.op = args.engine.op.clone().unwrap_or(plan.op);
    if let Some(list) = &args.schedulers {
        plan.schedulers = SchedulerSpec::parse_list(list).map_err(|e| anyhow!("--schedulers: {e}"))?;
    }
    if !args.engine.depth.is_empty() {
        plan.depths.clone_from(&args.engine.depth);
    }
    plan.rounds = args.engine.rounds.unwrap_or(plan.rounds);
    let control = Arc::new(Control::default());
    cancel_on_signal_and_undo(&control)?;
    let measured = engine::run(&plan, &control, &|line| crate::tell!("{line}"))?;
    output::print_or_json(args.json.as_deref(), &measured.rows, || engine::text(&measured, output::style()))?;
    match measured.failure {
        Some(failure) => Err(failure.into()),
        None if control.cancelled() => Ok(Ended::Interrupted),
        None => Ok(Ended::Done),
    }
}
