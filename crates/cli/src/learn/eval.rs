//! `learn eval` and `learn predict`.

use std::io::{BufWriter, Write};

use crate::terminal::{evaluation_text, prediction_text};
use anyhow::{Context, Result};
use dumbwaiter_learn::Model;
use dumbwaiter_learn::training::data::read_run;
use dumbwaiter_learn::training::evaluate::{Named, Times, evaluate};
use dumbwaiter_learn::training::predict::{Line, predict as predict_run};
use dumbwaiter_learn::training::store;

use crate::args::{LearnEval, LearnPredict, LearnTimes};
use crate::{Ended, output};

pub(super) fn eval(args: &LearnEval) -> Result<Ended> {
    if let Some(path) = &args.json {
        output::check_writable(path)?;
    }
    let model = store::open(&args.model)?;
    let mut beside: Vec<(String, Model)> =
        store::baselines(&args.model)?.into_iter().map(|(name, model)| (name.to_owned(), model)).collect();
    for name in &args.beside {
        beside.push((name.clone(), store::open(name)?));
    }
    let named: Vec<Named> = beside.iter().map(|(name, model)| (name.as_str(), model)).collect();
    let times = match args.times {
        LearnTimes::Fitting => Times::Fitting,
        LearnTimes::Recorded => Times::Recorded,
        LearnTimes::Served => Times::Served,
    };
    let data = super::recorded(&args.recorded)?;
    let evaluation = evaluate((&args.model, &model), &named, &data, times)?;
    output::print_or_json(args.json.as_deref(), &evaluation, || evaluation_text(&evaluation, output::style()))?;
    Ok(Ended::Done)
}

pub(super) fn predict(args: &LearnPredict) -> Result<Ended> {
    let model = store::open(&args.model)?;
    let run = read_run(&args.trace)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut failure = None;
    predict_run(&args.model, &model, &run, |line| {
        if failure.is_none() {
            failure = write_line(&mut out, &line, args.json_lines).err();
        }
    })?;
    match failure.map_or_else(|| out.flush(), Err) {
        Ok(()) => Ok(Ended::Done),
        Err(error) => Err(error).context("cannot print the predictions"),
    }
}

fn write_line(out: &mut impl Write, line: &Line, json: bool) -> std::io::Result<()> {
    let text = match json {
        true => serde_json::to_string(line)? + "\n",
        false => prediction_text(line),
    };
    // The model's file names the classes.
    out.write_all(dumbwaiter_text::escape(&text).as_bytes())
}
