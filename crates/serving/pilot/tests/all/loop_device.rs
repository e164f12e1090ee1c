//! A real loop device with fio on it: the pilot switches, data stay whole, settings come back.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use dumbwaiter_linux::queue::Queue;
use dumbwaiter_pilot::{PilotConfig, Question, RunOptions, RunSummary, ask, run};
use dumbwaiter_testkit::{LoopDevice, StopOnDrop};

const MIB: u64 = 1 << 20;
/// One at a time: they share the machine's two CPUs and the device under each is exchanged.
static ONE: Mutex<()> = Mutex::new(());

/// A loop device with settings that differ from all defaults; `None`, and the reason, where there is none.
fn device() -> Option<(LoopDevice, Queue)> {
    if !Path::new("/sys/kernel/tracing/instances").is_dir() {
        eprintln!("skipped: no tracefs, or not root");
        return None;
    }
    let has_fio = Command::new("fio").arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success());
    if !has_fio {
        eprintln!("skipped: fio is not installed");
        return None;
    }
    let device = LoopDevice::new(Path::new("/dev/shm"), 64 * MIB)?;
    for (name, value) in [("scheduler", "mq-deadline"), ("nr_requests", "100"), ("iosched/fifo_batch", "7")] {
        std::fs::write(device.sysfs().join("queue").join(name), value).unwrap();
    }
    let queue = Queue::of(device.path()).unwrap().unwrap();
    Some((device, queue))
}

/// The settings that a pilot may change. Statistics of the kernel's own making are no settings.
fn settings(queue: &Queue) -> Vec<(String, String)> {
    let names = ["scheduler", "nr_requests", "async_depth", "iosched/fifo_batch", "iosched/read_expire"];
    names.iter().map(|name| ((*name).to_owned(), queue.get(name).unwrap_or_default())).collect()
}

/// Random writes that are read back and compared, or only read.
fn fio(device: &Path, seconds: u32, verify: bool) -> bool {
    let mut fio = Command::new("fio");
    fio.args(["--name=load", "--ioengine=libaio", "--direct=1", "--bs=4k", "--iodepth=16", "--output=/dev/null"]);
    fio.arg(format!("--filename={}", device.display()));
    match verify {
        true => {
            // 16384 blocks.
            let rate = 16384 / seconds;
            fio.args(["--rw=randwrite", "--size=64m", "--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0"]);
            fio.arg(format!("--rate_iops={rate}"))
        }
        false => fio.args(["--rw=randread", "--size=64m", "--time_based", &format!("--runtime={seconds}")]),
    };
    fio.status().unwrap().success()
}

/// Runs a pilot while `work` runs.
fn fly(config: &str, options: RunOptions, work: impl FnOnce()) -> (RunSummary, Vec<String>) {
    let config = PilotConfig::from_toml(config, Path::new("pilot.toml")).unwrap();
    let (stop, lines) = (Arc::new(AtomicBool::new(false)), Mutex::new(Vec::new()));
    let summary = std::thread::scope(|scope| {
        let pilot =
            scope.spawn(|| run(&config, options, &stop, &mut |line| lines.lock().unwrap().push(line.to_owned())));
        let stopping = StopOnDrop(&stop);
        work();
        drop(stopping);
        pilot.join().unwrap().unwrap()
    });
    (summary, lines.into_inner().unwrap())
}

fn config(folder: &Path, device: &Path) -> String {
    format!(
        "control = \"{}/pilot.sock\"\n[[device]]\npath = \"{}\"\nby = \"trial\"\nperiod = \"200ms\"\nslot = \"400ms\"\n\
         dwell = \"0s\"\n",
        folder.display(),
        device.display()
    )
}

#[test]
fn it_switches_under_load_data_stay_whole_and_settings_come_back() {
    let _one = ONE.lock();
    let Some((device, queue)) = device() else { return };
    let folder = tempfile::tempdir().unwrap();
    let before = settings(&queue);
    let options = RunOptions { act: true, once: false };
    let (summary, lines) = fly(&config(folder.path(), device.path()), options, || {
        assert!(fio(device.path(), 6, true), "fio found other data than it had written");
        let status = ask(&folder.path().join("pilot.sock"), &Question::Status {}).unwrap();
        assert_eq!((&status["mode"], &status["devices"][0]["state"]), (&"act".into(), &"acting".into()));
    });
    let counts = summary.status.devices[0].counts;
    assert!(counts.exchanges >= 2, "{counts:?} {lines:#?}");
    assert_eq!((counts.foreign_changes, summary.problems.len()), (0, 0), "{:?}", summary.problems);
    assert_eq!(settings(&queue), before);
    assert!(lines.iter().any(|line| line.contains("action=restore") || line.contains("action=switch")), "{lines:#?}");
}

#[test]
fn a_change_by_another_program_stays() {
    let _one = ONE.lock();
    let Some((device, queue)) = device() else { return };
    let folder = tempfile::tempdir().unwrap();
    let options = RunOptions { act: true, once: false };
    let (summary, lines) = fly(&config(folder.path(), device.path()), options, || {
        assert!(fio(device.path(), 2, false));
        let other = if queue.schedulers().unwrap().0 == "kyber" { "bfq" } else { "kyber" };
        // Of two programs that write at the same moment the last one wins, whichever that is: then it is written again.
        // The kernel refuses a second exchange while one is under way.
        for _ in 0..20 {
            let written = std::fs::write(device.sysfs().join("queue/scheduler"), other);
            let busy = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ResourceBusy;
            assert!(written.as_ref().err().is_none_or(busy), "{written:?}");
            std::thread::sleep(std::time::Duration::from_millis(70));
            if queue.schedulers().unwrap().0 == other {
                break;
            }
        }
        assert!(fio(device.path(), 2, false));
        assert_eq!(queue.schedulers().unwrap().0, other);
    });
    assert_eq!(summary.status.devices[0].state_name(), "hands-off", "{lines:#?}");
    assert!(["kyber", "bfq"].contains(&queue.schedulers().unwrap().0.as_str()));
}

#[test]
fn advice_changes_nothing() {
    let _one = ONE.lock();
    let Some((device, queue)) = device() else { return };
    let before = settings(&queue);
    let text = format!("[[device]]\npath = \"{}\"\nperiod = \"200ms\"\n", device.path().display());
    std::thread::scope(|scope| {
        let load = scope.spawn(|| fio(device.path(), 4, false));
        let reads = || std::fs::read_to_string(device.sysfs().join("stat")).unwrap();
        let idle = reads();
        while reads() == idle && !load.is_finished() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let config = PilotConfig::from_toml(&text, Path::new("pilot.toml")).unwrap();
        let options = RunOptions { act: false, once: true };
        let summary = run(&config, options, &Arc::new(AtomicBool::new(false)), &mut |_| ()).unwrap();
        let last = summary.status.devices[0].last_decision.as_ref().unwrap();
        // A busy machine may lose the events of a whole period; it says so then.
        let heard = last.measured.arrivals_seen > 0 || last.measured.lost_events > 0;
        assert!(last.measured.iops > 0.0 && heard, "{last:?}");
        assert!(load.join().unwrap());
    });
    assert_eq!(settings(&queue), before);
}

#[test]
fn a_second_pilot_of_the_same_disk_ends_with_a_reason() {
    let _one = ONE.lock();
    let Some((device, _)) = device() else { return };
    let folder = tempfile::tempdir().unwrap();
    let options = RunOptions { act: true, once: false };
    let text = config(folder.path(), device.path());
    fly(&text, options, || {
        let socket = folder.path().join("pilot.sock");
        let there = || {
            std::thread::sleep(std::time::Duration::from_millis(100));
            ask(&socket, &Question::Status {}).is_ok()
        };
        assert!((0..100).any(|_| there()));
        let second = PilotConfig::from_toml(&text.replace("pilot.sock", "second.sock"), Path::new("p")).unwrap();
        let stop = Arc::new(AtomicBool::new(true));
        let said = run(&second, options, &stop, &mut |_| ()).unwrap_err().to_string();
        assert!(said.contains("is being measured by") && said.contains("process"), "{said}");
    });
}

/// Prints the CPU time of a pilot per second of a busy device, beside the device's rate. Run alone, with `--release`.
#[test]
#[ignore = "a measurement: cargo test --release -p dumbwaiter-pilot -- --ignored --nocapture cpu_time"]
fn cpu_time_of_watching() {
    let Some((device, queue)) = device() else { return };
    std::fs::write(device.sysfs().join("queue/scheduler"), "none").unwrap();
    let text =
        format!("control = \"/dev/shm/dumbwaiter-cpu.sock\"\n[[device]]\npath = \"{}\"\n", device.path().display());
    // The pilot's own thread: fio is another process.
    let cpu = || rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let (mut used, mut ios) = (0.0, 0.0);
    let count = || {
        let text = std::fs::read_to_string(device.sysfs().join("stat")).unwrap();
        text.split_whitespace().next().unwrap().parse::<f64>().unwrap()
    };
    let (summary, _) = fly(&text, RunOptions { act: false, once: false }, || {
        std::thread::sleep(std::time::Duration::from_secs(2));
        let (before, first) = (cpu(), count());
        assert!(fio(device.path(), 20, false));
        let after = cpu();
        used = (after.tv_sec - before.tv_sec) as f64 + (after.tv_nsec - before.tv_nsec) as f64 / 1e9;
        ios = count() - first;
    });
    let decision = summary.status.devices[0].last_decision.as_ref().map(|last| last.line());
    println!("{}: {:.0} IOPS, {:.3} % of a core, {decision:?}", queue.name(), ios / 20.0, 100.0 * used / 20.0);
}
