//! `learn table`.

use anyhow::{Result, bail};
use dumbwaiter_experiment::{TableDevice, TablePlan, score_table};

use crate::args::LearnTable;
use crate::progress::Watched;
use crate::{Ended, input, output};

pub(super) fn table(args: &LearnTable) -> Result<Ended> {
    if !output::is_stdout(&args.out) {
        output::check_writable(&args.out)?;
    }
    if args.replicates == 0 {
        bail!("--replicates 0: expected at least 1");
    }
    let world = input::simulator(args.jobs)?;
    let plan = TablePlan {
        devices: args.device.iter().map(|text| TableDevice::parse(text)).collect::<Result<_, _>>()?,
        schedulers: args.schedulers.clone(),
        replicates: args.replicates,
    };
    let table = Watched::start()?.run(|control| score_table(&plan, &world, control))?;
    output::write_text(&args.out, &table.to_json()?)?;
    crate::tell!("{} loads on {} devices", table.loads.len(), plan.devices.len());
    Ok(Ended::Done)
}
