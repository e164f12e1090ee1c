//! Shares of levels and weights under CFQ and A+CFQ, on the models of real devices.

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

/// RunParts of the bandwidth, task by task.
fn shares(result: &RunResult) -> Vec<f64> {
    let all: f64 = result.tasks.iter().map(|t| t.mb_per_s).sum();
    result.tasks.iter().map(|t| t.mb_per_s / all).collect()
}

/// Sequential readers side by side on the outer tracks, so that all read at one speed.
fn readers(levels: &[u8], duration: &str) -> String {
    let mut toml = format!("duration = \"{duration}\"\n");
    for (i, level) in levels.iter().enumerate() {
        toml += &format!(
            "[[task]]\nname = \"r{i}\"\nrw = \"read\"\nbs = \"128k\"\nioengine = \"psync\"\nioprio = \"be/{level}\"\noffset = \"{}GiB\"\nsize = \"8GiB\"\n",
            8 * i
        );
    }
    toml
}

/// Three of one level share a disk equally; the best level beside the worst has four and a half times as much.
#[test]
fn levels_on_a_disk() {
    let equal = run(&readers(&[4, 4, 4], "60s"), "hdd:st1000dm003", "cfq");
    println!("equal: {:.3?}", shares(&equal));
    for share in shares(&equal) {
        assert!((share - 1.0 / 3.0).abs() < 0.01, "{share}");
    }
    let two = run(&readers(&[0, 7], "60s"), "hdd:st1000dm003", "cfq:low_latency=0");
    println!("0 and 7: {:.3?}", shares(&two));
    assert!((shares(&two)[0] - 180.0 / 220.0).abs() < 0.02, "{:?}", shares(&two));
    let eight = run(&readers(&[0, 1, 2, 3, 4, 5, 6, 7], "200s"), "hdd:st1000dm003", "cfq:low_latency=0");
    println!("eight: {:.4?}", shares(&eight));
    assert!(shares(&eight).windows(2).all(|w| w[0] > w[1]), "{:?}", shares(&eight));
}

const TENANTS: &str = r#"
duration = "30s"
warmup = "1s"
[[tenant]]
name = "vm-1"
weight = 100
[[tenant.task]]
name = "small"
rw = "randread"
bs = "4k"
iodepth = 16
[[tenant]]
name = "vm-2"
weight = 200
[[tenant.task]]
name = "mixed"
rw = "randread"
bs = "4k/50:64k/50"
iodepth = 16
[[tenant]]
name = "vm-4"
weight = 400
[[tenant.task]]
name = "large"
rw = "randread"
bs = "256k"
iodepth = 16
[[tenant]]
name = "vm-5"
weight = 500
[[tenant.task]]
name = "middle"
rw = "randread"
bs = "16k"
iodepth = 16
"#;

#[test]
fn a_cfq_is_proportional_on_flash_where_cfq_is_not() {
    let pv = |scheduler| {
        let result = run(TENANTS, "ssd:850pro-256", scheduler);
        let f = &result.fairness;
        println!("{scheduler}: PV {:.3}, of shares {:.4}, {:.0} MB/s", f.pv, f.pv_share, result.mb_per_s);
        f.pv
    };
    let (plain, fine, anticipating) = (pv("cfq"), pv("cfq:kernel=4.20"), pv("a-cfq"));
    assert!(anticipating < 0.15, "{anticipating}");
    assert!(anticipating <= plain / 2.0 && anticipating <= fine / 2.0, "{anticipating} against {plain}, {fine}");
}

/// The paper's weights, each tenant with one load of three kinds: bytes follow weights. The slots that a request pool
/// shared by all would deny to the heavier are theirs.
#[test]
fn bytes_follow_weights_under_any_load() {
    let random = [("randrw", "4k", 32); 4];
    let sequential = [("read", "64k", 32); 4];
    let mixed = [("randread", "4k", 8), ("read", "64k", 16), ("randread", "256k", 4), ("randread", "16k", 32)];
    for loads in [random, sequential, mixed] {
        let mut toml = "duration = \"12s\"\nwarmup = \"2s\"\n".to_string();
        for (i, (weight, (rw, bs, depth))) in [100, 200, 400, 500].iter().zip(loads).enumerate() {
            toml += &format!(
                "[[tenant]]\nname = \"t{i}\"\nweight = {weight}\n[[tenant.task]]\nname = \"load\"\nrw = \"{rw}\"\nbs = \"{bs}\"\niodepth = {depth}\noffset = \"{}%\"\nsize = \"25%\"\n",
                25 * i
            );
        }
        let result = run(&toml, "ssd:sata-mlc", "a-cfq");
        let shares = shares(&result);
        println!("{loads:?}: {shares:.4?}, PV {:.4}", result.fairness.pv);
        // A slot more or less is 300 ms x weight by sum of 10 s: 3 % of each share.
        for (share, weight) in shares.iter().zip([1.0, 2.0, 4.0, 5.0]) {
            assert!((share * 12.0 / weight - 1.0).abs() < 0.04, "{loads:?}: {shares:?}");
        }
    }
}

/// No synchronous task waits for many rounds of the others, however many there are and however many requests the device takes.
#[test]
fn random_readers_are_served_in_turn() {
    let mut starved = Vec::new();
    for scheduler in ["cfq", "a-cfq"] {
        for (readers, depth) in [(2, 1), (3, 1), (4, 1), (5, 1), (16, 1), (6, 2), (16, 4), (32, 4), (40, 32)] {
            let toml = format!(
                "duration = \"12s\"\n[[task]]\nname = \"r\"\ncount = {readers}\nrw = \"randread\"\nbs = \"4k\"\nioengine = \"psync\"\n"
            );
            let result = run(&toml, &format!("hdd:st1000dm003?ncq_depth={depth}"), scheduler);
            let fair = 1e6 * f64::from(readers) / result.iops;
            let worst = result.tasks.iter().map(|t| t.latency_us.max).fold(0.0, f64::max);
            let least = result.tasks.iter().map(|t| t.iops).fold(f64::INFINITY, f64::min);
            if least == 0.0 || worst.max(result.oldest_unfinished_s * 1e6) > 16.0 * fair {
                starved.push(format!(
                    "{scheduler}, {readers} readers, depth {depth}: {worst} us, fair {fair}, least {least}"
                ));
            }
        }
    }
    assert!(starved.is_empty(), "{starved:#?}");
}
