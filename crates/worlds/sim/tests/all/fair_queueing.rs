//! Shares of four tenants of weights 1, 2, 4 and 5 on a fast drive, under the schedulers that are fair queueing and nothing else.

use dumbwaiter_experiment::Control;
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::Scenario;
use dumbwaiter_schedulers::Choice;
use dumbwaiter_sim::Prepared;

/// Random reads at depth 32, each tenant with its own size. One call submits what follows all that was done, and beside the shallow
/// drive the host costs nothing, so that the drive is short and not the CPUs.
fn run(device: &str, scheduler: &str, sizes: [&str; 4]) -> RunResult {
    run_with(device, scheduler, sizes, "")
}

/// As [`run`], with more in the scenario.
fn run_with(device: &str, scheduler: &str, sizes: [&str; 4], more: &str) -> RunResult {
    let mut text = "duration = \"200ms\"\nwarmup = \"50ms\"\nnr_requests = 256\n".to_owned();
    for (weight, size) in [1, 2, 4, 5].into_iter().zip(sizes) {
        text += &format!(
            "[[tenant]]\nname = \"weight-{weight}\"\nweight = {weight}00\n[[tenant.task]]\nname = \"load\"\nrw = \"randread\"\nbs = \"{size}\"\niodepth = 32\niodepth_batch = 0\niodepth_batch_complete_max = 32\n"
        );
    }
    if device == SHALLOW {
        text += "[host]\nprofile = \"free\"\n";
    }
    let scenario = Scenario::from_toml(&(text + more), "test").unwrap();
    let model = dumbwaiter_devices::load(device).unwrap();
    let choice = Choice::parse(scheduler).unwrap();
    Prepared::new(&scenario).unwrap().run(&model, &choice, 0, &Control::default()).unwrap().run
}

/// A drive that cannot hold all requests: the others wait where a scheduler can choose.
const SHALLOW: &str = "ull:optane-900p?queues=1&queue_depth=16";
const SAME: [&str; 4] = ["4k"; 4];
const MIXED: [&str; 4] = ["64k", "16k", "8k", "4k"];

#[test]
fn shares_follow_weights() {
    let mut unfair = Vec::new();
    for device in [SHALLOW, "ssd:850pro-256"] {
        for scheduler in ["none", "wf2q+", "mqfq", "mclock", "headway", "bfq"] {
            for sizes in [SAME, MIXED] {
                let result = run(device, scheduler, sizes);
                let shares: Vec<String> = result.tenants.iter().map(|t| format!("{:.3}", t.share)).collect();
                let (pv, rate) = (result.fairness.pv, result.mb_per_s);
                println!("{device} {scheduler} {} PV {pv:.3} {rate:.0} MB/s {}", sizes[0], shares.join(" "));
                // mclock shares requests, not bytes.
                let fair = matches!(scheduler, "wf2q+" | "mqfq") || scheduler == "mclock" && sizes == SAME;
                // There the heaviest tenant's thread has no more CPU time.
                let most = if device == SHALLOW { 0.3 } else { 0.05 };
                if fair && pv >= most {
                    unfair.push(format!("{scheduler} on {device}: PV {pv}"));
                }
            }
        }
    }
    assert!(unfair.is_empty(), "{unfair:?}");
}

#[test]
fn the_drives_classes_share_by_weight() {
    let device = "ull:optane-900p";
    let plain = run(device, "none", SAME);
    for scheduler in ["d2fq", "d2fq:low_kib=512,medium_kib=128"] {
        let result = run(device, scheduler, SAME);
        let shares: Vec<String> = result.tenants.iter().map(|t| format!("{:.3}", t.share)).collect();
        let (pv, rate) = (result.fairness.pv, result.mb_per_s);
        println!("{scheduler} PV {pv:.3} {rate:.0} MB/s {} (none {:.3})", shares.join(" "), plain.fairness.pv);
        assert!(pv < 0.2 && pv < plain.fairness.pv / 3.0, "{scheduler}: PV {pv}, none {}", plain.fairness.pv);
        assert!(rate > 0.8 * plain.mb_per_s, "{scheduler}: {rate} MB/s");
    }
}

#[test]
fn the_drives_classes_follow_the_scheduler_in_force() {
    let device = "ull:optane-900p";
    let from_start = run(device, "d2fq", SAME);
    let adaptive = run(device, "adaptive:candidates=d2fq", SAME);
    let ratio = adaptive.completed as f64 / from_start.completed as f64;
    assert!((ratio - 1.0).abs() < 0.01, "{} and {}", adaptive.completed, from_start.completed);

    let to = |scheduler| format!("[[change]]\nat = \"10ms\"\nscheduler = \"{scheduler}\"\nhow = \"live\"\n");
    let plain = run(device, "none", SAME);
    let came = run_with(device, "none", SAME, &to("d2fq"));
    let went = run_with(device, "d2fq", SAME, &to("none"));
    let pvs = [&from_start, &came, &plain, &went].map(|result| result.fairness.pv);
    println!("{pvs:?}");
    assert!(pvs[1] < 0.2 && pvs[3] > pvs[2] * 0.9, "{pvs:?}");
}

#[test]
fn mclock_reserves_and_limits_on_a_drive() {
    let result = run(SHALLOW, "mclock:reservations=40000,limits=0+0+0+20000", SAME);
    let iops: Vec<f64> = result.tenants.iter().map(|t| t.iops).collect();
    println!("{iops:?}");
    assert!(iops[0] > 38_000.0, "{iops:?}");
    assert!(iops[3] < 20_500.0, "{iops:?}");
}

#[test]
fn anticipation_pays_on_a_disk() {
    let text = "duration = \"5s\"\n[[task]]\nname = \"readers\"\ncount = 4\nrw = \"read\"\nbs = \"64k\"\noffset_increment = \"100GiB\"\nsize = \"50GiB\"\n";
    let scenario = Scenario::from_toml(text, "test").unwrap();
    let model = dumbwaiter_devices::load("hdd:st1000dm003").unwrap();
    let prepared = Prepared::new(&scenario).unwrap();
    let rate = |scheduler: &str| {
        let choice = Choice::parse(scheduler).unwrap();
        prepared.run(&model, &choice, 0, &Control::default()).unwrap().run.mb_per_s
    };
    let schedulers = ["none", "mq-deadline", "anticipatory:antic_expire=0", "anticipatory", "bfq", "cfq"];
    let rates = schedulers.map(rate);
    println!("{schedulers:?} {rates:?}");
    assert!(rates[3] > 1.2 * rates[2], "{schedulers:?} {rates:?}");
}
