//! Names of results by their content.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use dumbwaiter_devices::DeviceModel;
use dumbwaiter_experiment::Control;
use dumbwaiter_scenario::{Scenario, Work};
use sha2::{Digest, Sha256};

use crate::Error;

/// A hash of everything that a result follows from, as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub u128);

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Key {
    /// Reads the digits.
    pub fn parse(text: &str) -> Option<Key> {
        u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32).map(Key)
    }
}

/// The hash of texts; each ends where it ends.
pub(crate) fn hash<'a>(texts: impl IntoIterator<Item = &'a str>) -> Key {
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    }
    key_of(&hasher.finalize())
}

fn key_of(digest: &[u8]) -> Key {
    Key(digest.iter().take(16).fold(0, |key, byte| key << 8 | u128::from(*byte)))
}

/// The part of a scenario that determines results: not its name, nor the fields that the cell has itself.
pub(crate) fn canonical(scenario: &Scenario) -> Result<String, Error> {
    let plain = Scenario {
        name: String::new(),
        description: String::new(),
        devices: Vec::new(),
        schedulers: Vec::new(),
        completion: Vec::new(),
        replicates: 1,
        seed: 0,
        ..scenario.clone()
    };
    serde_json::to_string(&plain).map_err(|e| Error::input(e.to_string()))
}

/// The parameters of a device: a file may change under its name.
pub(crate) fn of_device(model: &DeviceModel) -> Result<String, Error> {
    serde_json::to_string(model).map_err(|e| Error::input(e.to_string()))
}

/// Hashes of the traces that a scenario names, by path.
pub(crate) fn of_traces(
    scenario: &Scenario,
    known: &mut BTreeMap<String, String>,
    control: &Control,
) -> Result<String, Error> {
    let mut text = String::new();
    for (_, task) in scenario.tasks() {
        let Work::Trace(spec) = &task.work else { continue };
        for path in std::iter::once(&spec.path).chain(&spec.options.parts) {
            if !known.contains_key(path) {
                known.insert(path.clone(), of_file(Path::new(path), control)?);
            }
            text += &known[path];
        }
    }
    Ok(text)
}

fn of_file(path: &Path, control: &Control) -> Result<String, Error> {
    let failed = |source| Error::File { path: path.to_owned(), source };
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let mut hasher = Sha256::new();
    let mut bytes = vec![0; 1 << 20];
    loop {
        if control.cancelled() {
            return Err(Error::Interrupted);
        }
        let read = file.read(&mut bytes).map_err(failed)?;
        if read == 0 {
            return Ok(key_of(&hasher.finalize()).to_string());
        }
        hasher.update(&bytes[..read]);
    }
}
