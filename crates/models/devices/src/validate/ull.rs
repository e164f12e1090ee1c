//! Figures of the ultra-low-latency devices.

use super::Expected::{Between, Near};
use super::{Expectation, capacity, measure, with};
use crate::closed_loop::Job;

const COMMANDS: u64 = 100_000;
const DEPTHS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const REFERENCE: (&str, &str) = ("reference implementation", "ref");

pub(super) fn expectations(name: &str) -> Vec<Expectation> {
    let optane_read: [f64; 8] = [157.0, 294.0, 458.0, 572.0, 593.0, 593.0, 593.0, 593.0];
    let mut expectations = Vec::new();
    match name {
        "ull:optane-900p" => {
            expectations.extend(curve(true, &optane_read));
            expectations.extend(curve(false, &[136.0, 252.0, 388.0, 478.0, 492.0, 492.0, 492.0, 492.0]));
            expectations.push(Expectation::new("128K read, depth 2", "GB/s", Between(2.4, 2.6), ("rated", "R"), |m| {
                measure(m, &Job { sectors: 256, ..Job::reads_4k(2, capacity(m), 5_000) }).mb_per_s / 1e3
            }));
            expectations.push(tail());
            expectations.extend(sizes());
        }
        "ull:optane-p4801x" => {
            expectations.extend(curve(true, &optane_read));
            expectations.extend(curve(false, &[95.0, 173.0, 238.0, 251.0, 251.0, 251.0, 251.0, 251.0]));
            expectations.push(saturated(true, Between(550.0, 600.0), ("measured", "D")));
            expectations.push(saturated(false, Between(230.0, 260.0), ("rated", "R")));
            expectations.push(tail());
            expectations.push(Expectation::new(
                "4K write, depth 1",
                "µs",
                Near(10.55, 0.02),
                ("Table 1 of the paper", "P"),
                |m| measure(m, &Job::writes_4k(1, capacity(m), COMMANDS)).mean_us,
            ));
        }
        "ull:zssd-sz985" => {
            expectations.extend(curve(true, &[86.0, 168.0, 312.0, 505.0, 690.0, 740.0, 761.0, 763.0]));
            expectations.push(saturated(true, Near(750.0, 0.05), ("review", "D")));
        }
        "ull:zssd-sz985-steady" => expectations.push(saturated(false, Near(170.0, 0.05), ("review", "D"))),
        _ => {}
    }
    expectations
}

fn direction(read: bool) -> &'static str {
    if read { "read" } else { "write" }
}

fn random(read: bool, depth: u32, span: u64) -> Job {
    let reads = if read { 1.0 } else { 0.0 };
    Job { reads, ..Job::reads_4k(depth, span, COMMANDS) }
}

fn curve(read: bool, thousands: &[f64; 8]) -> impl Iterator<Item = Expectation> {
    DEPTHS.into_iter().zip(*thousands).map(move |(depth, k)| {
        let what = format!("4K random {}, depth {depth}", direction(read));
        Expectation::new(what, "K IOPS", Near(k, 0.015), REFERENCE, move |m| {
            measure(m, &random(read, depth, capacity(m))).iops / 1e3
        })
    })
}

fn saturated(read: bool, expected: super::Expected, source: (&'static str, &'static str)) -> Expectation {
    let what = format!("4K random {}, saturated", direction(read));
    Expectation::new(what, "K IOPS", expected, source, move |m| measure(m, &random(read, 128, capacity(m))).iops / 1e3)
}

fn tail() -> Expectation {
    Expectation::new(
        "4K read, depth 1, p99 / mean",
        "ratio",
        Between(1.0, 1.2),
        ("P4800X review: 10 / 8.9 µs", "D"),
        |m| {
            let outcome = measure(m, &random(true, 1, capacity(m)));
            outcome.p99_us / outcome.mean_us
        },
    )
}

fn sizes() -> impl Iterator<Item = Expectation> {
    let table = [(1, 6.35, 593.0), (8, 6.35, 593.0), (16, 8.0, 304.0), (32, 11.2, 154.0), (64, 17.6, 77.3)];
    let more = [(128, 30.5, 38.8), (256, 56.2, 19.4)];
    table.into_iter().chain(more).flat_map(|(sectors, us, k)| {
        let bytes = sectors * 512;
        let job = move |depth, span| Job { sectors, ..Job::reads_4k(depth, span, 20_000) };
        [
            Expectation::new(
                format!("{bytes} B read, depth 1, no jitter"),
                "µs",
                Near(us, 0.02),
                REFERENCE,
                move |m| measure(&with(m, "jitter=0&tail_probability=0"), &job(1, capacity(m))).mean_us,
            ),
            Expectation::new(format!("{bytes} B read, depth 32"), "K IOPS", Near(k, 0.015), REFERENCE, move |m| {
                measure(m, &job(32, capacity(m))).iops / 1e3
            }),
        ]
    })
}
