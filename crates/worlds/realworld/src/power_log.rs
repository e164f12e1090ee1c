//! The log of a power meter, joined with runs by the time of day.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use dumbwaiter_advise::Document;
use dumbwaiter_experiment::Failure;
use dumbwaiter_linux::meters::{Logger, LoggerClock};
use dumbwaiter_measure::{Energy, RunResult};
use dumbwaiter_text::units;

/// A logger may still be writing the end of the last run: how long to wait for it.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// How often the log is read again meanwhile.
const REREAD_INTERVAL: Duration = Duration::from_millis(500);

/// A power logger's CSV file, which is read when the runs are over.
#[derive(Clone, Debug)]
pub struct PowerLog {
    path: PathBuf,
    clock_ahead_s: Option<f64>,
    zone_minutes: Option<i32>,
}

impl PowerLog {
    /// The log at `path`, which need not exist yet. `clock_ahead_s`: seconds that the logger's clock is ahead of this
    /// machine's, if known. `zone_minutes`: its time zone, minutes east of Greenwich, if its header does not name it.
    pub fn new(path: &Path, clock_ahead_s: Option<f64>, zone_minutes: Option<i32>) -> Result<PowerLog, Failure> {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if path.exists() && !path.is_file() || !folder.is_dir() {
            return Err(Failure::refused(format!(
                "--power-log {}: expected the name of a logger's CSV file",
                path.display()
            )));
        }
        Ok(PowerLog { path: path.to_owned(), clock_ahead_s, zone_minutes })
    }

    /// The log at `path` with an offset such as `3s` or `-1.5s`, by which its clock is ahead, and a time zone such as `GMT-05:00`.
    ///
    /// # Errors
    /// A text of another form, named by its flag; as [`PowerLog::new`].
    pub fn parse(path: &Path, offset: Option<&str>, zone: Option<&str>) -> Result<PowerLog, Failure> {
        let zone_minutes = zone.map(|text| {
            let known =
                dumbwaiter_linux::meters::zone(text).or_else(|| dumbwaiter_linux::meters::zone(&format!("GMT{text}")));
            let wrong = || format!("--power-zone: \"{text}\" is not a time zone; expected one such as GMT-05:00");
            known.ok_or_else(|| Failure::refused(wrong()))
        });
        PowerLog::new(path, offset.map(signed_seconds).transpose()?, zone_minutes.transpose()?)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives each of `runs` the energy that the log has for its measured time, and removes that of other meters: one does
    /// not stand in for another. `patterns`: when load patterns began, in seconds since 1970. Returns remarks for people; an
    /// error where the log covers none of the runs.
    pub fn fill(&self, runs: &mut [RunResult], patterns: &[f64]) -> Result<Vec<String>, Failure> {
        self.read(patterns).and_then(|samples| samples.fill(runs))
    }

    /// The same for a log that may still be written: waits up to 10 s until it holds the end of the last run, unless it has not
    /// been written to since the first one began.
    pub fn fill_when_complete(&self, runs: &mut [RunResult], patterns: &[f64]) -> Result<Vec<String>, Failure> {
        let end = runs.iter().filter_map(|run| run.ended_unix_ns).max().unwrap_or(0) as f64 / 1e9;
        let first = runs.iter().filter_map(|run| run.started_unix_ns).min().unwrap_or(0);
        let first = SystemTime::UNIX_EPOCH + Duration::from_nanos(first);
        let grows = || std::fs::metadata(&self.path).and_then(|meta| meta.modified()).ok().is_none_or(|at| at >= first);
        let began = Instant::now();
        loop {
            let samples = self.read(patterns);
            let complete = samples.as_ref().is_ok_and(|s| s.logger.last() >= s.clock.shows(end));
            if complete || began.elapsed() >= WAIT_MAX || !grows() {
                return samples.and_then(|samples| samples.fill(runs));
            }
            std::thread::sleep(REREAD_INTERVAL);
        }
    }

    /// A document, read from `path`, with the energy that the log has for its runs, decided anew.
    ///
    /// # Errors
    /// If the runs have no time of day, as those of a simulation, or the log covers none of them.
    pub fn add_to(&self, mut old: Document, path: &Path) -> Result<Document, Failure> {
        if old.runs.iter().all(|run| run.started_unix_ns.is_none()) {
            return Err(Failure::refused(format!(
                "{}: none of its {} runs has a start time; expected results of `compare --on … --json` (a simulation has no time of day)",
                path.display(),
                old.runs.len()
            )));
        }
        let remarks = self.fill(&mut old.runs, &old.load_patterns_unix_s)?;
        // Remarks on the meters of the runs no longer hold.
        let of_meters = |note: &String| note.starts_with("no energy meter: ") || note.starts_with("energy meter: ");
        old.notes.retain(|note| !of_meters(note));
        old.notes.extend(remarks);
        old.decide();
        Ok(old)
    }

    fn read(&self, patterns: &[f64]) -> Result<Samples, Failure> {
        let logger = Logger::open(&self.path, self.zone_minutes)
            .map_err(|e| Failure::refused(e.to_string().replace(": give it", ": give it by --power-zone")))?;
        let (clock, about) = match self.clock_ahead_s {
            Some(offset) => {
                let clock = LoggerClock { offset, ..LoggerClock::SAME };
                (clock, format!("its clock is taken to be {offset:+} s ahead, as given"))
            }
            None if patterns.is_empty() => {
                let about = "its clock is taken to be this machine's (--power-sync finds the difference, --power-offset gives it)";
                (LoggerClock::SAME, about.to_owned())
            }
            None => {
                let clock = logger
                    .align(patterns)
                    .map_err(|e| Failure::refused(format!("{e}; --power-offset gives the difference")))?;
                let (offset, drift) = (clock.offset, clock.drift * 1e6);
                (clock, format!("its clock was {offset:+.1} s ahead and gained {drift:.0} µs a second, by the load"))
            }
        };
        let serial = logger.serial.as_ref().map_or(String::new(), |serial| format!(" (serial number {serial})"));
        let about = format!("energy: logger {}{serial}; {about}", self.path.display());
        Ok(Samples { source: format!("logger {}", self.path.display()), logger, clock, about })
    }
}

/// `3s`, `-1.5s`, `+200ms`.
fn signed_seconds(text: &str) -> Result<f64, Failure> {
    let (sign, plain) = match text.strip_prefix('-') {
        Some(plain) => (-1.0, plain),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let time = units::time(plain, units::BareTime::Seconds);
    Ok(sign * time.map_err(|e| Failure::refused(format!("--power-offset: {e}")))?.as_secs_f64())
}

/// A log that was read, with its clock's offset.
struct Samples {
    logger: Logger,
    clock: LoggerClock,
    source: String,
    about: String,
}

impl Samples {
    fn fill(&self, runs: &mut [RunResult]) -> Result<Vec<String>, Failure> {
        let mut notes = vec![self.about.clone()];
        let mut missing: BTreeMap<String, u64> = BTreeMap::new();
        let mut found = 0;
        for run in runs.iter_mut() {
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
                    run.energy = Some(Energy::of_run(run, drawn.joules, &self.source));
                    found += 1;
                    notes.extend(drawn.warning.map(|w| format!("energy: {w}")).filter(|w| !notes.contains(w)));
                }
                Err(why) => *missing.entry(why).or_default() += 1,
            }
        }
        let missing: Vec<String> =
            missing.iter().map(|(why, n)| format!("no energy for {n} of {} runs: {why}", runs.len())).collect();
        if found == 0 {
            let about = self.about.trim_start_matches("energy: ");
            return Err(Failure::refused(format!("{}: {about}", missing.join("; "))));
        }
        notes.extend(missing);
        Ok(notes)
    }
}
