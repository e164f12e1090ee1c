//! The options of a section and of [global] before it, and the setters of those that concern the job file.

use crate::generate::JobSpec;
use crate::options::form::Form;
use dumbwaiter_text::units::{self, Prefixes};

/// Options set by a section.
#[derive(Clone, Debug)]
pub(crate) struct JobState {
    pub(crate) spec: JobSpec,
    pub(crate) prefixes: Prefixes,
    pub(crate) name: Option<String>,
    pub(crate) numjobs: u32,
    pub(crate) stonewall: bool,
    pub(crate) cpus: Vec<u16>,
    /// Files or devices; several take the I/Os in turn.
    pub(crate) filenames: Vec<String>,
    pub(crate) filesize: Option<u64>,
    /// Each file is done before the next.
    pub(crate) file_by_file: bool,
    pub(crate) placed: bool,
    pub(crate) cgroup: Option<String>,
    pub(crate) cgroup_weight: Option<u32>,
    pub(crate) traces: Vec<String>,
    pub(crate) no_stall: bool,
    pub(crate) time_scale: u32,
    /// Warning about the option that was set last.
    pub(crate) warning: Option<&'static str>,
}

impl Default for JobState {
    fn default() -> Self {
        JobState {
            spec: JobSpec::fio(),
            prefixes: Prefixes::Fio1024,
            name: None,
            numjobs: 1,
            stonewall: false,
            cpus: Vec::new(),
            filenames: Vec::new(),
            filesize: None,
            file_by_file: false,
            placed: false,
            cgroup: None,
            cgroup_weight: None,
            traces: Vec::new(),
            no_stall: false,
            time_scale: 100,
            warning: None,
        }
    }
}

/// An option with its value, as given.
pub(crate) struct Given<'a> {
    pub(crate) key: &'a str,
    pub(crate) value: &'a str,
    pub(crate) prefixes: Prefixes,
}

impl Given<'_> {
    fn bad(&self, expected: &str) -> String {
        format!("{}: {:?} is not {expected}", self.key, self.value)
    }

    /// The value in this form, or what is wrong with it.
    pub(crate) fn read<T>(&self, form: &impl Form<T>) -> Result<T, String> {
        form.read(self.value, self.prefixes).map_err(|e| format!("{}: {e}", self.key))
    }
}

type Set = Result<(), String>;

pub(crate) fn base(state: &mut JobState, given: &Given) -> Set {
    state.prefixes = match given.value {
        "1024" => Prefixes::Fio1024,
        "1000" => Prefixes::Fio1000,
        _ => return Err(given.bad("1000 or 1024")),
    };
    Ok(())
}

/// Names with colons between; `\\:` is a colon of a name.
fn names(text: &str) -> Vec<String> {
    text.replace("\\:", "\0").split(':').map(|name| name.trim().replace('\0', ":")).collect()
}

pub(crate) fn file_names(state: &mut JobState, given: &Given) -> Set {
    let found = names(given.value);
    if found.iter().any(String::is_empty) {
        return Err(given.bad("a name, or several with colons between"));
    }
    state.filenames = found;
    Ok(())
}

pub(crate) fn file_service(state: &mut JobState, given: &Given) -> Set {
    state.file_by_file = given.value == "sequential";
    Ok(())
}

pub(crate) fn file_size(state: &mut JobState, given: &Given) -> Set {
    let size = |text: &str| units::size(text, given.prefixes).ok();
    let found = match given.value.split_once('-') {
        // fio draws a size for each file; here they are equal.
        Some((least, most)) => size(least).zip(size(most)).map(|(least, most)| least.midpoint(most)),
        None => size(given.value),
    };
    state.filesize =
        Some(found.ok_or_else(|| given.bad("a size, or a range of sizes such as 1m-4m"))?).filter(|n| *n > 0);
    if given.value.contains('-') {
        state.warning = Some("each file has the size in the middle of the range");
    }
    Ok(())
}

pub(crate) fn cpu_list(state: &mut JobState, given: &Given) -> Set {
    state.cpus = cpus(given.value).ok_or_else(|| given.bad("a list of processors such as 0,5,8-15"))?;
    Ok(())
}

/// Parses a CPU list such as `0,5,8-15`.
fn cpus(text: &str) -> Option<Vec<u16>> {
    let mut cpus = Vec::new();
    for part in text.split([',', ' ']).filter(|part| !part.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u16, u16) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        if to < from || to >= 4096 {
            return None;
        }
        cpus.extend(from..=to);
    }
    cpus.sort_unstable();
    cpus.dedup();
    (!cpus.is_empty()).then_some(cpus)
}

pub(crate) fn cpu_mask(state: &mut JobState, given: &Given) -> Set {
    let mask = units::count(given.value).ok().filter(|mask| *mask > 0);
    let mask = mask.ok_or_else(|| given.bad("a bit mask of processors"))?;
    state.cpus = (0..64).filter(|cpu| mask >> cpu & 1 == 1).collect();
    Ok(())
}

pub(crate) fn cpu_policy(state: &mut JobState, given: &Given) -> Set {
    match given.value {
        "split" => {}
        "shared" => state.warning = Some("instances take the processors in turn, as with split"),
        _ => return Err(given.bad("shared or split")),
    }
    Ok(())
}

pub(crate) fn trace_files(state: &mut JobState, given: &Given) -> Set {
    state.traces = names(given.value);
    match state.traces.iter().any(|name| name.is_empty() || name == "-") {
        true => Err(given.bad("one or more files with colons between")),
        false => Ok(()),
    }
}
