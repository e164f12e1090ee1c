//! `report`: results that were written before.

use anyhow::{Context, Result, bail};
use dumbwaiter_report::{diff_text, read_json};

use crate::args::{Diff, Report, ReportCommand};
use crate::{Ended, energy, input, output, results};

/// Shows a result again, in any format, compares two, or adds energy to one.
pub(crate) fn run(args: &Report) -> Result<Ended> {
    match &args.what {
        Some(ReportCommand::Diff(args)) => return diff(args),
        Some(ReportCommand::Energy(args)) => return energy::run(args),
        None => {}
    }
    let result = args.result.as_deref().context("expected RESULT.json")?;
    let format = results::format(&args.format)?;
    results::check_outputs(&args.outputs, &[result])?;
    let mut document = read_json(result)?;
    document.goal = args.goal.map_or(document.goal, Into::into);
    // A goal that is given has its own rate.
    document.rate = input::rate(args.rate.as_deref())?.or(document.rate.filter(|_| args.goal.is_none()));
    document.incumbent = args.incumbent.clone().or(document.incumbent);
    document.decide();
    results::write_all(&args.outputs, &document, format)?;
    Ok(Ended::Done)
}

/// Compares two results.
pub(crate) fn diff(args: &Diff) -> Result<Ended> {
    output::check_files(args.json.as_deref(), None, &[&args.a, &args.b])?;
    let found = dumbwaiter_advise::diff(&read_json(&args.a)?, &read_json(&args.b)?);
    if found.differences.is_empty() {
        bail!(
            "nothing to compare: {}; expected results with a scheduler and a device in common",
            found.notes.join("; ")
        );
    }
    output::print_or_json(args.json.as_deref(), &found, || diff_text(&found, output::screen(false)))?;
    Ok(Ended::Done)
}
