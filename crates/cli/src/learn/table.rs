//! `learn table`.

use std::sync::Arc;

use anyhow::{Result, bail};
use dumbwaiter_experiment::{TableDevice, TablePlan, score_table};
use dumbwaiter_sim::Simulator;

use crate::args::LearnTable;
use crate::{Ended, output, progress};

pub(super) fn table(args: &LearnTable) -> Result<Ended> {
    if !output::is_stdout(&args.out) {
        output::check_writable(&args.out)?;
    }
    if args.jobs == Some(0) || args.replicates == 0 {
        bail!("--jobs and --replicates: expected at least 1");
    }
    let jobs = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let plan = TablePlan {
        devices: args.device.iter().map(|text| device(text)).collect::<Result<_>>()?,
        schedulers: args.schedulers.clone(),
        replicates: args.replicates,
        made_by: described(args),
    };
    let progress = Arc::new(progress::Progress::default());
    let control = Arc::new(progress.control());
    progress::cancel_on_signal(&control)?;
    let world = Simulator::new(jobs);
    let table = progress::watch(&progress, &control, || score_table(&plan, &world, &control))?;
    output::write_text(&args.out, &table.to_json()?)?;
    crate::tell!("{} loads on {} devices", table.loads.len(), plan.devices.len());
    Ok(Ended::Done)
}

/// `DEVICE` or `DEVICE@DEPTH`.
fn device(text: &str) -> Result<TableDevice> {
    let (name, depth) = match text.rsplit_once('@') {
        Some((name, depth)) => match depth.parse() {
            Ok(depth) if depth > 0 => (name, Some(depth)),
            _ => bail!("--device {text}: `{depth}` is no depth; expected DEVICE@DEPTH with a depth of at least 1"),
        },
        None => (text, None),
    };
    let facts = dumbwaiter_devices::load(name)?.facts();
    Ok(TableDevice {
        name: name.to_owned(),
        rotational: facts.rotational,
        depth: depth.unwrap_or(facts.depth).min(facts.depth),
    })
}

/// The command, as it can be typed again.
fn described(args: &LearnTable) -> String {
    let devices: String = args.device.iter().map(|device| format!(" --device {device}")).collect();
    format!(
        "dumbwaiter {} learn table{devices} --schedulers {} --replicates {}",
        env!("CARGO_PKG_VERSION"),
        args.schedulers.join(","),
        args.replicates
    )
}
