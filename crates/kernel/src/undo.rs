//! Putting back what was changed: by a guard's drop, on a signal, or by the next process after a crash.
//!
//! Every change is registered before it is made, and written to a journal in `/run/dumbwaiter` (which, like the changes,
//! does not outlive the system). Whoever puts it back - guard, signal, next process - does the same thing: compare, and
//! write where a value differs.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use serde::{Deserialize, Serialize};

use crate::error::{read_some, write};
use crate::queue::Snapshot;
use crate::{Error, cgroup, place};

const JOURNAL: &str = "/run/dumbwaiter";

/// Something to put back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Action {
    /// A queue's attributes.
    Queue(Snapshot),
    /// A cgroup: its members go home, then it is removed.
    Group { dir: PathBuf, home: PathBuf },
    /// Text that takes back what was written to a file.
    Write { file: PathBuf, text: String },
    /// A tracefs instance.
    Instance { dir: PathBuf },
    /// A folder of ours with a file system mounted on it.
    Mount { dir: PathBuf },
    /// A folder of ours with all that is in it.
    Folder { dir: PathBuf },
    /// A program of ours, which must not outlive us.
    Program { pid: u32, started: String },
}

impl Action {
    /// Puts back; says what could not be.
    fn run(&self) -> Vec<String> {
        let told = match self {
            Action::Queue(snapshot) => return snapshot.restore(),
            Action::Group { dir, home } => cgroup::remove(dir, home),
            Action::Write { file, text } if file.exists() => write(file, text),
            Action::Instance { dir } if dir.exists() => remove_instance(dir),
            Action::Mount { dir } => place::unmount(dir),
            Action::Folder { dir } => place::remove(dir),
            Action::Program { pid, started: then } if started(*pid).as_ref() == Some(then) => {
                place::kill(*pid);
                Ok(())
            }
            Action::Write { .. } | Action::Instance { .. } | Action::Program { .. } => Ok(()),
        };
        told.err().map(|e| e.to_string()).into_iter().collect()
    }

    fn about(&self) -> String {
        match self {
            Action::Queue(snapshot) => format!("the settings of {}", snapshot.name()),
            Action::Group { dir, .. } => format!("cgroup {}", dir.display()),
            Action::Write { file, .. } => file.display().to_string(),
            Action::Instance { dir } => format!("trace instance {}", dir.display()),
            Action::Mount { dir } => format!("the mount at {}", dir.display()),
            Action::Folder { dir } => format!("folder {}", dir.display()),
            Action::Program { pid, .. } => format!("program {pid}"),
        }
    }
}

fn remove_instance(dir: &Path) -> Result<(), Error> {
    // What is enabled in an instance goes with it.
    remove_when_free(dir).map_err(|e| Error::file("remove", dir, e))
}

/// Removes a folder that somebody may be using for a moment still.
pub(crate) fn remove_when_free(dir: &Path) -> std::io::Result<()> {
    let mut tries = 0..50;
    loop {
        match std::fs::remove_dir(dir) {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) && tries.next().is_some() => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            done => return done,
        }
    }
}

struct Entry {
    id: u64,
    action: Action,
    journal: Option<PathBuf>,
}

impl Entry {
    fn undo(&self) -> Vec<String> {
        let problems = self.action.run();
        if let Some(path) = &self.journal {
            // A journal that stays is harmless: what it says is compared before it is written.
            let _ = std::fs::remove_file(path);
        }
        problems
    }
}

static ENTRIES: Mutex<Vec<Entry>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

fn entries() -> MutexGuard<'static, Vec<Entry>> {
    ENTRIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts one thing back when dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    id: u64,
}

impl Guard {
    /// Registers `action` and makes the change. Both happen under one lock, so that a signal finds either nothing done
    /// or all that is to be undone.
    pub(crate) fn of(action: Action, change: impl FnOnce() -> Result<(), Error>) -> Result<Guard, Error> {
        let mut entries = entries();
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let journal = journal(id, &action);
        let entry = Entry { id, action, journal };
        if let Err(error) = change() {
            entry.undo();
            return Err(error);
        }
        entries.push(entry);
        Ok(Guard { id })
    }

    /// Makes a further change that this guard will put back.
    pub(crate) fn change<T>(&self, change: impl FnOnce() -> T) -> T {
        let _held = entries();
        change()
    }

    /// Puts back now; says what could not be. The guard stays.
    pub(crate) fn restore(&self) -> Vec<String> {
        let entries = entries();
        entries.iter().find(|e| e.id == self.id).map(|e| e.action.run()).unwrap_or_default()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut entries = entries();
        let Some(at) = entries.iter().position(|e| e.id == self.id) else { return };
        let entry = entries.remove(at);
        tell(&entry.action.about(), &entry.undo());
    }
}

fn tell(about: &str, problems: &[String]) {
    for problem in problems {
        eprintln!("dumbwaiter: not put back, {about}: {problem}");
    }
}

/// Puts everything back on SIGINT, SIGTERM and SIGHUP, and ends the process with 128 + the signal's number.
///
/// With `stop`, the first signal only sets it: the program ends by itself and its guards put things back; a second
/// signal does it at once. Call it before the first change; later calls do nothing.
pub fn on_signals(stop: Option<Arc<AtomicBool>>) -> Result<(), Error> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    static WATCHED: Once = Once::new();
    let mut result = Ok(());
    WATCHED.call_once(|| {
        result = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])
            .and_then(|mut signals| {
                std::thread::Builder::new().name("signals".into()).spawn(move || {
                    for signal in &mut signals {
                        if let Some(stop) = &stop
                            && !stop.swap(true, Ordering::SeqCst)
                        {
                            continue;
                        }
                        // Held to the end: nobody changes anything any more.
                        let held = entries();
                        for entry in held.iter().rev() {
                            tell(&entry.action.about(), &entry.undo());
                        }
                        std::process::exit(128 + signal);
                    }
                })
            })
            .map(|_| ())
            .map_err(|e| Error::Refused(format!("cannot watch for signals: {e}")));
    });
    result
}

/// What the journal knows of the process that wrote it.
#[derive(Serialize, Deserialize)]
struct Page {
    pid: u32,
    started: String,
    action: Action,
}

/// When a process started, in the kernel's ticks: tells it from a later one of the same number.
pub(crate) fn started(pid: u32) -> Option<String> {
    let stat = read_some(Path::new(&format!("/proc/{pid}/stat")))?;
    // The name, in parentheses, may hold anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19).map(str::to_owned)
}

/// Only a folder of our own that nobody else may write is believed.
fn own_folder(dir: &Path) -> bool {
    let own = std::fs::metadata("/proc/self").map(|m| m.uid());
    let found = std::fs::symlink_metadata(dir);
    matches!((own, found), (Ok(own), Ok(m)) if m.is_dir() && m.uid() == own && m.mode() & 0o022 == 0)
}

/// Notes an action on disk; where that fails, says so and goes without.
fn journal(id: u64, action: &Action) -> Option<PathBuf> {
    let dir = Path::new(JOURNAL);
    let pid = std::process::id();
    let path = dir.join(format!("{pid}-{id}.json"));
    let note = || -> std::io::Result<()> {
        if !dir.is_dir() {
            std::fs::DirBuilder::new().mode(0o700).create(dir)?;
        }
        if !own_folder(dir) {
            return Err(std::io::Error::other("the folder belongs to somebody else or others may write to it"));
        }
        let page = Page { pid, started: started(pid).unwrap_or_default(), action: action.clone() };
        let hidden = dir.join(format!(".{pid}-{id}"));
        let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&hidden)?;
        file.write_all(&serde_json::to_vec(&page)?)?;
        std::fs::rename(&hidden, &path)
    };
    match note() {
        Ok(()) => Some(path),
        Err(e) => {
            static ONCE: Once = Once::new();
            ONCE.call_once(|| {
                eprintln!("dumbwaiter: no journal in {JOURNAL} ({e}): after a crash, settings stay as they are then");
            });
            None
        }
    }
}

/// Puts back what processes left that are gone (killed, or crashed). One line each of what was done.
pub fn leftovers() -> Vec<String> {
    leftovers_in(Path::new(JOURNAL))
}

fn leftovers_in(dir: &Path) -> Vec<String> {
    if !own_folder(dir) {
        return Vec::new();
    }
    let mut pages: Vec<(Page, PathBuf)> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|f| f.path())
        .filter(|p| p.extension().is_some_and(|e| e == "json"))
        .filter_map(|p| Some((serde_json::from_slice(&std::fs::read(&p).ok()?).ok()?, p)))
        .collect();
    // The latest change of a process first.
    let number = |p: &Path| -> Option<u64> { p.file_stem()?.to_str()?.split_once('-')?.1.parse().ok() };
    pages.sort_by_key(|(page, path)| (page.pid, std::cmp::Reverse(number(path))));
    let mut lines = Vec::new();
    for (page, path) in pages {
        if started(page.pid).is_some_and(|s| s == page.started) {
            continue;
        }
        let problems = page.action.run();
        let about = page.action.about();
        match problems.first() {
            None => lines.push(format!("put back {about}, left by process {} that is gone", page.pid)),
            Some(problem) => {
                lines.push(format!("could not put back {about}, left by process {}: {problem}", page.pid));
            }
        }
        let _ = std::fs::remove_file(path);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_of_the_dead_are_put_back_and_those_of_the_living_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name);
        let pages = dir.path().join("journal");
        std::fs::DirBuilder::new().mode(0o700).create(&pages).unwrap();
        let note = |name: &str, pid: u32, started: String, target: &str, text: &str| {
            std::fs::write(file(target), "changed").unwrap();
            let action = Action::Write { file: file(target), text: text.into() };
            std::fs::write(pages.join(name), serde_json::to_vec(&Page { pid, started, action }).unwrap()).unwrap();
        };
        let own = std::process::id();
        note("1-0.json", own, "1".into(), "dead", "back   ");
        note("2-0.json", own, started(own).unwrap(), "alive", "back   ");
        let lines = leftovers_in(&pages);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("put back") && lines[0].contains("dead"), "{lines:?}");
        assert_eq!(std::fs::read_to_string(file("dead")).unwrap(), "back   ");
        assert_eq!(std::fs::read_to_string(file("alive")).unwrap(), "changed");
        assert!(!pages.join("1-0.json").exists() && pages.join("2-0.json").exists());
    }

    #[test]
    fn a_folder_that_others_may_write_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(dir.path(), mode).unwrap();
        assert!(!own_folder(dir.path()));
    }
}
