//! Shares by weight on a device in memory. No share is asserted, for it depends on the machine and what else it does; what was measured is
//! printed (`--nocapture`). `DUMBWAITER_SECONDS` makes the runs longer.

use crate::drive::common::{filled, is_root, open, run_on};
use dumbwaiter_realworld::drive::{CompletionMode, Options, Rings};
use dumbwaiter_testkit::LoopDevice;

const LOADS: [(&str, [&str; 4]); 3] = [
    ("4k random, depth 32", ["rw = \"randread\"\nbs = \"4k\"\niodepth = 32"; 4]),
    ("64k sequential, depth 32", ["rw = \"read\"\nbs = \"64k\"\niodepth = 32"; 4]),
    (
        "mixed",
        [
            "rw = \"randread\"\nbs = \"4k\"\niodepth = 64",
            "rw = \"read\"\nbs = \"64k\"\niodepth = 16",
            "rw = \"randread\"\nbssplit = \"4k/50:32k/50\"\niodepth = 32",
            "rw = \"randread\"\nbs = \"16k\"\niodepth = 48",
        ],
    ),
];
const WEIGHTS: [u32; 4] = [100, 200, 400, 500];

#[test]
fn tenants_share_a_device_in_memory() {
    if !is_root() {
        println!("skipped: a loop device needs root");
        return;
    }
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        println!("skipped: no /dev/shm");
        return;
    };
    let path = filled(dir.path(), "disk", 256 << 20);
    let Some(disk) = LoopDevice::over(&path, &[]) else { return };
    // `none` with one ring as well: what sharing costs is asked, not what a second core gives.
    let target = open(disk.path(), &Options { rings: Rings::Number(1), ..Options::default() });
    let seconds: f64 = std::env::var("DUMBWAITER_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(0.1);
    for depth in [8, 16, 32] {
        for (name, jobs) in LOADS {
            let mut total_of_none = f64::NAN;
            for scheduler in ["none", "bfq", "bfq:max_budget=4096", "h-bfq:max_budget=16384,slow_charge=0", "headway"] {
                let mut text =
                    format!("duration = \"{}ms\"\nwarmup = \"50ms\"\nqueue_depth = {depth}\n", seconds * 1e3);
                for (i, (job, weight)) in jobs.iter().zip(WEIGHTS).enumerate() {
                    text += &format!(
                        "[[tenant]]\nname = \"t{i}\"\nweight = {weight}\n[[task]]\nname = \"j{i}\"\ntenant = \"t{i}\"\n{job}\nioengine = \"io_uring\"\nnorandommap = true\n"
                    );
                }
                let cell = run_on(&target, &text, scheduler, CompletionMode::Interrupt).unwrap();
                let r = &cell.result;
                if scheduler == "none" {
                    total_of_none = r.mb_per_s;
                }
                let shares: Vec<String> = r.tenants.iter().map(|t| format!("{:.3}", t.share)).collect();
                println!(
                    "depth {depth:2}  {name:25} {scheduler:19} PV {:.3}  {:7.1} MB/s, {:.2} of none  p99 {:8.1} us  {}",
                    r.fairness.pv,
                    r.mb_per_s,
                    r.mb_per_s / total_of_none,
                    r.latency_us.p99,
                    shares.join(" ")
                );
                assert_eq!((cell.failure, r.ledger.submitted), (None, r.ledger.completed));
            }
        }
    }
}
