//! Schedulers on an Optane P4801X: latency, throughput and energy of none, mq-deadline, Kyber and BFQ (2023).

use dumbwaiter_measure::{R230, RunResult};
use dumbwaiter_scenario::{Completion, Scenario, SchedulerSpec};

use crate::replicates::{Runs, measured, run};
use crate::{Case, Chosen, Effort, Error, Figure, FigureResult, Paper, Row};
use dumbwaiter_experiment::{Cell, DbBench, Stack, Work};
use sweep::{CPU, ENERGY, GETS, IOPS, MEDIAN, Measure, NAME, READS, SCHEDULERS, Swept, TAIL, WRITES};

mod sweep;

const DEVICE: &str = "ull:optane-p4801x";
const STEPS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// The paper.
pub(crate) const PAPER: Paper = Paper {
    name: NAME,
    title: "Linux I/O schedulers on an ultra-low-latency SSD: performance and energy (2023; Optane P4801X, Linux 5.18)",
    calibration: "ten constants of host and schedulers on table 1 (16 numbers); the lock's contention on \"around 200 J\"; the powers of cores on 52 W; the rest is predicted",
    chosen: &[
        Chosen {
            name: "host",
            what: "ten constants of host and schedulers, fitted to the 16 numbers of table 1",
            without: "table 1 has no prediction left but six degrees of freedom; all other figures use the same constants",
        },
        Chosen {
            name: "lock",
            what: "how much a contended lock costs more, chosen so that none saves around 200 J per million I/Os against bfq",
            without: "not measured",
        },
        Chosen {
            name: "core-power",
            what: "the powers of cores, chosen on 52 W between full load and idle, and on the order of figure 3 of poll-2022",
            without: "not measured",
        },
        Chosen {
            name: "rocksdb-load",
            what: "the form of a get: 12 µs of the application, which take no CPU, then 8 or 12 KiB; with a cache 64 % of the gets find their pages",
            without: "not measured",
        },
    ],
    real: crate::Real::Kernel,
    figures: &[
        Figure { name: "table-1", title: "median latency of 4 KB reads and writes at depth 1", run: table_1 },
        Figure { name: "figure-1", title: "IOPS of one tenant, depth 1 to 128", run: figure_1 },
        Figure { name: "figure-2", title: "IOPS of 1 to 128 tenants", run: figure_2 },
        Figure { name: "figure-3", title: "energy of one tenant, depth 1 to 128", run: figure_3 },
        Figure { name: "figure-4", title: "energy of 1 to 128 tenants", run: figure_4 },
        Figure { name: "mixed-4k-8k", title: "IOPS where half of the tenants read 4 KB, half 8 KB", run: mixed },
        Figure { name: "figure-5", title: "RocksDB readrandom, 1 to 128 threads", run: figure_5 },
    ],
};

fn case(scheduler: &str, head: &str, tasks: &str) -> Result<Case, Error> {
    let text = format!("{head}\n[host]\ncpus = 8\nprofile = \"r230-5.18\"\n{tasks}");
    let scenario = Scenario::from_toml(&text, NAME).map_err(|e| Error::Case(e.to_string()))?;
    Ok(Case { scenario, device: DEVICE.to_owned(), scheduler: scheduler.to_owned() })
}

fn task(name: &str, count: u32, settings: &str) -> String {
    format!("[[task]]\nname = \"{name}\"\ncount = {count}\nnorandommap = true\n{settings}\n")
}

fn table_1(effort: &Effort<'_>) -> Result<FigureResult, Error> {
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
    let (warmup, duration) = effort.lengths(0, effort.pick(2000, 200));
    let mut cases = Vec::new();
    for scheduler in SCHEDULERS {
        for (_, rw, method) in columns {
            let head = format!("warmup = \"{warmup}ms\"\nduration = \"{duration}ms\"\ncompletion = [\"{method}\"]");
            cases.push(case(
                scheduler,
                &head,
                &task("t", 1, &format!("rw = \"{rw}\"\nbs = \"4k\"\nioengine = \"psync\"")),
            )?);
        }
    }
    let (runs, mut notes) = measured(&cases, effort.replicates(1), effort)?;
    let median = |scheduler: usize, column: usize| runs[scheduler * columns.len() + column].mean(|r| r.latency_us.p50);
    let mut rows = Vec::new();
    for (c, (column, _, _)) in columns.iter().enumerate() {
        let holds = match [0, 1, 2, 3].map(|s| median(s, c)) {
            [Some(none), Some(deadline), Some(kyber), Some(bfq)] => {
                Some(none < deadline.min(kyber) && deadline.max(kyber) < bfq)
            }
            _ => None,
        };
        for (s, scheduler) in SCHEDULERS.iter().enumerate() {
            let Some(ours) = median(s, c) else { continue };
            let row = Row::new(NAME, "table-1", "median latency", format!("{column}, {scheduler}"), ours, "µs");
            rows.push(row.value(paper[s][c], 0.03).order(holds).calibrated());
        }
    }
    if !effort.real() {
        rows.extend(added(&columns.map(|c| c.0), &|s, c| median(s, c).unwrap_or(f64::NAN)));
    }
    notes.push("the order is none below mq-deadline and kyber (either way round) below bfq".to_owned());
    Ok(FigureResult { rows, notes, ..FigureResult::default() })
}

/// What the text says of the differences in table 1: what each scheduler adds to none, and what 'performance' saves.
fn added(columns: &[&str; 4], median: &dyn Fn(usize, usize) -> f64) -> Vec<Row> {
    // What table 1 has for each column, less none's.
    const ADDED: [[f64; 4]; 3] = [[0.87, 1.10, 0.51, 0.64], [0.92, 0.69, 0.52, 0.71], [2.49, 2.88, 1.60, 1.99]];
    let row = |metric: &str, case: String, ours: f64| Row::new(NAME, "table-1", metric, case, ours, "µs");
    let mut rows = Vec::new();
    for (c, column) in columns.iter().enumerate() {
        for (s, scheduler) in SCHEDULERS.iter().enumerate().skip(1) {
            let (ours, paper) = (median(s, c) - median(0, c), ADDED[s - 1][c]);
            let metric = "median latency that the scheduler adds: within 0.3 µs";
            let near = (ours - paper).abs() <= 0.3;
            rows.push(row(metric, format!("{column}, {scheduler}"), ours).judged(paper, near).calibrated());
        }
    }
    for (c, kind) in ["read", "write"].into_iter().enumerate() {
        for (s, scheduler) in SCHEDULERS.iter().enumerate() {
            let ours = median(s, c) - median(s, c + 2);
            let metric = "median latency that 'performance' saves: about 5 µs (within 1)";
            let near = (ours - 5.0).abs() <= 1.0;
            rows.push(row(metric, format!("{kind}, {scheduler}"), ours).judged(5.0, near).calibrated());
        }
    }
    rows
}

/// Tasks of one point of a sweep, for a number.
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

/// Sweeps a load over [`STEPS`] under all schedulers. Answers also its runs, in the order of kind, step and scheduler.
fn sweep(
    figure: &str,
    x: &str,
    kinds: &[(&str, &str, Load)],
    measures: &[&Measure],
    effort: &Effort<'_>,
) -> Result<(FigureResult, Vec<Runs>), Error> {
    let (warmup, duration) = effort.lengths(20, effort.pick(400, 60));
    let head = format!("warmup = \"{warmup}ms\"\nduration = \"{duration}ms\"");
    let steps = effort.steps(&STEPS);
    let mut cases = Vec::new();
    for (_, rw, load) in kinds {
        for n in &steps {
            for scheduler in SCHEDULERS {
                cases.push(case(scheduler, &head, &load(rw, *n))?);
            }
        }
    }
    let (runs, notes) = measured(&cases, effort.replicates(1), effort)?;
    let names: Vec<&str> = kinds.iter().map(|k| k.0).collect();
    let swept = Swept { figure, x, kinds: &names, steps: &steps, real: effort.real() };
    let mut out = swept.judged(measures, &runs);
    out.notes.extend(notes);
    Ok((out, runs))
}

const MIXES: [(&str, &str); 3] =
    [("reads", "randread"), ("writes", "randwrite"), ("half reads, half writes", "randrw")];

fn mixes(load: Load) -> [(&'static str, &'static str, Load); 3] {
    MIXES.map(|(name, rw)| (name, rw, load))
}

/// On a real device what the CPU did is known too.
fn throughput(effort: &Effort<'_>) -> &'static [&'static Measure] {
    if effort.real() { &[&IOPS, &CPU] } else { &[&IOPS, &MEDIAN, &TAIL, &READS, &WRITES] }
}

fn figure_1(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    Ok(sweep("figure-1", "depth", &mixes(one_tenant), throughput(effort), effort)?.0)
}

fn figure_2(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    Ok(sweep("figure-2", "tenants", &mixes(tenants), throughput(effort), effort)?.0)
}

fn figure_3(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    if let Some(left_out) = effort.without_meter() {
        return Ok(left_out);
    }
    let (mut out, runs) = sweep("figure-3", "depth", &mixes(one_tenant), &[&ENERGY], effort)?;
    out.rows.extend(gap("figure-3", &runs));
    Ok(out)
}

fn figure_4(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    if let Some(left_out) = effort.without_meter() {
        return Ok(left_out);
    }
    let (mut out, runs) = sweep("figure-4", "tenants", &mixes(tenants), &[&ENERGY], effort)?;
    out.rows.extend(gap("figure-4", &runs));
    // Power of a real machine after the run is not measured.
    if !effort.real() {
        let watts = |r: &RunResult| r.energy.as_ref().map_or(0.0, |e| e.joules / r.duration_s);
        let load = runs.iter().map(|r| r.most(watts)).fold(0.0, f64::max) - R230.idle_w;
        let row =
            Row::new(NAME, "figure-4", "power at full I/O load less that after the run", "highest of all", load, "W");
        out.rows.push(row.value(52.0, 0.2).calibrated());
    }
    Ok(out)
}

/// The most that none saves against bfq.
fn gap(figure: &str, runs: &[Runs]) -> Option<Row> {
    let saved = |at: &[Runs]| Some(at[3].mean(ENERGY.of)? - at[0].mean(ENERGY.of)?);
    let most = runs.chunks(SCHEDULERS.len()).filter_map(saved).reduce(f64::max)?;
    let row = Row::new(NAME, figure, "energy that none saves against bfq", "largest of all", most, ENERGY.unit);
    Some(row.value(200.0, 0.5).calibrated())
}

fn mixed(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let kinds: [(&str, &str, Load); 1] = [("reads of 4 KB and 8 KB", "randread", half_and_half)];
    Ok(sweep("mixed-4k-8k", "tenants", &kinds, throughput(effort), effort)?.0)
}

fn figure_5(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    if effort.real() {
        return rocksdb(effort);
    }
    let kinds: [(&str, &str, Load); 2] =
        [("every get reads", "", readrandom), ("36 % of the gets read", "", readrandom_cached)];
    let mut out = sweep("figure-5", "threads", &kinds, &[&IOPS, &ENERGY], effort)?.0;
    out.notes.push(
        "our form of the load: a pause of 12 µs a get, which takes no CPU here, then 8 KiB (75 %) or 12 KiB (25 %)"
            .to_owned(),
    );
    Ok(out)
}

/// RocksDB itself, its reads past the page cache, so that every get reaches the device.
fn rocksdb(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let seconds = effort.pick(5, 1);
    let steps = effort.steps(&STEPS);
    let mut cells = Vec::new();
    for threads in &steps {
        cells.extend(SCHEDULERS.map(|scheduler| Cell {
            work: Work::DbBench(DbBench { threads: *threads, seconds }),
            device: String::new(),
            stack: Stack::Kernel,
            scheduler: SchedulerSpec::named(scheduler),
            completion: Completion::Interrupt,
            replicate: 0,
            variant: String::new(),
        }));
    }
    let (runs, notes) = run(&cells, effort.replicates(1), effort)?;
    if runs.iter().all(|r| r.0.is_empty()) {
        return Ok(FigureResult { notes, ..FigureResult::default() });
    }
    let swept = Swept { figure: "figure-5", x: "threads", kinds: &["every get reads"], steps: &steps, real: true };
    let measures: &[&Measure] = if effort.metered() { &[&IOPS, &GETS, &CPU, &ENERGY] } else { &[&IOPS, &GETS, &CPU] };
    let mut out = swept.judged(measures, &runs);
    out.notes.extend(notes);
    out.notes.push(
        "db_bench readrandom with direct reads, keys of 16 bytes, values of 4096, no compression; IOPS are the device's own count"
            .to_owned(),
    );
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_latencies_and_their_order() {
        let control = dumbwaiter_experiment::Control::default();
        let world = dumbwaiter_sim::Simulator::new(2);
        let effort = Effort::new(true, &world, &control);
        let rows = table_1(&effort).unwrap().rows;
        assert_eq!(rows.len(), 16 + 12 + 8);
        for row in rows.into_iter().take(16) {
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
