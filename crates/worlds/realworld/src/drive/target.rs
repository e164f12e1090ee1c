//! The file or device under a load, and how the load may use it.

use std::path::Path;
use std::sync::Arc;

use dumbwaiter_path::{CompletionMode, CompletionSupport, Facts};

use crate::drive::Error;
use crate::drive::journal_path::check_journal_path;
use crate::drive::options::Options;

/// An opened file or block device, with the options of the runs on it.
pub struct Target {
    disk: Arc<dumbwaiter_path::Target>,
    options: Options,
    notes: Vec<String>,
}

impl Target {
    /// Opens `path`, for reading only unless writes are allowed (then a device in use is refused), and finds out what it is.
    pub fn open(path: &Path, options: &Options) -> Result<Target, Error> {
        let refuse = |reason: String| dumbwaiter_path::Error::Open { path: path.to_owned(), reason };
        if options.verify.is_some() && !options.allow_writes {
            let why = "verifying checks what was written, so writing must be allowed too";
            return Err(refuse(why.to_owned()).into());
        }
        let disk = Arc::new(dumbwaiter_path::Target::open(path, &options.open_options())?);
        if let Some(journal) = options.verify.as_ref().and_then(|verify| verify.journal.as_ref()) {
            let meta = disk.file().metadata().map_err(|e| refuse(e.to_string()))?;
            check_journal_path(journal, &meta)?;
        }
        let notes = disk.notes().iter().cloned().chain(disk.note_on_holes()).collect();
        Ok(Target { disk, options: options.clone(), notes })
    }

    /// Its properties.
    pub fn facts(&self) -> &Facts {
        self.disk.facts()
    }

    /// Notes for people: features that are missing, and what makes figures doubtful.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// How runs use it.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// As it was opened.
    pub fn path(&self) -> &Path {
        self.disk.path()
    }

    /// Its size in sectors.
    pub fn sectors(&self) -> u64 {
        self.disk.sectors()
    }

    /// Is this completion mode possible here? See [`dumbwaiter_path::Target::check`].
    pub fn check(&self, mode: CompletionMode) -> Result<CompletionSupport, Error> {
        Ok(self.disk.check(mode)?)
    }

    pub(crate) fn disk(&self) -> &Arc<dumbwaiter_path::Target> {
        &self.disk
    }
}
