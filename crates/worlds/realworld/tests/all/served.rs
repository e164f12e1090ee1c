//! Scenarios through a served disk.

use std::sync::atomic::Ordering;

use dumbwaiter_advise::Goal;
use dumbwaiter_experiment::{Cell, Control, Ending, Experiment, Stack, World, compare};
use dumbwaiter_realworld::{DeviceOptions, DeviceUnderTest, Served};
use dumbwaiter_scenario::{Scenario, SchedulerSpec};
use dumbwaiter_schedulers::REGISTRY;

use crate::{READS, cell, folder, load, options};

/// Eight requests of 4 ms at a time: 2,000 IOPS, which any machine serves, whatever else it does.
const SLOW: &str = "null:0us?latency_ns=4000000&depth=8";

fn tenants(weights: &[u32], task: &str) -> String {
    let head =
        "schedulers = [\"headway\", \"none\"]\nreplicates = 1\nduration = \"1500ms\"\nwarmup = \"500ms\"\n".to_owned();
    weights.iter().enumerate().fold(head, |text, (number, weight)| {
        format!("{text}[[tenant]]\nname = \"t {number}\"\nweight = {weight}\n[[tenant.task]]\nname = \"a\"\n{task}\n")
    })
}

#[test]
fn a_file_is_read_to_its_end_through_a_served_disk() {
    let dir = folder();
    let path = dir.path().join("disk");
    std::fs::write(&path, vec![7; 1 << 20]).unwrap();
    let device = DeviceUnderTest::open(&path, DeviceOptions { buffered: true, ..options() }).unwrap();
    let served = Served::device(&device).unwrap();
    let cell = cell(&load(READS), Stack::Served, "mq-deadline");
    served.supports(&cell).unwrap();
    let control = Control::default();
    let result = served.run(&cell, &control).unwrap();
    assert_eq!((result.run.completed, result.run.via.as_str(), result.run.world.as_str()), (256, "serve", "real"));
    assert!(result.failure.is_none() && !result.cancelled, "{result:?}");
    let writes = load(&READS.replace("randread", "randwrite"));
    assert!(served.supports(&crate::cell(&writes, Stack::Served, "none")).unwrap_err().0.contains("--destroy"));
    control.cancel.store(true, Ordering::Relaxed);
    let long = READS.replace("time_based = false\n", "").replace("replicates", "duration = \"60s\"\nreplicates");
    assert!(served.run(&crate::cell(&load(&long), Stack::Served, "none"), &control).unwrap().cancelled);
}

#[test]
fn shares_follow_weights_under_headway_and_not_under_none() {
    let text = tenants(&[100, 200, 400, 500], "rw = \"randread\"\nbs = \"4k\"\niodepth = 32");
    let scenario = Scenario::from_toml(&text, "test").unwrap();
    let experiment = Experiment {
        scenario,
        goal: Goal::Fairness,
        notes: Vec::new(),
        drives: Vec::new(),
        finished: Vec::new(),
        command: String::new(),
        until: None,
        asked: Default::default(),
    };
    let world = Served::named(&format!("emulate:{SLOW}")).unwrap();
    let compared = compare(&experiment, &world, &Control::default()).unwrap();
    assert_eq!(compared.ending, Ending::Complete);
    let pv = |scheduler: &str| {
        let run = compared.document.runs.iter().find(|run| run.scheduler == scheduler).unwrap();
        assert_eq!(run.tenants.len(), 4);
        run.fairness.pv
    };
    assert!(pv("headway") < 0.2, "{}", pv("headway"));
    assert!(pv("none") > 0.5, "{}", pv("none"));
}

#[test]
fn every_scheduler_serves_reads_writes_flushes_and_discards() {
    let text = tenants(&[100, 300], "rw = \"randrw\"\nbs = \"4k\"\niodepth = 8\nfsync = 16")
        .replace("1500ms", "120ms")
        .replace("500ms", "0ms");
    let load = load(&text);
    let world = Served::models();
    for entry in REGISTRY {
        let cell = Cell { device: SLOW.to_owned(), ..cell(&load, Stack::Served, entry.name) };
        world.supports(&cell).unwrap();
        let result = world.run(&cell, &Control::default()).unwrap();
        assert!(result.failure.is_none(), "{}: {:?}", entry.name, result.failure);
        assert!(result.run.completed > 20, "{}: {} I/Os", entry.name, result.run.completed);
    }
}

#[test]
fn weights_and_schedulers_change_while_it_runs_and_tasks_stop() {
    let text = r#"
schedulers = ["none"]
replicates = 1
duration = "600ms"
change = [{ at = "200ms", scheduler = "headway", how = "live" }]
[[tenant]]
name = "a"
weight = 100
change = [{ at = "300ms", weight = 900 }]
[[tenant.task]]
name = "t"
rw = "randread"
iodepth = 8
[[tenant]]
name = "b"
[[tenant.task]]
name = "t"
rw = "read"
iodepth = 4
stop = "400ms"
"#;
    let world = Served::models();
    let cell = Cell { device: SLOW.to_owned(), ..cell(&load(text), Stack::Served, "none") };
    let result = world.run(&cell, &Control::default()).unwrap();
    assert_eq!(result.run.switches.as_ref().map(|switches| switches.count), Some(1));
    assert!(result.run.completed > 200, "{}", result.run.completed);
}

#[test]
fn what_nbd_cannot_carry_is_refused_with_a_reason() {
    let world = Served::models();
    let refused = |text: &str| {
        let cell = Cell { device: SLOW.to_owned(), ..cell(&load(text), Stack::Served, "none") };
        world.supports(&cell).unwrap_err().0
    };
    for (text, reason) in [
        (READS.replace("[[tenant]]", "[[tenant]]\nioprio = \"rt/0\""), "has an I/O priority"),
        (READS.replace("[[tenant]]", "[[tenant]]\ndeadline = \"5ms\""), "has a deadline"),
        (READS.replace("[[tenant]]", "[[tenant]]\nprio_class = \"idle\""), "has no priority classes"),
        (READS.replace("[[tenant]]", "[[tenant]]\nio_max = \"riops=9\""), "a served disk has no io.max"),
        (READS.replace("[[tenant]]", "[[tenant]]\nio_latency = \"5ms\""), "a served disk has no io.latency"),
        (format!("nr_requests = 64\n{READS}"), "nr_requests"),
        (format!("completion = [\"poll\"]\n{READS}"), "completion poll"),
    ] {
        // Whatever a scenario refuses by itself is no concern of the world.
        let Ok(scenario) = Scenario::from_toml(&text, "test") else { panic!("{text}") };
        let why = match scenario.completion[0] {
            dumbwaiter_scenario::Completion::Interrupt => refused(&text),
            completion => {
                let base = cell(&load(&text), Stack::Served, "none");
                world.supports(&Cell { device: SLOW.to_owned(), completion, ..base }).unwrap_err().0
            }
        };
        assert!(why.contains(reason), "{why}");
    }
    let unknown = Cell { device: "hdd:none-such".into(), ..cell(&load(READS), Stack::Served, "none") };
    assert!(world.supports(&unknown).is_err());
    let wrong = Cell { scheduler: SchedulerSpec::named("elevator"), ..unknown };
    assert!(world.supports(&wrong).is_err());
    assert!(Served::named("/dev/zero").err().unwrap().reason.contains("expected emulate:MODEL"));
}
