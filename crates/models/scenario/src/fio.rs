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
use crate::{Error, Scenario, Task, Tenant, TraceOptions, TraceSpec, Work};

type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Scenario {
    /// Converts the text of a fio job file or command line to a scenario, and returns the warnings. Errors name `path`;
    /// `environment` gives the values of `${VAR}`. Files that it includes are read. Control groups become tenants. The duration is that of the jobs, stage after
    /// stage; without a run time it is open, and the scenario ends with its jobs.
    ///
    /// # Errors
    /// The line and option that are wrong.
    pub fn from_fio(text: &str, path: &str, environment: Environment<'_>) -> Result<(Scenario, Vec<String>), Error> {
        check_text(text, path)?;
        let file = parse(text, path, environment, &|name| read_text(Path::new(name)))?;
        let jobs = &file.jobs;
        let mut longest: BTreeMap<u32, Option<Nanos>> = BTreeMap::new();
        for job in jobs {
            let of_stage = longest.entry(job.stage).or_insert(Some(Nanos::ZERO));
            *of_stage = of_stage.zip(job.spec.longest()).map(|(max, time)| max.max(time));
        }
        let total = longest.values().try_fold(Nanos::ZERO, |sum, time| time.map(|time| sum + time));
        let warmup = jobs.iter().filter(|job| job.stage == 0).map(|job| job.spec.ramp_time).max().unwrap_or_default();
        let mut tenants = Vec::<Tenant>::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for (tenant, weight, task) in tasks(&file.jobs) {
            let at = *places.entry(tenant).or_insert_with_key(|name| {
                tenants.push(Tenant::new(name));
                tenants.len() - 1
            });
            tenants[at].weight = weight.unwrap_or(tenants[at].weight);
            tenants[at].tasks.push(task);
        }
        let stem = Path::new(path).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let drives = drives(jobs);
        let scenario = Scenario {
            name: stem.unwrap_or_default(),
            duration: total.map(|total| Nanos(total.0.saturating_sub(warmup.0))).filter(|time| *time > Nanos::ZERO),
            warmup,
            tenants,
            drives: drives.unwrap_or(1),
            ..Scenario::default()
        };
        let mut warnings: Vec<String> = file.warnings.iter().map(|w| w.to_string()).collect();
        if drives.is_none() {
            warnings.push(format!("{path}: {PARTS}"));
        }
        if scenario.duration.is_none() {
            warnings
                .push(format!("{path}: not every job has a runtime: a run ends when the jobs have done all their I/O"));
        }
        Ok((scenario, warnings))
    }

    /// Drives that a fio job file names (`filename=/dev/…`), each once. A scenario made of it does not touch them.
    ///
    /// # Errors
    /// As [`Scenario::from_fio`].
    pub fn drives_of_fio(text: &str, path: &str, environment: Environment<'_>) -> Result<Vec<String>, Error> {
        let file = parse(text, path, environment, &|name| read_text(Path::new(name)))?;
        let named = file.jobs.into_iter().flat_map(|job| job.filenames);
        let drives: BTreeSet<String> = named.filter(|name| is_device(name)).collect();
        Ok(drives.into_iter().collect())
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
                match drives(&file.jobs) {
                    Some(drives) if drives == 1 || drives == own => {}
                    Some(drives) => warnings.push(format!("{path}: {PARTS}; `drives = {drives}` gives it as many")),
                    None => warnings.push(format!("{path}: {PARTS}")),
                }
                for (_, _, job) in tasks(&file.jobs) {
                    resolved.push(Task {
                        name: format!("{}/{}", task.name, job.name),
                        count: job.count.saturating_mul(task.count),
                        ioprio: job.ioprio.or(task.ioprio),
                        cpu: if job.cpu.is_empty() { task.cpu.clone() } else { job.cpu },
                        stage: job.stage.saturating_add(task.stage),
                        start: task.start,
                        stop: task.stop,
                        deadline: task.deadline,
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

/// The tasks of a file's jobs, each with the name and weight of its tenant.
fn tasks(jobs: &[FioJob]) -> Vec<(String, Option<u32>, Task)> {
    let mut out = Vec::<(String, Option<u32>, Task)>::new();
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
pub const PARTS: &str = "its drives are equal parts of the one device";

/// Drives that the jobs of a file go over: each job all of them. `None`: jobs that go over several name different ones, or more than
/// can be simulated.
fn drives(jobs: &[FioJob]) -> Option<u8> {
    let of = |job: &FioJob| job.filenames.iter().filter(|name| is_device(name)).cloned().collect::<BTreeSet<String>>();
    let each: Vec<BTreeSet<String>> = jobs.iter().map(of).collect();
    if each.iter().all(|drives| drives.len() < 2) {
        return Some(1);
    }
    let number = u8::try_from(each[0].len()).ok().filter(|number| *number <= DRIVES_MAX)?;
    let whole = |job: &FioJob| job.spec.nrfiles == u32::from(number) && job.filenames.len() == usize::from(number);
    (jobs.iter().all(whole) && each.iter().all(|drives| *drives == each[0])).then_some(number)
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
