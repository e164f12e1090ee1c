//! Putting back what was changed: by a guard's drop, on a signal, or by the next process after a crash.
//!
//! Every change is registered before it is made, and written to a journal in `/run/dumbwaiter` (which, like the changes,
//! does not outlive the system). Guard, signal and next process do the same: run the [`Action`] of the change.

mod action;
mod journal;
mod removal;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use dumbwaiter_text::say;

use crate::Error;

pub use action::Action;
pub(crate) use journal::lock;
pub use journal::{leftovers, read_entry};
pub(crate) use removal::own_name;

/// A change in force.
struct Change {
    id: u64,
    action: Action,
    journal: Option<PathBuf>,
}

impl Change {
    fn undo(&self) -> Vec<String> {
        let problems = self.action.run();
        if let Some(path) = &self.journal {
            journal::close(path, &self.action, &problems);
        }
        problems
    }
}

static CHANGES: Mutex<Vec<Change>> = Mutex::new(Vec::new());
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

fn changes() -> MutexGuard<'static, Vec<Change>> {
    CHANGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts one change back when dropped.
#[derive(Debug)]
pub struct Guard {
    id: u64,
}

impl Guard {
    /// Registers `action` and makes the change that it puts back. Both happen under one lock, so that a signal finds
    /// either nothing done or all that is to be undone. A change that fails is put back at once.
    pub fn new(action: Action, change: impl FnOnce() -> Result<(), Error>) -> Result<Guard, Error> {
        let mut changes = changes();
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let journal = journal::add(id, &action);
        let made = Change { id, action, journal };
        if let Err(error) = change() {
            made.undo();
            return Err(error);
        }
        changes.push(made);
        Ok(Guard { id })
    }

    /// Makes a further change that the same action puts back.
    pub fn change<T>(&self, change: impl FnOnce() -> T) -> T {
        let _held = changes();
        change()
    }

    /// Another action puts the changes back from now on; the journal has it when this returns.
    pub(crate) fn replace(&self, action: Action) {
        let mut changes = changes();
        if let Some(change) = changes.iter_mut().find(|e| e.id == self.id) {
            change.journal = journal::add(change.id, &action);
            change.action = action;
        }
    }

    /// Leaves the changes as they are.
    pub(crate) fn forget(self) {
        let mut changes = changes();
        let Some(at) = changes.iter().position(|e| e.id == self.id) else { return };
        let change = changes.remove(at);
        if let Some(path) = &change.journal {
            journal::close(path, &change.action, &[]);
        }
    }

    /// Puts the change back now; what could not be, one line each. The guard stays.
    pub fn restore(&self) -> Vec<String> {
        let changes = changes();
        changes.iter().find(|e| e.id == self.id).map(|e| e.action.run()).unwrap_or_default()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut changes = changes();
        let Some(at) = changes.iter().position(|e| e.id == self.id) else { return };
        let change = changes.remove(at);
        report(&change.action.about(), &change.undo());
    }
}

fn report(about: &str, problems: &[String]) {
    for problem in problems {
        say(&format!("not restored, {about}: {problem}"));
    }
}

/// Puts everything back on SIGINT, SIGTERM and SIGHUP, and ends the process with 128 + the signal's number.
///
/// With `stop`, the first signal only sets it: the program ends by itself and its guards put everything back; a second
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
                        // Held to the end: no other thread changes anything any more.
                        let held = changes();
                        for change in held.iter().rev() {
                            report(&change.action.about(), &change.undo());
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

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    const JOURNAL: &str = journal::DIR;

    #[test]
    fn a_guard_that_cannot_put_back_leaves_its_page() {
        if std::fs::create_dir_all(JOURNAL).is_err() {
            eprintln!("skipped: no {JOURNAL} (root is needed)");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let action = Action::write_text(dir.path(), "a folder cannot be written");
        let guard = Guard::new(action, || Ok(())).unwrap();
        let page = Path::new(JOURNAL).join(format!("{}-{}.json", std::process::id(), guard.id));
        drop(guard);
        let stays = page.exists();
        let _ = std::fs::remove_file(&page);
        assert!(stays);
    }

    /// Not a test: the process that the test below starts.
    #[test]
    #[ignore = "started by another test"]
    fn child() {
        let Ok(dir) = std::env::var("TEST_DIR") else { return };
        on_signals(None).unwrap();
        let back = |file: &str| Action::write_text(&Path::new(&dir).join(file), "back   ");
        let _first = Guard::new(back("file"), || Ok(())).unwrap();
        let failing = Guard::new(back(""), || Ok(())).unwrap();
        println!("\nready");
        if std::env::var("TEST_WAY").is_ok_and(|way| way == "signal") {
            std::thread::sleep(Duration::from_secs(60));
        }
        drop(failing);
        std::process::exit(7);
    }

    #[test]
    fn all_is_put_back_where_nobody_listens_any_more() {
        use std::io::{BufRead, BufReader};
        use std::process::{Command, Stdio};
        let dir = tempfile::tempdir().unwrap();
        for (way, code, expected) in [("signal", 143, "back   "), ("drop", 7, "changed")] {
            std::fs::write(dir.path().join("file"), "changed").unwrap();
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "undo::tests::child", "--ignored", "--nocapture"])
                .envs([("TEST_DIR", dir.path().as_os_str()), ("TEST_WAY", way.as_ref())])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            drop(child.stderr.take());
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
            assert!(lines.any(|line| line == "ready"));
            if way == "signal" {
                let pid = child.id().to_string();
                assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
            }
            let pid = child.id();
            let status = child.wait().unwrap();
            let left = |id: u64| Path::new(JOURNAL).join(format!("{pid}-{id}.json"));
            let _ = (std::fs::remove_file(left(0)), std::fs::remove_file(left(1)));
            assert_eq!(status.code(), Some(code), "{way}");
            assert_eq!(std::fs::read_to_string(dir.path().join("file")).unwrap(), expected, "{way}");
        }
    }
}
