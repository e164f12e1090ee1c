//! Phases that want different schedulers: every fixed scheduler, `adaptive`, and an oracle that knows the phase.

use dumbwaiter_measure::{RunResult, Sample};

use super::row;
use crate::replicates::{Runs, case, replicated};
use crate::{Case, Effort, Error, FigureResult};

pub(super) const FIXED: [&str; 5] = ["none", "mq-deadline", "bfq", "kyber", "headway"];
/// Linux's choice for a device with one hardware queue.
const DEFAULT: usize = 1;
pub(super) const ADAPTIVE: [&str; 3] = ["adaptive:by=model", "adaptive:by=trial", "adaptive"];
/// All of them.
pub(super) const ARMS: usize = FIXED.len() + ADAPTIVE.len();
/// An oracle that is better than the best fixed scheduler by this share shows that phases want different ones.
const WORTH_IT: f64 = 0.06;

/// A schedule of phases of fixed work; its figure is the throughput of the whole.
struct Schedule {
    name: &'static str,
    device: &'static str,
    /// Keys of the whole scenario.
    head: &'static str,
    /// Kinds of phases in their order, by letter.
    order: &'static str,
    /// Each kind: its letter, and its task without a length of work.
    kinds: &'static [(char, &'static str)],
    /// The length of work of each kind: the key, and its value, which is divided in a quick look.
    work: &'static [(char, &'static str, u32, &'static str)],
}

/// That of `scenarios/phases-disk.toml`, on which settings were chosen.
const TUNED: Schedule = Schedule {
    name: "phases-disk",
    device: "hdd:hts541010a9e662",
    head: "queue_depth = 4\n",
    order: "RSSRRSRS",
    kinds: &[
        ('R', "count = 8\nrw = \"randread\"\nbs = \"4k\"\niodepth = 4\n"),
        ('S', "count = 6\nrw = \"read\"\nbs = \"64k\"\noffset = \"5%\"\noffset_increment = \"15%\"\nsize = \"10%\"\n"),
    ],
    work: &[('R', "number_ios", 500, ""), ('S', "io_size", 560, "m")],
};

/// Other loads, orders, seeds and devices. Nothing was chosen by them.
const HELD_OUT: [Schedule; 3] = [
    Schedule {
        name: "another disk, other streams",
        device: "hdd:st1000dm003",
        head: "queue_depth = 4\nseed = 7001\n",
        order: "SRRSSRSR",
        kinds: &[
            ('R', "count = 12\nrw = \"randread\"\nbs = \"8k\"\niodepth = 2\n"),
            ('S', "count = 4\nrw = \"read\"\nbs = \"128k\"\noffset_increment = \"22%\"\nsize = \"12%\"\n"),
        ],
        work: &[('R', "number_ios", 600, ""), ('S', "io_size", 1200, "m")],
    },
    Schedule {
        name: "three kinds, with writes",
        device: "hdd:hts541010a9e662",
        head: "queue_depth = 4\nseed = 9001\n",
        order: "RSWSRWSR",
        kinds: &[
            ('R', "count = 16\nrw = \"randread\"\nbs = \"4k\"\niodepth = 1\n"),
            ('S', "count = 5\nrw = \"read\"\nbs = \"64k\"\noffset_increment = \"18%\"\nsize = \"10%\"\n"),
            ('W', "count = 6\nrw = \"randrw\"\nrwmixread = 60\nbs = \"4k\"\niodepth = 4\n"),
        ],
        work: &[('R', "number_ios", 250, ""), ('S', "io_size", 700, "m"), ('W', "number_ios", 600, "")],
    },
    Schedule {
        name: "flash, where phases want the same",
        device: "ssd:850pro-256",
        head: "queue_depth = 4\nseed = 11001\n",
        order: "RSSR",
        kinds: &[
            ('R', "count = 8\nrw = \"randread\"\nbs = \"4k\"\niodepth = 4\n"),
            ('S', "count = 4\nrw = \"read\"\nbs = \"64k\"\noffset_increment = \"20%\"\nsize = \"15%\"\n"),
        ],
        work: &[('R', "number_ios", 15_000, ""), ('S', "io_size", 350, "m")],
    },
];

const READS: &str = "count = 8\nrw = \"randread\"\nbs = \"4k\"\niodepth = 4\n";
const STREAMS: &str = "count = 5\nrw = \"read\"\nbs = \"64k\"\noffset_increment = \"18%\"\nsize = \"10%\"\n";
const MIXED: &str = "count = 6\nrw = \"randrw\"\nrwmixread = 60\nbs = \"4k\"\niodepth = 4\n";

const fn steady(
    name: &'static str,
    device: &'static str,
    kinds: &'static [(char, &'static str)],
    work: &'static [(char, &'static str, u32, &'static str)],
) -> Schedule {
    Schedule { name, device, head: "queue_depth = 4\nseed = 13001\n", order: "A", kinds, work }
}

/// One load for some minutes: nothing to gain beyond the best fixed scheduler.
const STEADY: [Schedule; 6] = [
    steady("5400 rpm, reads", "hdd:hts541010a9e662", &[('A', READS)], &[('A', "number_ios", 2_000, "")]),
    steady("5400 rpm, streams", "hdd:hts541010a9e662", &[('A', STREAMS)], &[('A', "io_size", 3_000, "m")]),
    steady("5400 rpm, mixed", "hdd:hts541010a9e662", &[('A', MIXED)], &[('A', "number_ios", 3_000, "")]),
    steady("7200 rpm, reads", "hdd:st1000dm003", &[('A', READS)], &[('A', "number_ios", 3_000, "")]),
    steady("7200 rpm, streams", "hdd:st1000dm003", &[('A', STREAMS)], &[('A', "io_size", 6_000, "m")]),
    steady("flash, mixed", "ssd:850pro-256", &[('A', MIXED)], &[('A', "number_ios", 150_000, "")]),
];

impl Schedule {
    fn phase(&self, kind: char, stage: usize, share: u32) -> String {
        let task = self.kinds.iter().find(|(letter, _)| *letter == kind).map_or("", |(_, task)| task);
        let work = self.work.iter().filter(|(letter, ..)| *letter == kind);
        let work: String = work.map(|(_, key, value, unit)| length(key, value / share, unit)).collect();
        format!("[[task]]\nname = \"phase-{stage}-{kind}\"\nstage = {stage}\n{task}{work}")
    }

    fn whole(&self, share: u32) -> String {
        let phases = self.order.chars().enumerate().map(|(stage, kind)| self.phase(kind, stage, share));
        self.head.to_owned() + &phases.collect::<String>()
    }
}

fn length(key: &str, value: u32, unit: &str) -> String {
    if unit.is_empty() { format!("{key} = {value}\n") } else { format!("{key} = \"{value}{unit}\"\n") }
}

/// The schedule on which settings were chosen.
pub(super) fn phases(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let mut out = FigureResult::default();
    add(&mut out, "phases", &TUNED, effort)?;
    out.notes.push("simulated; a phase begins when the one before is done".to_owned());
    Ok(out)
}

/// The schedulers of the paper.
const SIX: [&str; 6] = ["bfq", "mq-deadline", "kyber", "deadline", "noop", "cfq"];

/// The same schedule under the paper's schedulers, and `adaptive` with these as candidates: its table knows three of them.
pub(super) fn six(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let text = TUNED.whole(effort.pick(1, 4));
    let candidates = format!("candidates={}", SIX.join("+"));
    let modes = ["by=both", "by=model", "by=trial"];
    let mut cases: Vec<Case> = Vec::new();
    for scheduler in SIX {
        cases.push(case(&text, TUNED.device, scheduler)?);
    }
    for mode in modes {
        cases.push(case(&text, TUNED.device, &format!("adaptive:{mode},{candidates}"))?);
    }
    let runs = replicated(&cases, effort.pick(5, 2), effort)?;
    let figures: Vec<f64> = runs.iter().map(Runs::mb_per_s).collect();
    let (fixed, adaptive) = figures.split_at(SIX.len());
    let best = fixed.iter().copied().fold(0.0, f64::max);
    let mean = fixed.iter().sum::<f64>() / fixed.len() as f64;
    let mut out = FigureResult::default();
    for (scheduler, ours) in SIX.iter().zip(fixed) {
        out.rows.push(row("six-schedulers", "throughput of all phases", *scheduler, *ours, "MB/s"));
    }
    for (mode, ours) in modes.iter().zip(adaptive) {
        let case = format!("adaptive:{mode}");
        out.rows.push(row("six-schedulers", "throughput of all phases", &case, *ours, "MB/s"));
        let gain = 100.0 * (ours / mean - 1.0);
        let metric = "gain over the mean of the six: more than 7.5 %";
        out.rows.push(row("six-schedulers", metric, &case, gain, "%").judged(7.5, gain > 7.5));
        let behind = 100.0 * (ours / best - 1.0);
        let metric = "difference from the best of the six: at most 3 % below it";
        out.rows.push(row("six-schedulers", metric, &case, behind, "%").ordering(behind >= -3.0));
    }
    out.notes.push("simulated; the loads are ours, not the paper's eight of RocksDB".to_owned());
    Ok(out)
}

/// Other schedules.
pub(super) fn held_out(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let mut out = FigureResult::default();
    for schedule in &HELD_OUT {
        add(&mut out, "phases-held-out", schedule, effort)?;
    }
    out.notes.push(
        "simulated; no setting was chosen by these schedules, and the table of adaptive has none of their loads"
            .to_owned(),
    );
    Ok(out)
}

/// Loads that do not change.
pub(super) fn steady_loads(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let mut out = FigureResult::default();
    for schedule in &STEADY {
        add(&mut out, "steady", schedule, effort)?;
    }
    out.notes.push(
        "simulated; the first scheduler is mq-deadline, so what is lost until a better one is found counts".to_owned(),
    );
    Ok(out)
}

fn add(out: &mut FigureResult, figure: &str, schedule: &Schedule, effort: &Effort<'_>) -> Result<(), Error> {
    let share = effort.pick(1, 4);
    let whole = schedule.whole(share);
    let mut cases: Vec<Case> = Vec::new();
    for scheduler in FIXED.iter().chain(&ADAPTIVE) {
        cases.push(case(&whole, schedule.device, scheduler)?);
    }
    // A schedule of one phase is that phase alone.
    let kinds = if schedule.order.len() > 1 { schedule.kinds } else { &[] };
    for (kind, _) in kinds {
        for scheduler in FIXED {
            cases.push(case(
                &(schedule.head.to_owned() + &schedule.phase(*kind, 0, share)),
                schedule.device,
                scheduler,
            )?);
        }
    }
    let runs = replicated(&cases, effort.pick(10, 3), effort)?;
    let (whole, single) = runs.split_at(ARMS);
    let single = if kinds.is_empty() { &whole[..FIXED.len()] } else { single };
    let times = |kind: char| schedule.order.chars().filter(|k| *k == kind).count();
    let phases = schedule.kinds.iter().map(|(kind, _)| times(*kind)).zip(single.chunks(FIXED.len()));
    Outcome { figure, name: schedule.name, whole, oracle_seconds: oracle_seconds(phases), real: false }.add_to(out);
    Ok(())
}

/// The oracle knows the phase: the best time of each kind alone, as often as it comes, and no cost of switching.
pub(super) fn oracle_seconds<'a>(phases: impl Iterator<Item = (usize, &'a [Runs])>) -> f64 {
    let least = |runs: &[Runs]| runs.iter().map(|runs| runs.median(|run| run.duration_s)).fold(f64::INFINITY, f64::min);
    phases.map(|(times, runs)| times as f64 * least(runs)).sum()
}

/// The runs of a schedule: of each arm the same number, in pairs.
pub(super) struct Outcome<'a> {
    pub(super) figure: &'a str,
    pub(super) name: &'a str,
    /// Of [`FIXED`], then of [`ADAPTIVE`].
    pub(super) whole: &'a [Runs],
    pub(super) oracle_seconds: f64,
    /// Measured on a device, where runs differ by chance too.
    pub(super) real: bool,
}

impl Outcome<'_> {
    pub(super) fn add_to(&self, out: &mut FigureResult) {
        let Outcome { figure, name, whole, .. } = *self;
        let throughput: Vec<f64> = whole.iter().map(Runs::mb_per_s).collect();
        let best = (1..FIXED.len()).fold(0, |best, i| if throughput[i] > throughput[best] { i } else { best });
        let oracle = whole[best].median(|run| run.mb_per_s * run.duration_s) / self.oracle_seconds;
        let metric = "throughput of all phases";
        for (scheduler, ours) in FIXED.iter().chain(&ADAPTIVE).zip(&throughput) {
            out.rows.push(row(figure, metric, format!("{name}, {scheduler}"), *ours, "MB/s"));
        }
        let mean = throughput[..FIXED.len()].iter().sum::<f64>() / FIXED.len() as f64;
        out.rows.push(row(figure, metric, format!("{name}, mean of the fixed ones"), mean, "MB/s"));
        let case = format!("{name}, oracle (each phase alone under its best)");
        out.rows.push(row(figure, metric, case, oracle, "MB/s"));
        let possible = oracle / throughput[best] - 1.0;
        // A ratio of two small differences: on a device it may be chance.
        let judged = !self.real;
        for (arm, scheduler) in ADAPTIVE.iter().enumerate() {
            let ours = FIXED.len() + arm;
            self.add_difference(out, scheduler, ours, best, possible);
            let over = |other: f64| 100.0 * (throughput[ours] / other - 1.0);
            let case = |what: &str| format!("{name}, {scheduler} over {what}");
            let of_default = over(throughput[DEFAULT]);
            out.rows.push(row(figure, "difference", case("the default, mq-deadline"), of_default, "%").detail());
            out.rows.push(row(figure, "difference", case("the mean of the fixed ones"), over(mean), "%").detail());
            let share = 100.0 * (throughput[ours] - throughput[best]) / (oracle - throughput[best]);
            let case = format!("{name}, {scheduler}: at least 90");
            let share_row = row(figure, "share of the oracle's gain", case, share, "%");
            if possible >= WORTH_IT {
                out.rows.push(share_row.order(judged.then_some(share >= 90.0)));
            } else if judged {
                out.rows.push(share_row.cannot("the oracle gains less than 6 %: there is nothing to have a share of"));
            }
            let exchanges = whole[ours].median(|run| {
                let of = |name: &str| run.scheduler_counters.get(name).copied().unwrap_or(0.0);
                of("policy_trial_switches") + of("policy_better_switches") + of("policy_reverts")
            });
            out.rows.push(row(figure, "exchanges", format!("{name}, {scheduler}"), exchanges, "").detail());
        }
    }

    /// The paired difference of `scheduler`, arm `ours`, from the best fixed one, and whether it is what is asked for.
    fn add_difference(&self, out: &mut FigureResult, scheduler: &str, ours: usize, best: usize, possible: f64) {
        let (gain, half) = paired(&self.whole[ours], &self.whole[best]);
        let Outcome { figure, name, .. } = self;
        let case = format!("{name}, {scheduler} over {}, the best fixed one (± {half:.2})", FIXED[best]);
        // On a device, what the interval includes may be chance.
        let most = if self.real { gain + half } else { gain };
        // Where phases want different schedulers there is something to gain; elsewhere nothing may be lost.
        let holds = if possible >= WORTH_IT { gain - half > 0.0 && gain >= 5.0 } else { most >= -1.0 };
        let known = half.is_finite().then_some(holds);
        let row = row(figure, "paired difference", case, gain, "%").order(known);
        out.rows.push(row.keyed(&format!("{name}, {scheduler} over the best fixed one")));
    }
}

/// Mean of the paired differences of throughput, per cent, and half of its 95 % interval.
fn paired(a: &Runs, b: &Runs) -> (f64, f64) {
    let of = |run: &RunResult| run.mb_per_s;
    let ratios: Vec<f64> = a.each(of).iter().zip(b.each(of)).map(|(a, b)| 100.0 * (a / b - 1.0)).collect();
    let sample = Sample::of(&ratios);
    (sample.mean, sample.ci95())
}
