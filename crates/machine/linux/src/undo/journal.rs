//! The journal of changes in `/run/dumbwaiter`: one file for each change that is in force, so that a later process can put
//! back what a killed one left; and the locks of disks, one process at a time for each.
//!
//! An entry names its format. Entries of another format are never read as one of ours: they are reported and left to the
//! version of the program that wrote them.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use dumbwaiter_text::say;
use serde::{Deserialize, Serialize};

use super::action::Action;
use crate::Error;
use crate::file::read_some;
use crate::lock::Lock;
use crate::process::start_time;
use crate::queue::Queue;

/// Where entries and locks are. Like the settings, they do not outlive the system.
pub(crate) const DIR: &str = "/run/dumbwaiter";

/// Raised when entries change. Format 1 had no number, format 2 no settings that are put back only where they are ours.
const FORMAT: u32 = 3;

/// Tries for the lock of a disk: few where its holder measures, many where it only puts back what another left.
const LOCK_PAUSE: Duration = Duration::from_millis(20);
const LOCK_TRIES_MEASURED: u32 = 10;
const LOCK_TRIES_RESTORED: u32 = 1000;

/// One change and the process that made it.
#[derive(Serialize, Deserialize)]
pub(crate) struct JournalEntry {
    format: u32,
    pid: u32,
    /// When that process started, which distinguishes it from a later one with the same number.
    started: String,
    action: Action,
}

/// The fields of all formats.
#[derive(Deserialize)]
struct Header {
    #[serde(default = "first_format")]
    format: u32,
    pid: u32,
    started: String,
}

fn first_format() -> u32 {
    1
}

impl JournalEntry {
    fn of_this_process(action: &Action) -> JournalEntry {
        let pid = std::process::id();
        JournalEntry { format: FORMAT, pid, started: start_time(pid).unwrap_or_default(), action: action.clone() }
    }

    fn write(&self, path: &Path) -> std::io::Result<()> {
        let text = serde_json::to_vec(self)?;
        dumbwaiter_text::write(path, |out| out.write_all(&text))
    }
}

/// An entry of a process that is gone.
enum Stale {
    Entry(JournalEntry),
    /// Of another format.
    Foreign(u32),
    /// Not an entry at all.
    Damaged(String),
}

/// Writes an entry for a change of this process. Where that fails, says so once; the change is made without.
pub(crate) fn add(id: u64, action: &Action) -> Option<PathBuf> {
    let dir = Path::new(DIR);
    let pid = std::process::id();
    let path = dir.join(format!("{pid}-{id}.json"));
    match make_folder(dir).and_then(|()| JournalEntry::of_this_process(action).write(&path)) {
        Ok(()) => Some(path),
        Err(e) => {
            static ONCE: Once = Once::new();
            ONCE.call_once(|| say(&format!("no journal in {DIR} ({e}): settings cannot be restored after a crash")));
            None
        }
    }
}

/// After an attempt of this process to put a change back: the entry is removed, or keeps what is left to do.
pub(crate) fn close(path: &Path, action: &Action, problems: &[String]) {
    close_entry(path, &JournalEntry::of_this_process(action), problems);
}

fn close_entry(path: &Path, entry: &JournalEntry, problems: &[String]) {
    if problems.is_empty() {
        let _ = std::fs::remove_file(path);
        return;
    }
    let left = JournalEntry { started: entry.started.clone(), action: entry.action.remaining(), ..*entry };
    let _ = left.write(path);
}

/// Creates the journal's folder if it is missing. Only our own folder, writable by no other user, is used.
fn make_folder(dir: &Path) -> std::io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(e),
        _ if is_own_folder(dir) => Ok(()),
        _ => Err(std::io::Error::other("the folder belongs to another user, or others may write to it")),
    }
}

fn is_own_folder(dir: &Path) -> bool {
    let own = std::fs::metadata("/proc/self").map(|m| m.uid());
    let found = std::fs::symlink_metadata(dir);
    matches!((own, found), (Ok(own), Ok(m)) if m.is_dir() && m.uid() == own && m.mode() & 0o022 == 0)
}

/// Locks a disk for this process, which may change its settings then. `None` where there is no folder for locks.
pub(crate) fn lock(queue: &Queue) -> Result<Option<Lock>, Error> {
    lock_in(queue, Path::new(DIR))
}

fn lock_in(queue: &Queue, dir: &Path) -> Result<Option<Lock>, Error> {
    if make_folder(dir).is_err() {
        return Ok(None);
    }
    let path = lock_path(queue, dir);
    let holder = || read_some(&path).filter(|pid| !pid.is_empty());
    let mut tries = 0;
    loop {
        match Lock::take(&path) {
            Ok(Some(mut lock)) => {
                recover_disk(queue, dir);
                return Ok(lock.sign().is_ok().then_some(lock));
            }
            Ok(None) => {}
            Err(_) => return Ok(None),
        }
        // Without a signature the holder only puts back what another process left, which takes a while on a busy machine.
        tries += 1;
        if tries >= if holder().is_some() { LOCK_TRIES_MEASURED } else { LOCK_TRIES_RESTORED } {
            break;
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    let holder = holder().map_or("another process".into(), |pid| format!("process {pid}"));
    let name = queue.name();
    Err(Error::Refused(format!("{name} is being measured by {holder}; wait for it or stop it")))
}

/// Puts back what processes left on a disk that we have locked: one may have died after the last look at leftovers.
fn recover_disk(queue: &Queue, dir: &Path) {
    for (stale, path) in stale_entries(dir) {
        if let Stale::Entry(entry) = stale
            && entry.action.queue().is_some_and(|other| other.name() == queue.name())
        {
            say(&recover(&entry, &path));
        }
    }
}

fn lock_path(queue: &Queue, dir: &Path) -> PathBuf {
    dir.join(format!("{}-{}.lock", queue.name(), queue.sequence().unwrap_or_default()))
}

/// Puts back what processes left that are gone (killed, or crashed). Answers with one line for each.
pub fn leftovers() -> Vec<String> {
    leftovers_in(Path::new(DIR))
}

fn leftovers_in(dir: &Path) -> Vec<String> {
    if !is_own_folder(dir) {
        return Vec::new();
    }
    let _ = dumbwaiter_text::remove_leftovers(dir);
    // Taking and dropping the lock of a process that is gone removes its file.
    files(dir, "lock").iter().for_each(|path| drop(Lock::take(path)));
    let mut lines = Vec::new();
    for (stale, path) in stale_entries(dir) {
        let entry = match stale {
            Stale::Entry(entry) => entry,
            Stale::Foreign(format) => {
                let path = path.display();
                lines.push(format!(
                    "{path} was written by another version of dumbwaiter (format {format}, expected {FORMAT}): its change \
                     is not restored; start that version once, or remove the file"
                ));
                continue;
            }
            Stale::Damaged(why) => {
                let _ = std::fs::remove_file(&path);
                lines.push(format!("removed {}, which is not a journal entry: {why}", path.display()));
                continue;
            }
        };
        let _lock = match entry.action.queue().map(|queue| Lock::take(&lock_path(&queue, dir))) {
            // Another process measures on this disk now.
            Some(Ok(None)) => continue,
            taken => taken.and_then(Result::ok).flatten(),
        };
        // Its process ended in good order after the entry was read, or another process was quicker.
        if path.exists() {
            lines.push(recover(&entry, &path));
        }
    }
    lines
}

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let all = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|f| f.path());
    all.filter(|p| p.extension().is_some_and(|e| e == extension)).collect()
}

/// The entries of processes that are gone, the latest change of a process first.
fn stale_entries(dir: &Path) -> Vec<(Stale, PathBuf)> {
    let mut found: Vec<(u32, Stale, PathBuf)> = files(dir, "json")
        .into_iter()
        .filter_map(|path| read_stale(&path).map(|(pid, stale)| (pid, stale, path)))
        .collect();
    let number = |p: &Path| -> Option<u64> { p.file_stem()?.to_str()?.split_once('-')?.1.parse().ok() };
    found.sort_by_key(|(pid, _, path)| (*pid, std::cmp::Reverse(number(path))));
    found.into_iter().map(|(_, stale, path)| (stale, path)).collect()
}

/// The change of a journal entry, in words. Restores nothing.
///
/// # Errors
/// Why the text is no entry of this version.
pub fn read_entry(text: &[u8]) -> Result<String, String> {
    let header: Header = serde_json::from_slice(text).map_err(|e| e.to_string())?;
    if header.format != FORMAT {
        return Err(format!("format {}, expected {FORMAT}", header.format));
    }
    let entry: JournalEntry = serde_json::from_slice(text).map_err(|e| e.to_string())?;
    let left = entry.action.remaining();
    serde_json::to_string(&left).map_err(|e| e.to_string())?;
    Ok(entry.action.about())
}

/// `None` for an entry of a process that is alive, and for one that is gone by now.
fn read_stale(path: &Path) -> Option<(u32, Stale)> {
    let text = std::fs::read(path).ok()?;
    let header: Header = match serde_json::from_slice(&text) {
        Ok(header) => header,
        Err(e) => return Some((0, Stale::Damaged(e.to_string()))),
    };
    if start_time(header.pid).is_some_and(|started| started == header.started) {
        return None;
    }
    let stale = match serde_json::from_slice(&text) {
        _ if header.format != FORMAT => Stale::Foreign(header.format),
        Ok(entry) => Stale::Entry(entry),
        Err(e) => Stale::Damaged(e.to_string()),
    };
    Some((header.pid, stale))
}

/// Puts back the change of a stale entry; one line of how that went.
fn recover(entry: &JournalEntry, path: &Path) -> String {
    let problems = entry.action.run();
    close_entry(path, entry, &problems);
    let about = entry.action.about();
    match problems.first() {
        None => format!("put back {about}, left by process {} that is gone", entry.pid),
        Some(problem) => format!("could not restore {about}, left by process {}: {problem}", entry.pid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(pid: u32, started: &str, action: Action) -> JournalEntry {
        JournalEntry { format: FORMAT, pid, started: started.into(), action }
    }

    #[test]
    fn changes_of_ended_processes_are_put_back_and_those_of_running_ones_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name);
        let pages = dir.path().join("journal");
        std::fs::DirBuilder::new().mode(0o700).create(&pages).unwrap();
        let add_entry = |name: &str, pid: u32, started: String, target: &str, text: &str| {
            std::fs::write(file(target), "changed").unwrap();
            let action = Action::write_text(&file(target), text);
            std::fs::write(pages.join(name), serde_json::to_vec(&entry(pid, &started, action)).unwrap()).unwrap();
        };
        let own = std::process::id();
        add_entry("1-0.json", own, "1".into(), "dead", "back   ");
        add_entry("2-0.json", own, start_time(own).unwrap(), "alive", "back   ");
        let lines = leftovers_in(&pages);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("put back") && lines[0].contains("dead"), "{lines:?}");
        assert_eq!(std::fs::read_to_string(file("dead")).unwrap(), "back   ");
        assert_eq!(std::fs::read_to_string(file("alive")).unwrap(), "changed");
        assert!(!pages.join("1-0.json").exists() && pages.join("2-0.json").exists());
    }

    #[test]
    fn what_could_not_be_put_back_is_tried_again_by_the_next_process() {
        let dir = tempfile::tempdir().unwrap();
        let pages = dir.path().join("journal");
        std::fs::DirBuilder::new().mode(0o700).create(&pages).unwrap();
        // A group with another in it cannot be removed.
        let (group, member) = (dir.path().join("group"), dir.path().join("group/member"));
        std::fs::create_dir_all(&member).unwrap();
        let action = Action::remove_cgroup(&group, dir.path());
        let page = entry(std::process::id(), "1", action);
        std::fs::write(pages.join("1-0.json"), serde_json::to_vec(&page).unwrap()).unwrap();
        for _ in 0..2 {
            let lines = leftovers_in(&pages);
            assert!(lines.len() == 1 && lines[0].contains("could not restore cgroup"), "{lines:?}");
        }
        std::fs::remove_dir(&member).unwrap();
        let lines = leftovers_in(&pages);
        assert!(lines.len() == 1 && lines[0].contains("put back cgroup"), "{lines:?}");
        assert!(!group.exists());
        assert_eq!(leftovers_in(&pages), Vec::<String>::new());
    }

    #[test]
    fn of_settings_only_those_are_tried_again_that_were_not_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let pages = dir.path().join("journal");
        std::fs::DirBuilder::new().mode(0o700).create(&pages).unwrap();
        let disk = dir.path().join("disk");
        std::fs::create_dir_all(disk.join("queue")).unwrap();
        let put = |name: &str, text: &str| std::fs::write(disk.join("queue").join(name), text).unwrap();
        put("nomerges", "0");
        put("stuck", "0");
        let queue = Queue::at(&disk);
        let page = entry(std::process::id(), "1", Action::restore_attributes(queue.snapshot()));
        std::fs::write(pages.join("1-0.json"), serde_json::to_vec(&page).unwrap()).unwrap();
        put("nomerges", "1");
        std::fs::remove_file(disk.join("queue/stuck")).unwrap();
        let lines = leftovers_in(&pages);
        assert!(lines.len() == 1 && lines[0].contains("queue/stuck"), "{lines:?}");
        assert_eq!(queue.get("nomerges").unwrap(), "0");
        // As the user sets it later.
        put("nomerges", "2");
        leftovers_in(&pages);
        assert_eq!(queue.get("nomerges").unwrap(), "2");
        // A process that measures is not disturbed.
        put("stuck", "1");
        let held = Lock::take(&lock_path(&queue, &pages)).unwrap().unwrap();
        assert_eq!(leftovers_in(&pages), Vec::<String>::new());
        assert_eq!(queue.get("stuck").unwrap(), "1");
        drop(held);
        // A killed process leaves its file.
        std::fs::write(pages.join("gone-1.lock"), "1").unwrap();
        assert_eq!(leftovers_in(&pages).len(), 1);
        assert_eq!(queue.get("stuck").unwrap(), "0");
        assert_eq!(std::fs::read_dir(&pages).unwrap().count(), 0);
        // Of a process that died after the last look.
        put("stuck", "1");
        std::fs::write(pages.join("1-0.json"), serde_json::to_vec(&page).unwrap()).unwrap();
        let held = lock_in(&queue, &pages).unwrap();
        assert!(held.is_some());
        assert_eq!(queue.get("stuck").unwrap(), "0");
        assert!(!pages.join("1-0.json").exists());
    }

    #[test]
    fn a_process_that_puts_back_is_waited_for_and_one_that_measures_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let pages = dir.path().join("journal");
        make_folder(&pages).unwrap();
        let queue = Queue::at(&dir.path().join("disk"));
        let restores = Lock::take(&lock_path(&queue, &pages)).unwrap().unwrap();
        let measures = std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(600));
                drop(restores);
            });
            lock_in(&queue, &pages).unwrap()
        });
        let said = lock_in(&queue, &pages).unwrap_err().to_string();
        assert!(measures.is_some() && said.contains(&format!("by process {};", std::process::id())), "{said}");
    }

    #[test]
    fn a_journal_in_a_folder_that_others_may_write_to_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(dir.path(), mode).unwrap();
        assert!(!is_own_folder(dir.path()));
    }

    #[test]
    fn entries_of_another_version_are_reported_and_never_obeyed() {
        let dir = tempfile::tempdir().unwrap();
        let pages = dir.path().join("journal");
        make_folder(&pages).unwrap();
        let target = dir.path().join("target");
        std::fs::write(&target, "as it is").unwrap();
        let own = std::process::id();
        let old = format!(
            "{{\"pid\":{own},\"started\":\"1\",\"action\":{{\"Write\":{{\"file\":{target:?},\"text\":\"changed\"}}}}}}"
        );
        let same = serde_json::to_string(&entry(own, "1", Action::write_text(&target, "changed"))).unwrap();
        let new = same.replace("\"format\":3", "\"format\":4");
        assert_ne!(same, new);
        for (name, text) in [("1-0.json", old.as_str()), ("2-0.json", &new)] {
            std::fs::write(pages.join(name), text).unwrap();
        }
        for _ in 0..2 {
            let lines = leftovers_in(&pages);
            assert!(lines.len() == 2 && lines.iter().all(|l| l.contains("another version")), "{lines:?}");
        }
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "as it is");
        assert_eq!(files(&pages, "json").len(), 2);
    }

    #[test]
    fn what_is_no_entry_is_removed_and_said_once() {
        let dir = tempfile::tempdir().unwrap();
        let pages = dir.path().join("journal");
        make_folder(&pages).unwrap();
        std::fs::write(pages.join("1-0.json"), "{\"pid\":").unwrap();
        let unknown = format!("{{\"format\":{FORMAT},\"pid\":1,\"started\":\"x\",\"action\":{{\"Fly\":{{}}}}}}");
        std::fs::write(pages.join("1-1.json"), unknown).unwrap();
        let lines = leftovers_in(&pages);
        assert!(lines.len() == 2 && lines.iter().all(|l| l.contains("not a journal entry")), "{lines:?}");
        assert_eq!(leftovers_in(&pages), Vec::<String>::new());
    }
}
