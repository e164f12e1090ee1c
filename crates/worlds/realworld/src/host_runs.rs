//! What an I/O costs this machine, measured with fio on a device that costs nothing itself: as a table of cases, to which a
//! profile is fitted.
//!
//! The device is one of null_blk, or, where the kernel lacks that, a loop device over memory. That one has a worker of its own, which
//! limits it: processor time is all that is taken of it, and locks are not measured.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dumbwaiter_experiment::Failure;
use dumbwaiter_linux::loops::OwnLoop;
use dumbwaiter_linux::machine::Machine;
use dumbwaiter_linux::null_blk::{NullBlkOptions, OwnNullBlk};
use dumbwaiter_linux::process::end_with_us;
use dumbwaiter_linux::queue::Queue;
use dumbwaiter_linux::{Roots, file};
use dumbwaiter_measure::median;
use dumbwaiter_scenario::{CpuScheduler, Host, HostCosts, Profile};
use serde_json::Value;

use crate::error::Error;

/// Schedulers whose costs are measured, as far as the kernel has them.
const SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];
/// Time of an I/O of null_blk: long enough for a CPU to fall asleep, short enough that it is saturated at a depth of 64.
const LATENCY_NS: u64 = 20_000;
const TAGS: u32 = 512;
const MIB: u32 = 256;
/// Queue depth at which one process fills its CPU.
const DEEP: u32 = 64;
/// The scheduler to which locks and what a sleep adds to hooks are fitted; others are predicted.
const FITTED: &str = "mq-deadline";
/// A cell of the table that stays empty.
const EMPTY: f64 = f64::NAN;

/// How to measure.
#[derive(Clone, Debug)]
pub struct HostRunOptions {
    /// Time of a run.
    pub length: Duration,
    /// Runs of each case, of which the median counts.
    pub rounds: u32,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct HostRuns {
    /// The cases, as `fidelity --measured` takes them. Conditions that end in "kept back" are to be predicted.
    pub table: String,
    /// The model that stands for the device in each figure.
    pub devices: Vec<(Option<String>, String)>,
    /// CPUs of the machine.
    pub cpus: u16,
    /// Their clock, MHz; `None` if the kernel does not say it.
    pub mhz: Option<u32>,
    /// Two CPUs share a core.
    pub smt: bool,
    /// The release of its kernel.
    pub kernel: String,
    /// The machine, the device and what could not be measured.
    pub notes: Vec<String>,
}

impl HostRuns {
    /// The machine with the costs of `base`, from which a fit begins: its CPUs, clock, threads and kernel.
    pub fn host(&self, base: &HostCosts) -> Host {
        let costs = HostCosts {
            smt_from_cpus: if self.smt { 2 } else { 0 },
            cpu_scheduler: if since_6_6(&self.kernel) { CpuScheduler::Eevdf } else { CpuScheduler::Cfs },
            kernel: Some(self.kernel.clone()),
            power: None,
            ..base.at(self.mhz.unwrap_or(base.mhz))
        };
        Host { cpus: self.cpus, profile: Profile::Given(Arc::new(costs)), ..Host::default() }
    }
}

/// A case to run.
#[derive(Clone, Debug, PartialEq)]
struct HostCase {
    figure: &'static str,
    scheduler: &'static str,
    rw: &'static str,
    depth: u32,
    processes: u16,
    kept_back: bool,
}

impl HostCase {
    fn condition(&self) -> String {
        let HostCase { rw, depth, processes, .. } = self;
        let end = if self.kept_back { " kept back" } else { "" };
        format!("{rw} depth={depth} processes={processes}{end}")
    }
}

/// The cases of a machine with these schedulers and CPUs; without `cores` those of one process.
fn cases(schedulers: &[&'static str], cpus: u16, cores: bool) -> Vec<HostCase> {
    let one =
        |figure, scheduler, rw, depth, kept_back| HostCase { figure, scheduler, rw, depth, processes: 1, kept_back };
    let mut all = Vec::new();
    for scheduler in schedulers {
        all.push(one("sleeping", scheduler, "randread", 1, !["none", FITTED].contains(scheduler)));
        all.push(one("saturated", scheduler, "randread", DEEP, false));
        all.push(one("saturated", scheduler, "randwrite", DEEP, false));
    }
    all.push(one("between", "none", "randread", 8, true));
    let mut counts = vec![2, cpus / 2, cpus];
    counts.retain(|n| *n >= 2 && *n <= cpus);
    counts.sort_unstable();
    counts.dedup();
    for processes in counts.into_iter().filter(|_| cores) {
        for scheduler in schedulers {
            let kept_back = *scheduler != FITTED || processes < cpus;
            all.push(HostCase { figure: "cores", scheduler, rw: "randread", depth: DEEP, processes, kept_back });
        }
    }
    all
}

/// The device: null_blk's, or a loop device over memory and why it is that.
enum Subject {
    NullBlk(OwnNullBlk),
    Loop(OwnLoop, String),
}

impl Subject {
    fn new(cpus: u16) -> Result<Subject, Error> {
        let options = NullBlkOptions { latency_ns: LATENCY_NS, queues: u32::from(cpus), depth: TAGS, mib: MIB };
        let reason = match OwnNullBlk::new(options) {
            Ok(own) => return Ok(Subject::NullBlk(own)),
            Err(error) => error.to_string(),
        };
        let memory = Path::new("/dev/shm");
        let fill = |file: &mut std::fs::File| {
            std::io::copy(&mut std::io::Read::take(std::io::repeat(0), u64::from(MIB) << 20), file).map(drop)
        };
        Ok(Subject::Loop(OwnLoop::new(memory, fill).map_err(needs_root)?, reason))
    }

    fn path(&self) -> &Path {
        match self {
            Subject::NullBlk(own) => own.device(),
            Subject::Loop(own, _) => own.device(),
        }
    }
}

/// Whoever may not make a device or set its scheduler is told who may.
fn needs_root(error: dumbwaiter_linux::Error) -> Error {
    let text = error.to_string();
    let hint = "host fit makes a device of its own and sets its scheduler, as root";
    Error::refused(if text.contains("ermission denied") { format!("{text}; {hint}") } else { text })
}

/// Figures of a run of fio.
#[derive(Clone, Copy, Debug, PartialEq)]
struct FioFigures {
    iops: f64,
    mean_us: f64,
    p50_us: f64,
    p95_us: f64,
    p99_us: f64,
    cpu_us: f64,
}

impl FioFigures {
    /// Those of fio's JSON, whose jobs are reported as a group of `processes`.
    fn of(json: &Value, writes: bool, processes: u16) -> Option<FioFigures> {
        let job = json["jobs"].get(0)?;
        let part = &job[if writes { "write" } else { "read" }];
        let us = |value: &Value| value.as_f64().map(|ns| ns / 1e3);
        let percentile = |name: &str| us(&part["clat_ns"]["percentile"][name]);
        let iops = part["iops"].as_f64().filter(|iops| *iops > 0.0)?;
        // Of a group fio reports the mean of its processes.
        let busy = (job["usr_cpu"].as_f64()? + job["sys_cpu"].as_f64()?) / 100.0 * f64::from(processes);
        Some(FioFigures {
            iops,
            mean_us: us(&part["lat_ns"]["mean"])?,
            p50_us: percentile("50.000000")?,
            p95_us: percentile("95.000000")?,
            p99_us: percentile("99.000000")?,
            cpu_us: busy / iops * 1e6,
        })
    }

    /// Of each figure the median.
    fn median(runs: &[FioFigures]) -> FioFigures {
        let of = |value: fn(&FioFigures) -> f64| median(runs.iter().map(value).collect());
        FioFigures {
            iops: of(|f| f.iops),
            mean_us: of(|f| f.mean_us),
            p50_us: of(|f| f.p50_us),
            p95_us: of(|f| f.p95_us),
            p99_us: of(|f| f.p99_us),
            cpu_us: of(|f| f.cpu_us),
        }
    }
}

/// Measures this machine. `observe` hears the number of the run that begins, and of how many. The device is made and removed; nothing
/// else is written.
///
/// # Errors
/// No fio, no permission to make a device, runs that fail, or an interruption.
pub fn host_runs(
    options: &HostRunOptions,
    cancel: &AtomicBool,
    observe: &mut dyn FnMut(usize, usize),
) -> Result<HostRuns, Failure> {
    let found = measure(options, cancel, observe);
    if cancel.load(Ordering::Relaxed) {
        return Err(Failure::interrupted("interrupted; nothing was fitted"));
    }
    Ok(found?)
}

fn measure(
    options: &HostRunOptions,
    cancel: &AtomicBool,
    observe: &mut dyn FnMut(usize, usize),
) -> Result<HostRuns, Error> {
    let machine = Machine::now();
    let cpus = u16::try_from(machine.cpus.max(1)).unwrap_or(u16::MAX);
    let subject = Subject::new(cpus)?;
    let queue = Queue::of(subject.path())?.ok_or_else(|| Error::refused("its device has no queue"))?;
    let (_, offered) = queue.schedulers()?;
    let offers = |name: &&str| offered.iter().any(|own| own == name);
    let schedulers: Vec<&'static str> = SCHEDULERS.into_iter().filter(offers).collect();
    let missing: Vec<&str> = SCHEDULERS.into_iter().filter(|name| !offers(name)).collect();
    let cases = cases(&schedulers, cpus, matches!(subject, Subject::NullBlk(_)));
    let mut found: Vec<Vec<FioFigures>> = vec![Vec::new(); cases.len()];
    let rounds = options.rounds.max(1);
    let whole = cases.len() * rounds as usize;
    for round in 0..rounds as usize {
        for (number, (case, runs)) in cases.iter().zip(&mut found).enumerate() {
            if cancel.load(Ordering::Relaxed) {
                return Err(Error::failed("interrupted"));
            }
            observe(round * cases.len() + number + 1, whole);
            file::write(&queue.file("scheduler"), case.scheduler).map_err(needs_root)?;
            runs.push(fio(subject.path(), case, options.length)?);
        }
    }
    let figures: Vec<FioFigures> = found.iter().map(|runs| FioFigures::median(runs)).collect();
    let mut notes = vec![format!(
        "{}, {cpus} CPUs, Linux {}; fio with io_uring, 4 KiB, {rounds} runs of {} s a case, medians",
        if machine.cpu.is_empty() { "CPU unknown" } else { &machine.cpu },
        machine.kernel,
        options.length.as_secs_f64()
    )];
    notes.push(match &subject {
        Subject::NullBlk(_) => format!("device: null_blk, {LATENCY_NS} ns by a timer, {cpus} queues"),
        Subject::Loop(_, reason) => {
            format!(
                "device: a loop device over memory, so locks were not measured, and only CPU time was fitted ({reason})"
            )
        }
    });
    if !missing.is_empty() {
        notes.push(format!("this kernel lacks {}", missing.join(", ")));
    }
    let of_loop = matches!(subject, Subject::Loop(..));
    Ok(HostRuns {
        table: table(&cases, &figures, of_loop),
        devices: devices(&cases, &figures, of_loop, cpus),
        cpus,
        mhz: mhz(),
        smt: file::read_some(Path::new("/sys/devices/system/cpu/smt/active")).is_some_and(|text| text.trim() == "1"),
        kernel: machine.kernel,
        notes,
    })
}

/// Runs fio once.
fn fio(device: &Path, case: &HostCase, length: Duration) -> Result<FioFigures, Error> {
    let mut command = Command::new("fio");
    command.args(["--name=t", "--ioengine=io_uring", "--direct=1", "--bs=4k", "--norandommap", "--time_based"]);
    command.args(["--group_reporting", "--output-format=json"]);
    command.arg(format!("--runtime={}ms", length.as_millis())).arg(format!("--rw={}", case.rw));
    command.arg(format!("--iodepth={}", case.depth)).arg(format!("--numjobs={}", case.processes));
    command.arg("--filename").arg(device).stdin(Stdio::null());
    let out = end_with_us(&mut command).output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::refused("fio is not installed; it is what measures"),
        _ => Error::failed(format!("cannot run fio: {error}")),
    })?;
    let said = || String::from_utf8_lossy(&out.stderr).lines().next().unwrap_or("no reason given").to_owned();
    if !out.status.success() {
        return Err(Error::failed(format!("fio, {}, {}: {}", case.scheduler, case.condition(), said())));
    }
    // What fio remarks comes before the JSON.
    let text = String::from_utf8_lossy(&out.stdout);
    let json = text.find('{').and_then(|start| serde_json::from_str(&text[start..]).ok());
    json.and_then(|json: Value| FioFigures::of(&json, case.rw == "randwrite", case.processes))
        .ok_or_else(|| Error::failed(format!("fio, {}, {}: its JSON has no figures", case.scheduler, case.condition())))
}

/// The table. What is fitted has no tails: those are of a machine's other work.
fn table(cases: &[HostCase], figures: &[FioFigures], of_loop: bool) -> String {
    let mut text = String::from(
        "figure,condition,scheduler,devices,role,rw,bs,iodepth,numjobs,iops,lat_mean_us,clat_p50_us,clat_p95_us,clat_p99_us,cpu_us_per_io\n",
    );
    for (case, f) in cases.iter().zip(figures) {
        let HostCase { figure, scheduler, rw, depth, processes, kept_back } = case;
        let of_tail = |us: f64| if *kept_back && !of_loop { us } else { EMPTY };
        let rate = |value: f64| if of_loop { EMPTY } else { value };
        let cells = [rate(f.iops), rate(f.mean_us), of_tail(f.p50_us), of_tail(f.p95_us), of_tail(f.p99_us), f.cpu_us];
        let cells = cells.map(|value| if value.is_finite() { format!("{value:.3}") } else { String::new() }).join(",");
        let condition = case.condition();
        let _ = writeln!(text, "{figure},{condition},{scheduler},1,reads,{rw},4k,{depth},{processes},{cells}");
    }
    text
}

/// The models. A loop device's worker takes one request after another, so long as the rate says, and wakes for the first.
fn devices(cases: &[HostCase], figures: &[FioFigures], of_loop: bool, cpus: u16) -> Vec<(Option<String>, String)> {
    if !of_loop {
        let depth = u32::from(cpus) * TAGS;
        return vec![(None, format!("null:0us?latency_ns={LATENCY_NS}&depth={depth}&queues={cpus}"))];
    }
    let of = |figure: &str, ns: fn(&FioFigures) -> f64| {
        let own = cases.iter().zip(figures).find(|(case, _)| case.figure == figure && case.scheduler == "none");
        let ns = own.map_or(0.0, |(_, figures)| ns(figures));
        (Some(figure.to_owned()), format!("null:0us?latency_ns={}&depth=128&channels=1", ns.round() as u64))
    };
    let by_rate = |f: &FioFigures| 1e9 / f.iops;
    vec![of("sleeping", |f| f.mean_us * 1e3), of("saturated", by_rate), of("between", by_rate)]
}

fn mhz() -> Option<u32> {
    let largest = file::read_some(Path::new("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"));
    let khz = largest.and_then(|text| text.trim().parse::<u32>().ok()).map(|khz| khz / 1000);
    khz.or_else(|| {
        let info = std::fs::read_to_string(Roots::default().proc.join("cpuinfo")).ok()?;
        let line = info.lines().find_map(|line| line.strip_prefix("cpu MHz"))?;
        line.split(':').nth(1)?.trim().parse::<f64>().ok().map(|mhz| mhz.round() as u32)
    })
    .filter(|mhz| (100..=10_000).contains(mhz))
}

/// Whether a release is 6.6 or later.
fn since_6_6(release: &str) -> bool {
    let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_case_is_fitted_or_kept_back() {
        let all = cases(&["none", "mq-deadline"], 8, true);
        let fitted: Vec<String> =
            all.iter().filter(|c| !c.kept_back).map(|c| format!("{} {}", c.scheduler, c.condition())).collect();
        assert_eq!(
            fitted,
            [
                "none randread depth=1 processes=1",
                "none randread depth=64 processes=1",
                "none randwrite depth=64 processes=1",
                "mq-deadline randread depth=1 processes=1",
                "mq-deadline randread depth=64 processes=1",
                "mq-deadline randwrite depth=64 processes=1",
                "mq-deadline randread depth=64 processes=8",
            ]
        );
        assert_eq!(all.iter().filter(|c| c.figure == "cores").count(), 6, "2, 4 and 8 processes");
        assert!(cases(&["none"], 8, false).iter().all(|c| c.processes == 1));
        assert!(cases(&["none"], 1, true).iter().all(|c| c.processes == 1));
    }

    #[test]
    fn figures_of_a_group_are_those_of_all_its_processes() {
        let part = r#"{"iops": 200000.0, "lat_ns": {"mean": 20000.0}, "clat_ns": {"percentile":
            {"50.000000": 19000, "95.000000": 30000, "99.000000": 40000}}}"#;
        let json = format!(r#"{{"jobs": [{{"usr_cpu": 10.0, "sys_cpu": 40.0, "read": {part}}}]}}"#);
        let found = FioFigures::of(&serde_json::from_str(&json).unwrap(), false, 4).unwrap();
        assert_eq!((found.iops, found.mean_us, found.p99_us, found.cpu_us), (200_000.0, 20.0, 40.0, 10.0));
        assert_eq!(FioFigures::of(&serde_json::from_str(&json).unwrap(), true, 4), None);
        let slower = FioFigures { iops: 100.0, ..found };
        assert_eq!(FioFigures::median(&[found, slower, found]).iops, 200_000.0);
    }

    #[test]
    fn releases_are_compared_as_numbers() {
        assert!(
            since_6_6("6.12.117-1") && since_6_6("7.0") && since_6_6("6.6.1") && !since_6_6("6.5.0") && !since_6_6("")
        );
    }
}
