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
    let scenario = Scenario::from_toml(&toml, "test").unwrap();
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
            // cfq does not idle here, so each arrival preempts the queue that just sent its only request and goes first; with four
            // slots, one writer waits behind such arrivals for the whole run. Its manual says so.
            assert!(task.iops > 0.0 || entry.name == "cfq", "{}: {} got nothing", entry.name, task.name);
        }
        assert_eq!(result.requests, result.warmup_completed + result.completed + result.unfinished);
        let device = result.device.clone();
        let again = RunResult { device, ..run(entry.name, 1, 4, &tasks) };
        let [first, second] = [&result, &again].map(|result| serde_json::to_string(result).unwrap());
        assert!(first == second, "{}", entry.name);
    }
}
