//! A case as a scenario: the same jobs, on a model of the drive and of the host.

use std::fmt::Write as _;

use dumbwaiter_block::Nanos;
use dumbwaiter_scenario::{Host, Scenario, SchedulerSpec, Tenant};

use super::case::{Case, Job, Length};

/// I/Os that a run of one kind of load without writes should have.
const IOS_OF_READS: f64 = 150_000.0;
/// The same where jobs compete: the rarer ones need enough of their own.
const IOS_OF_MIXES: f64 = 600_000.0;
/// I/Os that the rarest job should have.
const IOS_OF_RAREST: f64 = 2_000.0;
/// A run may have this many times the I/Os meant, for the sake of the rarest job.
const IOS_TIMES_MAX: f64 = 3.0;
/// Least length of the measured time: of reads alone, where reads compete, and with writes. Kyber looks at windows of 100 ms, and a drive's
/// buffer fills and drains in some 10 ms.
const SECONDS_MIN: f64 = 0.1;
const SECONDS_OF_READ_MIXES_MIN: f64 = 0.2;
const SECONDS_OF_MIXES_MIN: f64 = 0.4;
/// Round trips of the slowest job in the measured time, at least.
const ROUND_TRIPS_MIN: f64 = 30.0;
/// Warm-up as a part of the measured time: of reads alone, and where jobs compete.
const WARMUP: f64 = 0.25;
const WARMUP_OF_MIXES: f64 = 0.5;

/// How long the runs of a case are: as long as its measured rates need for enough I/Os.
/// `effort` is a part of that, 0 to 1.
pub(super) fn length(case: &Case, effort: f64) -> Length {
    if let Some(Length { warmup_s, seconds }) = case.length {
        return Length { warmup_s, seconds: seconds * effort };
    }
    let competes = case.jobs.len() > 1 || case.writes();
    let (ios, least, warmup) = match (competes, case.writes()) {
        (true, true) => (IOS_OF_MIXES, SECONDS_OF_MIXES_MIN, WARMUP_OF_MIXES),
        (true, false) => (IOS_OF_MIXES, SECONDS_OF_READ_MIXES_MIN, WARMUP_OF_MIXES),
        (false, _) => (IOS_OF_READS, SECONDS_MIN, WARMUP),
    };
    let (ios, least) = (ios * effort, least * effort);
    let rate = Some(case.iops()).filter(|rate| *rate > 0.0).unwrap_or(100_000.0);
    let rarest = case.parts().filter_map(|row| row.figures.iops).filter(|iops| *iops > 0.0).fold(rate, f64::min);
    let slowest_us = case.parts().filter_map(|row| row.figures.mean_us).fold(0.0, f64::max);
    let of_rarest = (IOS_OF_RAREST / rarest).min(IOS_TIMES_MAX * ios / rate);
    let wanted = (ios / rate).max(of_rarest).max(least).max(ROUND_TRIPS_MIN * slowest_us / 1e6);
    // Open loops of a slow drive: as long as they were measured.
    let seconds = wanted.min(case.seconds_max);
    Length { warmup_s: seconds * warmup, seconds }
}

/// The scenario of a case, with its only device and scheduler.
pub(super) fn scenario(
    case: &Case,
    device: &str,
    host: &Host,
    length: Length,
    replicates: u32,
) -> Result<Scenario, String> {
    let stack = case.stack.clone()?;
    let spec = SchedulerSpec::parse(&stack)?;
    let together = length.warmup_s + length.seconds;
    let text = job_file(case, together);
    let name = format!("{} {}", case.figure, case.condition);
    let (mut scenario, _) = Scenario::from_fio(&text, name.trim(), &|_| None).map_err(|error| error.to_string())?;
    let nanos = |s: f64| Nanos((s * 1e9).round().max(1.0) as u64);
    scenario.devices = vec![device.to_owned()];
    scenario.drives = case.drives;
    scenario.schedulers = vec![spec];
    scenario.duration = Some(nanos(length.seconds));
    scenario.warmup = nanos(length.warmup_s);
    scenario.series = nanos(length.seconds);
    scenario.replicates = replicates;
    scenario.host = host.clone();
    for group in &case.groups {
        for tenant in scenario.tenants.iter_mut().filter(|tenant| group.jobs.contains(&tenant.name)) {
            tenant.parent = Some(group.name.to_owned());
        }
        let mut tenant = Tenant::new(group.name);
        tenant.controls.io_weight = Some(group.weight);
        scenario.tenants.push(tenant);
    }
    scenario.validate(&|_| Ok(()), &|_| Ok(())).map_err(|error| error.to_string())?;
    Ok(scenario)
}

/// The jobs as fio's job file.
fn job_file(case: &Case, seconds: f64) -> String {
    let mut text = String::new();
    for job in &case.jobs {
        let _ = writeln!(text, "[{}]\ntime_based\nruntime={}", section(&job.name), seconds.ceil().max(1.0));
        let _ = writeln!(text, "numjobs={}\niodepth={}", job.numjobs, job.iodepth);
        let _ = match job.drives.unwrap_or(case.drives) {
            own if own == case.drives => writeln!(text, "nrfiles={own}"),
            own => writeln!(text, "nrfiles={own}\nsize={}%", 100.0 * f64::from(own) / f64::from(case.drives)),
        };
        if !job.cpus.is_empty() {
            let list: Vec<String> = job.cpus.iter().map(u16::to_string).collect();
            let _ = writeln!(text, "cpus_allowed={}", list.join(","));
        }
        for (key, value) in &job.options {
            let _ = match value.as_str() {
                "" => writeln!(text, "{key}"),
                value => writeln!(text, "{key}={value}"),
            };
        }
    }
    text
}

/// A name of a job as the title of a section.
fn section(name: &str) -> String {
    name.chars().map(|c| if "[]\n;#".contains(c) || c.is_control() { '_' } else { c }).collect()
}

/// The name of a task of a job.
pub(super) fn task_name(job: &Job) -> String {
    section(&job.name)
}
