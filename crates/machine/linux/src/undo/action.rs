//! The action that puts one change back, as data: it is written to the journal and read by a later process.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::removal;
use crate::file::write;
use crate::owned::Owned;
use crate::process;
use crate::queue::{Queue, Snapshot};

/// The undo of one change. It is plain data, and running it again does no harm.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Action(Kind);

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Kind {
    /// Write the attributes of a queue that differ, if the disk is the same still.
    Attributes(Snapshot),
    /// Write the attributes of a queue that a pilot changed, if they are as it left them.
    Owned(Owned),
    /// Move the members of a cgroup to `home` and remove the cgroup.
    Cgroup { dir: PathBuf, home: PathBuf },
    /// Write a text to a file that is there.
    Text { file: PathBuf, text: String },
    /// Remove a tracefs instance.
    Instance { dir: PathBuf },
    /// Remove a probe of ours, if it is there.
    Probe { file: PathBuf, event: String },
    /// Unmount a folder of ours and remove it.
    Mount { dir: PathBuf },
    /// Remove a folder of ours with all that is in it.
    Folder { dir: PathBuf },
    /// Detach the loop devices over a file of ours and remove the file.
    BackingFile { file: PathBuf },
    /// Kill a program, if it is the same still.
    Program { pid: u32, start_time: String },
}

impl Action {
    /// Writes `text` to `file`, if that exists.
    pub fn write_text(file: &Path, text: &str) -> Action {
        Action(Kind::Text { file: file.into(), text: text.into() })
    }

    /// Removes the probe `event`, such as `dumbwaiter_1/dispatch`, from the `kprobe_events` in `file`.
    pub(crate) fn remove_probe(file: &Path, event: &str) -> Action {
        Action(Kind::Probe { file: file.into(), event: event.into() })
    }

    /// Removes the tracefs instance `dir`.
    pub fn remove_instance(dir: &Path) -> Action {
        Action(Kind::Instance { dir: dir.into() })
    }

    pub(crate) fn restore_attributes(snapshot: Snapshot) -> Action {
        Action(Kind::Attributes(snapshot))
    }

    pub(crate) fn restore_owned(owned: Owned) -> Action {
        Action(Kind::Owned(owned))
    }

    pub(crate) fn remove_cgroup(dir: &Path, home: &Path) -> Action {
        Action(Kind::Cgroup { dir: dir.into(), home: home.into() })
    }

    pub(crate) fn unmount(dir: &Path) -> Action {
        Action(Kind::Mount { dir: dir.into() })
    }

    pub(crate) fn remove_folder(dir: &Path) -> Action {
        Action(Kind::Folder { dir: dir.into() })
    }

    pub(crate) fn remove_backing_file(file: &Path) -> Action {
        Action(Kind::BackingFile { file: file.into() })
    }

    pub(crate) fn kill(pid: u32) -> Action {
        Action(Kind::Program { pid, start_time: process::start_time(pid).unwrap_or_default() })
    }

    /// Does it; what could not be put back, one line each.
    pub(crate) fn run(&self) -> Vec<String> {
        let done = match &self.0 {
            Kind::Attributes(snapshot) => return snapshot.restore(),
            Kind::Owned(owned) => return owned.restore(),
            Kind::Cgroup { dir, home } => removal::remove_cgroup(dir, home),
            Kind::Text { file, text } if file.exists() => write(file, text),
            Kind::Text { .. } => Ok(()),
            Kind::Instance { dir } => removal::remove_instance(dir),
            Kind::Probe { file, event } => removal::remove_probe(file, event),
            Kind::Mount { dir } => removal::unmount(dir),
            Kind::Folder { dir } => removal::remove_folder(dir),
            Kind::BackingFile { file } => removal::remove_backing_file(file),
            Kind::Program { pid, start_time } => {
                if process::start_time(*pid).as_ref() == Some(start_time) {
                    process::kill(*pid);
                }
                Ok(())
            }
        };
        done.err().map(|e| e.to_string()).into_iter().collect()
    }

    /// The change that it undoes, for messages.
    pub(crate) fn about(&self) -> String {
        match &self.0 {
            Kind::Attributes(snapshot) => format!("the settings of {}", snapshot.queue().name()),
            Kind::Owned(owned) => format!("the settings of {}", owned.queue().name()),
            Kind::Cgroup { dir, .. } => format!("cgroup {}", dir.display()),
            Kind::Text { file, .. } => file.display().to_string(),
            Kind::Instance { dir } => format!("trace instance {}", dir.display()),
            Kind::Probe { event, .. } => format!("probe {event}"),
            Kind::Mount { dir } => format!("the mount at {}", dir.display()),
            Kind::Folder { dir } => format!("folder {}", dir.display()),
            Kind::BackingFile { file } => format!("the loop device over {}", file.display()),
            Kind::Program { pid, .. } => format!("program {pid}"),
        }
    }

    /// The disk whose settings it writes, which one process at a time may do.
    pub(crate) fn queue(&self) -> Option<Queue> {
        match &self.0 {
            Kind::Attributes(snapshot) => Some(snapshot.queue()),
            Kind::Owned(owned) => Some(owned.queue()),
            _ => None,
        }
    }

    /// The rest of the undo after an attempt that had problems. Attributes that were put back are left out: their user
    /// may change them before the next attempt.
    pub(crate) fn remaining(&self) -> Action {
        match &self.0 {
            Kind::Attributes(snapshot) => Action(Kind::Attributes(snapshot.unsettled())),
            _ => self.clone(),
        }
    }
}
