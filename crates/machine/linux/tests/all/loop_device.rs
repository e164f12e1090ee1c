//! On real loop devices (root): settings come back however a process ends, uses are seen, groups go away.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use dumbwaiter_linux::cgroup::{self, Groups};
use dumbwaiter_linux::queue::Queue;
use dumbwaiter_linux::settings::Settings;
use dumbwaiter_linux::target::{Kind, PathFacts};
use dumbwaiter_linux::{Roots, undo};
use dumbwaiter_testkit::LoopDevice;

const MIB: u64 = 1 << 20;

fn device() -> Option<LoopDevice> {
    LoopDevice::new(Path::new("/dev/shm"), 16 * MIB)
}

/// The settings. Statistics of the kernel's own making are no settings.
type Values = std::collections::BTreeMap<String, String>;

/// Leaves the defaults, so that a restore that only sets defaults is found out.
fn unusual(queue: &Queue) -> Values {
    for (name, value) in [
        ("scheduler", "mq-deadline"),
        ("nr_requests", "100"),
        ("nomerges", "1"),
        ("rq_affinity", "2"),
        ("iosched/fifo_batch", "7"),
        ("iosched/read_expire", "400"),
        ("iosched/async_depth", "50"),
    ] {
        let dir = Path::new("/sys/block").join(queue.name()).join("queue");
        std::fs::write(dir.join(name), value).unwrap();
    }
    queue.attributes()
}

/// Changes much of what [`unusual`] set, and what hangs on it.
fn change(settings: &mut Settings) {
    for (name, value) in [
        ("scheduler", "bfq"),
        ("iosched/slice_idle", "0"),
        ("scheduler", "kyber"),
        ("nr_requests", "64"),
        ("nomerges", "2"),
        ("rq_affinity", "0"),
        ("iostats", "0"),
        ("wbt_lat_usec", "0"),
        ("read_ahead_kb", "512"),
        ("iosched/read_lat_nsec", "1000000"),
    ] {
        assert_eq!(settings.set(name, value).unwrap(), value, "{name}");
    }
}

#[test]
fn settings_come_back_after_a_drop_and_a_restore() {
    let Some(device) = device() else { return };
    let queue = Queue::of(device.path()).unwrap().unwrap();
    let before = unusual(&queue);
    let mut settings = Settings::new(&queue).unwrap();
    change(&mut settings);
    assert_ne!(queue.attributes(), before);
    assert_eq!(settings.restore(), Vec::<String>::new());
    assert_eq!(queue.attributes(), before);
    assert_eq!(settings.restore(), Vec::<String>::new());
    change(&mut settings);
    drop(settings);
    assert_eq!(queue.attributes(), before);
}

#[test]
fn a_refused_value_says_why_and_leaves_the_rest() {
    let Some(device) = device() else { return };
    let queue = Queue::of(device.path()).unwrap().unwrap();
    let before = unusual(&queue);
    let mut settings = Settings::new(&queue).unwrap();
    let said = settings.set("scheduler", "cfq").unwrap_err().to_string();
    assert!(said.contains("mq-deadline") && said.contains("successor is bfq"), "{said}");
    let said = settings.set("nr_requests", "many").unwrap_err().to_string();
    assert!(said.contains("nr_requests") && said.contains("many"), "{said}");
    let error = settings.set("nr_requests", "100000").unwrap_err();
    assert!(matches!(error, dumbwaiter_linux::Error::Refused(_)), "{error:?}");
    let said = error.to_string();
    assert!([queue.name(), "nr_requests", "100000", "it is 100"].iter().all(|part| said.contains(part)), "{said}");
    let said = settings.set("logical_block_size", "4096").unwrap_err().to_string();
    assert!(said.contains("logical_block_size"), "{said}");
    drop(settings);
    assert_eq!(queue.attributes(), before);
}

/// Not a test: the process that the tests below start.
#[test]
#[ignore = "started by other tests"]
fn child() {
    let (Ok(device), Ok(way)) = (std::env::var("TEST_DEVICE"), std::env::var("TEST_WAY")) else { return };
    if way != "leftovers" {
        undo::on_signals(None).unwrap();
    }
    let queue = Queue::of(Path::new(&device)).unwrap().unwrap();
    match way.as_str() {
        "panic" => {
            let mut settings = Settings::new(&queue).unwrap();
            change(&mut settings);
            println!("\nchanged");
            panic!("as the test wants");
        }
        "few tags" => {
            let mut settings = Settings::new(&queue).unwrap();
            settings.set("scheduler", "none").unwrap();
            settings.set("nr_requests", "4").unwrap();
            println!("\nchanged");
            std::thread::sleep(std::time::Duration::from_secs(60));
        }
        "leftovers" => {
            for line in undo::leftovers() {
                println!("\nleftover: {line}");
            }
        }
        _ => {
            let mut settings = Settings::new(&queue).unwrap();
            change(&mut settings);
            println!("\nchanged");
            std::thread::sleep(std::time::Duration::from_secs(60));
        }
    }
}

fn start(device: &LoopDevice, way: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "loop_device::child", "--ignored", "--nocapture"])
        .env("TEST_DEVICE", device.path())
        .env("TEST_WAY", way)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn wait_until_changed(child: &mut Child) {
    let out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = out.lines().map_while(Result::ok);
    assert!(lines.any(|l| l == "changed"), "the child ended before it changed anything");
}

/// Looks for leftovers, and waits until all is as it was: another process may have been quicker, and still be at it.
fn put_back(device: &LoopDevice, as_before: impl Fn() -> bool) {
    let out = start(device, "leftovers").wait_with_output().unwrap();
    assert!(out.status.success());
    let waited = (0..1000).any(|_| {
        let done = as_before();
        if !done {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        done
    });
    assert!(waited, "{}", String::from_utf8_lossy(&out.stdout));
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn settings_come_back_after_signals_and_a_panic() {
    for (way, code) in [("INT", Some(130)), ("TERM", Some(143)), ("HUP", Some(129)), ("panic", None)] {
        let Some(device) = device() else { return };
        let queue = Queue::of(device.path()).unwrap().unwrap();
        let before = unusual(&queue);
        let mut child = start(&device, way);
        wait_until_changed(&mut child);
        if way != "panic" {
            assert_ne!(queue.attributes(), before, "{way}");
            signal(&child, way);
        }
        let status = child.wait().unwrap();
        match code {
            Some(code) => assert_eq!(status.code(), Some(code), "{way}"),
            None => assert!(!status.success(), "{way}"),
        }
        assert_eq!(queue.attributes(), before, "{way}");
    }
}

#[test]
fn the_next_process_puts_back_what_a_killed_one_left() {
    let Some(device) = device() else { return };
    let queue = Queue::of(device.path()).unwrap().unwrap();
    let before = unusual(&queue);
    let mut child = start(&device, "KILL");
    wait_until_changed(&mut child);
    signal(&child, "KILL");
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    put_back(&device, || queue.attributes() == before);
    let again = start(&device, "leftovers").wait_with_output().unwrap();
    assert!(!String::from_utf8_lossy(&again.stdout).contains(&format!("settings of {},", queue.name())));
}

#[test]
fn a_disk_that_another_process_measures_is_refused_until_that_ends() {
    for way in ["KILL", "TERM"] {
        let Some(device) = device() else { return };
        let queue = Queue::of(device.path()).unwrap().unwrap();
        let mut child = start(&device, way);
        wait_until_changed(&mut child);
        let error = Settings::new(&queue).unwrap_err();
        assert!(matches!(error, dumbwaiter_linux::Error::Refused(_)), "{error:?}");
        let said = error.to_string();
        assert!(said.contains(&format!("{} is being measured by process {}", queue.name(), child.id())), "{said}");
        // Looking is free.
        assert_eq!(queue.schedulers().unwrap().0, "kyber");
        signal(&child, way);
        child.wait().unwrap();
        assert!(start(&device, "leftovers").wait().unwrap().success());
        for _ in 0..2 {
            let first = Settings::new(&queue).unwrap();
            let own = Settings::new(&queue).unwrap_err().to_string();
            assert!(own.contains(&format!("process {}", std::process::id())), "{own}");
            drop(first);
        }
    }
}

/// debugfs, where what a driver has of its tags can be seen.
struct Debugfs(tempfile::TempDir);

impl Debugfs {
    fn new() -> Option<Debugfs> {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("sys/kernel/debug");
        std::fs::create_dir_all(&at).unwrap();
        let mounted =
            Command::new("mount").args(["-t", "debugfs", "none"]).arg(&at).status().is_ok_and(|s| s.success());
        if !mounted || !at.join("block").is_dir() {
            eprintln!("skipped: no debugfs");
            return None;
        }
        Some(Debugfs(dir))
    }

    fn remarks(&self, queue: &Queue) -> Vec<String> {
        queue.remarks(&Roots::under(self.0.path()))
    }
}

impl Drop for Debugfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path().join("sys/kernel/debug")).status();
    }
}

#[test]
fn a_driver_has_its_tags_under_schedulers_and_afterwards() {
    let (Some(device), Some(debugfs)) = (device(), Debugfs::new()) else { return };
    let queue = Queue::of(device.path()).unwrap().unwrap();
    let nothing = Vec::<String>::new();
    assert_eq!(debugfs.remarks(&queue), nothing);
    // As another user may have left them.
    let by_hand = |name: &str, value: &str| std::fs::write(device.sysfs().join("queue").join(name), value).unwrap();
    by_hand("nr_requests", "4");
    by_hand("scheduler", "bfq");
    let said = debugfs.remarks(&queue).join("; ");
    assert!(said.contains("4 of its driver's"), "{said}");
    queue.release_tags().unwrap();
    assert_eq!(debugfs.remarks(&queue), nothing);
    for original in ["none", "mq-deadline"] {
        by_hand("scheduler", original);
        let mut settings = Settings::new(&queue).unwrap();
        for scheduler in ["none", "bfq", "none", "mq-deadline"] {
            settings.set("scheduler", scheduler).unwrap();
            settings.set("nr_requests", "16").unwrap();
            let said = debugfs.remarks(&queue);
            assert_eq!(said.is_empty(), scheduler != "none", "{original}, {scheduler}: {said:?}");
        }
        drop(settings);
        assert_eq!((queue.schedulers().unwrap().0.as_str(), debugfs.remarks(&queue)), (original, vec![]));
        let mut settings = Settings::new(&queue).unwrap();
        settings.set("scheduler", "none").unwrap();
        settings.set("nr_requests", "16").unwrap();
        drop(settings);
        assert_eq!((queue.schedulers().unwrap().0.as_str(), debugfs.remarks(&queue)), (original, vec![]));
        let mut child = start(&device, "few tags");
        wait_until_changed(&mut child);
        signal(&child, "KILL");
        child.wait().unwrap();
        put_back(&device, || queue.schedulers().unwrap().0 == original && debugfs.remarks(&queue).is_empty());
    }
    by_hand("rq_affinity", "2");
    assert_eq!(debugfs.remarks(&queue).len(), 1);
}

#[test]
fn a_loop_device_and_its_file_are_known() {
    let Some(device) = device() else { return };
    let target = PathFacts::of(device.path()).unwrap();
    assert_eq!((target.kind, target.bytes, target.read_only), (Kind::Disk, 16 * MIB, false));
    assert!(target.uses.is_empty(), "{:?}", target.uses);
    target.check_writes(false, None).unwrap_err();
    target.check_writes(true, None).unwrap();
    let file = PathFacts::of(device.file()).unwrap();
    let name = device.path().file_name().unwrap().to_string_lossy().into_owned();
    assert_eq!((file.kind, file.bytes), (Kind::File, 16 * MIB));
    assert_eq!(file.uses, [format!("backs {name}")]);
    file.check_writes(true, None).unwrap_err();
    // The same file by another name, also when the first is gone.
    let link = device.file().with_extension("link");
    std::fs::hard_link(device.file(), &link).unwrap();
    let linked = PathFacts::of(&link).unwrap().uses;
    std::fs::remove_file(device.file()).unwrap();
    let alone = PathFacts::of(&link).unwrap().uses;
    std::fs::rename(&link, device.file()).unwrap();
    assert_eq!((&linked, &alone), (&file.uses, &file.uses));
    assert!(Queue::of(device.file()).unwrap().is_none());
}

#[test]
fn a_mounted_device_is_seen() {
    let Some(device) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let run = |program: &str, args: &[&std::ffi::OsStr]| {
        Command::new(program).args(args).output().is_ok_and(|o| o.status.success())
    };
    let (path, dir) = (device.path().as_os_str(), dir.path().as_os_str());
    if !run("mkfs.ext4", &["-q".as_ref(), path]) || !run("mount", &[path, dir]) {
        eprintln!("skipped: cannot make and mount a filesystem here");
        return;
    }
    let target = PathFacts::of(device.path());
    let unmounted = run("umount", &[dir]);
    let target = target.unwrap();
    assert_eq!(target.uses, [format!("mounted at {}", dir.to_string_lossy())]);
    target.check_writes(true, None).unwrap_err();
    target.check_writes(true, Some(device.path())).unwrap();
    assert!(unmounted);
}

#[test]
fn an_exclusive_holder_without_a_name_is_seen() {
    use std::os::unix::fs::OpenOptionsExt;
    let Some(device) = device() else { return };
    let held = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(device.path()).unwrap();
    let target = PathFacts::of(device.path()).unwrap();
    assert!(target.uses.iter().any(|u| u.contains("exclusively")), "{:?}", target.uses);
    drop(held);
}

#[test]
fn groups_take_processes_and_leave_nothing() {
    let (Some(found), about) = cgroup::detect(&Roots::default()) else {
        eprintln!("skipped: {}", cgroup::detect(&Roots::default()).1);
        return;
    };
    let top = found.mount.join(format!("dumbwaiter-{}", std::process::id()));
    let made = Groups::new(&found).and_then(|mut groups| {
        groups.add("heavy", 800, None)?;
        groups.add("light", 200, None)?;
        Ok(groups)
    });
    let groups = match made {
        Ok(groups) => groups,
        Err(e) => {
            eprintln!("skipped: {e}");
            return;
        }
    };
    println!("{about}");
    assert!(top.join("heavy").is_dir());
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    groups.move_process(0, sleeper.id()).unwrap();
    let own = std::fs::read_to_string(format!("/proc/{}/cgroup", sleeper.id())).unwrap();
    assert!(own.contains("/heavy"), "{own}");
    drop(groups);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert!(!top.exists());
}
