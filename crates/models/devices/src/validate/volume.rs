//! Figures of the cloud block volumes.

use super::Expected::Near;
use super::{Expectation, capacity, measure, with};
use crate::closed_loop::Job;

const DOCUMENTED: (&str, &str) = ("EBS volume types", "D");
const RECALLED: (&str, &str) = ("EBS volume types", "R");
const ARITHMETIC: (&str, &str) = ("latency and its transfer", "theory");
/// Credits of the measurements that spend all of them.
const FEW_CREDITS: &str = "burst_ios=5000";

pub(super) fn expectations(name: &str) -> Vec<Expectation> {
    match name {
        "volume:ebs-gp3" => vec![
            rate("4K random read, depth 32", 8, 3_000.0, DOCUMENTED),
            large("256K random read, depth 32", 131.072, DOCUMENTED),
            single(),
        ],
        "volume:ebs-gp2-100" => vec![
            rate("4K random read, depth 32, with credits", 8, 3_000.0, DOCUMENTED),
            spent(),
            refilled(),
            large("256K random read, depth 32, with credits", 134.217_728, RECALLED),
            single(),
        ],
        _ => Vec::new(),
    }
}

fn rate(what: &str, sectors: u32, iops: f64, source: (&'static str, &'static str)) -> Expectation {
    Expectation::new(what, "IOPS", Near(iops, 0.01), source, move |m| {
        measure(m, &Job { sectors, ..Job::reads_4k(32, capacity(m), 20_000) }).iops
    })
}

fn large(what: &str, mb_per_s: f64, source: (&'static str, &'static str)) -> Expectation {
    Expectation::new(what, "MB/s", Near(mb_per_s, 0.01), source, |m| {
        measure(m, &Job { sectors: 512, ..Job::reads_4k(32, capacity(m), 5_000) }).mb_per_s
    })
}

fn single() -> Expectation {
    Expectation::new("4K random read, depth 1, mean", "ms", Near(0.653, 0.02), ARITHMETIC, |m| {
        measure(m, &Job::reads_4k(1, capacity(m), 20_000)).mean_us / 1e3
    })
}

fn spent() -> Expectation {
    Expectation::new("4K random read, depth 32, credits spent", "IOPS", Near(300.0, 0.01), DOCUMENTED, |m| {
        let job = Job { warmup: 10_000, ..Job::reads_4k(32, capacity(m), 10_000) };
        measure(&with(m, FEW_CREDITS), &job).iops
    })
}

/// Credits last as long as their number over burst less baseline: the baseline accrues meanwhile.
fn refilled() -> Expectation {
    Expectation::new(
        "4K reads at full rate before 5,000 credits are spent",
        "IOPS",
        Near(3_000.0, 0.01),
        ARITHMETIC,
        |m| measure(&with(m, FEW_CREDITS), &Job { warmup: 100, ..Job::reads_4k(32, capacity(m), 5_400) }).iops,
    )
}
