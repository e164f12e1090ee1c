//! `learn`: train, evaluate and inspect models.

mod drift;
mod eval;
mod show;
mod table;
#[cfg(feature = "train")]
mod train;

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use dumbwaiter_learn::FeatureSet;
use dumbwaiter_training::data::DataSet;
use dumbwaiter_training::features::{rows_by_run, write_npy};
use dumbwaiter_training::store;
use dumbwaiter_training::task::Task;

use crate::args::{Learn, LearnCommand, LearnFeatures, LearnImport};
use crate::{Ended, output};

/// Runs the subcommand.
pub(crate) fn run(args: &Learn) -> Result<Ended> {
    match &args.what {
        LearnCommand::Eval(args) => eval::eval(args),
        LearnCommand::Drift(args) => drift::drift(args),
        LearnCommand::Predict(args) => eval::predict(args),
        LearnCommand::Show(args) => show::show(args),
        LearnCommand::Features(args) => features(args),
        LearnCommand::Import(args) => import(args),
        LearnCommand::Table(args) => table::table(args),
        #[cfg(feature = "train")]
        LearnCommand::Train(args) => train::train(args),
        #[cfg(not(feature = "train"))]
        LearnCommand::Train(_) => {
            bail!("this build cannot train; build it with `cargo build --release --features train`")
        }
    }
}

fn task(name: &str) -> Result<Task> {
    let names = || Task::ALL.map(Task::name).join(", ");
    let task = Task::ALL.into_iter().find(|task| task.name() == name);
    task.ok_or_else(|| anyhow!("--task: there is no task `{name}`; expected {}", names()))
}

fn feature_set(name: Option<&str>, task: Task) -> Result<FeatureSet> {
    let Some(name) = name else { return Ok(task.features()) };
    let names: Vec<&str> = FeatureSet::ALL.map(FeatureSet::name).to_vec();
    let set = FeatureSet::named(name)
        .ok_or_else(|| anyhow!("--features: there is no feature set `{name}`; expected {}", names.join(", ")))?;
    if !task.accepts(set) {
        bail!("--features: a model of the task {} cannot have the inputs `{name}`", task.name());
    }
    Ok(set)
}

fn features(args: &LearnFeatures) -> Result<Ended> {
    output::check_writable(&args.out)?;
    let task = task(&args.task)?;
    let set = feature_set(args.features.as_deref(), task)?;
    let extension = args.out.extension().and_then(|extension| extension.to_str());
    if !matches!(extension, Some("parquet" | "npy")) {
        bail!("--out {}: expected a name that ends in .parquet or .npy", args.out.display());
    }
    let runs = rows_by_run(&DataSet::read(&args.data, &args.runs)?, task, set);
    let rows: usize = runs.iter().map(|run| run.rows.len()).sum();
    if extension == Some("npy") {
        dumbwaiter_output::write(&args.out, |out| write_npy(&runs, out))
            .map_err(|error| anyhow!("cannot write {}: {error}", args.out.display()))?;
    } else {
        write_parquet(&runs, &args.out)?;
    }
    crate::tell!("{rows} rows of {} inputs from {} runs written to {}", set.inputs(), runs.len(), args.out.display());
    Ok(Ended::Done)
}

fn write_parquet(runs: &[dumbwaiter_training::features::NamedRows], path: &Path) -> Result<()> {
    let width = runs.first().map_or(0, |run| run.rows.width);
    let mut columns: Vec<(String, Vec<f32>)> = Vec::new();
    let mut column = |name: String, of_row: &dyn Fn(&dumbwaiter_training::samples::Rows, usize) -> f32| {
        let values = runs.iter().flat_map(|run| (0..run.rows.len()).map(|index| of_row(&run.rows, index))).collect();
        columns.push((name, values));
    };
    for input in 0..width {
        column(format!("x{input}"), &|rows, index| rows.row(index)[input]);
    }
    column("truth".to_owned(), &|rows, index| rows.truths[index]);
    column("history_mean".to_owned(), &|rows, index| rows.normals[index].0);
    column("history_deviation".to_owned(), &|rows, index| rows.normals[index].1);
    let names = runs.iter().flat_map(|run| std::iter::repeat_n(run.run.as_str(), run.rows.len()));
    Ok(dumbwaiter_report::write_float_table(path, "run", names, &columns)?)
}

fn import(args: &LearnImport) -> Result<Ended> {
    output::check_writable(&args.out)?;
    let task = task(&args.task)?;
    let set = feature_set(args.features.as_deref(), task)?;
    let model = store::import(&args.file, &args.format, task, set)?;
    store::save(&model, &args.out)?;
    crate::tell!("model written to {}", args.out.display());
    Ok(Ended::Done)
}
