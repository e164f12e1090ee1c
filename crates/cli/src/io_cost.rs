//! `devices io-cost`.

use std::path::Path;

use anyhow::{Result, bail};
use dumbwaiter_devices::{load, models};
use dumbwaiter_experiment::{IoCostParameters, IoCostPlan, io_cost_parameters, io_cost_reads};
use dumbwaiter_realworld::{DeviceOptions, DeviceUnderTest, EnergySource, io_cost_world};
use dumbwaiter_report::{Align, table};
use serde_json::json;

use crate::args::DevicesIoCost;
use crate::on::{announce, worker_program};
use crate::progress::{RunBar, Watched, cancel_on_signal_and_undo};
use crate::{Ended, input, output};

/// Stands for the name of a drive's model.
const MODEL_NAME: &str = "MODEL NAME";

/// Whether udev's hardware database can match this name alone.
fn names_one_model(name: &str) -> bool {
    !name.is_empty() && !name.chars().any(|c| c.is_control() || "*?[]\\:".contains(c))
}

/// Measures and prints the parameters of each model.
pub(crate) fn run(args: &DevicesIoCost) -> Result<Ended> {
    if let Some(path) = &args.json {
        output::check_writable(path)?;
    }
    if let Some(name) = args.model_name.as_deref().filter(|name| !names_one_model(name)) {
        bail!("--model-name {name:?}: expected the name of one model, without * ? [ ] : or line breaks");
    }
    let most = input::time_if("--p99", args.p99.as_ref())?.map(|time| time.0 as f64 / 1e3);
    args.destroy.check(args.on.as_deref(), "--on PATH")?;
    if let Some(path) = &args.on {
        return of_device(args, path, most);
    }
    let world = input::simulator(args.jobs)?;
    let mut found = Vec::new();
    for device in wanted(args)? {
        let plan = IoCostPlan { device, service_p99_most_us: most };
        found.push(Watched::start()?.run(|control| io_cost_parameters(&plan, &world, control))?);
    }
    let model_name = args.model_name.as_deref().unwrap_or(MODEL_NAME);
    let text = || found.iter().map(|of| text(of, "MAJ:MIN", model_name)).collect::<Vec<_>>().join("\n");
    output::print_or_json(args.json.as_deref(), &found, text)?;
    Ok(Ended::Done)
}

/// Measures a real device. Writes belong to it only where they are allowed.
fn of_device(args: &DevicesIoCost, path: &Path, service_p99_most_us: Option<f64>) -> Result<Ended> {
    let writes = args.destroy.allows_writes();
    let bar = RunBar::default();
    let control = bar.control(path, writes);
    cancel_on_signal_and_undo(&control)?;
    let options = DeviceOptions {
        allow_writes: writes,
        confirmed: args.destroy.confirmed(),
        energy: EnergySource::None,
        announce: Some(announce()),
        ..DeviceOptions::default()
    };
    let device = DeviceUnderTest::open(path, options)?;
    let number = device.queue().and_then(|queue| queue.number().ok()).unwrap_or_else(|| "MAJ:MIN".to_owned());
    let name = path.display().to_string();
    let world = io_cost_world(&device, worker_program(), writes)?;
    if writes {
        let plan = IoCostPlan { device: name, service_p99_most_us };
        let found = io_cost_parameters(&plan, &*world, &control);
        bar.finish();
        let found = found?;
        let own = device.facts().model.as_deref().filter(|name| names_one_model(name));
        let model_name = args.model_name.as_deref().or(own).unwrap_or(MODEL_NAME);
        output::print_or_json(args.json.as_deref(), &[&found], || text(&found, &number, model_name))?;
        return Ok(Ended::Done);
    }
    let found = io_cost_reads(&name, &*world, &control);
    bar.finish();
    let model = found?;
    let text = || {
        format!(
            "{name}: as far as reads tell; --destroy {name} measures writes too, and a rate that protects a service\n\n\
             echo '{number} ctrl=user model=linear {model}' > /sys/fs/cgroup/io.cost.model\n"
        )
    };
    output::print_or_json(args.json.as_deref(), &[json!({"device": name, "model": model})], text)?;
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

/// For people; `number` names the drive in the kernel's files.
fn text(of: &IoCostParameters, number: &str, model_name: &str) -> String {
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
    let remark = match number {
        "MAJ:MIN" => "# the drive's number stands for MAJ:MIN (lsblk -do NAME,MAJ:MIN)\n",
        _ => "",
    };
    format!(
        "{}\n{answer}\n\n{}\n{remark}{}\n\n# /etc/udev/hwdb.d/91-iocost.hwdb, then systemd-hwdb update; systemd 254 or later\n{}",
        of.device,
        table(&header, &lines, output::style()),
        of.commands(number).join("\n"),
        of.hwdb(model_name)
    )
}
