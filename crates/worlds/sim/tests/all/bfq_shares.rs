//! Shares of four tenants of weights 1, 2, 4 and 5 on flash, under bfq and h-bfq: when bytes follow weights, and when not.

use dumbwaiter_experiment::Control;
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::Scenario;
use dumbwaiter_schedulers::Choice;
use dumbwaiter_sim::Prepared;

type Load = (&'static str, &'static str, u32);

const RANDOM: [Load; 4] = [("randread", "4k", 32); 4];
const SEQUENTIAL: [Load; 4] = [("read", "64k", 32); 4];
const MIXED: [Load; 4] = [("randread", "4k", 32), ("randread", "16k", 16), ("read", "64k", 8), ("randread", "128k", 4)];
/// The heavy ask for one small request after the other, the light for much at once.
const SLOW_AND_HEAVY: [Load; 4] =
    [("randread", "128k", 16), ("randread", "4k", 1), ("randread", "8k", 2), ("randread", "4k", 4)];

fn run(loads: [Load; 4], seconds: u32, scheduler: &str) -> RunResult {
    run_with("", loads, seconds, scheduler)
}

/// `settings`: further lines of the scenario. One call submits what follows all that was done.
fn run_with(settings: &str, loads: [Load; 4], seconds: u32, scheduler: &str) -> RunResult {
    let mut toml = format!("duration = \"{seconds}s\"\nwarmup = \"1s\"\n{settings}");
    for (i, (weight, (rw, bs, depth))) in [100, 200, 400, 500].into_iter().zip(loads).enumerate() {
        toml += &format!(
            "[[tenant]]\nname = \"t{i}\"\nweight = {weight}\n[[tenant.task]]\nname = \"j\"\nrw = \"{rw}\"\nbs = \"{bs}\"\niodepth = {depth}\niodepth_batch = 0\niodepth_batch_complete_max = 32\n"
        );
    }
    run_toml(&toml, scheduler)
}

fn run_toml(toml: &str, scheduler: &str) -> RunResult {
    let scenario = Scenario::from_toml(toml, "test").unwrap();
    let model = dumbwaiter_devices::load("ssd:850pro-256").unwrap();
    let choice = Choice::parse(scheduler).unwrap();
    let result = Prepared::new(&scenario).unwrap().run(&model, &choice, 0, &Control::default()).unwrap().run;
    let shares: Vec<f64> = result.tenants.iter().map(|t| t.share).collect();
    println!("{scheduler}: PV {:.3}, {:.0} MB/s, {shares:.3?}", result.fairness.pv, result.mb_per_s);
    result
}

/// Tasks of the root group, in the tenant `/`, have weights of their own (40 at best effort 4, 80 at 0) beside the tenants'.
#[test]
fn tasks_of_the_root_group_compete_with_tenants() {
    let job = "rw = \"randread\"\nbs = \"4k\"\niodepth = 32\n";
    // Requests for all, so that the scheduler divides the drive, not the wait for tags.
    let mut toml = "duration = \"4s\"\nwarmup = \"1s\"\nnr_requests = 256\n".to_string();
    for (name, weight) in [("a", 300), ("b", 100)] {
        toml += &format!("[[tenant]]\nname = \"{name}\"\nweight = {weight}\n[[tenant.task]]\nname = \"j\"\n{job}");
    }
    for (name, ioprio) in [("x", "be/4"), ("y", "be/0")] {
        toml += &format!("[[task]]\nname = \"{name}\"\ntenant = \"/\"\nioprio = \"{ioprio}\"\n{job}");
    }
    for scheduler in ["bfq:low_latency=0", "headway"] {
        let result = run_toml(&toml, scheduler);
        let root = result.tenants.iter().find(|t| t.name == "/").unwrap();
        assert!((root.ideal_share - 120.0 / 520.0).abs() < 1e-9, "{}", root.ideal_share);
        assert!((root.share - root.ideal_share).abs() < 0.02, "{scheduler}: {} of {}", root.share, root.ideal_share);
        if scheduler != "headway" {
            let rates = ["x", "y"].map(|name| result.tasks.iter().find(|t| t.name == name).unwrap().mb_per_s);
            assert!((1.6..2.5).contains(&(rates[1] / rates[0])), "{rates:?}");
        }
    }
}

/// h-bfq charged only for what it moved, with budgets of a fixed size.
const EXACT: &str = "h-bfq:max_budget=16384,slow_charge=0";

/// Within what the papers call proportional, and at no great loss.
#[test]
fn small_budgets_make_bytes_follow_weights() {
    for loads in [RANDOM, SEQUENTIAL, MIXED] {
        let free = run(loads, 1, "none").mb_per_s;
        // For mixed sizes see below.
        let schedulers = [EXACT, "bfq:max_budget=4096", "bfq:timeout_sync=8"];
        for scheduler in &schedulers[..if loads == MIXED { 1 } else { 3 }] {
            let result = run(loads, 8, scheduler);
            assert!(result.fairness.pv <= 0.10, "{scheduler}, {loads:?}: {}", result.fairness.pv);
            assert!(result.mb_per_s > 0.8 * free, "{scheduler}, {loads:?}: {} of {free}", result.mb_per_s);
        }
    }
}

/// The lightest tenant has 5 of 64 requests, so its slot often waits for it, and what is injected meanwhile is mostly not charged to
/// those who get it. Not so without injection, or with requests enough.
#[test]
fn with_mixed_sizes_and_few_requests_injection_takes_the_lightest_tenants_share() {
    for setting in ["max_budget=4096", "timeout_sync=8"] {
        let injected = run(MIXED, 8, &format!("bfq:{setting}")).fairness.pv;
        assert!(injected > 0.3, "{setting}: {injected}");
        let alone = run(MIXED, 8, &format!("bfq:{setting},injection=0")).fairness.pv;
        assert!(alone <= 0.10, "{setting}, injection=0: {alone}");
        let many = run_with("nr_requests = 256\n", MIXED, 8, &format!("bfq:{setting}")).fairness.pv;
        assert!(many <= 0.10, "{setting}, nr_requests 256: {many}");
    }
}

/// Few places (64 here) leave the lightest tenant five: its slots time out, and it is charged for their time, as the kernel's
/// bfq does. Twice the sectors for the same time is what the others get; a longer run does not mend it.
#[test]
fn by_default_bfq_charges_slow_tenants_for_their_time() {
    let lightest = |scheduler| run(MIXED, 12, scheduler).tenants[0].share * 12.0;
    let (charged, not_charged) = (lightest("bfq"), lightest("bfq:slow_charge=0"));
    assert!(charged < 0.8, "{charged}");
    assert!(not_charged > charged + 0.1, "{not_charged}");
}

/// History keeps the part of a budget that a slot leaves; where that is charged as well, as in the paper, shares do not hold.
#[test]
fn history_keeps_shares_however_short_the_slots() {
    for timeout in ["", ",timeout_sync=32", ",timeout_sync=8"] {
        let result = run(SLOW_AND_HEAVY, 12, &format!("{EXACT}{timeout}"));
        assert!(result.fairness.pv <= 0.10, "{timeout}: {}", result.fairness.pv);
    }
    let charged = run(SLOW_AND_HEAVY, 12, "h-bfq:timeout_sync=8,max_budget=16384").fairness.pv;
    assert!(charged > 1.0, "{charged}");
}
