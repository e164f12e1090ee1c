//! A study of Linux's schedulers on NVMe drives (ICPE 2024): some of its numbers beside predictions, and the orders that its figures show.

mod orders;

use dumbwaiter_fidelity::measured::{LoadKind, MeasuredAgainst, MeasuredOptions, host, measured_text};

use crate::{Chosen, Effort, Error, Figure, FigureResult, Paper, Row};
use orders::{ORDERS, Predictions};

const NAME: &str = "icpe-2024";
/// The study's numbers, in the form of `fidelity --measured`.
const PUBLISHED: &str = include_str!("published.csv");
/// The study's drive and its host.
const DRIVE: &str = "ssd:980pro-1tb";
const HOST: &str = "icpe24";
/// The study's processors.
const CPUS: u16 = 10;
/// By which factor predictions may be off: I/Os per second, p99 and processor time of one kind of readers, and of loads that
/// compete.
const IOPS_WITHIN: [f64; 2] = [1.15, 1.25];
const P99_WITHIN: [f64; 2] = [1.25, 2.0];
const CPU_WITHIN: f64 = 1.25;

/// The study.
pub(crate) const PAPER: Paper = Paper {
    name: NAME,
    title: "Ren et al., BFQ, Multiqueue-Deadline, or Kyber? Performance Characterization of Linux Storage Schedulers in the NVMe Era, ICPE 2024",
    calibration: "drive and host are fitted to figure 1, in parts to others: see Beside real drives in the manual; the rest is predicted",
    chosen: &[
        Chosen {
            name: "drive-and-host",
            what: "the reads of `ssd:980pro-1tb` and the parts of an I/O of `icpe24`, fitted to figure 1; another drive than the last 150 ns more, from it too; a large read 28 ns a KiB more, from it beside figure 2",
            without: "figure 1 is no prediction; all other figures use the same constants",
        },
        Chosen {
            name: "hooks",
            what: "what hooks of mq-deadline, kyber and bfq cost, from the study's CPU times",
            without: "figure 2 is no prediction of theirs",
        },
        Chosen {
            name: "lock",
            what: "a hand-over of the scheduler's lock, fitted to two to five processes of figure 7, and moved from 400 to 420 ns after all of it had been seen",
            without: "with 12 % more for each that waits, mq-deadline makes 1.66 times the measured I/Os on ten CPUs",
        },
        Chosen {
            name: "preemption",
            what: "a reader that sleeps takes the CPU from a process that never does, as in Linux until 6.5; built after figure 11a",
            without: "not measured",
        },
        Chosen {
            name: "writes",
            what: "the writes of `ssd:980pro-1tb`, fitted to table 2 and partly to figure 11c",
            without: "not measured",
        },
        Chosen {
            name: "slowest-drive",
            what: "one of eight drives is 10 % slower in reads, read off figure 12a beside 16 and 32 processes",
            without: "of figure 12a six p99 that hold fail (2.1 to 2.2 ms for 17 to 29), and the throughput is 10 % higher",
        },
        Chosen {
            name: "order-of-reads",
            what: "the controller takes a read whole, in the order of arrival, and when it is full one of each queue in turn; built after figure 12a",
            without: "not measured",
        },
        Chosen {
            name: "cpus-and-tags",
            what: "processes and the workers of their rings go to idle CPUs, and a queue of bfq above its share has four tags of 256, as in Linux until 6.17; built after figure 12a, without a number of it",
            without: "without this, and with a full controller in the order of arrival, 79 % of the p99 of all 52 rows of figure 12a are within a factor of two, with it 96 %",
        },
    ],
    real: crate::Real::No,
    figures: &[
        Figure { name: "baseline", title: "figure 1: reads without a scheduler", run: baseline },
        Figure { name: "one-cpu", title: "figures 2 and 3: readers on one CPU", run: one_cpu },
        Figure { name: "cores", title: "figure 7: readers on ten CPUs", run: cores },
        Figure {
            name: "interference",
            title: "figures 11 and 12: a reader beside readers and writers",
            run: interference,
        },
    ],
};

fn baseline(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    figure("baseline", &["1a"], effort)
}

fn one_cpu(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    figure("one-cpu", &["2", "3"], effort)
}

fn cores(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    figure("cores", &["7"], effort)
}

fn interference(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    figure("interference", &["11a", "11c", "12a"], effort)
}

fn figure(name: &str, figures: &[&str], effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let refused = |error: dumbwaiter_fidelity::MeasuredError| Error::Case(error.to_string());
    let options = MeasuredOptions {
        devices: vec![(None, DRIVE.to_owned())],
        host: host(Some(HOST), Some(CPUS)).map_err(refused)?,
        seconds: None,
        warmup: None,
        effort: effort.pick(1.0, 0.3),
        replicates: 1,
        figures: figures.iter().map(|name| (*name).to_owned()).collect(),
        verdicts: false,
        scheduler: "none".to_owned(),
    };
    let found =
        measured_text(PUBLISHED, "icpe_2024/published.csv", &options, effort.world, effort.control).map_err(refused)?;
    if found.cancelled {
        return Err(Error::Cancelled);
    }
    let mut out = FigureResult::default();
    for row in &found.rows {
        out.rows.extend(rows(name, row));
    }
    let predictions = Predictions(&found.rows);
    for order in ORDERS.iter().filter(|order| figures.contains(&order.figure)) {
        if let Some((value, holds)) = (order.holds)(&predictions) {
            let case = format!("figure {}, {}", order.figure, order.case);
            out.rows.push(Row::new(NAME, name, order.says, case, value, "").ordering(holds));
        }
    }
    out.notes.push(format!(
        "on {DRIVE}, with the host {HOST} of {CPUS} CPUs; the orders are what the figures show, in our words"
    ));
    let mut notes: Vec<&String> = found.rows.iter().filter_map(|row| row.note.as_ref()).collect();
    notes.dedup();
    out.notes.extend(notes.into_iter().cloned());
    Ok(out)
}

/// Rows of one job: its I/Os per second and p99, and the processor time where it runs alone.
fn rows(name: &str, row: &MeasuredAgainst) -> Vec<Row> {
    let case = format!("figure {}, {}, {}, {}", row.figure, row.condition, row.scheduler, row.role);
    let competes = usize::from(matches!(row.load, LoadKind::ReadsBesideReads | LoadKind::ReadsBesideWrites));
    let f = &row.figures;
    let figures = [
        ("I/Os per second", "IOPS", f.iops_measured, f.iops_predicted, IOPS_WITHIN[competes]),
        ("p99", "us", f.p99_us_measured, f.p99_us_predicted, P99_WITHIN[competes]),
        ("CPU per I/O", "us", f.cpu_us_measured, f.cpu_us_predicted, CPU_WITHIN),
    ];
    let one = |(metric, unit, measured, predicted, within): (&str, &str, Option<f64>, Option<f64>, f64)| {
        let (predicted, measured) = (predicted?, measured?);
        let near = predicted <= measured * within && predicted * within >= measured;
        let found = Row::new(NAME, name, metric, &case, predicted, unit).judged(measured, near);
        Some(if row.figure == "1a" { found.calibrated() } else { found })
    };
    figures.into_iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dumbwaiter_experiment::Control;
    use dumbwaiter_sim::Simulator;

    #[test]
    fn the_orders_hold_in_the_published_numbers() {
        let options = MeasuredOptions {
            devices: Vec::new(),
            host: host(None, Some(CPUS)).unwrap(),
            seconds: None,
            warmup: None,
            effort: 1.0,
            replicates: 1,
            figures: Vec::new(),
            verdicts: false,
            scheduler: "none".to_owned(),
        };
        // Without a device no row is run, and the measured numbers stand where predictions would.
        let (world, control) = (Simulator::new(1), Control::default());
        let mut rows = measured_text(PUBLISHED, "published.csv", &options, &world, &control).unwrap().rows;
        for row in &mut rows {
            row.figures.iops_predicted = row.figures.iops_measured;
            row.figures.p99_us_predicted = row.figures.p99_us_measured;
            row.figures.cpu_us_predicted = row.figures.cpu_us_measured;
        }
        let published = Predictions(&rows);
        assert_eq!(ORDERS.len(), 11);
        for order in &ORDERS {
            let (value, holds) = (order.holds)(&published).unwrap_or_else(|| panic!("{}: no numbers", order.says));
            assert!(holds, "{}: {value}", order.says);
        }
    }
}
