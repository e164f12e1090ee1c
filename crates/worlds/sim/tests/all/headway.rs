//! Service of tenants and of programs that start under headway, on the models of real devices.

use dumbwaiter_experiment::Control;
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::Scenario;
use dumbwaiter_schedulers::Choice;
use dumbwaiter_sim::Prepared;

fn run(toml: &str, device: &str, scheduler: &str) -> RunResult {
    let scenario = Scenario::from_toml(toml, "test").unwrap();
    let model = dumbwaiter_devices::load(device).unwrap();
    let choice = Choice::parse(scheduler).unwrap();
    Prepared::new(&scenario).unwrap().run(&model, &choice, 0, &Control::default()).unwrap().run
}

fn tenants(weights: &[u32], job: &str) -> String {
    let one = |(i, w): (usize, &u32)| {
        format!("[[tenant]]\nname = \"t{i}\"\nweight = {w}\n[[tenant.task]]\nname = \"j\"\n{job}\n")
    };
    let all: Vec<String> = weights.iter().enumerate().map(one).collect();
    format!("duration = \"2s\"\nwarmup = \"500ms\"\n{}", all.join(""))
}

#[test]
fn shares_follow_any_weights_with_the_device_full() {
    for weights in [[100, 200, 400, 500], [100, 100, 100, 100], [500, 100, 100, 100], [1000, 300, 30, 10]] {
        // Reads in a row merge into a few large requests, of which the device must hold less than two to keep shares: that
        // costs an eighth of the throughput at the most uneven weights.
        let random = ("rw = \"randrw\"\nbs = \"4k\"\niodepth = 32", 0.005, 1.0);
        let in_a_row = ("rw = \"read\"\nbs = \"64k\"\niodepth = 32", 0.04, 0.85);
        for (job, off, least) in [random, in_a_row] {
            // A hundredth of the whole is less than one of those large requests in two seconds.
            if job == in_a_row.0 && weights.contains(&10) {
                continue;
            }
            let toml = tenants(&weights, job);
            let ours = run(&toml, "ssd:sata-mlc", "headway");
            let theirs = run(&toml, "ssd:sata-mlc", "mq-deadline");
            assert!(ours.fairness.pv_share < off, "{weights:?} {job}: {}", ours.fairness.pv_share);
            assert!(
                ours.mb_per_s > least * theirs.mb_per_s,
                "{weights:?} {job}: {} {}",
                ours.mb_per_s,
                theirs.mb_per_s
            );
        }
    }
}

#[test]
fn one_at_a_time_gets_its_share_against_deep_queues() {
    let toml = r#"
duration = "2s"
warmup = "500ms"
[[tenant]]
name = "deep"
weight = 100
[[tenant.task]]
name = "j"
rw = "randread"
bs = "16k"
iodepth = 32
[[tenant]]
name = "shallow"
weight = 300
[[tenant.task]]
name = "j"
rw = "randread"
bs = "4k"
"#;
    let share = |scheduler| run(toml, "ssd:sata-mlc", scheduler).tenants[1].share;
    assert!(share("none") < 0.05);
    assert!((share("headway") - 0.75).abs() < 0.03, "{}", share("headway"));
    assert!(share("headway:follow_shares=0") < 0.3);
}

#[test]
fn what_an_idle_child_leaves_goes_to_its_sister() {
    let toml = r#"
duration = "2s"
warmup = "200ms"
series = "100ms"
[[tenant]]
name = "house"
weight = 100
[[tenant]]
name = "busy"
parent = "house"
weight = 100
[[tenant.task]]
name = "j"
rw = "randread"
iodepth = 32
[[tenant]]
name = "away"
parent = "house"
weight = 900
[[tenant.task]]
name = "j"
rw = "randread"
iodepth = 32
start = "1500ms"
[[tenant]]
name = "next door"
weight = 100
[[tenant.task]]
name = "j"
rw = "randread"
iodepth = 32
"#;
    let r = run(toml, "ssd:sata-mlc", "headway");
    let mean = |name: &str, from: f64, to: f64| {
        let series = &r.series.tenants.iter().find(|t| t.name == name).unwrap().mb_per_s;
        let within = r.series.times.iter().zip(series).filter(|(t, _)| **t >= from && **t + r.series.interval_s <= to);
        let values: Vec<f64> = within.map(|(_, mb)| *mb).collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    let before = mean("busy", 0.2, 1.4) / mean("next door", 0.2, 1.4);
    assert!((before - 1.0).abs() < 0.05, "half each while the sister is away: {before}");
    let after = mean("busy", 1.6, 2.2) / mean("next door", 1.6, 2.2);
    assert!(after < 0.25, "a tenth of a half when she is back: {after}");
}

#[test]
fn a_program_starts_as_quickly_as_under_bfq_beside_readers() {
    for (background, device) in [
        ("10r-seq", "hdd:st1000dm003"),
        ("10r-rand", "hdd:st1000dm003"),
        ("10r-rand", "ssd:px256m5s"),
        ("10r-seq", "ssd:px256m5s"),
    ] {
        let toml = format!(
            "duration = \"15s\"\nwarmup = \"1s\"\n[[task]]\nname = \"writer\"\napp = \"oowriter-like\"\nthink = \"greedy\"\nrepeat = 1\n\
             [[task]]\nname = \"background\"\napp = \"{background}\"\n"
        );
        let start = |scheduler: &str| {
            let r = run(&toml, device, scheduler);
            let start = r.applications.iter().find_map(|a| a.start_up.clone()).unwrap();
            (start.started, start.mean_s, r.mb_per_s)
        };
        let (ours, theirs) = (start("headway"), start("bfq"));
        assert_eq!((ours.0, theirs.0), (1, 1), "{background} on {device}");
        assert!(ours.1 < 1.05 * theirs.1, "{background} on {device}: {} s, bfq {} s", ours.1, theirs.1);
        assert!(ours.2 > 0.95 * theirs.2, "{background} on {device}: {} MB/s, bfq {} MB/s", ours.2, theirs.2);
    }
}

#[test]
fn what_is_given_up_for_a_tenant_without_a_backlog_can_be_bounded() {
    let one = |name: &str, job: &str| {
        format!("[[tenant]]\nname = \"{name}\"\n[[tenant.task]]\nname = \"j\"\nrw = \"randread\"\n{job}\n")
    };
    let deep: String = (0..4).map(|i| one(&format!("deep{i}"), "bs = \"64k\"\niodepth = 32")).collect();
    let toml = format!("duration = \"2s\"\nwarmup = \"1s\"\n{}{deep}", one("first", "bs = \"4k\""));
    let of = |scheduler: &str| run(&toml, "ssd:nvme-tlc", scheduler);
    let (none, strict) = (of("none"), of("headway"));
    let p99 = |result: &RunResult| result.tenants[0].latency_us.p99;
    // As much as the first tenant takes is what each of the others may have.
    assert!(strict.mb_per_s < 0.25 * none.mb_per_s, "{} {}", strict.mb_per_s, none.mb_per_s);
    for percent in [10, 25, 50] {
        let bounded = of(&format!("headway:give_up_percent={percent}"));
        let kept = bounded.mb_per_s / none.mb_per_s;
        let asked = 1.0 - f64::from(percent) / 100.0;
        assert!((asked - 0.05..asked + 0.1).contains(&kept), "{percent}: {kept}");
        assert!(p99(&bounded) < 0.4 * p99(&none), "{percent}: {} {}", p99(&bounded), p99(&none));
    }
}
