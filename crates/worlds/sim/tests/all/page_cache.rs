//! Buffered jobs with a page cache before them, and programs that start beside them.

use dumbwaiter_experiment::Control;
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::Scenario;
use dumbwaiter_schedulers::{Choice, REGISTRY};
use dumbwaiter_sim::Prepared;

fn run(toml: &str, device: &str, scheduler: &str) -> RunResult {
    let scenario = Scenario::from_toml(toml, "test").unwrap();
    scenario.validate(&|_| Ok(()), &|_| Ok(())).unwrap();
    let model = dumbwaiter_devices::load(device).unwrap();
    let choice = Choice::parse(scheduler).unwrap();
    Prepared::new(&scenario).unwrap().run(&model, &choice, 0, &Control::default()).unwrap().run
}

const BUFFERED: &str = r#"
duration = "3s"
warmup = "1s"
[host]
page_cache = "128MiB"
[[task]]
name = "w"
app = "5r5w-seq"
size = "200MB"
[[task]]
name = "reader"
rw = "read"
bs = "4k"
direct = false
ioengine = "psync"
offset = "80%"
[[task]]
name = "commit"
rw = "randwrite"
bs = "4k"
direct = false
fsync = 8
thinktime = "10ms"
size = "1%"
[[task]]
name = "sync"
app = "sync"
[[task]]
name = "program"
app = "terminal-like"
think = "greedy"
log = true
launch_after = "200ms"
repeat = 1
timeout = "60s"
"#;

#[test]
fn buffered_jobs_run_under_every_scheduler_and_lose_nothing() {
    for entry in REGISTRY {
        let r = run(BUFFERED, "ssd:850pro-256", entry.name);
        let l = &r.ledger;
        assert!(l.submitted == l.completed && l.failed == 0, "{}: {l:?}", entry.name);
        let of = |name: &str| r.tasks.iter().find(|t| t.name == name).unwrap();
        assert!(of("reader").mb_per_s > 1.0, "{}", entry.name);
        // cfq serves no asynchronous write while these readers keep it busy.
        assert!(entry.name.ends_with("cfq") || of("flusher").count > 0, "{}", entry.name);
        let of_writer = of("w/writer.0");
        assert_eq!(of_writer.count, 0, "a buffered writer has no I/O of its own");
        let size = of("reader").mb_per_s * 1e6 / of("reader").iops;
        assert!(size > 120e3, "{}: read ahead in {size} bytes", entry.name);
        let start = r.applications[0].start_up.as_ref().unwrap();
        assert_eq!(start.count, 1, "{}", entry.name);
    }
}

#[test]
fn a_buffered_job_that_ends_is_written_and_ends_the_run() {
    let toml = r#"
        [host]
        page_cache = "64MiB"
        [[task]]
        name = "a"
        rw = "write"
        bs = "4k"
        direct = false
        size = "100MiB"
        io_size = "100MiB"
    "#;
    let r = run(toml, "ssd:850pro-256", "mq-deadline");
    let written = r.tasks.iter().find(|t| t.name == "flusher").unwrap().mb_per_s * r.duration_s;
    assert!((written - 104.8576).abs() < 0.01, "{written} MB");
    // The rest waits for its 30 s, and for the flusher's next look each 5 s.
    assert!((30.0..36.0).contains(&r.duration_s), "{}", r.duration_s);
}

#[test]
fn a_stage_begins_when_the_tasks_before_it_ended_whatever_is_left_to_write_back() {
    let toml = r#"
        duration = "2s"
        [host]
        page_cache = "128MiB"
        [[task]]
        name = "first"
        rw = "write"
        bs = "64k"
        direct = false
        size = "4MiB"
        io_size = "4MiB"
        [[task]]
        name = "second"
        rw = "write"
        bs = "64k"
        direct = false
        size = "64MiB"
        io_size = "64MiB"
        stage = 1
        [[task]]
        name = "third"
        rw = "randread"
        stage = 2
    "#;
    let r = run(toml, "ssd:850pro-256", "none");
    let count = |name: &str| r.tasks.iter().find(|t| t.name == name).unwrap().count;
    // 68 MiB are dirty, more than a tenth of the cache: only then does write-back begin within the 30 s of its delay.
    assert!(count("flusher") > 0, "the second stage writes");
    assert!(count("third") > 1000, "the third stage reads");
}

/// A device that takes 128 requests of up to 64 KiB and serves one after another, each in a millisecond.
const SERIAL: &str = r#"
kind = "volume"
description = "one at a time"
capacity_sectors = 67108864 # x
latency_read_us = 1000 # x
latency_write_us = 1000 # x
jitter = 0 # x
link_mb_per_s = 1000000 # x
io_kib = 64 # x
iops = 1000 # x
burst_iops = 1000 # x
burst_ios = 0 # x
mb_per_s = 1000000 # x
burst_mb_per_s = 1000000 # x
burst_mb = 0 # x
t_err_us = 5 # x
queues = 1 # x
queue_depth = 128 # x
max_sectors = 128 # x
"#;

/// Beside a buffered writer, a reader of depth 1 waits for the whole queue of a device of depth 128 (Linux 6.12.117 without
/// write-back throttling: 6.2 reads a second of 150 ms, 62.6 MB/s written).
#[test]
fn a_reader_waits_behind_a_buffered_writer_as_long_as_in_linux() {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("serial.toml");
    std::fs::write(&device, SERIAL).unwrap();
    let toml = |reader: &str| {
        format!(
            "warmup = \"500ms\"\nduration = \"3400ms\"\n[host]\npage_cache = \"1GiB\"\ndirty_bytes = \"48MiB\"\n\
             dirty_background_bytes = \"16MiB\"\n[[task]]\nname = \"writer\"\nrw = \"write\"\nbs = \"64k\"\ndirect = false\n\
             ioengine = \"psync\"\nsize = \"8GiB\"\n{reader}"
        )
    };
    let reader = "[[task]]\nname = \"reader\"\nrw = \"randread\"\nbs = \"4k\"\nsize = \"8GiB\"\noffset = \"16GiB\"\n";
    let near = |figure: f64, expected: f64| (figure / expected - 1.0).abs() <= 0.15;
    let both = run(&toml(reader), device.to_str().unwrap(), "mq-deadline");
    let of = |name: &str| both.tasks.iter().find(|t| t.name == name).unwrap();
    let (reads, latency_ms) = (of("reader").iops, of("reader").latency_us.mean / 1e3);
    let written = of("flusher").mb_per_s;
    println!("{reads} reads/s of {latency_ms} ms, {written} MB/s written");
    assert!(near(reads, 6.2) && near(latency_ms, 150.0), "{reads} reads/s of {latency_ms} ms");
    assert!(near(written, 62.6), "{written} MB/s");
    let alone = run(&toml(""), device.to_str().unwrap(), "mq-deadline");
    let written = alone.tasks.iter().find(|t| t.name == "flusher").unwrap().mb_per_s;
    println!("{written} MB/s written alone");
    assert!(near(written, 65.5), "{written} MB/s");
}
