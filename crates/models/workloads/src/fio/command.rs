//! fio's command line, as it is pasted: behind a prompt or `sudo`, over several lines, beside other text.
//!
//! Options before the first `--name` are those of [global]; each `--name` begins a job. A word without dashes is a job file.
//! Several commands run one after another.

use super::FioWarning;
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

/// Whether a text is a command line of fio rather than a job file: it has a command and no section.
pub fn is_command_line(text: &str) -> bool {
    let section = |line: &str| {
        let line = line.trim();
        line.len() > 2 && line.starts_with('[') && line.ends_with(']')
    };
    !text.lines().any(section) && logical_lines(text).iter().any(|(line, text)| starts(&split(text, *line)).is_some())
}

/// The lines of a text with those that go on one another joined: behind a backslash (or what other shells have for it), and before
/// options that a page has wrapped. Each has the number of its first.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines = text.trim_start_matches('\u{feff}').lines().enumerate().peekable();
    let mut found = Vec::new();
    while let Some((number, line)) = lines.next() {
        let mut whole = line.trim_end().to_string();
        loop {
            let goes_on = whole.ends_with(['\\', '^', '`']);
            let wrapped = |(_, next): &(usize, &str)| {
                next.trim_start().trim_start_matches("> ").starts_with("--") && whole.contains("fio")
            };
            if !goes_on && !lines.peek().is_some_and(wrapped) {
                break;
            }
            whole.truncate(whole.len() - usize::from(goes_on));
            let Some((_, next)) = lines.next() else { break };
            whole += "\n";
            whole += next.trim().trim_start_matches("> ");
        }
        found.push((number + 1, whole));
    }
    found
}

/// Whether a line beside the sections of a job file is what a shell was told: how the file was shown, written or run.
pub(super) fn is_shell(line: &str) -> bool {
    let prompt = line.find(['$', '#']).is_some_and(|at| line[at..].starts_with(['$', '#']) && line[..at].contains('@'));
    let words = split(line, 1);
    let told = words.first().is_some_and(|(_, word)| matches!(word.as_str(), "$" | "cat"));
    line == "EOF" || told || prompt && words.len() > 1 || starts(&words).is_some()
}

/// The number of the word `fio` of a command among the words of a line.
fn starts(words: &[(usize, String)]) -> Option<usize> {
    let program = |word: &str| {
        let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
        matches!(name.trim_start_matches(['$', '#', '%', '>']), "fio" | "fio.exe")
    };
    let option =
        |word: &str| undashed(word).is_some_and(|name| name.starts_with(char::is_alphabetic)) || is_job_file(word);
    words.windows(2).take(24).position(|pair| program(&pair[0].1) && option(&pair[1].1))
}

fn is_job_file(word: &str) -> bool {
    [".fio", ".ini", ".job"].iter().any(|end| word.ends_with(end))
}

/// An option's word without its dashes, which a word processor may have changed.
fn undashed(word: &str) -> Option<&str> {
    let rest = word.trim_start_matches(['-', '–', '—', '−']);
    (rest.len() < word.len() && !rest.is_empty()).then_some(rest)
}

/// The words of a line as a shell splits it; quotes are taken off. A word that ends the command (`;`, `|`, `>`) is one of its own.
fn split(text: &str, first_line: usize) -> Vec<(usize, String)> {
    let (mut words, mut word, mut quote, mut line) = (Vec::new(), None::<String>, None, first_line);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        line += usize::from(c == '\n');
        match (quote, c) {
            (Some(open), c) if closes(open, c) => quote = None,
            (None, '\'' | '"' | '“' | '”' | '‘' | '’') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"' | '“' | '”'), '\\') if chars.peek().is_some_and(|next| !next.is_alphanumeric()) => {
                let next = chars.next().unwrap_or_default();
                // fio's own escape of a colon stays.
                let kept = if next == ':' { "\\:".to_string() } else { next.to_string() };
                if next != '\n' {
                    word.get_or_insert_default().push_str(&kept);
                }
            }
            (None, c) if c.is_whitespace() => words.extend(word.take().map(|word| (line, word))),
            (None, ';' | '|' | '&' | '>' | '<') => {
                words.extend(word.take().map(|word| (line, word)));
                words.push((line, c.to_string()));
            }
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word.map(|word| (line, word)));
    words
}

fn closes(open: char, c: char) -> bool {
    match open {
        '“' | '”' => matches!(c, '“' | '”'),
        '‘' | '’' => matches!(c, '‘' | '’'),
        open => open == c,
    }
}

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
    warnings: &mut Vec<FioWarning>,
) -> Result<Vec<Vec<Section>>, Wrong> {
    let (commands, other) = commands(text);
    let path = all.files[0].clone();
    let mut warn = |line: usize, text: String| warnings.push(FioWarning { path: path.clone(), line, text });
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
        let value = variables(key, &value, all).map_err(|reason| (at(*line), reason))?;
        if key == "name" {
            all.found.push(section(*line, &value));
            continue;
        }
        let setting = Setting { at: at(*line), key: key.to_string(), value };
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
