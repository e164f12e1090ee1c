//! `bench`: the speed of the simulator, of the schedulers, of the engine and of learned models.

use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use dumbwaiter_bench::{engine, learn, schedulers, serve, shares, simulator};
use dumbwaiter_block::Nanos;
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
    if !matches!(args.what, BenchWhat::Engine | BenchWhat::Serve | BenchWhat::Shares)
        && let Some(option) = args.engine.given()
    {
        bail!("{option}: applies only to `bench engine`; leave it out");
    }
    match args.what {
        BenchWhat::Engine => engine(args),
        BenchWhat::Learn => {
            let rows = learn::run()?;
            show(args, &rows, || learn::text(&rows, output::style()))
        }
        BenchWhat::Serve => serve(args),
        BenchWhat::Shares => shares(args),
        BenchWhat::Sim => {
            let rows = simulator::run(&wanted(args)?)?;
            show(args, &rows, || simulator::text(&rows, output::style()))
        }
        BenchWhat::Schedulers => {
            let rows = schedulers::run(&wanted(args)?)?;
            show(args, &rows, || schedulers::text(&rows, output::style()))
        }
    }
}

fn show<T: Serialize>(args: &Bench, rows: &[T], text: impl FnOnce() -> String) -> Result<Ended> {
    output::print_or_json(args.json.as_deref(), &rows, text)?;
    Ok(Ended::Done)
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
    if args.engine.on.is_some() {
        bail!("--on applies only to `bench engine` and `bench shares`; leave it out");
    }
    let plan = serve::Plan {
        program: std::env::current_exe()?,
        folder: std::env::temp_dir(),
        scheduler: args.schedulers.clone().unwrap_or_else(|| "headway".to_owned()),
        time: time(args, Nanos::from_secs(2))?,
        rounds: args.engine.rounds.unwrap_or(3),
        depths: args.engine.depth.clone(),
    };
    served(args, |control| serve::run(&plan, control, &|line| crate::tell!("{line}")), serve::text)
}

fn shares(args: &Bench) -> Result<Ended> {
    let plan = shares::Plan {
        on: args.engine.on.clone(),
        folder: std::env::temp_dir(),
        scheduler: args.schedulers.clone().unwrap_or_else(|| "headway".to_owned()),
        window: time(args, Nanos::from_secs(5))?,
        windows: args.engine.rounds.unwrap_or(2),
    };
    served(args, |control| shares::run(&plan, control, &|line| crate::tell!("{line}")), shares::text)
}

fn time(args: &Bench, default: Nanos) -> Result<Nanos> {
    args.engine.time.as_ref().map_or(Ok(default), |text| input::time("--time", text))
}

/// Measures served disks and prints.
fn served<T: Serialize>(
    args: &Bench,
    run: impl FnOnce(&Control) -> Result<Vec<T>, Failure>,
    text: fn(&[T], Style) -> String,
) -> Result<Ended> {
    if args.engine.op.is_some() || args.engine.allow_writes {
        bail!("--op and --allow-writes apply only to `bench engine`; leave them out");
    }
    let control = Arc::new(Control::default());
    cancel_on_signal_and_undo(&control)?;
    let rows = run(&control)?;
    show(args, &rows, || text(&rows, output::style()))?;
    Ok(if control.cancelled() { Ended::Interrupted } else { Ended::Done })
}

fn engine(args: &Bench) -> Result<Ended> {
    let mut plan =
        engine::Plan { on: args.engine.on.clone(), allow_writes: args.engine.allow_writes, ..engine::Plan::default() };
    if let Some(text) = &args.engine.time {
        plan.time = input::time("--time", text)?;
    }
    if let Some(op) = &args.engine.op {
        plan.op.clone_from(op);
    }
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
    show(args, &measured.rows, || engine::text(&measured, output::style()))?;
    match measured.failure {
        Some(failure) => Err(failure.into()),
        None if control.cancelled() => Ok(Ended::Interrupted),
        None => Ok(Ended::Done),
    }
}
