//! fio's command line, as it is pasted: behind a prompt or `sudo`, over several lines, beside other text.
//!
//! Options before the first `--name` are those of [global]; each `--name` begins a job. A word without dashes is a job file.
//! Several commands run one after another.

use super::shell::{is_job_file, logical_lines, split, starts, undashed};
use super::text::{At, Section, Sections, Setting, Wrong, expand};
use crate::options;

/// A command: its words behind `fio`, each with its line, and the words before.
struct Command {
    line: usize,
    before: Vec<String>,
    words: Vec<(usize, String)>,
}

/// Options of the command alone, with a value: output, and how it is run.
const WITH_VALUE: &[&str] = &[
    "output",
    "output_format",
    "terse_version",
    "eta",
    "eta_newline",
    "eta_interval",
    "status_interval",
    "debug",
    "section",
    "max_jobs",
    "alloc_size",
    "server",
    "client",
    "remote_config",
    "aux_path",
    "trigger_file",
    "trigger",
    "trigger_timeout",
    "trigger_remote",
    "idle_prof",
    "inflate_log",
    "daemonize",
    "cmdhelp",
    "enghelp",
];

/// The same without one.
const WITHOUT_VALUE: &[&str] = &[
    "minimal",
    "append_terse",
    "readonly",
    "parse_only",
    "showcmd",
    "version",
    "help",
    "cpuclock_test",
    "crctest",
    "warnings_fatal",
    "bandwidth_log",
    "latency_log",
    "merge_blktrace_only",
    "bandwidth-log",
];

/// Job options that take no value behind a blank.
const FLAGS: &[&str] = &[
    "norandommap",
    "time_based",
    "group_reporting",
    "thread",
    "stonewall",
    "wait_for_previous",
    "new_group",
    "exitall",
    "hipri",
    "registerfiles",
    "fixedbufs",
    "nonvectored",
    "force_async",
    "bs_unaligned",
    "blocksize_unaligned",
    "sqthread_poll",
    "nowait",
    "uncached",
];

/// Programs before `fio` that change how its I/O is scheduled.
const WRAPPERS: &[&str] = &["ionice", "nice", "chrt", "taskset", "numactl", "cgexec", "systemd-run"];

/// The commands of a text, and what else is in it: the number of lines, and the first.
fn commands(text: &str) -> (Vec<Command>, Option<(usize, usize, String)>) {
    let (mut found, mut other) = (Vec::new(), None::<(usize, usize, String)>);
    for (number, line) in logical_lines(text) {
        let mut words = split(&line, number);
        if starts(&words).is_none() {
            if !line.trim().is_empty() && !line.trim_start().starts_with(['#', ';']) {
                let (_, count, _) = other.get_or_insert_with(|| (number, 0, line.trim().to_string()));
                *count += 1;
            }
            continue;
        }
        while let Some(at) = starts(&words) {
            let mut rest = words.split_off(at + 1);
            let ends = |(_, word): &(usize, String)| {
                matches!(word.as_str(), ";" | "|" | "&" | ">" | "<") || word.starts_with('#')
            };
            let end = rest.iter().position(ends).unwrap_or(rest.len());
            let behind = rest.split_off(end);
            // The number of a redirection: 2>&1.
            if behind.first().is_some_and(|(_, word)| word == ">")
                && rest.last().is_some_and(|(_, w)| w == "2" || w == "1")
            {
                rest.pop();
            }
            let line = words[at].0;
            let before = words.into_iter().take(at).map(|(_, word)| word).collect();
            found.push(Command { line, before, words: rest });
            words = behind;
        }
    }
    (found, other)
}

/// The sections of each command of a text.
pub(super) fn sections(
    text: &str,
    all: &mut Sections,
    warnings: &mut Vec<(At, String)>,
) -> Result<Vec<Vec<Section>>, Wrong> {
    let (commands, other) = commands(text);
    let mut warn = |line: usize, text: String| warnings.push((At { file: 0, line }, text));
    let mut groups = Vec::new();
    for command in commands {
        if let Some(word) = command.before.iter().find(|word| WRAPPERS.contains(&word.as_str())) {
            warn(command.line, format!("{word} before fio is left out: give the job prioclass, nice or cpus_allowed"));
        }
        of_command(&command, all)?;
        groups.push(std::mem::take(&mut all.found));
    }
    if let Some((line, count, first)) = other {
        let first: String = first.chars().take(60).collect();
        warn(line, format!("lines that are no fio command are left out: {count}, the first {first:?}"));
    }
    Ok(groups)
}

/// Adds the sections of one command.
fn of_command(command: &Command, all: &mut Sections) -> Result<(), Wrong> {
    let at = |line| At { file: 0, line };
    let section = |line, title: &str| Section { at: at(line), title: title.to_string(), settings: Vec::new() };
    let (mut only, mut files) = (Vec::new(), false);
    all.found.push(section(command.line, "global"));
    let mut words = command.words.iter().peekable();
    while let Some((line, word)) = words.next() {
        let Some(option) = undashed(word) else {
            all.include(word, at(*line), 0)?;
            files = true;
            continue;
        };
        let (key, mut value) = match option.split_once('=') {
            Some((key, value)) => (key, Some(value.to_string())),
            None => (option, None),
        };
        let own = key.replace('-', "_");
        let takes = !FLAGS.contains(&key) && !WITHOUT_VALUE.contains(&own.as_str());
        let follows = |word: &str| undashed(word).is_none() && (!is_job_file(word) || key == "output");
        if value.is_none() && takes && words.peek().is_some_and(|(_, next)| follows(next)) {
            value = words.next().map(|(_, next)| next.clone());
        }
        if options::find(key).is_none() && (WITH_VALUE.contains(&own.as_str()) || WITHOUT_VALUE.contains(&own.as_str()))
        {
            only.extend(value.filter(|_| own == "section"));
            continue;
        }
        let value = value.unwrap_or_else(|| "1".to_string());
        let written = value;
        let value = variables(key, &written, all).map_err(|reason| (at(*line), reason))?;
        if key == "name" {
            all.found.push(section(*line, &value));
            continue;
        }
        let setting = Setting::new(at(*line), key, &written, value);
        all.found.last_mut().expect("[global] is there").settings.push(setting);
    }
    if !only.is_empty() {
        all.found.retain(|section| section.title == "global" || only.contains(&section.title));
    }
    // Without a name and a file the options are those of one job.
    if !files && all.found.iter().all(|section| section.title == "global") {
        all.found[0].title = "fio".to_string();
    }
    Ok(())
}

/// A value with `$NAME` and `${NAME}` filled in. Names of files may stay as they are.
fn variables(key: &str, value: &str, all: &Sections) -> Result<String, String> {
    const KEYWORDS: [&str; 3] = ["pagesize", "mb_memory", "ncpus"];
    let name = matches!(key, "name" | "filename" | "directory" | "description" | "write_iolog");
    let (mut out, mut rest) = (String::new(), value);
    while let Some(at) = rest.find('$') {
        let behind = &rest[at + 1..];
        let end = behind.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(behind.len());
        out += &rest[..at];
        match &behind[..end] {
            "" => out.push('$'),
            keyword if KEYWORDS.contains(&keyword) => out += &rest[at..=at + end],
            variable => out += &format!("${{{variable}}}"),
        }
        rest = &behind[end..];
    }
    out += rest;
    match expand(&out, all.outside) {
        Err(_) if name => Ok(value.to_string()),
        expanded => expanded,
    }
}
