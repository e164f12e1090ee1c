//! Schedulers on an Optane P4801X: latency, throughput and energy of none, mq-deadline, Kyber and BFQ (2023).

use dumbwaiter_measure::{R230, RunResult};
use dumbwaiter_report::{Plot, PlotLine};
use dumbwaiter_scenario::Scenario;

use crate::{Case, Effort, Error, Figure, FigureResult, Paper, Progress, Row};

const NAME: &str = "ull-2023";
const DEVICE: &str = "ull:optane-p4801x";
const SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];
const STEPS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// Figures nearer than this are a tie.
const TIE: f64 = 0.02;

/// The paper.
pub(crate) const PAPER: Paper = Paper {
    name: NAME,
    title: "Linux I/O schedulers on an ultra-low-latency SSD: performance and energy (2023; Optane P4801X, Linux 5.18)",
    calibration: "ten constants of host and schedulers on table 1 (16 numbers); the lock's contention on \"around 200 J\"; the powers of cores on 52 W; the rest is predicted",
    figures: &[
        Figure { name: "table-1", title: "median latency of 4 KB reads and writes at depth 1", run: table_1 },
        Figure { name: "figure-1", title: "IOPS of one tenant, depth 1 to 128", run: figure_1 },
        Figure { name: "figure-2", title: "IOPS of 1 to 128 tenants", run: figure_2 },
        Figure { name: "figure-3", title: "energy of one tenant, depth 1 to 128", run: figure_3 },
        Figure { name: "figure-4", title: "energy of 1 to 128 tenants", run: figure_4 },
        Figure { name: "mixed-4k-8k", title: "IOPS where half of the tenants read 4 KB, half 8 KB", run: mixed },
        Figure {
            name: "figure-5",
            title: "RocksDB readrandom in its form on the device, 1 to 128 threads",
            run: figure_5,
        },
    ],
};

fn case(scheduler: &str, head: &str, tasks: &str) -> Result<Case, Error> {
    let text = format!("{head}\n[host]\ncpus = 8\nprofile = \"r230-5.18\"\n{tasks}");
    let scenario = Scenario::from_toml(&text, NAME).map_err(|e| Error::Case(e.to_string()))?;
    Ok(Case { scenario, device: DEVICE.to_owned(), scheduler: scheduler.to_owned(), replicate: 0 })
}

fn task(name: &str, count: u32, settings: &str) -> String {
    format!("[[task]]\nname = \"{name}\"\ncount = {count}\nnorandommap = true\n{settings}\n")
}

fn table_1(effort: &Effort<'_>, progress: &mut dyn FnMut(Progress)) -> Result<FigureResult, Error> {
    // Default reads and writes, 'performance' reads and writes.
    let paper = [
        [12.52, 16.55, 7.81, 12.19],
        [13.39, 17.65, 8.32, 12.83],
        [13.44, 17.24, 8.33, 12.90],
        [15.01, 19.43, 9.41, 14.18],
    ];
    let columns = [
        ("default, read", "randread", "interrupt"),
        ("default, write", "randwrite", "interrupt"),
        ("performance, read", "randread", "sqpoll"),
        ("performance, write", "randwrite", "sqpoll"),
    ];
    let milliseconds = effort.pick(2000, 200);
    let mut cases = Vec::new();
    for scheduler in SCHEDULERS {
        for (_, rw, method) in columns {
            let head = format!("duration = \"{milliseconds}ms\"\ncompletion = [\"{method}\"]");
            cases.push(case(
                scheduler,
                &head,
                &task("t", 1, &format!("rw = \"{rw}\"\nbs = \"4k\"\nioengine = \"psync\"")),
            )?);
        }
    }
    let runs = effort.simulate(&cases, progress)?;
    let median = |scheduler: usize, column: usize| runs[scheduler * columns.len() + column].latency_us.p50;
    let mut rows = Vec::new();
    for (c, (column, _, _)) in columns.iter().enumerate() {
        let [none, deadline, kyber, bfq] = [0, 1, 2, 3].map(|s| median(s, c));
        let holds = none < deadline.min(kyber) && deadline.max(kyber) < bfq;
        for (s, scheduler) in SCHEDULERS.iter().enumerate() {
            let row = Row::new(NAME, "table-1", "median latency", format!("{column}, {scheduler}"), median(s, c), "µs");
            rows.push(row.value(paper[s][c], 0.03).ordering(holds).calibrated());
        }
    }
    let notes = vec!["the order is none below mq-deadline and kyber (either way round) below bfq".to_owned()];
    Ok(FigureResult { rows, notes, ..FigureResult::default() })
}

/// What one point of a sweep runs: its tasks for a number.
type Load = fn(rw: &str, n: u32) -> String;

fn one_tenant(rw: &str, n: u32) -> String {
    task("t", 1, &format!("rw = \"{rw}\"\nbs = \"4k\"\niodepth = {n}"))
}

fn tenants(rw: &str, n: u32) -> String {
    task("t", n, &format!("rw = \"{rw}\"\nbs = \"4k\""))
}

fn half_and_half(rw: &str, n: u32) -> String {
    let small = task("small", n.div_ceil(2), &format!("rw = \"{rw}\"\nbs = \"4k\""));
    let large = task("large", n / 2, &format!("rw = \"{rw}\"\nbs = \"8k\""));
    if n > 1 { small + &large } else { small }
}

/// A get: 12 µs of the application, then a read that two or three blocks of 4 KB hold.
fn readrandom(_: &str, n: u32) -> String {
    task("get", n, "rw = \"randread\"\nbssplit = \"8k/75:12k/25\"\nthinktime = 12\nsize = \"87GB\"")
}

/// The same where 64 % of the gets find their pages in memory: 12 µs for each of 1 / 0.36 gets.
fn readrandom_cached(_: &str, n: u32) -> String {
    task("get", n, "rw = \"randread\"\nbssplit = \"8k/75:12k/25\"\nthinktime = 33\nsize = \"87GB\"")
}

/// A figure that is better the higher, or the lower, it is.
struct Measure {
    name: &'static str,
    unit: &'static str,
    more: bool,
    of: fn(&RunResult) -> f64,
}

const IOPS: Measure = Measure { name: "throughput", unit: "IOPS", more: true, of: |r| r.iops };
const ENERGY: Measure = Measure {
    name: "energy",
    unit: "J per million I/Os",
    more: false,
    of: |r| r.energy.as_ref().map_or(f64::NAN, |e| e.j_per_mio),
};

/// Sweeps a load over [`STEPS`] under all schedulers; one row per point: none's figure, and whether it is best or tied.
/// Answers also the gap between none and bfq in each measure.
fn sweep(
    figure: &str,
    x: &str,
    kinds: &[(&str, &str, Load)],
    measures: &[&Measure],
    effort: &Effort<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(FigureResult, Vec<RunResult>), Error> {
    let head = format!("warmup = \"20ms\"\nduration = \"{}ms\"", effort.pick(400, 60));
    let mut cases = Vec::new();
    for (_, rw, load) in kinds {
        for n in STEPS {
            for scheduler in SCHEDULERS {
                cases.push(case(scheduler, &head, &load(rw, n))?);
            }
        }
    }
    let runs = effort.simulate(&cases, progress)?;
    let mut out = FigureResult::default();
    for ((kind, _, _), runs) in kinds.iter().zip(runs.chunks(STEPS.len() * SCHEDULERS.len())) {
        for measure in measures {
            let points: Vec<Vec<f64>> =
                runs.chunks(SCHEDULERS.len()).map(|at| at.iter().map(measure.of).collect()).collect();
            for (n, point) in STEPS.iter().zip(&points) {
                let none = point[0];
                let holds = point[1..]
                    .iter()
                    .all(|other| if measure.more { none >= other * (1.0 - TIE) } else { none <= other * (1.0 + TIE) });
                let metric = format!("{}: none is best or tied", measure.name);
                out.rows
                    .push(Row::new(NAME, figure, &metric, format!("{kind}, {n}"), none, measure.unit).ordering(holds));
            }
            let lines = SCHEDULERS.iter().enumerate().map(|(s, name)| PlotLine {
                name: (*name).to_owned(),
                x: STEPS.map(f64::from).to_vec(),
                y: points.iter().map(|p| p[s]).collect(),
            });
            out.plots.push(Plot {
                title: format!("{}, {kind}", measure.name),
                x: x.to_owned(),
                y: measure.unit.to_owned(),
                lines: lines.collect(),
            });
        }
    }
    out.notes.push("the text prints no values of this figure; a tie is within 2 %".to_owned());
    Ok((out, runs))
}

const MIXES: [(&str, &str); 3] =
    [("reads", "randread"), ("writes", "randwrite"), ("half reads, half writes", "randrw")];

fn mixes(load: Load) -> [(&'static str, &'static str, Load); 3] {
    MIXES.map(|(name, rw)| (name, rw, load))
}

fn figure_1(effort: &Effort<'_>, progress: &mut dyn FnMut(Progress)) -> Result<FigureResult, Error> {
    Ok(sweep("figure-1", "depth", &mixes(one_tenant), &[&IOPS], effort, progress)?.0)
}

fn figure_2(effort: &Effort<'_>, progress: &mut dyn FnMut(Progress)) -> Result<FigureResult, Error> {
    Ok(sweep("figure-2", "tenants", &mixes(tenants), &[&IOPS], effort, progress)?.0)
}

fn figure_3(effort: &Effort<'_>, progress: &mut dyn FnMut(Progress)) -> Result<FigureResult, Error> {
    let (mut out, runs) = sweep("figure-3", "depth", &mixes(one_tenant), &[&ENERGY], effort, progress)?;
    out.rows.push(gap("figure-3", &runs));
    Ok(out)
}

fn figure_4(effort: &Effort<'_>, progress: &mut dyn FnMut(Progress)) -> Result<FigureResult, Error> {
    let (mut out, runs) = sweep("figure-4", "tenants", &mixes(tenants), &[&ENERGY], effort, progress)?;
    out.rows.push(gap("figure-4", &runs));
    let watts = |r: &RunResult| r.energy.as_ref().map_or(0.0, |e| e.joules / r.duration_s);
    let load = runs.iter().map(watts).fold(0.0, f64::max) - R230.idle_w;
    let row = Row::new(NAME, "figure-4", "power at full I/O load less that after the run", "highest of all", load, "W");
    out.rows.push(row.value(52.0, 0.2).calibrated());
    Ok(out)
}

/// The most that none saves against bfq.
fn gap(figure: &str, runs: &[RunResult]) -> Row {
    let saved = |at: &[RunResult]| (ENERGY.of)(&at[3]) - (ENERGY.of)(&at[0]);
    let most = runs.chunks(SCHEDULERS.len()).map(saved).fold(f64::MIN, f64::max);
    Row::new(NAME, figure, "energy that none saves against bfq", "largest of all", most, ENERGY.unit)
        .value(200.0, 0.5)
        .calibrated()
}

fn mixed(effort: &Effort<'_>, progress: &mut dyn FnMut(Progress)) -> Result<FigureResult, Error> {
    let kinds: [(&str, &str, Load); 1] = [("reads of 4 KB and 8 KB", "randread", half_and_half)];
    Ok(sweep("mixed-4k-8k", "tenants", &kinds, &[&IOPS], effort, progress)?.0)
}

fn figure_5(effort: &Effort<'_>, progress: &mut dyn FnMut(Progress)) -> Result<FigureResult, Error> {
    let kinds: [(&str, &str, Load); 2] =
        [("every get reads", "", readrandom), ("36 % of the gets read", "", readrandom_cached)];
    let mut out = sweep("figure-5", "threads", &kinds, &[&IOPS, &ENERGY], effort, progress)?.0;
    out.notes.push(
        "our form of the load: a pause of 12 µs a get, which takes no CPU here, then 8 KiB (75 %) or 12 KiB (25 %)"
            .to_owned(),
    );
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_latencies_and_their_order() {
        let control = dumbwaiter_sim::Control::default();
        let effort = Effort { quick: true, jobs: 2, control: &control };
        let rows = table_1(&effort, &mut |_| {}).unwrap().rows;
        assert_eq!(rows.len(), 16);
        for row in rows {
            assert!(row.within_tolerance == Some(true) && row.ordering_holds == Some(true), "{row:?}");
        }
    }

    #[test]
    fn every_load_is_a_scenario() {
        for load in [one_tenant, tenants, half_and_half, readrandom, readrandom_cached] {
            for n in STEPS {
                let case = case("none", "duration = \"1ms\"", &load("randread", n)).unwrap();
                let known = |_: &str| Ok(());
                case.scenario.validate(&known, &known).unwrap();
            }
        }
    }
}
