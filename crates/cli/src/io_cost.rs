//! `devices io-cost`.

use anyhow::{Result, bail};
use dumbwaiter_devices::{load, models};
use dumbwaiter_experiment::{IoCostParameters, IoCostPlan, io_cost_parameters};
use dumbwaiter_report::{Align, table};

use crate::args::DevicesIoCost;
use crate::progress::Watched;
use crate::{Ended, input, output};

/// Measures and prints the parameters of each model.
pub(crate) fn run(args: &DevicesIoCost) -> Result<Ended> {
    if let Some(path) = &args.json {
        output::check_writable(path)?;
    }
    if args.model_name.chars().any(|c| c.is_control() || "*?[]\\:".contains(c)) || args.model_name.is_empty() {
        bail!("--model-name {:?}: expected the name of one model, without * ? [ ] : or line breaks", args.model_name);
    }
    let most = input::time_if("--p99", args.p99.as_ref())?.map(|time| time.0 as f64 / 1e3);
    let world = input::simulator(args.jobs)?;
    let mut found = Vec::new();
    for device in wanted(args)? {
        let plan = IoCostPlan { device, service_p99_most_us: most };
        found.push(Watched::start()?.run(|control| io_cost_parameters(&plan, &world, control))?);
    }
    let text = || found.iter().map(|of| text(of, &args.model_name)).collect::<Vec<_>>().join("\n");
    output::print_or_json(args.json.as_deref(), &found, text)?;
    Ok(Ended::Done)
}

fn wanted(args: &DevicesIoCost) -> Result<Vec<String>> {
    let mut wanted = Vec::new();
    for name in &args.names {
        if name == "flash" {
            wanted.extend(models().iter().filter(|m| m.name.starts_with("ssd:")).map(|m| m.name.to_owned()));
        } else {
            load(name)?;
            wanted.push(name.clone());
        }
    }
    Ok(wanted)
}

fn text(of: &IoCostParameters, model_name: &str) -> String {
    let header = [
        ("min = max", Align::Right),
        ("p99 of a service", Align::Right),
        ("beside", Align::Left),
        ("throughput", Align::Right),
    ];
    let us = |us: f64| if us >= 10_000.0 { format!("{:.1} ms", us / 1e3) } else { format!("{us:.0} us") };
    let line = |rate: &dumbwaiter_experiment::Rate| {
        let percent = format!("{} %", rate.percent);
        vec![
            percent,
            us(rate.service_p99_us),
            rate.worst_beside.to_owned(),
            format!("{:.0} %", rate.throughput * 100.0),
        ]
    };
    let lines: Vec<Vec<String>> = of.rates.iter().map(line).collect();
    let answer = match of.isolation_percent {
        Some(percent) => format!(
            "At {percent} % of the model a service of weight 500 beside one of 100 has a p99 of at most {}.",
            us(of.service_p99_most_us)
        ),
        None => format!("No rate keeps the p99 of a service at {} or less.", us(of.service_p99_most_us)),
    };
    format!(
        "{}\n{answer}\n\n{}\n# the drive's number stands for MAJ:MIN (lsblk -do NAME,MAJ:MIN)\n{}\n\n# /etc/udev/hwdb.d/91-iocost.hwdb, then systemd-hwdb update; systemd 254 or later\n{}",
        of.device,
        table(&header, &lines, output::style()),
        of.commands("MAJ:MIN").join("\n"),
        of.hwdb(model_name)
    )
}
