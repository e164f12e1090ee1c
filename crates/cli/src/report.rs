//! `report` and `diff`: results that were written before.

use anyhow::{Result, bail};
use dumbwaiter_report::{diff_text, read_json};

use crate::args::{Diff, Report};
use crate::{Ended, output, results};

/// Shows a result again, in any format.
pub(crate) fn run(args: &Report) -> Result<Ended> {
    let format = results::format(&args.format)?;
    results::check_outputs(&args.outputs, &[&args.result])?;
    let mut document = read_json(&args.result)?;
    document.goal = args.goal.map_or(document.goal, Into::into);
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
