//! The closed loop: a recording's own job, left to itself in a world, beside what the kernel did.
//!
//! Nothing of the kernel's order or times is handed over: the fio jobs of the recording run on a model of the recorded
//! device, under the recorded scheduler. Compared are the bytes, the latency of I/Os from their arrival in the block layer to
//! their completion, and each job's or group's share of the bytes.

mod conditions;
mod controllers;
mod kernel;
mod recorded_again;
mod scenario;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dumbwaiter_experiment::{Cell, Control, Failure, Finished, Matrix, Stack, World};
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::load::Prepared;
use serde::Serialize;

use crate::recording::{self, Files, Recording};
use conditions::Conditions;
use kernel::{Observed, observe};
pub use recorded_again::recorded_again;

/// How a run, or a second recording, agrees with a recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// The recording's file name.
    pub file: String,
    /// The recorded scheduler.
    pub scheduler: String,
    /// The controller before it, in a recording of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<&'static str>,
    /// Bytes per second, as a ratio to the kernel's.
    pub mb_ratio: f64,
    /// Mean latency, as a ratio to the kernel's; in a recording of a controller that of reads, if there are any.
    pub mean_ratio: f64,
    /// 95th percentile of latency, as a ratio to the kernel's; not in a recording of a controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_ratio: Option<f64>,
    /// Reads per second, as a ratio to the kernel's, in a recording of a controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads_ratio: Option<f64>,
    /// Bytes that the device writes per second, as a ratio to the kernel's, in a recording of a controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_mb_ratio: Option<f64>,
    /// The largest difference of a job's or group's share of the bytes, 0 to 1.
    pub share_error: f64,
}

/// How far an [`Agreement`] may be from the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Bytes per second, as a part of the kernel's.
    pub bytes: f64,
    /// Difference of each share.
    pub share: f64,
    /// Mean latency, as a part of the kernel's.
    pub mean: f64,
    /// 95th percentile, as a part of the kernel's.
    pub p95: f64,
}

/// Within these, a simulation counts as the kernel's.
pub const BOUNDS: Bounds = Bounds { bytes: 0.03, share: 0.02, mean: 0.05, p95: 0.15 };

/// The same of a recording of a controller: its bytes are reads per second and bytes written.
pub const CONTROLLER_BOUNDS: Bounds = Bounds { bytes: 0.10, share: 0.02, mean: 0.15, p95: f64::INFINITY };

impl Agreement {
    /// Is every figure within the bounds of its kind?
    pub fn agrees(&self) -> bool {
        self.within(if self.controller.is_some() { &CONTROLLER_BOUNDS } else { &BOUNDS })
    }

    /// Is every figure within `bounds`?
    pub fn within(&self, bounds: &Bounds) -> bool {
        let close = |ratio: f64, by: f64| (ratio - 1.0).abs() <= by;
        let flows = match self.controller {
            None => [Some(self.mb_ratio), None],
            Some(_) => [self.reads_ratio, self.write_mb_ratio],
        };
        flows.into_iter().flatten().all(|flow| close(flow, bounds.bytes))
            && close(self.mean_ratio, bounds.mean)
            && self.p95_ratio.is_none_or(|p95| close(p95, bounds.p95))
            && self.share_error <= bounds.share
    }
}

/// A recording that no run can be compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotComparable {
    /// The recording's file name.
    pub file: String,
    /// Why.
    pub reason: String,
}

/// The agreement of several recordings.
#[derive(Clone, Debug, Default)]
pub struct ClosedLoops {
    /// Those that were compared, in the order given. Fewer than could be if the runs were cancelled.
    pub compared: Vec<Agreement>,
    /// Those that could not be.
    pub not_comparable: Vec<NotComparable>,
}

/// Why nothing was compared.
#[derive(Debug, thiserror::Error)]
pub enum ClosedLoopError {
    /// A recording could not be read.
    #[error(transparent)]
    Recording(#[from] recording::Error),
    /// A run failed.
    #[error(transparent)]
    Run(#[from] Failure),
}

/// Runs the jobs of recordings (their JSON or their rows) in a world that simulates, and compares.
///
/// # Errors
/// A recording that cannot be read, or a run that failed. Files that are no recordings, or that no run can be compared with,
/// are in the answer with the reason.
pub fn closed_loops(paths: &[PathBuf], world: &dyn World, control: &Control) -> Result<ClosedLoops, ClosedLoopError> {
    let mut answer = ClosedLoops::default();
    let (mut cases, mut cells): (Vec<Compared>, Vec<Cell>) = (Vec::new(), Vec::new());
    for path in paths {
        let of_controller = controllers::recorded(&Files::of(path));
        let found = match of_controller {
            Some((recorded, about)) => {
                controllers::case(path, recorded, about, world)?.map(|(case, cell)| (Compared::Controller(case), cell))
            }
            None => case(path, world)?.map(|(case, cell)| (Compared::Scheduler(case), cell)),
        };
        match found {
            Ok((case, cell)) => {
                cases.push(case);
                cells.push(cell);
            }
            Err(reason) => answer.not_comparable.push(NotComparable { file: name_of(path), reason }),
        }
    }
    let mut matrix = Matrix::new(cells);
    if let Finished::Failed(failure) = matrix.run(world, control) {
        return Err(failure.into());
    }
    let results = cases.iter().enumerate().filter_map(|(i, case)| Some((case, matrix.result(i)?)));
    answer.compared = results.map(|(case, result)| case.agreement(&result.run)).collect();
    Ok(answer)
}

/// What a run is compared with.
enum Compared {
    Scheduler(Case),
    Controller(controllers::ControllerCase),
}

impl Compared {
    fn agreement(&self, run: &RunResult) -> Agreement {
        match self {
            Compared::Scheduler(case) => case.agreement(&case.figures_of(run)),
            Compared::Controller(case) => case.agreement(run),
        }
    }
}

/// The kernel's figures that a run is compared with.
struct Case {
    file: String,
    scheduler: String,
    kernel: Observed,
    parties: Vec<Party>,
}

/// Figures to compare with the kernel's: those of a run, or of a second recording.
struct Figures {
    mb_per_s: f64,
    mean_us: f64,
    p95_us: f64,
    /// Service of each party, in any unit; `None` where a party is missing.
    moved: Option<Vec<f64>>,
}

/// A job or a group: whose share is compared.
struct Party {
    /// Its processes in the recording.
    pids: Vec<i32>,
    /// The tenant of a group; a job is the task of its place.
    tenant: Option<String>,
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Device and load of a recording; the reason where it has none.
fn read_conditions(files: &Files) -> Result<Result<Conditions, String>, recording::Error> {
    match Conditions::read(&files.description) {
        Ok(about) => Ok(Ok(about)),
        Err(recording::Error::Description { .. }) => Ok(Err("it is not a dispatch recording".to_owned())),
        Err(error) => Err(error),
    }
}

/// A recording and the run to compare with it; the reason where there can be none.
fn case(path: &Path, world: &dyn World) -> Result<Result<(Case, Cell), String>, recording::Error> {
    let files = Files::of(path);
    let about = match read_conditions(&files)? {
        Ok(about) => about,
        Err(reason) => return Ok(Err(reason)),
    };
    if let Some(reason) = about.obstacle() {
        return Ok(Err(reason));
    }
    let recording = Recording::open(&files.rows)?;
    Ok(comparable(name_of(path), &about, &recording, world))
}

fn comparable(
    file: String,
    about: &Conditions,
    recording: &Recording,
    world: &dyn World,
) -> Result<(Case, Cell), String> {
    let kernel = observe(&recording.rows).ok_or("no I/O in it finished")?;
    let scenario = scenario::scenario(about, recording)?;
    let parties = parties(about, &scenario::offsets(&scenario), &kernel);
    let load = Arc::new(Prepared::new(&scenario).map_err(|e| e.to_string())?);
    // A job that does not fit the device is found now, and stops no other recording's run.
    let sectors = scenario::capacity_sectors(about)?;
    load.load(scenario.seed, sectors, scenario.host.cpus).map_err(|e| e.to_string())?;
    let cell = Cell::of(&load, &scenario.devices[0], Stack::Simulated, scenario.schedulers[0].clone());
    world.supports(&cell).map_err(|refusal| refusal.to_string())?;
    Ok((Case { file, scheduler: recording.scheduler.clone(), kernel, parties }, cell))
}

/// Whose shares to compare: the groups that did I/O, or the jobs.
fn parties(about: &Conditions, offsets: &[u64], kernel: &Observed) -> Vec<Party> {
    if let Some(groups) = &about.groups {
        let with_io = groups.iter().filter(|group| group.job.is_some() || !group.pids.is_empty());
        let party = |path: &str, pids: &[i32]| Party {
            pids: pids.to_vec(),
            tenant: Some(scenario::tenant_name(path).to_owned()),
        };
        return with_io.map(|group| party(&group.path, &group.pids)).collect();
    }
    let pids = by_offset(offsets, kernel);
    pids.into_iter().map(|pid| Party { pids: pid.into_iter().collect(), tenant: None }).collect()
}

/// The process of each job, by the place where the job begins: in the order of process numbers, each has the job that
/// begins last of those that begin no later than its lowest sector and have no process yet.
fn by_offset(offsets: &[u64], kernel: &Observed) -> Vec<Option<i32>> {
    let mut found = vec![None; offsets.len()];
    for (pid, process) in &kernel.processes {
        let lowest = process.lowest.saturating_mul(dumbwaiter_block::SECTOR_BYTES);
        let free = (0..offsets.len()).filter(|i| offsets[*i] <= lowest && found[*i].is_none());
        if let Some(job) = free.max_by_key(|i| (offsets[*i], std::cmp::Reverse(*i))) {
            found[job] = Some(*pid);
        }
    }
    found
}

impl Party {
    /// Bytes that it moved in a recording.
    fn bytes(&self, kernel: &Observed) -> f64 {
        self.pids.iter().filter_map(|pid| kernel.processes.get(pid)).map(|p| p.bytes as f64).sum()
    }
}

impl Case {
    fn figures_of(&self, run: &RunResult) -> Figures {
        let of_group = |name: &str| run.tenants.iter().find(|t| t.name == name).map(|t| t.mb_per_s);
        let moved = self.parties.iter().enumerate().map(|(i, party)| match &party.tenant {
            Some(tenant) => of_group(tenant),
            None => run.tasks.get(i).map(|task| task.mb_per_s),
        });
        let (mean_us, p95_us) = (run.latency_us.mean, run.latency_us.p95);
        Figures { mb_per_s: run.mb_per_s, mean_us, p95_us, moved: moved.collect() }
    }

    fn agreement(&self, other: &Figures) -> Agreement {
        let ratio = |ours: f64, kernel: f64| if kernel > 0.0 && ours.is_finite() { ours / kernel } else { 0.0 };
        Agreement {
            file: self.file.clone(),
            scheduler: self.scheduler.clone(),
            mb_ratio: ratio(other.mb_per_s, self.kernel.mb_per_s),
            mean_ratio: ratio(other.mean_us, self.kernel.mean_us),
            controller: None,
            p95_ratio: Some(ratio(other.p95_us, self.kernel.p95_us)),
            reads_ratio: None,
            write_mb_ratio: None,
            share_error: self.share_error(other),
        }
    }

    /// The largest difference of a share; 1 where a party is missing in the other.
    fn share_error(&self, other: &Figures) -> f64 {
        let Some(moved) = other.moved.as_ref().filter(|moved| moved.len() == self.parties.len()) else { return 1.0 };
        let kernel: Vec<f64> = self.parties.iter().map(|party| party.bytes(&self.kernel)).collect();
        let all: f64 = self.kernel.processes.values().map(|p| p.bytes as f64).sum();
        let shares = |moved: &[f64], sum: f64| -> Vec<f64> {
            moved.iter().map(|m| if sum > 0.0 { m / sum } else { 0.0 }).collect()
        };
        let pairs = shares(moved, moved.iter().sum()).into_iter().zip(shares(&kernel, all));
        pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests;
