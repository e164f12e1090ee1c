//! Figures of reads beside writes.

use dumbwaiter_block::Nanos;

use super::Expected::{Between, Near};
use super::{Expectation, Expected, capacity, measure};
use crate::DeviceModel;
use crate::catalogue::{Limits, limits};
use crate::closed_loop::Job;
use crate::open_loop::{Mix, Mixed, run};

const STUDY: (&str, &str) = ("ICPE 2024 study of schedulers, figure 1", "F");
const FITTED: (&str, &str) = ("diskplorer", "F");
const PREDICTED: (&str, &str) = ("diskplorer", "D");
const CLASS: (&str, &str) = ("class", "E");
/// Tolerances of p50 and p95.
const WITHIN: (f64, f64) = (0.30, 0.50);

pub(super) fn expectations(name: &str) -> Vec<Expectation> {
    match name {
        "hdd:st1000dm003" | "hdd:dt01aca200" | "hdd:exos-x16" => {
            let mut expectations = Vec::new();
            if name == "hdd:dt01aca200" {
                expectations.extend(toshiba());
            }
            expectations.push(sustained(Near(54.7, 0.02)));
            expectations
        }
        "ssd:980pro-1tb" => samsung(),
        "ssd:i3en-nvme" => {
            let cells = [(24_294.0, 0.0, 138.0, 174.0, FITTED), (194_348.0, 0.0, 251.0, 417.0, FITTED)];
            let mixes = [
                (60_734.0, 51.0, 159.0, 236.0),
                (85_027.0, 153.0, 174.0, 298.0),
                (145_761.0, 204.0, 236.0, 479.0),
                (24_294.0, 408.0, 166.0, 352.0),
                (72_881.0, 510.0, 200.0, 450.0),
                (60_734.0, 663.0, 203.0, 486.0),
            ];
            let mixes = mixes.into_iter().map(|(r, w, p50, p95)| (r, w, p50, p95, PREDICTED));
            cells.into_iter().chain(mixes).flat_map(|cell| quantiles(cell, 64, Nanos::from_ms(600))).collect()
        }
        "ssd:i3-nvme" => {
            let cells = [(41_262.0, 99.0, 119.0), (206_307.0, 134.0, 183.0), (350_722.0, 191.0, 276.0)];
            let cells = cells.into_iter().map(|(r, p50, p95)| (r, 0.0, p50, p95, FITTED));
            cells.flat_map(|cell| quantiles(cell, 64, Nanos::from_ms(300))).collect()
        }
        "cloud:gcp-pd-ssd" => {
            let cells = [
                (4_825.0, 0.0, 384.0, 581.0),
                (9_649.0, 0.0, 372.0, 522.0),
                (6_031.0, 177.0, 390.0, 555.0),
                (5_428.0, 265.0, 396.0, 608.0),
            ];
            let cells = cells.into_iter().map(|(r, w, p50, p95)| (r, w, p50, p95, FITTED));
            cells.flat_map(|cell| quantiles(cell, 64, Nanos::from_ms(4_000))).collect()
        }
        "ssd:nvme-tlc" => [4, 16, 64, 128].into_iter().map(beside_large_writes).collect(),
        "ssd:microsd-a1" => vec![
            random(true, Between(1.5, 3.0), ("application class A1, at least 1500", "R")),
            random(false, Between(0.5, 1.0), ("application class A1, at least 500", "R")),
            in_order(true, Between(60.0, 104.0), ("UHS-I, at most 104", "R")),
            in_order(false, Between(30.0, 60.0), ("video class V30, at least 30", "R")),
        ],
        "ssd:usb-stick" => vec![
            random(true, Between(1.0, 3.0), CLASS),
            random(false, Between(0.02, 0.5), CLASS),
            in_order(true, Between(100.0, 150.0), CLASS),
            in_order(false, Between(20.0, 40.0), CLASS),
        ],
        _ => limits(name).map(of_catalogue).unwrap_or_default(),
    }
}

/// The limits of a drive of the catalogue.
fn of_catalogue(limits: Limits) -> Vec<Expectation> {
    let source = ("io.cost benchmark", "F");
    let random = |what: &str, reads: f64, iops: f64| {
        Expectation::new(what, "K IOPS", Near(iops / 1e3, 0.07), source, move |m| {
            let depth = m.facts().depth.min(256);
            let warmup = 60_000;
            measure(m, &Job { reads, warmup, ..Job::reads_4k(depth, capacity(m), 60_000) }).iops / 1e3
        })
    };
    let in_order = |what: &str, read: bool, rate: f64| {
        Expectation::new(what, "MB/s", Near(rate, 0.07), source, move |m| {
            let job = Job::sequential(32, 256, read, capacity(m), 10_000);
            measure(m, &Job { warmup: 4_000, ..job }).mb_per_s
        })
    };
    vec![
        random("4K random read, saturated", 1.0, limits.random_reads_per_s),
        random("4K random write, saturated", 0.0, limits.random_writes_per_s),
        in_order("128K sequential read, depth 32", true, limits.read_mb_per_s),
        in_order("128K sequential write, depth 32", false, limits.write_mb_per_s),
    ]
}

fn beside(model: &DeviceModel, (reads_per_s, write_mb_per_s): (f64, f64), write_depth: u32, end: Nanos) -> Mixed {
    let warmup = Nanos(end.0 / 5);
    let writes = (256, false);
    let (write_sectors, random_writes) = writes;
    let mix = Mix { reads_per_s, write_mb_per_s, write_sectors, random_writes, write_depth, warmup, end };
    run(&mut *model.build(1), &mix)
}

/// The median and the 95th percentile of a cell: reads per second, MB/s written, and both in µs.
fn quantiles(
    (reads, writes, p50, p95, source): (f64, f64, f64, f64, (&'static str, &'static str)),
    depth: u32,
    end: Nanos,
) -> [Expectation; 2] {
    let what = format!("{reads:.0} reads/s beside {writes:.0} MB/s");
    [
        Expectation::new(format!("{what}, p50"), "us", Near(p50, WITHIN.0), source, move |m| {
            beside(m, (reads, writes), depth, end).p50_us
        }),
        Expectation::new(format!("{what}, p95"), "us", Near(p95, WITHIN.1), source, move |m| {
            beside(m, (reads, writes), depth, end).p95_us
        }),
    ]
}

fn toshiba() -> Vec<Expectation> {
    let cells = [
        (12.9, 0.0, 15_639.0, 31_673.0),
        (51.6, 0.0, 24_402.0, 67_168.0),
        (104.0, 0.0, 88_529.0, 263_108.0),
        (10.0, 9.1, 21_584.0, 41_746.0),
        (33.0, 27.3, 33_165.0, 80_744.0),
        (26.0, 36.4, 32_163.0, 73_644.0),
        (33.0, 45.5, 38_664.0, 94_132.0),
        (26.0, 54.7, 33_678.0, f64::NAN),
        (39.0, 54.7, 50_185.0, f64::NAN),
    ];
    let cells = cells.into_iter().map(|(r, w, p50, p95)| (r, w, p50, p95, FITTED));
    cells
        .flat_map(|cell| quantiles(cell, 32, Nanos::from_ms(100_000)))
        .filter(|expectation| !matches!(expectation.expected, Near(target, _) if target.is_nan()))
        .collect()
}

/// A stream of writes keeps its rate beside random reads, as a disk of this speed was measured to.
fn sustained(expected: Expected) -> Expectation {
    Expectation::new("written in order beside 39 reads/s, of 54.7 MB/s", "MB/s", expected, PREDICTED, |m| {
        beside(m, (39.0, 54.7), 32, Nanos::from_ms(60_000)).write_mb_per_s
    })
}

fn samsung() -> Vec<Expectation> {
    let reads = |depth: u32, sectors: u32| {
        move |m: &DeviceModel| measure(m, &Job { sectors, ..Job::reads_4k(depth, capacity(m), 40_000) })
    };
    let k = |what: &str, depth, sectors, iops: f64| {
        Expectation::new(what, "K IOPS", Near(iops, 0.05), STUDY, move |m| reads(depth, sectors)(m).iops / 1e3)
    };
    vec![
        // Less the host's 4 us.
        Expectation::new("4K random read, depth 1, p50", "us", Near(60.3, 0.05), STUDY, move |m| reads(1, 8)(m).p50_us),
        Expectation::new("4K random read, depth 1, p99", "us", Near(74.3, 0.05), STUDY, move |m| reads(1, 8)(m).p99_us),
        Expectation::new("8K random read, depth 1, p99", "us", Near(132.0, 0.05), STUDY, move |m| {
            reads(1, 16)(m).p99_us
        }),
        k("4K random read, depth 512", 512, 8, 779.0),
        k("8K random read, depth 256", 256, 16, 302.5),
        k("64K random read, depth 128", 128, 128, 32.35),
        Expectation::new(
            "4K read beside 160 MB/s of random 4K writes, p50",
            "us",
            Between(58.0, 66.0),
            ("the reads' own time: most dies are idle", "theory"),
            |m| random_writes(m).p50_us,
        ),
        Expectation::new(
            "the same, p99",
            "us",
            Between(1_000.0, 2_000.0),
            ("at most the rest of a program, and the read's own time", "theory"),
            |m| random_writes(m).p99_us,
        ),
    ]
}

fn random_writes(model: &DeviceModel) -> Mixed {
    let (warmup, end) = (Nanos::from_ms(200), Nanos::from_ms(1_500));
    let (write_sectors, random_writes) = (8, true);
    let mix = Mix {
        reads_per_s: 4_000.0,
        write_mb_per_s: 160.0,
        write_sectors,
        random_writes,
        write_depth: 128,
        warmup,
        end,
    };
    run(&mut *model.build(1), &mix)
}

/// Few reads beside as many large writes as the drive takes: the depth of the writes does not change what a read waits for.
fn beside_large_writes(depth: u32) -> Expectation {
    let what = format!("reads beside 64K writes of depth {depth}, p99");
    let source = ("a suspension, its own time and a channel's transfers", "theory");
    Expectation::new(what, "us", Between(80.0, 300.0), source, move |m| {
        let (warmup, end) = (Nanos::from_ms(50), Nanos::from_ms(400));
        let mix = Mix {
            reads_per_s: 2_000.0,
            write_mb_per_s: 1e5,
            write_sectors: 128,
            random_writes: true,
            write_depth: depth,
            warmup,
            end,
        };
        run(&mut *m.build(1), &mix).p99_us
    })
}

fn random(read: bool, expected: Expected, source: (&'static str, &'static str)) -> Expectation {
    let what = format!("4K random {}, depth 1", if read { "read" } else { "write" });
    Expectation::new(what, "K IOPS", expected, source, move |m| {
        let reads = if read { 1.0 } else { 0.0 };
        measure(m, &Job { reads, ..Job::reads_4k(1, capacity(m), 4_000) }).iops / 1e3
    })
}

fn in_order(read: bool, expected: Expected, source: (&'static str, &'static str)) -> Expectation {
    let what = format!("512K sequential {}, depth 1", if read { "read" } else { "write" });
    Expectation::new(what, "MB/s", expected, source, move |m| {
        measure(m, &Job::sequential(1, 1024, read, capacity(m), 1_000)).mb_per_s
    })
}
