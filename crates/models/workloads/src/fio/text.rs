//! The text of a job file: sections with their settings, variables filled in, other files included.

use super::outside::Outside;
use super::shell::is_shell;

/// Where something is written: the number of the file among those that are read, and the line from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At {
    pub(super) file: usize,
    pub(super) line: usize,
}

/// `key=value`, or a bare key, whose value is 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) at: At,
    pub(super) key: String,
    pub(super) value: String,
    /// The value as it is written, where that has variables: no message shows what they hold.
    pub(super) written: Option<String>,
}

impl Setting {
    /// `written`: the value before its variables were filled in.
    pub(super) fn new(at: At, key: &str, written: &str, value: String) -> Setting {
        let written = (written != value).then(|| written.to_string());
        Setting { at, key: key.to_string(), value, written }
    }
}

/// A title and the settings below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) at: At,
    pub(super) title: String,
    pub(super) settings: Vec<Setting>,
}

/// Where a text is wrong, and why.
pub(super) type Wrong = (At, String);

/// Deepest nesting of included files, as in fio.
const NESTING_MAX: usize = 16;

/// Sections, and the files that they are from.
pub(super) struct Sections<'a> {
    pub(super) outside: &'a Outside<'a>,
    /// Names of the files; the first is the one that was given.
    pub(super) files: Vec<String>,
    pub(super) found: Vec<Section>,
}

impl<'a> Sections<'a> {
    pub(super) fn new(path: &str, outside: &'a Outside<'a>) -> Sections<'a> {
        Sections { outside, files: vec![path.to_string()], found: Vec::new() }
    }

    /// Reads the text of the file with this number.
    pub(super) fn read(&mut self, text: &str, file: usize, depth: usize) -> Result<(), Wrong> {
        for (number, raw) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            let at = At { file, line: number + 1 };
            let content = uncommented(raw).trim();
            if content.is_empty() || is_shell(content) {
                continue;
            }
            if let Some(rest) = content.strip_prefix('[') {
                let title = rest.strip_suffix(']').map(str::trim).filter(|title| !title.is_empty());
                let Some(title) = title else {
                    return Err((at, format!("{content:?} is not a section title such as [job1]")));
                };
                self.found.push(Section { at, title: title.to_string(), settings: Vec::new() });
                continue;
            }
            if let Some(name) = content.strip_prefix("include").filter(|rest| rest.starts_with(char::is_whitespace)) {
                self.include(name.trim(), at, depth)?;
                continue;
            }
            let (key, written) =
                content.split_once('=').map_or((content, "1"), |(key, value)| (key.trim(), value.trim()));
            let value = expand(written, self.outside).map_err(|reason| (at, reason))?;
            if key.is_empty() || key.contains(char::is_whitespace) {
                return Err((at, format!("{content:?} is not an option such as bs=4k")));
            }
            let Some(section) = self.found.last_mut() else {
                let expected = "put [global] or a job's name above it";
                return Err((at, format!("{key} appears before the first section; {expected}")));
            };
            section.settings.push(Setting::new(at, key, written, value));
        }
        Ok(())
    }

    /// Reads another file in its place.
    pub(super) fn include(&mut self, name: &str, at: At, depth: usize) -> Result<(), Wrong> {
        if depth == NESTING_MAX {
            return Err((at, format!("include {name}: more than {NESTING_MAX} files include each other")));
        }
        let read = (self.outside.file)(&self.files[at.file], name);
        let (path, text) = read.map_err(|reason| (at, format!("include {name}: {reason}")))?;
        self.files.push(path);
        self.read(&text, self.files.len() - 1, depth + 1)
    }
}

/// The line without its comment, which begins with `;` or `#` at the start or after a blank.
fn uncommented(line: &str) -> &str {
    let begins = |(at, c): &(usize, char)| {
        matches!(c, ';' | '#') && line[..*at].chars().next_back().is_none_or(char::is_whitespace)
    };
    let end = line.char_indices().find(begins).map_or(line.len(), |(at, _)| at);
    &line[..end]
}

/// Replaces each `${NAME}` in a value. An unset variable is an error; fio would silently insert nothing.
pub(super) fn expand(value: &str, outside: &Outside) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), value);
    while let Some(at) = rest.find("${") {
        let Some(end) = rest[at..].find('}') else {
            return Err(format!("{value:?} has a ${{ without its }}"));
        };
        let name = &rest[at + 2..at + end];
        let Some(found) = (outside.variable)(name).filter(|found| !found.is_empty()) else {
            return Err(format!("{value:?}: the environment variable {name:?} is not set"));
        };
        out += &rest[..at];
        out += &found;
        rest = &rest[at + end + 1..];
    }
    Ok(out + rest)
}
