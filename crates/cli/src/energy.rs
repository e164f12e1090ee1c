//! `energy`: the log of a power meter joined with runs, by the time of day.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow, bail};
use dumbwaiter_advise::Document;
use dumbwaiter_measure::{Energy, RunResult};
use dumbwaiter_meters::{self as meters, Logger, LoggerClock};
use dumbwaiter_report::read_json;

use crate::args::{EnergyArgs, PowerLog};
use crate::{Ended, input, results};

/// A log that is being written is waited for so long, until it holds the end of the last run.
const PATIENCE: Duration = Duration::from_secs(10);
/// Idle, load, idle: the length of each that the clock's alignment looks for.
const PART: Duration = Duration::from_secs(20);

/// Adds energy to results that were written before.
pub(crate) fn run(args: &EnergyArgs) -> Result<Ended> {
    let log = Log::of(&args.power)?.ok_or_else(|| anyhow!("--power-log is missing: expected a logger's CSV file"))?;
    results::check_outputs(&args.outputs, &[&log.path])?;
    let old = read_json(&args.results)?;
    let mut runs = old.runs;
    if runs.iter().all(|run| run.started_unix_ns.is_none()) {
        bail!(
            "{}: none of its {} runs tells when it was; expected what `compare --on … --json` wrote (a simulation has no time of day)",
            args.results.display(),
            runs.len()
        );
    }
    let told = log.read(&old.load_patterns_unix_s)?.fill(&mut runs)?;
    let mut document = Document::new(&old.title, old.scenario, old.versions, runs, old.goal);
    // What was said of meters no longer holds.
    let of_meters = |note: &String| note.starts_with("no energy meter: ") || note.starts_with("energy meter: ");
    document.notes = old.notes.into_iter().filter(|note| !of_meters(note)).chain(told).collect();
    document.load_patterns_unix_s = old.load_patterns_unix_s;
    results::write_all(&args.outputs, &document)?;
    Ok(Ended::Done)
}

/// The figures of a run that drew so many joules in its measured time.
pub(crate) fn of(run: &RunResult, joules: f64, source: &str) -> Energy {
    Energy {
        joules,
        source: source.to_owned(),
        j_per_mio: joules / run.completed as f64 * 1e6,
        bytes_per_j: run.mb_per_s * 1e6 * run.duration_s / joules,
    }
}

/// A log that is to be read when the runs are over.
pub(crate) struct Log {
    path: PathBuf,
    /// Seconds that its clock is ahead, where that was given.
    offset: Option<f64>,
    /// Minutes east of Greenwich, where that was given.
    zone: Option<i32>,
}

impl Log {
    /// As asked for; `None` where no log was. The file itself need not be there yet.
    pub(crate) fn of(args: &PowerLog) -> Result<Option<Log>> {
        let Some(path) = &args.power_log else { return Ok(None) };
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if path.exists() && !path.is_file() || !folder.is_dir() {
            bail!("--power-log {}: expected the name of a logger's CSV file", path.display());
        }
        let offset = args.power_offset.as_deref().map(signed_seconds).transpose()?;
        let zone = args.power_zone.as_deref().map(|text| {
            let known = meters::zone(text).or_else(|| meters::zone(&format!("GMT{text}")));
            known.ok_or_else(|| anyhow!("--power-zone: \"{text}\" is no time zone such as GMT-05:00"))
        });
        Ok(Some(Log { path: path.clone(), offset, zone: zone.transpose()? }))
    }

    /// Reads it. `patterns`: when patterns of load began, in seconds since 1970.
    pub(crate) fn read(&self, patterns: &[f64]) -> Result<Read> {
        let logger = Logger::open(&self.path, self.zone)
            .map_err(|e| anyhow!(e.to_string().replace(": give it", ": give it by --power-zone")))?;
        let (clock, about) = match self.offset {
            Some(offset) => {
                let clock = LoggerClock { offset, ..LoggerClock::SAME };
                (clock, format!("its clock is taken to be {offset:+} s ahead, as given"))
            }
            None if patterns.is_empty() => {
                let about = "its clock is taken to be this machine's (--power-sync finds the difference, --power-offset gives it)";
                (LoggerClock::SAME, about.to_owned())
            }
            None => {
                let clock = logger.align(patterns).map_err(|e| anyhow!("{e}; --power-offset gives the difference"))?;
                let (offset, drift) = (clock.offset, clock.drift * 1e6);
                (clock, format!("its clock was {offset:+.1} s ahead and gained {drift:.0} µs a second, by the load"))
            }
        };
        let serial = logger.serial.as_ref().map_or(String::new(), |serial| format!(" (serial number {serial})"));
        let about = format!("energy: logger {}{serial}; {about}", self.path.display());
        Ok(Read { source: format!("logger {}", self.path.display()), logger, clock, about })
    }

    /// The same for a log that may still be written: waits a little until it holds the last run.
    pub(crate) fn read_to_the_end_of(&self, runs: &[RunResult], patterns: &[f64]) -> Result<Read> {
        let end = runs.iter().filter_map(|run| run.ended_unix_ns).max().unwrap_or(0) as f64 / 1e9;
        let began = Instant::now();
        loop {
            let read = self.read(patterns);
            let whole = read.as_ref().is_ok_and(|read| read.logger.last() >= read.clock.shows(end));
            if whole || began.elapsed() >= PATIENCE {
                return read;
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

/// A log that was read, with how its clock stands.
pub(crate) struct Read {
    logger: Logger,
    clock: LoggerClock,
    source: String,
    about: String,
}

impl Read {
    /// Gives each run what it drew, or nothing where the log does not tell; remarks for people. An error where it tells of
    /// none.
    pub(crate) fn fill(&self, runs: &mut [RunResult]) -> Result<Vec<String>> {
        let mut notes = vec![self.about.clone()];
        let mut missing: BTreeMap<String, u64> = BTreeMap::new();
        let mut found = 0;
        for run in runs.iter_mut() {
            // Whatever another meter said: one does not stand in for another.
            run.energy = None;
            let drawn = match run.started_unix_ns.zip(run.ended_unix_ns) {
                Some((from, to)) => {
                    let drawn = self.logger.energy(from as f64 / 1e9, to as f64 / 1e9, &self.clock);
                    drawn.map_err(|e| e.to_string())
                }
                None => Err("when they were is not known".to_owned()),
            };
            match drawn {
                Ok(drawn) => {
                    run.energy = Some(of(run, drawn.joules, &self.source));
                    found += 1;
                    notes.extend(drawn.warning.map(|w| format!("energy: {w}")).filter(|w| !notes.contains(w)));
                }
                Err(why) => *missing.entry(why).or_default() += 1,
            }
        }
        let missing: Vec<String> =
            missing.iter().map(|(why, n)| format!("no energy for {n} of {} runs: {why}", runs.len())).collect();
        if found == 0 {
            bail!("{}: {}", missing.join("; "), self.about.trim_start_matches("energy: "));
        }
        notes.extend(missing);
        Ok(notes)
    }
}

/// `3s`, `-1.5s`, `+200ms`.
fn signed_seconds(text: &str) -> Result<f64> {
    let (sign, plain) = match text.strip_prefix('-') {
        Some(plain) => (-1.0, plain),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    Ok(sign * input::time("--power-offset", plain)?.as_secs_f64())
}

/// 20 s of idling, 20 s of load on every CPU, 20 s of idling; answers when it began, in seconds since 1970, or nothing if it
/// was interrupted.
pub(crate) fn pattern(stop: &AtomicBool) -> Option<f64> {
    crate::tell!("a minute for the power logger: {} s each of idling, full load and idling", PART.as_secs());
    let began = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
    let start = Instant::now();
    let stopped = || stop.load(Ordering::Relaxed);
    let idle_until = |end: Duration| {
        while start.elapsed() < end && !stopped() {
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    idle_until(PART);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                let mut x = 1u64;
                while start.elapsed() < 2 * PART && !stopped() {
                    for _ in 0..10_000 {
                        x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                    }
                }
            });
        }
    });
    idle_until(3 * PART);
    (!stopped()).then_some(began)
}
