//! The folder of a sweep's results.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use dumbwaiter_experiment::Control;
use dumbwaiter_text::{Entry, OutputFile};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::{Batch, Done, Error, Key, MODEL, Sweep, part_keys};

/// The file that says whose results a folder has. Readers of data sets skip names that begin with an underscore.
pub const MANIFEST: &str = "_sweep.json";

#[derive(Serialize, Deserialize)]
struct Manifest {
    schema: u32,
    dumbwaiter: String,
    model: u32,
    sweep: Sweep,
}

/// The text of the manifest of a sweep.
pub fn manifest(sweep: &Sweep) -> String {
    let manifest =
        Manifest { schema: 1, dumbwaiter: env!("CARGO_PKG_VERSION").into(), model: MODEL, sweep: sweep.clone() };
    let mut text = serde_json::to_string_pretty(&manifest).expect("every key is a string and every number has a form");
    text.push('\n');
    text
}

/// May this sweep go on in the folder of this manifest? It may have grown: its axes may have more values, and there may be more
/// replicates.
pub fn check_manifest(sweep: &Sweep, folder: &str, text: &str) -> Result<(), Error> {
    let refused = |reason: String| Error::Folder {
        folder: folder.to_owned(),
        reason: format!("{reason}; expected a new folder, or that of this sweep"),
    };
    let found: Manifest =
        serde_json::from_str(text).map_err(|e| refused(format!("its {MANIFEST} cannot be read ({e})")))?;
    if found.model != MODEL {
        return Err(refused(format!(
            "its results are those of version {} of the model, and this is version {MODEL}",
            found.model
        )));
    }
    let old = found.sweep;
    if old == *sweep {
        return Ok(());
    }
    if old.base != sweep.base {
        return Err(refused("it has the results of another sweep: the base scenario differs".into()));
    }
    let changed = |(name, version): &(&String, &String)| sweep.versions.get(*name).is_some_and(|now| now != *version);
    if let Some((name, _)) = old.versions.iter().find(changed) {
        return Err(refused(format!("it has the results of another version of the scheduler {name}")));
    }
    let names = |sweep: &Sweep| sweep.axes().iter().map(|axis| axis.name.clone()).collect::<BTreeSet<_>>();
    if names(&old) != names(sweep) {
        let list = names(&old).into_iter().collect::<Vec<_>>().join(", ");
        return Err(refused(format!("it has the results of another sweep, over {list}")));
    }
    for axis in old.axes() {
        let now = sweep.axes().iter().filter(|now| now.name == axis.name).flat_map(|now| &now.values);
        let now: BTreeSet<String> = now.map(crate::axis::text).collect();
        let lost = axis.values.iter().map(crate::axis::text).find(|value| !now.contains(value));
        if let Some(value) = lost {
            let name = &axis.name;
            return Err(refused(format!("it has the results of another sweep, in which {name} may be {value}")));
        }
    }
    if old.grid.replicates > sweep.grid.replicates {
        return Err(refused(format!("it has the results of a sweep with {} replicates", old.grid.replicates)));
    }
    if sweep.grid.not.iter().any(|not| !old.grid.not.contains(not)) {
        return Err(refused("it has the results of a sweep that leaves out fewer cells".into()));
    }
    Ok(())
}

/// Locks the manifest of a folder until the file is closed. The lock is the process's own: unlike that of `flock`, it does not
/// live on in a process that was forked when this one is killed.
fn lock_manifest(folder: &Path) -> Result<Option<File>, Error> {
    let Ok(file) = Entry::find(&folder.join(MANIFEST)).and_then(|manifest| manifest.open()) else { return Ok(None) };
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::AGAIN | Errno::ACCESS) => Err(Error::Folder {
            folder: folder.display().to_string(),
            reason: "another process is running a sweep into it; wait for its end, or give another folder".into(),
        }),
        // Some network file systems have no locks.
        Err(_) => Ok(None),
    }
}

/// A folder that holds the results of a sweep.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    /// Of threads that begin a file at the same time, one would take the other's for what a killed run left.
    beginning: Arc<Mutex<()>>,
    /// The manifest, locked: two processes would each write a row for the same cells. `None` where files cannot be locked.
    _locked: Arc<Option<File>>,
}

impl Folder {
    /// Opens the folder, which is made if it is missing. What a killed run left half-written is removed. While another process
    /// has the folder open it is refused.
    pub fn open(path: &Path, sweep: &Sweep) -> Result<Folder, Error> {
        let failed = |source| Error::File { path: path.to_owned(), source };
        dumbwaiter_text::create_folder(path).map_err(failed)?;
        let folder = |locked| Folder { path: path.to_owned(), beginning: Arc::default(), _locked: Arc::new(locked) };
        let manifest_path = path.join(MANIFEST);
        let text = manifest(sweep);
        match std::fs::read_to_string(&manifest_path) {
            Ok(found) => {
                check_manifest(sweep, &path.display().to_string(), &found)?;
                let locked = lock_manifest(path)?;
                dumbwaiter_text::remove_leftovers(path).map_err(failed)?;
                if found == text {
                    return Ok(folder(locked));
                }
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                dumbwaiter_text::remove_leftovers(path).map_err(failed)?;
                let mut entries = std::fs::read_dir(path).map_err(failed)?;
                if entries.next().is_some() {
                    return Err(Error::Folder {
                        folder: path.display().to_string(),
                        reason: format!("has files, but no {MANIFEST}; expected a new folder, or that of this sweep"),
                    });
                }
            }
            Err(source) => return Err(Error::File { path: manifest_path, source }),
        }
        folder(None).write(MANIFEST, text.as_bytes())?;
        Ok(folder(lock_manifest(path)?))
    }

    /// Paths of the parts in a folder, sorted.
    pub fn parts(path: &Path) -> Result<Vec<PathBuf>, Error> {
        let failed = |source| Error::File { path: path.to_owned(), source };
        let mut parts = Vec::new();
        for entry in std::fs::read_dir(path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
            if name.starts_with("part-") && name.ends_with(".parquet") {
                parts.push(path.join(name));
            }
        }
        parts.sort();
        Ok(parts)
    }

    /// The cells that have their rows; of a folder with many parts those read before `control` was cancelled.
    pub fn done(&self, control: &Control) -> Result<Done, Error> {
        let mut keys: Vec<Key> = Vec::new();
        for part in Folder::parts(&self.path)? {
            if control.cancelled() {
                break;
            }
            let content = std::fs::read(&part).map_err(|source| Error::File { path: part.clone(), source })?;
            keys.extend(part_keys(&part.display().to_string(), content)?);
        }
        Ok(Done::new(keys))
    }

    /// Writes the rows of a batch.
    pub fn add(&self, batch: &Batch) -> Result<(), Error> {
        if batch.keys.is_empty() {
            return Ok(());
        }
        self.write(&batch.name(), &batch.parquet)
    }

    /// Writes a file into it, whole or not at all.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        let path = self.path.join(name);
        let written = || {
            let mut file = {
                let _one = self.beginning.lock().unwrap_or_else(PoisonError::into_inner);
                OutputFile::create(&path)?
            };
            file.write_all(content)?;
            file.commit().map(drop)
        };
        written().map_err(|source| Error::File { path: path.clone(), source })
    }
}
