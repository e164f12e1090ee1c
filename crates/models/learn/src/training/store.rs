//! Models by name: shipped ones and files.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::import::{Format, Purpose, import as import_model};
use crate::{FeatureSet, Model, ModelError, OutputKind, shipped};

use crate::training::Error;
use crate::training::data::CLASSES;
use crate::training::task::Task;

/// Longest file that is read as a model, one more than is accepted.
const LONGEST_FILE: u64 = (16 << 20) + 1;

/// Baselines of the shipped models, trained on the same runs: the shipped model, the baseline's name and its file.
const BASELINES: &[(&str, &str, &[u8])] = &[
    ("classifier", "decision tree", include_bytes!("../../baselines/classifier.tree.safetensors")),
    ("classifier", "boosted trees", include_bytes!("../../baselines/classifier.boosted.safetensors")),
    (
        "latency-flash",
        "ridge of the request",
        include_bytes!("../../baselines/latency-flash.ridge-of-request.safetensors"),
    ),
    ("latency-flash", "ridge of everything", include_bytes!("../../baselines/latency-flash.ridge.safetensors")),
    ("latency-flash", "decision tree", include_bytes!("../../baselines/latency-flash.tree.safetensors")),
    ("latency-flash", "boosted trees", include_bytes!("../../baselines/latency-flash.boosted.safetensors")),
    ("latency-disk", "ridge of everything", include_bytes!("../../baselines/latency-disk.ridge.safetensors")),
    ("latency-disk", "decision tree", include_bytes!("../../baselines/latency-disk.tree.safetensors")),
    ("latency-disk", "boosted trees", include_bytes!("../../baselines/latency-disk.boosted.safetensors")),
];

/// Opens `shipped:NAME` or a file.
pub fn open(name: &str) -> Result<Model, Error> {
    if let Some(short) = name.strip_prefix("shipped:") {
        let known = || shipped::NAMES.map(|name| format!("shipped:{name}")).join(", ");
        return match shipped::model(short) {
            Some(model) => model.map_err(|error| Error::Model { name: name.to_owned(), error }),
            None => Err(Error::Usage(format!("there is no shipped model `{name}`; there are {}", known()))),
        };
    }
    Model::from_bytes(&read(Path::new(name))?).map_err(|error| Error::Model { name: name.to_owned(), error })
}

/// Imports a model that another program trained, from its file.
pub fn import(path: &Path, format: &str, task: Task, features: FeatureSet) -> Result<Model, Error> {
    let names = || Format::ALL.map(Format::name).join(", ");
    let format = Format::ALL
        .into_iter()
        .find(|known| known.name() == format)
        .ok_or_else(|| Error::Usage(format!("--format: there is no format `{format}`; expected {}", names())))?;
    let target = match task {
        Task::Classify => OutputKind::Logits,
        Task::Latency => OutputKind::Normalised,
        Task::Positioned | Task::Ordered => OutputKind::Ln,
    };
    let classes = if task == Task::Classify { CLASSES.map(str::to_owned).to_vec() } else { Vec::new() };
    let purpose = Purpose { kind: task.kind(), features, target, classes };
    import_model(&read(path)?, format, &purpose)
        .map_err(|error| Error::Model { name: path.display().to_string(), error })
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(Error::file(path))?;
    file.take(LONGEST_FILE).read_to_end(&mut bytes).map_err(Error::file(path))?;
    Ok(bytes)
}

/// The baselines of a shipped model; none of a file.
pub fn baselines(name: &str) -> Result<Vec<(&'static str, Model)>, Error> {
    let mine = BASELINES.iter().filter(|(model, ..)| name.strip_prefix("shipped:") == Some(model));
    mine.map(|&(_, baseline, bytes)| {
        let model = Model::from_bytes(bytes);
        model.map(|model| (baseline, model)).map_err(|error| Error::Model { name: baseline.to_owned(), error })
    })
    .collect()
}

/// Writes a model atomically. The previous file is kept as `NAME.prev`.
pub fn save(model: &Model, path: &Path) -> Result<(), Error> {
    let refuse = |error: ModelError| Error::Model { name: path.display().to_string(), error };
    let bytes = model.to_bytes().map_err(refuse)?;
    // A file that cannot be read back must not replace a valid one.
    Model::from_bytes(&bytes).map_err(refuse)?;
    if let Ok(before) = fs::read(path)
        && before != bytes
    {
        let mut previous = path.as_os_str().to_owned();
        previous.push(".prev");
        let previous = PathBuf::from(previous);
        dumbwaiter_text::write(&previous, |out| out.write_all(&before)).map_err(Error::file(&previous))?;
    }
    dumbwaiter_text::write(path, |out| out.write_all(&bytes)).map_err(Error::file(path))
}
