//! `learn drift`.

use crate::terminal::{drift_line, drift_text};
use anyhow::Result;
use dumbwaiter_learn::training::drift::watch_recorded;
use dumbwaiter_learn::training::store;

use crate::args::LearnDrift;
use crate::{Ended, output};

pub(super) fn drift(args: &LearnDrift) -> Result<Ended> {
    for path in args.json.iter().chain(&args.out) {
        output::check_writable(path)?;
    }
    let model = store::open(&args.model)?;
    let data = super::recorded(&args.recorded)?;
    let mut lines = String::new();
    let (report, last) = watch_recorded(&args.model, model, &data, |event| lines += &drift_line(event))?;
    if let Some(path) = &args.out {
        store::save(&last, path)?;
    }
    output::print_or_json(args.json.as_deref(), &report, || lines + &drift_text(&report))?;
    if let Some(path) = &args.out {
        crate::tell!("model written to {}", path.display());
    }
    Ok(Ended::Done)
}
