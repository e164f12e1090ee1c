//! Several drives behind one host: each has a scheduler, tags and a lock of its own, and jobs go over them in turn.

use dumbwaiter_experiment::Control;
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::Scenario;
use dumbwaiter_schedulers::Choice;
use dumbwaiter_sim::Prepared;

fn run_of(toml: &str, device: &str, scheduler: &str) -> RunResult {
    let scenario = Scenario::from_toml(toml, "test").unwrap();
    let model = dumbwaiter_devices::load(device).unwrap();
    let choice = Choice::parse_stack(scheduler).unwrap();
    Prepared::new(&scenario).unwrap().run(&model, &choice, 0, &Control::default()).unwrap().run
}

/// A job with one queue over some drives.
fn reads(drives: u32, depth: u32, more: &str) -> String {
    format!(
        "duration = \"200ms\"\nwarmup = \"20ms\"\ndrives = {drives}\n{more}\n[[task]]\nname = \"t\"\nrw = \"randread\"\n\
         bs = \"4k\"\niodepth = {depth}\nnrfiles = {drives}\n"
    )
}

#[test]
fn drives_serve_at_the_same_time() {
    // 10 us a command, one at a time.
    let one = run_of(&reads(1, 4, ""), "null:0us?latency_ns=10000&channels=1", "none").iops;
    let four = run_of(&reads(4, 16, ""), "null:0us?latency_ns=10000&channels=1", "none").iops;
    assert!((3.5..4.2).contains(&(four / one)), "{one} on one drive, {four} on four");
}

#[test]
fn a_job_of_depth_one_goes_over_the_drives_in_turn() {
    let run = run_of(&reads(4, 1, ""), "null:0us?latency_ns=10000", "mq-deadline");
    // Each drive had one at a time.
    assert!((run.device_counters["max_depth"] - 1.0).abs() < 0.5, "{:?}", run.device_counters);
    assert_eq!(run.ledger.submitted, run.ledger.completed);
}

#[test]
fn every_scheduler_conserves_requests_on_several_drives_and_repeats() {
    let text = "duration = \"100ms\"\ndrives = 3\nseed = 5\n[[tenant]]\nname = \"a\"\n[[tenant.task]]\nname = \"m\"\ncount = 3\n\
                rw = \"randrw\"\nbs = \"4k\"\niodepth = 8\nnrfiles = 3\nfsync = 16\n[[tenant]]\nname = \"b\"\nweight = 300\n\
                [[tenant.task]]\nname = \"log\"\nrw = \"write\"\nbs = \"60k\"\ndirect = false\n[[tenant.task]]\nname = \"r\"\nrw = \"read\"\n\
                bs = \"128k\"\n";
    for entry in dumbwaiter_schedulers::REGISTRY {
        let both = [0, 1].map(|_| run_of(text, "ssd:850pro-256", entry.name));
        assert_eq!(both[0].ledger.submitted, both[0].ledger.completed + both[0].ledger.failed, "{}", entry.name);
        assert_eq!(both[0].completed, both[1].completed, "{}", entry.name);
        assert!(both[0].completed > 100, "{}", entry.name);
    }
}

#[test]
fn locks_are_those_of_drives() {
    let text = |drives: u32| {
        format!(
            "duration = \"20ms\"\nwarmup = \"2ms\"\ndrives = {drives}\n[host]\ncpus = 8\nprofile = \"icpe24\"\n[[task]]\nname = \"t\"\ncount = 8\n\
             rw = \"randread\"\nbs = \"4k\"\niodepth = 64\nioengine = \"io_uring\"\nnrfiles = {drives}\n"
        )
    };
    let [one, eight] = [1, 8].map(|drives| run_of(&text(drives), "null:0us?latency_ns=5000", "mq-deadline"));
    let wait = |run: &RunResult| run.host_counters["lock_wait_s"] / run.completed as f64 * 1e6;
    assert!(wait(&one) > 1.0 && wait(&eight) < 0.3 * wait(&one), "{} and {} us an I/O", wait(&one), wait(&eight));
}

#[test]
fn a_queue_over_several_drives_collects_in_the_slowest() {
    let text = "duration = \"400ms\"\nwarmup = \"200ms\"\ndrives = 4\n[host]\ncpus = 4\n[[task]]\nname = \"t\"\ncount = 4\nrw = \"randread\"\n\
                bs = \"64k\"\niodepth = 64\nioengine = \"io_uring\"\nnrfiles = 4\n";
    let [equal, slow] = [1.0, 1.3].map(|slowest| {
        let device = format!("ssd:980pro-1tb?slowest_drive={slowest}");
        run_of(text, &device, "none").latency_us
    });
    // Of the four drives three are nearly idle.
    assert!(slow.p50 < 0.6 * equal.p50 && slow.p99 > 1.2 * equal.p99, "{slow:?} beside {equal:?}");
}

#[test]
fn a_reader_that_sleeps_takes_the_cpu_from_programs_that_never_do() {
    let text = |floods: u32| {
        format!(
            "duration = \"200ms\"\nwarmup = \"20ms\"\n[host]\ncpus = 1\nprofile = \"icpe24\"\n[[task]]\nname = \"reader\"\nrw = \"randread\"\n\
             bs = \"4k\"\nioengine = \"io_uring\"\n[[task]]\nname = \"flood\"\ncount = {floods}\nrw = \"randread\"\nbs = \"4k\"\niodepth = 128\n\
             ioengine = \"io_uring\"\n"
        )
    };
    let mean = |floods| run_of(&text(floods), "null:0us?latency_ns=50000", "none").tasks[0].latency_us.mean;
    let [one, four] = [1, 4].map(mean);
    // CFS's wake-up preemption: it waits for a call, and not for a slice of milliseconds.
    assert!(four < 2.0 * one && four < 200.0, "{one} us beside one, {four} beside four");
}
