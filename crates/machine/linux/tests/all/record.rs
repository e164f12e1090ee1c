//! Recordings of the running kernel on a loop device (root, tracefs), and what our schedulers make of them.

use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use dumbwaiter_fidelity::call_by_call;
use dumbwaiter_fidelity::recording::{Recording, RowKind};
use dumbwaiter_linux::queue::Queue;
use dumbwaiter_linux::recording::{Method, Options, Summary, record};
use dumbwaiter_linux::settings::Settings;
use dumbwaiter_linux::target::PathFacts;
use dumbwaiter_linux::{Roots, cgroup};
use dumbwaiter_schedulers::Choice;
use dumbwaiter_testkit::{LoopDevice, StopOnDrop};
use dumbwaiter_traces as traces;

const MIB: u64 = 1 << 20;
/// One trace instance a process.
static ONE: Mutex<()> = Mutex::new(());

/// A device with few tags, so that requests wait in the scheduler.
struct Shallow {
    path: PathBuf,
    settings: Settings,
    _device: Option<LoopDevice>,
}

/// A loop device, or the one that the environment names (its content is lost): where the kernel has kprobes, but no
/// loop devices.
fn shallow(scheduler: &str) -> Option<Shallow> {
    if !Path::new("/sys/kernel/tracing/instances").is_dir() {
        eprintln!("skipped: no tracefs, or not root");
        return None;
    }
    let given = std::env::var_os("DUMBWAITER_SCRATCH_DEVICE").map(PathBuf::from);
    let device = if given.is_none() { Some(LoopDevice::new(Path::new("/dev/shm"), 64 * MIB)?) } else { None };
    let path = given.or_else(|| device.as_ref().map(|d| d.path().to_owned()))?;
    let queue = Queue::of(&path).unwrap().unwrap();
    if let Some(device) = &device {
        // Settings would give the driver its tags back below a scheduler.
        std::fs::write(device.sysfs().join("queue/nr_requests"), "4").unwrap();
    }
    let mut settings = Settings::new(&queue).unwrap();
    settings.set("scheduler", scheduler).unwrap();
    if device.is_none() {
        settings.set("nr_requests", "128").unwrap();
    }
    Some(Shallow { path, settings, _device: device })
}

/// Memory as direct I/O wants it.
#[repr(align(4096))]
struct Block([u8; 4096]);

/// Threads that read and write at random places, each one I/O at a time.
fn load(path: &Path, threads: u64, each: u64) {
    std::thread::scope(|scope| {
        for t in 0..threads {
            scope.spawn(move || {
                let mut open = std::fs::OpenOptions::new();
                let file = open.read(true).write(true).custom_flags(libc::O_DIRECT).open(path).unwrap();
                let mut block = Box::new(Block([t as u8; 4096]));
                let mut state = t.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
                for _ in 0..each {
                    // xorshift
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    let at = state % (64 * MIB / 4096) * 4096;
                    if t % 4 == 3 {
                        file.write_all_at(&block.0, at).unwrap();
                    } else {
                        file.read_exact_at(&mut block.0, at).unwrap();
                    }
                }
            });
        }
    });
}

fn recorded(device: &Shallow, options: &Options, work: impl FnOnce() + Send) -> Summary {
    let target = PathFacts::of(&device.path).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let began = || {
            scope.spawn(|| {
                let _stopping = StopOnDrop(&stop);
                work();
            });
        };
        record(&target, options, &stop, began).unwrap()
    })
}

fn no_instance_is_left() {
    let instance = format!("/sys/kernel/tracing/instances/dumbwaiter-{}", std::process::id());
    assert!(!Path::new(&instance).exists());
}

#[test]
fn a_trace_holds_every_io_with_its_times() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let Some(device) = shallow("mq-deadline") else { return };
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("load.dwt");
    let options = Options { output: output.clone(), ..Options::default() };
    let summary = recorded(&device, &options, || load(&device.path, 8, 50));
    println!("{summary:?}");
    no_instance_is_left();
    assert_eq!(summary.lost, 0);
    let mut reader = traces::open(&[output.as_path()], &traces::Options::default()).unwrap();
    let (mut reads, mut writes, mut measured) = (0, 0, 0);
    while let Some(r) = reader.next_record().unwrap() {
        if r.sectors == 8 {
            reads += u64::from(r.op == dumbwaiter_block::Op::Read);
            writes += u64::from(r.op == dumbwaiter_block::Op::Write);
            measured += u64::from(r.latency.is_some());
        }
    }
    // Opening and closing a device may read a little more.
    assert!(reads >= 300 && writes == 100, "{reads} reads, {writes} writes");
    assert!(measured >= 390, "{measured} of 400 with times");
}

/// Records a load under a scheduler until ours agrees with more than the `least` part of its calls. Four times at most: the
/// clocks of two processors may disagree for a moment, an interrupt may overtake a call, another process may read a new
/// device. `false` where nothing can be recorded.
fn agrees(scheduler: &str, least: impl Fn(&Summary) -> f64) -> bool {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let Some(device) = shallow(scheduler) else { return false };
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("load.csv.zst");
    let options = Options { output: output.clone(), dispatch: true, ..Options::default() };
    let agreed = (0..4).any(|_| {
        let summary = recorded(&device, &options, || load(&device.path, 24, 100));
        println!("{summary:?}");
        no_instance_is_left();
        assert_eq!(summary.lost, 0);
        // Neighbours may have been merged.
        if summary.unmatched + summary.unfinished > 0 || !(2300..=2400).contains(&summary.requests) {
            return false;
        }
        let recording = Recording::open(&output).unwrap();
        assert_eq!(recording.scheduler, scheduler);
        let dispatches = recording.rows.iter().filter(|r| r.kind == RowKind::Dispatch).count() as u64;
        assert_eq!(dispatches, summary.requests);
        let choice = Choice::parse(scheduler).unwrap();
        let found = call_by_call(&recording, &|setup| choice.scheduler(setup), None);
        println!("{scheduler}: {} of {} calls agree", found.same + found.none_same, found.calls());
        found.agreement() > least(&summary)
    });
    assert!(agreed, "{scheduler}: see what is printed above");
    true
}

#[test]
fn mq_deadline_agrees_with_a_recording_of_the_running_kernel() {
    // Without probes a call's moment is inferred; with several CPUs dispatching at once that can be wrong.
    agrees("mq-deadline", |summary| if summary.method == Some(Method::Probes) { 0.99 } else { 0.75 });
}

#[test]
fn kyber_and_bfq_can_be_recorded() {
    // Their answers depend on time, which a busy machine stretches.
    let _ = agrees("kyber", |_| 0.0) && agrees("bfq", |_| 0.0);
}

/// Buffered writes beside direct reads, for a while.
fn written_back(path: &Path) {
    let begun = std::time::Instant::now();
    let mut open = std::fs::OpenOptions::new();
    let writer = open.write(true).open(path).unwrap();
    let reader = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path).unwrap();
    let (data, mut block) = (vec![1u8; 64 << 10], Box::new(Block([0; 4096])));
    for at in (0..32 * MIB).step_by(64 << 10).cycle() {
        if begun.elapsed() > std::time::Duration::from_millis(1500) {
            break;
        }
        // Each page is an I/O of its own, and all of them are recorded.
        std::thread::sleep(std::time::Duration::from_millis(2));
        writer.write_all_at(&data, at).unwrap();
        writer.sync_data().unwrap();
        reader.read_exact_at(&mut block.0, at + 32 * MIB).unwrap();
    }
}

#[test]
fn write_back_throttling_is_recorded_and_replayed_beside_the_scheduler() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let Some(mut device) = shallow("mq-deadline") else { return };
    if !Path::new("/sys/kernel/tracing/events/wbt").is_dir() || device.settings.set("wbt_lat_usec", "2001").is_err() {
        eprintln!("skipped: this kernel has no write-back throttling, or no tracepoints of it");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("wbt.csv.zst");
    let options = Options { output: output.clone(), dispatch: true, ..Options::default() };
    let summary = recorded(&device, &options, || written_back(&device.path));
    println!("{summary:?}");
    no_instance_is_left();
    assert!(summary.controllers.contains(&"wbt"), "{:?}", summary.controllers);
    let found = dumbwaiter_fidelity::scores(&[output], None, None).unwrap();
    assert_eq!(found.summary.len(), 1, "the scheduler has a score too");
    let wbt = found.controllers.iter().find(|of| of.controller == "wbt").unwrap();
    println!("{wbt:?}");
    // Where two CPUs work at once, a row may be on the other side of a window's end.
    assert!(wbt.verdicts >= 5 && 2 * wbt.agreed >= wbt.verdicts, "{wbt:?}");
}

/// A process that reads in a control group.
fn reader(path: &Path, skip: u32) -> std::process::Child {
    // It waits for a line, so that it is in its group before it reads.
    let script =
        format!("read go; exec dd if={} of=/dev/null bs=4k count=1500 skip={skip} iflag=direct", path.display());
    let mut shell = std::process::Command::new("sh");
    let shell = shell.arg("-c").arg(script).stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    shell.spawn().unwrap()
}

#[test]
fn control_groups_are_recorded_with_their_weights_and_changes() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let Some(device) = shallow("bfq") else { return };
    let (Some(hierarchy), about) = cgroup::detect(&Roots::default()) else {
        eprintln!("skipped: no cgroups");
        return;
    };
    let Ok(mut groups) = cgroup::Groups::new(&hierarchy) else {
        eprintln!("skipped: {about}");
        return;
    };
    let (light, heavy) = (groups.add("light", 100, None).unwrap(), groups.add("heavy", 300, None).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("groups.csv");
    let options = Options { output: output.clone(), dispatch: true, ..Options::default() };
    let mut readers = [reader(&device.path, 0), reader(&device.path, 8000)];
    groups.move_process(light, readers[0].id()).unwrap();
    groups.move_process(heavy, readers[1].id()).unwrap();
    recorded(&device, &options, || {
        for reader in &mut readers {
            std::io::Write::write_all(reader.stdin.as_mut().unwrap(), b"go\n").unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(60));
        groups.weigh(light, 500).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(60));
        readers.iter_mut().for_each(|reader| assert!(reader.wait().unwrap().success()));
    });
    let recording = Recording::open(&output).unwrap();
    let of = |name: &str| recording.groups.iter().find(|group| group.path.ends_with(name)).unwrap();
    assert_eq!((of("/light").weight, of("/heavy").weight), (100, 300));
    for (name, reader) in ["/light", "/heavy"].iter().zip(&readers) {
        assert_eq!(of(name).pids, [i32::try_from(reader.id()).unwrap()]);
    }
    let changes: Vec<RowKind> = recording.rows.iter().map(|row| row.kind).collect();
    let index = recording.groups.iter().position(|group| group.path.ends_with("/light")).unwrap() as u32;
    assert!(changes.contains(&RowKind::GroupWeight { group: index, weight: 500 }));
    let choice = Choice::parse("bfq").unwrap();
    let found = call_by_call(&recording, &|setup| choice.scheduler(setup), None);
    println!("{} of {} calls agree", found.same + found.none_same, found.calls());
}
