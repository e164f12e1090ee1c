//! `learn train`.

use anyhow::{Result, anyhow};
use dumbwaiter_learn::training::data::DataSet;
use dumbwaiter_learn::training::store;
use dumbwaiter_learn::training::train::{Method, Request, Split, train_model};

use crate::args::LearnTrain;
use crate::{Ended, output};

pub(super) fn train(args: &LearnTrain) -> Result<Ended> {
    output::check_writable(&args.out)?;
    let (task, features) = super::inputs(&args.inputs)?;
    let method = Method::parse(&args.method).map_err(|e| anyhow!("--method: {e}"))?;
    let data = DataSet::read(&args.data, &[])?;
    let Split { train, validate } = Split::parse(args.split.as_deref(), &data)?;
    let request = Request {
        task,
        method,
        features,
        train,
        validate,
        seed: args.seed,
        device: args.device.clone(),
        args: described(args),
    };
    let model = train_model(&data, &request)?;
    store::save(&model, &args.out)?;
    crate::tell!("trained on {} rows; model written to {}", model.about.trained.rows, args.out.display());
    Ok(Ended::Done)
}

/// The options that decide the result, as a command line: no path, so that the same data anywhere gives the same bytes.
fn described(args: &LearnTrain) -> String {
    let mut text = format!("learn train --task {} --method {}", args.inputs.task, args.method);
    let options = [("--features", &args.inputs.features), ("--split", &args.split), ("--device", &args.device)];
    for (name, value) in options {
        if let Some(value) = value {
            text += &format!(" {name} {value}");
        }
    }
    text + &format!(" --seed {}", args.seed)
}
