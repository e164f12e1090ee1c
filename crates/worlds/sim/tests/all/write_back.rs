//! A buffered writer beside a reader, on a device that takes 128 requests of up to 64 KiB and serves one after another. The figures
//! to meet are those of recordings of Linux 6.12.117, from 0.5 s to 3.9 s. There a request alone took 1.04 ms: 1 ms in the device, and
//! the loop device before it.

use dumbwaiter_experiment::Control;
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::Scenario;
use dumbwaiter_schedulers::Choice;
use dumbwaiter_sim::Prepared;

const SERIAL: &str = r#"
kind = "volume"
description = "one at a time"
capacity_sectors = 67108864 # x
latency_read_us = 1040 # x
latency_write_us = 1040 # x
jitter = 0 # x
link_mb_per_s = 1000000 # x
io_kib = 64 # x
iops = 961.54 # x
burst_iops = 961.54 # x
burst_ios = 0 # x
mb_per_s = 1000000 # x
burst_mb_per_s = 1000000 # x
burst_mb = 0 # x
t_err_us = 5 # x
queues = 1 # x
queue_depth = 128 # x
max_sectors = 128 # x
"#;

const WRITER: &str = r#"
warmup = "500ms"
duration = "3400ms"
[host]
profile = "free"
page_cache = "1GiB"
dirty_bytes = "48MiB"
dirty_background_bytes = "16MiB"
[[task]]
name = "writer"
rw = "write"
bs = "64k"
direct = false
ioengine = "psync"
size = "8GiB"
"#;

/// A reader of this depth.
fn reader(depth: u32) -> String {
    format!("[[task]]\nname = \"reader\"\nrw = \"randread\"\niodepth = {depth}\nsize = \"8GiB\"\noffset = \"16GiB\"\n")
}

/// Runs the writer with other tasks.
fn run(tasks: &str, stack: &str) -> RunResult {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("serial.toml");
    std::fs::write(&device, SERIAL).unwrap();
    let scenario = Scenario::from_toml(&format!("{WRITER}{tasks}"), "test").unwrap();
    scenario.validate(&|_| Ok(()), &|_| Ok(())).unwrap();
    let model = dumbwaiter_devices::load(device.to_str().unwrap()).unwrap();
    let choice = Choice::parse_stack(stack).unwrap();
    Prepared::new(&scenario).unwrap().run(&model, &choice, 0, &Control::default()).unwrap().run
}

/// Reads a second, their mean latency in ms, and what is written in MB/s.
fn figures(result: &RunResult) -> [f64; 3] {
    let of = |name: &str| result.tasks.iter().find(|t| t.name == name);
    let reader = of("reader").map_or((0.0, 0.0), |reader| (reader.iops, reader.latency_us.mean / 1e3));
    [reader.0, reader.1, of("flusher").unwrap().mb_per_s]
}

fn assert_near(ours: [f64; 3], kernel: [f64; 3], tolerance: f64) {
    println!("{ours:.2?}, and the kernel {kernel:.2?}");
    let near = |(ours, kernel): (f64, f64)| (ours - kernel).abs() <= tolerance * kernel;
    assert!(ours.into_iter().zip(kernel).all(near), "reads/s, ms, MB/s: {ours:.2?}, and the kernel {kernel:.2?}");
}

#[test]
fn a_reader_waits_behind_a_buffered_writer_as_long_as_in_linux() {
    assert_near(figures(&run("", "mq-deadline+wbt=off")), [0.0, 0.0, 63.0], 0.05);
    assert_near(figures(&run(&reader(1), "mq-deadline+wbt=off")), [6.2, 150.0, 62.6], 0.15);
    assert_near(figures(&run(&reader(1), "kyber+wbt=off")), [7.1, 135.0, 62.2], 0.15);
}

/// Write-back throttling hears of the writer's pauses, so that it lets the flusher fill the limit and not a quarter of it.
#[test]
fn write_back_throttling_lets_the_reader_through_as_in_linux() {
    assert_near(figures(&run(&reader(1), "mq-deadline")), [481.0, 2.05, 31.9], 0.15);
    assert_near(figures(&run(&reader(8), "none")), [869.0, 9.15, 7.1], 0.15);
    // bfq switches it off, and looks after the reader itself.
    assert_near(figures(&run(&reader(1), "bfq")), [915.0, 1.05, 2.7], 0.15);
}
