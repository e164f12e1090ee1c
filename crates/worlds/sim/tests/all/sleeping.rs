//! Tasks that find no request sleep in the call that submits: who gets what then, and for how long each waits.

use dumbwaiter_experiment::Control;
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::Scenario;
use dumbwaiter_schedulers::{Choice, REGISTRY};
use dumbwaiter_sim::Prepared;

fn run(scheduler: &str, depth: u32, nr_requests: u32, tasks: &str) -> RunResult {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("device.toml");
    let text = format!(
        "kind = \"null\"\ndescription = \"fixed service time\"\nlatency_ns = 1600000 # x\nt_err_ns = 0 # x\ndepth = {depth} # x\nqueues = 1 # x\ncapacity_sectors = 16777216 # x\nmax_sectors = 254 # x\n"
    );
    std::fs::write(&device, text).unwrap();
    let toml = format!("duration = \"6s\"\nnr_requests = {nr_requests}\n[host]\ncpus = 1\n{tasks}");
    let mut scenario = Scenario::from_toml(&toml, "test").unwrap();
    // As recordings of a kernel show it.
    scenario.host.kernel_latency = true;
    scenario.validate(&|_| Ok(()), &|_| Ok(())).unwrap();
    let model = dumbwaiter_devices::load(device.to_str().unwrap()).unwrap();
    let choice = Choice::parse(scheduler).unwrap();
    Prepared::new(&scenario).unwrap().run(&model, &choice, 0, &Control::default()).unwrap().run
}

fn task(name: &str, rw: &str, engine: &str, iodepth: u32) -> String {
    format!(
        "[[task]]\nname = \"{name}\"\nrw = \"{rw}\"\nbs = \"4k\"\nioengine = \"{engine}\"\niodepth = {iodepth}\nnorandommap = true\n"
    )
}

/// The worked example of the kernel: under `none` on a device of depth 4 each of six processes gets as many I/Os as the others,
/// whatever its depth; each has one I/O that waits, so the mean latency is (6 + 4) / IOPS.
#[test]
fn libaio_processes_share_the_tags_equally_whatever_their_depth() {
    let tasks: String = [24, 5, 8, 6, 12, 24]
        .iter()
        .enumerate()
        .map(|(n, depth)| task(&format!("t{n}"), "randread", "libaio", *depth))
        .collect();
    let result = run("none", 4, 4, &tasks);
    let most = result.tasks.iter().map(|t| t.iops).fold(0.0, f64::max);
    let least = result.tasks.iter().map(|t| t.iops).fold(f64::INFINITY, f64::min);
    assert!(least > 0.8 * most, "{:?}", result.tasks.iter().map(|t| t.iops).collect::<Vec<_>>());
    let expected_us = 10.0 / result.iops * 1e6;
    assert!((result.latency_us.mean / expected_us - 1.0).abs() < 0.03, "{} {expected_us}", result.latency_us.mean);
}

/// A ring goes on: as many I/Os wait as it has worker threads, and the rest for a worker.
#[test]
fn a_ring_keeps_its_whole_depth_under_way() {
    let result = run("none", 4, 4, &task("ring", "randread", "io_uring", 64));
    let expected_us = 64.0 / result.iops * 1e6;
    assert!((result.latency_us.mean / expected_us - 1.0).abs() < 0.05, "{} {expected_us}", result.latency_us.mean);
    // 4 in the device and a worker's I/O each for 4 x 1 CPUs.
    let waiting = result.depth.scheduler.max;
    assert_eq!(waiting, 4);
}

/// mq-deadline limits writes, so writers sleep while readers go on.
#[test]
fn async_depth_keeps_writers_few_and_readers_going() {
    let tasks = [
        task("w0", "randwrite", "libaio", 32),
        task("w1", "randwrite", "libaio", 64),
        task("r0", "randread", "libaio", 48),
        task("r1", "randread", "libaio", 48),
    ]
    .concat();
    let result = run("mq-deadline:async_depth=4", 2, 256, &tasks);
    let iops = |n: usize| result.tasks[n].iops;
    assert!(iops(0) > 0.0 && iops(1) > 0.0 && iops(2) + iops(3) > iops(0) + iops(1));
    // 96 reads and 4 writes, of which 2 are in the device, and the I/Os of the sleeping writers.
    let waiting = result.depth.scheduler.max;
    assert!((98..=100).contains(&waiting), "{waiting}");
}

/// A task that is woken runs the queue before it tries for a tag, so that lower classes do not wait for a tick once a higher one has
/// nothing left: the device is hardly ever idle.
#[test]
fn woken_tasks_run_the_queue() {
    let tasks: String = [("be/0", 50), ("be/4", 90), ("be/7", 90), ("idle", 20), ("idle", 70), ("idle", 90)]
        .iter()
        .enumerate()
        .map(|(n, (ioprio, reads))| {
            task(&format!("t{n}"), "randrw", "libaio", 16) + &format!("ioprio = \"{ioprio}\"\nrwmixread = {reads}\n")
        })
        .collect();
    let result = run("mq-deadline:async_depth=2", 1, 256, &tasks);
    let busy = result.iops * 1.6e-3;
    println!("busy {busy}");
    assert!(busy > 0.98, "{busy}");
}

/// With tags short, every scheduler and way of submitting serves every task, loses nothing and repeats itself.
#[test]
fn no_task_sleeps_for_ever_and_one_seed_gives_one_result() {
    let tasks = [
        task("aio", "randrw", "libaio", 16),
        task("batch", "read", "libaio", 16) + "iodepth_batch = 8\n",
        task("ring", "randread", "io_uring", 16),
        task("sync", "randwrite", "psync", 1) + "count = 3\n",
    ]
    .concat();
    for entry in REGISTRY {
        let result = run(entry.name, 1, 4, &tasks);
        for task in &result.tasks {
            assert!(task.iops > 0.0, "{}: {} got nothing", entry.name, task.name);
        }
        assert_eq!(result.requests, result.warmup_completed + result.completed + result.unfinished);
        let device = result.device.clone();
        let again = RunResult { device, ..run(entry.name, 1, 4, &tasks) };
        let [first, second] = [&result, &again].map(|result| serde_json::to_string(result).unwrap());
        assert!(first == second, "{}", entry.name);
    }
}

/// Readers that sleep for one of 32 tags are served in turn, roughly: none waits many times longer than if all waited equally long. A
/// rhythm of tags and wake-ups once left three of 37 without a single read.
#[test]
fn no_count_of_readers_leaves_one_behind() {
    let model = dumbwaiter_devices::load("hdd:st1000dm003").unwrap();
    let mut behind = Vec::new();
    let counts = (1..=80u32).chain([96, 100, 127, 128, 160, 200, 255, 300]);
    for count in counts {
        let seconds = 4 + count / 3;
        for engine in ["psync", "libaio", "io_uring"] {
            let depth: u32 = if engine == "psync" { 1 } else { 2 };
            if depth == 2 && count % 7 != 2 {
                continue;
            }
            let toml = format!(
                "duration = \"{seconds}s\"\n[[task]]\nname = \"r\"\ncount = {}\nrw = \"randread\"\nbs = \"4k\"\nioengine = \"{engine}\"\niodepth = {depth}\n",
                (count / depth).max(1)
            );
            let scenario = Scenario::from_toml(&toml, "test").unwrap();
            let choice = Choice::parse("none").unwrap();
            let prepared = Prepared::new(&scenario).unwrap();
            let result = prepared.run(&model, &choice, 0, &Control::default()).unwrap().run;
            let fair_s = f64::from(count) / result.iops;
            let worst_s = result.tasks.iter().map(|t| t.latency_us.max).fold(0.0, f64::max) / 1e6;
            let worst_s = worst_s.max(result.oldest_unfinished_s);
            // The drive itself takes what is near first: with 20 readers, who need no tag, the longest wait is ten times the mean.
            if worst_s > 30.0 * fair_s + 0.1 {
                behind.push(format!("{count} by {engine}: {worst_s:.2} s, equal shares wait {fair_s:.2} s"));
            }
        }
    }
    assert!(behind.is_empty(), "{behind:#?}");
}
