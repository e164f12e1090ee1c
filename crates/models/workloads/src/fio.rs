//! fio job files and command lines.
//!
//! The text is read as fio's manual says: sections, `[global]` for the sections after it, bare keys, comments, `include`, `${VAR}`,
//! `$pagesize`, arithmetic in parentheses, `kb_base`. A text without sections may be fio's command line. An option of fio takes effect, or is ignored with a warning
//! because it does not change the I/O, or is refused because it would change the I/O in an unsupported way. Unknown
//! options are errors.

mod command;
mod expression;
mod loose;
mod outside;
mod shell;
pub(crate) mod state;
mod text;

#[cfg(test)]
mod tests;

use std::fmt;

use dumbwaiter_block::Nanos;
use dumbwaiter_block::hint::suggest;

use crate::generate::{Extent, JobSpec, Mix};
use crate::options::{self, Effect, OPTIONS, OptionRow};
use dumbwaiter_text::units::Prefixes;
pub use outside::{Outside, ReadFile};
pub use shell::is_command_line;
use state::{Given, JobState};
use text::{At, Section, Sections, Setting};

/// A job file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}:{line}: {reason}")]
pub struct FioError {
    /// The file.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// Option, value and what was expected.
    pub reason: String,
}

/// A warning about a job file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FioWarning {
    /// The file.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The option that is ignored or handled differently.
    pub text: String,
}

impl fmt::Display for FioWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}

/// The jobs of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct FioFile {
    /// Jobs in the order of the file.
    pub jobs: Vec<FioJob>,
    /// Warnings, in the order of the file.
    pub warnings: Vec<FioWarning>,
}

/// One section of a job file.
#[derive(Clone, Debug, PartialEq)]
pub struct FioJob {
    /// `name`, or the section's title.
    pub name: String,
    /// Line of the title.
    pub line: usize,
    /// The workload of each instance.
    pub spec: JobSpec,
    /// Number of instances.
    pub numjobs: u32,
    /// Jobs of a stage run together, after those of the stages before (`stonewall`).
    pub stage: u32,
    /// CPUs (`cpus_allowed`, `cpumask`); empty for any.
    pub cpus: Vec<u16>,
    /// Files or devices, if named; several take the I/Os in turn. Without one, fio gives each instance its own file.
    pub filenames: Vec<String>,
    /// Whether the job sets its `offset` on the device.
    pub placed: bool,
    /// Control group.
    pub cgroup: Option<String>,
    /// Weight of the control group.
    pub cgroup_weight: Option<u32>,
    /// The trace to replay instead of generated I/O.
    pub trace: Option<FioTrace>,
}

/// A trace to replay (`read_iolog`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FioTrace {
    /// Files; instances take them in turn.
    pub paths: Vec<String>,
    /// Ignore recorded times and replay as fast as the depth allows.
    pub no_stall: bool,
    /// Replay speed, % of the recorded speed.
    pub time_scale: u32,
}

/// Most instances of all jobs together.
const INSTANCES_MAX: u32 = 65_535;

/// Parses a job file, or command lines of fio, which run one after another. Errors name `path`.
///
/// # Errors
/// The line, the option and the expected value.
pub fn parse(text: &str, path: &str, outside: &Outside) -> Result<FioFile, FioError> {
    let (mut found, mut sections) = (Vec::new(), Sections::new(path, outside));
    let read = match is_command_line(text) {
        true => command::sections(text, &mut sections, &mut found),
        false => sections.read(text, 0, 0).map(|()| vec![std::mem::take(&mut sections.found)]),
    };
    let mut reader = Reader { files: sections.files, warnings: found, ignored: Vec::new() };
    let mut groups = read.map_err(|(at, reason)| reader.error(at, reason))?;
    if let [sections] = groups.as_mut_slice() {
        reader.complete(sections);
    }
    let mut jobs = Vec::new();
    for sections in &groups {
        reader.jobs(sections, &mut jobs)?;
    }
    if jobs.is_empty() {
        let at = At { file: 0, line: text.lines().count().max(1) };
        return Err(reader.error(at, "there is no job: no section with options".to_string()));
    }
    // Stages follow each other in the order of the file.
    for of_stage in jobs.chunk_by_mut(|(_, a), (_, b)| a.stage == b.stage) {
        start_in_rounds(of_stage.iter_mut().map(|(_, job)| &mut job.spec.startdelay).collect());
    }
    reader.warn_of_page_cache(&jobs);
    reader.warn_of_ignored();
    reader.warnings.sort_by_key(|(at, _)| *at);
    let Reader { files, warnings: found, .. } = reader;
    let named = |(at, text): (At, String)| FioWarning { path: files[at.file].clone(), line: at.line, text };
    let warnings = found.into_iter().map(named).collect();
    Ok(FioFile { jobs: jobs.into_iter().map(|(_, job)| job).collect(), warnings })
}

/// Time between two rounds in which fio looks for jobs whose start delay is over: it sleeps for 100 ms, and a round itself took
/// some 2 ms in recordings.
const LAUNCH_ROUND: Nanos = Nanos::from_ms(102);

/// Delays the jobs of a stage to the round in which fio starts them. A round that starts jobs takes twice as long: fio sleeps
/// once more before they run. A range of delays stays as it is.
fn start_in_rounds(delays: Vec<&mut (Nanos, Nanos)>) {
    let mut fixed: Vec<&mut (Nanos, Nanos)> = delays.into_iter().filter(|delay| delay.0 == delay.1).collect();
    fixed.sort_unstable_by_key(|delay| delay.0);
    let mut round = Nanos::ZERO;
    let mut started = false;
    for delay in fixed {
        if delay.0 > round {
            round += if started { LAUNCH_ROUND + LAUNCH_ROUND } else { Nanos::ZERO };
            let early = delay.0.since(round.min(delay.0));
            round += Nanos(early.0.div_ceil(LAUNCH_ROUND.0) * LAUNCH_ROUND.0);
        }
        *delay = (round, round);
        started = true;
    }
}

/// A job, and where its section begins.
type Job = (At, FioJob);

struct Reader {
    files: Vec<String>,
    warnings: Vec<(At, String)>,
    /// Options that do not change the I/O, each with its first line.
    ignored: Vec<(At, String)>,
}

impl Reader {
    fn error(&self, at: At, reason: String) -> FioError {
        FioError { path: self.files[at.file].clone(), line: at.line, reason }
    }

    fn warn(&mut self, at: At, text: String) {
        self.warnings.push((at, text));
    }

    /// Adds the jobs of one call of fio, which begins when those before have ended.
    fn jobs(&mut self, sections: &[Section], jobs: &mut Vec<Job>) -> Result<(), FioError> {
        let (mut global, mut instances, mut first) = (JobState::default(), 0u32, true);
        let mut stage = jobs.last().map_or(0, |(_, job)| job.stage);
        for section in sections {
            if section.title == "global" {
                self.apply(&mut global, section)?;
                continue;
            }
            let mut state = global.clone();
            self.apply(&mut state, section)?;
            if (state.stonewall || first) && !jobs.is_empty() {
                stage += 1;
            }
            first = false;
            let mut job = self.finish(state, section, stage)?;
            job.spec.fio_job = Some(instances.saturating_add(1));
            instances = instances.saturating_add(job.numjobs);
            if instances > INSTANCES_MAX {
                let reason = format!("more than {INSTANCES_MAX} jobs, counted with numjobs; fio takes 4096");
                return Err(self.error(section.at, reason));
            }
            jobs.push((section.at, job));
        }
        Ok(())
    }

    /// Makes one job of a file of [global] alone, which is written for `fio FILE --name=NAME --filename=DEVICE`.
    fn complete(&mut self, sections: &mut Vec<Section>) {
        let last = sections.iter().rfind(|section| !section.settings.is_empty());
        let Some(at) = last.map(|last| last.at).filter(|_| sections.iter().all(|section| section.title == "global"))
        else {
            return;
        };
        let text =
            "no section beside [global], where fio finds no job: taken as one job, as `fio FILE --name=job` does";
        self.warn(at, text.to_string());
        sections.push(Section { at, title: "job".to_string(), settings: Vec::new() });
    }

    /// Applies a section's options. `kb_base` applies to the whole section, wherever it appears.
    fn apply(&mut self, state: &mut JobState, section: &Section) -> Result<(), FioError> {
        let (bases, others): (Vec<&Setting>, Vec<_>) = section.settings.iter().partition(|s| s.key == "kb_base");
        bases.into_iter().chain(others).try_for_each(|setting| {
            let Setting { at, key, written, .. } = setting;
            let Some(row) = options::find(key).filter(|row| row.in_job_file()) else {
                return Err(self.error(*at, format!("unknown option `{key}`{}", suggest(options::meant(key)))));
            };
            self.set(state, setting, row).map_err(|error| match written {
                // The reason names the value, and with it what its variables hold.
                Some(written) => {
                    let reason = "the values of its variables, which are not shown, are not what the option takes";
                    self.error(*at, format!("{key}={written}: {reason}"))
                }
                None => error,
            })
        })
    }

    fn set(&mut self, state: &mut JobState, setting: &Setting, row: &OptionRow) -> Result<(), FioError> {
        let Setting { at, key, value, .. } = setting;
        if let Effect::Ignored = row.effect {
            if !self.ignored.iter().any(|(_, other)| other == key) {
                self.ignored.push((*at, key.clone()));
            }
            return Ok(());
        }
        let prefixes = state.prefixes;
        let value = expression::expand(value, row.job().is_some_and(|option| option.time), prefixes)
            .map_err(|reason| self.error(*at, format!("{key}: {value:?} {reason}")))?;
        match &row.effect {
            Effect::Job(_) => {
                state.placed |= matches!(key.as_str(), "offset" | "offset_increment");
                if let Some(suffix) = doubtful_suffix(&value).filter(|_| prefixes == Prefixes::Fio1024) {
                    self.warn(*at, format!("{key}={value}: with kb_base=1024, fio takes {suffix} as a power of 1000"));
                }
                self.set_as_fio(&mut state.spec, setting, &value, prefixes)?;
                if key == "ioengine" && state.spec.ioengine.bypasses_kernel {
                    self.warn(*at, format!("ioengine={value}: its I/O goes to the device of the scenario"));
                }
            }
            Effect::File(set) => {
                set(state, &Given { key, value: &value, prefixes }).map_err(|reason| self.error(*at, reason))?;
                if let Some(warning) = state.warning.take() {
                    self.warn(*at, format!("{key}={value}: {warning}"));
                }
            }
            Effect::Ignored => {}
            Effect::Refused(off) if off.contains(&value.as_str()) => {}
            Effect::Refused(_) => {
                let reason = format!("{key}={value} would change the I/O and is not supported: {}", row.about);
                return Err(self.error(*at, reason));
            }
        }
        Ok(())
    }

    /// Sets an option of a job to what fio reads of its value, and says so where that is not what stands there.
    fn set_as_fio(
        &mut self,
        spec: &mut JobSpec,
        of: &Setting,
        value: &str,
        prefixes: Prefixes,
    ) -> Result<(), FioError> {
        let Setting { at, key, written, .. } = of;
        let read = loose::as_fio_reads(key, value);
        // `bs` is one size, where a scenario also takes a range or a split.
        let one_size = read.as_deref().filter(|_| matches!(key.as_str(), "bs" | "blocksize"));
        let strict = spec.set(key, one_size.unwrap_or(value), prefixes);
        let taken = match (&strict, one_size) {
            (Ok(()), None) => return Ok(()),
            (Ok(()), Some(_)) => read,
            (Err(_), _) => read.filter(|read| spec.set(key, read, prefixes).is_ok()),
        };
        match (taken, strict) {
            (Some(read), _) => {
                let text = match written {
                    Some(written) => {
                        format!("={written}: fio reads a part of what its variables hold; so it is taken here")
                    }
                    None => format!(": {}", loose::told(key, value, &read)),
                };
                self.warn(*at, format!("{key}{text}"));
                Ok(())
            }
            (None, strict) => strict.map_err(|e| self.error(*at, e.to_string())),
        }
    }

    /// Checks a job as a whole and completes it.
    fn finish(&mut self, state: JobState, section: &Section, stage: u32) -> Result<FioJob, FioError> {
        let JobState { mut spec, name, numjobs, cpus, filenames, filesize, placed, cgroup, cgroup_weight, .. } = state;
        let name = name.unwrap_or_else(|| section.title.clone());
        let line = section.at;
        if !filenames.is_empty() {
            spec.nrfiles = filenames.len() as u32;
        }
        if let Some(filesize) = filesize {
            spec.io_size = spec.io_size.or(spec.size);
            spec.size = Some(Extent::Bytes(filesize.saturating_mul(u64::from(spec.nrfiles))));
        }
        if !state.file_by_file {
            self.warn_of_files(&name, &spec, &filenames, line);
        } else {
            spec.nrfiles = 1;
        }
        if let Some(note) = spec.rounded_note() {
            self.warn(line, format!("job {name:?}: {note}"));
        }
        spec.validate().map_err(|e| self.error(line, format!("job {name:?}: {e}")))?;
        if spec.ioengine.synchronous && spec.iodepth > 1 {
            let engine = spec.ioengine.name;
            self.warn(
                line,
                format!("job {name:?}: {engine} does one I/O at a time; iodepth={} has no effect", spec.iodepth),
            );
        }
        if cgroup_weight.is_some() && cgroup.is_none() {
            return Err(self.error(line, format!("job {name:?}: cgroup_weight needs a cgroup")));
        }
        let trace = (!state.traces.is_empty()).then_some(FioTrace {
            paths: state.traces,
            no_stall: state.no_stall,
            time_scale: state.time_scale,
        });
        let line = line.line;
        Ok(FioJob { name, line, spec, numjobs, stage, cpus, filenames, placed, cgroup, cgroup_weight, trace })
    }

    /// A job over several files or drives.
    fn warn_of_files(&mut self, name: &str, spec: &JobSpec, filenames: &[String], at: At) {
        if spec.nrfiles < 2 {
            return;
        }
        let (files, depth) = (spec.nrfiles, spec.depth());
        let what = if filenames.iter().any(|name| name.starts_with("/dev/")) { "drives" } else { "files" };
        let text = match what {
            "drives" => format!("job {name:?}: its {files} drives take the I/Os in turn, {depth} at once in all"),
            _ => {
                format!("job {name:?}: its {files} files are equal parts of the one device, and take the I/Os in turn")
            }
        };
        self.warn(at, text);
    }

    /// One line for all of them.
    fn warn_of_ignored(&mut self) {
        let Some((first, _)) = self.ignored.first() else { return };
        let (first, names) = (*first, self.ignored.iter().map(|(_, key)| key.as_str()).collect::<Vec<_>>().join(", "));
        self.warn(first, format!("ignored fio options, which do not change the I/O here: {names}"));
    }

    fn warn_of_page_cache(&mut self, jobs: &[Job]) {
        let cached = |(_, job): &&Job| {
            job.trace.is_none() && !job.spec.direct && matches!(job.spec.rw.mix, Mix::Read | Mix::ReadWrite)
        };
        let Some(first) = jobs.iter().find(cached) else { return };
        let names: Vec<String> = jobs.iter().filter(cached).map(|(_, job)| format!("{:?}", job.name)).collect();
        let who = if names.len() == 1 { "job" } else { "jobs" };
        let text = format!(
            "{who} {}: direct=0: in simulation its reads go through a page cache, with read-ahead, and what is in memory is not \
             read again; set direct=1 to go past it",
            names.join(", ")
        );
        self.warn(first.0, text);
    }
}

/// The first unit such as KiB in a value.
fn doubtful_suffix(value: &str) -> Option<&str> {
    value.split([',', '/', ':', '-']).find_map(|part| {
        let at = part.trim_start().find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let suffix = part.trim_start()[at..].trim();
        let lower = suffix.to_ascii_lowercase();
        let binary = lower
            .strip_suffix("ib")
            .or(lower.strip_suffix('i'))
            .is_some_and(|p| matches!(p, "k" | "m" | "g" | "t" | "p"));
        (at > 0 && binary).then_some(suffix)
    })
}

/// The table of all options for the manual: names, what becomes of them, and a line on each.
pub fn option_table() -> String {
    let mut table = "| options | in a job file | |\n|---|---|---|\n".to_string();
    for row in OPTIONS.iter().filter(|row| row.in_job_file()) {
        let names: Vec<String> = row.names().map(|name| format!("`{name}`")).collect();
        let effect = match row.effect {
            Effect::Job(_) | Effect::File(_) => "read".to_string(),
            Effect::Ignored => "ignored".to_string(),
            Effect::Refused([]) => "refused".to_string(),
            Effect::Refused(off) => format!("refused, except `{}`", off.join("`, `")),
        };
        table += &format!("| {} | {effect} | {} |\n", names.join(", "), row.about);
    }
    table
}
