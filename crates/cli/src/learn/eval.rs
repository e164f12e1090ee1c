//! `learn eval` and `learn predict`.

use std::io::{BufWriter, Write};

use anyhow::{Context, Result};
use dumbwaiter_learn::Model;
use dumbwaiter_report::{Align, table};
use dumbwaiter_training::data::{DataSet, read_run};
use dumbwaiter_training::evaluate::{Baseline, Evaluation, Named, Times, evaluate};
use dumbwaiter_training::predict::{Line, predict as predict_run};
use dumbwaiter_training::store;

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
    let data = DataSet::read(&args.data, &args.runs)?;
    let evaluation = evaluate((&args.model, &model), &named, &data, times)?;
    match &args.json {
        Some(path) => output::write_json(path, &evaluation)?,
        None => output::print(&text(&evaluation))?,
    }
    Ok(Ended::Done)
}

fn text(evaluation: &Evaluation) -> String {
    let own =
        Baseline { name: evaluation.model.clone(), accuracy: evaluation.accuracy.clone(), latency: evaluation.latency };
    let all: Vec<&Baseline> = std::iter::once(&own).chain(&evaluation.baselines).collect();
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let left = |name: &'static str| (name, Align::Left);
    let right = |name: &'static str| (name, Align::Right);
    let (header, rows) = if evaluation.accuracy.is_some() {
        let row = |of: &&Baseline| {
            let mut row = vec![of.name.clone()];
            let shares = of.accuracy.as_ref().map(|a| [a.raw, a.merged_a, a.merged_b, a.voted_64, a.calibration_error]);
            row.extend(shares.into_iter().flatten().map(percent));
            row
        };
        let header = ["raw", "merged A", "merged B", "voted 64", "calibration error"].map(right);
        ([vec![left("model")], header.to_vec()].concat(), all.iter().map(row).collect::<Vec<_>>())
    } else {
        let row = |of: &&Baseline| {
            let mut row = vec![of.name.clone()];
            if let Some(l) = &of.latency {
                row.extend([format!("{:.3}", l.pcc_ln), percent(l.within_2x), percent(l.within_25_percent)]);
                row.extend([l.mean_pcc_in_run, l.pair_order].map(|value| format!("{value:.3}")));
            }
            row
        };
        let header = ["PCC (ln)", "within 2x", "within 25 %", "PCC in a run", "pair order"].map(right);
        ([vec![left("model")], header.to_vec()].concat(), all.iter().map(row).collect())
    };
    let mut text = table(&header, &rows, output::style());
    text += &format!(
        "\n{} rows of {}; latencies: {}\n",
        dumbwaiter_measure::grouped(evaluation.rows as u64),
        evaluation.runs.join(", "),
        evaluation.times
    );
    if evaluation.latency.is_some() {
        text += "pair order: 0.5 is chance; only it and the PCC in a run say whether a queue can be ordered\n";
    }
    text
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
    if json {
        serde_json::to_writer(&mut *out, line)?;
        return writeln!(out);
    }
    match (&line.class, line.predicted_us, line.latency_us) {
        (Some(class), ..) => writeln!(out, "{class} {:.3}", line.probability.unwrap_or(0.0)),
        (None, Some(predicted), Some(latency)) => {
            writeln!(out, "{latency:.0} {predicted:.0}{}", if line.cold { " cold" } else { "" })
        }
        _ => Ok(()),
    }
}
