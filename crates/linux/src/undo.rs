//! Putting back what was changed: by a guard's drop, on a signal, or by the next process after a crash.
//!
//! Every change is registered before it is made, and written to a journal in `/run/dumbwaiter` (which, like the changes,
//! does not outlive the system). Whoever puts it back - guard, signal, next process - does the same thing: compare, and
//! write where a value differs.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::file::{read_some, write};
use crate::lock::Lock;
use crate::queue::{Queue, Snapshot};
use crate::{Error, cgroup, loops, place};

const JOURNAL: &str = "/run/dumbwaiter";

/// Something to put back.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Action {
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
    /// A file of ours with the loop devices over it.
    Loop { file: PathBuf },
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
            Action::Loop { file } => loops::remove(file),
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
            Action::Queue(snapshot) => format!("the settings of {}", snapshot.queue().name()),
            Action::Group { dir, .. } => format!("cgroup {}", dir.display()),
            Action::Write { file, .. } => file.display().to_string(),
            Action::Instance { dir } => format!("trace instance {}", dir.display()),
            Action::Mount { dir } => format!("the mount at {}", dir.display()),
            Action::Folder { dir } => format!("folder {}", dir.display()),
            Action::Loop { file } => format!("the loop device over {}", file.display()),
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
                std::thread::sleep(Duration::from_millis(10));
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
            close(path, &Page::own(&self.action), &problems);
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
pub struct Guard {
    id: u64,
}

impl Guard {
    /// Registers `action` and makes the change. Both happen under one lock, so that a signal finds either nothing done
    /// or all that is to be undone.
    pub fn of(action: Action, change: impl FnOnce() -> Result<(), Error>) -> Result<Guard, Error> {
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
    pub fn change<T>(&self, change: impl FnOnce() -> T) -> T {
        let _held = entries();
        change()
    }

    /// Puts back now; says what could not be. The guard stays.
    pub fn restore(&self) -> Vec<String> {
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
        say(&format!("not put back, {about}: {problem}"));
    }
}

/// Nobody may be listening any more (a closed terminal), and that must not keep us from the rest.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "dumbwaiter: {line}");
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

impl Page {
    fn own(action: &Action) -> Page {
        let pid = std::process::id();
        Page { pid, started: started(pid).unwrap_or_default(), action: action.clone() }
    }
}

/// When a process started, in the kernel's ticks: tells it from a later one of the same number. `None` for one that is
/// dead, whether or not its parent has taken note of that.
pub(crate) fn started(pid: u32) -> Option<String> {
    let stat = read_some(Path::new(&format!("/proc/{pid}/stat")))?;
    // The name, in parentheses, may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let alive = !matches!(fields.next()?, "Z" | "X");
    fields.nth(18).filter(|_| alive).map(str::to_owned)
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
    match folder(dir).and_then(|()| write_page(&path, &Page::own(action))) {
        Ok(()) => Some(path),
        Err(e) => {
            static ONCE: Once = Once::new();
            ONCE.call_once(|| {
                say(&format!("no journal in {JOURNAL} ({e}): after a crash, settings stay as they are then"));
            });
            None
        }
    }
}

/// Makes the folder if it is not there.
fn folder(dir: &Path) -> std::io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(e),
        _ if own_folder(dir) => Ok(()),
        _ => Err(std::io::Error::other("the folder belongs to somebody else or others may write to it")),
    }
}

fn write_page(path: &Path, page: &Page) -> std::io::Result<()> {
    let hidden = path.with_extension("new");
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&hidden)?;
    file.write_all(&serde_json::to_vec(page)?)?;
    std::fs::rename(&hidden, path)
}

/// After the attempt: the page goes. Where there were problems it stays for the next process, with no more than what is
/// left to do: what was put back may be changed by its user before then.
fn close(path: &Path, page: &Page, problems: &[String]) {
    if problems.is_empty() {
        let _ = std::fs::remove_file(path);
    } else if let Action::Queue(snapshot) = &page.action {
        let left = Page { pid: page.pid, started: page.started.clone(), action: Action::Queue(snapshot.unsettled()) };
        let _ = write_page(path, &left);
    }
}

/// Keeps other processes from changing a disk's settings, which are those of its user then. `None` where there is no
/// folder for that.
pub(crate) fn lock(queue: &Queue) -> Result<Option<Lock>, Error> {
    lock_in(queue, Path::new(JOURNAL))
}

fn lock_in(queue: &Queue, dir: &Path) -> Result<Option<Lock>, Error> {
    if folder(dir).is_err() {
        return Ok(None);
    }
    let path = lock_of(queue, dir);
    let holder = || read_some(&path).filter(|pid| !pid.is_empty());
    let mut tries = 0;
    loop {
        match Lock::take(&path) {
            Ok(Some(mut lock)) => {
                // Of somebody who died between our look at leftovers and here.
                for (page, path) in of_the_dead(dir) {
                    if matches!(&page.action, Action::Queue(snapshot) if snapshot.queue().name() == queue.name()) {
                        say(&settle(&page, &path));
                    }
                }
                return Ok(lock.sign().is_ok().then_some(lock));
            }
            Ok(None) => {}
            Err(_) => return Ok(None),
        }
        // Who does not sign only puts back what a third one left. On a busy machine that takes a while.
        tries += 1;
        if tries >= if holder().is_some() { 10 } else { 1000 } {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let holder = holder().map_or("another process".into(), |pid| format!("process {pid}"));
    let name = queue.name();
    Err(Error::Refused(format!("{name} is being measured by {holder}; wait for it or stop it")))
}

fn lock_of(queue: &Queue, dir: &Path) -> PathBuf {
    dir.join(format!("{}-{}.lock", queue.name(), queue.sequence().unwrap_or_default()))
}

/// Puts back what processes left that are gone (killed, or crashed). One line each of what was done.
pub fn leftovers() -> Vec<String> {
    leftovers_in(Path::new(JOURNAL))
}

fn leftovers_in(dir: &Path) -> Vec<String> {
    if !own_folder(dir) {
        return Vec::new();
    }
    // Locks of the dead: whoever lets go removes the file.
    files(dir, "lock").iter().for_each(|path| drop(Lock::take(path)));
    let mut lines = Vec::new();
    for (page, path) in of_the_dead(dir) {
        let _held = match &page.action {
            Action::Queue(snapshot) => match Lock::take(&lock_of(&snapshot.queue(), dir)) {
                // Somebody measures on it now.
                Ok(None) => continue,
                held => held.ok().flatten(),
            },
            _ => None,
        };
        // It ended in good order after its page was read, or another process was quicker.
        if path.exists() {
            lines.push(settle(&page, &path));
        }
    }
    lines
}

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let all = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|f| f.path());
    all.filter(|p| p.extension().is_some_and(|e| e == extension)).collect()
}

/// The pages of processes that are gone, the latest change of a process first.
fn of_the_dead(dir: &Path) -> Vec<(Page, PathBuf)> {
    let mut pages: Vec<(Page, PathBuf)> = files(dir, "json")
        .into_iter()
        .filter_map(|p| Some((serde_json::from_slice(&std::fs::read(&p).ok()?).ok()?, p)))
        .filter(|(page, _): &(Page, _)| started(page.pid).is_none_or(|s| s != page.started))
        .collect();
    let number = |p: &Path| -> Option<u64> { p.file_stem()?.to_str()?.split_once('-')?.1.parse().ok() };
    pages.sort_by_key(|(page, path)| (page.pid, std::cmp::Reverse(number(path))));
    pages
}

/// Puts back what a page tells of; one line of how that went.
fn settle(page: &Page, path: &Path) -> String {
    let problems = page.action.run();
    close(path, page, &problems);
    let about = page.action.about();
    match problems.first() {
        None => format!("put back {about}, left by process {} that is gone", page.pid),
        Some(problem) => format!("could not put back {about}, left by process {}: {problem}", page.pid),
    }
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
    fn what_could_not_be_put_back_is_tried_again_by_the_next_process() {
        let dir = tempfile::tempdir().unwrap();
        let pages = dir.path().join("journal");
        std::fs::DirBuilder::new().mode(0o700).create(&pages).unwrap();
        // A group that somebody is in cannot be removed.
        let (group, member) = (dir.path().join("group"), dir.path().join("group/member"));
        std::fs::create_dir_all(&member).unwrap();
        let action = Action::Group { dir: group.clone(), home: dir.path().into() };
        let page = Page { pid: std::process::id(), started: "1".into(), action };
        std::fs::write(pages.join("1-0.json"), serde_json::to_vec(&page).unwrap()).unwrap();
        for _ in 0..2 {
            let lines = leftovers_in(&pages);
            assert!(lines.len() == 1 && lines[0].contains("could not put back cgroup"), "{lines:?}");
        }
        std::fs::remove_dir(&member).unwrap();
        let lines = leftovers_in(&pages);
        assert!(lines.len() == 1 && lines[0].contains("put back cgroup"), "{lines:?}");
        assert!(!group.exists());
        assert_eq!(leftovers_in(&pages), Vec::<String>::new());
    }

    #[test]
    fn a_guard_that_cannot_put_back_leaves_its_page() {
        if folder(Path::new(JOURNAL)).is_err() {
            eprintln!("skipped: no {JOURNAL} (root is needed)");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let action = Action::Write { file: dir.path().into(), text: "a folder cannot be written".into() };
        let guard = Guard::of(action, || Ok(())).unwrap();
        let page = Path::new(JOURNAL).join(format!("{}-{}.json", std::process::id(), guard.id));
        drop(guard);
        let stays = page.exists();
        let _ = std::fs::remove_file(&page);
        assert!(stays);
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
        let page = Page { pid: std::process::id(), started: "1".into(), action: Action::Queue(queue.snapshot()) };
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
        // Nobody interferes with one who measures.
        put("stuck", "1");
        let held = Lock::take(&lock_of(&queue, &pages)).unwrap().unwrap();
        assert_eq!(leftovers_in(&pages), Vec::<String>::new());
        assert_eq!(queue.get("stuck").unwrap(), "1");
        drop(held);
        // The killed leave a file.
        std::fs::write(pages.join("gone-1.lock"), "1").unwrap();
        assert_eq!(leftovers_in(&pages).len(), 1);
        assert_eq!(queue.get("stuck").unwrap(), "0");
        assert_eq!(std::fs::read_dir(&pages).unwrap().count(), 0);
        // Of one who died after we looked.
        put("stuck", "1");
        std::fs::write(pages.join("1-0.json"), serde_json::to_vec(&page).unwrap()).unwrap();
        let held = lock_in(&queue, &pages).unwrap();
        assert!(held.is_some());
        assert_eq!(queue.get("stuck").unwrap(), "0");
        assert!(!pages.join("1-0.json").exists());
    }

    #[test]
    fn the_dead_are_dead_before_their_parents_know() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        assert!(started(child.id()).is_some());
        child.kill().unwrap();
        // Not waited for, it stays in the table of processes.
        assert!((0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            started(child.id()).is_none()
        }));
        assert!(Path::new(&format!("/proc/{}", child.id())).exists());
        child.wait().unwrap();
    }

    #[test]
    fn who_puts_back_is_waited_for_and_who_measures_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let pages = dir.path().join("journal");
        folder(&pages).unwrap();
        let queue = Queue::at(&dir.path().join("disk"));
        let restores = Lock::take(&lock_of(&queue, &pages)).unwrap().unwrap();
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

    /// Not a test: the process that the test below starts.
    #[test]
    #[ignore = "started by another test"]
    fn child() {
        let Ok(dir) = std::env::var("TEST_DIR") else { return };
        on_signals(None).unwrap();
        let back = |file: &str| Action::Write { file: Path::new(&dir).join(file), text: "back   ".into() };
        let _first = Guard::of(back("file"), || Ok(())).unwrap();
        let failing = Guard::of(back(""), || Ok(())).unwrap();
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

    #[test]
    fn a_folder_that_others_may_write_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(dir.path(), mode).unwrap();
        assert!(!own_folder(dir.path()));
    }
}
