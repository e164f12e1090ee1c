//! Figures on a real device, with a fake in its place.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use dumbwaiter_experiment::{About, Cell, CellResult, Concurrency, Control, Failure, Refusal, Stack, World};
use dumbwaiter_measure::{Energy, Recorder, RecorderConfig, RunFacts};
use dumbwaiter_scenario::Completion;

use crate::{Effort, FigureResult, OnDevice, find};

/// A drive that gives the figures that a test asks for.
struct Fake {
    metered: bool,
    /// Runs until it ends.
    left: AtomicU32,
    refuses: fn(&Cell) -> Option<String>,
    /// IOPS and joules of a run.
    gives: fn(&Cell, u32) -> (f64, f64),
}

impl World for Fake {
    fn about(&self) -> About {
        About {
            name: "/dev/fake".into(),
            real: true,
            stacks: vec![Stack::Kernel],
            device: Some("/dev/fake".into()),
            no_energy: (!self.metered).then(|| "no energy meter: this is a test".into()),
            notes: vec!["a fake".into()],
            machine: None,
            drive: None,
        }
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::Rotation
    }

    fn supports(&self, cell: &Cell) -> Result<(), Refusal> {
        (self.refuses)(cell).map_or(Ok(()), |why| Err(Refusal(why)))
    }

    fn run(&self, cell: &Cell, _control: &Control) -> Result<CellResult, Failure> {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            return Err(Failure::device("gone"));
        }
        self.left.store(left - 1, Ordering::Relaxed);
        let (iops, joules) = (self.gives)(cell, cell.replicate);
        let config = RecorderConfig {
            warmup: dumbwaiter_block::Nanos(0),
            interval: dumbwaiter_block::Nanos::from_secs(1),
            tenants: Vec::new(),
            tasks: Vec::new(),
        };
        let facts = RunFacts { world: "real".into(), ..RunFacts::default() };
        let mut run = Recorder::new(config).finish(dumbwaiter_block::Nanos::from_secs(1), facts);
        run.completed = iops as u64;
        (run.iops, run.mb_per_s) = (iops, iops * 4096.0 / 1e6);
        // Fixed work: each task is a phase of 1000 I/Os.
        if let Some(scenario) = cell.scenario().filter(|scenario| scenario.duration.is_none()) {
            run.duration_s = scenario.tasks().count() as f64 * 1000.0 / iops;
        }
        (run.latency_us.mean, run.latency_us.p50) = (1e6 / iops, 1e6 / iops);
        (run.cpu.us_per_io, run.cpu.ctx_per_io) = (3.0, if cell.completion == Completion::Poll { 0.0 } else { 1.02 });
        let energy = Energy { joules, source: "a test".into(), j_per_mio: joules, bytes_per_j: iops * 4096.0 / joules };
        run.energy = self.metered.then_some(energy);
        Ok(CellResult::of(run))
    }
}

fn fake() -> Fake {
    Fake { metered: false, left: AtomicU32::new(u32::MAX), refuses: |_| None, gives: |_, _| (1000.0, 10.0) }
}

fn figure(name: &str, quick: bool, device: &Fake) -> FigureResult {
    let control = Control::default();
    let effort = Effort::new(quick, device, &control);
    {
        let (paper, figure) = find(name).unwrap()[0];
        figure.reproduce(paper.name, &effort).unwrap()
    }
}

#[test]
fn what_cannot_be_done_has_no_rows_but_a_reason_once() {
    let no_poll = |w: &Cell| (w.completion == Completion::Poll).then(|| "left out: no queues to poll".to_owned());
    let gives = |w: &Cell, _| (if w.completion == Completion::Hybrid { 90.0 } else { 80.0 }, 1.0);
    let found = figure("poll-2022:table-1", true, &Fake { refuses: no_poll, gives, ..fake() });
    assert_eq!(found.rows.len(), 8);
    for row in &found.rows {
        assert!(!row.case.contains("classic") && row.paper_value.is_some(), "{row:?}");
        assert_eq!((row.ordering_holds, row.within_tolerance, row.calibrated), (Some(true), None, false));
        assert_eq!((row.world.as_deref(), row.device.as_deref()), (Some("real"), Some("/dev/fake")));
    }
    assert_eq!(found.notes.iter().filter(|n| n.contains("no queues to poll")).count(), 1, "{:?}", found.notes);
    assert!(found.notes.contains(&"a fake".to_owned()));
}

#[test]
fn none_is_judged_against_the_others_and_chance_is_a_tie() {
    // bfq is 4 % faster: a miss where that is steady, a tie where its runs differ by far more.
    let steady = |w: &Cell, replicate| {
        let noise = f64::from(replicate) * 0.1;
        (if w.scheduler.name == "bfq" { 1040.0 + noise } else { 1000.0 + noise }, 1.0)
    };
    let noisy = |w: &Cell, replicate| {
        let noise = [-300.0, 0.0, 300.0][replicate as usize % 3];
        (if w.scheduler.name == "bfq" { 1040.0 + noise } else { 1000.0 }, 1.0)
    };
    let judged = |gives, quick| {
        let rows = figure("ull-2023:mixed-4k-8k", quick, &Fake { gives, ..fake() }).rows;
        let judged: Vec<bool> = rows.iter().filter_map(|r| r.ordering_holds).collect();
        assert_eq!(judged.len(), if quick { 3 } else { 8 });
        (judged.iter().all(|h| *h), judged.iter().any(|h| *h))
    };
    assert_eq!(judged(steady, false), (false, false));
    assert_eq!(judged(noisy, false), (true, true));
    assert_eq!(judged(steady, true), (false, false), "of single runs the means decide");
    let found = figure("ull-2023:figure-5", true, &Fake { gives: steady, ..fake() });
    assert_eq!(found.rows.iter().filter(|r| r.detail && r.metric == "throughput").count(), 12);
    assert_eq!((found.tables[0].rows.len(), found.tables[0].rows[0][4].as_str()), (3, "1040"));
}

#[test]
fn without_a_meter_there_is_no_number_of_energy() {
    for name in ["ull-2023:figure-3", "ull-2023:figure-4", "poll-2022:figure-3"] {
        let found = figure(name, true, &fake());
        assert!(found.rows.is_empty() && found.tables.is_empty(), "{name}: {:?}", found.rows);
        assert!(found.notes[0].starts_with("no meter"), "{name}: {:?}", found.notes);
    }
    let found = figure("poll-2022:figure-1", true, &fake());
    assert!(found.rows.iter().all(|r| r.unit != "W") && found.plots.iter().all(|p| p.y != "W"));
    assert!(found.notes.iter().any(|n| n.starts_with("no meter")));
    let found = figure("ull-2023:figure-3", true, &Fake { metered: true, ..fake() });
    assert!(found.rows.iter().any(|r| r.unit == "J per million I/Os" && r.ours == 10.0));
}

#[test]
fn the_map_of_a_real_drive_is_of_its_meter() {
    // Polling saves energy for small reads by few threads, interrupts for all others.
    let gives = |w: &Cell, replicate| {
        let Some(scenario) = w.scenario() else { return (f64::NAN, f64::NAN) };
        // 128 KiB is the largest size.
        let large = |task: &dumbwaiter_scenario::Task| format!("{:?}", task.work).contains("Fixed(131072)");
        let small = !scenario.tasks().any(|(_, task)| large(task));
        let joules = match w.completion {
            Completion::Poll => {
                if small {
                    8.0
                } else {
                    12.0
                }
            }
            Completion::Hybrid => 15.0,
            _ => 10.0,
        };
        (1000.0, joules + f64::from(replicate) * 0.01)
    };
    let found = figure("poll-2022:figure-3", false, &Fake { metered: true, gives, ..fake() });
    let of = |metric: &str| found.rows.iter().find(|r| r.metric.starts_with(metric)).unwrap();
    let hybrid = of("tiles won by hybrid");
    assert_eq!((hybrid.ours, hybrid.ordering_holds, hybrid.case.as_str()), (0.0, Some(true), "all 56"));
    assert_eq!((of("tiles won by classic").ours, of("tiles won by classic").ordering_holds), (12.0, Some(true)));
    assert_eq!((of("tiles won by interrupt").ours, of("tiles won by interrupt").ordering_holds), (5.0, Some(false)));
    assert!(found.tables[0].rows[0][1].starts_with("C ") && found.tables[0].rows[7][1].starts_with("I "));
    // Without classic polling the two others are compared.
    let refuses = |w: &Cell| (w.completion == Completion::Poll).then(|| "left out".to_owned());
    let found = figure("poll-2022:figure-3", false, &Fake { metered: true, gives, refuses, ..fake() });
    assert!(found.tables[0].rows.iter().all(|row| row[1..].iter().all(|c| c.starts_with("I "))));
    assert!(found.rows.iter().all(|r| !r.metric.contains("classic")));
}

#[test]
fn a_scheduler_that_finishes_nothing_is_named() {
    let gives = |w: &Cell, _| (if w.scheduler.name == "bfq" { 0.0 } else { 1000.0 }, 1.0);
    let found = figure("ull-2023:table-1", true, &Fake { gives, ..fake() });
    assert!(found.notes.iter().any(|n| n.contains("finished no I/O")), "{:?}", found.notes);
    assert!(found.rows.iter().all(|r| !r.case.ends_with("bfq") && r.ordering_holds.is_none()));
}

#[test]
fn what_was_finished_before_the_end_is_shown() {
    let found = figure("ull-2023:figure-1", true, &Fake { left: AtomicU32::new(6), ..fake() });
    assert!(found.notes.iter().any(|n| n == "ended early: 6 of 36 runs finished"), "{:?}", found.notes);
    let throughput: Vec<_> = found.rows.iter().filter(|r| r.detail && r.metric == "throughput").collect();
    assert_eq!(throughput.len(), 6);
    let found = figure("poll-2022:figure-2", true, &Fake { left: AtomicU32::new(0), ..fake() });
    assert!(found.rows.is_empty());
}

/// Each kind of phase has a scheduler that is twice as fast as the others, `adaptive` nearly follows, and trials cost.
fn phases(cell: &Cell, _: u32) -> (f64, f64) {
    let alone = cell.scenario().and_then(|s| (s.tasks().count() == 1).then(|| s.to_toml().contains("randread")));
    let iops = match (alone, cell.scheduler.to_string().as_str()) {
        (Some(true), "mq-deadline") | (Some(false), "headway") => 1000.0,
        (Some(_), _) => 500.0,
        (None, "adaptive" | "adaptive:by=model") => 900.0,
        (None, "adaptive:by=trial") => 500.0,
        (None, _) => 600.0,
    };
    (iops, 1.0)
}

#[test]
fn phases_on_a_device_are_held_against_the_best_fixed_scheduler_and_the_oracle() {
    let no_writes = |cell: &Cell| {
        let writes = cell.scenario().is_some_and(|scenario| scenario.to_toml().contains("randrw"));
        writes.then(|| "loads that write".to_owned())
    };
    let control = Control::default();
    let device = Fake { refuses: no_writes, gives: phases, ..fake() };
    let one = OnDevice { replicates: NonZeroU32::new(1), ..OnDevice::default() };
    let effort = Effort::new(true, &device, &control).on_device(one);
    let found = find("kml-2025:phases").unwrap()[0].1.reproduce("kml-2025", &effort).unwrap();
    let row = |metric: &str, case: &str| {
        let rows = found.rows.iter().filter(|row| row.metric == metric);
        rows.clone().find(|row| row.case.contains(case)).unwrap_or_else(|| panic!("{case}: {:?}", found.rows))
    };
    let fixed = row("throughput of all phases", "4 phases in random order, bfq").ours;
    let oracle = row("throughput of all phases", "oracle").ours;
    assert!((oracle / fixed - 1000.0 / 600.0).abs() < 1e-9, "{oracle} and {fixed}");
    for arm in ["adaptive over", "by=trial over"] {
        assert_eq!(row("paired difference", arm).ordering_holds, None, "one run has no interval");
    }
    let share = row("share of the oracle's gain", "adaptive:");
    assert!((share.ours - 75.0).abs() < 1e-9 && share.ordering_holds.is_none(), "{share:?}");
    assert_eq!(found.tables[0].rows[0].len(), 9);
    assert_eq!(found.tables[1].rows.iter().map(|row| row[0].as_str()).collect::<Vec<_>>(), ["R", "S"]);
    assert!(found.notes.iter().any(|note| note == "left out: loads that write"), "{:?}", found.notes);
    // A device that fails in the second repeat: the first one counts.
    let two = OnDevice { replicates: NonZeroU32::new(2), ..OnDevice::default() };
    let cells = 2 * (8 + 2 * 5);
    for (left, rows) in [(4 + cells, true), (4 + cells - 1, true), (4 + cells / 2 - 1, false), (1, false)] {
        let device = Fake { left: AtomicU32::new(left), refuses: no_writes, gives: phases, ..fake() };
        let control = Control::default();
        let effort = Effort::new(true, &device, &control).on_device(two);
        let found = find("kml-2025:phases").unwrap()[0].1.reproduce("kml-2025", &effort).unwrap();
        assert_eq!(!found.rows.is_empty(), rows, "{left}: {:?}", found.notes);
        let steady =
            found.rows.iter().find(|row| row.metric == "paired difference" && row.case.contains("adaptive over"));
        assert_eq!(steady.is_some_and(|row| row.ordering_holds == Some(true)), left == 4 + cells, "two runs are alike");
        assert_eq!(effort.failure().is_some(), left < 4 + cells);
    }
}

#[test]
fn a_loss_on_a_device_that_may_be_chance_is_none() {
    let gives = |cell: &Cell, replicate| {
        let by = cell.scheduler.to_string();
        let chance = [40.0, -20.0, -65.0][replicate as usize];
        (
            if by == "adaptive" {
                1000.0 + chance
            } else if by == "adaptive:by=trial" {
                980.0
            } else {
                1000.0
            },
            1.0,
        )
    };
    let found = figure("kml-2025:phases", false, &Fake { gives, ..fake() });
    let holds = |case: &str| {
        let row = found.rows.iter().find(|row| row.metric == "paired difference" && row.case.contains(case)).unwrap();
        (row.ours < -1.0, row.ordering_holds)
    };
    assert_eq!(holds("order, adaptive over"), (true, Some(true)));
    assert_eq!(holds("by=trial over"), (true, Some(false)));
    assert_eq!(holds("by=model over"), (false, Some(true)));
    assert!(found.rows.iter().all(|row| row.metric != "share of the oracle's gain"), "there is nothing to gain");
    assert_eq!((found.tables[0].rows.len(), found.tables[1].rows.len()), (3, 3));
}
