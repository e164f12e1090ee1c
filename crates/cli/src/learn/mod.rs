//! `learn`: train, evaluate and inspect models.

mod eval;
mod table;
#[cfg(feature = "train")]
mod train;

use crate::terminal::model_text;
use anyhow::{Result, anyhow, bail};
use dumbwaiter_learn::FeatureSet;
use dumbwaiter_learn::training::data::DataSet;
use dumbwaiter_learn::training::features::{FeatureRows, SkippedRun, columns, rows_by_run, write_npy};
use dumbwaiter_learn::training::store;
use dumbwaiter_learn::training::task::Task;

use crate::args::{Learn, LearnCommand, LearnFeatures, LearnImport, LearnShow, ModelInputs, RecordedRuns};
use crate::{Ended, output};

/// Runs the subcommand.
pub(crate) fn run(args: &Learn) -> Result<Ended> {
    match &args.what {
        LearnCommand::Eval(args) => eval::eval(args),
        LearnCommand::Predict(args) => eval::predict(args),
        LearnCommand::Show(args) => show(args),
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

fn recorded(args: &RecordedRuns) -> Result<DataSet> {
    Ok(DataSet::read(&args.data, &args.runs)?)
}

/// The task of a model, and its inputs.
fn inputs(args: &ModelInputs) -> Result<(Task, FeatureSet)> {
    let task = Task::parse(&args.task).map_err(|e| anyhow!("--task: {e}"))?;
    Ok((task, task.parse_features(args.features.as_deref()).map_err(|e| anyhow!("--features: {e}"))?))
}

fn show(args: &LearnShow) -> Result<Ended> {
    let about = store::open(&args.model)?.about;
    output::print_or_json(args.json.as_deref(), &about, || model_text(&args.model, &about))?;
    Ok(Ended::Done)
}

fn features(args: &LearnFeatures) -> Result<Ended> {
    output::check_writable(&args.out)?;
    let (task, set) = inputs(&args.inputs)?;
    let extension = args.out.extension().and_then(|extension| extension.to_str());
    if !matches!(extension, Some("parquet" | "npy")) {
        bail!("--out {}: expected a name that ends in .parquet or .npy", args.out.display());
    }
    let FeatureRows { runs, skipped } = rows_by_run(&recorded(&args.recorded)?, task, set)?;
    for SkippedRun { run, why } in &skipped {
        crate::tell!("skipped {run}: {why}");
    }
    let rows: usize = runs.iter().map(|run| run.rows.len()).sum();
    if extension == Some("npy") {
        dumbwaiter_text::write(&args.out, |out| write_npy(&runs, out))
            .map_err(|error| anyhow!("cannot write {}: {error}", args.out.display()))?;
    } else {
        let names = runs.iter().flat_map(|run| std::iter::repeat_n(run.run.as_str(), run.rows.len()));
        dumbwaiter_report::write_float_table(&args.out, "run", names, &columns(&runs))?;
    }
    crate::tell!("{rows} rows of {} inputs from {} runs written to {}", set.inputs(), runs.len(), args.out.display());
    Ok(Ended::Done)
}

fn import(args: &LearnImport) -> Result<Ended> {
    output::check_writable(&args.out)?;
    let (task, set) = inputs(&args.inputs)?;
    let model = store::import(&args.file, &args.format, task, set)?;
    store::save(&model, &args.out)?;
    crate::tell!("model written to {}", args.out.display());
    Ok(Ended::Done)
}
