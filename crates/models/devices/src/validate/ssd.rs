//! Figures of the flash SSDs.

use dumbwaiter_block::Op;

use super::Expected::{Between, Near};
use super::{Expectation, Expected, capacity, measure, with};
use crate::closed_loop::{Job, run_with};
use crate::rng::Stage;
use crate::ssd::steady_write_amplification;
use crate::{DeviceModel, Params};

const COMMANDS: u64 = 50_000;
const DEPTHS: [u32; 6] = [1, 2, 4, 8, 16, 32];
const REFERENCE: (&str, &str) = ("reference implementation", "ref");
const FIG_8: (&str, &str) = ("SSD proportionality paper, Fig. 8: orderings", "P");
const RATED: (&str, &str) = ("data sheet", "D");
const RECALLED: (&str, &str) = ("data sheet", "R");

/// Long because it has one arm for each drive.
pub(super) fn expectations(name: &str) -> Vec<Expectation> {
    let mut expectations = Vec::new();
    match name {
        "ssd:px256m5s" => {
            let review = ("Tom's Hardware 2012", "D");
            expectations.push(random("fresh, ", true, 32, Near(73.888, 0.03), review));
            expectations.push(random("fresh, ", false, 32, Near(69.346, 0.03), review));
            expectations.push(sequential(true, Near(520.0, 0.03), ("rated", "R")));
            expectations.push(sequential(false, Near(390.0, 0.03), ("rated", "R")));
            expectations.push(random("", true, 1, Between(5.5, 6.5), ("class value", "E")));
            expectations.extend(curve(true, &[6.1, 12.2, 23.8, 42.9, 64.8, 74.0]));
            expectations.extend(curve(false, &[25.0, 51.0, 69.0, 69.0, 69.0, 69.0]));
        }
        "ssd:850pro-256" => {
            expectations.push(random("", true, 1, Near(10.0, 0.05), RATED));
            expectations.push(random("", true, 32, Near(100.0, 0.05), RATED));
            expectations.push(random("", false, 1, Near(36.0, 0.05), RATED));
            expectations.push(random("", false, 32, Near(90.0, 0.05), RATED));
            expectations.push(sequential(true, Near(550.0, 0.03), RATED));
            expectations.push(sequential(false, Near(520.0, 0.03), RATED));
            let evo = ("measured 850 EVO", "D");
            expectations.push(Expectation::new(
                "4K read, depth 1, against the 850 EVO",
                "µs",
                Near(88.7, 0.15),
                evo,
                |m| measure(m, &Job::reads_4k(1, capacity(m), COMMANDS)).mean_us,
            ));
            expectations.push(random("against the 850 EVO, ", true, 32, Near(98.4, 0.15), evo));
            let what = "4K reads, depth 32, next to a job that writes and flushes: change";
            expectations.push(Expectation::new(what, "%", Between(-97.0, -85.0), evo, beside_flushes));
            expectations.extend(curve(true, &[10.3, 20.5, 39.9, 71.4, 98.1, 100.0]));
            expectations.extend(curve(false, &[36.0, 72.0, 91.0, 91.0, 91.0, 91.0]));
        }
        "ssd:pm893-960" => {
            expectations.push(random("", true, 32, Near(98.0, 0.03), RECALLED));
            expectations.push(steady(32, Near(30.0, 0.15), RECALLED));
            expectations.push(sequential(true, Near(550.0, 0.03), RECALLED));
            expectations.push(sequential(false, Near(520.0, 0.05), RECALLED));
        }
        "ssd:990evo-plus-2tb" => {
            let shop = ("data sheet, as a shop quotes it", "D");
            expectations.push(random("", true, 512, Near(1_000.0, 0.05), shop));
            expectations.push(random("in the SLC cache, ", false, 512, Near(1_350.0, 0.05), shop));
            expectations.push(sequential(true, Near(7_250.0, 0.03), shop));
            expectations.push(sequential(false, Near(6_300.0, 0.08), shop));
            expectations.push(random("", true, 1, Between(15.0, 22.0), ("class value", "E")));
        }
        "ssd:d5-p5430" => {
            let press = ("data sheet, as the press quotes it", "D");
            expectations.push(random("", true, 256, Near(971.0, 0.03), press));
            expectations.push(steady(256, Near(120.0, 0.25), press));
            expectations.push(sequential(true, Near(7_000.0, 0.03), press));
            expectations.push(sequential(false, Near(3_000.0, 0.05), press));
        }
        "ssd:sata-mlc" => {
            expectations.extend(curve(true, &[8.0, 15.9, 31.1, 55.9, 81.9, 87.0]));
            expectations.extend(switches());
            expectations.push(orderings());
            let what = "4K 95/5 with reads first and suspension: cache off / on";
            expectations.push(Expectation::new(what, "ratio", Between(0.85, 1.01), FIG_8, |m| {
                let m = with(m, "suspend=program+erase&read_first=true");
                mixed(&m, "cache=off", 1) / mixed(&m, "cache=on", 1)
            }));
            expectations.extend(amplification());
        }
        _ => {}
    }
    if matches!(name, "ssd:px256m5s" | "ssd:850pro-256" | "ssd:sata-mlc") {
        expectations.extend(beyond_the_queue());
    }
    expectations
}

fn direction(read: bool) -> &'static str {
    if read { "read" } else { "write" }
}

fn random_job(read: bool, depth: u32, span: u64) -> Job {
    let reads = if read { 1.0 } else { 0.0 };
    Job { reads, ..Job::reads_4k(depth, span, COMMANDS) }
}

fn random(note: &str, read: bool, depth: u32, expected: Expected, source: (&'static str, &'static str)) -> Expectation {
    let what = format!("{note}4K random {}, depth {depth}", direction(read));
    Expectation::new(what, "K IOPS", expected, source, move |m| {
        measure(m, &random_job(read, depth, capacity(m))).iops / 1e3
    })
}

/// Pages of the blocks with which the steady state is measured.
const STEADY_PAGES: u32 = 8;

/// Random writes to a drive that has been overwritten until garbage collection is stable.
fn steady(depth: u32, expected: Expected, source: (&'static str, &'static str)) -> Expectation {
    Expectation::new(format!("steady 4K random write, depth {depth}"), "K IOPS", expected, source, move |m| {
        let Params::Ssd(p) = m.params() else { return 0.0 };
        // Small blocks and a small map reach their steady state quickly; amplification depends on the spare part alone.
        let erase = p.t_erase_us * f64::from(STEADY_PAGES) / f64::from(p.pages_per_block);
        let scaled = format!("state=steady&ftl_gib=1&pages_per_block={STEADY_PAGES}&t_erase_us={erase}");
        let job = Job { warmup: 300_000, commands: 600_000, ..random_job(false, depth, capacity(m)) };
        measure(&with(m, &scaled), &job).iops / 1e3
    })
}

fn sequential(read: bool, expected: Expected, source: (&'static str, &'static str)) -> Expectation {
    let what = format!("128K sequential {}, depth 32", direction(read));
    Expectation::new(what, "MB/s", expected, source, move |m| {
        measure(m, &Job::sequential(32, 256, read, capacity(m), 10_000)).mb_per_s
    })
}

fn curve(read: bool, thousands: &[f64; 6]) -> impl Iterator<Item = Expectation> {
    DEPTHS.into_iter().zip(*thousands).map(move |(depth, k)| {
        let what = format!("reference curve, 4K random {}, depth {depth}", direction(read));
        Expectation::new(what, "K IOPS", Near(k, 0.05), REFERENCE, move |m| {
            measure(m, &random_job(read, depth, capacity(m))).iops / 1e3
        })
    })
}

/// Commands beyond the queue depth of the device wait in the host.
fn beyond_the_queue() -> impl Iterator<Item = Expectation> {
    [(64, 2.0), (128, 4.0)].into_iter().flat_map(|(depth, times)| {
        let source = ("limit of the protocol", "theory");
        let run = |m: &DeviceModel, depth| measure(m, &random_job(true, depth, capacity(m)));
        [
            Expectation::new(
                format!("4K read, IOPS at depth {depth} / 32"),
                "ratio",
                Near(1.0, 0.01),
                source,
                move |m| run(m, depth).iops / run(m, 32).iops,
            ),
            Expectation::new(
                format!("4K read, latency at depth {depth} / 32"),
                "ratio",
                Near(times, 0.01),
                source,
                move |m| run(m, depth).mean_us / run(m, 32).mean_us,
            ),
        ]
    })
}

/// Change of the rate of random 4K reads beside a second job that writes 4 KiB and flushes repeatedly, %.
fn beside_flushes(model: &DeviceModel) -> f64 {
    let alone = measure(model, &random_job(true, 32, capacity(model))).iops;
    let place = Stage::new(1, 3);
    let slots = capacity(model) / 8;
    let mut flush_next = false;
    let mut reads = 0u64;
    let outcome = run_with(&mut *model.build(1), 32, 1_000, 30_000, |n, tag| {
        let sector = place.bits(n) % slots * 8;
        if tag > 0 {
            reads += 1;
            return (Op::Read, sector, 8);
        }
        flush_next = !flush_next;
        if flush_next { (Op::Write, sector, 8) } else { (Op::Flush, 0, 0) }
    });
    let share = reads as f64 / 31_032.0;
    (outcome.iops * share / alone - 1.0) * 100.0
}

// ---- the switches of the SSD proportionality paper ----

const MIXES: [(&str, u32, f64, u64); 6] = [
    ("4K read", 8, 1.0, 60_000),
    ("4K 95/5", 8, 0.95, 60_000),
    ("4K 50/50", 8, 0.5, 60_000),
    ("32K 50/50", 64, 0.5, 15_000),
    ("256K 50/50", 512, 0.5, 6_000),
    ("4K write", 8, 0.0, 60_000),
];

/// What the link of the drive carries.
const LINK_MB_PER_S: f64 = 546.0;

const SWITCHES: [(&str, &str, [f64; 6]); 4] = [
    ("normal", "cache=on", [356.0, 205.0, 88.0, 170.0, 320.0, 328.0]),
    ("one channel", "channels=1", [110.0, 85.0, 36.0, 68.0, 93.0, 71.0]),
    ("cache off", "cache=off", [356.0, 118.0, 49.0, 170.0, 320.0, 119.0]),
    ("NCQ 1", "ncq_depth=1", [33.0, 33.0, 44.0, 142.0, 297.0, 123.0]),
];

fn mixed(model: &DeviceModel, overrides: &str, mix: usize) -> f64 {
    let (_, sectors, reads, commands) = MIXES[mix];
    let job = Job { sectors, reads, ..Job::reads_4k(32, capacity(model), commands) };
    measure(&with(model, overrides), &job).mb_per_s
}

/// The paper's text gives orderings only; these rates are those of the reference implementation, whose run lengths and
/// addresses are unknown: tolerance 10 %. It reserved channels, dies and the link for the time at which a write would have room, and
/// reads waited behind that; so it bounds the rates of reads beside writes from below, and the link does from above.
fn switches() -> impl Iterator<Item = Expectation> {
    SWITCHES.into_iter().flat_map(|(switch, overrides, rates)| {
        (0..MIXES.len()).map(move |mix| {
            let what = format!("{switch}: {}, total depth 32", MIXES[mix].0);
            let mixes = MIXES[mix].2 > 0.0 && MIXES[mix].2 < 1.0 && switch != "NCQ 1";
            let expected = if mixes { Between(rates[mix] * 0.85, LINK_MB_PER_S) } else { Near(rates[mix], 0.10) };
            Expectation::new(what, "MB/s", expected, REFERENCE, move |m| mixed(m, overrides, mix))
        })
    })
}

fn orderings() -> Expectation {
    let what = "greatest gain of bandwidth by any switch on any mix";
    Expectation::new(what, "%", Between(-100.0, 0.5), FIG_8, |m| {
        let gains = (0..MIXES.len()).flat_map(|mix| {
            let normal = mixed(m, "cache=on", mix);
            SWITCHES[1..].iter().map(move |(_, overrides, _)| (mixed(m, overrides, mix) / normal - 1.0) * 100.0)
        });
        gains.fold(-100.0, f64::max)
    })
}

// ---- write amplification ----

/// Write amplification of uniform overwrites at that over-provisioning: α / (α + W0(−α e^−α)), α = 1 + OP.
fn closed_form(over_provisioning: f64) -> f64 {
    let alpha = 1.0 + over_provisioning;
    // W0 lies in (−1, 0) and solves w e^w = −α e^−α; the left side grows with w there.
    let expected = -alpha * libm::exp(-alpha);
    let (mut low, mut high) = (-1.0f64, 0.0f64);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if middle * libm::exp(middle) < expected { low = middle } else { high = middle }
    }
    alpha / (alpha + low)
}

fn amplification() -> impl Iterator<Item = Expectation> {
    [0.07, 0.10, 0.128, 0.20, 0.28, 0.50].into_iter().map(|op| {
        let what = format!("write amplification / closed form, over-provisioning {op}");
        Expectation::new(what, "ratio", Between(0.75, 1.0), ("closed form", "theory"), move |m| {
            let scaled = "channels=1&dies_per_channel=2&planes=1&pages_per_block=32&ftl_gib=0.5";
            let scaled = with(m, &format!("{scaled}&gc_low=0&gc_high=0&gc_hard=0&over_provisioning={op}"));
            match scaled.params() {
                Params::Ssd(p) => steady_write_amplification(p) / closed_form(op),
                _ => 0.0,
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::closed_form;

    #[test]
    fn closed_form_gives_the_published_table() {
        let table = [(0.07, 7.8), (0.10, 5.7), (0.128, 4.6), (0.20, 3.2), (0.28, 2.5), (0.50, 1.7)];
        for (op, wa) in table {
            assert!((closed_form(op) - wa).abs() <= 0.051, "{op}: {}", closed_form(op));
        }
    }
}
