//! The host: what one call of fio's rings takes, waiting for a CPU inside latency, the scheduler's lock.

use dumbwaiter_experiment::Control;
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::Scenario;
use dumbwaiter_schedulers::Choice;
use dumbwaiter_sim::Prepared;

/// Random 4 KiB reads on a drive that takes 20 us for each and any number of them, on the machine of the NVMe study.
fn run(scheduler: &str, cpus: u16, processes: u32, depth: u32, more: &str) -> RunResult {
    run_of(scheduler, cpus, (processes, 1), depth, &format!("bs = \"4k\"\n{more}"))
}

fn run_of(scheduler: &str, cpus: u16, (processes, drives): (u32, u32), depth: u32, more: &str) -> RunResult {
    let text = format!(
        "duration = \"20ms\"\nwarmup = \"10ms\"\ndrives = {drives}\n[host]\ncpus = {cpus}\nprofile = \"icpe24\"\n[[task]]\nname = \"t\"\ncount = {processes}\nrw = \"randread\"\niodepth = {depth}\nnrfiles = {drives}\nnorandommap = true\n{more}"
    );
    let scenario = Scenario::from_toml(&text, "test").unwrap();
    scenario.validate(&|_| Ok(()), &|_| Ok(())).unwrap();
    let model = dumbwaiter_devices::load("null:0us?latency_ns=20000").unwrap();
    let choice = Choice::parse(scheduler).unwrap();
    Prepared::new(&scenario).unwrap().run(&model, &choice, 0, &Control::default()).unwrap().run
}

fn per_io(result: &RunResult, counter: &str) -> f64 {
    result.host_counters[counter] / (result.iops * result.duration_s)
}

fn cpu_us(result: &RunResult) -> f64 {
    1e6 * per_io(result, "work_s")
}

/// Little's law: the queue is in the latency, whether the drive, the CPU or a lock is the limit.
#[test]
fn latency_lasts_until_the_application_sees_the_io() {
    for (scheduler, processes, depth, engine) in [
        ("none", 1, 128, "io_uring"),
        ("none", 1, 64, "libaio"),
        ("mq-deadline", 10, 32, "io_uring"),
        ("none", 64, 1, "psync"),
    ] {
        let cpus = if depth == 1 { 1 } else { 10 };
        let result = run(scheduler, cpus, processes, depth, &format!("ioengine = \"{engine}\"\n"));
        let in_flight = result.latency_us.mean * result.iops / 1e6;
        let part = in_flight / f64::from(processes * depth);
        // What the application does between its I/Os is in no latency.
        assert!((0.95..=1.01).contains(&part), "{scheduler} {processes} x {depth} by {engine}: {part}");
    }
}

/// fio's defaults: one I/O a call at any depth, and a sleep for each only at depth 1.
#[test]
fn rings_make_a_call_for_each_io_unless_they_are_told_otherwise() {
    let (single, deep) = (run("none", 1, 1, 1, ""), run("none", 1, 1, 128, ""));
    assert!((per_io(&single, "switches") - 1.0).abs() < 0.01, "{}", per_io(&single, "switches"));
    assert!(per_io(&deep, "switches") < 0.01);
    assert!((cpu_us(&deep) - 2.68).abs() < 0.1, "{}", cpu_us(&deep));
    let batched = run("none", 1, 1, 128, "iodepth_batch = 16\niodepth_batch_complete_min = 16\n");
    assert!(cpu_us(&batched) < cpu_us(&deep) - 0.3, "{} {}", cpu_us(&batched), cpu_us(&deep));
}

/// `icpe24`: 28 ns for each KiB of a read beyond 4, 150 ns for another drive than the last.
#[test]
fn large_reads_and_other_drives_cost_cpu_time() {
    let of = |bs: &str, drives: u32| cpu_us(&run_of("none", 1, (1, drives), 128, &format!("bs = \"{bs}\"\n")));
    let (small, half) = (of("4k", 1), of("2k", 1));
    assert!((small - half).abs() < 0.01, "{small} {half}");
    assert!((of("64k", 1) - small - 1.68).abs() < 0.1, "{} {small}", of("64k", 1));
    assert!((of("4k", 4) - small - 0.15).abs() < 0.03, "{} {small}", of("4k", 4));
}

/// The thread that has used least CPU time runs next, so a turn that interrupts made long is paid back by all others' turns: the tail
/// is near twice the mean, not equal to it as first come, first served would have it.
#[test]
fn long_turns_are_paid_back() {
    let result = run("none", 1, 64, 1, "ioengine = \"psync\"\n");
    let tail = result.latency_us.p99 / result.latency_us.mean;
    assert!((1.3..2.6).contains(&tail), "{tail}");
    assert!((per_io(&result, "switches") - 1.0).abs() < 0.05);
    // Many threads cool each other's caches.
    assert!(cpu_us(&result) > cpu_us(&run("none", 1, 16, 1, "ioengine = \"psync\"\n")) + 0.5);
}

#[test]
fn a_lock_limits_what_more_cores_do() {
    let of = |scheduler, cores: u16| run(scheduler, 10, u32::from(cores), 32, "");
    for (scheduler, takes) in [("mq-deadline", 3.0), ("bfq", 5.0)] {
        let results = [1, 2, 3, 10].map(|cores| of(scheduler, cores));
        assert!((per_io(&results[0], "lock_takes") - takes).abs() < 0.05, "{}", per_io(&results[0], "lock_takes"));
        assert_eq!(results[0].host_counters["lock_wait_s"], 0.0);
        assert!(results[1].iops > 1.2 * results[0].iops, "{scheduler}: two cores");
        assert!(results[3].iops < 1.15 * results[2].iops, "{scheduler}: ten cores do no more than three");
        let waits = results[3].host_counters["lock_wait_s"] / results[3].host_counters["work_s"];
        assert!((0.6..0.85).contains(&waits), "{scheduler}: {waits}");
    }
    for scheduler in ["none", "kyber"] {
        assert!(of(scheduler, 4).iops > 3.5 * of(scheduler, 1).iops, "{scheduler}");
    }
}

/// More threads than CPUs that never sleep: each I/O of a thread that lost its CPU waits for a time slice.
#[test]
fn a_time_slice_is_in_the_tail_where_threads_never_sleep() {
    let scenario = |processes: u32| {
        let toml = format!(
            "duration = \"300ms\"\nwarmup = \"50ms\"\n[host]\ncpus = 2\nprofile = \"icpe24\"\n[[task]]\nname = \"t\"\ncount = {processes}\nrw = \"randread\"\nbs = \"4k\"\niodepth = 128\nnorandommap = true\n"
        );
        let scenario = Scenario::from_toml(&toml, "test").unwrap();
        let model = dumbwaiter_devices::load("null:0us?latency_ns=20000").unwrap();
        let choice = Choice::parse("none").unwrap();
        Prepared::new(&scenario).unwrap().run(&model, &choice, 0, &Control::default()).unwrap().run
    };
    let (two, three) = (scenario(2), scenario(3));
    assert!(two.latency_us.p99 < 1_000.0, "{}", two.latency_us.p99);
    // Two of the three share a CPU: slices of 6 ms with two CPUs, ended at a tick of 4 ms.
    let slowest = three.tasks.iter().map(|t| t.latency_us.max).fold(0.0, f64::max);
    assert!((6_000.0..21_000.0).contains(&slowest), "{slowest}");
    let least = three.tasks.iter().map(|t| t.iops).fold(f64::INFINITY, f64::min);
    assert!(least > 0.2 * three.iops, "two share a CPU in equal parts: {least} of {}", three.iops);
}

/// Readers that sleep for each I/O, under `[host] affinity`: their I/Os per second.
fn rates(affinity: &str, cpu: &str) -> Vec<f64> {
    let text = format!(
        "duration = \"50ms\"\nwarmup = \"10ms\"\n[host]\ncpus = 2\naffinity = \"{affinity}\"\nprofile = \"icpe24\"\n[[task]]\nname = \"t\"\n\
         count = 3\nrw = \"randread\"\nbs = \"4k\"\nioengine = \"psync\"\n{cpu}\n"
    );
    let scenario = Scenario::from_toml(&text, "test").unwrap();
    let model = dumbwaiter_devices::load("null:0us?latency_ns=500").unwrap();
    let choice = Choice::parse("none").unwrap();
    let run = Prepared::new(&scenario).unwrap().run(&model, &choice, 0, &Control::default()).unwrap().run;
    run.tasks.iter().map(|task| task.iops).collect()
}

/// Three readers on two CPUs: two share one, unless they go to the other where that is idle.
#[test]
fn a_task_that_is_not_pinned_goes_on_on_an_idle_cpu() {
    let pinned = rates("pinned", "");
    assert!(pinned[1] > 1.1 * pinned[0] && pinned[1] > 1.1 * pinned[2], "{pinned:?}");
    let free = rates("free", "");
    let (least, most) = (free.iter().copied().fold(f64::MAX, f64::min), free.iter().copied().fold(0.0, f64::max));
    assert!(most < 1.05 * least, "{free:?}");
    assert_eq!(rates("free", "cpu = [0, 1]"), pinned, "who was given a CPU stays there");
}

/// A ring of depth 64 where each of four hardware queues has 4 requests: its own are all that its workers get, unless they run on other
/// CPUs too.
#[test]
fn the_workers_of_a_ring_that_is_not_pinned_use_the_queues_of_other_cpus() {
    let depth = |affinity: &str| {
        let text = format!(
            "duration = \"50ms\"\nwarmup = \"10ms\"\nnr_requests = 4\n[host]\ncpus = 4\naffinity = \"{affinity}\"\n[[task]]\nname = \"t\"\n\
             rw = \"randread\"\nbs = \"4k\"\nioengine = \"io_uring\"\niodepth = 64\n"
        );
        let scenario = Scenario::from_toml(&text, "test").unwrap();
        let model = dumbwaiter_devices::load("null:0us?latency_ns=200000").unwrap();
        let choice = Choice::parse("mq-deadline").unwrap();
        let run = Prepared::new(&scenario).unwrap().run(&model, &choice, 0, &Control::default()).unwrap().run;
        run.device_counters["max_depth"]
    };
    assert_eq!(depth("pinned"), 4.0);
    assert_eq!(depth("free"), 16.0);
}
