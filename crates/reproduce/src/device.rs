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
        Some(FigureResult { notes: vec![format!("no meter, so no number: {why}")], ..FigureResult::default() })
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
            runs[*i].0.push(run);
            done += 1;
        }
    }
    if done < of {
        notes.push(format!("ended early: {done} of {of} runs finished"));
    }
    (runs, notes)
}
