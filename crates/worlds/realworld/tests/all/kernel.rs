//! The kernel's schedulers on a loop device, with workers that are a shell script.

use std::path::Path;
use std::sync::Arc;

use dumbwaiter_experiment::{CellResult, Control, Failure, FailureKind, Stack, World};
use dumbwaiter_realworld::worker::{WorkerAnswer, WorkerReport};
use dumbwaiter_realworld::{DeviceUnderTest, Kernel, KernelOptions, WorkerProgram};
use dumbwaiter_scenario::load::Prepared;
use dumbwaiter_testkit::LoopDevice;

use crate::{READS, cell, folder, load, options};

/// Follows the protocol of workers, but does no I/O: its log is empty.
const OBEDIENT: &str = r#"
read -r job
log=$(printf '%s' "$job" | sed 's/.*"log":"\([^"]*\)".*/\1/')
: > "$log"
echo ready
read -r start
printf '%s\n' "$1"
"#;

fn shell(script: &str) -> KernelOptions {
    let report = WorkerReport { submitted: 9, end_ns: 1_000_000_000, ..WorkerReport::default() };
    let answer = serde_json::to_string(&WorkerAnswer::Report(report)).unwrap();
    let args = ["-c", script, "worker", &answer].map(Into::into).to_vec();
    KernelOptions::new(WorkerProgram { path: "/bin/sh".into(), args })
}

fn scheduler_of(disk: &LoopDevice) -> String {
    std::fs::read_to_string(disk.sysfs().join("queue/scheduler")).unwrap()
}

/// Runs the load under each scheduler of the device, by workers of `script`.
fn run(path: &Path, script: &str, load: &Arc<Prepared>) -> Vec<Result<CellResult, Failure>> {
    let device = DeviceUnderTest::open(path, options()).unwrap();
    let kernel = Kernel::new(&device, shell(script)).unwrap();
    let control = Control::default();
    let cells: Vec<_> = kernel.schedulers().iter().map(|name| cell(load, Stack::Kernel, name)).collect();
    assert!(!cells.is_empty() && cells.iter().all(|cell| kernel.supports(cell).is_ok()));
    let results: Vec<_> = cells.iter().map(|cell| kernel.run(cell, &control)).collect();
    assert_eq!(kernel.conclude(&mut [], &control).unwrap(), Vec::<String>::new());
    results
}

#[test]
fn any_program_that_keeps_the_protocol_is_a_worker_and_the_scheduler_is_put_back() {
    let dir = folder();
    let Some(disk) = LoopDevice::new(dir.path(), 8 << 20) else { return };
    let before = scheduler_of(&disk);
    let results = run(disk.path(), OBEDIENT, &load(READS));
    for result in results {
        let result = result.unwrap();
        assert_eq!((result.run.ledger.submitted, result.run.completed, result.run.via.as_str()), (9, 0, "kernel"));
        assert!(result.run.depth.device.mean.is_nan(), "only the kernel knows");
    }
    assert_eq!(scheduler_of(&disk), before);
}

#[test]
fn a_worker_that_fails_is_an_error_of_its_kind() {
    let dir = folder();
    let Some(disk) = LoopDevice::new(dir.path(), 8 << 20) else { return };
    let load = load(READS);
    for (script, kind, reason) in [
        (r#"read -r job; echo '{"refused":"too small a block"}'"#, FailureKind::Refused, "too small a block"),
        (r#"read -r job; echo ready; echo '{"failed":"no medium"}'"#, FailureKind::Device, "no medium"),
        (r#"read -r job; echo "no such library" >&2; exit 7"#, FailureKind::Device, "no such library"),
        (r#"read -r job; echo ready; exit 7"#, FailureKind::Device, "exit status: 7"),
    ] {
        for result in run(disk.path(), script, &load) {
            let failure = result.err().unwrap();
            assert!(failure.kind == kind && failure.reason.contains(reason), "{script}: {failure}");
        }
    }
}

#[test]
fn what_processes_cannot_run_is_refused_before() {
    let dir = folder();
    let Some(disk) = LoopDevice::new(dir.path(), 8 << 20) else { return };
    let device = DeviceUnderTest::open(disk.path(), options()).unwrap();
    let kernel = Kernel::new(&device, shell(OBEDIENT)).unwrap();
    let refused =
        |text: &str, scheduler: &str| kernel.supports(&cell(&load(text), Stack::Kernel, scheduler)).unwrap_err().0;
    assert!(refused(READS, "headway").contains("no scheduler \"headway\" in this kernel"));
    assert!(refused(&READS.replace("randread", "randwrite"), "none").contains("--destroy"));
    let two = "[[tenant]]\nname = \"b\"\n[[tenant.task]]\nname = \"t\"\nrw = \"randread\"\n";
    let limited = format!("limit = 10\nduration = \"1s\"\n{READS}{two}");
    assert!(refused(&limited, "none").contains("a limit of 10 I/Os"));
    let staged = format!("duration = \"1s\"\n{READS}{two}stage = 1\n");
    assert!(refused(&staged, "none").contains("stages cannot be run"));
    let limited = READS.replace("[[tenant]]", "[[tenant]]\nlimit_iops = 9");
    assert!(refused(&limited, "none").contains("the kernel has none of these"));
    // A kernel or a version of cgroups without it says so.
    let with_target = READS.replace("[[tenant]]", "[[tenant]]\nio_latency = \"5ms\"");
    if let Err(why) = kernel.supports(&cell(&load(&with_target), Stack::Kernel, "none")) {
        assert!(why.0.contains("io.latency"), "{}", why.0);
    }
    let again = DeviceUnderTest::open(disk.path(), options()).unwrap();
    let second = Kernel::new(&again, shell(OBEDIENT)).err().unwrap();
    assert!(second.reason.contains("is being measured by process"), "{second}");
}
