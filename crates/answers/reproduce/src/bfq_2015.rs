//! Evaluation of BFQ: throughput, application start-up and players (2015; a disk and an SSD, Linux 4.0).
//!
//! The text gives no numbers: statements of order are held, by the tolerances of our reading of them.

use dumbwaiter_measure::{PlayerStats, RunResult, StartUpStats};

use crate::replicates::{Runs, case, replicated};
use crate::{Case, Chosen, Effort, Error, Figure, FigureResult, Paper, Row};

const NAME: &str = "bfq-2015";
pub(crate) const HDD: &str = "hdd:st1000dm003";
/// The two sets of values for the paper's disk, with short names.
const DISKS: [(&str, &str); 2] = [("disk", HDD), ("slow disk", "hdd:st1000dm003-slow")];
pub(crate) const SSD: &str = "ssd:px256m5s";
/// The paper's, with today's BFQ beside its own.
const SCHEDULERS: [(&str, &str); 5] =
    [("bfq", "bfq:v7r8"), ("bfq mainline", "bfq:mainline"), ("cfq", "cfq"), ("deadline", "deadline"), ("noop", "noop")];
/// Positions in [`SCHEDULERS`].
const BFQ: usize = 0;
const CFQ: usize = 2;
const DEADLINE: usize = 3;
const NOOP: usize = 4;

/// The paper.
pub(crate) const PAPER: Paper = Paper {
    name: NAME,
    title: "Evaluation of BFQ: throughput and responsiveness on a disk and an SSD (2015; ST1000DM003, PX-256M5S, Linux 4.0)",
    calibration: "no constant to a number of the paper, whose text has none; the devices are fitted to data sheets, and the start-up's load to the statistics of a published trace; what was chosen after the paper was seen is listed below",
    chosen: &[
        Chosen {
            name: "pause",
            what: "the paced program pauses 67 times for 17 ms, chosen so that its start on the idle disk lasts as long as v7r8's raise; the trace's own pauses are about 37 ms",
            without: "not measured for 37 ms; the greedy program has no pause, and is a row of its own for every paced one",
        },
        Chosen {
            name: "background",
            what: "one sync before the load, writers limited to 16.5 MB/s and a launcher for each call of fio, as in the suite's revision of the paper's date; a later revision was used before",
            without: "with a launcher for each process BFQ moves 1.04 instead of 1.48 MB/s beside 5r5w-rand",
        },
        Chosen {
            name: "boot",
            what: "each run first reads the drive at a depth of 32 for a second",
            without: "v7r8 does not see that the SSD queues commands: ten random readers move 23 instead of 197 MB/s",
        },
        Chosen {
            name: "one-cpu",
            what: "random reads on the SSD run on one CPU, since the paper says that all CPUs were busy",
            without: "not measured",
        },
    ],
    real: crate::Real::No,
    figures: &[
        Figure { name: "figure-2", title: "throughput on the disk", run: figure_2 },
        Figure { name: "figure-3", title: "start-up of an application on the disk", run: figure_3 },
        Figure { name: "applications", title: "start-up of other applications on the disk", run: applications },
        Figure { name: "figure-4", title: "throughput on the SSD, files and raw", run: figure_4 },
        Figure { name: "figure-5", title: "start-up of an application on the SSD", run: figure_5 },
        Figure { name: "player", title: "frames that a player drops, and who is taken for one (V-B)", run: player },
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

/// Load before a machine is measured, so that the scheduler has seen that the drive queues commands. One that has
/// not, and waits for every queue, never does. Everything else is of stage 1.
const BOOT: &str = "[[task]]\nname = \"boot\"\nrw = \"randread\"\nbs = \"4k\"\niodepth = 32\nruntime = \"1s\"\n";

/// A background. All in one group: what is raised is a process.
pub(crate) fn background(load: &str, raw: bool) -> String {
    let raw = if raw { "raw = true\n" } else { "" };
    format!("[[task]]\nname = \"background\"\nstage = 1\napp = \"{load}\"\n{raw}")
}

/// The host's page cache, where anything is written.
const PAGE_CACHE: &str = "[host]\npage_cache = \"8GiB\"\n";

/// Tasks of stage 1 behind [`BOOT`], measured after the warm-up.
pub(crate) fn machine(warmup_s: u32, duration_s: u32, tasks: &str) -> String {
    let cache = if tasks.contains("5r5w") { PAGE_CACHE } else { "" };
    format!("warmup = \"{warmup_s}s\"\nduration = \"{duration_s}s\"\n{cache}{BOOT}{tasks}")
}

/// A background alone, as the suite measures it: a minute, from 2 s after the start on. Where nothing is written, less shows
/// the same.
fn throughput(load: &str, raw: bool) -> String {
    machine(2, if raw { 5 } else { 60 }, &background(load, raw))
}

/// Launches of an application.
#[derive(Clone, Copy)]
pub(crate) struct StartUp {
    pub(crate) launches: u32,
    /// Does it never compute, as the suite's replayer?
    pub(crate) greedy: bool,
    /// s.
    pub(crate) timeout: u32,
}

impl StartUp {
    /// Beside a background, or beside nothing; long enough that each launch may take the time-out. By the end of the warm-up
    /// no raise of the background is left.
    pub(crate) fn beside(self, load: Option<&str>, raw: bool) -> String {
        self.of("oowriter-like", load, raw)
    }

    /// The same of another application.
    fn of(self, app: &str, load: Option<&str>, raw: bool) -> String {
        let StartUp { launches, greedy, timeout } = self;
        let background = load.map_or(String::new(), |load| background(load, raw));
        let think = if greedy { "greedy" } else { "paced" };
        let writer = format!(
            "[[task]]\nname = \"writer\"\nstage = 1\napp = \"{app}\"\nthink = \"{think}\"\ntimeout = \"{timeout}s\"\n\
             repeat = {launches}\n"
        );
        machine(10, launches * (timeout + 4), &(writer + &background))
    }
}

/// How the launches of all replicates went.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Launches {
    pub(crate) started: u64,
    pub(crate) not_started: u64,
    sum_s: f64,
}

impl Launches {
    pub(crate) fn of(runs: &Runs) -> Launches {
        let mut all = Launches::default();
        for stats in runs.0.iter().filter_map(launches) {
            all.started += stats.started;
            all.not_started += stats.not_started;
            all.sum_s += stats.startup_s.iter().sum::<f64>();
        }
        all
    }

    /// Mean of those that started, s; NaN where none did.
    pub(crate) fn mean_s(&self) -> f64 {
        self.sum_s / self.started as f64
    }

    /// Fraction that did not start within the time-out.
    pub(crate) fn failed(&self) -> f64 {
        self.not_started as f64 / (self.started + self.not_started) as f64
    }
}

fn launches(run: &RunResult) -> Option<&StartUpStats> {
    run.applications.iter().find_map(|a| a.start_up.as_ref())
}

/// Runs of every scheduler for each load.
fn grid(texts: &[String], device: &str, replicates: u32, effort: &Effort<'_>) -> Result<Vec<Vec<Runs>>, Error> {
    let mut cases: Vec<Case> = Vec::new();
    for text in texts {
        for (_, scheduler) in SCHEDULERS {
            cases.push(case(text, device, scheduler)?);
        }
    }
    let mut runs = replicated(&cases, replicates, effort)?.into_iter();
    Ok(texts.iter().map(|_| runs.by_ref().take(SCHEDULERS.len()).collect()).collect())
}

/// A host whose CPU is busy.
const ONE_CPU: &str = "host.cpus = 1\n";

const LOADS: [&str; 4] = ["10r-seq", "10r-rand", "5r5w-seq", "5r5w-rand"];

fn figure_2(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let all = grid(&LOADS.map(|load| throughput(load, false)), HDD, effort.pick(5, 2), effort)?;
    let mut out = FigureResult::default();
    for (load, runs) in LOADS.iter().zip(&all) {
        let speed: Vec<f64> = runs.iter().map(Runs::mb_per_s).collect();
        let others = [CFQ, DEADLINE, NOOP].map(|s| speed[s]);
        for (s, (name, _)) in SCHEDULERS.iter().enumerate() {
            let row = |metric: &str| row("figure-2", metric, format!("{load}, {name}"), speed[s], "MB/s");
            out.rows.push(match (s, *load) {
                (CFQ, "10r-seq" | "5r5w-seq") => {
                    row("throughput: BFQ's is at least as high").ordering(speed[BFQ] >= speed[s])
                }
                (DEADLINE | NOOP, "10r-seq" | "5r5w-seq") => {
                    row("throughput: BFQ's is 1.5 times as high").ordering(speed[BFQ] >= 1.5 * speed[s])
                }
                (CFQ, "5r5w-rand") => row("throughput: BFQ's is as high, and the gap the largest")
                    .ordering(speed[BFQ] >= speed[s] && others.iter().all(|o| speed[s] <= *o)),
                (DEADLINE | NOOP, "5r5w-rand") => {
                    row("throughput: BFQ's is at least as high").ordering(speed[BFQ] >= speed[s])
                }
                (CFQ | DEADLINE | NOOP, "10r-rand") => {
                    row("throughput: within 10 % of BFQ's").ordering((speed[s] / speed[BFQ] - 1.0).abs() <= 0.1)
                }
                _ => row("throughput"),
            });
        }
    }
    Ok(out)
}

/// The suite gives a launch up after 60 s, of which it sleeps 4; one launch of ten that is later makes the whole cell an X.
const TIMEOUT_S: u32 = 56;
/// Launches of a run. A cell has two runs, also with `--quick`: fewer than the suite's ten launches are late less often.
const LAUNCHES: u32 = 5;

fn figure_3(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let mut out = FigureResult::default();
    for (disk, device) in DISKS {
        for (kind, greedy) in [("paced", false), ("greedy", true)] {
            start_ups(&mut out, (disk, device), (kind, greedy), effort)?;
        }
    }
    out.notes
        .push("X: a launch took longer than 56 s; one of ten makes the whole cell an X, as in the suite".to_owned());
    out.notes.push("greedy never computes, as the suite's later replayer; paced, as the paper's real program does, for 1.1 s in all".to_owned());
    Ok(out)
}

/// Rows of one disk and one kind of program.
fn start_ups(
    out: &mut FigureResult,
    (disk, device): (&str, &str),
    (kind, greedy): (&str, bool),
    effort: &Effort<'_>,
) -> Result<(), Error> {
    let start = StartUp { launches: LAUNCHES, greedy, timeout: TIMEOUT_S };
    let mut texts = vec![start.beside(None, false)];
    texts.extend(LOADS.map(|load| start.beside(Some(load), false)));
    let all = grid(&texts, device, 2, effort)?;
    let idle = Launches::of(&all[0][BFQ]).mean_s();
    out.rows.push(row("figure-3", "start-up", format!("{kind}, {disk}, idle"), idle, "s"));
    for (load, runs) in LOADS.iter().zip(&all[1..]) {
        for (s, (name, _)) in SCHEDULERS.iter().enumerate() {
            let case = format!("{kind}, {disk}, {load}, {name}");
            let went = Launches::of(&runs[s]);
            let (mean, failed) = (went.mean_s(), 100.0 * went.failed());
            // The paper did not run today's BFQ.
            let stated = !name.contains("mainline");
            let of_bfq = s == BFQ;
            let time = match of_bfq {
                true => row("figure-3", "start-up: at most 1.5 times that of an idle disk", &case, mean, "s")
                    .ordering(mean <= 1.5 * idle),
                false => row("figure-3", "start-up, of those that started", &case, mean, "s"),
            };
            let expected = match (stated, of_bfq) {
                (false, _) => "launches over 56 s",
                (_, true) => "launches over 56 s: none",
                (_, false) => "launches over 56 s: at least one (X)",
            };
            let late = row("figure-3", expected, &case, failed, "%");
            out.rows.push(time);
            out.rows.push(if stated { late.ordering((went.not_started == 0) == of_bfq) } else { late });
        }
    }
    Ok(())
}

/// A shorter and a longer application than the writer, under the paper's BFQ.
fn applications(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let apps = ["terminal-like", "desktop-terminal-like"];
    let start = StartUp { launches: LAUNCHES, greedy: false, timeout: TIMEOUT_S };
    let mut cases: Vec<Case> = Vec::new();
    for app in apps {
        for load in [None].into_iter().chain(LOADS.map(Some)) {
            cases.push(case(&start.of(app, load, false), HDD, SCHEDULERS[BFQ].1)?);
        }
    }
    let runs = replicated(&cases, 2, effort)?;
    let mut out = FigureResult::default();
    for (app, runs) in apps.iter().zip(runs.chunks(LOADS.len() + 1)) {
        let idle = Launches::of(&runs[0]).mean_s();
        out.rows.push(row("applications", "start-up", format!("{app}, idle"), idle, "s"));
        for (load, runs) in LOADS.iter().zip(&runs[1..]) {
            let went = Launches::of(runs);
            let case = format!("{app}, {load}, bfq");
            let metric = "start-up: at most 1.5 times that of an idle disk";
            let near = went.mean_s() <= 1.5 * idle;
            out.rows.push(row("applications", metric, &case, went.mean_s(), "s").ordering(near));
            let failed = 100.0 * went.failed();
            let late = row("applications", "launches over 56 s: none", &case, failed, "%");
            out.rows.push(late.ordering(went.not_started == 0));
        }
    }
    Ok(out)
}

fn figure_4(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let kinds = [("10r-seq", true), ("10r-rand", true), ("5r5w-seq", false), ("5r5w-rand", false)];
    // Where 4 KiB are read at random, all CPUs are busy in the paper.
    let texts = kinds.map(|(load, raw)| match load {
        "10r-rand" => format!("{ONE_CPU}{}", throughput(load, raw)),
        _ => throughput(load, raw),
    });
    let all = grid(&texts, SSD, effort.pick(5, 2), effort)?;
    let mut out = FigureResult::default();
    for ((load, raw), runs) in kinds.iter().zip(&all) {
        let speed: Vec<f64> = runs.iter().map(Runs::mb_per_s).collect();
        let best = speed.iter().copied().fold(0.0, f64::max);
        let load = if *raw { format!("{load}, raw") } else { (*load).to_owned() };
        for (s, (name, _)) in SCHEDULERS.iter().enumerate() {
            let row = |metric: &str| row("figure-4", metric, format!("{load}, {name}"), speed[s], "MB/s");
            let mainline = SCHEDULERS[s].0 == "bfq mainline";
            let stated = match load.contains("seq") {
                _ if mainline => row("throughput"),
                true => row("throughput: all equal, within 3 % of the best").ordering(speed[s] >= 0.97 * best),
                false if s == BFQ => {
                    let lower = 1.0 - speed[BFQ] / speed[NOOP];
                    row("throughput: 2 to 10 % below noop's").ordering((0.02..=0.1).contains(&lower))
                }
                false => row("throughput"),
            };
            out.rows.push(stated);
        }
        if load == "10r-rand, raw" {
            let falls = [NOOP, DEADLINE, CFQ, BFQ].windows(2).all(|pair| speed[pair[0]] >= 0.99 * speed[pair[1]]);
            let metric = "throughput falls from noop to deadline, cfq and bfq (1 % is a tie); bfq by noop";
            out.rows.push(row("figure-4", metric, load, speed[BFQ] / speed[NOOP], "").ordering(falls));
        }
    }
    Ok(out)
}

fn figure_5(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let mut out = FigureResult::default();
    for (kind, greedy) in [("paced", false), ("greedy", true)] {
        start_ups_on_ssd(&mut out, kind, greedy, effort)?;
    }
    out.notes.push("given up after 20 s; paced computes for 1.1 s, which hides what the SSD takes".to_owned());
    Ok(out)
}

fn start_ups_on_ssd(out: &mut FigureResult, kind: &str, greedy: bool, effort: &Effort<'_>) -> Result<(), Error> {
    let kinds = [("10r-seq", true), ("10r-rand", true), ("5r5w-seq", false), ("5r5w-rand", false)];
    let start = StartUp { launches: effort.pick(5, 2), greedy, timeout: 20 };
    let mut texts = vec![start.beside(None, false)];
    texts.extend(kinds.map(|(load, raw)| start.beside(Some(load), raw)));
    let all = grid(&texts, SSD, 2, effort)?;
    let idle = Launches::of(&all[0][BFQ]).mean_s();
    out.rows.push(row("figure-5", "start-up", format!("{kind}, idle"), idle, "s"));
    for ((load, raw), runs) in kinds.iter().zip(&all[1..]) {
        let place = if *raw { ", raw" } else { "" };
        for (s, (name, _)) in SCHEDULERS.iter().enumerate() {
            let case = format!("{kind}, {load}{place}, {name}");
            let went = Launches::of(&runs[s]);
            let mean = if went.started == 0 { f64::INFINITY } else { went.mean_s() };
            let row = |metric: &str| row("figure-5", metric, &case, mean, "s");
            out.rows.push(match s {
                BFQ => row("start-up: at most 1.5 times that of an idle SSD").ordering(mean <= 1.5 * idle),
                CFQ | DEADLINE | NOOP if *load == "10r-seq" => {
                    row("start-up: at least 3 times that of an idle SSD").ordering(mean >= 3.0 * idle)
                }
                _ => row("start-up"),
            });
        }
    }
    Ok(())
}

fn task(name: &str, settings: &str) -> String {
    format!("[[task]]\nname = \"{name}\"\nstage = 1\n{settings}\n")
}

/// A film that begins later than the background, so that it is not of its burst.
fn film(runtime_s: u32) -> String {
    task("film", &format!("app = \"player\"\nstart = \"10s\"\nruntime = \"{runtime_s}s\""))
}

/// A film and its interference beside a background.
pub(crate) fn film_beside(load: &str) -> String {
    let interference = task("interference", "app = \"player-interference\"");
    machine(10, 40, &format!("{}{interference}{}", film(40), background(load, false)))
}

fn of_player(run: &RunResult, of: fn(&PlayerStats) -> f64) -> f64 {
    run.applications.iter().find_map(|a| a.player.as_ref()).map_or(f64::NAN, of)
}

/// Part of the frames that the player drops, %; the median of the runs.
pub(crate) fn dropped_percent(runs: &Runs) -> f64 {
    runs.median(|run| of_player(run, |p| p.drop_percent))
}

fn player(effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let mut texts: Vec<String> = LOADS.iter().map(|load| film_beside(load)).collect();
    texts.push(machine(2, 60, &film(50)));
    texts.push(machine(2, 60, &task("greedy", "rw = \"read\"\nbs = \"128k\"\nioengine = \"psync\"")));
    let all = grid(&texts, HDD, effort.pick(5, 2), effort)?;
    let mut out = FigureResult::default();
    for (load, runs) in LOADS.iter().zip(&all) {
        let bfq = dropped_percent(&runs[BFQ]);
        for (s, (name, _)) in SCHEDULERS.iter().enumerate() {
            let dropped = dropped_percent(&runs[s]);
            let row = |metric: &str| row("player", metric, format!("{load}, {name}"), dropped, "%");
            out.rows.push(match name.starts_with("bfq") {
                true => row("frames dropped"),
                false => row("frames dropped: no fewer than with BFQ").ordering(dropped >= bfq),
            });
            let p99 = runs[s].median(|r| of_player(r, |p| p.batch_p99_us)) / 1000.0;
            let metric = "time until a frame is had, from when it is due, p99; one of over 100 ms is dropped";
            out.rows.push(crate::bfq_2015::row("player", metric, format!("{load}, {name}"), p99, "ms"));
        }
    }
    for (runs, who, expected) in [(&all[LOADS.len()], "player", true), (&all[LOADS.len() + 1], "greedy reader", false)]
    {
        for s in [BFQ, BFQ + 1] {
            let raises = runs[s].counter("raises_soft_rt");
            let metric = if expected { "raised as soft real-time" } else { "never raised as soft real-time" };
            let case = format!("{who} alone, {}", SCHEDULERS[s].0);
            let raised = row("player", metric, case, raises, "times");
            out.rows.push(if s == BFQ { raised.ordering((raises > 0.0) == expected) } else { raised });
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_is_a_scenario() {
        for load in LOADS {
            let start = StartUp { launches: 2, greedy: true, timeout: 20 };
            for text in [throughput(load, false), start.beside(Some(load), false)] {
                let case = case(&text, HDD, "bfq").unwrap();
                case.scenario.validate(&|_| Ok(()), &|_| Ok(())).unwrap();
            }
        }
    }

    #[test]
    fn an_idle_disk_starts_the_application_under_any_scheduler() {
        let control = dumbwaiter_experiment::Control::default();
        let world = dumbwaiter_sim::Simulator::new(2);
        let effort = Effort::new(true, &world, &control);
        let all =
            grid(&[StartUp { launches: 1, greedy: false, timeout: 8 }.beside(None, false)], HDD, 1, &effort).unwrap();
        for runs in &all[0] {
            let went = Launches::of(runs);
            assert_eq!((went.started, went.not_started), (1, 0));
            assert!(went.mean_s() > 0.0 && went.failed() == 0.0);
        }
    }
}
