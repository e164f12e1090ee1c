//! Ours: headway beside the schedulers of the papers.

use crate::bfq_2015::{HDD, Launches, SSD, StartUp, background, machine};
use crate::replicates::{Runs, case, partitions, replicated};
use crate::{Case, Effort, Error, Figure, FigureResult, Paper, Row};

const NAME: &str = "headway";
const SATA: &str = "ssd:sata-mlc";

/// Not of a paper.
pub(crate) const PAPER: Paper = Paper {
    name: NAME,
    title: "Ours: headway beside the others",
    calibration: "nothing; 'ordering' says whether headway is at least as good as the others",
    chosen: &[],
    real: crate::Real::No,
    figures: &[
        Figure { name: "shares", title: "PV at several weights, against the best of the others", run: shares },
        Figure { name: "start-up", title: "start-up of an application, against BFQ", run: start_ups },
        Figure { name: "throughput", title: "throughput on SSDs, against mq-deadline", run: throughput },
    ],
};

/// headway, and those that keep shares.
const SHARING: [(&str, &str); 6] = [
    ("headway", "headway"),
    ("cfq", "cfq"),
    ("a-cfq", "a-cfq"),
    ("bfq", "bfq:v7r8,low_latency=0"),
    ("bfq mainline", "bfq:mainline,low_latency=0"),
    ("h-bfq", "h-bfq:v7r8,low_latency=0,max_budget=16384,slow_charge=0"),
];
const LOADS: [&str; 6] = ["ycsb-a", "ycsb-d", "fileserver", "msn", "prj", "prn"];
const SETS: [[u32; 4]; 4] = [[1, 2, 4, 5], [1, 1, 1, 1], [1, 2, 4, 8], [1, 1, 1, 10]];
/// Figures nearer than this are a tie.
const TIE: f64 = 0.02;

fn row(figure: &str, metric: &str, case: impl Into<String>, ours: f64, unit: &str) -> Row {
    Row::new(NAME, figure, metric, case, ours, unit)
}

fn name_of(weights: &[u32]) -> String {
    weights.iter().map(u32::to_string).collect::<Vec<_>>().join(":")
}

/// Headway may take a task for a fresh one in its first 15 s, and serve it apart: runs begin cold, or after that.
const PHASES: [(&str, u32); 2] = [("cold", 1), ("settled", 17)];

fn shares(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let mut points = Vec::new();
    let mut cases: Vec<Case> = Vec::new();
    for (phase, warmup) in PHASES {
        let head = format!("warmup = \"{warmup}s\"\nduration = \"{}s\"", effort.pick(20, 5));
        for weights in SETS.iter().take(if phase == "cold" { 1 } else { SETS.len() }) {
            for load in LOADS {
                points.push(format!("{phase}, {}, {load}", name_of(weights)));
                for (_, scheduler) in SHARING {
                    cases.push(case(&partitions(&head, &weights.map(|w| (w, load))), SATA, scheduler)?);
                }
            }
        }
    }
    let runs = replicated(&cases, effort.pick(5, 1), effort)?;
    let mut out = FigureResult::default();
    for (case, runs) in points.iter().zip(runs.chunks(SHARING.len())) {
        let ours = runs[0].pv();
        let best = (1..SHARING.len()).min_by(|a, b| runs[*a].pv().total_cmp(&runs[*b].pv())).unwrap_or(1);
        let (name, pv) = (SHARING[best].0, runs[best].pv());
        out.rows.push(row("shares", "PV: at most that of the best other", case, ours, "").ordering(ours <= pv));
        out.rows.push(row("shares", "PV of the best other", format!("{case}, {name}"), pv, ""));
        let ratio = runs[0].mb_per_s() / runs[best].mb_per_s();
        let metric = "bandwidth by that of the other with the best PV: at least 1 (2 %)";
        out.rows
            .push(row("shares", metric, format!("{case}, {name}"), ratio, "").ordering(ratio >= 1.0 - TIE).keyed(case));
    }
    out.notes.push("cold runs are measured from 1 s on, settled ones from 17 s on".to_owned());
    Ok(out)
}

fn start_ups(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let schedulers = ["headway", "bfq:v7r8", "bfq:mainline"];
    let loads = ["10r-seq", "10r-rand", "5r5w-seq", "5r5w-rand"];
    let start = StartUp { launches: 2, greedy: true, timeout: 30 };
    let mut cases: Vec<Case> = Vec::new();
    for device in [HDD, SSD] {
        for load in loads {
            for scheduler in schedulers {
                cases.push(case(&start.beside(Some(load), false), device, scheduler)?);
            }
        }
    }
    let runs = replicated(&cases, effort.pick(5, 2), effort)?;
    let mut out = FigureResult::default();
    for (i, runs) in runs.chunks(schedulers.len()).enumerate() {
        let (device, load) = ([HDD, SSD][i / loads.len()], loads[i % loads.len()]);
        // A launch that failed counts the whole time-out.
        let time = |runs: &Runs| {
            let went = Launches::of(runs);
            if went.started == 0 { 30.0 } else { went.mean_s() * (1.0 - went.failed()) + 30.0 * went.failed() }
        };
        let [ours, v7r8, mainline] = [0, 1, 2].map(|s| time(&runs[s]));
        let metric = "start-up: at most that of BFQ v7r8";
        out.rows.push(row("start-up", metric, format!("{device}, {load}"), ours, "s").ordering(ours <= v7r8));
        out.rows.push(row("start-up", "start-up", format!("{device}, {load}, bfq v7r8"), v7r8, "s"));
        out.rows.push(row("start-up", "start-up", format!("{device}, {load}, bfq mainline"), mainline, "s"));
    }
    out.notes.push("a launch that did not start in 30 s counts 30 s; greedy start-ups".to_owned());
    Ok(out)
}

fn throughput(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let schedulers = ["headway", "mq-deadline", "none"];
    let mut texts: Vec<(String, &str, String)> = Vec::new();
    for (phase, warmup) in PHASES {
        let head = format!("warmup = \"{warmup}s\"\nduration = \"{}s\"", effort.pick(20, 5));
        for load in LOADS {
            let equal = partitions(&head, &[1, 1, 1, 1].map(|w| (w, load)));
            texts.push((format!("{phase}, {load}, four equal tenants"), SATA, equal));
            texts.push((format!("{phase}, {load}, one tenant"), SATA, partitions(&head, &[(1, load)])));
        }
        for load in ["10r-seq", "10r-rand", "5r5w-seq", "5r5w-rand"] {
            texts.push((
                format!("{phase}, {load}, one tenant"),
                SSD,
                machine(warmup + 1, effort.pick(20, 5), &background(load, false)),
            ));
        }
    }
    let mut cases: Vec<Case> = Vec::new();
    for (_, device, text) in &texts {
        for scheduler in schedulers {
            cases.push(case(text, device, scheduler)?);
        }
    }
    let runs = replicated(&cases, effort.pick(5, 2), effort)?;
    let mut out = FigureResult::default();
    for ((case, device, _), runs) in texts.iter().zip(runs.chunks(schedulers.len())) {
        let case = format!("{device}, {case}");
        let [ours, deadline, none] = [0, 1, 2].map(|s| runs[s].mb_per_s());
        let metric = "bandwidth by mq-deadline's: at least 1 (2 %)";
        out.rows.push(row("throughput", metric, &case, ours / deadline, "").ordering(ours >= (1.0 - TIE) * deadline));
        out.rows.push(row("throughput", "bandwidth by that of none", &case, ours / none, ""));
    }
    Ok(out)
}
