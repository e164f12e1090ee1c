//! Where the time goes: parts that add up to the mean latency.

use std::sync::Arc;

use dumbwaiter_experiment::{Cell, Control, Stack, World};
use dumbwaiter_measure::{Latency, RunResult, TimeParts};
use dumbwaiter_scenario::load::Prepared;
use dumbwaiter_scenario::{Scenario, SchedulerSpec};
use dumbwaiter_sim::Simulator;

const LOAD: &str = r#"
duration = "2s"
warmup = "200ms"
[[tenant]]
name = "person"
focus = true
[[tenant.task]]
name = "open"
rw = "randread"
bs = "16k"
[[tenant]]
name = "copy"
[[tenant.task]]
name = "from"
rw = "read"
bs = "256k"
iodepth = 4
[[tenant.task]]
name = "to"
rw = "write"
bs = "256k"
offset = "50%"
iodepth = 16
"#;

fn run(device: &str, scheduler: &str, load: &str) -> RunResult {
    let scenario = Scenario::from_toml(load, "test").unwrap();
    let load = Arc::new(Prepared::new(&scenario).unwrap());
    let spec = SchedulerSpec::parse(scheduler).unwrap();
    Simulator::new(1).run(&Cell::of(&load, device, Stack::Simulated, spec), &Control::default()).unwrap().run
}

fn adds_up(of: &Option<TimeParts>, latency: &Latency, what: &str) {
    let Some(parts) = of else {
        assert_eq!(latency.samples, 0, "{what}");
        return;
    };
    let sum: f64 = parts.named().iter().map(|(_, part)| part).sum();
    assert!((sum - latency.mean).abs() <= 1e-6 * latency.mean, "{what}: {sum} of {}", latency.mean);
    assert!(parts.named().iter().all(|(_, part)| *part >= 0.0), "{what}: {parts:?}");
}

#[test]
fn the_parts_add_up_to_the_mean_latency() {
    for device in ["hdd:st1000dm003", "ssd:850pro-256", "ull:optane-900p"] {
        for scheduler in ["none", "mq-deadline", "kyber", "bfq"] {
            let run = run(device, scheduler, LOAD);
            let what = format!("{device}, {scheduler}");
            adds_up(&run.time_parts_us, &run.latency_us, &what);
            adds_up(&run.read.time_parts_us, &run.read.latency_us, &what);
            adds_up(&run.write.time_parts_us, &run.write.latency_us, &what);
            for tenant in &run.tenants {
                adds_up(&tenant.time_parts_us, &tenant.latency_us, &format!("{what}, {}", tenant.name));
            }
        }
    }
}

#[test]
fn the_parts_tell_schedulers_apart() {
    // A read behind a copy without a scheduler takes about a second.
    let longer = LOAD.replace("\"2s\"", "\"20s\"");
    let of = |scheduler: &str| run("hdd:st1000dm003", scheduler, &longer).tenants[0].time_parts_us.unwrap();
    let (plain, fair) = (of("none"), of("bfq"));
    // Without a queue of its own nothing is held back; what waits is in the device, beside writes.
    assert!(plain.idling < 0.05 * plain.beside_writes, "{plain:?}");
    assert!(plain.beside_writes > plain.device, "{plain:?}");
    assert!(fair.beside_writes < plain.beside_writes, "{fair:?} {plain:?}");
    // Few tags: many tasks sleep for one.
    let many = LOAD.replace("iodepth = 16", "iodepth = 16\nioengine = \"psync\"\nnumjobs = 64");
    let load = format!("nr_requests = 8\n{}", many.replace("iodepth = 16\n", "").replace("\"2s\"", "\"20s\""));
    let parts = run("hdd:st1000dm003", "mq-deadline", &load).time_parts_us.unwrap();
    assert!(parts.tag > parts.device, "{parts:?}");
}

/// The latency of tasks that are marked is known together, and to mark them changes nothing else.
#[test]
fn tasks_may_be_the_focus_without_a_tenant_of_their_own() {
    let marked = r#"
duration = "2s"
warmup = "200ms"
[[task]]
name = "open"
count = 3
focus = true
rw = "randread"
bs = "16k"
[[task]]
name = "log"
focus = true
rw = "write"
[[task]]
name = "copy"
rw = "write"
bs = "256k"
iodepth = 16
"#;
    for scheduler in ["mq-deadline", "bfq"] {
        let with = run("ssd:850pro-256", scheduler, marked);
        let plain = run("ssd:850pro-256", scheduler, &marked.replace("focus = true\n", ""));
        assert!(plain.focus_tasks.is_none());
        let focus = with.focus_tasks.clone().unwrap();
        assert_eq!(focus.names, ["open", "log"]);
        let own = || with.tasks.iter().filter(|task| !task.name.starts_with("copy"));
        assert_eq!((focus.stats.count, own().count()), (own().map(|task| task.count).sum(), 4));
        let sum: f64 = own().map(|task| task.latency_us.mean * task.latency_us.samples as f64).sum();
        let mean = sum / own().map(|task| task.latency_us.samples).sum::<u64>() as f64;
        // Unfinished ones count with what is known of them, so that means do not quite add up.
        assert!((focus.stats.latency_us.mean / mean - 1.0).abs() < 0.01, "{} of {mean}", focus.stats.latency_us.mean);
        adds_up(&focus.stats.time_parts_us, &focus.stats.latency_us, scheduler);
        let json = |run: RunResult| serde_json::to_string(&RunResult { focus_tasks: None, ..run }).unwrap();
        assert_eq!(json(with), json(plain));
    }
}
