//! Tasks that come and go, and tenants whose weight changes.

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

/// One comes late, one goes early, one changes its priority, one its tenant, and a weight changes.
const LIFE: &str = r#"
duration = "4s"
series = "500ms"
[[tenant]]
name = "a"
weight = 100
[[tenant.change]]
at = "2s"
weight = 800
[[tenant.task]]
name = "early"
rw = "randread"
bs = "64k"
iodepth = 8
stop = "3s"
[[tenant.task]]
name = "late"
rw = "randread"
bs = "64k"
iodepth = 8
start = "1s"
[[tenant.task.change]]
at = "2500ms"
ioprio = "be/0"
[[tenant]]
name = "b"
weight = 200
[[tenant.task]]
name = "mover"
count = 2
rw = "randread"
bs = "64k"
iodepth = 8
[[tenant.task.change]]
at = "3500ms"
tenant = "a"
ioprio = "be/7"
"#;

#[test]
fn every_scheduler_lives_through_changes_and_loses_nothing() {
    for device in ["hdd:st1000dm003", "ssd:850pro-256"] {
        for entry in REGISTRY {
            let r = run(LIFE, device, entry.name);
            let l = &r.ledger;
            assert!(l.submitted > 100 && l.submitted == l.completed, "{device} {}: {l:?}", entry.name);
            let mb = |name: &str, interval: usize| {
                r.series.tenants.iter().find(|t| t.name == name).unwrap().mb_per_s[interval]
            };
            // On the disk a slot of h-bfq lasts for seconds while its queue is raised.
            let begun = |name: &str| mb(name, 0) > 0.0 || (device.starts_with("hdd") && mb(name, 2) > 0.0);
            assert!(begun("a") && begun("b"), "{device} {}", entry.name);
            // I/Os in flight when their tasks moved still count for b: on the disk that is a second's work.
            assert!(
                device.starts_with("hdd") || mb("b", 7) < mb("b", 5) / 4.0,
                "{device} {}: b moved over to a",
                entry.name
            );
        }
    }
}

/// The scheduler is exchanged twice, in both ways.
const EXCHANGES: &str = r#"
duration = "1500ms"
[[change]]
at = "400ms"
scheduler = "bfq"
[[change]]
at = "900ms"
scheduler = "mq-deadline:fifo_batch=4"
how = "live"
[[task]]
name = "readers"
count = 3
rw = "randrw"
bs = "16k"
iodepth = 16
"#;

#[test]
fn every_scheduler_is_exchanged_during_a_run_and_the_result_counts_it() {
    for entry in REGISTRY {
        let r = run(EXCHANGES, "hdd:st1000dm003", entry.name);
        let (l, switches) = (&r.ledger, r.switches.unwrap());
        assert!(l.submitted > 100 && l.submitted == l.completed, "{}: {l:?}", entry.name);
        // A policy over schedulers switches by itself as well.
        let expected = if entry.name == "adaptive" { 2..10 } else { 2..3 };
        assert!(expected.contains(&switches.count), "{}: {}", entry.name, switches.count);
        assert!(switches.pause_ms > 0.0, "{}: a freeze with I/O waiting has a pause", entry.name);
    }
    let none = run(LIFE, "hdd:st1000dm003", "noop");
    assert_eq!(none.switches, None);
}

#[test]
fn a_weight_holds_from_its_time_on() {
    let r = run(LIFE, "ssd:850pro-256", "headway");
    let share = |interval: usize| {
        let mb: Vec<f64> = r.series.tenants.iter().map(|t| t.mb_per_s[interval]).collect();
        mb[0] / (mb[0] + mb[1])
    };
    // 100 : 200, then 800 : 200.
    assert!((share(1) - 1.0 / 3.0).abs() < 0.05, "{}", share(1));
    assert!((share(5) - 0.8).abs() < 0.05, "{}", share(5));
    assert!(r.series.pv[1] < 0.3 && r.series.pv[5] < 0.5, "{:?}", r.series.pv);
    assert_eq!(r.fairness.reversals_s, 0.0);
}

#[test]
fn a_stopped_task_ends_a_run_without_duration() {
    let toml = "[[task]]\nname = \"a\"\nrw = \"randread\"\nstart = \"100ms\"\nstop = \"300ms\"";
    let r = run(toml, "ssd:850pro-256", "bfq");
    assert!((0.29..0.32).contains(&r.duration_s), "{}", r.duration_s);
    let first = r.series.mb_per_s[0] * r.duration_s;
    assert!(first > 0.0);
}

#[test]
fn a_task_that_starts_late_waits() {
    let toml = "duration = \"1s\"\nseries = \"100ms\"\n[[task]]\nname = \"a\"\nrw = \"randread\"\nstart = \"500ms\"";
    let r = run(toml, "ssd:850pro-256", "none");
    assert!(
        r.series.mb_per_s[..5].iter().all(|mb| *mb == 0.0) && r.series.mb_per_s[6] > 0.0,
        "{:?}",
        r.series.mb_per_s
    );
}
