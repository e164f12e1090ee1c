//! Results that fio wrote as JSON: its jobs, rebuilt from their options, and what they measured.

use std::path::{Path, PathBuf};

use dumbwaiter_scenario::DRIVES_MAX;
use serde_json::{Map, Value};

use super::MeasuredError;
use super::case::{Case, Clipped, Figures, FioOptions, Job, MeasuredRow, Part, cpu_list};
use super::csv::{at, read_text};

/// Options that say where and for how long, not what: the run has its own.
const LEFT_OUT: [&str; 14] = [
    "name",
    "filename",
    "directory",
    "runtime",
    "timeout",
    "time_based",
    "ramp_time",
    "startdelay",
    "start_delay",
    "loops",
    "numjobs",
    "iodepth",
    "cpus_allowed",
    "stonewall",
];
const SECONDS_MAX: f64 = 5.0;

/// The case of files that ran together.
pub(super) fn case(paths: &[PathBuf], scheduler: &str) -> Result<Case, MeasuredError> {
    let names: Vec<String> = paths.iter().map(|path| stem(path)).collect();
    let mut case = Case {
        figure: String::new(),
        condition: names.join("+"),
        scheduler: scheduler.to_owned(),
        stack: Ok(scheduler.to_owned()),
        drives: 1,
        jobs: Vec::new(),
        rows: Vec::new(),
        length: None,
        groups: Vec::new(),
        seconds_max: SECONDS_MAX,
        note: None,
    };
    for path in paths {
        let text = read_text(path)?;
        // fio may write a warning before its JSON.
        let start = text.find('{').unwrap_or(0);
        let value: Value = serde_json::from_str(&text[start..]).map_err(|error| {
            let before = text[..start].matches('\n').count();
            at(path, (before + error.line()) as u64, format!("not fio's JSON: {error}"))
        })?;
        let jobs = value.get("jobs").and_then(Value::as_array).filter(|jobs| !jobs.is_empty());
        let jobs =
            jobs.ok_or_else(|| at(path, 1, "`jobs` is missing; expected a result of fio --output-format=json"))?;
        let global = value.get("global options").and_then(Value::as_object);
        for (number, job) in jobs.iter().enumerate() {
            add(&mut case, path, number, global, job)?;
        }
    }
    Ok(case)
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

fn add(
    case: &mut Case,
    path: &Path,
    number: usize,
    global: Option<&Map<String, Value>>,
    job: &Value,
) -> Result<(), MeasuredError> {
    let name = job.get("jobname").and_then(Value::as_str).unwrap_or("job").to_owned();
    let wrong = |what: String| at(path, 1, format!("jobs[{number}] ({name}): {what}"));
    let own = job.get("job options").and_then(Value::as_object);
    let own = own.ok_or_else(|| wrong("`job options` are missing; expected those of fio 3".to_owned()))?;
    let all = options_of(global, own);
    let option = |key: &str| all.iter().find(|(own, _)| own == key).map(|(_, value)| value.as_str());
    let number_of = |key: &str, or: u32| match option(key) {
        None => Ok(or),
        Some(text) => text.parse::<u32>().map_err(|_| wrong(format!("{key}={text}; expected a whole number"))),
    };
    let (iodepth, numjobs) = (number_of("iodepth", 1)?, number_of("numjobs", 1)?);
    let drives = option("filename").map_or(1, |names| names.split(':').count().max(1));
    let few = u8::try_from(drives).ok().filter(|drives| *drives <= DRIVES_MAX);
    let drives = few.ok_or_else(|| wrong(format!("filename names {drives} files; expected at most {DRIVES_MAX}")))?;
    let cpus = option("cpus_allowed")
        .map(|text| cpu_list(text).ok_or_else(|| wrong(format!("cpus_allowed={text}; expected 0,2-5"))));
    let cpus = cpus.transpose()?.unwrap_or_default();
    let rw = option("rw").or(option("readwrite")).unwrap_or("read").to_owned();
    let reads = rw.starts_with("rand") && rw.contains("read")
        || rw.starts_with("read")
        || rw.starts_with("rw")
        || rw.starts_with("randrw");
    let writes = rw.contains("write") || rw.starts_with("rw") || rw.starts_with("randrw");
    let grouped = option("group_reporting").is_some_and(|value| value != "0");
    let options: FioOptions = all.iter().filter(|(key, _)| !LEFT_OUT.contains(&key.as_str())).cloned().collect();
    case.drives = case.drives.max(drives);
    let place = |role: &str, part: Part, figures: Figures| MeasuredRow {
        path: path.to_owned(),
        line: number as u64 + 1,
        role: role.to_owned(),
        part,
        figures,
        clipped: Clipped::default(),
    };
    // Without group_reporting fio lists each of its processes: they are one job here, and one row.
    let clone = case.jobs.last().is_some_and(|last| {
        !grouped && last.numjobs < numjobs && last.options == options && last.name == name && last.iodepth == iodepth
    });
    if clone {
        join_last(case, job, writes);
        return Ok(());
    }
    let count = if grouped { numjobs } else { 1 };
    case.jobs.push(Job {
        name: name.clone(),
        numjobs: count,
        options,
        writes,
        reads,
        iodepth,
        cpus,
        drives: Some(drives),
    });
    let at = case.jobs.len() - 1;
    // Of a group fio says the mean of its processes' CPU time, and the sum of their I/Os.
    let of_group = |own: Figures| Figures { cpu_us: own.cpu_us.map(|us| us * f64::from(count)), ..own };
    if reads && writes {
        case.rows.push(place(&format!("{name} reads"), Part::Reads(at), of_group(reads_of(job))));
        case.rows.push(place(&format!("{name} writes"), Part::Writes(at), of_group(writes_of(job))));
    } else {
        let figures = if writes { writes_of(job) } else { reads_of(job) };
        case.rows.push(place(&name, Part::Job(at), of_group(figures)));
    }
    Ok(())
}

/// Options of a job: those of [global], unless the job has its own.
fn options_of(global: Option<&Map<String, Value>>, own: &Map<String, Value>) -> FioOptions {
    let mut all = FioOptions::new();
    for (key, value) in global.into_iter().flatten().chain(own) {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        all.retain(|(other, _)| other != key);
        all.push((key.clone(), value));
    }
    all
}

/// One more process of the last job.
fn join_last(case: &mut Case, job: &Value, writes: bool) {
    let at = case.jobs.len() - 1;
    case.jobs[at].numjobs += 1;
    let rows = case.rows.iter_mut().filter(|row| job_of(row.part) == Some(at));
    for row in rows {
        let part = match row.part {
            Part::Writes(_) => writes_of(job),
            Part::Reads(_) => reads_of(job),
            _ if writes => writes_of(job),
            _ => reads_of(job),
        };
        row.figures = joined(row.figures, part);
        if row.part == Part::Job(at) {
            row.part = Part::EachOf(at);
        }
    }
}

fn job_of(part: Part) -> Option<usize> {
    match part {
        Part::Job(i) | Part::Reads(i) | Part::Writes(i) | Part::EachOf(i) => Some(i),
        Part::Total | Part::All => None,
    }
}

fn reads_of(job: &Value) -> Figures {
    figures(job, "read")
}

fn writes_of(job: &Value) -> Figures {
    figures(job, "write")
}

fn figures(job: &Value, direction: &str) -> Figures {
    let part = &job[direction];
    let number = |value: &Value| value.as_f64().filter(|n| n.is_finite() && *n >= 0.0);
    let us = |value: &Value| number(value).map(|ns| ns / 1e3);
    let percentile = |name: &str| us(&part["clat_ns"]["percentile"][name]);
    let iops = number(&part["iops"]);
    let all = ["read", "write", "trim"].iter().filter_map(|d| number(&job[d]["iops"])).sum::<f64>();
    let percent = number(&job["usr_cpu"]).zip(number(&job["sys_cpu"])).map(|(usr, sys)| usr + sys);
    let bytes = number(&part["bw_bytes"]).or(number(&part["bw"]).map(|kib| kib * 1024.0));
    Figures {
        iops,
        mb_s: bytes.map(|bytes| bytes / 1e6),
        mean_us: us(&part["lat_ns"]["mean"]),
        p50_us: percentile("50.000000"),
        p95_us: percentile("95.000000"),
        p99_us: percentile("99.000000"),
        cpu_us: percent.filter(|_| all > 0.0).map(|percent| percent * 1e4 / all),
    }
}

/// Figures of two processes of a job together: sums of rates, means by rate, the larger p99.
fn joined(a: Figures, b: Figures) -> Figures {
    let sum = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b);
    let (wa, wb) = (a.iops.unwrap_or(0.0), b.iops.unwrap_or(0.0));
    let mean = |a: Option<f64>, b: Option<f64>| {
        a.zip(b).map(|(a, b)| if wa + wb > 0.0 { (a * wa + b * wb) / (wa + wb) } else { a })
    };
    Figures {
        iops: sum(a.iops, b.iops),
        mb_s: sum(a.mb_s, b.mb_s),
        mean_us: mean(a.mean_us, b.mean_us),
        p50_us: mean(a.p50_us, b.p50_us),
        p95_us: mean(a.p95_us, b.p95_us),
        p99_us: a.p99_us.zip(b.p99_us).map(|(a, b)| a.max(b)),
        cpu_us: mean(a.cpu_us, b.cpu_us),
    }
}
