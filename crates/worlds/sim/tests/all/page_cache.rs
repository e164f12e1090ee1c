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

#[test]
fn fsync_is_the_io_of_its_caller_and_all_other_writes_the_flushers() {
    let toml = r#"
        warmup = "5s"
        duration = "5s"
        [host]
        page_cache = "512MiB"
        [[task]]
        name = "small"
        rw = "write"
        bs = "4k"
        direct = false
        ioengine = "psync"
        offset = "10%"
        size = "20%"
        [[task]]
        name = "large"
        rw = "write"
        bs = "1m"
        direct = false
        ioengine = "psync"
        offset = "40%"
        size = "20%"
        [[task]]
        name = "commits"
        rw = "randwrite"
        bs = "4k"
        direct = false
        fsync = 4
        thinktime = "2ms"
        offset = "70%"
        size = "1%"
    "#;
    let r = run(toml, "ssd:850pro-256", "mq-deadline");
    let of = |name: &str| r.tasks.iter().find(|t| t.name == name).unwrap();
    assert_eq!((of("small").count, of("large").count), (0, 0), "the flusher writes for them");
    // Four pages and a flush each, behind a full queue.
    assert!(of("commits").count > 50, "{}", of("commits").count);
    assert!(of("flusher").mb_per_s > 100.0, "{}", of("flusher").mb_per_s);
}

#[test]
fn what_one_reader_has_read_another_finds_in_memory() {
    let readers = r#"
        [host]
        page_cache = "512MiB"
        [[task]]
        name = "first"
        rw = "read"
        bs = "64k"
        direct = false
        ioengine = "psync"
        size = "64MiB"
        io_size = "64MiB"
        [[task]]
        name = "second"
        rw = "read"
        bs = "64k"
        direct = false
        ioengine = "psync"
        size = "64MiB"
        io_size = "64MiB"
        stage = 1
        [[task]]
        name = "beside"
        rw = "read"
        bs = "64k"
        direct = false
        ioengine = "psync"
        offset = "50%"
        size = "64MiB"
        io_size = "64MiB"
        stage = 2
        count = 2
    "#;
    let r = run(readers, "hdd:st1000dm003", "mq-deadline");
    let mib = |name: &str| {
        let task = r.tasks.iter().find(|t| t.name == name).unwrap();
        task.mb_per_s * r.duration_s * 1e6 / f64::from(1 << 20)
    };
    assert!((mib("first") - 64.0).abs() < 0.2, "{}", mib("first"));
    assert_eq!(mib("second"), 0.0);
    let beside = mib("beside.0") + mib("beside.1");
    assert!((beside - 64.0).abs() < 0.5, "each page is read once: {beside}");
}
