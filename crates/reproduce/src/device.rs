//! A real device in the place of the models.

use dumbwaiter_measure::RunResult;

use crate::replicates::Runs;
use crate::{Case, Effort, FigureResult, Progress};

/// Runs cases for real. What it cannot do is left out of a figure and said; it is never made up.
pub trait Device {
    /// Its path.
    fn name(&self) -> String;
    /// Why there is no energy of this machine, in one line; `None` where a meter gives it.
    fn no_meter(&self) -> Option<String>;
    /// Why `work` is left out, and what would allow it, in one line; `None` where it can be run.
    fn refuses(&self, work: &Work<'_>) -> Option<String>;
    /// Runs it. `None`: it was ended from outside, or the device failed; nothing more is asked for then.
    fn run(&self, work: &Work<'_>, replicate: u32) -> Option<RunResult>;
    /// What a reader must know of the runs since the last call.
    fn notes(&self) -> Vec<String>;
}

/// What a device is asked to run.
#[derive(Clone, Copy, Debug)]
pub enum Work<'a> {
    /// The scenario of a case under the kernel's scheduler that it names; its device is not looked at.
    Case(&'a Case),
    /// Random gets from a data base of RocksDB on a file system of the device. I/Os are those that the device counts.
    Readrandom {
        /// The kernel's scheduler.
        scheduler: &'a str,
        /// Threads that get.
        threads: u32,
        /// Length, s.
        seconds: u32,
    },
}

impl Effort<'_> {
    /// Warm-up and length of a run, ms: those of the model, or what a real device needs.
    pub(crate) fn lengths(&self, warmup: u32, duration: u32) -> (u32, u32) {
        if self.device.is_some() { self.pick((300, 2000), (50, 250)) } else { (warmup, duration) }
    }

    /// How often each case is run: a real device is never twice the same.
    pub(crate) fn replicates(&self, model: u32) -> u32 {
        if self.device.is_some() { self.pick(3, 1) } else { model }
    }

    /// Is there an energy of each run?
    pub(crate) fn metered(&self) -> bool {
        self.device.is_none_or(|d| d.no_meter().is_none())
    }

    /// What is left of a figure of energies where a real device has no meter: the reason.
    pub(crate) fn without_meter(&self) -> Option<FigureResult> {
        let why = self.device?.no_meter()?;
        Some(FigureResult { notes: vec![format!("no meter, so no number ({why})")], ..FigureResult::default() })
    }

    /// The steps of an axis: of a quick look at a real device, which cannot be hurried, every third.
    pub(crate) fn steps(&self, all: &[u32]) -> Vec<u32> {
        let every = if self.device.is_some() { self.pick(1, 3) } else { 1 };
        all.iter().copied().step_by(every).collect()
    }
}

/// Runs all work that `device` does not refuse, in rounds. Each begins elsewhere, so that a drift favours no place in the
/// order. Answers in the order of the work, with fewer runs or none where it was refused or ended.
pub(crate) fn rounds(
    device: &dyn Device,
    work: &[Work<'_>],
    replicates: u32,
    progress: &mut dyn FnMut(Progress),
) -> (Vec<Runs>, Vec<String>) {
    let mut notes: Vec<String> = Vec::new();
    let mut able = Vec::new();
    for (i, one) in work.iter().enumerate() {
        match device.refuses(one) {
            Some(why) if !notes.contains(&why) => notes.push(why),
            Some(_) => {}
            None => able.push(i),
        }
    }
    let mut runs: Vec<Runs> = work.iter().map(|_| Runs(Vec::new())).collect();
    let of = able.len() * replicates as usize;
    let mut done = 0;
    'rounds: for replicate in 0..replicates {
        if replicate > 0 && !able.is_empty() {
            able.rotate_left(1);
        }
        for i in &able {
            progress(Progress { done, of });
            let Some(run) = device.run(&work[*i], replicate) else { break 'rounds };
            if run.completed == 0 {
                let silent = format!("{}: a run finished no I/O at all; its latency is not known", run.scheduler);
                if !notes.contains(&silent) {
                    notes.push(silent);
                }
            }
            runs[*i].0.push(run);
            done += 1;
        }
    }
    if done < of {
        notes.push(format!("ended early: {done} of {of} runs finished"));
    }
    (runs, notes)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use dumbwaiter_experiment::Control;
    use dumbwaiter_measure::{Energy, Recorder, RecorderConfig, RunFacts};
    use dumbwaiter_scenario::Completion;

    use super::*;
    use crate::{FigureResult, find};

    /// A drive that gives what it is told to.
    struct Fake {
        metered: bool,
        /// Runs until it ends.
        left: Cell<u32>,
        refuses: fn(&Work<'_>) -> Option<String>,
        /// IOPS and joules of a run.
        gives: fn(&Work<'_>, u32) -> (f64, f64),
    }

    impl Device for Fake {
        fn name(&self) -> String {
            "/dev/fake".into()
        }

        fn no_meter(&self) -> Option<String> {
            (!self.metered).then(|| "no energy meter: this is a test".into())
        }

        fn refuses(&self, work: &Work<'_>) -> Option<String> {
            (self.refuses)(work)
        }

        fn run(&self, work: &Work<'_>, replicate: u32) -> Option<RunResult> {
            self.left.set(self.left.get().checked_sub(1)?);
            let (iops, joules) = (self.gives)(work, replicate);
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
            (run.latency_us.mean, run.latency_us.p50) = (1e6 / iops, 1e6 / iops);
            (run.cpu.us_per_io, run.cpu.ctx_per_io) = (3.0, if method(work) == Completion::Poll { 0.0 } else { 1.02 });
            let energy =
                Energy { joules, source: "a test".into(), j_per_mio: joules, bytes_per_j: iops * 4096.0 / joules };
            run.energy = self.metered.then_some(energy);
            Some(run)
        }

        fn notes(&self) -> Vec<String> {
            vec!["a fake".into()]
        }
    }

    fn fake() -> Fake {
        Fake { metered: false, left: Cell::new(u32::MAX), refuses: |_| None, gives: |_, _| (1000.0, 10.0) }
    }

    fn method(work: &Work<'_>) -> Completion {
        match work {
            Work::Case(case) => case.scenario.completion[0],
            Work::Readrandom { .. } => Completion::Interrupt,
        }
    }

    fn scheduler(work: &Work<'_>) -> String {
        match work {
            Work::Case(case) => case.scheduler.clone(),
            Work::Readrandom { scheduler, .. } => (*scheduler).to_owned(),
        }
    }

    fn figure(name: &str, quick: bool, device: &Fake) -> FigureResult {
        let control = Control::default();
        let effort = Effort { quick, jobs: 1, control: &control, device: Some(device) };
        find(name).unwrap()[0].1.reproduce(&effort, &mut |_| {}).unwrap()
    }

    #[test]
    fn what_cannot_be_done_has_no_rows_but_a_reason_once() {
        let no_poll = |w: &Work<'_>| (method(w) == Completion::Poll).then(|| "left out: no queues to poll".to_owned());
        let gives = |w: &Work<'_>, _| (if method(w) == Completion::Hybrid { 90.0 } else { 80.0 }, 1.0);
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
        let steady = |w: &Work<'_>, replicate| {
            let noise = f64::from(replicate) * 0.1;
            (if scheduler(w) == "bfq" { 1040.0 + noise } else { 1000.0 + noise }, 1.0)
        };
        let noisy = |w: &Work<'_>, replicate| {
            let noise = [-300.0, 0.0, 300.0][replicate as usize % 3];
            (if scheduler(w) == "bfq" { 1040.0 + noise } else { 1000.0 }, 1.0)
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
        let gives = |w: &Work<'_>, replicate| {
            let Work::Case(case) = w else { return (f64::NAN, f64::NAN) };
            // 128 KiB is the largest size.
            let large = |task: &dumbwaiter_scenario::Task| format!("{:?}", task.work).contains("Fixed(131072)");
            let small = !case.scenario.tasks().any(|(_, task)| large(task));
            let joules = match method(w) {
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
        assert_eq!(
            (of("tiles won by interrupt").ours, of("tiles won by interrupt").ordering_holds),
            (5.0, Some(false))
        );
        assert!(found.tables[0].rows[0][1].starts_with("C ") && found.tables[0].rows[7][1].starts_with("I "));
        // Without classic polling the two others are compared.
        let refuses = |w: &Work<'_>| (method(w) == Completion::Poll).then(|| "left out".to_owned());
        let found = figure("poll-2022:figure-3", false, &Fake { metered: true, gives, refuses, ..fake() });
        assert!(found.tables[0].rows.iter().all(|row| row[1..].iter().all(|c| c.starts_with("I "))));
        assert!(found.rows.iter().all(|r| !r.metric.contains("classic")));
    }

    #[test]
    fn a_scheduler_that_finishes_nothing_is_named() {
        let gives = |w: &Work<'_>, _| (if scheduler(w) == "bfq" { 0.0 } else { 1000.0 }, 1.0);
        let found = figure("ull-2023:table-1", true, &Fake { gives, ..fake() });
        assert!(found.notes.iter().any(|n| n.contains("finished no I/O")), "{:?}", found.notes);
        assert!(found.rows.iter().all(|r| !r.case.ends_with("bfq") && r.ordering_holds.is_none()));
    }

    #[test]
    fn what_was_finished_before_the_end_is_shown() {
        let found = figure("ull-2023:figure-1", true, &Fake { left: Cell::new(6), ..fake() });
        assert!(found.notes.iter().any(|n| n == "ended early: 6 of 36 runs finished"), "{:?}", found.notes);
        let throughput: Vec<_> = found.rows.iter().filter(|r| r.detail && r.metric == "throughput").collect();
        assert_eq!(throughput.len(), 6);
        let found = figure("poll-2022:figure-2", true, &Fake { left: Cell::new(0), ..fake() });
        assert!(found.rows.is_empty());
    }
}
