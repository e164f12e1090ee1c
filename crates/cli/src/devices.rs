//! `devices`: the models, their parameter files, and how they agree with data sheets.

use std::path::Path;

use crate::terminal::{checks_text, devices_text};
use anyhow::{Result, bail};
use dumbwaiter_devices::{Facts, ModelInfo, catalogue, load, models};
use dumbwaiter_sim::validate::checks;

use crate::args::{Devices, DevicesCommand};
use crate::{Ended, output};

/// Prints the list, a parameter file, a validation or a fit.
pub(crate) fn run(args: Devices) -> Result<Ended> {
    match args.command() {
        (Some(DevicesCommand::Show { name }), _) => show(&name),
        (Some(DevicesCommand::Validate { name, json }), _) => validate_models(json.as_deref(), &name),
        (Some(DevicesCommand::IoCost(args)), _) => crate::io_cost::run(&args),
        (Some(DevicesCommand::Fit(args)), _) => crate::fit::run(&args),
        (None, json) => list(json.as_deref()),
    }
}

fn show(name: &str) -> Result<Ended> {
    let model = load(name)?;
    let Some(built_in) = models().iter().chain(catalogue()).find(|m| m.name == model.name()) else {
        bail!("{name}: expected the name of a built-in device: {}", names().join(", "));
    };
    output::print(built_in.toml)?;
    Ok(Ended::Done)
}

fn list(json: Option<&Path>) -> Result<Ended> {
    if let Some(path) = json {
        let list: Vec<_> = models().iter().map(|m| load(m.name)).collect::<Result<_, _>>()?;
        output::write_json(path, &list)?;
        return Ok(Ended::Done);
    }
    let with_facts = |info: &'static ModelInfo| Ok((info, load(info.name)?.facts()));
    let list: Vec<(&ModelInfo, Facts)> = models().iter().map(with_facts).collect::<Result<_>>()?;
    output::print(&devices_text(&list, output::style()))?;
    Ok(Ended::Done)
}

fn names() -> Vec<&'static str> {
    models().iter().map(|m| m.name).collect()
}

fn validate_models(json: Option<&Path>, name: &str) -> Result<Ended> {
    let names: Vec<String> =
        if name == "all" { models().iter().map(|m| m.name.to_owned()).collect() } else { vec![name.to_owned()] };
    let (mut all, mut text, mut missed) = (Vec::new(), String::new(), 0);
    for name in names {
        let model = load(&name)?;
        let checks = checks(&model)?;
        text += &format!("{}: {}\n", model.name(), model.description());
        text += &checks_text(&checks, output::style());
        text.push('\n');
        missed += checks.iter().filter(|check| !check.ok).count();
        all.push(serde_json::json!({ "device": model.name(), "checks": checks }));
    }
    output::print_or_json(json, &all, || text)?;
    if missed > 0 {
        crate::tell!("{missed} targets missed");
        return Ok(Ended::Failed);
    }
    Ok(Ended::Done)
}
