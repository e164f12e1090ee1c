//! Targets that fail: an error is reported and counted, completed runs are kept, and every request is accounted for.

use std::path::Path;
use std::sync::atomic::Ordering;

use crate::drive::common::{filled, is_root, open, run_on, try_command};
use dumbwaiter_experiment::Control;
use dumbwaiter_realworld::drive::{CompletionMode, DriveRun, Error, Options, Target, Verify};
use dumbwaiter_testkit::LoopDevice;

const READS: &str = "duration = \"5s\"\n[[task]]\nname = \"t\"\nrw = \"randread\"\nbs = \"4k\"\niodepth = 16\nioengine = \"io_uring\"\nnorandommap = true\n";
const WRITES: &str =
    "limit = 4000\n[[task]]\nname = \"t\"\nrw = \"write\"\nbs = \"16k\"\niodepth = 8\nioengine = \"io_uring\"\n";

fn conserved(cell: &DriveRun) {
    let l = &cell.result.ledger;
    assert_eq!(l.submitted, l.completed);
    assert_eq!(cell.result.errors, l.failed);
}

#[test]
fn a_file_cut_off_in_mid_run_ends_it_with_what_was_finished() {
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), "disk", 8 << 20);
    let target = open(&path, &Options::default());
    let scenario = crate::drive::common::scenario(&READS.replace("5s", "60s"));
    let prepared = dumbwaiter_scenario::load::Prepared::new(&scenario).unwrap();
    let choice = dumbwaiter_schedulers::Choice::parse("mq-deadline").unwrap();
    let control = Control::default();
    let cell = std::thread::scope(|scope| {
        scope.spawn(|| {
            while control.finished.load(Ordering::Relaxed) < 100 {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 20).unwrap();
        });
        dumbwaiter_realworld::drive::run(&prepared, &target, &choice, CompletionMode::Interrupt, 0, &control).unwrap()
    });
    let failure = cell.failure.clone().unwrap();
    // mq-deadline may have merged neighbours.
    assert!(failure.contains("short: 0 of ") && failure.contains("cut off"), "{failure}");
    assert!(cell.failures["short"] >= 1 && cell.result.completed > 0);
    assert!(cell.result.duration_s < 59.0, "the first failure ends the run");
    conserved(&cell);
}

#[test]
fn with_keep_going_every_failure_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), "disk", 8 << 20);
    let target = open(&path, &Options { keep_going: true, ..Options::default() });
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4 << 20).unwrap();
    let text = READS.replace("duration = \"5s\"", "limit = 2000");
    let cell = run_on(&target, &text, "bfq", CompletionMode::Interrupt).unwrap();
    conserved(&cell);
    assert_eq!(cell.result.ledger.submitted, 2000);
    assert_eq!(cell.result.completed + cell.result.errors, 2000);
    assert!(cell.result.errors > 500 && cell.result.completed > 500, "{} failed", cell.result.errors);
}

/// Something mounted, unmounted with this value.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_full_file_system_is_named() {
    if !is_root() {
        println!("skipped: mounting needs root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display().to_string();
    if try_command("mount", &["-t", "tmpfs", "-o", "size=1m", "none", &at]).is_none() {
        println!("skipped: tmpfs cannot be mounted here");
        return;
    }
    let _mounted = Mounted(dir.path());
    let path = dir.path().join("disk");
    std::fs::File::create(&path).unwrap().set_len(8 << 20).unwrap();
    let target = open(&path, &Options { allow_writes: true, ..Options::default() });
    let cell = run_on(&target, WRITES, "none", CompletionMode::Interrupt).unwrap();
    conserved(&cell);
    let failure = cell.failure.unwrap();
    // A write that fits in part is short, the next finds no space.
    assert!(failure.contains("full") || failure.contains("short"), "{failure}");
    assert!(cell.result.completed > 0);
}

fn with_journal(journal: &Path) -> Options {
    let verify = Some(Verify { journal: Some(journal.to_owned()) });
    Options { allow_writes: true, verify, ..Options::default() }
}

#[test]
fn a_journal_without_room_is_refused_before_the_run() {
    if !is_root() {
        eprintln!("skipped: mounting needs root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let small = tempfile::tempdir().unwrap();
    let at = small.path().display().to_string();
    if try_command("mount", &["-t", "tmpfs", "-o", "size=64k", "none", &at]).is_none() {
        eprintln!("skipped: tmpfs cannot be mounted here");
        return;
    }
    let _mounted = Mounted(small.path());
    let path = filled(dir.path(), "disk", 8 << 20);
    let journal = small.path().join("journal");
    let target = open(&path, &with_journal(&journal));
    let blocks = target.facts().bytes / u64::from(target.facts().logical_block);
    let room = 64 << 10 >= 4096 + blocks * 8;
    let error = match run_on(&target, WRITES, "none", CompletionMode::Interrupt) {
        Err(error) => error.to_string(),
        Ok(_) if room => {
            eprintln!("skipped: blocks are so large here that the journal fits");
            return;
        }
        Ok(_) => panic!("a journal where there is no room"),
    };
    let needed = format!("needs {} bytes", 4096 + blocks * 8);
    assert!(error.contains(&needed) && error.contains("No space left") && error.lines().count() == 1, "{error}");
    assert_eq!(std::fs::read_dir(small.path()).unwrap().count(), 0, "what was allocated is given back");
}

#[test]
fn a_journal_is_never_written_through_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    std::fs::File::create(&path).unwrap().set_len(1 << 20).unwrap();
    let (victim, journal) = (dir.path().join("victim"), dir.path().join("journal"));
    std::fs::write(&victim, "precious").unwrap();
    std::os::unix::fs::symlink(&victim, &journal).unwrap();
    let error = Target::open(&path, &with_journal(&journal)).err().unwrap().to_string();
    assert!(error.contains("symbolic link"), "{error}");
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn a_journal_over_the_target_itself_or_a_device_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), "disk", 1 << 20);
    let other = dir.path().join("other-name");
    std::fs::hard_link(&path, &other).unwrap();
    let before = std::fs::read(&path).unwrap();
    for (journal, why) in
        [(path.as_path(), "target itself"), (&other, "target itself"), (Path::new("/dev/null"), "regular")]
    {
        let error = Target::open(&path, &with_journal(journal)).err().unwrap();
        assert!(matches!(error, Error::Journal { .. }) && error.to_string().contains(why), "{error}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_cancelled_run_skips_the_final_pass() {
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), "disk", 8 << 20);
    let target = open(&path, &Options { verify: Some(Verify::default()), allow_writes: true, ..Options::default() });
    let text = WRITES.replace("limit = 4000", "duration = \"60s\"").replace("\"write\"", "\"randwrite\"");
    let scenario = crate::drive::common::scenario(&text);
    let prepared = dumbwaiter_scenario::load::Prepared::new(&scenario).unwrap();
    let choice = dumbwaiter_schedulers::Choice::parse("none").unwrap();
    let control = Control::default();
    let cell = std::thread::scope(|scope| {
        scope.spawn(|| {
            while control.finished.load(Ordering::Relaxed) < 100 {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            control.cancel.store(true, Ordering::Relaxed);
        });
        dumbwaiter_realworld::drive::run(&prepared, &target, &choice, CompletionMode::Interrupt, 0, &control).unwrap()
    });
    let verified = cell.verified.unwrap();
    let blocks = 16384 / u64::from(target.facts().logical_block);
    assert_eq!((verified.checked, verified.clean()), (0, true), "{verified}");
    assert!(verified.unsettled >= blocks && verified.unsettled % blocks == 0, "{verified}");
}

#[test]
fn a_device_with_an_unreadable_part_and_one_that_goes_away() {
    if !is_root() || !try_command("dmsetup", &["targets"]).is_some_and(|t| t.contains("error")) {
        println!("skipped: dmsetup with the targets linear and error needs root and device-mapper; ./.ci/lab has them");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), "disk", 8 << 20);
    let Some(disk) = LoopDevice::over(&path, &[]) else { return };
    let name = format!("dumbwaiter-test-{}", std::process::id());
    let table = format!("0 8192 linear {} 0\n8192 8192 error\n", disk.path().display());
    if try_command("dmsetup", &["create", &name, "--table", &table]).is_none() {
        println!("skipped: dmsetup cannot make a device here; ./.ci/lab can");
        return;
    }
    let device = Path::new("/dev/mapper").join(&name);
    let cell = {
        let target = open(&device, &Options::default());
        run_on(&target, READS, "kyber", CompletionMode::Interrupt)
    };
    let _ = try_command("dmsetup", &["remove", "--retry", &name]);
    let cell = cell.unwrap();
    conserved(&cell);
    assert!(cell.failure.unwrap().contains("Input/output error"));
    assert!(cell.failures["EIO"] >= 1);
}

#[test]
fn blocks_of_4096_bytes_are_respected() {
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), "disk", 8 << 20);
    let Some(disk) = LoopDevice::over(&path, &["--sector-size", "4096"]) else { return };
    let target = open(disk.path(), &Options::default());
    assert_eq!(target.facts().logical_block, 4096);
    let text = "limit = 500\n[[task]]\nname = \"small\"\nrw = \"randread\"\nbs = \"512\"\niodepth = 4\nioengine = \"io_uring\"\n";
    let error = run_on(&target, text, "none", CompletionMode::Interrupt).err().unwrap();
    assert!(matches!(&error, Error::Unaligned { task, block: 4096, .. } if task == "small"), "{error}");
    let target = open(disk.path(), &Options { round_out: true, ..Options::default() });
    let cell = run_on(&target, text, "none", CompletionMode::Interrupt).unwrap();
    assert_eq!((cell.result.completed, cell.failure), (500, None));
    assert!(cell.skipped.iter().any(|(why, n)| why.contains("rounded out to blocks of 4096") && *n > 400));
}

/// Opens a device that was in use: a program that another test starts has a copy of the last holder's descriptor until it
/// has started.
fn open_when_free(path: &Path, options: &Options) -> Target {
    for _ in 0..200 {
        match Target::open(path, options) {
            Err(e) if e.to_string().contains("is in use") => std::thread::sleep(std::time::Duration::from_millis(10)),
            opened => return opened.unwrap(),
        }
    }
    panic!("{} stays in use", path.display());
}

#[test]
fn a_device_in_use_is_not_written_to_and_a_read_only_one_neither() {
    let dir = tempfile::tempdir().unwrap();
    let path = filled(dir.path(), "disk", 8 << 20);
    let Some(disk) = LoopDevice::over(&path, &["--read-only"]) else { return };
    let writable = Options { allow_writes: true, ..Options::default() };
    let error = Target::open(disk.path(), &writable).err().unwrap().to_string();
    assert!(error.contains("read-only") || error.contains("no permission"), "{error}");
    drop(disk);
    let Some(disk) = LoopDevice::over(&path, &[]) else { return };
    let holder = {
        use std::os::unix::fs::OpenOptionsExt;
        // As a mount does; the constant is O_EXCL.
        std::fs::OpenOptions::new().read(true).custom_flags(0o200).open(disk.path()).unwrap()
    };
    let error = Target::open(disk.path(), &writable).err().unwrap().to_string();
    assert!(error.contains("is in use"), "{error}");
    drop(holder);
    let target = open_when_free(disk.path(), &writable);
    let cell = run_on(&target, &WRITES.replace("\"write\"", "\"randtrim\""), "mq-deadline", CompletionMode::Interrupt)
        .unwrap();
    conserved(&cell);
    assert_eq!(cell.failure, None);
    assert!(cell.result.other.count > 0);
}
