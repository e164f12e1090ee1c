//! Loads of flash under every fixed scheduler, by three goals: is there anything that an adaptive choice could gain?

use dumbwaiter_measure::RunResult;
use dumbwaiter_report::Grid;

use super::row;
use crate::replicates::{Runs, case, replicated};
use crate::{Case, Effort, Error, FigureResult};

const FIXED: [&str; 5] = ["none", "mq-deadline", "bfq", "kyber", "headway"];
const DEVICES: [&str; 2] = ["ssd:850pro-256", "ssd:px256m5s"];

/// Loads: a name, and tasks.
const LOADS: [(&str, &str); 4] = [
    (
        "reads beside writes",
        "[[task]]\nname = \"reads\"\ncount = 4\nrw = \"randread\"\nbs = \"4k\"\n[[task]]\nname = \"writes\"\ncount = 4\n\
         rw = \"write\"\nbs = \"128k\"\niodepth = 8\noffset_increment = \"20%\"\nsize = \"15%\"\n",
    ),
    ("reads", "[[task]]\nname = \"reads\"\ncount = 16\nrw = \"randread\"\nbs = \"4k\"\niodepth = 4\n"),
    (
        "reads beside streams",
        "[[task]]\nname = \"reads\"\ncount = 4\nrw = \"randread\"\nbs = \"4k\"\n[[task]]\nname = \"streams\"\ncount = 4\n\
         rw = \"read\"\nbs = \"512k\"\niodepth = 4\noffset_increment = \"20%\"\nsize = \"15%\"\n",
    ),
    (
        "half writes",
        "[[task]]\nname = \"mixed\"\ncount = 8\nrw = \"randrw\"\nrwmixread = 50\nbs = \"4k\"\niodepth = 8\n",
    ),
];

/// A goal: its name, its unit, its figure, and whether less is better.
type GoalFigure = (&'static str, &'static str, fn(&RunResult) -> f64, bool);

const GOALS: [GoalFigure; 3] = [
    ("throughput", "MB/s", |run| run.mb_per_s, false),
    ("mean latency", "ms", |run| run.latency_us.mean / 1e3, true),
    ("p99 latency of reads", "ms", |run| run.read.latency_us.p99 / 1e3, true),
];

/// Each load alone under each fixed scheduler, and by each goal what an oracle that knows the load would gain.
pub(super) fn goals(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let mut out = FigureResult::default();
    for device in DEVICES {
        let mut cases: Vec<Case> = Vec::new();
        for (_, tasks) in LOADS {
            let length = effort.pick(2000, 500);
            let text = format!("queue_depth = 4\nwarmup = \"300ms\"\nduration = \"{length}ms\"\nseed = 17001\n{tasks}");
            for scheduler in FIXED {
                cases.push(case(&text, device, scheduler)?);
            }
        }
        let runs = replicated(&cases, effort.pick(5, 2), effort)?;
        for goal in GOALS {
            add(&mut out, device, goal, &runs);
        }
    }
    out.notes.push(
        "simulated, four requests in the device; the gain of the oracle is the geometric mean over the loads. adaptive has no goal \
         of a percentile: a slot of a trial has too few requests for one"
            .to_owned(),
    );
    Ok(out)
}

fn add(out: &mut FigureResult, device: &str, (goal, unit, of, less): GoalFigure, runs: &[Runs]) {
    let header = std::iter::once("load").chain(FIXED).map(str::to_owned).collect();
    let mut table = Grid { title: format!("{device}: {goal}, {unit}"), header, rows: Vec::new() };
    // By fixed scheduler, the logarithm of how far it is behind the best of each load, summed.
    let mut behind = [0.0; FIXED.len()];
    for ((load, _), runs) in LOADS.iter().zip(runs.chunks(FIXED.len())) {
        let figures: Vec<f64> = runs.iter().map(|runs| runs.median(of)).collect();
        let cells = figures.iter().map(|figure| format!("{figure:.3}"));
        table.rows.push(std::iter::once((*load).to_owned()).chain(cells).collect());
        let better = |a: f64, b: f64| if less { a.min(b) } else { a.max(b) };
        let best = figures.iter().copied().reduce(better).unwrap_or(f64::NAN);
        for ((scheduler, figure), behind) in FIXED.iter().zip(&figures).zip(&mut behind) {
            *behind += (figure / best).ln().abs();
            out.rows.push(row("flash-goals", goal, format!("{device}, {load}, {scheduler}"), *figure, unit).detail());
        }
    }
    out.tables.push(table);
    let best = (1..FIXED.len()).fold(0, |best, i| if behind[i] < behind[best] { i } else { best });
    let gain = 100.0 * ((behind[best] / LOADS.len() as f64).exp() - 1.0);
    let case = format!("{device}, an oracle over {}, the best fixed one", FIXED[best]);
    out.rows.push(row("flash-goals", goal, case, gain, "%"));
}
