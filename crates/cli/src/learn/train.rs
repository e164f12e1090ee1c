//! `learn train`.

use anyhow::{Result, anyhow, bail};
use dumbwaiter_training::data::DataSet;
use dumbwaiter_training::store;
use dumbwaiter_training::train::{Method, Request, train_model};

use crate::args::LearnTrain;
use crate::{Ended, output};

pub(super) fn train(args: &LearnTrain) -> Result<Ended> {
    output::check_writable(&args.out)?;
    let task = super::task(&args.task)?;
    let names = || Method::ALL.map(Method::name).join(", ");
    let method = Method::ALL
        .into_iter()
        .find(|method| method.name() == args.method)
        .ok_or_else(|| anyhow!("--method: there is no method `{}`; expected {}", args.method, names()))?;
    let data = DataSet::read(&args.data, &[])?;
    let (train, validate) = match &args.split {
        Some(text) => split(text)?,
        None => {
            let mut repeats = data.repeats();
            let last = repeats.pop().into_iter().collect();
            (repeats, last)
        }
    };
    if let Some(missing) = train.iter().chain(&validate).find(|repeat| !data.repeats().contains(repeat)) {
        bail!("--split: there is no repeat `{missing}`; the data has {}", data.repeats().join(", "));
    }
    let features = super::feature_set(args.features.as_deref(), task)?;
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

/// `train=r1,r2:val=r3`.
fn split(text: &str) -> Result<(Vec<String>, Vec<String>)> {
    let wrong = || anyhow!("--split {text}: expected train=REPEAT,…:val=REPEAT,…");
    let (train, validate) = text.split_once(':').ok_or_else(wrong)?;
    let list = |part: &str, key: &str| -> Result<Vec<String>> {
        let names = part.strip_prefix(key).ok_or_else(wrong)?;
        Ok(names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect())
    };
    let (train, validate) = (list(train, "train=")?, list(validate, "val=")?);
    if train.is_empty() || validate.is_empty() {
        return Err(wrong());
    }
    Ok((train, validate))
}

/// What decides the result, as a command line: no path, so that the same data anywhere gives the same bytes.
fn described(args: &LearnTrain) -> String {
    let mut text = format!("learn train --task {} --method {}", args.task, args.method);
    let options = [("--features", &args.features), ("--split", &args.split), ("--device", &args.device)];
    for (name, value) in options {
        if let Some(value) = value {
            text += &format!(" {name} {value}");
        }
    }
    text + &format!(" --seed {}", args.seed)
}
