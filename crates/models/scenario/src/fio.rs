//! Scenarios from fio job files and command lines.
//!
//! fio creates files; a scenario has a device. A job addresses the device itself if it has an `offset`, a `size` in
//! percent or none, or names a device (`filename=/dev/…`). All other jobs use files: these are placed after each other,
//! aligned to a megabyte, behind the area of the first kind. Instances and jobs that name the same file share it;
//! without a name each has its own, as in fio.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use dumbwaiter_block::Nanos;
use dumbwaiter_workloads::fio::{self, FioFile, FioJob, Outside};
use dumbwaiter_workloads::generate::Extent;

use crate::file::{check_text, read_text};
use crate::names::DistinctNames;
use crate::validate::DRIVES_MAX;
use crate::{Error, Profile, Scenario, Task, Tenant, TraceOptions, TraceSpec, Work};

type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Scenario {
    /// Converts the text of a fio job file or command line to a scenario, and returns the warnings. Errors name `path`;
    /// `environment` gives the values of `${VAR}`. Files that it includes are read. Control groups become tenants. The duration is that of the jobs, stage after
    /// stage; without a run time it is open, and the scenario ends with its jobs.
    ///
    /// # Errors
    /// The line and option that are wrong.
    pub fn from_fio(text: &str, path: &str, environment: Environment<'_>) -> Result<(Scenario, Vec<String>), Error> {
        let FioScenario { whole, notes, .. } = FioScenario::read(text, path, environment)?;
        Ok((whole, notes))
    }

    /// Gives the scenario one drive, which takes the I/O of all.
    pub fn stand_for_all_drives(&mut self) {
        self.drives = 1;
        for task in self.tenants.iter_mut().flat_map(|tenant| &mut tenant.tasks) {
            if let Work::Job(job) = &mut task.work {
                job.drive = None;
            }
        }
    }

    /// Replaces each task that names a fio file by the jobs of the file, as `task/job`. `read` returns the text of a
    /// file. A task's `count`, `cpu`, `ioprio` and `stage` apply to all of them unless the file sets them.
    ///
    /// # Errors
    /// A file that cannot be read or parsed.
    pub fn resolve(
        &mut self,
        read: &dyn Fn(&str) -> Result<String, Error>,
        environment: Environment<'_>,
    ) -> Result<Vec<String>, Error> {
        if let Some(path) = self.host.profile.file() {
            self.host.profile = Profile::from_toml(&read(path)?, path)?;
        }
        let (mut warnings, own) = (Vec::new(), self.drives);
        for tenant in &mut self.tenants {
            let mut resolved = Vec::new();
            for task in std::mem::take(&mut tenant.tasks) {
                let Work::Fio(path) = &task.work else {
                    resolved.push(task);
                    continue;
                };
                let file = parse(&read(path)?, path, environment, read)?;
                warnings.extend(file.warnings.iter().map(|w| w.to_string()));
                let named = drives(&file.jobs);
                let of_scenario = match &named {
                    Some(drives) if drives.len() < 2 || drives.len() == usize::from(own) => drives.as_slice(),
                    Some(drives) => {
                        let number = drives.len();
                        warnings.push(format!("{path}: {PARTS}; `drives = {number}` gives it as many"));
                        &[]
                    }
                    None => {
                        warnings.push(format!("{path}: {PARTS}"));
                        &[]
                    }
                };
                for (_, _, job) in tasks(&file.jobs, of_scenario) {
                    resolved.push(Task {
                        name: format!("{}/{}", task.name, job.name),
                        count: job.count.saturating_mul(task.count),
                        ioprio: job.ioprio.or(task.ioprio),
                        cpu: if job.cpu.is_empty() { task.cpu.clone() } else { job.cpu },
                        stage: job.stage.saturating_add(task.stage),
                        start: task.start,
                        stop: task.stop,
                        deadline: task.deadline,
                        focus: task.focus,
                        changes: task.changes.clone(),
                        work: job.work,
                    });
                }
            }
            tenant.tasks = resolved;
        }
        Ok(warnings)
    }
}

/// What a fio job file or command line describes.
#[derive(Clone, Debug)]
pub struct FioScenario {
    /// All of its jobs.
    pub whole: Scenario,
    /// Those of each stage alone, where there are several (`stonewall`). A stage is named after its jobs.
    pub stages: Vec<Scenario>,
    /// What there is to say of it.
    pub notes: Vec<String>,
    /// Drives that it names (`filename=/dev/…`), each once. A simulation does not touch them.
    pub drives: Vec<String>,
}

impl FioScenario {
    /// Reads a job file or command line, as [`Scenario::from_fio`] does.
    ///
    /// # Errors
    /// The line and option that are wrong.
    pub fn read(text: &str, path: &str, environment: Environment<'_>) -> Result<FioScenario, Error> {
        check_text(text, path)?;
        let file = parse(text, path, environment, &|name| read_text(Path::new(name)))?;
        let (jobs, mut notes) = (&file.jobs, file.warnings.iter().map(|w| w.to_string()).collect::<Vec<_>>());
        let drives = drives(jobs);
        let simulated = drives.as_deref().unwrap_or_default();
        let tasks = tasks(jobs, simulated);
        let stem = Path::new(path).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let number = simulated.len().max(1) as u8;
        let whole = scenario(stem.unwrap_or_default(), jobs, &tasks, number);
        match simulated.len() {
            _ if drives.is_none() => notes.push(format!("{path}: {PARTS}")),
            2.. => notes.push(format!("{path}: {} are {number} {OF_MODEL}", simulated.join(", "))),
            _ => {}
        }
        if whole.duration.is_none() {
            notes
                .push(format!("{path}: not every job has a runtime: a run ends when the jobs have done all their I/O"));
        }
        let numbers: BTreeSet<u32> = jobs.iter().map(|job| job.stage).collect();
        let mut names = DistinctNames::default();
        let alone = |stage: &u32| {
            let jobs: Vec<FioJob> = jobs.iter().filter(|job| job.stage == *stage).cloned().collect();
            let mut tasks: Vec<_> = tasks.iter().filter(|(_, _, task)| task.stage == *stage).cloned().collect();
            tasks.iter_mut().for_each(|(_, _, task)| task.stage = 0);
            scenario(names.distinct(stage_name(&jobs)), &jobs, &tasks, number)
        };
        let stages = if numbers.len() < 2 { Vec::new() } else { numbers.iter().map(alone).collect() };
        Ok(FioScenario { whole, stages, notes, drives: named_drives(jobs) })
    }
}

/// `a + b`, or `a + b + 3 more`.
fn stage_name(jobs: &[FioJob]) -> String {
    const SHOWN: usize = 3;
    let mut names: Vec<String> = jobs.iter().take(SHOWN).map(|job| job.name.clone()).collect();
    if jobs.len() > SHOWN {
        names.push(format!("{} more", jobs.len() - SHOWN));
    }
    names.join(" + ")
}

/// Drives that jobs name, each once.
fn named_drives(jobs: &[FioJob]) -> Vec<String> {
    let named = jobs.iter().flat_map(|job| &job.filenames).filter(|name| is_device(name));
    named.collect::<BTreeSet<_>>().into_iter().cloned().collect()
}

/// A task, with the name and weight of its tenant.
type Placed = (String, Option<u32>, Task);

/// The scenario of jobs, whose tasks these are.
fn scenario(name: String, jobs: &[FioJob], tasks: &[Placed], drives: u8) -> Scenario {
    let mut longest: BTreeMap<u32, Option<Nanos>> = BTreeMap::new();
    for job in jobs {
        let of_stage = longest.entry(job.stage).or_insert(Some(Nanos::ZERO));
        *of_stage = of_stage.zip(job.spec.longest()).map(|(max, time)| max.max(time));
    }
    let first = longest.keys().next().copied();
    let total = longest.values().try_fold(Nanos::ZERO, |sum, time| time.map(|time| sum + time));
    let of_first = jobs.iter().filter(|job| Some(job.stage) == first);
    let warmup = of_first.map(|job| job.spec.ramp_time).max().unwrap_or_default();
    let mut tenants = Vec::<Tenant>::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (tenant, weight, task) in tasks {
        let at = *places.entry(tenant).or_insert_with_key(|name| {
            tenants.push(Tenant::new(*name));
            tenants.len() - 1
        });
        tenants[at].weight = weight.unwrap_or(tenants[at].weight);
        tenants[at].tasks.push(task.clone());
    }
    let duration = total.map(|total| Nanos(total.0.saturating_sub(warmup.0))).filter(|time| *time > Nanos::ZERO);
    Scenario { name, duration, warmup, tenants, drives, ..Scenario::default() }
}

/// Parses a job file. What it includes is looked for where the program runs, as fio does, and then beside it.
fn parse(
    text: &str,
    path: &str,
    environment: Environment<'_>,
    read: &dyn Fn(&str) -> Result<String, Error>,
) -> Result<FioFile, Error> {
    let file = |from: &str, name: &str| {
        let beside = Path::new(from).with_file_name(name).to_string_lossy().into_owned();
        let found = read(name).map(|text| (name.to_owned(), text));
        found.or_else(|error| read(&beside).map(|text| (beside, text)).map_err(|_| error.to_string()))
    };
    Ok(fio::parse(text, path, &Outside { variable: environment, file: &file })?)
}

fn is_device(name: &str) -> bool {
    name.starts_with("/dev/")
}

/// The tasks of a file's jobs on these drives, each with the name and weight of its tenant.
fn tasks(jobs: &[FioJob], drives: &[String]) -> Vec<Placed> {
    let mut out = Vec::<Placed>::new();
    let mut names = DistinctNames::default();
    for (job, (offset, increment)) in jobs.iter().zip(lay_out(jobs)) {
        let mut add = |name: String, count: u32, work: Work| {
            let name = names.distinct(name);
            let tenant = job.cgroup.clone().unwrap_or_else(|| Tenant::DEFAULT.to_string());
            let ioprio = job.trace.as_ref().and_then(|_| job.spec.ioprio());
            let task = Task { count, ioprio, cpu: job.cpus.clone(), stage: job.stage, ..Task::new(name, work) };
            out.push((tenant, job.cgroup_weight, task));
        };
        let Some(trace) = &job.trace else {
            let mut spec = job.spec.clone();
            (spec.offset, spec.offset_increment) = (offset, increment);
            if let ([name], 2..) = (job.filenames.as_slice(), drives.len()) {
                spec.drive = drives.iter().position(|drive| drive == name).map(|at| at as u32 + 1);
            }
            add(job.name.clone(), job.numjobs, Work::Job(Box::new(spec)));
            continue;
        };
        // Instances use the files in turn.
        for (i, path) in trace.paths.iter().enumerate().take(job.numjobs as usize) {
            let options = TraceOptions {
                depth: trace.no_stall.then(|| job.spec.depth()),
                speed: (trace.time_scale != 100).then(|| f64::from(trace.time_scale) / 100.0),
                ..TraceOptions::default()
            };
            let (files, instances) = (trace.paths.len() as u32, job.numjobs);
            let count = instances / files + u32::from((i as u32) < instances % files);
            let work = Work::Trace(TraceSpec { path: path.clone(), options, rows: None });
            add(job.name.clone(), count, work);
        }
    }
    out
}

/// What is said of drives that one device stands for.
pub const PARTS: &str = "one device stands for its drives; for a job on several they are equal parts of it";

/// What is said of drives that are simulated each.
pub const OF_MODEL: &str = "drives of the model, each with a scheduler and tags of its own";

/// Drives that the jobs of a file name, in the order of the file: each job is on one of them or goes over all. `None`: they cannot be
/// simulated so, or are too many.
fn drives(jobs: &[FioJob]) -> Option<Vec<String>> {
    let mut drives = Vec::<String>::new();
    for name in jobs.iter().flat_map(|job| &job.filenames).filter(|name| is_device(name)) {
        if !drives.contains(name) {
            drives.push(name.clone());
        }
    }
    let all: BTreeSet<&String> = drives.iter().collect();
    let fits = |job: &FioJob| match job.filenames.as_slice() {
        [name] => is_device(name) && job.trace.is_none(),
        names => {
            let in_turn = job.spec.nrfiles as usize == names.len() && names.len() == drives.len();
            in_turn && names.iter().collect::<BTreeSet<_>>() == all
        }
    };
    let one = drives.len() < 2;
    (one || drives.len() <= usize::from(DRIVES_MAX) && jobs.iter().all(fits)).then_some(drives)
}

/// Offset and increment of each job.
fn lay_out(jobs: &[FioJob]) -> Vec<(Extent, Extent)> {
    const MIB: u64 = 1 << 20;
    let aligned = |n: u64| n.div_ceil(MIB).saturating_mul(MIB);
    let file_size = |job: &FioJob| match job.spec.size {
        Some(Extent::Bytes(size)) if !job.placed && !job.filenames.iter().any(|name| is_device(name)) => Some(size),
        _ => None,
    };
    let end = |job: &FioJob| match (job.spec.offset, job.spec.offset_increment, job.spec.size) {
        (Extent::Bytes(offset), Extent::Bytes(step), Some(Extent::Bytes(size))) if file_size(job).is_none() => {
            offset.saturating_add(step.saturating_mul(u64::from(job.numjobs - 1))).saturating_add(size)
        }
        _ => 0,
    };
    let mut free = aligned(jobs.iter().map(end).max().unwrap_or(0));
    let mut named = BTreeMap::<&[String], u64>::new();
    // A shared file has the length of its largest user.
    for job in jobs {
        if let (false, Some(size)) = (job.filenames.is_empty(), file_size(job)) {
            let longest = named.entry(&job.filenames).or_default();
            *longest = size.max(*longest);
        }
    }
    let mut starts = BTreeMap::<&[String], u64>::new();
    let mut take = |size: u64| {
        let start = free;
        free = free.saturating_add(aligned(size));
        start
    };
    let place = |job| -> (Extent, Extent) {
        let job: &FioJob = job;
        match (file_size(job), job.filenames.as_slice()) {
            (None, _) => (job.spec.offset, job.spec.offset_increment),
            (Some(size), []) => {
                let start = take(aligned(size).saturating_mul(u64::from(job.numjobs)));
                (Extent::Bytes(start), Extent::Bytes(aligned(size)))
            }
            (Some(_), names) => {
                let start = *starts.entry(names).or_insert_with(|| take(named[names]));
                (Extent::Bytes(start), Extent::Bytes(0))
            }
        }
    };
    jobs.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(jobs: &[(&str, &str)]) -> (Scenario, Vec<String>) {
        let job = |(name, files): &(&str, &str)| {
            format!("[{name}]\nrw=randread\ndirect=1\nruntime=1\ntime_based\nfilename={files}\n")
        };
        Scenario::from_fio(&jobs.iter().map(job).collect::<String>(), "j.fio", &|_| None).unwrap()
    }

    fn drives_of(scenario: &Scenario) -> (u8, Vec<Option<u32>>) {
        let drive = |(_, task): (_, &Task)| match &task.work {
            Work::Job(job) => job.drive,
            _ => panic!("a job"),
        };
        (scenario.drives, scenario.tasks().map(drive).collect())
    }

    #[test]
    fn a_job_is_on_one_drive_or_goes_over_all() {
        let (both, notes) = of(&[("a", "/dev/sdb:/dev/sdc"), ("b", "/dev/sdc:/dev/sdb"), ("c", "/dev/sdc")]);
        assert_eq!(drives_of(&both), (2, vec![None, None, Some(2)]));
        assert!(
            notes[2]
                .ends_with("/dev/sdb, /dev/sdc are 2 drives of the model, each with a scheduler and tags of its own")
        );
        let (mut each, _) = of(&[("a", "/dev/sdb"), ("b", "/dev/sdc"), ("c", "/dev/sdb")]);
        assert_eq!(drives_of(&each), (2, vec![Some(1), Some(2), Some(1)]));
        each.stand_for_all_drives();
        assert_eq!(drives_of(&each), (1, vec![None; 3]));
        assert_eq!(drives_of(&of(&[("a", "/dev/sdb")]).0), (1, vec![None]));
    }

    #[test]
    fn one_device_stands_for_drives_where_jobs_go_over_some_of_them() {
        for other in ["/dev/sdd", "file", "/dev/sdb:/dev/sdd"] {
            let (parts, notes) = of(&[("a", "/dev/sdb:/dev/sdc"), ("b", other)]);
            assert_eq!(drives_of(&parts), (1, vec![None; 2]), "{other}");
            assert!(notes.iter().any(|note| note.contains(PARTS)), "{notes:?}");
        }
    }
}
