//! Figures of the hard disks.

use dumbwaiter_block::{Nanos, Op, TenantId};

use super::Expected::{Between, Near};
use super::{Expectation, capacity, measure, with};
use crate::closed_loop::{Job, run_with};
use crate::hdd::mean_seek_ms;
use crate::rng::Stage;
use crate::{Command, DeviceModel, Params};

const COMMANDS: u64 = 20_000;
const DEPTHS: [u32; 6] = [1, 2, 4, 8, 16, 32];
const REFERENCE: (&str, &str) = ("reference implementation", "ref");
/// Sectors of the 8 GB span of the reviews.
const SPAN_8GB: u64 = 15_625_000;
const READ_128K: u32 = 256;

pub(super) fn expectations(name: &str) -> Vec<Expectation> {
    match name {
        "hdd:st1000dm003" => barracuda(),
        "hdd:st1000dm003-slow" => slow_barracuda(),
        "hdd:hts541010a9e662" => travelstar(),
        "hdd:exos-x16" => exos(),
        "hdd:smr-16tb" => shingled(),
        _ => Vec::new(),
    }
}

fn barracuda() -> Vec<Expectation> {
    let mut expectations = vec![
        rate("outer", 0.0, Near(210.0, 0.03), ("data sheet", "D")),
        rate("middle", 0.5, Near(165.0, 0.05), REFERENCE),
        rate("inner", 1.0, Near(107.0, 0.03), REFERENCE),
        average(Near(156.0, 0.02), ("data sheet", "D")),
        ratio(),
        read_mean(Near(12.7, 0.03), ("data sheet, 8.5 + 4.16 ms", "D")),
        seek(Near(8.5, 0.01), ("data sheet", "D")),
        span(Near(152.0, 0.03)),
    ];
    let alike = ("writes stream as reads do", "E");
    expectations.push(Expectation::new("cached sequential write, outer", "MB/s", Near(210.0, 0.05), alike, |m| {
        let job = Job { warmup: 4_000, ..Job::sequential(1, READ_128K, false, capacity(m), 4_000) };
        measure(m, &job).mb_per_s
    }));
    expectations.push(Expectation::new(
        "cached 4K random write, 8 GB span",
        "IOPS",
        Near(293.0, 0.30),
        ("review of the 3 TB sibling", "D"),
        |m| measure(m, &Job { warmup: 10_000, ..Job::writes_4k(1, SPAN_8GB, COMMANDS) }).iops,
    ));
    expectations.extend(curve(&[78.6, 92.5, 108.0, 125.0, 145.0, 169.0]));
    expectations.push(window_12(136.0));
    expectations.extend(read_ahead());
    expectations.extend(turns());
    expectations.push(gain());
    expectations
}

fn slow_barracuda() -> Vec<Expectation> {
    let mut expectations = vec![
        read_mean(Near(17.5, 0.04), ("measured sibling", "D")),
        seek(Near(13.0, 0.01), ("fitted to a measured sibling", "F")),
    ];
    expectations.push(Expectation::new(
        "random 4K read, depth 32",
        "IOPS",
        Near(94.0, 0.10),
        ("measured sibling", "D"),
        |m| measure(m, &Job::reads_4k(32, capacity(m), COMMANDS)).iops,
    ));
    expectations.extend([10u32, 30, 100].into_iter().map(|n| {
        let expected = Near(28.0 + 9.4 * f64::from(n), 0.30);
        let source = ("measured sibling, 28 + 9.4 n ms, file system included", "D");
        Expectation::new(format!("flush after {n} scattered 4K cached writes"), "ms", expected, source, move |m| {
            flush_ms(m, n)
        })
    }));
    // The drive's own window is 12; the reference curve has a window as wide as the depth.
    expectations.extend(curve(&[58.1, 67.0, 76.6, 87.1, 97.2, 106.0]));
    expectations.push(window_12(93.1));
    expectations.push(gain());
    expectations
}

fn travelstar() -> Vec<Expectation> {
    let mut expectations = vec![
        read_mean(Near(17.6, 0.04), ("family OEM specification, 12 + 5.56 ms", "D")),
        seek(Near(12.0, 0.01), ("family OEM specification", "D")),
        rate("outer", 0.0, Near(118.0, 0.12), ("no primary source", "E")),
        rate("middle", 0.5, Near(94.0, 0.05), REFERENCE),
        rate("inner", 1.0, Near(64.0, 0.05), REFERENCE),
        average(Near(90.0, 0.12), ("no primary source", "E")),
        span(Near(111.0, 0.03)),
    ];
    expectations.push(Expectation::new(
        "synchronous sequential 4K reads, look-ahead off: one per revolution",
        "reads/s",
        Near(90.0, 0.01),
        ("physics", "theory"),
        |m| measure(&with(m, "lookahead=false"), &Job::sequential(1, 8, true, capacity(m), 4_000)).iops,
    ));
    expectations.extend(curve(&[56.8, 67.0, 78.0, 90.1, 105.0, 122.0]));
    expectations.push(window_12(98.1));
    expectations.push(gain());
    expectations
}

fn exos() -> Vec<Expectation> {
    let manual = ("product manual", "R");
    vec![
        rate("outer", 0.0, Near(261.0, 0.03), manual),
        ratio(),
        random_at_16("read", 1.0, Near(170.0, 0.05), manual),
        random_at_16("write", 0.0, Near(440.0, 0.30), manual),
        gain(),
    ]
}

fn random_at_16(
    what: &str,
    reads: f64,
    expected: super::Expected,
    source: (&'static str, &'static str),
) -> Expectation {
    Expectation::new(format!("random 4K {what}, depth 16"), "IOPS", expected, source, move |m| {
        measure(m, &Job { reads, warmup: 4_000, ..Job::reads_4k(16, capacity(m), COMMANDS) }).iops
    })
}

/// A persistent cache that the measurements can fill, MiB.
const SMALL_SMR_CACHE: &str = "smr_cache_gib=0.0625";

fn shingled() -> Vec<Expectation> {
    let alike = ("reads and streams as of hdd:exos-x16", "theory");
    let estimate = ("appends are cheaper than writes in place", "E");
    let paper = ("Skylight, FAST 2015: writes drop to a few per second once the cache is full", "R");
    vec![
        rate("outer", 0.0, Near(261.0, 0.03), alike),
        random_at_16("read", 1.0, Near(170.0, 0.05), alike),
        Expectation::new("sequential write of whole bands, outer", "MB/s", Near(261.0, 0.06), alike, |m| {
            measure(m, &Job { warmup: 4_000, ..Job::sequential(1, READ_128K, false, capacity(m), 8_000) }).mb_per_s
        }),
        Expectation::new(
            "random 4K write into the persistent cache / CMR",
            "ratio",
            Between(1.0, 20.0),
            estimate,
            |m| {
                let job = Job { warmup: 4_000, ..Job::writes_4k(1, capacity(m), 8_000) };
                measure(m, &job).iops / measure(&with(m, "smr_cache_gib=0"), &job).iops
            },
        ),
        Expectation::new("random 4K write, cache full", "IOPS", Between(1.0, 20.0), paper, |m| {
            let job = Job { warmup: 24_000, ..Job::writes_4k(1, capacity(m), 1_000) };
            measure(&with(m, SMALL_SMR_CACHE), &job).iops
        }),
    ]
}

/// MB/s of 128 KiB reads from sector `start` on.
fn stream(model: &DeviceModel, start: u64, commands: u64) -> f64 {
    let span = commands * 2 * u64::from(READ_128K);
    let job = Job { start, warmup: 8, ..Job::sequential(1, READ_128K, true, span, commands) };
    measure(model, &job).mb_per_s
}

/// Sector at `share` of the capacity, with room for a stream after it.
fn place(model: &DeviceModel, share: f64) -> u64 {
    ((capacity(model) - 2_000_000) as f64 * share) as u64
}

fn rate(at: &str, share: f64, expected: super::Expected, source: (&'static str, &'static str)) -> Expectation {
    let what = format!("sequential read, {at}");
    Expectation::new(what, "MB/s", expected, source, move |m| stream(m, place(m, share), 2_000))
}

fn ratio() -> Expectation {
    Expectation::new("inner / outer rate", "ratio", Between(0.48, 0.52), ("usual zoning", "E"), |m| {
        stream(m, place(m, 1.0), 2_000) / stream(m, 0, 2_000)
    })
}

fn average(expected: super::Expected, source: (&'static str, &'static str)) -> Expectation {
    Expectation::new("sequential read, whole disk", "MB/s", expected, source, |m| {
        // Times of equal ranges of sectors add up.
        let stretches = 90;
        let times = (0..stretches).map(|i| 1.0 / stream(m, place(m, (f64::from(i) + 0.5) / 90.0), 400));
        f64::from(stretches) / times.sum::<f64>()
    })
}

fn read_mean(expected: super::Expected, source: (&'static str, &'static str)) -> Expectation {
    Expectation::new("random 4K read, depth 1, mean", "ms", expected, source, |m| {
        measure(m, &Job::reads_4k(1, capacity(m), COMMANDS)).mean_us / 1e3
    })
}

fn seek(expected: super::Expected, source: (&'static str, &'static str)) -> Expectation {
    Expectation::new("weighted mean seek", "ms", expected, source, |m| match m.params() {
        Params::Hdd(p) => mean_seek_ms(p),
        _ => 0.0,
    })
}

fn span(expected: super::Expected) -> Expectation {
    Expectation::new("random 4K read, depth 1, 8 GB span", "IOPS", expected, REFERENCE, |m| {
        measure(m, &Job::reads_4k(1, SPAN_8GB, COMMANDS)).iops
    })
}

fn curve(iops: &[f64; 6]) -> impl Iterator<Item = Expectation> {
    DEPTHS.into_iter().zip(*iops).map(|(depth, iops)| {
        let what = format!("random 4K read, depth {depth}, window as wide");
        Expectation::new(what, "IOPS", Near(iops, 0.03), REFERENCE, move |m| {
            measure(&with(m, "rpo_window=32"), &Job::reads_4k(depth, capacity(m), COMMANDS)).iops
        })
    })
}

fn window_12(iops: f64) -> Expectation {
    Expectation::new("random 4K read, depth 32, window 12", "IOPS", Near(iops, 0.03), REFERENCE, |m| {
        measure(&with(m, "rpo_window=12"), &Job::reads_4k(32, capacity(m), COMMANDS)).iops
    })
}

fn gain() -> Expectation {
    let source = ("consumer 1.7, enterprise 2.4", "D");
    Expectation::new("random 4K read, depth 32 / depth 1", "ratio", Between(1.6, 2.4), source, |m| {
        let iops = |depth| measure(m, &Job::reads_4k(depth, capacity(m), 5 * COMMANDS)).iops;
        iops(32) / iops(1)
    })
}

const READERS: u64 = 10;

/// First sector of the n-th 128 KiB read of a reader's file. The files lie around the place where the disk reaches the
/// 174 MB/s of the reference, with unequal gaps: equal gaps would lock to the rotation.
fn reader_sector(model: &DeviceModel, reader: u64, n: u64) -> u64 {
    let gap = Stage::new(1, 8).bits(reader) % 4_000_000;
    capacity(model) / 3 + reader * 30_000_000 + gap + n * u64::from(READ_128K)
}

/// Ten synchronous sequential readers at once, first come first served. The reference gives the rates as approximate,
/// from a mean positioning time of 7.5 ms.
fn read_ahead() -> impl Iterator<Item = Expectation> {
    [(128, 16.0), (256, 29.0), (512, 50.0), (1024, 77.0)].into_iter().map(|(kib, rate)| {
        let what = format!("ten sequential readers, first come first served, {kib} KiB per positioning");
        Expectation::new(what, "MB/s", Near(rate, 0.25), REFERENCE, move |m| {
            let model = with(m, &format!("rpo_window=1&read_ahead_min_kib={kib}"));
            let mut reads = [0; READERS as usize];
            run_with(&mut *model.build(1), READERS as u32, 200, 3_000, |_, tag| {
                let n = &mut reads[tag as usize];
                *n += 1;
                (Op::Read, reader_sector(&model, u64::from(tag), *n), READ_128K)
            })
            .mb_per_s
        })
    })
}

/// The same readers with exclusive turns.
fn turns() -> impl Iterator<Item = Expectation> {
    [(4, 134.0), (16, 159.0)].into_iter().map(|(mb, rate)| {
        let what = format!("ten sequential readers, turns of {mb} MB");
        Expectation::new(what, "MB/s", Near(rate, 0.05), REFERENCE, move |m| {
            let turn = mb * 1_000_000 / (u64::from(READ_128K) * 512);
            let ask = |n: u64, _| {
                let (round, reader) = (n / turn / READERS, n / turn % READERS);
                (Op::Read, reader_sector(m, reader, round * turn + n % turn), READ_128K)
            };
            run_with(&mut *m.build(1), 1, READERS * turn, 6 * READERS * turn, ask).mb_per_s
        })
    })
}

/// Milliseconds of a flush after `n` cached writes over 8 GB.
fn flush_ms(model: &DeviceModel, n: u32) -> f64 {
    let mut total = 0.0;
    let rounds = 20;
    for round in 0..rounds {
        let place = Stage::new(round, 9);
        let mut device = model.build(round);
        let (mut now, mut done) = (Nanos::ZERO, Vec::new());
        let command =
            |tag, op, sector, sectors| Command { tag, op, fua: false, sector, sectors, queue: 0, tenant: TenantId(0) };
        for i in 0..=n {
            let asked = now;
            if i < n {
                let sector = place.bits(u64::from(i)) % (SPAN_8GB / 8) * 8;
                device.submit(now, &command(i, Op::Write, sector, 8));
            } else {
                device.submit(now, &command(i, Op::Flush, 0, 0));
            }
            while done.is_empty() {
                now = device.next_event().expect("a command is outstanding");
                device.advance(now, &mut done);
            }
            done.clear();
            if i == n {
                total += now.since(asked).as_secs_f64() * 1e3;
            }
        }
    }
    total / rounds as f64
}
