//! Proportional shares and stability of tenants on a SATA SSD: CFQ, BFQ, A+CFQ and H+BFQ (2020).
//!
//! The device is anonymous and the tables of loads are missing from the text: ours are stand-ins, and only orders and
//! the few printed numbers can be compared with the paper.

mod budgets;
mod cfq;
mod generations;
mod mixes;

use crate::replicates::{case, partitions_after};
use crate::{Case, Chosen, Effort, Error, Figure, FigureResult, Paper, Row};

const NAME: &str = "fair-ssd-2020";
const SSD: &str = "ssd:sata-mlc";
const HDD: &str = "hdd:st1000dm003";
/// The loads of the paper, by our names.
const LOADS: [&str; 6] = ["ycsb-a", "ycsb-d", "fileserver", "msn", "prj", "prn"];
/// Those that stand in for traces.
const TRACES: [&str; 3] = ["msn", "prj", "prn"];
const WEIGHTS: [u32; 4] = [1, 2, 4, 5];
const CFQ: &str = "cfq";
const BFQ: &str = "bfq:v7r8,low_latency=0";
const A_CFQ: &str = "a-cfq";
const H_BFQ: &str = "h-bfq:v7r8,low_latency=0";
/// Ours, beside the paper's.
const HEADWAY: &str = "headway";
/// With their short names.
const SCHEDULERS: [(&str, &str); 5] =
    [("cfq", CFQ), ("bfq", BFQ), ("a-cfq", A_CFQ), ("h-bfq", H_BFQ), ("headway", HEADWAY)];

/// The paper.
pub(crate) const PAPER: Paper = Paper {
    name: NAME,
    title: "I/O schedulers for proportionality and stability on flash-based SSDs in multi-tenant environments (2020; SATA MLC SSD, Linux 3.18)",
    calibration: "request sizes of msn and prn, and the lengths of prn's phases, on figure 21 (370 and 270 MB/s alone, under none); the SSD is a stand-in for an anonymous one; the lengths of the phases were chosen after figures 18, 21 and 23 to 25 were seen; nothing else was fitted to shares or latencies",
    chosen: &[
        Chosen {
            name: "phases-of-prn",
            what: "the lengths of prn's phases of large and small requests, after figures 18, 21 and 23 to 25 were seen; their sizes, so that it moves 270 MB/s alone",
            without: "with phases 30 times as long of 224 KiB and 4 KiB, 144 statements hold in place of 148",
        },
        Chosen {
            name: "sizes-of-msn",
            what: "the request sizes of msn, so that it moves 370 MB/s alone",
            without: "with those of before the flash model had events (160 KiB; prn 224 and 8 KiB), msn and prn move 544 and 487 MB/s alone, and 147 statements hold in place of 148",
        },
        Chosen {
            name: "boot",
            what: "each tenant reads at random for 2 s before it is measured, so that BFQ has sized its budgets",
            without: "BFQ's slots stay at 8 MiB, a quarter as long",
        },
    ],
    real: crate::Real::No,
    figures: &[
        Figure { name: "figure-1", title: "CFQ on an SSD: bandwidth of four tenants over time", run: cfq::figure_1 },
        Figure { name: "figure-2", title: "CFQ: shares on a disk and on an SSD", run: cfq::figure_2 },
        Figure {
            name: "figures-4-8",
            title: "CFQ where the SSD has one channel, no cache, or a depth of one",
            run: cfq::figures_4_8,
        },
        Figure { name: "figure-9", title: "time at the largest depth in the device", run: cfq::figure_9 },
        Figure { name: "figure-10", title: "CFQ counting time or requests", run: cfq::figure_10 },
        Figure { name: "figure-11", title: "CFQ counting requests or sectors", run: cfq::figure_11 },
        Figure { name: "figure-14", title: "CFQ, BFQ and A+CFQ on three loads", run: generations::figure_14 },
        Figure { name: "figure-18", title: "proportionality variation and bandwidth", run: generations::figure_18 },
        Figure { name: "figure-19", title: "mean and deviation of the latency", run: generations::figure_19 },
        Figure {
            name: "figure-20",
            title: "the budget after exhaustion, 128 to 2048 sectors",
            run: budgets::figure_20,
        },
        Figure { name: "figure-21", title: "three loads alone and together, equal weights", run: mixes::figure_21 },
        Figure { name: "figures-23-25", title: "three loads together, different weights", run: mixes::figures_23_25 },
        Figure {
            name: "h-bfq",
            title: "ours: H+BFQ as in the paper, and with a budget and a charge of ours",
            run: budgets::variants,
        },
        Figure {
            name: "explanation",
            title: "ours: through what budgets change shares and waits",
            run: budgets::explanation,
        },
        Figure {
            name: "not-modelled",
            title: "statements that cannot be modelled, and why",
            run: |_| Ok(FigureResult::default()),
        },
    ],
};

fn row(figure: &str, metric: &str, case: impl Into<String>, ours: f64, unit: &str) -> Row {
    Row::new(NAME, figure, metric, case, ours, unit)
}

/// Seeds.
fn replicates(effort: &Effort<'_>) -> u32 {
    effort.pick(5, 3)
}

fn head(effort: &Effort<'_>, device: &str) -> String {
    let seconds = if device.starts_with("hdd") { effort.pick(120, 40) } else { effort.pick(30, 10) };
    format!("duration = \"{seconds}s\"\nwarmup = \"{}s\"", effort.pick(4, 3))
}

/// Load of each tenant before it is measured: a virtual machine boots. BFQ sizes its budgets by the drive's rate once it has seen 32 slots
/// of 20 ms or more, which every machine in use has; before, its slots are a fifth as long.
const BOOT: &str = "rw = \"randread\"\nbs = \"4k\"\niodepth = 8\nruntime = \"2s\"\n";

/// Tenants of these weights after their boot, each with its own load in a partition of its own.
fn tenants(head: &str, tenants: &[(u32, &str)]) -> String {
    partitions_after(Some(BOOT), head, tenants)
}

/// Four tenants of [`WEIGHTS`] with the same load.
fn four(load: &str, device: &str, scheduler: &str, effort: &Effort<'_>) -> Result<Case, Error> {
    let loads = WEIGHTS.map(|weight| (weight, load));
    case(&tenants(&head(effort, device), &loads), device, scheduler)
}

/// Ratio of the largest to the smallest bandwidth of the tenants within a second, the largest of the run. Seconds in
/// which one moved nothing do not count: it may not have asked.
fn widest(run: &dumbwaiter_measure::RunResult) -> f64 {
    let seconds = run.series.times.len();
    (0..seconds)
        .filter_map(|s| {
            let moved = run.series.tenants.iter().filter_map(|t| t.mb_per_s.get(s).copied());
            let (least, most) = moved.fold((f64::INFINITY, 0.0_f64), |(l, m), b| (l.min(b), m.max(b)));
            (least > 0.0).then(|| most / least)
        })
        .fold(f64::NAN, f64::max)
}

fn percent(change: f64) -> f64 {
    100.0 * (change - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_tenants_run_under_every_scheduler_and_the_widest_second_is_theirs() {
        let control = dumbwaiter_experiment::Control::default();
        let world = dumbwaiter_sim::Simulator::new(2);
        let effort = Effort::new(true, &world, &control);
        let loads = WEIGHTS.map(|weight| (weight, "msn"));
        let text = tenants("duration = \"400ms\"\nwarmup = \"2100ms\"\nseries = \"100ms\"", &loads);
        let cases: Vec<Case> = SCHEDULERS.iter().map(|(_, s)| case(&text, SSD, s).unwrap()).collect();
        let runs = crate::replicates::replicated(&cases, 2, &effort).unwrap();
        assert_eq!(runs.len(), SCHEDULERS.len());
        for (runs, (name, _)) in runs.iter().zip(SCHEDULERS) {
            assert_eq!(runs.0.len(), 2, "{name}");
            for run in &runs.0 {
                assert_eq!(run.tenants.len(), 4);
                let moved = |s: usize| run.series.tenants.iter().map(move |t| t.mb_per_s[s]);
                let ratios = (0..run.series.times.len())
                    .filter(|s| moved(*s).all(|b| b > 0.0))
                    .map(|s| moved(s).fold(0.0, f64::max) / moved(s).fold(f64::INFINITY, f64::min));
                let most = ratios.fold(f64::NAN, f64::max);
                assert!(widest(run) == most || (widest(run).is_nan() && most.is_nan()), "{name}: {most}");
            }
        }
    }

    #[test]
    fn every_load_is_a_scenario_on_every_device() {
        let control = dumbwaiter_experiment::Control::default();
        let world = dumbwaiter_sim::Simulator::new(2);
        let effort = Effort::new(true, &world, &control);
        for load in LOADS.iter().chain(&["rand-4K", "rand-32K", "rand-256K"]) {
            for device in [SSD, HDD] {
                for (_, scheduler) in SCHEDULERS {
                    let case = four(load, device, scheduler, &effort).unwrap();
                    case.scenario.validate(&|_| Ok(()), &|_| Ok(())).unwrap();
                    dumbwaiter_schedulers::Choice::parse(scheduler).unwrap();
                }
            }
        }
        for (_, device) in cfq::VARIANTS {
            dumbwaiter_devices::load(device).unwrap();
        }
    }
}
