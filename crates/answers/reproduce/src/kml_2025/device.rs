//! Phases in random order on a real file or device, through our engine with four requests in the device.

use std::sync::Arc;

use dumbwaiter_block::Nanos;
use dumbwaiter_experiment::{Cell, Failure, Stack};
use dumbwaiter_measure::RunResult;
use dumbwaiter_report::Grid;
use dumbwaiter_scenario::load::Prepared;
use dumbwaiter_scenario::{Scenario, SchedulerSpec};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::phases::{ADAPTIVE, ARMS, FIXED, Outcome, oracle_seconds};
use crate::replicates::{Runs, run_each};
use crate::{Effort, Error, FigureResult};

/// Under it a phase has the length that is asked for: it needs no time to get to know a device.
const REFERENCE: &str = "none";

/// A kind of phase: its letter, what it is, its number of tasks and their options without an amount of work.
struct Kind {
    letter: char,
    title: &'static str,
    tasks: u64,
    options: &'static str,
}

const KINDS: [Kind; 3] = [
    Kind {
        letter: 'R',
        title: "random reads of 4 KiB, 8 tasks with 4 at a time",
        tasks: 8,
        options: "rw = \"randread\"\nbs = \"4k\"\niodepth = 4\n",
    },
    Kind {
        letter: 'S',
        title: "6 sequential streams of 64 KiB",
        tasks: 6,
        options: "rw = \"read\"\nbs = \"64k\"\noffset = \"5%\"\noffset_increment = \"15%\"\nsize = \"10%\"\n",
    },
    Kind {
        letter: 'W',
        title: "random reads and writes of 4 KiB, 6 tasks with 4 at a time",
        tasks: 6,
        options: "rw = \"randrw\"\nrwmixread = 60\nbs = \"4k\"\niodepth = 4\n",
    },
];

/// Work is a multiple of the largest I/O.
const UNIT_BYTES: u64 = 64 << 10;

/// Plan of a device's runs: kinds that it allows, the work of a phase of each, and the phases of each in a run.
struct Plan<'a> {
    kinds: Vec<(&'a Kind, u64)>,
    /// Phases of each kind in a run.
    times: usize,
    seed: u64,
}

impl Plan<'_> {
    /// The letters of a repeat's phases in their order.
    fn order(&self, repeat: u32) -> String {
        let mut letters: Vec<char> =
            self.kinds.iter().flat_map(|(kind, _)| std::iter::repeat_n(kind.letter, self.times)).collect();
        // Not the sum: repeat 1 of seed 1 would be repeat 0 of seed 2.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed.wrapping_mul(1 << 20) ^ u64::from(repeat));
        for last in (1..letters.len()).rev() {
            letters.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
        }
        letters.into_iter().collect()
    }

    fn scenario(&self, phases: &str) -> String {
        let mut text = head(self.seed);
        for (stage, letter) in phases.chars().enumerate() {
            let found = self.kinds.iter().find(|(kind, _)| kind.letter == letter);
            text += &found.map_or(String::new(), |(kind, bytes)| phase(kind, stage, *bytes));
        }
        text
    }
}

fn head(seed: u64) -> String {
    // TOML has no number above that of an i64.
    format!("queue_depth = 4\nseed = {}\n", seed & (i64::MAX as u64))
}

fn phase(kind: &Kind, stage: usize, bytes: u64) -> String {
    let Kind { letter, tasks, options, .. } = kind;
    let work = (bytes / tasks / UNIT_BYTES).max(1) * UNIT_BYTES;
    format!(
        "[[task]]\nname = \"phase-{stage}-{letter}\"\nstage = {stage}\ncount = {tasks}\n{options}io_size = {work}\n"
    )
}

fn cell(text: &str, scheduler: &str, replicate: u32) -> Result<Cell, Error> {
    let scenario = Scenario::from_toml(text, "phases").map_err(|error| Error::Case(error.to_string()))?;
    let load = Arc::new(Prepared::new(&scenario).map_err(Failure::from)?);
    let scheduler = SchedulerSpec::parse(scheduler).map_err(Error::Case)?;
    Ok(Cell { replicate, ..Cell::of(&load, "", Stack::Engine, scheduler) })
}

/// Every fixed scheduler and `adaptive` on phases in an order that each repeat draws anew, and each kind of phase alone.
pub(super) fn phases(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let mut out = FigureResult::default();
    let length = effort.on_device.phase.unwrap_or_else(|| effort.pick(Nanos::from_secs(10), Nanos::from_secs(1)));
    let Some(plan) = plan(length, effort, &mut out)? else { return Ok(out) };
    let repeats = effort.replicates_on_device(3);
    let kinds: Vec<char> = plan.kinds.iter().map(|(kind, _)| kind.letter).collect();
    let mut cells = Vec::new();
    for repeat in 0..repeats {
        let whole = plan.scenario(&plan.order(repeat));
        for scheduler in FIXED.iter().chain(&ADAPTIVE) {
            cells.push(cell(&whole, scheduler, repeat)?);
        }
        for kind in &kinds {
            let alone = plan.scenario(&kind.to_string());
            for scheduler in FIXED {
                cells.push(cell(&alone, scheduler, repeat)?);
            }
        }
    }
    let each = ARMS + kinds.len() * FIXED.len();
    let (runs, notes) = run_each(cells, effort)?;
    out.notes.extend(notes);
    // Pairs need both, so a repeat that was not finished does not count.
    let finished = |runs: &[Option<RunResult>]| runs.iter().cloned().collect::<Option<Vec<RunResult>>>();
    let repeats: Vec<(u32, Vec<RunResult>)> =
        (0..).zip(runs.chunks(each)).filter_map(|(repeat, runs)| Some((repeat, finished(runs)?))).collect();
    if repeats.is_empty() {
        return Ok(out);
    }
    let of = |i: usize| Runs(repeats.iter().map(|(_, runs)| runs[i].clone()).collect());
    let whole: Vec<Runs> = (0..ARMS).map(of).collect();
    let alone: Vec<Runs> = (ARMS..each).map(of).collect();
    let oracle_seconds = oracle_seconds(alone.chunks(FIXED.len()).map(|runs| (plan.times, runs)));
    let name = format!("{} phases in random order", kinds.len() * plan.times);
    Outcome { figure: "phases", name: &name, whole: &whole, oracle_seconds, real: true }.add_to(&mut out);
    out.tables.push(by_repeat(&plan, &repeats));
    out.tables.push(by_kind(&plan, &alone));
    out.notes.push(
        "a phase begins when the one before is done; four requests in the device; the oracle is no run of its own: what it knows, \
         when phases begin, no scheduler is told"
            .to_owned(),
    );
    Ok(out)
}

/// Measures how much work a phase of each kind is on this device. `None`: nothing could be measured, and the notes say why.
fn plan<'a>(length: Nanos, effort: &Effort<'_>, out: &mut FigureResult) -> Result<Option<Plan<'a>>, Error> {
    let seed = effort.on_device.seed;
    let (warmup, duration) = (length.0 / 5, length.0);
    let mut cells = Vec::new();
    // Twice, and the faster run counts: a device that stood still once says little.
    for kind in KINDS.iter().flat_map(|kind| [kind, kind]) {
        let text = format!("warmup = \"{warmup}ns\"\nduration = \"{duration}ns\"\n{}", head(seed));
        let task = format!("[[task]]\nname = \"{}\"\ncount = {}\n{}", kind.letter, kind.tasks, kind.options);
        cells.push(cell(&(text + &task), REFERENCE, cells.len() as u32 % 2)?);
    }
    let (runs, notes) = run_each(cells, effort)?;
    out.notes.extend(notes);
    if effort.failure().is_some() || effort.control.cancelled() {
        return Ok(None);
    }
    let seconds = length.0 as f64 / 1e9;
    let mut kinds = Vec::new();
    for (kind, runs) in KINDS.iter().zip(runs.chunks(2)) {
        let rate = runs.iter().flatten().map(|run| run.mb_per_s).fold(0.0, f64::max);
        if rate <= 0.0 {
            continue;
        }
        kinds.push((kind, (rate * 1e6 * seconds) as u64));
        let title = kind.title;
        out.notes
            .push(format!("{}: {title}; under {REFERENCE} {rate:.1} MB/s, of which a phase is {length}", kind.letter));
    }
    Ok((!kinds.is_empty()).then_some(Plan { kinds, times: effort.pick(4, 2), seed }))
}

/// MB/s of every arm in each repeat, with its order of phases.
fn by_repeat(plan: &Plan<'_>, repeats: &[(u32, Vec<RunResult>)]) -> Grid {
    let header = std::iter::once("phases").chain(FIXED).chain(ADAPTIVE).map(str::to_owned).collect();
    let cells = |(repeat, runs): &(u32, Vec<RunResult>)| {
        let rates = runs[..ARMS].iter().map(|run| format!("{:.1}", run.mb_per_s));
        std::iter::once(plan.order(*repeat)).chain(rates).collect()
    };
    Grid { title: "Each repeat, MB/s".to_owned(), header, rows: repeats.iter().map(cells).collect() }
}

/// Seconds of each kind of phase alone under every fixed scheduler.
fn by_kind(plan: &Plan<'_>, alone: &[Runs]) -> Grid {
    let header = std::iter::once("phase").chain(FIXED).map(str::to_owned).collect();
    let cells = |((kind, _), runs): (&(&Kind, u64), &[Runs])| {
        let seconds = runs.iter().map(|runs| format!("{:.2}", runs.median(|run| run.duration_s)));
        std::iter::once(kind.letter.to_string()).chain(seconds).collect()
    };
    let rows = plan.kinds.iter().zip(alone.chunks(FIXED.len())).map(cells).collect();
    Grid { title: "Each kind of phase alone, seconds".to_owned(), header, rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(seed: u64) -> Plan<'static> {
        Plan { kinds: KINDS.iter().map(|kind| (kind, 10 << 20)).collect(), times: 4, seed }
    }

    #[test]
    fn each_repeat_has_its_own_order_of_the_same_phases_and_the_seed_decides_which() {
        let orders: Vec<String> = (0..10).map(|repeat| plan(3).order(repeat)).collect();
        for order in &orders {
            for kind in &KINDS {
                assert_eq!(order.chars().filter(|letter| *letter == kind.letter).count(), 4, "{order}");
            }
        }
        let mut distinct = orders.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 10, "{orders:?}");
        assert_eq!(orders, (0..10).map(|repeat| plan(3).order(repeat)).collect::<Vec<_>>());
        assert!((0..10).all(|repeat| plan(4).order(repeat) != orders[repeat as usize]));
    }

    #[test]
    fn the_work_of_a_phase_is_what_was_measured_whatever_the_order() {
        let text = plan(1).scenario("WRS");
        let scenario = Scenario::from_toml(&text, "phases").unwrap();
        assert_eq!((scenario.queue_depth, scenario.tasks().count()), (Some(4), 3), "{text}");
        // 10 MiB over 8 tasks are 20 units, over 6 tasks 26.
        assert!(
            text.contains("stage = 1\ncount = 8") && text.contains(&format!("io_size = {}\n", 20 * UNIT_BYTES)),
            "{text}"
        );
        assert_eq!(text.matches(&format!("io_size = {}\n", 26 * UNIT_BYTES)).count(), 2, "{text}");
        // However slow a device is, a phase has work.
        assert!(phase(&KINDS[0], 0, 0).contains("io_size = 65536\n"));
        assert!(Scenario::from_toml(&plan(u64::MAX).scenario("R"), "phases").is_ok());
    }
}
